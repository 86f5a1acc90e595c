"""Calibrators with affine functions of logits, shrunk towards temperature scaling on few samples."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from calibrant._math.checks import Task, check_choice
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant._math.simplex import log_softmax
from calibrant._math.text_form import plural
from calibrant.calibrators.affine import Affine
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.data import CONSTANT, few, folds_of_alike, mean_and_error
from calibrant.calibrators.fitting.regression import Fitted, Regression, regress
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.searches import maximum_likelihood_temperature

Structure: TypeAlias = Literal["matrix", "diagonal"]
Form: TypeAlias = Literal["matrix", "diagonal", "shifts"]
"""Free weights: all, one for each class, or one for all classes; shifts are always free."""
Penalty: TypeAlias = float | Literal["auto"]
Found: TypeAlias = tuple[Fitted, tuple[str, ...]]
"""Parameters for standardised logits, and warnings."""

_SHARE = 10  # samples per free parameter
_FOLDS = 3
_LARGE = 2**15  # parameters; beyond, one fold is enough
_ROUGH = 1e-4  # gradient at which a fold's fit can be compared
_STRENGTHS = (100.0, 10.0, 1.0, 0.1, 0.01, 0.001)
_USUAL = 1e-3  # penalty of Dirichlet calibration
_NO_MAXIMUM = "the likelihood has no maximum"
_PENALISED = "so departures from temperature scaling were penalised"


@dataclass(frozen=True, eq=False)
class Standardised:
    """Logits of mean square one, their temperature scaling, and the form of the map."""

    samples: Samples
    logits: Float[Tensor, "N C"]
    scale: float
    temperature: Solution
    form: Form
    start: Float[Tensor, "C F"] | None = None  # parameters of a fit to similar data

    @cached_property
    def features(self) -> Float[Tensor, "N F"] | Float[Tensor, "2 N C"]:
        """All logits and 1, or each class's logit and 1."""
        ones = torch.ones_like(self.logits)
        if self.form == "matrix":
            return torch.cat([self.logits, ones[:, :1]], dim=1)
        return torch.stack([self.logits, ones])

    @property
    def num_parameters(self) -> int:
        """How many are free."""
        count = self.logits.shape[1]
        return count + {"matrix": count**2, "diagonal": count, "shifts": 1}[self.form]

    @property
    def is_overfitted(self) -> bool:
        """Return True if parameters exceed a tenth of the samples, or classes a twentieth."""
        number = max(self.num_parameters, 2 * self.logits.shape[1])
        return _SHARE * number > self.samples.total_weight

    @property
    def pull(self) -> Float[Tensor, "C F"]:
        """Strength of the penalty: C on the diagonal and on shifts, more off it, divided by N."""
        num_classes = self.logits.shape[1]
        ridge = torch.full((num_classes, self._width), float(num_classes)).to(self.logits)
        if self.form == "matrix":
            ridge[:, :-1] = num_classes**1.5
            ridge[:, :-1].fill_diagonal_(num_classes)
        return ridge / self.samples.total_weight

    def around_temperature(self, ridge: Float[Tensor, "C F"] | float) -> Regression:
        """Problem whose penalty pulls towards temperature scaling."""
        slope = self.scale / self.temperature.parameters["temperature"]
        centre = self.logits.new_zeros(self.logits.shape[1], self._width)
        ridge = centre + ridge
        if self.form == "matrix":
            centre[:, :-1].fill_diagonal_(slope)
        else:
            centre[:, 0] = slope
        if tied := self.form == "shifts":
            ridge[:, 0] /= len(centre)  # which all count
        return Regression(self.features, self.samples.labels, self.samples.shares, ridge, centre, tied)

    @property
    def _width(self) -> int:
        return self.logits.shape[1] + 1 if self.form == "matrix" else 2


