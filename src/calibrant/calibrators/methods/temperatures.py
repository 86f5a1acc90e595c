"""Calibrators that divide logits by a temperature: alone, with the focal map, or mixed with other parts."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_label_tensor, first_row, row_slices
from calibrant._math.checks import Task, check_choice, check_weights
from calibrant._math.convex_minimum import (
    HIGHEST_TEMPERATURE,
    LOWEST_TEMPERATURE,
    Slopes,
    TemperatureRoot,
    best_temperature,
)
from calibrant._math.drawing import out_of_fold
from calibrant._math.errors import InputError
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.newton import Expansion, Vector, minimise_in_box
from calibrant._math.shapes import Float
from calibrant._math.simplex import log_sigmoid, log_softmax
from calibrant._math.text_form import plural
from calibrant._math.top_k import Spread, TopK
from calibrant.calibrators.affine import Affine, scaling
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting import objectives, searches
from calibrant.calibrators.fitting.data import fold_numbers, mean_and_error, with_doubts_of_temperature
from calibrant.calibrators.fitting.objectives import OBJECTIVES, Objective
from calibrant.calibrators.fitting.passes import focal_temperature_in_passes, temperature_in_passes
from calibrant.calibrators.fitting.results import HIGHEST_GAMMA, LOWEST_GAMMA, Solution, join
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.searches import FocalTemperatureSearch, TemperatureSearch

GammaSelection: TypeAlias = Literal["none", "cross_validated"]

_NUM_FOLDS = 5
_SHARES = ("tempered", "plain", "uniform")


class TemperatureScaling(Calibrator):
    r"""Divide the logits by one number.

    .. math:: \hat p = \mathrm{softmax}(z / T), \qquad T = \arg\min_{T \in [10^{-4}, 10^4]} L(T)

    In multilabel predictions every column has its own T. Accuracy, the order of the classes and log-odds of
    zero stay as they are, so a shift of the log-odds (another prevalence than in training) cannot be
    corrected: for that see :class:`PlattScaling`.

    The likelihood is convex in 1 / T: Newton's method finds its one optimum, to a derivative by log T below
    1e-8. Binned objectives jump as samples change bins, and the Brier score may have several minima: the
    default search is at least as good as the grid of Mukhoti et al. (of ``"classwise"``, as those 64 of its
    points that look best between computed ones), and as T = 1.

    Args:
        objective: ``"nll"``, ``"brier"``, or a calibration error: over 15 bins of equal width (``"ece"``) or
            equal mass (``"adaptive_ece"``), or smooth (``"smce"``). These are of the top label, or of class 1
            of binary and multilabel ones. ``"classwise"`` is that of every class over 15 bins of equal width;
            for binary and multilabel ones it is ``"ece"``.
        search: ``"continuous"``, or ``"grid"``: T = 0.1, 0.2, ..., 10.0 (summed up), the smallest of equals.

    Raises:
        InputError: If a setting is unknown.

    Note: O(N C) per step; memory for a block of rows. A warning, also in ``fit_result_``, reports an optimum
        on a bound, separable data or uninformative logits. So does a calibration error that is small only
        because nearly all confidences fall into one bin.

    References:
        Guo et al., "On Calibration of Modern Neural Networks", ICML 2017. The grid: Mukhoti et al.,
        "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020.

    Example:
        >>> import torch
        >>> labels = torch.arange(100) % 2
        >>> right = torch.where(torch.arange(100) < 80, 1.0, -1.0)
        >>> logits = right * (2 * labels - 1) * 5
        >>> calibrator = TemperatureScaling().fit(logits, labels)
        >>> round(calibrator.fit_result_.parameters["temperature"], 6)  # 5 / log(80 / 20)
        3.606738
        >>> round(calibrator.predict_proba(torch.tensor([5.0])).item(), 6)
        0.8
    """

    name = "temperature"
    title = "Temperature scaling"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("binary", "multiclass", "multilabel")
    mends_frequencies = False
    unit_powers: ClassVar = {"temperature": 1}
    parameter_ranges: ClassVar = {"temperature": searches.ANY_TEMPERATURE}
    temperature: Tensor

    def __init__(self, *, objective: Objective = "nll", search: TemperatureSearch = "continuous") -> None:
        check_choice("objective", objective, OBJECTIVES)
        check_choice("search", search, get_args(TemperatureSearch))
        super().__init__()
        self.objective: Objective = objective
        self.search: TemperatureSearch = search

    def _solve(self, samples: Samples) -> Solution:
        solution = searches.fit_temperature(samples, self.objective, self.search)
        return with_doubts_of_temperature(solution, samples, self.objective)

    in_passes = staticmethod(temperature_in_passes)

    @property
    def fits_in_pieces(self) -> bool:
        """Return True for likelihood, which needs only a few passes."""
        return self.objective == "nll" and self.search == "continuous"

    def affine(self) -> Affine:
        """Division by the temperature."""
        return scaling(self.num_outputs(), 1 / self.temperature)

    def _transform(self, scores: Tensor) -> Tensor:
        scaled = scores / self.temperature.to(scores)
        return log_softmax(scaled) if self.kind_ == "multiclass" else scaled


class FocalTemperatureScaling(Calibrator):
    r"""Divide the logits by a temperature, then apply the focal map.

    .. math:: \hat p = \rho_\gamma(\mathrm{softmax}(z / T)), \quad T \in [10^{-4}, 10^4],\ \gamma \in (-1, 50]

    With :math:`\gamma = 0` this is temperature scaling. Every search compares its best point with
    (:math:`\gamma = 0`, T of :class:`TemperatureScaling` under the same objective), so that on its own
    objective and its own data this is never worse. Accuracy and the order of the classes stay as they are. In
    multilabel predictions every column has its own pair.

    For binary and multilabel predictions the two parameters are nearly exchangeable (:math:`\gamma = 1` is
    :math:`T = 0.5615` to within 8e-4 in probability): compare the maps, not the parameters.

    Args:
        objective: See :class:`TemperatureScaling`.
        search: ``"full"``: Newton's method from several starts; of a calibration error the grid, the line,
            windows beyond them, and finer ones around the best. ``"grid"``: that of Komisarenko and Kull, 9
            exponents by T = 0.01, ..., 5.00. ``"line"``: their proposal, the line of T over :math:`\gamma`
            through the best T at :math:`\gamma = 0` and 1, on T = 0.1, ..., 10.0 and 100 exponents from -0.5
            to 5.
        selection: ``"cross_validated"`` uses :math:`\gamma` only where it pays: if over five folds, whatever
            the objective, the held-out log loss falls by more than one standard error of its fall; else this
            is temperature scaling. ``fit_result_.held_out`` tells ``gain`` and ``gain_error``. Takes the
            time of five more fits.

    Raises:
        InputError: If a setting is unknown.

    Note:
        :math:`\gamma` is kept at or above -0.999. Calibration errors jump, their optimum is partly chance,
        and they can be won by making all confidences alike, which is warned of: look at ``nll`` too.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", ECAI 2024.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 4 * torch.randn(2000, 5, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits / 2, dim=1), 1, generator=generator)[:, 0]
        >>> result = FocalTemperatureScaling().fit(logits, labels).fit_result_
        >>> result.before > result.compared["temperature"] >= result.after
        True
    """

    name = "focal-temperature"
    title = "Focal temperature scaling"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("multiclass",)
    mends_frequencies = False
    unit_powers: ClassVar = {"temperature": 1}
    parameter_ranges: ClassVar = {
        "temperature": searches.ANY_TEMPERATURE,
        "gamma": (LOWEST_GAMMA, HIGHEST_GAMMA),
    }
    temperature: Tensor
    gamma: Tensor

    def __init__(
        self,
        *,
        objective: Objective = "nll",
        search: FocalTemperatureSearch = "full",
        selection: GammaSelection = "none",
    ) -> None:
        check_choice("objective", objective, OBJECTIVES)
        check_choice("search", search, get_args(FocalTemperatureSearch))
        check_choice("selection", selection, get_args(GammaSelection))
        super().__init__()
        self.selection: GammaSelection = selection
        self.objective: Objective = objective
        self.search: FocalTemperatureSearch = search

    def _solve(self, samples: Samples) -> Solution:
        simpler, found = searches.fit_focal_temperature(samples, self.objective, self.search)
        if self.selection == "cross_validated" and found.parameters["gamma"] != 0:
            found = self._where_it_pays(samples, simpler, found)
        return with_doubts_of_temperature(found, samples, self.objective)

    def _solve_near(self, start: Mapping[str, float], samples: Samples) -> Solution:
        smooth = self.search == "full" and self.objective in objectives.DIFFERENTIABLE
        # For events the two are nearly exchangeable: optima are far apart, and a full search is cheap.
        if samples.is_event or not smooth or self.selection != "none":
            return self._solve(samples)
        near = start["temperature"], start["gamma"]
        _, found = searches.fit_focal_temperature(samples, self.objective, "full", near)
        return with_doubts_of_temperature(found, samples, self.objective)

    def _where_it_pays(self, samples: Samples, simpler: Solution, found: Solution) -> Solution:
        """Temperature scaling unless gamma lowers held-out log loss by more than one standard error."""
        if samples.num_samples < 2 * _NUM_FOLDS:
            return searches.without_exponent(
                simpler, found, f"gamma needs {2 * _NUM_FOLDS} samples to be cross-validated"
            )
        confidences = objectives.judged_confidences(samples, 1.0, 0.0)
        ranking = torch.maximum(confidences, 1 - confidences) if samples.is_event else confidences

        def falls_inside(inside: Tensor) -> Tensor:
            part = samples.part(inside)
            plain, focal = (
                objectives.log_losses(part, fit.parameters["temperature"], fit.parameters.get("gamma", 0.0))
                for fit in searches.fit_focal_temperature(samples.part(~inside), self.objective, self.search)
            )
            return plain - focal

        falls = out_of_fold(fold_numbers(ranking, samples.correct, _NUM_FOLDS), falls_inside)
        gain, error = mean_and_error(falls, samples.shares)
        told = f"held-out log loss falls by {gain:.1e} with gamma (standard error {error:.1e})"
        held = {"gain": gain, "gain_error": error}
        if gain > error:
            return replace(found, held_out=held, message=f"{found.message}; {told}")
        return replace(searches.without_exponent(simpler, found, told), held_out=held)

    in_passes = staticmethod(focal_temperature_in_passes)

    @property
    def fits_in_pieces(self) -> bool:
        """Return True for likelihood, which needs only a few passes."""
        return self.objective == "nll" and self.search == "full" and self.selection == "none"

    def affine(self) -> Affine | None:
        """Division by the temperature if every exponent is zero."""
        return None if bool(self.gamma.any()) else scaling(self.num_outputs(), 1 / self.temperature)

    def _transform(self, scores: Tensor) -> Tensor:
        scaled, gamma = scores / self.temperature.to(scores), self.gamma.to(scores)
        focal_map = focal_map_logits if self.kind_ == "multiclass" else focal_map_log_odds
        return focal_map(scaled, gamma)


class EnsembleTemperatureScaling(Calibrator):
    r"""Mix the tempered, the original and uniform probabilities.

    .. math:: \hat p = w_1 \, \mathrm{softmax}(z / T) + w_2 \, \mathrm{softmax}(z) + \frac{w_3}{C}

    T is that of :class:`TemperatureScaling`; the shares w, which sum to one, then maximise the likelihood.
    The order of the classes stays. A share of the uniform distribution keeps a confident error from costing
    much.

    Note:
        The likelihood is concave in the shares: Newton's method, to derivatives below 1e-8. What the data
        leave undetermined (T = 1 makes two parts the same) does not change the probabilities.

    References:
        Zhang, Kailkhura and Han, "Mix-n-Match: Ensemble and Compositional Methods for Uncertainty
        Calibration in Deep Learning", ICML 2020.

    Example:
        >>> import torch
        >>> log_odds = torch.tensor([6.0] * 100 + [0.5] * 100)
        >>> labels = torch.cat([torch.arange(100) < 95, torch.arange(100) < 61]).long()
        >>> calibrator = EnsembleTemperatureScaling().fit(log_odds, labels)
        >>> [round(p, 2) for p in calibrator.predict_proba(torch.tensor([6.0, 0.5])).tolist()]
        [0.95, 0.61]
    """

    name = "ensemble-temperature"
    title = "Ensemble temperature scaling"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("multiclass",)
    mends_frequencies = False
    parameter_ranges: ClassVar = {
        "temperature": searches.ANY_TEMPERATURE,
        **dict.fromkeys(_SHARES, (0.0, 1.0)),
    }
    objective = "nll"
    temperature: Tensor
    tempered: Tensor
    plain: Tensor
    uniform: Tensor

    def _solve(self, samples: Samples) -> Solution:
        base = with_doubts_of_temperature(searches.maximum_likelihood_temperature(samples), samples, "nll")
        loss = _loss_of_shares(samples, base.parameters["temperature"])
        # The shares are free; adding their sum to the mean loss makes them sum to one at the optimum.
        found = minimise_in_box(loss, np.full(3, 1 / 3), np.zeros(3), np.full(3, math.inf))
        point = found.point / found.point.sum()
        candidates = (point, *np.eye(3)[:2])
        values = [loss(candidate).value - 1 for candidate in candidates]
        best = int(np.argmin(values)) if min(values[1:]) < values[0] - 1e-12 else 0
        return Solution(
            converged=base.converged and found.slope < 1e-8,
            steps=base.steps + found.steps,
            before=base.before,
            after=min(values[best], base.before),
            parameters={
                "temperature": base.parameters["temperature"],
                **dict(zip(_SHARES, candidates[best].tolist(), strict=True)),
            },
            certificate={**base.certificate, "gradient of shares": found.slope},
            message=f"gradient {found.slope:.1e}",
            warnings=base.warnings,
            compared={"temperature": base.after},
        )

    def _transform(self, scores: Tensor) -> Tensor:
        events = self.kind_ != "multiclass"
        parts = _parts(scores, self.temperature.to(scores), events=events)
        return mixed(parts, [self.tempered, self.plain, self.uniform], events=events)


def _loss_of_shares(samples: Samples, temperature: float) -> Callable[[Vector], Expansion]:
    """Mean negative log-likelihood of the shares, plus their sum."""
    shares = samples.shares
    log_probs = shares.new_empty((len(samples.labels), 3))
    for rows in row_slices(samples.scores):
        scores = samples.scores[rows].to(torch.float64)
        parts = _parts(scores, shares.new_tensor(temperature), events=samples.is_event)
        log_probs[rows] = torch.cat([part.gather(1, samples.labels[rows, None]) for part in parts], dim=1)
    largest = log_probs.amax(dim=1, keepdim=True)
    ratios, constant = (log_probs - largest).exp(), float(largest[:, 0] @ shares)

    def loss(point: Vector) -> Expansion:
        total = ratios @ torch.as_tensor(point).to(ratios)
        relative = ratios / total[:, None]
        value = -float(total.log() @ shares) - constant + float(point.sum())
        if not math.isfinite(value):
            return Expansion(math.inf, np.ones(3), np.eye(3))
        hessian = relative.T @ (shares[:, None] * relative)
        return Expansion(value, 1 - (shares @ relative).cpu().numpy(), hessian.cpu().numpy())

    return loss


def _parts(scores: Tensor, temperature: Tensor, *, events: bool) -> list[Tensor]:
    plain = log_probs_of(scores, events=events)
    tempered = log_probs_of(scores / temperature, events=events)
    return [tempered, plain, torch.full_like(plain, -math.log(plain.shape[-1]))]


class SmoothedTemperatureScaling(Calibrator):
    r"""Temperature scaling, mixed with a little of the uniform distribution.

    .. math:: \hat p = \frac{N \, \mathrm{softmax}(z / T) + 1 / C}{N + 1}

    T is that of :class:`TemperatureScaling`, N the number (or total weight) of calibration samples. No
    probability falls below :math:`1 / (C (N + 1))`, so the log loss of new samples is never infinite,
    whatever they are; that of the calibration samples rises by at most :math:`\log(1 + 1/N)`. The order of
    the classes stays. Where every calibration sample is classified correctly, temperature scaling alone would
    be certain: the mixture says how certain N samples can make one.

    Note:
        The objective before and after are mean negative log-likelihoods, the mixture included.

    References:
        Laplace's rule of succession. With temperature scaling: Berta, Holzmüller, Jordan and Bach,
        "Rethinking Early Stopping: Refine, Then Calibrate", 2025.

    Example:
        >>> import torch
        >>> log_odds, labels = torch.tensor([9.0, -9.0] * 49 + [9.0]), torch.tensor([1, 0] * 49 + [1])
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # every sample is classified correctly
        ...     calibrator = SmoothedTemperatureScaling().fit(log_odds, labels)
        >>> round(calibrator.predict_proba(torch.tensor([900.0])).item(), 6)
        0.995
    """

    name = "smoothed-temperature"
    title = "Temperature scaling with Laplace smoothing"
    mends_frequencies = False
    unit_powers: ClassVar = {"temperature": 1}
    parameter_ranges: ClassVar = {"temperature": searches.ANY_TEMPERATURE, "uniform": (0.0, 1.0)}
    objective = "nll"
    temperature: Tensor
    uniform: Tensor

    def _solve(self, samples: Samples) -> Solution:
        base = with_doubts_of_temperature(
            searches.fit_temperature(samples, "nll", "continuous"), samples, "nll"
        )
        parameters = {**base.parameters, "uniform": 1 / (samples.total_weight + 1)}
        temperature, uniform = (samples.shares.new_tensor(value) for value in parameters.values())
        smoothed = _smoothed(samples.scores.to(torch.float64), temperature, uniform, events=samples.is_event)
        if samples.is_event:
            smoothed = torch.stack([torch.zeros_like(smoothed), smoothed], dim=1)
        losses = -log_softmax(smoothed).gather(1, samples.labels[:, None])[:, 0]
        return replace(
            base,
            parameters=parameters,
            after=float(losses @ samples.shares),
            compared={"temperature": base.after},
        )

    def _transform(self, scores: Tensor) -> Tensor:
        events = self.kind_ != "multiclass"
        return _smoothed(scores, self.temperature.to(scores), self.uniform, events=events)


def _smoothed(scores: Tensor, temperature: Tensor, uniform: Tensor, *, events: bool) -> Tensor:
    log_probs = log_probs_of(scores / temperature, events=events)
    even = torch.full_like(log_probs, 1 / log_probs.shape[-1]).log()
    return mixed([log_probs, even], [1 - uniform, uniform], events=events)


def log_probs_of(scores: Tensor, *, events: bool) -> Float[Tensor, "*N C"]:
    """Log-probabilities of the classes, or of each event's absence and occurrence."""
    if not events:
        return log_softmax(scores)
    return log_sigmoid(torch.stack([-scores, scores], dim=-1))


