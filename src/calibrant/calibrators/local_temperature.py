"""A temperature that depends on position, or on other covariates of a sample."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import check_logits
from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.newton import Expansion, Minimum, minimise_in_box
from calibrant._math.shapes import Float
from calibrant.calibrators.fitting.data import ALL_RIGHT
from calibrant.calibrators.fitting.results import on_bounds
from calibrant.calibrators.fitting.samples import Samples, likelihood_terms
from calibrant.calibrators.inputs import check_like_fit, counted_positions

_FLAT = 1e-8  # largest derivative that counts as an optimum
_NAME = "local temperature"
_MOST = 10.0  # of a weight, per standard deviation of its covariate


@dataclass(frozen=True, kw_only=True)
class LocalTemperature:
    """A temperature from covariates; :func:`fit_local_temperature` makes it."""

    intercept: float
    """Logarithm of the temperature where all covariates are zero."""
    weights: tuple[float, ...]
    """Weight of each covariate in log T."""
    loss: float
    """Mean negative log-likelihood where it was fitted."""
    loss_of_one: float
    """Mean negative log-likelihood with one temperature for all."""
    num_classes: int
    """Classes of the logits it was fitted on."""
    converged: bool = True
    """True if all derivatives are zero, except at bounds."""
    covariates: tuple[str, ...] = ()
    """Names of the covariates, if any."""

    def temperature(self, covariates: ArrayLike) -> Float[Tensor, " N *d"]:
        """Temperature of each sample or position.

        Args:
            covariates: ``(N, k)`` or ``(N, k, d1, ...)``, in the order of the fit.

        Raises:
            InputError: If there are other covariates than in the fit, or one is not finite.
        """
        given = _finite(covariates)
        if given.ndim < 2 or given.shape[1] != len(self.weights):
            raise InputError(
                f"`covariates` must have {len(self.weights)} columns in their second axis, as in the fit; "
                f"got shape {tuple(given.shape)}."
            )
        slope = torch.tensor(self.weights, dtype=torch.float64, device=given.device)
        logarithm = given.movedim(1, -1) @ slope + self.intercept
        return logarithm.exp().clamp(LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE)

    def predict_proba(self, logits: ArrayLike, covariates: ArrayLike) -> Float[Tensor, "N C *d"]:
        """Calibrated probabilities in float64.

        Args:
            logits: ``(N, C)`` or ``(N, C, d1, ...)``, with the classes of the fit; -inf rules a class out.
            covariates: One row per sample or position, ``(N, k)`` or ``(N, k, d1, ...)``.

        Raises:
            InputError: If shapes disagree, there are other classes than in the fit, or a value is not finite.
        """
        scores = as_float_tensor(logits, name="logits").to(torch.float64)
        _check_together(scores, as_float_tensor(covariates, name="covariates"))
        rows = scores.movedim(1, -1).flatten(0, -2) if scores.ndim > 2 else scores
        check_like_fit(_NAME, "multiclass", self.num_classes, rows)
        return (scores / self.temperature(covariates).to(scores.device).unsqueeze(1)).softmax(dim=1)

    def to_json(self) -> str:
        """The calibrator as JSON text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> LocalTemperature:
        """Read the text from :meth:`to_json`.

        Raises:
            InputError: If it is no such text.
        """
        try:
            given = json.loads(text)
            _check_parts(given)
            return cls(**given | {name: tuple(given[name]) for name in ("weights", "covariates")})
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"it is not a local temperature ({error}).") from error


