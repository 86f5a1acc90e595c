"""The published networks once more, from the papers and the authors' code: shapes, and naive forwards.

``NAME_shapes`` lists the parameters and running statistics by the names of the original code, layer by layer;
``NAME`` computes logits from such a state and images, in evaluation.
"""

import math
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

Shapes = dict[str, tuple[int, ...]]
State = Mapping[str, Tensor]


def planted(shapes: Shapes, *, seed: int = 0) -> dict[str, Tensor]:
    """A state of these shapes: weights that keep signals at their size, variances around one."""
    generator = torch.Generator().manual_seed(seed)
    state: dict[str, Tensor] = {}
    for name, shape in shapes.items():
        value = torch.randn(shape, generator=generator, dtype=torch.float64)
        if name.endswith("running_var"):
            state[name] = value.abs() + 0.5
        elif len(shape) > 1:
            state[name] = value * math.sqrt(2 / math.prod(shape[1:]))
        else:
            state[name] = 1 + 0.1 * value if "weight" in name else 0.1 * value
    return state


def parameters(shapes: Shapes) -> int:
    return sum(math.prod(shape) for name, shape in shapes.items() if "running" not in name)


def _norm_shapes(name: str, channels: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for entry in ("weight", "bias", "running_mean", "running_var"):
        yield f"{name}.{entry}", (channels,)


def resnet_shapes(
    blocks: Sequence[int],
    classes: int,
    *,
    width: int,
    bottleneck: bool,
    stem: int,
    shortcut: str = "shortcut",
    cells: int = 1,
) -> Shapes:
    shapes: Shapes = {"conv1.weight": (stem, 3, 3, 3), **dict(_norm_shapes("bn1", stem))}
    given = stem
    for stage, depth in enumerate(blocks, start=1):
        inner = width * 2 ** (stage - 1)
        out = inner * (4 if bottleneck else 1)
        for position in range(depth):
            here = f"layer{stage}.{position}"
            chain = (
                [(given, inner, 1), (inner, inner, 3), (inner, out, 1)]
                if bottleneck
                else [(given, inner, 3), (inner, inner, 3)]
            )
            for number, (before, after, size) in enumerate(chain, start=1):
                shapes[f"{here}.conv{number}.weight"] = (after, before, size, size)
                shapes |= dict(_norm_shapes(f"{here}.bn{number}", after))
            if given != out or (position == 0 and stage > 1):
                shapes[f"{here}.{shortcut}.0.weight"] = (out, given, 1, 1)
                shapes |= dict(_norm_shapes(f"{here}.{shortcut}.1", out))
            given = out
    return shapes | {"fc.weight": (classes, given * cells), "fc.bias": (classes,)}


def resnet(state: State, images: Tensor, *, cells: int = 1) -> Tensor:
    """ReLU after each normalisation but the last of a block, whose sum with the shortcut it follows."""
    features = functional.relu(_norm(state, "bn1", _conv(state, "conv1", images)))
    blocks = sorted({tuple(map(int, name[5:].split(".")[:2])) for name in state if name[:5] == "layer"})
    for stage, position in blocks:
        here = f"layer{stage}.{position}"
        count = 3 if f"{here}.conv3.weight" in state else 2
        stride = 2 if stage > 1 and position == 0 else 1
        inner = features
        for number in range(1, count + 1):
            at = stride if number == count - 1 else 1  # the 3 × 3 of a bottleneck, the first of two otherwise
            inner = _norm(state, f"{here}.bn{number}", _conv(state, f"{here}.conv{number}", inner, stride=at))
            inner = functional.relu(inner) if number < count else inner
        for name in ("shortcut", "downsample"):
            if f"{here}.{name}.0.weight" in state:
                features = _norm(
                    state, f"{here}.{name}.1", _conv(state, f"{here}.{name}.0", features, stride=stride)
                )
        features = functional.relu(inner + features)
    side = features.shape[-1] // cells
    pooled = functional.avg_pool2d(features, side).flatten(1)
    return functional.linear(pooled, state["fc.weight"], state["fc.bias"])


def densenet_shapes(blocks: Sequence[int], classes: int, *, growth: int) -> Shapes:
    """The form for ImageNet, by torchvision's names."""
    given = 2 * growth
    shapes: Shapes = {
        "features.conv0.weight": (given, 3, 7, 7),
        **dict(_norm_shapes("features.norm0", given)),
    }
    for number, depth in enumerate(blocks, start=1):
        for layer in range(1, depth + 1):
            here = f"features.denseblock{number}.denselayer{layer}"
            shapes |= dict(_norm_shapes(f"{here}.norm1", given))
            shapes[f"{here}.conv1.weight"] = (4 * growth, given, 1, 1)
            shapes |= dict(_norm_shapes(f"{here}.norm2", 4 * growth))
            shapes[f"{here}.conv2.weight"] = (growth, 4 * growth, 3, 3)
            given += growth
        if number < len(blocks):
            here = f"features.transition{number}"
            shapes |= dict(_norm_shapes(f"{here}.norm", given))
            shapes[f"{here}.conv.weight"] = (given // 2, given, 1, 1)
            given //= 2
    shapes |= dict(_norm_shapes("features.norm5", given))
    return shapes | {"classifier.weight": (classes, given), "classifier.bias": (classes,)}


def densenet(state: State, images: Tensor) -> Tensor:
    """The form for ImageNet: new channels come last."""
    features = _activated(state, "features.norm0", _conv(state, "features.conv0", images, stride=2))
    features = functional.max_pool2d(features, 3, stride=2, padding=1)
    for number in range(1, 5):
        layer = 1
        while f"features.denseblock{number}.denselayer{layer}.conv1.weight" in state:
            here = f"features.denseblock{number}.denselayer{layer}"
            inner = _conv(state, f"{here}.conv1", _activated(state, f"{here}.norm1", features))
            new = _conv(state, f"{here}.conv2", _activated(state, f"{here}.norm2", inner))
            features, layer = torch.cat([features, new], 1), layer + 1
        if number < 4:
            here = f"features.transition{number}"
            features = _conv(state, f"{here}.conv", _activated(state, f"{here}.norm", features))
            features = functional.avg_pool2d(features, 2)
    pooled = _activated(state, "features.norm5", features).mean((2, 3))
    return functional.linear(pooled, state["classifier.weight"], state["classifier.bias"])


def cifar_densenet_shapes(blocks: Sequence[int], classes: int, *, growth: int) -> Shapes:
    """The form for CIFAR, by the names of Mukhoti et al."""
    given = 2 * growth
    shapes: Shapes = {"conv1.weight": (given, 3, 3, 3)}
    for number, depth in enumerate(blocks, start=1):
        for layer in range(depth):
            here = f"dense{number}.{layer}"
            shapes |= dict(_norm_shapes(f"{here}.bn1", given))
            shapes[f"{here}.conv1.weight"] = (4 * growth, given, 1, 1)
            shapes |= dict(_norm_shapes(f"{here}.bn2", 4 * growth))
            shapes[f"{here}.conv2.weight"] = (growth, 4 * growth, 3, 3)
            given += growth
        if number < len(blocks):
            shapes |= dict(_norm_shapes(f"trans{number}.bn", given))
            shapes[f"trans{number}.conv.weight"] = (given // 2, given, 1, 1)
            given //= 2
    shapes |= dict(_norm_shapes("bn", given))
    return shapes | {"linear.weight": (classes, given), "linear.bias": (classes,)}


def cifar_densenet(state: State, images: Tensor) -> Tensor:
    """The form for CIFAR: new channels come first."""
    features = _conv(state, "conv1", images)
    for number in range(1, 5):
        layer = 0
        while f"dense{number}.{layer}.conv1.weight" in state:
            here = f"dense{number}.{layer}"
            inner = _conv(state, f"{here}.conv1", _activated(state, f"{here}.bn1", features))
            new = _conv(state, f"{here}.conv2", _activated(state, f"{here}.bn2", inner))
            features, layer = torch.cat([new, features], 1), layer + 1
        if number < 4:
            here = f"trans{number}"
            features = _conv(state, f"{here}.conv", _activated(state, f"{here}.bn", features))
            features = functional.avg_pool2d(features, 2)
    pooled = _activated(state, "bn", features).mean((2, 3))
    return functional.linear(pooled, state["linear.weight"], state["linear.bias"])


def _conv(state: State, name: str, images: Tensor, *, stride: int = 1) -> Tensor:
    weight = state[f"{name}.weight"]
    return functional.conv2d(images, weight, stride=stride, padding=weight.shape[-1] // 2)


def _norm(state: State, name: str, features: Tensor) -> Tensor:
    weight, bias, mean, variance = (
        state[f"{name}.{entry}"][:, None, None] for entry in ("weight", "bias", "running_mean", "running_var")
    )
    return (features - mean) / (variance + 1e-5).sqrt() * weight + bias


def _activated(state: State, name: str, features: Tensor) -> Tensor:
    return functional.relu(_norm(state, name, features))
