"""Minimisers of a loss's expectation: the probabilities that it elicits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import check_probs
from calibrant._math.errors import InputError
from calibrant._math.newton import halved
from calibrant._math.shapes import Float
from calibrant.theory.risk_minimiser_losses import Loss, Risk

__all__ = ["RiskMinimiser", "elicited_map", "risk_minimiser"]

_CONVERGED = 1e-10  # of a probability
_GONE = 1e-3  # a probability that may be approaching zero
_FAR = 1000.0  # a logit gap whose probability is exactly zero
_SAME = 1e-12  # difference of risks that is rounding
_ROUGH = ("interior", "boundary", "kink")  # the smoothest kind of minimum first
_FEW_CLASSES = 10  # limit for a search without derivatives
# Two classes: range and number of log-odds, and refinements of the lowest places.
_REACH = 30.0  # log-odds
_POINTS = 601
_ZOOMS = 24
_VALLEYS = 3
# Newton steps.
_DENSE = 50  # classes at most for a dense matrix of second derivatives
_LONGEST_STEP = 4.0
_SMALL = 1e-13  # change of a probability that ends the search
_HALVINGS = 30  # of a Newton step
_ROUNDING = 1e-13  # of the risk, relative
_FLATTER = 0.9  # factor by which the gradient must then shrink
_DIFFERENCE = 1e-5  # step in a logit if second derivatives must be differences of first ones


@dataclass(frozen=True, kw_only=True, eq=False)
class RiskMinimiser:
    """Minimiser of the risk, with error estimates."""

    probs: Float[Tensor, " C"]
    """The minimiser, float64; where the minimum is at infinite logits, its limit, with exact zeros."""
    risk: float
    """The least expected loss."""
    kind: Literal["interior", "boundary", "kink"]
    """A point with a gradient of zero; a limit at infinite logits; a kink or a jump of the loss."""
    gradient_norm: float
    """Length of the risk's gradient by the logits; NaN at a kink, which has none."""
    least_curvature: float
    """Smallest second derivative of the risk by the logits, without their common shift. Positive at a
    locally unique minimum; NaN at a boundary, at a kink and for more than 50 classes."""
    error: float
    """Estimate of how far ``probs`` is from the exact place: the next Newton step, or the bracket's width."""
    converged: bool
    """True if ``error`` is at most 1e-10."""
    others: tuple[Float[Tensor, " C"], ...]
    """Other places of the same risk, where the searches found some."""


def risk_minimiser(
    loss: Loss, posterior: ArrayLike, *, batch_size: int | None = None, num_starts: int = 4, seed: int = 0
) -> RiskMinimiser:
    r"""Probabilities that minimise a loss in expectation.

    .. math:: q^* = \operatorname*{arg\,min}_{q = \mathrm{softmax}(z)} \sum_k p_k \, \ell(z, k)

    Two classes: the risk is evaluated everywhere on a grid of log-odds from -30 to 30, and its lowest valleys
    are followed down; this also finds minima at kinks and jumps of the loss. More classes: damped Newton
    steps in the logits (conjugate gradients beyond 50 classes) from the posterior, from a flatter and a
    sharper one and from random places; the lowest end is returned. For a loss that is not convex that is no
    proof that it is the lowest anywhere.

    Where the risk only approaches its infimum as logits go to minus infinity (cross-entropy where the
    posterior has zeros, a norm ``"l1"`` alone), ``kind`` is ``"boundary"`` and ``probs`` is the limit.

    Args:
        loss: Takes float64 logits ``(N, C)`` and labels ``(N,)``; gives one value per sample or one for the
            batch. A ``reduction`` that it has, as argument or attribute, is set to ``"none"``; a loss that
            gives but one number is evaluated sample by sample.
        posterior: True probabilities of the classes, shape ``(C,)``.
        batch_size: For losses of a whole batch, as MMCE: the posterior is laid out as this many labels on
            equal logits, of which it must make whole numbers, and the loss taken once.
        num_starts: Number of searches, for more than two classes.
        seed: Seed of the random starts.

    Returns:
        The minimiser with its certificate: gradient, smallest curvature, estimated error.

    Raises:
        InputError: If ``posterior`` is not a distribution, or the loss gives values of another shape.

    Note:
        Converges to 1e-10 in the probabilities where the loss is differentiable twice at the minimum.
        For more than two classes a minimum at a kink or jump is found to about 1e-6, and ``converged`` is
        false; for more than ten, as far as Newton's steps lead. For two classes a kink is bracketed to
        rounding.

    References:
        Charoenphakdee et al., "On Focal Loss for Class-Posterior Probability Estimation: A Theoretical
        Perspective", CVPR 2021.

    Example:
        >>> import torch
        >>> def brier(logits, labels):
        ...     onehot = torch.nn.functional.one_hot(labels, logits.shape[1])
        ...     return (logits.softmax(1) - onehot).square().sum(1)
        >>> found = risk_minimiser(brier, [0.7, 0.2, 0.1])
        >>> found.probs, found.kind
        (tensor([0.7000, 0.2000, 0.1000], dtype=torch.float64), 'interior')
        >>> found.converged, found.least_curvature > 0
        (True, True)
    """
    probs = check_posterior(posterior)
    risk = Risk(loss, probs, batch_size=batch_size)
    return _minimise(risk, num_starts=num_starts, seed=seed)


