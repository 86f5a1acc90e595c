"""The Hessian's spectrum: its extreme eigenvalues, and the whole as a density."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from calibrant._math.checks import check_at_least, check_choice
from calibrant._math.errors import InputError
from calibrant.curvature.lanczos import Tridiagonal
from calibrant.curvature.operators import Matrix, curvature_operator
from calibrant.curvature.parametric_model import Batches, Loss, Mode

Vector: TypeAlias = NDArray[np.float64]
Which: TypeAlias = Literal["largest", "smallest", "magnitude"]

MAX_PRODUCTS = 300


@dataclass(frozen=True, kw_only=True)
class Eigenvalues:
    """Extreme eigenvalues, with their error bounds."""

    values: tuple[float, ...]
    """The wanted ones, most extreme first."""
    residuals: tuple[float, ...]
    """Norm of H v - value v: within this distance of each value lies an eigenvalue of the matrix."""
    error_estimates: tuple[float, ...]
    """residual² / gap to the nearest other Ritz value, or the residual if that is smaller."""
    vectors: Tensor
    """Unit eigenvectors as columns, ``(P, k)``."""
    num_products: int
    """Products with the matrix that were spent."""
    converged: bool
    """True if every estimated error is within the tolerance."""


def top_eigenvalues(
    model: nn.Module,
    loss: Loss,
    data: Batches,
    *,
    k: int = 1,
    which: Which = "largest",
    tolerance: float = 1e-6,
    max_products: int = MAX_PRODUCTS,
    matrix: Matrix = "hessian",
    parameters: str | Iterable[str] | None = None,
    mode: Mode = "eval",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Eigenvalues:
    r"""Extreme eigenvalues of the Hessian of a mean loss.

    Lanczos with full reorthogonalisation: after *m* products it knows the matrix on a Krylov space of
    dimension *m*, whose extreme Ritz values converge first, both ends at once. For a Ritz pair
    :math:`(\theta, v)` an eigenvalue lies within :math:`r = \|Hv - \theta v\|`, and about within
    :math:`r^2 / \text{gap}`.

    Args:
        model: Any network; left as it is.
        loss: Logits and labels to the mean loss of a batch.
        data: Pairs of inputs and labels, iterable many times.
        k: Number of eigenvalues.
        which: "largest" (algebraically), "smallest" (the most negative first), or "magnitude".
        tolerance: Estimated error at which to stop, relative to the largest magnitude found.
        max_products: Products after which to stop in any case.
        matrix: "hessian", or "gauss-newton".
        parameters: Names of parameters or modules; default all that are not frozen.
        mode: "eval" or "train", see :class:`HessianOperator`.
        seed: Seed of the starting vector, which lies near the gradient.
        progress: Called with the products done and the most there will be.

    Returns:
        The eigenvalues with residuals, eigenvectors and the number of products. With ``converged`` False the
        residuals still hold.

    Raises:
        InputError: If an argument is out of its range.

    Note:
        float32 networks stop improving at a relative error of about 1e-6. Memory: one vector per product.

    References:
        Golub and Van Loan, "Matrix Computations", 4th ed., 2013, chapter 10; Parlett, "The Symmetric
        Eigenvalue Problem", 1998, chapter 13.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from calibrant.curvature import top_eigenvalues
        >>> model = nn.Linear(1, 2, bias=False).double()
        >>> _ = nn.init.zeros_(model.weight)
        >>> data = [(torch.ones(4, 1).double(), torch.tensor([0, 1, 0, 1]))]
        >>> found = top_eigenvalues(model, nn.functional.cross_entropy, data)
        >>> round(found.values[0], 9), found.converged
        (0.5, True)
    """
    check_choice("which", which, ("largest", "smallest", "magnitude"))
    if not tolerance > 0:
        raise InputError(f"`tolerance` must be positive; got {tolerance}.")
    operator = curvature_operator(model, loss, data, matrix=matrix, parameters=parameters, mode=mode)
    if not 1 <= k <= operator.size:
        raise InputError(f"`k` must be in 1..{operator.size}, the number of parameters; got {k}.")
    if max_products < k:
        raise InputError(f"`max_products` must be at least `k` = {k}; got {max_products}.")
    lanczos = operator.krylov(torch.Generator().manual_seed(seed), along_gradient=True)
    budget = min(max_products, operator.size)
    count, due = 0, k + 1
    while True:
        count += 1
        lanczos.step()
        if progress is not None:
            progress(count, budget)
        if count in {due, budget}:
            found = _ritz(lanczos.result, k, which, tolerance)
            if found.excess <= 1 or count == budget:
                break
            due += max(1, int(math.log10(found.excess) / 2))  # a product gains two digits at most
    basis = lanczos.result.basis.T
    return Eigenvalues(
        values=tuple(found.values.tolist()),
        residuals=tuple(found.residuals.tolist()),
        error_estimates=tuple(found.errors.tolist()),
        vectors=basis @ torch.from_numpy(found.columns).to(basis),
        num_products=operator.num_products,
        converged=found.excess <= 1,
    )


class _Ritz(NamedTuple):
    values: Vector
    residuals: Vector
    errors: Vector
    columns: Vector  # the wanted eigenvectors of the tridiagonal matrix
    excess: float  # of the estimated errors, and of the residuals, over what they may be


def _ritz(krylov: Tridiagonal, k: int, which: str, tolerance: float) -> _Ritz:
    values, vectors = krylov.eigen()
    key = {"largest": -values, "smallest": values, "magnitude": -np.abs(values)}[which]
    order = np.argsort(key, stable=True)[:k]
    distances = np.abs(values[:, None] - values[None, order])
    distances[order, np.arange(len(order))] = np.inf
    gaps = distances.min(axis=0) if len(values) > 1 else np.zeros(1)
    residuals = krylov.residual * np.abs(vectors[-1, order])
    errors = np.minimum(residuals, residuals**2 / np.maximum(gaps, np.finfo(np.float64).tiny))
    scale = max(float(np.abs(values).max()), np.finfo(np.float64).tiny)
    # The estimate holds only where the residual is small.
    excess = max(errors.max() / tolerance, residuals.max() / tolerance**0.5) / scale
    return _Ritz(values[order], residuals, errors, vectors[:, order], float(excess))


@dataclass(frozen=True, kw_only=True)
class SpectralDensity:
    """The distribution of the eigenvalues: quadrature nodes and weights, and a smoothed density."""

    nodes: Tensor
    """Ritz values of all probes, ``(probes, steps)``, float64."""
    weights: Tensor
    """Share of the eigenvalues that each node represents, ``(probes, steps)``; each probe's sum to one."""
    grid: Tensor
    """Points at which the density is given, ``(points,)``."""
    density: Tensor
    """Density of the eigenvalues at the grid's points; integrates to one."""
    standard_error: Tensor
    """Standard error of the density, from the spread of the probes; infinite for a single one."""
    width: float
    """Standard deviation of the Gaussian that each node is drawn as."""
    size: int
    """Rows of the matrix."""
    num_products: int

    def moment(self, power: int) -> float:
        """Mean of the eigenvalues to a power, unbiased; ``size`` times the first estimates the trace."""
        return float((self.weights * self.nodes**power).sum(1).mean())