class LinearScaling(Calibrator):
    r"""Affine functions of logits: ``weight`` and ``bias``.

    Adding a number to all logits of a sample is irrelevant, so rows are first normalised: centred,
    or the logarithms of probabilities.
    """

    kinds: ClassVar[tuple[Task, ...]] = ("multiclass",)
    for_other_kinds = "use platt for a slope and an intercept"
    unit_powers: ClassVar = {"weight": -1}
    parameter_ranges: ClassVar = {"weight": (-math.inf, math.inf), "bias": (-math.inf, math.inf)}
    parameter_shapes: ClassVar = {"weight": ("C", "C"), "bias": ("C",)}
    objective = "nll"
    weight: Tensor
    bias: Tensor
    _form: Form = "matrix"

    def _features(self, scores: Tensor) -> Float[Tensor, "N C"]:
        """Form of the logits that does not depend on their mean."""
        return scores - scores.mean(dim=1, keepdim=True)

    def _fit(self, data: Standardised) -> Found:
        """The plain optimum; if that overfits or has no maximum, near temperature scaling."""
        if data.is_overfitted:
            return _cross_validated(data)
        trouble = "a class that never occurs"
        if len(data.samples.labels.unique()) == data.logits.shape[1]:
            fitted = regress(data.around_temperature(0.0), data.start)
            if not fitted.unbounded:
                return fitted, ()
            trouble = "separable data"
        fitted = regress(data.around_temperature(1 / data.samples.total_weight), data.start)
        return fitted, (f"{_NO_MAXIMUM} ({trouble}), {_PENALISED}",)

    def _solve(self, samples: Samples) -> Solution:
        return self._solve_near({}, samples)

    def _solve_near(self, start: Mapping[str, Any], samples: Samples) -> Solution:
        logits = self._features(samples.scores.to(torch.float64))
        largest = float(logits.abs().max()) or 1.0  # divided first: squares of huge numbers are infinite
        scale = largest * float(((logits / largest).square().mean(dim=1) @ samples.shares).sqrt()) or 1.0
        base = maximum_likelihood_temperature(samples)
        form, near = self._form, None
        if start:
            weight = start["weight"] * scale
            weight = weight.diag() if form != "matrix" and weight.ndim == 2 else weight
            near = torch.cat([weight.reshape(logits.shape[1], -1), start["bias"][:, None]], dim=1)
        fitted, trouble = self._fit(Standardised(samples, logits / scale, scale, base, form, near))
        weight, bias = fitted.theta[:, :-1] / scale, fitted.theta[:, -1]
        if weight.shape[1] == 1:
            weight = weight[:, 0] if self.parameter_shapes["weight"] == ("C",) else weight[:, 0].diag()
        tables = {"weight": weight.contiguous(), "bias": bias - bias.mean()}
        log_probs = log_softmax(_affine(logits, **tables)).gather(1, samples.labels[:, None])[:, 0]
        alike = bool((samples.scores == samples.scores[:1]).all())
        notes = (CONSTANT,) if samples.is_constant else ("the logits of all samples are the same",) * alike
        return Solution.by_gradient(
            fitted.gradient,
            converged=fitted.converged,
            steps=fitted.steps,
            before=base.before,
            after=float(-log_probs @ samples.shares),
            parameters={},
            warnings=(*trouble, *notes, *few(samples.num_samples)),
            compared={"temperature": base.after},
            tables=tables,
        )

    def affine(self) -> Affine | None:
        """Weight and bias of logits that need not be centred."""
        weight = self.weight.diag() if self.weight.ndim == 1 else self.weight
        return Affine(weight - weight.mean(dim=1, keepdim=True), self.bias)

    def _transform(self, scores: Tensor) -> Tensor:
        return log_softmax(_affine(self._features(scores), self.weight.to(scores), self.bias.to(scores)))


def _affine(logits: Tensor, weight: Tensor, bias: Tensor) -> Float[Tensor, "N C"]:
    return (logits * weight if weight.ndim == 1 else logits @ weight.T) + bias