def fit_local_temperature(
    logits: ArrayLike,
    labels: ArrayLike,
    covariates: ArrayLike,
    *,
    ignore_index: int | None = None,
    names: Sequence[str] = (),
) -> LocalTemperature:
    r"""Fit a temperature that depends on covariates, by maximum likelihood.

    .. math:: \hat p = \mathrm{softmax}(z / T(x)), \qquad \log T(x) = c + w^\top x

    The predicted class stays. Covariates are what is known of a position beside its logits: how many of its
    neighbours have equal predictions, the model's confidence in the image, or its camera.

    Args:
        logits: ``(N, C)``, or ``(N, C, d1, ...)`` of images.
        labels: Classes ``(N,)`` or ``(N, d1, ...)``.
        covariates: ``(N, k)`` or ``(N, k, d1, ...)``.
        ignore_index: Positions with this label are left out.
        names: Names of the covariates, one for each.

    Returns:
        The calibrator. ``loss`` minus ``loss_of_one`` is the covariates' effect on the samples of the fit;
        test it on other samples.

    Raises:
        InputError: If shapes disagree, a label is out of range, a value is not finite, no position counts,
            there is no covariate, or there are not as many names as covariates.

    Warns:
        CalibrantWarning: If every prediction is right, something lies on a bound, or no optimum was found.

    Note:
        Newton's method from the one temperature that is best for all, so ``loss`` never exceeds
        ``loss_of_one``. The likelihood is not concave: there may be other optima. Weights are bounded by 10
        for a standard deviation of their covariate. O(N C) per step, and float64 copies of all that counts.

    References:
        Ding, Han, Liu and Niethammer, "Local Temperature Scaling for Probability Calibration", ICCV 2021,
        where a convolutional network gives the temperature; here it is a function of covariates.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> true, blurred = rng.normal(size=(4000, 3)), rng.random((4000, 1))
        >>> probs = np.exp(true) / np.exp(true).sum(axis=1, keepdims=True)
        >>> labels = (probs.cumsum(axis=1) < rng.random((4000, 1))).sum(axis=1)
        >>> stated = true * np.exp(0.3 + blurred)  # too sure, the more so the more is blurred
        >>> found = fit_local_temperature(stated, labels, blurred, names=["blur"])
        >>> abs(found.weights[0] - 1) < 0.2
        True
    """
    scores = as_float_tensor(logits, name="logits").to(torch.float64)
    if scores.ndim < 2:
        raise InputError(f"`logits` must have shape (N, C) or (N, C, d1, ...); got {tuple(scores.shape)}.")
    given, width = _finite(covariates).to(scores.device), scores.shape[1]
    _check_together(scores, given)
    together, target, _ = counted_positions(torch.cat([scores, given], dim=1), labels, None, ignore_index)
    together = as_float_tensor(together, name="logits")
    checked = check_logits(together[:, :width], target, task="multiclass")
    samples, columns = Samples(checked.scores, checked.target, None), together[:, width:]
    number = columns.shape[1]
    if number == 0:
        raise InputError(
            "`covariates` must have at least one column in their second axis; got none; TemperatureScaling "
            "fits one temperature."
        )
    if names and not len(set(names)) == len(names) == number:
        raise InputError(f"`names` must hold one name for each of {number} covariates; got {list(names)}.")
    centre, scale = columns.mean(dim=0), columns.std(dim=0, correction=0)
    scale = torch.where(scale > 0, scale, 1.0)
    design = torch.nn.functional.pad((columns - centre) / scale, (1, 0), value=1)
    low = np.append(math.log(LOWEST_TEMPERATURE), np.full(number, -_MOST))
    high = np.append(math.log(HIGHEST_TEMPERATURE), np.full(number, _MOST))
    one = minimise_in_box(_likelihood(samples, design[:, :1]), np.zeros(1), low[:1], high[:1])
    best = minimise_in_box(_likelihood(samples, design), np.append(one.point, np.zeros(number)), low, high)
    weights = best.point[1:] / scale.numpy()
    converged = best.slope < _FLAT
    if doubts := _doubts(samples, design, best, names, converged=converged):
        warnings.warn(f"{_NAME}: {'; '.join(doubts)}.", CalibrantWarning, stacklevel=2)
    return LocalTemperature(
        intercept=float(best.point[0] - weights @ centre.numpy()),
        weights=tuple(weights.tolist()),
        loss=best.value,
        loss_of_one=one.value,
        num_classes=width,
        converged=converged,
        covariates=tuple(names),
    )


