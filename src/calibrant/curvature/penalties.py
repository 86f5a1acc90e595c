"""Estimates of a Hessian's trace that can be differentiated, from the graph that a batch's loss came with."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.shapes import Float
from calibrant.curvature.differentiation import gradient, wide
from calibrant.curvature.output_hessian import (
    is_coupled,
    output_blocks,
    output_slope,
    output_traces,
    signed_roots,
)

ROOT_COST = 64
"""Parameters for each number of a root's K^3 operations from which a root costs less than another pass."""


class Seen(NamedTuple):
    """A batch after the loss, with its graph."""

    loss: Float[Tensor, ""]
    logits: Float[Tensor, "N ..."]
    values: tuple[Tensor, ...]
    """The parameters that are penalised."""


def hutchinson_trace(seen: Seen, generator: torch.Generator, num_probes: int) -> Float[Tensor, ""]:
    """v^T H v of random signs v."""
    slopes = gradient(seen.loss, seen.values, create_graph=True)

    def once() -> Tensor:
        probes = tuple(random_signs(value, generator) for value in seen.values)
        return _inner(probes, gradient(slopes, seen.values, along=probes, create_graph=True))

    return _mean(once, num_probes)


def gauss_newton_trace(
    seen: Seen, generator: torch.Generator, num_probes: int, *, coupled: bool
) -> Float[Tensor, ""]:
    """|J^T B^(1/2) v|^2, or (J^T v)^T (J^T B v) where roots of B do not exist or cost more."""
    slope = output_slope(seen.loss, seen.logits)
    size = seen.logits.numel() // len(seen.logits)
    rooted = not coupled and ROOT_COST * size**3 <= sum(value.numel() for value in seen.values)
    roots = signed_roots(output_blocks(slope, seen.logits)) if rooted else None

    def pulled(way: Tensor) -> tuple[Tensor, ...]:
        return gradient((seen.logits,), seen.values, along=(way,), create_graph=True)

    def square(root: Tensor, signs: Tensor) -> Tensor:
        way = root @ signs.reshape(len(signs), -1, 1)  # (N, K, K) @ (N, K, 1)
        slopes = pulled(way.reshape(signs.shape))
        return _inner(slopes, slopes)

    def once() -> Tensor:
        signs = random_signs(seen.logits, generator)
        if roots is None:
            (bent,) = gradient(slope, (seen.logits,), along=(signs,), create_graph=True)
            left, right = (signs, bent) if coupled else _balanced(signs, bent)
            return _inner(pulled(left), pulled(right))
        above, below = roots
        return square(above, signs) if below is None else square(above, signs) - square(below, signs)

    return _mean(once, num_probes)


def _balanced(signs: Tensor, bent: Tensor) -> tuple[Tensor, Tensor]:
    """The vectors v and B v, each sample's multiplied and divided by a number that makes them equally long.

    Otherwise samples without curvature would add noise, by the products of their v with others' B v. The
    numbers do not change with the sign of a sample's v, so the mean of those products stays zero.
    """
    lengths = torch.linalg.vector_norm(bent.detach().reshape(len(bent), -1), dim=1)
    limits = torch.finfo(lengths.dtype)
    least = (limits.eps**0.5 * lengths.amax()).clamp(
        min=limits.tiny
    )  # what is shorter may be nothing but rounding
    scale = lengths.maximum(least).sqrt().reshape(-1, *[1] * (bent.ndim - 1))
    return signs * scale, bent / scale


def last_layer_trace(seen: Seen, lengths: Float[Tensor, " N"]) -> Float[Tensor, ""]:
    """The sum of the traces of the samples' own matrices, each times the squared length of its features."""
    slope = output_slope(seen.loss, seen.logits)
    return (output_traces(slope, seen.logits) * lengths).sum(dtype=wide(lengths))


def samples_coupled(seen: Seen) -> bool:
    """Whether the loss couples the samples of a batch."""
    return is_coupled(output_slope(seen.loss, seen.logits), seen.logits)


def random_signs(like: Tensor, generator: torch.Generator) -> Tensor:
    """Signs in the shape, type and device of ``like``, drawn on the generator's device."""
    place = generator.device  # whole bytes are the fastest to draw
    bits = torch.randint(0, 2, like.shape, generator=generator, dtype=torch.int8, device=place)
    return bits.to(device=like.device, dtype=like.dtype).mul_(2).sub_(1)


def _inner(left: tuple[Tensor, ...], right: tuple[Tensor, ...]) -> Float[Tensor, ""]:
    parts = [(one * other).sum(dtype=wide(one)) for one, other in zip(left, right, strict=True)]
    return torch.stack([part.to(parts[0].device) for part in parts]).sum()


def _mean(once: Callable[[], Tensor], count: int) -> Tensor:
    total = once()
    for _ in range(count - 1):
        total = total + once()
    return total / count
