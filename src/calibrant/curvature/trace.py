"""Trace of the Hessian and of its layers' blocks, with standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from calibrant._math.checks import check_at_least, check_choice
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant.curvature.operators import CurvatureOperator, Matrix, curvature_operator
from calibrant.curvature.parametric_model import Batches, Loss, Mode

Method: TypeAlias = Literal["xtrace", "hutch++", "hutchinson"]
Progress: TypeAlias = Callable[[int, int], None]
_Product: TypeAlias = Callable[[Tensor], Tensor]

_MOST_GROUPS = 16  # of probes, left out in turn


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
    estimate = {"xtrace": _xtrace, "hutch++": _hutch_plus_plus, "hutchinson": _hutchinson}[method]
    times = _reporting(operator, progress, budget)
    spent, parts = num_matvecs, [(*estimate(operator, times, num_matvecs, generator), num_matvecs)]
    value, error = _combined(parts)
    while tolerance is not None and not error <= tolerance * abs(value) and 2 * spent <= budget:
        if 2 * spent >= operator.size:
            return _exact(operator, progress)
        parts.append((*estimate(operator, times, spent, generator), spent))
        (value, error), spent = _combined(parts), 2 * spent
    return Trace(value=value, standard_error=error, num_products=operator.num_products)


@dataclass(frozen=True, kw_only=True)
class CurvatureSizes:
    """Traces of the diagonal blocks, and the Frobenius norm, all from the same products."""

    layer_traces: dict[str, Trace]
    """Trace of the block of each module's own parameters; they add up to the whole trace."""
    frobenius_norm: float
    frobenius_standard_error: float
    num_products: int


def curvature_sizes(
    model: nn.Module,
    loss: Loss,
    data: Batches,
    *,
    num_matvecs: int = 60,
    matrix: Matrix = "hessian",
    parameters: str | Iterable[str] | None = None,
    mode: Mode = "eval",
    seed: int = 0,
    progress: Progress | None = None,
) -> CurvatureSizes:
    r"""Trace of every layer's block of the Hessian, and its Frobenius norm.

    For random signs *v*, :math:`\mathbb E\, v_l^\top (Hv)_l = \operatorname{Tr} H_{ll}` for every layer *l*
    at once, and :math:`\mathbb E \|Hv\|^2 = \|H\|_F^2`: one product serves every estimate.

    Args:
        model: Any network; left as it is.
        loss: Logits and labels to the mean loss of a batch.
        data: Pairs of inputs and labels, iterable many times.
        num_matvecs: Products to spend.
        matrix: "hessian", or "gauss-newton".
        parameters: Names of parameters or modules; default all that are not frozen.
        mode: "eval" or "train", see :class:`HessianOperator`.
        seed: Seed of the probes.
        progress: Called with the products done and the most there will be.

    Returns:
        Traces by layer, each with its standard error, and the norm with its own (by the delta method).

    Raises:
        InputError: If fewer than two products are to be spent.

    References:
        Hutchinson, "A stochastic estimator of the trace of the influence matrix", 1990.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from calibrant.curvature import curvature_sizes
        >>> model = nn.Linear(1, 2, bias=False).double()
        >>> _ = nn.init.zeros_(model.weight)
        >>> data = [(torch.ones(4, 1).double(), torch.tensor([0, 1, 0, 1]))]
        >>> found = curvature_sizes(model, nn.functional.cross_entropy, data)
        >>> abs(found.frobenius_norm - 0.5) < 4 * found.frobenius_standard_error
        True
    """
    check_at_least("num_matvecs", num_matvecs, 2)
    operator = curvature_operator(model, loss, data, matrix=matrix, parameters=parameters, mode=mode)
    generator = torch.Generator().manual_seed(seed)
    layers = operator.model.layers()
    traces: dict[str, list[float]] = {name: [] for name in layers}
    squares: list[float] = []
    for start in range(0, num_matvecs, operator.block):
        count = min(operator.block, num_matvecs - start)
        probes = torch.cat([operator.signs(1, generator) for _ in range(count)], dim=1)  # (P, m)
        images = operator @ probes
        products = probes * images
        squares += images.square().sum(0).tolist()
        for name, places in layers.items():
            traces[name] += torch.cat([products[place] for place in places]).sum(0).tolist()
        if progress is not None:
            progress(start + count, num_matvecs)
    mean, error = _mean(torch.tensor(squares, dtype=torch.float64))
    norm = math.sqrt(mean)
    found = {name: _mean(torch.tensor(values, dtype=torch.float64)) for name, values in traces.items()}
    return CurvatureSizes(
        layer_traces={
            name: Trace(value=value, standard_error=spread, num_products=num_matvecs)
            for name, (value, spread) in found.items()
        },
        frobenius_norm=norm,
        frobenius_standard_error=error / (2 * norm) if norm > 0 else 0.0,
        num_products=operator.num_products,
    )


def _combined(parts: list[tuple[float, float, int]]) -> tuple[float, float]:
    """Value and error of independent estimates, each with its number of products."""
    spent = sum(products for *_, products in parts)
    error = math.sqrt(sum((error * products) ** 2 for _, error, products in parts)) / spent
    return sum(value * products for value, _, products in parts) / spent, error


def _reporting(operator: CurvatureOperator, progress: Progress | None, budget: int) -> _Product:
    """Products with the operator, reported to ``progress`` block by block."""
    if progress is None:
        return lambda vectors: operator @ vectors

    def times(vectors: Tensor) -> Tensor:
        images: list[Tensor] = []
        for block in vectors.chunk(math.ceil(vectors.shape[1] / operator.block), dim=1):
            images.append(operator @ block)
            progress(operator.num_products, budget)
        return torch.cat(images, dim=1)

    return times