def elicited_map(
    loss: Loss, posteriors: ArrayLike, *, batch_size: int | None = None, num_starts: int = 2, seed: int = 0
) -> Float[Tensor, "N C"]:
    r"""Probabilities that a loss elicits, one row for each posterior.

    The outputs of a network trained perfectly with the loss if ``posteriors`` are true: the
    :func:`risk_minimiser` of every row, with its arguments and errors; events may be given as ``(N,)``. The
    identity for a strictly proper loss, :func:`inverse_focal_calibration_map` for focal loss.

    Returns:
        Probabilities of the shape of ``posteriors``, float64.

    Example:
        >>> import torch
        >>> def focal(logits, labels):
        ...     log_p = logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
        ...     return -(1 - log_p.exp()) ** 2 * log_p
        >>> elicited_map(focal, [0.2, 0.5, 0.8])
        tensor([0.3734, 0.5000, 0.6266], dtype=torch.float64)
    """
    checked = check_probs(posteriors)
    scores = checked.scores.double()
    rows = torch.stack([1 - scores, scores], dim=1) if checked.task == "binary" else scores
    found = torch.stack(
        [
            risk_minimiser(loss, row, batch_size=batch_size, num_starts=num_starts, seed=seed).probs
            for row in rows
        ]
    )
    return found[:, 1] if checked.task == "binary" else found


def check_posterior(posterior: ArrayLike) -> Float[Tensor, " C"]:
    """One distribution over two or more classes, in float64 and normalised."""
    row = as_float_tensor(posterior, name="posterior")
    if row.ndim != 1 or len(row) < 2:
        raise InputError(f"`posterior` must have shape (C,) with C >= 2; got {tuple(row.shape)}.")
    try:
        probs = check_probs(row[None]).scores[0].double().cpu()
    except InputError as error:
        raise InputError(f"`posterior` must be probabilities that sum to one; got {row.tolist()}.") from error
    return probs / probs.sum()


def _minimise(risk: Risk, *, num_starts: int, seed: int) -> RiskMinimiser:
    binary = risk.num_classes == 2
    if binary:
        ends = [end for valley in _valleys(risk) for end in _ends_in(risk, valley)]
    else:
        starts = _starts(risk.posterior, num_starts, seed)
        ends = [_at_infinity(risk, _descend(risk, start)) for start in starts]
    lowest = min(end.risk for end in ends)
    slack = _SAME * (1 + abs(lowest))
    level = [end for end in ends if end.risk <= lowest + slack]
    best = min(level, key=lambda end: (not end.converged, _ROUGH.index(end.kind), end.error, end.risk))
    if not best.converged and not binary and best.kind != "boundary":
        best = _by_values(risk, best)
    return replace(best, others=_other_places(best, level))


def _end(
    probs: Float[Tensor, " C"],
    risk: float,
    kind: Literal["interior", "boundary", "kink"],
    error: float,
    *,
    gradient_norm: float = math.nan,
    least_curvature: float = math.nan,
) -> RiskMinimiser:
    known = {"gradient_norm": gradient_norm, "least_curvature": least_curvature, "error": error}
    return RiskMinimiser(probs=probs, risk=risk, kind=kind, converged=error <= _CONVERGED, others=(), **known)


def _other_places(best: RiskMinimiser, level: list[RiskMinimiser]) -> tuple[Float[Tensor, " C"], ...]:
    known = [best.probs]
    for end in level:
        if end.converged and all(float((end.probs - probs).abs().max()) > 1e-6 for probs in known):
            known.append(end.probs)
    return tuple(known[1:])


def _starts(posterior: Float[Tensor, " C"], count: int, seed: int) -> list[Float[Tensor, " C"]]:
    """Logits of the posterior, of a flatter and a sharper one, and random logits."""
    truth = posterior.clamp(min=1e-9).log()
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(max(count - 3, 0), len(posterior), generator=generator, dtype=torch.float64)
    return [truth, 0.3 * truth, 1.5 * truth, *(2 * noise)][: max(1, count)]