def _cross_validated(data: Standardised) -> Found:
    """Weakest penalty towards temperature scaling that still pays on held-out folds."""
    number, whole = data.num_parameters, data.around_temperature(data.pull)
    confidences = data.logits.amax(dim=1) - data.logits.logsumexp(dim=1)
    numbers, alike = folds_of_alike(confidences, data.samples.labels, _FOLDS)
    folds = [numbers == fold for fold in range(1 if number > _LARGE else _FOLDS)]
    shares = torch.where(numbers < len(folds), data.samples.shares, 0)
    shares = shares / shares.sum()
    base, losses = whole.losses(whole.centre), torch.zeros_like(shares)
    starts = [whole.centre] * len(folds)
    chosen, best, error = 0.0, 0.0, 0.0
    for strength in _STRENGTHS:
        for fold, inside in enumerate(folds):
            starts[fold] = regress(whole.part(~inside, strength), starts[fold], tolerance=_ROUGH).theta
            losses[inside] = whole.losses(starts[fold])[inside]
        gain, noise = mean_and_error(base - losses, shares, alike)
        if gain <= best:
            break
        chosen, best, error = strength, gain, noise
    told = f"{number} parameters are many for {plural(data.samples.num_samples, 'sample')}, so"
    if best <= error:
        fitted = Fitted(whole.centre, whole.value_of(whole.centre, base), 0.0, 1, unbounded=False)
        return fitted, (f"{told} by cross-validation this is temperature scaling",)
    fitted = regress(data.around_temperature(chosen * data.pull), data.start)
    told += " departures from temperature scaling were penalised"
    return fitted, (f"{told} (cross-validated: {chosen:g})",)


class VectorScaling(LinearScaling):
    r"""Scale and shift the logits of each class.

    .. math:: \hat p = \mathrm{softmax}(w \odot z + b)

    The logits z of a sample are centred first, as their mean is irrelevant. With equal factors and no shifts
    this is temperature scaling, so it is never less likely; the shifts correct class frequencies that differ
    from those in training. The predicted class may change.

    With more parameters than a tenth of the samples, departures from temperature scaling are penalised as in
    :class:`StructuredMatrixScaling`, by as much as three-fold cross-validation asks for. If the likelihood
    has no maximum (separable data, a class that never occurs), they cost as much as one sample. A warning
    says so.

    Raises:
        InputError: On ``fit``, for binary and multilabel log-odds; there it is :class:`PlattScaling`.

    Note:
        Newton's method on a convex function of 2 C parameters to a gradient below 1e-8, O(N C) memory.

    References:
        Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Example:
        >>> import torch
        >>> logits = torch.log(torch.tensor([[0.5, 0.25, 0.25]])).expand(100, 3)
        >>> labels = torch.tensor([0, 0, 1, 1, 1, 1, 1, 2, 2, 2] * 10)
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # the logits of all samples are the same
        ...     calibrator = VectorScaling().fit(logits, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(logits)[0].tolist()]
        [0.2, 0.5, 0.3]
    """

    name = "vector"
    title = "Vector scaling"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("multiclass",)
    parameter_shapes: ClassVar = {"weight": ("C",), "bias": ("C",)}
    _form = "diagonal"


class MatrixScaling(LinearScaling):
    r"""Multiply the logits by a matrix and shift them.

    .. math:: \hat p = \mathrm{softmax}(W z + b)

    The logits z of a sample are centred first, as their mean is irrelevant. C² + C parameters overfit unless
    there are many more samples than that: :class:`StructuredMatrixScaling` is the safe form. The predicted
    class may change.

    With more parameters than a tenth of the samples, departures from temperature scaling are penalised as in
    :class:`StructuredMatrixScaling`, by as much as three-fold cross-validation asks for. If the likelihood
    has no maximum (separable data, a class that never occurs), they cost as much as one sample. A warning
    says so.

    Raises:
        InputError: On ``fit``, for binary and multilabel log-odds; see :class:`PlattScaling`.

    Note:
        Newton's method on a convex function to a gradient below 1e-8; beyond 512 parameters its steps are
        found by conjugate gradients, so that no matrix of second derivatives is needed.

    References:
        Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 2 * torch.randn(2000, 3, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator)[:, 0]
        >>> mixed = logits + logits[:, [1, 2, 0]]  # every class with a part of another
        >>> fit = MatrixScaling().fit(mixed, labels).fit_result_
        >>> fit.converged, fit.after < fit.compared["temperature"] - 0.1
        (True, True)
    """

    name = "matrix"
    title = "Matrix scaling"