def mixed(parts: Sequence[Tensor], weights: Sequence[Tensor], *, events: bool) -> Tensor:
    """Weighted mean of log-probabilities, as log-odds of events; weights are one number or one per label."""
    terms = [
        part + (weight[..., None] if weight.ndim else weight).log().to(part)
        for part, weight in zip(parts, weights, strict=True)
    ]
    log_probs = torch.stack(terms).logsumexp(dim=0)
    return log_probs[..., 1] - log_probs[..., 0] if events else log_probs


def fit_top_k_temperature(
    top_k: TopK, labels: ArrayLike | None = None, *, weights: ArrayLike | None = None
) -> TemperatureScaling:
    r"""Approximate the temperature of whole rows from their largest logits.

    The likelihood at a temperature T needs :math:`\sum_j e^{z_j / T}` over all classes. For those that are
    not listed only :math:`R = \sum_j e^{z_j}` is known, and that none exceeds the last one listed. They are
    taken to go on from there by a power law of their rank with that sum. A true class that is not listed
    counts by its own logit where that is given, and else by the probability of all that are not listed.

    How much this matters can be seen from the message of ``fit_result_``: the temperatures that follow if the
    others are all alike, and if as few of them as possible have all of R. They are two extreme cases, no
    bounds that are proven. Near T = 1 it hardly matters.

    Args:
        top_k: The largest logits, by :func:`calibrant.predictions.top_k_of`, with ``num_classes``.
        labels: True classes, shape ``(N,)``; by default ``top_k.label_logits`` gives their logits.
        weights: Sample weights, shape ``(N,)``.

    Returns:
        Temperature scaling of all classes.

    Raises:
        InputError: If the number of classes is not known, or no true class has any probability. Some samples
            of that kind, whose rounded probabilities sum to one, are left out with a warning.

    Note:
        O(N k) per step, all in float64.

    Example:
        >>> import torch
        >>> from calibrant.predictions import top_k_of
        >>> draws = torch.Generator().manual_seed(0)
        >>> logits = 2 * torch.randn(2000, 50, generator=draws, dtype=torch.float64)
        >>> labels = torch.multinomial((logits / 2).softmax(1), 1, generator=draws)
        >>> largest, order = logits.sort(dim=1, descending=True)
        >>> listed = top_k_of(largest[:, :20], order[:, :20], largest[:, 20:].logsumexp(1), num_classes=50)
        >>> part = fit_top_k_temperature(listed, labels[:, 0]).fit_result_.parameters["temperature"]
        >>> whole = TemperatureScaling().fit(logits, labels[:, 0]).fit_result_.parameters["temperature"]
        >>> abs(part / whole - 1) < 0.03
        True
    """
    own, num_samples = top_k.label_logits, len(top_k.log_rest)
    if labels is not None:
        own = top_k.logits_of(as_label_tensor(labels, name="labels").cpu())
    if own is None:
        raise InputError("`labels` must be given to fit a temperature; got None.")
    shares = torch.ones(num_samples, dtype=torch.float64)
    if weights is not None:
        shares = check_weights(weights, num_samples).cpu()
    lost = own.isnan() & (top_k.log_rest == -math.inf) & (shares > 0)
    told: tuple[str, ...] = ()
    if bool(lost.any()):
        first, shares = first_row(lost), torch.where(lost, 0.0, shares)
        if not bool(shares.any()):
            raise InputError(
                f"the true class of row {first} is not listed, and `log_rest` leaves it no probability."
            )
        why = "as the true class is not listed and the listed probabilities sum to one"
        told = (f"{plural(int(lost.sum()), 'sample')} left out, {why}",)
    shares = shares / shares.sum()

    def fitted(spread: Spread) -> TemperatureRoot:
        return best_temperature(lambda beta: _slopes_of_listed(top_k, own, shares, beta, spread))

    root = fitted("power-law")
    ends = sorted(fitted(spread).temperature for spread in ("even", "narrow"))
    solution = searches.solution_of(root, root.at_start, 1.0)
    unlisted = float(own.isnan().to(torch.float64) @ shares)
    said = (
        f"{solution.message}; two extreme guesses of the unlisted probabilities give "
        f"{' and '.join(dict.fromkeys(map(_end_or_number, ends)))}"
    )
    said += f"; {unlisted:.2%} of the true classes are not listed" if unlisted else ""
    digest = hashlib.sha256()
    for part in (top_k.logits, top_k.indices, top_k.log_rest, own, shares):
        digest.update(part.contiguous().numpy().tobytes())
    result = join([solution], objective="nll", num_samples=num_samples, data_sha256=digest.hexdigest())
    calibrator = TemperatureScaling()
    result = replace(result, message=said, warnings=(*result.warnings, *told))
    calibrator.restore({}, result, kind="multiclass", num_classes=top_k.num_classes or 0)
    return calibrator


def _end_or_number(temperature: float) -> str:
    ends = {LOWEST_TEMPERATURE: "no lower end", HIGHEST_TEMPERATURE: "no upper end"}
    return ends.get(temperature, f"T = {temperature:.4g}")


def _slopes_of_listed(
    top_k: TopK, own: Float[Tensor, " N"], shares: Float[Tensor, " N"], beta: float, spread: Spread
) -> Slopes:
    with torch.enable_grad():
        at = torch.tensor(beta, dtype=torch.float64, requires_grad=True)
        rest = top_k.log_rest_at(at, spread)
        empty = top_k.log_rest == -math.inf  # with a derivative of NaN
        listed = (at * top_k.logits).logsumexp(dim=1)
        total = torch.where(empty, listed, torch.logaddexp(listed, torch.where(empty, listed, rest)))
        known = ~own.isnan()
        true = torch.where(known, at * torch.where(known, own, 0.0), torch.where(empty, 0.0, rest))
        value = (shares * (total - true)).sum()
        (first,) = torch.autograd.grad(value, at, create_graph=True)
        (second,) = torch.autograd.grad(first, at)
    return Slopes(first.item(), second.item(), value.item())
