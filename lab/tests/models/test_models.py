"""Networks: sizes that the papers state, shapes, and what happens to wrong settings."""

import pytest
import torch
from torch import nn

from calibrant.curvature import HessianOperator
from calibrant_lab import models
from refusals import refused

SMALLEST = (
    "lenet",
    "strided-cnn(width=4)",
    "cifar-resnet(depth=18, width=4)",
    "he-resnet(depth=8, width=4)",
    "fast-resnet(widths=(4, 6, 8))",
    "tiny-imagenet-resnet(depth=18, width=4)",
    "wide-resnet(depth=8, width=1)",
    "cifar-densenet(depth=121, growth=2)",
    "densenet(depth=121, growth=2)",
    "vit(size='tiny', patch=16, depth=1)",
)


def build(text: str, shape: tuple[int, ...] = (3, 32, 32), classes: int = 10) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return models.build(text, input_shape=shape, num_classes=classes)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("mlp", (64,)),
        ("mlp(widths=(), dropout=0.5)", (1, 8, 8)),
        ("cnn(width=4, hidden=8, dropout=0.1)", (1, 28, 28)),
        ("cnn(width=4)", (3, 9, 5)),
        ("resnet(blocks=(1, 1), width=4)", (3, 32, 32)),
        ("resnet(blocks=(1, 2), width=4, bottleneck=True)", (1, 28, 28)),
        *((text, (3, 32, 32)) for text in SMALLEST),
        ("lenet(activation='relu')", (1, 12, 35)),
        ("vit(size='tiny', patch=8, depth=1, dropout=0.1)", (1, 16, 24)),
    ],
)
def test_logits_have_one_column_per_class_and_gradients_reach_every_parameter(text, shape) -> None:
    model = build(text, shape, 7)
    logits = model(torch.randn(5, *shape, generator=torch.Generator().manual_seed(1)))
    assert logits.shape == (5, 7)
    logits.square().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    layer = models.last_linear(model)
    assert layer.out_features == 7


PUBLISHED = [
    ("cifar-resnet(depth=18)", (3, 32, 32), {10: 11_173_962, 100: 11_220_132}),
    ("cifar-resnet(depth=50)", (3, 32, 32), {10: 23_520_842, 100: 23_705_252}),
    ("cifar-resnet(depth=110)", (3, 32, 32), {10: 45_864_522, 100: 46_048_932}),
    ("he-resnet(depth=110)", (3, 32, 32), {10: 1_730_714, 100: 1_736_564}),
    ("wide-resnet(depth=26, width=10)", (3, 32, 32), {10: 36_481_434, 100: 36_539_124}),
    ("cifar-densenet(depth=121)", (3, 32, 32), {10: 6_956_298, 100: 7_048_548}),
    ("tiny-imagenet-resnet(depth=50)", (3, 64, 64), {200: 25_138_952}),
    ("densenet(depth=121)", (3, 224, 224), {14: 6_968_206, 1000: 7_978_856}),
    ("vit(size='base')", (3, 224, 224), {1000: 86_567_656}),
    ("vit(size='small')", (3, 224, 224), {1000: 22_050_664}),
    ("lenet", (1, 32, 32), {10: 61_706}),
]
"""Parameters by the number of classes, as counted in the authors' code or printed."""


@pytest.mark.parametrize(("text", "shape", "expected"), PUBLISHED)
def test_networks_have_the_published_numbers_of_parameters(text, shape, expected) -> None:
    with torch.device("meta"):
        made = {classes: models.build(text, input_shape=shape, num_classes=classes) for classes in expected}
    assert {
        classes: sum(each.numel() for each in model.parameters()) for classes, model in made.items()
    } == expected