class StructuredMatrixScaling(LinearScaling):
    r"""Matrix scaling, shrunk towards temperature scaling if data are few.

    .. math::
       \hat p = \mathrm{softmax}(W z + b), \qquad
       \min_{W, b} \; N L(W, b) + \frac{\lambda}{2} \left(
       C \lVert \mathrm{diag}(W - I/T) \rVert^2 + C^{3/2} \lVert \mathrm{off}(W) \rVert^2
       + C \lVert b \rVert^2
       \right)

    L is the mean negative log-likelihood, T the temperature of :class:`TemperatureScaling`. Logits z are
    centred and, for the penalty, divided by their root mean square. The penalty's weight against the data
    falls with N and grows with C, faster off the diagonal with its many entries. So with few samples this is
    temperature scaling, with many it is matrix scaling. It is never less likely than temperature scaling. The
    predicted class may change.

    Args:
        structure: ``"matrix"``, or ``"diagonal"`` for the same without entries off the diagonal (structured
            vector scaling).
        strength: :math:`\lambda`, positive.

    Raises:
        InputError: If a setting is unknown; on ``fit``, for binary and multilabel log-odds.

    Note: Newton's method on a strictly convex function to a gradient below 1e-8; beyond 512 parameters its
        steps are found by conjugate gradients. The separate penalties of the parts of W are the paper's. The
        powers of C and the default strength are ours, chosen on the logits of three public networks with 8 to
        100 classes.

    References:
        Berta, Holzmüller, Jordan and Bach, "Structured Matrix Scaling for Multi-Class Calibration", 2025,
        arXiv:2511.03685.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 2 * torch.randn(1000, 3, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator)[:, 0]
        >>> rare = logits + torch.tensor([0.0, 0.0, 2.0])  # class 2 is rarer than these logits say
        >>> calibrator = StructuredMatrixScaling().fit(rare, labels)
        >>> calibrator.bias.argmin().item(), calibrator.fit_result_.converged
        (2, True)
    """

    name = "structured-matrix"
    title = "Structured matrix scaling"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("multiclass",)

    def __init__(self, *, structure: Structure = "matrix", strength: float = 1.0) -> None:
        check_choice("structure", structure, get_args(Structure))
        if not (math.isfinite(strength) and strength > 0):
            raise InputError(f"`strength` must be positive and finite; got {strength!r}.")
        super().__init__()
        self.structure: Structure = structure
        self._form = structure
        self.strength = float(strength)

    def _fit(self, data: Standardised) -> Found:
        return regress(data.around_temperature(self.strength * data.pull), data.start), ()