def _at_infinity(risk: Risk, point: _Point) -> RiskMinimiser:
    """End of a search; its limit if small probabilities were on their way to zero."""
    probs = point.logits.softmax(0)
    small = probs < _GONE
    if bool(small.any()):
        # Send all at most as large as the k-th smallest to zero: the lowest risk wins, certainty on a tie.
        for bound in probs[small].unique().flip(0):
            limit = torch.where(probs <= bound, point.logits.max() - _FAR, point.logits)
            value = float(risk.many(limit[None])[0])
            if value <= point.risk:
                return _limit(risk, limit, value, probs <= bound)
    error = point.error if math.isfinite(point.risk) else math.inf
    found = {"gradient_norm": point.gradient_norm, "least_curvature": point.least_curvature}
    return _end(probs, point.risk, "interior", error, **found)


def _limit(risk: Risk, logits: Float[Tensor, " C"], value: float, gone: Tensor) -> RiskMinimiser:
    """A minimum at infinity; the remaining classes are searched again."""
    left = int((~gone).sum())
    error, gradient_norm = 0.0, 0.0
    if left > 1:
        point = _descend(risk, logits, max_steps=50)
        logits, value = torch.where(gone, logits, point.logits), min(value, point.risk)
        error, gradient_norm = point.error, point.gradient_norm
    probs = torch.where(gone, 0.0, logits.masked_fill(gone, -math.inf).softmax(0))
    return _end(probs, value, "boundary", error, gradient_norm=gradient_norm)


def _ends_in(risk: Risk, valley: _Valley) -> list[RiskMinimiser]:
    """Ends of a valley of two classes: by derivatives, and by values if these fail."""
    end = _at_infinity(risk, _descend(risk, _rows_of([valley.best])[0]))
    if end.converged and end.risk <= valley.risk:
        return [end]
    # By values: exact at a kink or a jump, half the digits if the risk is smooth.
    low, best, high, value = _zoom(risk, valley)
    sharp = float(risk.many(_rows_of([best - 1e-6, best + 1e-6])).min()) - value > 1e-9  # smooth: 1e-12
    at_low, probs, at_high = _rows_of([low, best, high]).softmax(1)
    width = float(at_high[1] - at_low[1])
    return [end, _end(probs, value, "kink", width if sharp else max(width, 1e-8))]


def _by_values(risk: Risk, end: RiskMinimiser) -> RiskMinimiser:
    """A minimum of more classes by a simplex search if derivatives fail."""
    from scipy.optimize import minimize

    if risk.num_classes > _FEW_CLASSES:
        return end
    logits, value = end.probs.clamp(min=1e-300).log(), end.risk
    for _ in range(2):
        found = minimize(
            lambda x: float(risk.many(torch.from_numpy(x)[None])[0]),
            logits.numpy(),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-14, "maxiter": 200 * risk.num_classes, "adaptive": True},
        )
        logits, value = torch.from_numpy(found.x), float(found.fun)
    if value < end.risk - _SAME:
        return _end(logits.softmax(0), value, "kink", 1e-6)
    return _end(end.probs, end.risk, "kink", max(1e-6, end.error))


class _Valley(NamedTuple):
    """Interval of log-odds around a minimum of the risk, and the best point found inside."""

    low: float
    best: float
    high: float
    risk: float


def _rows_of(log_odds: Float[Tensor, " G"] | Sequence[float]) -> Float[Tensor, "G 2"]:
    halves = torch.as_tensor(log_odds, dtype=torch.float64) / 2
    return torch.stack([-halves, halves], dim=1)


def _valleys(risk: Risk) -> list[_Valley]:
    """Lowest points of the risk on a grid of log-odds, each with its neighbours."""
    grid = torch.linspace(-_REACH, _REACH, _POINTS, dtype=torch.float64)
    values = risk.many(_rows_of(grid))
    padded = torch.nn.functional.pad(values, (1, 1), value=torch.inf)
    lowest = ((values <= padded[:-2]) & (values <= padded[2:])).nonzero()[:, 0]
    order = lowest[values[lowest].argsort(stable=True)][:_VALLEYS].tolist()
    last = _POINTS - 1
    return [
        _Valley(grid[max(i - 1, 0)].item(), grid[i].item(), grid[min(i + 1, last)].item(), values[i].item())
        for i in order
    ]


def _zoom(risk: Risk, valley: _Valley) -> _Valley:
    low, best, high, value = valley
    for _ in range(_ZOOMS):
        grid = torch.linspace(low, high, 33, dtype=torch.float64)
        values = risk.many(_rows_of(grid))
        place = int(values.argmin())
        if values[place].item() <= value:
            best, value = grid[place].item(), values[place].item()
        step = (high - low) / 32
        low, high = best - step, best + step
    return _Valley(low, best, high, value)


class _Point(NamedTuple):
    logits: Float[Tensor, " C"]
    risk: float
    gradient_norm: float
    error: float
    """Largest change of a probability by a further step."""
    least_curvature: float
    """Smallest second derivative of the risk, along logits that sum to zero; NaN where not computed."""