def images(shape: tuple[int, ...] = (3, 32, 32)) -> torch.Tensor:
    return torch.randn(2, *shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("text", SMALLEST)
def test_memory_layout_and_precision_do_not_matter(text) -> None:
    """Channels last gives the same logits; under bfloat16 they are near, and differentiable."""
    model = build(text).eval()
    plain = model(images())
    laid_out = model.to(memory_format=torch.channels_last)
    there = images().to(memory_format=torch.channels_last)
    torch.testing.assert_close(laid_out(there), plain, rtol=1e-5, atol=1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rounded = model(images())
    rounded.float().square().sum().backward()
    # bfloat16 has 8 bits; over a hundred layers they add up to some hundredths
    assert (rounded.float() - plain).norm() < 0.1 * plain.norm()


@pytest.mark.parametrize("size", [2, 16, 33])
def test_gradients_are_right_in_both_memory_layouts(size) -> None:
    """The network of ``fashion-mnist``, at sizes of a last batch: as in float64, but for rounding."""
    generator = torch.Generator().manual_seed(size)
    pixels, labels = torch.rand((size, 1, 28, 28), generator=generator), torch.arange(size) % 10

    def gradients(dtype: torch.dtype, layout: torch.memory_format) -> torch.Tensor:
        model = build("cnn(width=8)", (1, 28, 28)).to(dtype).to(memory_format=layout)
        nn.functional.cross_entropy(model(pixels.to(dtype).to(memory_format=layout)), labels).backward()
        found = [each.grad.flatten() for each in model.parameters() if each.grad is not None]
        return torch.cat(found).double()

    exact = gradients(torch.float64, torch.contiguous_format)
    for layout in (torch.contiguous_format, torch.channels_last):
        assert (gradients(torch.float32, layout) - exact).norm() < 1e-5 * exact.norm()


@pytest.mark.parametrize("text", SMALLEST)
def test_curvature_is_defined(text) -> None:
    """The Hessian is symmetric, so the network can be differentiated twice; nothing is changed in place."""
    model = build(text).double()
    assert not any(getattr(module, "inplace", False) for module in model.modules())
    data = [(images().double(), torch.tensor([1, 2]))]
    hessian = HessianOperator(model, nn.CrossEntropyLoss(), data)
    generator = torch.Generator().manual_seed(2)
    first, second = torch.randn(2, hessian.size, generator=generator, dtype=torch.float64)
    one, other = first @ (hessian @ second), second @ (hessian @ first)
    assert one.item() != 0
    torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("text", SMALLEST)
def test_networks_can_be_exported(text) -> None:
    """``torch.export`` gives the same logits for another number of images."""
    model = build(text).eval()
    batch = ({0: torch.export.Dim.DYNAMIC},)
    program = torch.export.export(model, (images().repeat(2, 1, 1, 1),), dynamic_shapes=batch)
    torch.testing.assert_close(program.module()(images()), model(images()), rtol=1e-5, atol=1e-5)


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
        ("cifar-resnet(depth=20)", "`depth` must be one of 18, 34, 50"),
        ("he-resnet(depth=60)", "`depth` must be 6 n"),
        ("wide-resnet(depth=28.0)", "`depth` must be 6 n"),
        ("wide_resnet(depth=26)", "did you mean 'wide-resnet'"),
        ("resnet50", "did you mean"),
        ("densenet121", "did you mean 'densenet'"),
        ("vit(patch=5)", "`patch` must divide both sides"),
        ("vit(size='huge')", "`size` must be one of 'tiny', 'small', 'base'"),
        ("lenet(activation='sigmoid')", "`activation` must be one of"),
        ("no_such_module:make", "cannot be imported"),
        ("fractions:Fractio", "did you mean 'Fraction'"),
        ("fractions:Fraction(numerator=1)", "must give a torch.nn.Module"),
        ("torch.nn:Linear(in_feature=1, out_features=2)", "did you mean 'in_features'"),
    ],
)
def test_mistakes_are_named(text, words) -> None:
    refused(words, build, text)


@pytest.mark.parametrize("text", ["cnn", "resnet", *SMALLEST])
def test_convolutions_refuse_features(text) -> None:
    refused("For features there is mlp", build, text, (64,))


def test_your_own_factory_gets_what_it_asks_for() -> None:
    """``input_shape`` and ``num_classes`` go to parameters of these names, settings to the others."""
    model = models.build("calibrant_lab.models:MLP(widths=(3,))", input_shape=(2, 2), num_classes=5)
    assert [layer.out_features for layer in model.modules() if isinstance(layer, nn.Linear)] == [3, 5]
