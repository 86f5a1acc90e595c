"""The Hessian of a batch's loss by its logits: a small matrix per sample where each counts by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from calibrant._math.shapes import Float
from calibrant.curvature.differentiation import gradient, wide

_MOST_NUMBERS = 2**22  # in the directions that go through the loss at a time


def output_slope(loss: Float[Tensor, ""], logits: Float[Tensor, "N ..."]) -> Float[Tensor, "N ..."]:
    """The loss's gradient by the logits, to be differentiated again."""
    return gradient(loss, (logits,), create_graph=True)[0]


def is_coupled(slope: Float[Tensor, "N ..."], logits: Float[Tensor, "N ..."]) -> bool:
    """Whether one sample's slopes depend on another's logits, as in losses of a whole batch.

    A change of half of the samples must leave the slopes of the others alone.
    """
    generator = torch.Generator().manual_seed(0)
    moved = torch.randperm(len(logits), generator=generator) < len(logits) // 2
    still = ~moved.to(logits.device)
    way = torch.randn(logits.shape, generator=generator).to(logits)
    way[still] = 0
    (bent,) = gradient(slope, (logits,), along=(way,))
    return bool(bent[still].abs().amax() > 1e-6 * bent.abs().amax())


def output_blocks(slope: Float[Tensor, "N ..."], logits: Float[Tensor, "N ..."]) -> Float[Tensor, "N K K"]:
    """Each sample's own Hessian by its K logits; right where samples are not coupled."""
    return torch.cat(list(_columns(slope, logits))).permute(1, 2, 0)


def output_traces(slope: Float[Tensor, "N ..."], logits: Float[Tensor, "N ..."]) -> Float[Tensor, " N"]:
    """The traces of these matrices, which are never all in memory."""
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
        yield _products(slope, logits, ways.reshape(-1, *logits.shape)).reshape(-1, num_samples, size)


def _products(slope: Tensor, logits: Tensor, ways: Tensor) -> Tensor:
    """Products with several directions: all at once, or one by one where the loss cannot do that."""
    if not slope.requires_grad:  # linear in the logits
        return torch.zeros_like(ways)
    settings: Any = {"retain_graph": True, "create_graph": True, "allow_unused": True}
    found: list[Tensor | None]
    try:
        found = [torch.autograd.grad([slope], [logits], [ways], is_grads_batched=True, **settings)[0]]
    except RuntimeError:
        found = [torch.autograd.grad([slope], [logits], [way], **settings)[0] for way in ways]
    if any(each is None for each in found):
        return torch.zeros_like(ways)
    return torch.cat([each.reshape(-1, *logits.shape) for each in found if each is not None])


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
    """Square root of the positive part of symmetric matrices, whose eigenvalues are known.

    A function f of a matrix has the derivative V (D * (V^T dB V)) V^T with the divided differences
    D_ij = (f(l_i) - f(l_j)) / (l_i - l_j), which stay finite at repeated eigenvalues, unlike the derivatives
    of the eigenvectors (Daleckii and Krein). Where both are zero D is taken as zero: in the directions in
    which a softmax's matrix is singular it stays so.
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
