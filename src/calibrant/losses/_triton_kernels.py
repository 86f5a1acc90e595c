"""The Triton kernels of :mod:`calibrant.losses.linear`, imported when used: Triton may not be installed."""
# Triton also compiles the annotations, and accepts only its own.
# pyright: reportInvalidTypeForm=false, reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor

from calibrant._math.shapes import Float, Int

triton: Any = None
tl: Any = None
try:
    import triton  # pyright: ignore[reportMissingImports]
    from triton import language as tl  # pyright: ignore[reportMissingImports]
except ImportError:
    pass

_BLOCK = 2048  # logits that a program holds at a time


def log_sums(logits: Float[Tensor, "R V"], labels: Int[Tensor, " R"], sums: Float[Tensor, " R"]) -> None:
    """Write into ``sums`` the log-sum-exp of each row without its label's logit."""
    rows, classes = logits.shape
    _jit(_log_sums)[(rows,)](logits, labels, sums, classes, logits.stride(0), block=_BLOCK)


def slopes(
    logits: Float[Tensor, "R V"],
    labels: Int[Tensor, " R"],
    sums: Float[Tensor, " R"],
    factors: Float[Tensor, " R"],
) -> None:
    """Overwrite the logits: the row's factor times the others' shares; minus the factor at the label."""
    rows, classes = logits.shape
    grid = (rows, triton.cdiv(classes, _BLOCK))
    _jit(_slopes)[grid](logits, labels, sums, factors, classes, logits.stride(0), block=_BLOCK)


@cache
def _jit(kernel: Any) -> Any:
    return triton.jit(kernel)


def _log_sums(logits, labels, sums, classes, stride, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + row)
    dtype: tl.constexpr = sums.dtype.element_ty
    top = tl.full((), float("-inf"), dtype)
    total = tl.full((), 0.0, dtype)
    for start in range(0, classes, block):
        column = start + tl.arange(0, block)
        wanted = (column < classes) & (column != label)
        scores = tl.load(logits + row * stride + column, mask=wanted, other=float("-inf")).to(dtype)
        higher = tl.maximum(top, tl.max(scores, 0))
        shift = tl.where(higher == float("-inf"), 0.0, higher)  # avoids a difference of infinities
        total = total * tl.exp(top - shift) + tl.sum(tl.exp(scores - shift), 0)
        top = higher
    tl.store(sums + row, top + tl.log(tl.where(total == 0, 1.0, total)))  # -inf where nothing was added


def _slopes(logits, labels, sums, factors, classes, stride, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * block + tl.arange(0, block)
    label, log_sum, factor = tl.load(labels + row), tl.load(sums + row), tl.load(factors + row)
    place = logits + row * stride + column
    inside = column < classes
    scores = tl.load(place, mask=inside & (column != label), other=float("-inf")).to(sums.dtype.element_ty)
    slope = factor * tl.where(column == label, -1.0, tl.exp(scores - log_sum))
    slope = tl.where(factor == 0, 0.0, slope)  # an ignored row may hold NaN
    tl.store(place, slope.to(logits.dtype.element_ty), mask=inside)