class _Local:
    def __init__(self, risk: Risk, logits: Float[Tensor, " C"]) -> None:
        self._risk = risk
        self.logits = logits
        self._free = logits.detach().clone().requires_grad_()
        value = risk.at(self._free)
        self.value = value.item()
        twice = value.requires_grad
        try:
            (self._slope,) = torch.autograd.grad(value, self._free, create_graph=True)
        except RuntimeError:
            twice = False
            self._slope = torch.zeros_like(self._free)
        self.twice = twice and self._slope.requires_grad
        self.gradient = self._slope.detach()

    def times(self, direction: Float[Tensor, " C"]) -> Float[Tensor, " C"]:
        if self.twice:
            try:
                (product,) = torch.autograd.grad(
                    self._slope, self._free, direction, retain_graph=True, materialize_grads=True
                )
            except RuntimeError:  # differentiable once only
                self.twice = False
            else:
                return product
        length = _DIFFERENCE / float(direction.abs().max().clamp(min=1e-300))
        ahead, behind = (
            _Local(self._risk, self.logits + sign * length * direction).gradient for sign in (1, -1)
        )
        return (ahead - behind) / (2 * length)


def _dense_step(local: _Local) -> tuple[Float[Tensor, " C"], float]:
    """Newton's step with every curvature made positive, and the smallest curvature."""
    size = len(local.logits)
    matrix = torch.stack([local.times(row) for row in torch.eye(size, dtype=torch.float64)])
    if not bool(matrix.isfinite().all()):
        return -local.gradient, math.nan
    # Any orthonormal basis of the logits that sum to zero.
    spanning = torch.cat([torch.ones(size, 1), torch.eye(size)[:, :-1]], dim=1).double()
    basis = torch.linalg.qr(spanning).Q[:, 1:]
    curvatures, directions = torch.linalg.eigh(basis.T @ (matrix + matrix.T) @ basis / 2)
    floor = max(1e-14 * float(curvatures.abs().max()), 1e-300)
    pulled = directions.T @ (basis.T @ local.gradient)
    step = -(basis @ (directions @ (pulled / curvatures.abs().clamp(min=floor))))
    return step, float(curvatures[0])


def _sparse_step(local: _Local) -> tuple[Float[Tensor, " C"], float]:
    """Newton's step by conjugate gradients, preconditioned by the probabilities."""
    scale = local.logits.softmax(0).clamp(min=1e-12)
    step = torch.zeros_like(local.gradient)
    residual = local.gradient.mean() - local.gradient  # a common shift changes nothing
    scaled = residual / scale
    direction = scaled
    product = residual @ scaled
    first = float(product)
    for _ in range(2 * len(step)):
        along = local.times(direction)
        along = along - along.mean()
        curvature = direction @ along
        if float(curvature) <= 0:
            return (step if bool(step.any()) else direction), math.nan
        length = product / curvature
        step = step + length * direction
        residual = residual - length * along
        scaled = residual / scale
        following = residual @ scaled
        if float(following) <= 1e-24 * first:
            break
        direction = scaled + following / product * direction
        product = following
    return step - step.mean(), math.nan


def _moved(logits: Float[Tensor, " C"], step: Float[Tensor, " C"]) -> float:
    """Largest change of a probability by a step, to first order."""
    probs = logits.softmax(0)
    return float((probs * (step - probs @ step)).abs().max())


def _descend(risk: Risk, start: Float[Tensor, " C"], *, max_steps: int = 300) -> _Point:
    """Follow damped Newton steps until they move no probability by 1e-13."""
    local = _Local(risk, start - start.mean())
    find = _dense_step if risk.num_classes <= _DENSE else _sparse_step
    step, curvature = find(local)
    for _ in range(max_steps):
        if not math.isfinite(local.value) or _moved(local.logits, step) <= _SMALL:
            break
        longest = float(step.abs().max())
        step = step * min(1.0, _LONGEST_STEP / longest)
        following = _search_along(risk, local, step)
        if following is None:
            break
        local = following
        step, curvature = find(local)
    return _Point(
        local.logits, local.value, float(local.gradient.norm()), _moved(local.logits, step), curvature
    )


def _search_along(risk: Risk, local: _Local, step: Float[Tensor, " C"]) -> _Local | None:
    """First of the halved steps that lowers the risk or, within its rounding, the gradient."""
    slope, old = float(local.gradient @ step), float(local.gradient.norm())

    def at(part: float) -> tuple[float, float, _Local]:
        trial = _Local(risk, local.logits + part * step)
        return trial.value, part * slope, trial

    return halved(
        at,
        local.value,
        flatter=lambda trial: float(trial.gradient.norm()) < _FLATTER * old,
        rounding=_ROUNDING,
        halvings=_HALVINGS,
    )
