"""Networks: sizes that the papers state, shapes, and what happens to wrong settings."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from calibrant import models
from calibrant._math.errors import InputError


def build(text: str, shape: tuple[int, ...] = (3, 32, 32), classes: int = 10) -> nn.Module:
    """A network from a fixed seed."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return models.build(text, input_shape=shape, num_classes=classes)


@pytest.mark.parametrize(
    ("text", "classes", "size"),
    [
        ("resnet(blocks=(2, 2, 2, 2), width=64)", 10, 11_173_962),
        ("resnet(blocks=(3, 4, 6, 3), width=64, bottleneck=True)", 10, 23_520_842),
        ("resnet(blocks=(3, 4, 6, 3), width=64, bottleneck=True)", 100, 23_705_252),
        ("resnet(blocks=(3, 4, 26, 3), width=64, bottleneck=True)", 100, 46_048_932),
        ("resnet(blocks=(18, 18, 18), width=16)", 10, 1_730_714),
    ],
)
def test_resnets_have_the_published_numbers_of_parameters(text, classes, size) -> None:
    """Counts of the networks that the papers train, as their own code builds them."""
    with torch.device("meta"):
        model = models.build(text, input_shape=(3, 32, 32), num_classes=classes)
    assert sum(parameter.numel() for parameter in model.parameters()) == size


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("mlp", (64,)),
        ("mlp(widths=(), dropout=0.5)", (1, 8, 8)),
        ("cnn(width=4, hidden=8, dropout=0.1)", (1, 28, 28)),
        ("cnn(width=4)", (3, 9, 5)),
        ("resnet(blocks=(1, 1), width=4)", (3, 32, 32)),
        ("resnet(blocks=(1, 2), width=4, bottleneck=True)", (1, 28, 28)),
    ],
)
def test_logits_have_one_column_per_class_and_gradients_reach_every_parameter(text, shape) -> None:
    """Any input shape works, and nothing is left out of the graph."""
    model = build(text, shape, 7)
    logits = model(torch.randn(5, *shape, generator=torch.Generator().manual_seed(1)))
    assert logits.shape == (5, 7)
    logits.square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    layer = models.last_linear(model)
    assert layer is not None
    assert layer.out_features == 7


def test_the_seed_decides_the_weights() -> None:
    """The same generator state gives the same weights."""
    first, second = build("resnet(blocks=(1,), width=4)"), build("resnet(blocks=(1,), width=4)")
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("resnt", "did you mean 'resnet'"),
        ("mlp(width=3)", "did you mean 'widths'"),
        ("mlp(widths=3)", "`widths` must be"),
        ("mlp(widths=(0,))", "integer of 1 or more"),
        ("mlp(dropout=1.0)", r"\[0, 1\)"),
        ("resnet(blocks=())", "1 or more integers"),
        ("cnn(width=True)", "integer of 1 or more"),
        ("no_such_module:make", "cannot be imported"),
        ("fractions:Fractio", "did you mean 'Fraction'"),
        ("fractions:Fraction(numerator=1)", "must give a torch.nn.Module"),
        ("torch.nn:Linear(in_feature=1, out_features=2)", "did you mean 'in_features'"),
    ],
)
def test_mistakes_are_named(text, words) -> None:
    """Unknown names and values out of range end in one sentence."""
    with pytest.raises(InputError, match=words):
        build(text)


@pytest.mark.parametrize("text", ["cnn", "resnet"])
def test_convolutions_refuse_features(text) -> None:
    """Features have no rows and columns."""
    with pytest.raises(InputError, match="For features there is mlp"):
        build(text, (64,))


def test_your_own_factory_gets_what_it_asks_for() -> None:
    """``input_shape`` and ``num_classes`` go to parameters of these names, settings to the others."""
    model = models.build("calibrant.models.mlp:MLP(widths=(3,))", input_shape=(2, 2), num_classes=5)
    assert [layer.out_features for layer in model.modules() if isinstance(layer, nn.Linear)] == [3, 5]