def spectral_density(
    model: nn.Module,
    loss: Loss,
    data: Batches,
    *,
    num_steps: int = 60,
    num_probes: int = 4,
    num_points: int = 1000,
    width: float | None = None,
    matrix: Matrix = "hessian",
    parameters: str | Iterable[str] | None = None,
    mode: Mode = "eval",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> SpectralDensity:
    r"""Density of the Hessian's eigenvalues, by stochastic Lanczos quadrature.

    .. math:: \phi(t) = \frac1P \sum_i \delta(t - \lambda_i) \approx
        \frac1M \sum_{j=1}^{M} \sum_k \tau_{jk}^2\, \mathcal N(t;\, \theta_{jk}, \sigma^2)

    From each random starting vector Lanczos gives nodes :math:`\theta` and weights :math:`\tau^2` of a Gauss
    quadrature, exact for moments up to twice the number of steps.

    Args:
        model: Any network; left as it is.
        loss: Logits and labels to the mean loss of a batch.
        data: Pairs of inputs and labels, iterable many times.
        num_steps: Lanczos steps for each probe; the spectrum's ends converge first.
        num_probes: Starting vectors; the spread between them is the standard error.
        num_points: Points of the grid, which spans the spectrum.
        width: Standard deviation of the smoothing; default a hundredth of the spectrum's range.
        matrix: "hessian", or "gauss-newton".
        parameters: Names of parameters or modules; default all that are not frozen.
        mode: "eval" or "train", see :class:`HessianOperator`.
        seed: Seed of the probes.
        progress: Called with the products done and the most there will be.

    Returns:
        Nodes and weights, and the density on a grid with its standard error.

    Raises:
        InputError: If an argument is out of its range.

    Note:
        Spends ``num_steps * num_probes`` products at most. Memory: ``num_steps`` vectors for each probe that
        runs at the same time; for large networks that is one (see :class:`CurvatureOperator`).

    References:
        Ubaru, Chen and Saad, "Fast estimation of tr(f(A)) via stochastic Lanczos quadrature", SIAM J. Matrix
        Anal. Appl. 2017; Ghorbani, Krishnan and Xiao, "An investigation into neural net optimization via
        Hessian eigenvalue density", ICML 2019.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from calibrant.curvature import spectral_density
        >>> model = nn.Linear(1, 2, bias=False).double()
        >>> _ = nn.init.zeros_(model.weight)
        >>> data = [(torch.ones(4, 1).double(), torch.tensor([0, 1, 0, 1]))]
        >>> found = spectral_density(model, nn.functional.cross_entropy, data, num_probes=200)
        >>> abs(2 * found.moment(1) - 0.5) < 0.1  # the eigenvalues are 0 and 0.5
        True
    """
    check_at_least("num_steps", num_steps, 2)
    check_at_least("num_probes", num_probes, 1)
    check_at_least("num_points", num_points, 2)
    if width is not None and not width > 0:
        raise InputError(f"`width` must be positive; got {width}.")
    operator = curvature_operator(model, loss, data, matrix=matrix, parameters=parameters, mode=mode)
    generator = torch.Generator().manual_seed(seed)
    steps = min(num_steps, operator.size)
    nodes = torch.zeros((num_probes, steps), dtype=torch.float64)
    weights = torch.zeros_like(nodes)
    for start in range(0, num_probes, operator.block):
        runs = [operator.krylov(generator) for _ in range(min(operator.block, num_probes - start))]
        for _ in range(steps):
            going = [(run, run.direction) for run in runs if run.direction is not None]
            images = operator @ torch.stack([way for _, way in going], dim=1)
            for (run, way), image in zip(going, images.unbind(1), strict=True):
                run.take(way, image)
            if progress is not None:
                progress(operator.num_products, steps * num_probes)
        for probe, run in enumerate(runs, start):
            values, vectors = run.result.eigen()
            nodes[probe], weights[probe] = torch.from_numpy(values), torch.from_numpy(vectors[0] ** 2)
    return _smoothed(nodes, weights, width=width, num_points=num_points, size=operator.size)


def _smoothed(
    nodes: Tensor, weights: Tensor, *, width: float | None, num_points: int, size: int
) -> SpectralDensity:
    """Nodes and weights drawn as Gaussians on a grid that reaches four widths beyond them."""
    low, high = float(nodes.min()), float(nodes.max())
    spread = max(high - low, 1e-3 * max(abs(low), abs(high)), torch.finfo(torch.float64).tiny)
    width = width or spread / 100
    grid = torch.linspace(low - 4 * width, high + 4 * width, num_points, dtype=torch.float64)
    bells = torch.exp(-0.5 * ((grid[:, None, None] - nodes) / width).square())  # (points, probes, steps)
    each = (bells * weights).sum(2) / (width * math.sqrt(2 * math.pi))  # (points, probes)
    probes = nodes.shape[0]
    error = each.std(1) / math.sqrt(probes) if probes > 1 else torch.full_like(grid, torch.inf)
    return SpectralDensity(
        nodes=nodes,
        weights=weights,
        grid=grid,
        density=each.mean(1),
        standard_error=error,
        width=width,
        size=size,
        num_products=nodes.numel(),
    )