def _likelihood(samples: Samples, design: Float[Tensor, "N k"]) -> Callable[[NDArray[np.float64]], Expansion]:
    """Mean negative log-likelihood by the weights of the columns, whose sum is log T."""

    def expansion(point: NDArray[np.float64]) -> Expansion:
        slope = torch.from_numpy(point).to(design)
        value = design.new_zeros(())
        gradient, hessian = torch.zeros_like(slope), design.new_zeros(len(slope), len(slope))
        end = 0
        for block in samples.blocks():
            start, end = end, end + len(block.shares)
            columns = design[start:end]
            beta = (-(columns @ slope)).exp()
            terms, first, second = likelihood_terms(block, beta[:, None]).unbind(dim=1)
            value += block.shares @ terms
            falls = block.shares * beta * first  # minus the derivative by log T
            gradient -= columns.T @ falls
            hessian += columns.T @ ((block.shares * beta.square() * second + falls)[:, None] * columns)
        return Expansion(float(value), gradient.cpu().numpy(), hessian.cpu().numpy())

    return expansion


def _doubts(
    samples: Samples, design: Tensor, best: Minimum, names: Sequence[str], *, converged: bool
) -> list[str]:
    """Warnings about data without errors, parameters on bounds, and a missing optimum."""
    said = [ALL_RIGHT] if samples.mean_gap == 0 else []
    bounds = {math.log(end): end for end in (LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE)}
    said.extend(on_bounds(bounds.get(best.point[0], 1.0)))
    places = np.flatnonzero(abs(best.point[1:]) >= _MOST).tolist()
    held = [names[place] if names else str(place) for place in places]
    if held:
        said.append(f"the best weight is a bound, {_MOST:g} for a deviation, of covariate {', '.join(held)}")
    logarithms = (design.cpu() @ torch.from_numpy(best.point)).numpy()
    beyond = int(((logarithms < min(bounds)) | (logarithms > max(bounds))).sum())
    if beyond:
        said.append(f"{beyond} of {len(logarithms)} temperatures lie beyond a bound, which they are cut to")
    if not converged:
        said.append(f"no optimum was found; the largest derivative is {best.slope:.1e}")
    return said


def _check_parts(given: dict[str, Any]) -> None:
    weights, names = given["weights"], given["covariates"]
    if not isinstance(weights, list) or not weights:
        raise InputError("`weights` must be a list with a number for each covariate")
    numbers = [*weights, *(given[name] for name in ("intercept", "loss", "loss_of_one"))]
    if not all(type(each) in {int, float} and math.isfinite(each) for each in numbers):
        raise InputError("`intercept`, `weights`, `loss` and `loss_of_one` must be finite numbers")
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise InputError("`covariates` must be a list of names")
    if names and len(names) != len(weights):
        raise InputError(f"`covariates` must name {len(weights)} of them; got {len(names)}")
    if type(given["num_classes"]) is not int or given["num_classes"] < 2:
        raise InputError(f"`num_classes` must be a whole number from 2 on; got {given['num_classes']!r}")
    if not isinstance(given["converged"], bool):
        raise InputError(f"`converged` must be true or false; got {given['converged']!r}")


def _finite(covariates: ArrayLike) -> Float[Tensor, "N k *d"]:
    given = as_float_tensor(covariates, name="covariates").to(torch.float64)
    if not bool(given.isfinite().all()):
        raise InputError("`covariates` must be finite.")
    return given


def _check_together(logits: Tensor, covariates: Tensor) -> None:
    places = [(*each.shape[:1], *each.shape[2:]) for each in (logits, covariates)]
    if covariates.ndim != logits.ndim or places[0] != places[1]:
        wanted = ", ".join(("N", "k", *(f"d{axis}" for axis in range(1, logits.ndim - 1))))
        raise InputError(
            f"`covariates` must have shape ({wanted}) to go with `logits` of shape {tuple(logits.shape)}; "
            f"got {tuple(covariates.shape)}."
        )