def _exact(operator: CurvatureOperator, progress: Progress | None) -> Trace:
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


# Each estimate is a value and its standard error.
def _hutchinson(
    operator: CurvatureOperator, times: _Product, products: int, generator: torch.Generator
) -> tuple[float, float]:
    probes = operator.signs(products, generator)
    return _mean((probes * times(probes)).sum(0))


def _hutch_plus_plus(
    operator: CurvatureOperator, times: _Product, products: int, generator: torch.Generator
) -> tuple[float, float]:
    sketched = products // 3
    basis, upper = torch.linalg.qr(times(operator.signs(sketched, generator)))
    diagonal = upper.diagonal().abs()
    basis = basis[:, diagonal > 1e-12 * diagonal.max()]  # fewer columns if the images are dependent
    inside = float((basis * times(basis)).sum())
    probes = operator.signs(products - sketched - basis.shape[1], generator)
    probes = probes - basis @ (basis.T @ probes)
    outside, error = _mean((probes * times(probes)).sum(0))
    return inside + outside, error


def _xtrace(
    operator: CurvatureOperator, times: _Product, products: int, generator: torch.Generator
) -> tuple[float, float]:
    size = operator.size
    probes = torch.randn((size, products // 2), generator=generator, dtype=operator.dtype)
    probes = (probes * (math.sqrt(size) / probes.norm(dim=0))).to(operator.model.device)
    images = times(probes)
    basis, upper = torch.linalg.qr(images)
    core = basis.T @ times(basis)  # (m, m)
    diagonal = upper.diagonal().abs()
    if float(diagonal.min()) <= 1e-12 * float(diagonal.max()):  # the range is spanned: nothing remains
        return float(core.trace()), 0.0
    return mean_and_error(Sketch(size, upper, core, basis.T @ probes, (probes * images).sum(0)))


def _mean(values: Tensor) -> tuple[float, float]:
    error = float(values.std()) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return float(values.mean()), error


class Sketch(NamedTuple):
    """The images of m probes under a symmetric matrix A of ``size`` rows, in coordinates of their span.

    Omega holds the probes as columns of length sqrt(size), and A Omega = Q R. Leading dimensions of the
    fields, if any, are several such sketches.
    """

    size: int
    upper: Float[Tensor, "*S k m"]
    """R, or any other coordinates of A Omega by an orthonormal basis."""
    core: Float[Tensor, "*S k k"]
    """Q^T A Q."""
    inner: Float[Tensor, "*S k m"]
    """Q^T Omega."""
    quadratic: Float[Tensor, "*S m"]
    """w^T A w of each probe w."""

    def values(self) -> Float[Tensor, "*S m"]:
        """Estimate of each probe: the trace in the range of the others, and the probe's on the rest.

        That range is Q (I - s s^T) Q^T with s the normalised column of R^-T (Epperly et al. 2024, section 2);
        R must be square and regular.
        """
        out = torch.linalg.inv(self.upper).mT
        out = out / out.norm(dim=-2, keepdim=True)  # columns s
        # coordinates of the probe's projection on the others' range
        shadow = self.inner - out * (out * self.inner).sum(-2, keepdim=True)
        whole = self.core.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True)
        inside = whole - (out * (self.core @ out)).sum(-2)
        outside = self.quadratic - (shadow * (2 * self.upper - self.core @ shadow)).sum(-2)
        # scales a probe's outer part to the length expected of a random vector there
        num_probes = self.upper.shape[-1]
        return inside + outside * (self.size - num_probes + 1) / (self.size - shadow.square().sum(-2))

    def without(self, left_out: Int[Tensor, "S g"]) -> Sketch:
        """Sketches without these probes."""
        groups, few = left_out.shape
        num_probes = self.upper.shape[-1]
        kept = torch.ones((groups, num_probes), dtype=torch.bool, device=self.upper.device)
        kept.scatter_(1, left_out.to(kept.device), value=False)
        places = kept.nonzero()[:, 1].view(groups, num_probes - few)
        images = self.upper[:, places].movedim(1, 0)  # (S, m, m - g)
        basis, upper = torch.linalg.qr(images)
        return Sketch(
            self.size,
            upper,
            basis.mT @ self.core @ basis,
            basis.mT @ self.inner[:, places].movedim(1, 0),
            self.quadratic[places],
        )


def mean_and_error(sketch: Sketch) -> tuple[float, float]:
    r"""Mean of the probes' estimates, and its standard error.

    The estimates are not independent, as each uses the others' probes: the spread between them, taken as if
    they were, states about a fifth too little. The jackknife states too much. Let :math:`V_k` be what
    interactions of k probes contribute to the variance (Hoeffding). Given the others a probe's estimate is
    unbiased, so all of its interactions have the probe itself in them; the first then tells
    :math:`\sum_k V_k / k` at least, and the second :math:`\sum_k k V_k` (Efron and Stein 1981). By the
    Cauchy-Schwarz inequality the geometric mean of these is no less than the variance.
    """
    values = sketch.values()
    count = len(values)
    few = math.ceil(count / _MOST_GROUPS)
    groups = math.ceil(count / few)
    left_out = torch.arange(groups * few).remainder(count).view(groups, few)
    others = sketch.without(left_out).values().mean(-1)
    apart = values.var() / count
    jackknife = (groups - 1) / groups * (others - others.mean()).square().sum()
    return float(values.mean()), float((apart * jackknife) ** 0.25)