class DirichletCalibration(LinearScaling):
    r"""Matrix scaling of log-probabilities, with off-diagonal and intercept regularisation.

    .. math::
       \hat p = \mathrm{softmax}(W \log p + b), \qquad
       \min_{W, b} \; L(W, b) + \frac{\lambda}{C (C - 1)} \sum_{k \ne l} W_{kl}^2 + \frac{\mu}{C} \sum_k b_k^2

    L is the mean negative log-likelihood. Were the probability vectors of each class Dirichlet-distributed,
    this would be the exact posterior. The diagonal is free, so it is never less likely than temperature
    scaling. The predicted class may change.

    Where there is no maximum even so (a class that never occurs, separable data), departures of the diagonal
    from temperature scaling cost as much as one sample would, with a warning.

    Args:
        off_diagonal: :math:`\lambda`, at least 0; ``"auto"`` for 1e-3.
        intercept: :math:`\mu`, at least 0; ``"auto"`` for 1e-3.

    Raises:
        InputError: If a setting is negative; on ``fit``, for binary and multilabel log-odds, of which
            :class:`BetaCalibration` is this.

    Note:
        Newton's method on a convex function to a gradient below 1e-8. Penalties given do not fall with N. If
        neither is given and there are more parameters than a tenth of the samples, departures from
        temperature scaling are penalised as in :class:`StructuredMatrixScaling`, as much as three-fold
        cross-validation asks for; a warning says so.

    References:
        Kull et al., "Beyond temperature scaling: Obtaining well-calibrated multi-class probabilities with
        Dirichlet calibration", NeurIPS 2019.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 2 * torch.randn(2000, 3, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator)[:, 0]
        >>> calibrator = DirichletCalibration().fit(2 * logits, labels)
        >>> [round(weight, 1) for weight in calibrator.weight.diagonal().tolist()]
        [0.5, 0.5, 0.5]
    """

    name = "dirichlet"
    title = "Dirichlet calibration"
    named_after_person = True
    unit_powers: ClassVar = {}

    def __init__(self, *, off_diagonal: Penalty = "auto", intercept: Penalty = "auto") -> None:
        for name, value in (("off_diagonal", off_diagonal), ("intercept", intercept)):
            if value != "auto" and (isinstance(value, str) or not 0 <= value < math.inf):
                raise InputError(f'`{name}` must be at least 0 and finite, or "auto"; got {value!r}.')
        super().__init__()
        self.off_diagonal: Penalty = "auto" if isinstance(off_diagonal, str) else float(off_diagonal)
        self.intercept: Penalty = "auto" if isinstance(intercept, str) else float(intercept)

    def affine(self) -> None:
        """Return None: log-probabilities are not an affine function of logits."""

    def _features(self, scores: Tensor) -> Float[Tensor, "N C"]:
        return log_softmax(scores)

    def _fit(self, data: Standardised) -> Found:
        if self.off_diagonal == self.intercept == "auto" and data.is_overfitted:
            return _cross_validated(data)
        off_diagonal, intercept = (
            _USUAL if isinstance(each, str) else each for each in (self.off_diagonal, self.intercept)
        )
        num_classes = data.logits.shape[1]
        ridge = torch.full((num_classes, num_classes + 1), 2 * intercept / num_classes).to(data.logits)
        ridge[:, :-1] = 2 * off_diagonal / (num_classes * (num_classes - 1)) / data.scale / data.scale
        ridge[:, :-1].fill_diagonal_(0)
        fitted = regress(data.around_temperature(ridge), data.start)
        if not fitted.unbounded:
            return fitted, ()
        ridge[:, :-1].fill_diagonal_(1 / data.samples.total_weight)
        if min(intercept, off_diagonal) == 0:
            ridge = ridge.clamp(min=1 / data.samples.total_weight)
        fitted = regress(data.around_temperature(ridge), data.start)
        return fitted, (f"{_NO_MAXIMUM} (separable data, or a class that never occurs), {_PENALISED}",)


class BiasCorrectedTemperatureScaling(LinearScaling):
    r"""Divide the logits by one number and shift each class (BCTS).

    .. math:: \hat p = \mathrm{softmax}(z / T + b)

    The shifts make the mean probability of each class equal its frequency, which correction for another class
    prior rests on (:func:`estimate_prior`); :class:`VectorScaling` has a factor for every class besides. The
    likelihood is at least that of temperature scaling. The predicted class may change.

    With fewer than 20 samples a class the shifts follow noise. Then departures from temperature scaling are
    penalised by as much as three-fold cross-validation asks for, and mean probabilities are no longer the
    frequencies. If the likelihood has no maximum (separable data, a class that never occurs), departures cost
    as much as one sample. A warning reports it.

    Raises:
        InputError: On ``fit``, for binary and multilabel log-odds, of which :class:`PlattScaling` is this.

    Note:
        Newton's method on a convex function of C + 1 parameters to a gradient below 1e-8, with steps by
        conjugate gradients, O(N C) memory. ``weight`` holds 1 / T for every class.

    References:
        Alexandari, Kundaje and Shrikumar, "Maximum Likelihood with Bias-Corrected Calibration is
        Hard-To-Beat at Label Shift Adaptation", ICML 2020.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 2 * torch.randn(2000, 3, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits, dim=1), 1, generator=generator)[:, 0]
        >>> rare = 2 * logits + torch.tensor([0.0, 0.0, 3.0])  # class 2 is rarer than these logits say
        >>> calibrator = BiasCorrectedTemperatureScaling().fit(rare, labels)
        >>> mean = calibrator.predict_proba(rare).mean(dim=0)
        >>> torch.allclose(mean, labels.bincount().double() / 2000, atol=1e-8)
        True
    """

    name = "bias-corrected-temperature"
    title = "Bias-corrected temperature scaling"
    parameter_shapes: ClassVar = {"weight": ("C",), "bias": ("C",)}
    _form = "shifts"
