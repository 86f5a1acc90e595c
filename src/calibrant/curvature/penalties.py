"""Differentiable estimates of a Hessian's trace, from the graph of a batch's loss."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.curvature.differentiation import Together, gradient, wide

_MOST_NUMBERS = 2**22  # in the directions that go through the loss together
ROOT_COST = 64
"""Parameters for each number of a root's K^3 operations from which a root costs less than another pass."""


class Seen(NamedTuple):
    """A batch after the loss, with its graph."""

    loss: Float[Tensor, ""]
    logits: Float[Tensor, "N ..."]
    values: tuple[Tensor, ...]
    """The parameters that are penalised."""

    def slope(self) -> Float[Tensor, "N ..."]:
        """Gradient of the loss by the logits, differentiable again."""
        return gradient(self.loss, (self.logits,), create_graph=True)[0]


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
    """|J^T B^(1/2) v|^2, or (J^T v)^T (J^T B v) if roots of B do not exist or cost more."""
    slope = seen.slope()
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
    """Vectors v and B v, scaled per sample by inverse factors to equal length.

    Otherwise samples without curvature would add noise, by the products of their v with others' B v. The
    factors do not change with the sign of a sample's v, so the mean of those products stays zero.
    """
    lengths = torch.linalg.vector_norm(bent.detach().reshape(len(bent), -1), dim=1)
    limits = torch.finfo(lengths.dtype)
    least = (limits.eps**0.5 * lengths.amax()).clamp(
        min=limits.tiny
    )  # shorter vectors may be rounding errors
    scale = lengths.maximum(least).sqrt().reshape(-1, *[1] * (bent.ndim - 1))
    return signs * scale, bent / scale


def last_layer_trace(seen: Seen, lengths: Float[Tensor, " N"]) -> Float[Tensor, ""]:
    """Sum over samples of the trace of the sample's own matrix times its features' squared length."""
    return (output_traces(seen.slope(), seen.logits) * lengths).sum(dtype=wide(lengths))


def random_signs(like: Tensor, generator: torch.Generator) -> Tensor:
    """Signs in the shape, type and device of ``like``, drawn on the generator's device."""
    place = generator.device  # whole bytes are fastest to draw
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


def samples_coupled(seen: Seen) -> bool:
    """Return True if one sample's slopes depend on another's logits, as in losses of a whole batch.

    The test: a change of half of the samples must not change the slopes of the others.
    """
    logits, generator = seen.logits, torch.Generator().manual_seed(0)
    moved = torch.randperm(len(logits), generator=generator) < len(logits) // 2
    still = ~moved.to(logits.device)
    way = torch.randn(logits.shape, generator=generator).to(logits)
    way[still] = 0
    (bent,) = gradient(seen.slope(), (logits,), along=(way,))
    return bool(bent[still].abs().amax() > 1e-6 * bent.abs().amax())


def output_blocks(slope: Float[Tensor, "N ..."], logits: Float[Tensor, "N ..."]) -> Float[Tensor, "N K K"]:
    """Hessian of each sample by its K logits; right if samples are not coupled."""
    return torch.cat(list(_columns(slope, logits))).permute(1, 2, 0)


def output_traces(slope: Float[Tensor, "N ..."], logits: Float[Tensor, "N ..."]) -> Float[Tensor, " N"]:
    """Traces of :func:`output_blocks`, which are never all in memory."""
    total, start = torch.zeros_like(logits.detach().reshape(len(logits), -1)[:, 0]), 0
    for columns in _columns(slope, logits):
        end = start + len(columns)
        # (k, N, K) -> (N,)
        total = total + columns[:, :, start:end].diagonal(dim1=0, dim2=2).sum(-1)
        start = end
    return total


