"""The papers' networks against their own code: parameters, names, numbers, initial weights."""

import math
import re
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import references_networks as references
from calibrant_lab import models

SHORTEST = (1, 1, 1, 1)


def build(text: str, shape: tuple[int, ...] = (3, 32, 32), classes: int = 10) -> nn.Module:
    with torch.device("meta"):
        return models.build(text, input_shape=shape, num_classes=classes)


def size(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (
            "cifar-resnet(depth=34)",
            references.resnet_shapes((3, 4, 6, 3), 10, width=64, bottleneck=False, stem=64),
        ),
        ("he-resnet(depth=20)", references.resnet_shapes((3, 3, 3), 10, width=16, bottleneck=False, stem=16)),
        ("densenet(depth=169)", references.densenet_shapes((6, 12, 32, 32), 10, growth=32)),
        ("cifar-densenet(depth=201)", references.cifar_densenet_shapes((6, 12, 48, 32), 10, growth=32)),
    ],
)
def test_sizes_that_are_not_printed_are_those_of_the_layers(text, shapes) -> None:
    """Counted layer by layer from the paper's description."""
    assert size(build(text)) == references.parameters(shapes)


def thin(blocks: tuple[int, ...], **settings: Any) -> references.Shapes:
    return references.resnet_shapes(blocks, 5, **{"bottleneck": False, "stem": 4, "width": 4} | settings)


REFERENCES: dict[str, tuple[references.Shapes, Callable[[references.State, Tensor], Tensor]]] = {
    "cifar-resnet(depth=18, width=4)": (thin((2, 2, 2, 2)), references.resnet),
    "cifar-resnet(depth=50, width=4)": (thin((3, 4, 6, 3), bottleneck=True), references.resnet),
    "tiny-imagenet-resnet(depth=18, width=4)": (
        thin((2, 2, 2, 2), shortcut="downsample", cells=4),
        partial(references.resnet, cells=2),
    ),
    "he-resnet(depth=14, width=4)": (thin((2, 2, 2)), references.resnet),
    "wide-resnet(depth=14, width=2)": (
        thin((2, 2, 2), stem=16, width=32, shortcut="downsample"),
        references.resnet,
    ),
    "densenet(depth=121, growth=2)": (
        references.densenet_shapes((6, 12, 24, 16), 5, growth=2),
        references.densenet,
    ),
    "cifar-densenet(depth=121, growth=2)": (
        references.cifar_densenet_shapes((6, 12, 24, 16), 5, growth=2),
        references.cifar_densenet,
    ),
}


@pytest.mark.parametrize("text", REFERENCES)
def test_weights_of_the_original_code_give_its_logits(text, tmp_path) -> None:
    """Its state is loaded by its own names, all of them, and the network computes what the paper says."""
    shapes, forward = REFERENCES[text]
    state = references.planted(shapes)
    torch.save({f"module.{name}": value for name, value in state.items()}, tmp_path / "theirs.pt")
    model = models.build(text, input_shape=(3, 32, 32), num_classes=5).double().eval()
    models.load_weights(model, tmp_path / "theirs.pt")
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected = forward(state, images)
    assert expected.std() > 0.05
    with torch.no_grad():
        torch.testing.assert_close(model(images), expected, rtol=1e-10, atol=1e-10)


def test_torchvision_s_names_are_densenet_s_own_and_the_older_ones_are_known(tmp_path) -> None:
    """Names are torchvision's own; ``denselayer1.norm.1`` loads too, and counters may be missing."""
    shapes = references.densenet_shapes((6, 12, 24, 16), 5, growth=2)
    model = models.build("densenet(growth=2)", input_shape=(3, 32, 32), num_classes=5)
    counters = {name for name in model.state_dict() if name.endswith("num_batches_tracked")}
    assert shapes.keys() == model.state_dict().keys() - counters
    state = references.planted(shapes)
    old = {re.sub(r"(norm|conv)([12])", r"\1.\2", name): value for name, value in state.items()}
    assert "features.denseblock1.denselayer1.norm.1.weight" in old
    torch.save(old, tmp_path / "old.pt")
    models.load_weights(model.double(), tmp_path / "old.pt")
    found = model.state_dict()
    assert all(torch.equal(found[name], value) for name, value in state.items())


def formula(name: str, shape: tuple[int, ...]) -> Tensor:
    """The weights under which ``golden/vit.json`` was computed."""
    numbers = torch.arange(1, 1 + math.prod(shape), dtype=torch.float64)
    return 0.1 * torch.sin(numbers * (1 + zlib.crc32(name.encode()) % 97)).reshape(shape)


def test_vit_computes_what_transformers_does(golden, tmp_path) -> None:
    """Files of Hugging Face load without renaming, version 5's names too, and give the same logits."""
    from safetensors.torch import save_file

    reference = golden("vit.json")
    state = {name: formula(name, tuple(shape)) for name, shape in reference["file"].items()}
    save_file(state, tmp_path / "model.safetensors")
    text = "vit(size='tiny', patch=8, depth=2)"
    model = models.build(text, input_shape=(3, 16, 16), num_classes=5).double().eval()
    assert state.keys() == model.state_dict().keys()
    assert {model.own_name(name) for name in reference["names_in_transformers_5"]} == state.keys()
    models.load_weights(model, tmp_path / "model.safetensors")
    images = torch.cos(torch.arange(2 * 3 * 16 * 16, dtype=torch.float64)).reshape(2, 3, 16, 16)
    with torch.no_grad():
        expected = torch.tensor(reference["logits"], dtype=torch.float64)
        torch.testing.assert_close(model(images), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("text", "deviation"),
    [
        ("wide-resnet(depth=8, width=4)", lambda shape: math.sqrt(2 / (shape[0] * shape[2] * shape[3]))),
        (
            "tiny-imagenet-resnet(depth=18, width=16)",
            lambda shape: math.sqrt(2 / (shape[0] * shape[2] * shape[3])),
        ),
        ("densenet(depth=121, growth=8)", lambda shape: math.sqrt(2 / math.prod(shape[1:]))),
        # torch's own: uniform on ± 1/sqrt(fan-in)
        ("cifar-resnet(depth=18, width=16)", lambda shape: math.sqrt(1 / 3 / math.prod(shape[1:]))),
        ("he-resnet(depth=20)", lambda shape: math.sqrt(1 / 3 / math.prod(shape[1:]))),
        ("cifar-densenet(depth=121, growth=8)", lambda shape: math.sqrt(1 / 3 / math.prod(shape[1:]))),
        ("vit(size='tiny', patch=16, depth=1)", lambda _: 0.02),
    ],
)
def test_convolutions_start_as_in_the_original_code(text, deviation) -> None:
    """The weights over the deviation that theirs has are of variance one, pooled over all convolutions."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = models.build(text, input_shape=(3, 32, 32), num_classes=10)
    weights = [each.weight.detach() for each in model.modules() if isinstance(each, nn.Conv2d)]
    scaled = torch.cat([each.flatten() / deviation(each.shape) for each in weights])
    # A normal's squares have variance 2 (a uniform's less): |z| < 4.
    assert abs(scaled.square().mean().item() - 1) < 4 * math.sqrt(2 / len(scaled))
