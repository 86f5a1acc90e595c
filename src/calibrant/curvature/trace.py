"""The trace of the Hessian, with its standard error."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from calibrant._math.checks import check_at_least, check_choice
from calibrant._math.errors import InputError
from calibrant.curvature.operators import CurvatureOperator, Matrix, curvature_operator
from calibrant.curvature.parametric_model import Batches, Loss, Mode
from calibrant.curvature.xtrace import Sketch, mean_and_error

Method: TypeAlias = Literal["xtrace", "hutch++", "hutchinson"]
Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class Trace:
    """An estimate of a trace."""

    value: float
    standard_error: float
    """Error of the estimate: from the spread of its probes, with "xtrace" also from a jackknife over them.

    0 where the trace is exact, infinite for a single probe.
    """
    num_products: int
    """Products with the matrix that were spent."""


def hessian_trace(
    model: nn.Module,
    loss: Loss,
    data: Batches,
    *,
    method: Method = "xtrace",
    num_matvecs: int = 60,
    tolerance: float | None = None,
    max_products: int = 1000,
    matrix: Matrix = "hessian",
    parameters: str | Iterable[str] | None = None,
    mode: Mode = "eval",
    seed: int = 0,
    progress: Progress | None = None,
) -> Trace:
    r"""Trace of the Hessian of a mean loss.

    All three methods are unbiased. With random vectors :math:`v` of independent directions:

    * "xtrace": half of the products approximate the range of *H*, the other half give the trace there
      exactly, and each vector estimates what remains outside the range that the others found. The error falls
      about as 1/m, not 1/√m, where a few eigenvalues dominate, as they do in trained networks;
    * "hutch++": the same with separate vectors for each purpose, a third of the products each; its error is
      1.1 to 1.8 times as large in trained networks, with thirty products or more;
    * "hutchinson": the mean of :math:`v^\top H v`; the best where the eigenvalues are alike or cancel, as in
      networks at random parameters.

    With at least as many products as parameters, the trace is computed exactly.

    Args:
        model: Any network; left as it is.
        loss: Logits and labels to the mean loss of a batch.
        data: Pairs of inputs and labels, iterable many times.
        method: See above.
        num_matvecs: Products to spend; "xtrace" leaves one of an odd number unused.
        tolerance: If given, the number of products is doubled, and all independent estimates so far are
            averaged, until the standard error is below ``tolerance * abs(value)`` or ``max_products`` is
            reached.
        max_products: Most products to spend where ``tolerance`` is given.
        matrix: "hessian", or "gauss-newton".
        parameters: Names of parameters or modules; default all that are not frozen.
        mode: "eval" or "train", see :class:`HessianOperator`.
        seed: Seed of the probes.
        progress: Called with the products done and the most there will be.

    Returns:
        Value, standard error and the number of products.

    Raises:
        InputError: If an argument is out of its range.

    Note:
        The standard error of "xtrace" is chosen not to be too small, and is up to 40% too large in trained
        networks. The spread of its estimates alone would be a fifth too small, as they are dependent. With
        fewer than twenty products no method's standard error is reliable. Products go through the network
        several at a time, see :class:`CurvatureOperator`.

    References:
        Hutchinson 1990; Meyer, Musco, Musco and Woodruff, "Hutch++: optimal stochastic trace estimation",
        SOSA 2021; Epperly, Tropp and Webber, "XTrace: making the most of every sample in stochastic trace
        estimation", SIAM J. Matrix Anal. Appl. 2024; Efron and Stein, "The jackknife estimate of variance",
        Annals of Statistics 9, 1981.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from calibrant.curvature import hessian_trace
        >>> model = nn.Linear(1, 2, bias=False).double()
        >>> _ = nn.init.zeros_(model.weight)
        >>> data = [(torch.ones(4, 1).double(), torch.tensor([0, 1, 0, 1]))]
        >>> hessian_trace(model, nn.functional.cross_entropy, data)
        Trace(value=0.5, standard_error=0.0, num_products=2)
    """
    check_choice("method", method, ("xtrace", "hutch++", "hutchinson"))
    check_at_least("num_matvecs", num_matvecs, 6)
    if tolerance is not None and not tolerance > 0:
        raise InputError(f"`tolerance` must be positive; got {tolerance}.")
    operator = curvature_operator(model, loss, data, matrix=matrix, parameters=parameters, mode=mode)
    generator = torch.Generator().manual_seed(seed)
    if num_matvecs >= operator.size:
        return _exact(operator, progress)
    if method == "xtrace":
        num_matvecs -= num_matvecs % 2
    budget = num_matvecs if tolerance is None else max(max_products, num_matvecs)
    watched = _Watched(operator, progress, budget)
    estimate = {"xtrace": _xtrace, "hutch++": _hutch_plus_plus, "hutchinson": _hutchinson}[method]
    parts = [estimate(watched, num_matvecs, generator)]
    spent = num_matvecs
    while tolerance is not None and _combined(parts).misses(tolerance) and 2 * spent <= budget:
        if 2 * spent >= operator.size:
            return _exact(operator, progress)
        parts.append(estimate(watched, spent, generator))
        spent *= 2
    mean = _combined(parts)
    return Trace(value=mean.value, standard_error=mean.error, num_products=operator.num_products)


@dataclass(frozen=True)
class _Estimate:
    value: float
    error: float
    products: int

    def misses(self, tolerance: float) -> bool:
        return not self.error <= tolerance * abs(self.value)


class _Watched:
    """An operator that reports its progress."""

    def __init__(self, operator: CurvatureOperator, progress: Progress | None, budget: int) -> None:
        self.operator, self.progress, self.budget = operator, progress, budget

    def times(self, vectors: Tensor) -> Tensor:
        if self.progress is None:
            return self.operator @ vectors
        images: list[Tensor] = []
        parts = math.ceil(vectors.shape[1] / self.operator.block)
        for block in vectors.chunk(parts, dim=1):
            images.append(self.operator @ block)
            self.progress(self.operator.num_products, self.budget)
        return torch.cat(images, dim=1)


def _combined(parts: list[_Estimate]) -> _Estimate:
    """Mean of independent estimates, weighted by the products that went into each."""
    spent = sum(part.products for part in parts)
    value = sum(part.value * part.products for part in parts) / spent
    error = math.sqrt(sum((part.error * part.products) ** 2 for part in parts)) / spent
    return _Estimate(value, error, spent)


def _exact(operator: CurvatureOperator, progress: Progress | None) -> Trace:
    """The sum over unit vectors; a block of them at a time."""
    total, block = 0.0, operator.block
    for start in range(0, operator.size, block):
        columns = torch.zeros(
            (operator.size, min(block, operator.size - start)),
            dtype=operator.dtype,
            device=operator.model.device,
        )
        columns[start : start + block].fill_diagonal_(1.0)
        total += float((columns * (operator @ columns)).sum())
        if progress is not None:
            progress(start + columns.shape[1], operator.size)
    return Trace(value=total, standard_error=0.0, num_products=operator.num_products)


def _hutchinson(watched: _Watched, products: int, generator: torch.Generator) -> _Estimate:
    probes = watched.operator.signs(products, generator)
    values = (probes * watched.times(probes)).sum(0)
    return _Estimate(float(values.mean()), standard_error(values), products)


def _hutch_plus_plus(watched: _Watched, products: int, generator: torch.Generator) -> _Estimate:
    sketched = products // 3
    basis = _range(watched.times(watched.operator.signs(sketched, generator)))
    inside = float((basis * watched.times(basis)).sum())
    probes = watched.operator.signs(products - sketched - basis.shape[1], generator)
    probes = probes - basis @ (basis.T @ probes)
    values = (probes * watched.times(probes)).sum(0)
    return _Estimate(inside + float(values.mean()), standard_error(values), products)


def _xtrace(watched: _Watched, products: int, generator: torch.Generator) -> _Estimate:
    half = products // 2
    size = watched.operator.size
    probes = torch.randn((size, half), generator=generator, dtype=watched.operator.dtype)
    probes = (probes * (math.sqrt(size) / probes.norm(dim=0))).to(watched.operator.model.device)
    images = watched.times(probes)
    basis, upper = torch.linalg.qr(images)
    core = basis.T @ watched.times(basis)  # (m, m)
    diagonal = upper.diagonal().abs()
    if float(diagonal.min()) <= 1e-12 * float(diagonal.max()):  # the range is spanned: nothing remains
        return _Estimate(float(core.trace()), 0.0, products)
    sketch = Sketch(size, upper, core, basis.T @ probes, (probes * images).sum(0))
    return _Estimate(*mean_and_error(sketch), products)


def _range(images: Tensor) -> Tensor:
    """Orthonormal columns that span the given ones; fewer where they are dependent."""
    basis, upper = torch.linalg.qr(images)
    diagonal = upper.diagonal().abs()
    return basis[:, diagonal > 1e-12 * diagonal.max()]


def standard_error(values: Tensor) -> float:
    """Standard error of the mean of independent values; infinite for a single one."""
    return float(values.std()) / math.sqrt(len(values)) if len(values) > 1 else math.inf