def _columns(slope: Tensor, logits: Tensor) -> Iterator[Float[Tensor, "k N K"]]:
    """The k-th columns of all samples' matrices, some at a time: one product serves all samples."""
    num_samples = len(logits)
    size = logits.numel() // num_samples
    step = max(1, min(size, _MOST_NUMBERS // logits.numel()))
    unit = torch.eye(size, dtype=logits.dtype, device=logits.device)
    for start in range(0, size, step):
        ways = unit[start : start + step, None, :].expand(-1, num_samples, -1)  # (k, N, K)
        products = Together(fewest=2)(
            lambda way: gradient(slope, (logits,), along=(way,), create_graph=True)[0],
            ways.reshape(-1, *logits.shape),
        )
        yield products.reshape(-1, num_samples, size)


def signed_roots(blocks: Float[Tensor, "N K K"]) -> tuple[Tensor, Tensor | None]:
    r"""Square roots of the positive and of the negative part, :math:`B = R_+^2 - R_-^2`.

    The second is None where no eigenvalue is below zero by more than rounding. Where a matrix is not finite
    the first is the matrices themselves: what is made of them is not finite either.
    """
    matrices = ((blocks + blocks.mT) / 2).to(wide(blocks))
    if not bool(torch.isfinite(matrices).all()):
        return blocks, None
    values, vectors = torch.linalg.eigh(matrices.detach())
    noise = values.shape[-1] * torch.finfo(blocks.dtype).eps * values.abs().amax(-1, keepdim=True)
    values = torch.where(values.abs() <= noise, 0.0, values)
    above: Tensor = _Root.apply(matrices, values, vectors)
    if not bool((values < 0).any()):
        return above.to(blocks.dtype), None
    below: Tensor = _Root.apply(-matrices, -values, vectors)
    return above.to(blocks.dtype), below.to(blocks.dtype)


class _Root(torch.autograd.Function):
    """Square root of the positive part of symmetric matrices with known eigenvalues.

    A function f of a matrix has the derivative V (D * (V^T dB V)) V^T with the divided differences
    D_ij = (f(l_i) - f(l_j)) / (l_i - l_j), which stay finite at repeated eigenvalues, unlike the derivatives
    of the eigenvectors (Daleckii and Krein). If both eigenvalues are zero, so is D: a softmax's matrix stays
    singular in its singular directions.
    """

    @staticmethod
    def forward(ctx: Any, _matrices: Tensor, values: Tensor, vectors: Tensor) -> Tensor:
        roots = values.clamp(min=0).sqrt()
        ctx.save_for_backward(values, vectors, roots)
        return (vectors * roots.unsqueeze(-2)) @ vectors.mT

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        values, vectors, roots = ctx.saved_tensors
        sums = roots.unsqueeze(-1) + roots.unsqueeze(-2)
        both = (roots.unsqueeze(-1) > 0) & (roots.unsqueeze(-2) > 0)
        # Both above zero: 1 / (r_i + r_j). Only one: r_i / (l_i - l_j) with l_j <= 0. None: 0.
        gaps = torch.where(both, sums.square(), values.abs().unsqueeze(-1) + values.abs().unsqueeze(-2))
        differences = sums / gaps.clamp(min=torch.finfo(values.dtype).tiny)
        inner = vectors.mT @ grad_outputs[0] @ vectors
        return vectors @ (differences * (inner + inner.mT) / 2) @ vectors.mT, None, None


class LastLayer:
    """Watches the linear layer that produces the logits, during this object's lifetime.

    Args:
        model: The network.
        names: Name of the layer; None: the linear layer that was added to the network last.

    Raises:
        InputError: If there is no such layer, or it is frozen.
    """

    def __init__(self, model: nn.Module, names: Iterable[str] | None) -> None:
        layers = {key: layer for key, layer in model.named_modules() if isinstance(layer, nn.Linear)}
        wanted = list(layers)[-1:] if names is None else list(names)
        if len(wanted) != 1 or wanted[0] not in layers:
            raise InputError(
                '`estimator="last-layer"` needs one torch.nn.Linear, which gives the logits; got '
                f"{wanted or 'a model without any'}."
            )
        name = wanted[0]
        if not any(value.requires_grad for value in layers[name].parameters()):
            raise InputError(
                f'`estimator="last-layer"` needs a last layer that is trained; {name!r} is frozen.'
            )
        self.name, self._layer, self._seen = name, layers[name], _Seen()
        self._compared = False
        handle = self._layer.register_forward_hook(self._seen)
        weakref.finalize(self, handle.remove)

    def lengths(self, logits: Float[Tensor, "N C"]) -> Float[Tensor, " N"]:
        """Squared length of each sample's input to the layer, plus one for its bias.

        Raises:
            InputError: If the layer did not give these logits.
        """
        kept, self._seen.kept = self._seen.kept, None  # it keeps the batch's graph alive
        if kept is None or not self._gave(kept[1], logits):
            raise InputError(
                f'`estimator="last-layer"`: the layer {self.name!r} did not give these logits (N, C); '
                "name the one that does in `parameters`, or use another estimator."
            )
        self._compared = True
        features = kept[0].reshape(len(logits), -1).to(logits.dtype)
        total = torch.zeros_like(features[:, 0])
        if self._layer.weight.requires_grad:
            total = features.square().sum(1, dtype=wide(features)).to(logits.dtype)
        bias = dict(self._layer.named_parameters()).get("bias")
        return total + 1 if bias is not None and bias.requires_grad else total

    def forget(self) -> None:
        self._seen.kept = None

    def _gave(self, made: Tensor, logits: Tensor) -> bool:
        """Return True if the layer produced the logits; values are compared once, which makes a GPU wait."""
        if made.numel() != logits.numel() or len(made) != len(logits) or made.ndim != 2:
            return False
        return self._compared or torch.equal(made.detach().to(logits.dtype).reshape(logits.shape), logits)


class _Seen:
    """Forward hook that records input and output; its copies, in a copied network, start empty."""

    kept: tuple[Tensor, Tensor] | None = None

    def __call__(self, _layer: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
        if made.requires_grad:
            self.kept = given[0], made

    def __reduce__(self) -> tuple[type[_Seen], tuple[()]]:
        return _Seen, ()
