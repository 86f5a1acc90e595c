"""Check network settings, and initialise weights in other ways than torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, TypeVar

from torch import Tensor, nn

from calibrant._math.errors import InputError

Shape: TypeAlias = tuple[int, ...]  # of one sample

Key = TypeVar("Key")
Value = TypeVar("Value")


def positive(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"`{name}` must be an integer of 1 or more; got {value!r}.")
    return value


def positives(name: str, values: object, *, least: int = 0) -> tuple[int, ...]:
    """Check for ``least`` or more positive integers."""
    if not isinstance(values, Sequence) or isinstance(values, str) or len(values) < least:
        some = f"{least} or more" if least else "any number of"
        raise InputError(f"`{name}` must be {some} integers, such as (64, 64); got {values!r}.")
    return tuple(positive(name, value) for value in values)


def share(name: str, value: object) -> float:
    """Check for a number in [0, 1)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise InputError(f"`{name}` must be in [0, 1); got {value!r}.")
    return float(value)


def image_shape(name: str, shape: Shape, *, least: int = 1) -> tuple[int, int, int]:
    """Return channels, height and width of images of at least ``least`` pixels a side."""
    if len(shape) != 3 or min(shape[1:]) < least:
        raise InputError(
            f"{name} needs images (channels, height, width) of {least} × {least} pixels or more; "
            f"got inputs of shape {shape}. For features there is mlp."
        )
    channels, height, width = shape
    return channels, height, width


def one_of(name: str, value: object, known: Mapping[Key, Value]) -> Value:
    found = [entry for key, entry in known.items() if key == value]
    if not found:
        raise InputError(f"`{name}` must be one of {', '.join(map(repr, known))}; got {value!r}.")
    return found[0]


def blocks_of_depth(depth: object) -> int:
    """Return blocks per stage for three stages, two layers a block, a first and a last layer."""
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 8 or (depth - 2) % 6:
        raise InputError(f"`depth` must be 6 n + 2, such as 20, 26 or 110; got {depth!r}.")
    return (depth - 2) // 6


def he_normal(model: nn.Module, *, mode: Literal["fan_in", "fan_out"]) -> None:
    """Redraw every convolution's weights from He's normal distribution, in module order."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d) and not module.weight.is_meta:
            nn.init.kaiming_normal_(module.weight, mode=mode, nonlinearity="relu")


def normal(parameter: Tensor, *, deviation: float) -> None:
    if not parameter.is_meta:
        nn.init.normal_(parameter, std=deviation)
