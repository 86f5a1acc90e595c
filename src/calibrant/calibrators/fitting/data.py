"""Fitting data and their problems: counted samples, warnings, losses on held-out folds."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Self

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid, nll_loss

from calibrant._math.arrays import ArrayLike
from calibrant._math.binning import width_bin_index
from calibrant._math.checks import Checked, Task, are_one_hot, check_logits, seem_probabilities
from calibrant._math.drawing import out_of_fold
from calibrant._math.errors import InputError, without_warnings
from calibrant._math.scores import by_rows
from calibrant._math.shapes import Float, Int
from calibrant.calibrators.fitting.objectives import DIFFERENTIABLE, NUM_BINS, Objective, judged_confidences
from calibrant.calibrators.fitting.results import FitResult, Profile, Solution, join, profile_of
from calibrant.calibrators.fitting.samples import Samples, floor_zero_probabilities, likelihood_slopes

_SUM_SLACK = 1e-3
_SHARE = 0.1  # mean weight up to which weights are no counts
_FEWEST_ROWS = 20
ALL_RIGHT = "every sample is classified correctly, so nothing tells how often errors are to be expected"
CONSTANT = "the logits of every sample are all equal"
_CONSTANT = f"{CONSTANT}, which no temperature changes"
OFF_ZERO = (
    "all log-odds lie far on one side of zero, so no temperature tells samples apart; platt has the "
    "intercept that they need"
)
SILENT = "the logits say nothing about the labels, or the opposite: the higher they are, the rarer the class"
_ANOTHER_UNIT = (
    "these logits are hardly log-probabilities, as which they are read here; divide them by a temperature"
)
_MORE_DIGITS = "pass them as float64, or first subtract what they have in common"
_FEW = 10  # samples; with fewer, parameters mean little
_NEARLY_INFINITE = 1e-12  # inverse of a temperature, for logits about 1
_LEAST = 1e-28  # that keeps an excluded class excluded
_NAMED = 5  # classes
_LARGEST = 50.0  # largest usual temperature, or inverse temperature
_MOST, _COARSE = 4096, 0.05  # rows examined, and steps as a share of the spread
_ALIKE = 0.1  # smaller differences of log-odds are negligible
_COLLAPSED = 0.9  # share of the confidences in one bin
NOISE = 2.0  # standard errors


@dataclass(frozen=True, eq=False)
class CalibrationData:
    """Finite scores with labels and positive weights."""

    scores: Tensor
    labels: Tensor
    weights: Tensor | None
    kind: Task
    num_classes: int
    num_samples: int  # as given
    notes: tuple[str, ...]
    sha256: str  # of scores, labels and weights as given
    _digest: Any  # of scores and labels

    @classmethod
    def of(cls, checked: Checked) -> Self:
        """Data with the given weights."""
        if checked.labels is None:
            raise InputError("`labels` must be given to fit; got None.")
        digest = _digested(hashlib.sha256(), checked.scores, checked.labels)
        scores, num_zeros = floor_zero_probabilities(checked.scores, checked.task)
        notes = (*_suspicions(checked), *zeros_said(num_zeros, checked.task))
        kind, num_classes, num_samples = checked.task, checked.num_classes, checked.num_samples
        sha256 = digest.hexdigest()
        data = cls(scores, checked.labels, None, kind, num_classes, num_samples, notes, sha256, digest)
        return data if checked.weights is None else data.weighted(checked.weights)

    def weighted(self, weights: Tensor) -> Self:
        """Data without weights, with these."""
        kept, sha256, notes = weights > 0, _digested(self._digest.copy(), weights).hexdigest(), self.notes
        mean, total = float(weights[kept].mean()), float(weights.sum())
        # Fractions, which are small or sum to one, are no counts.
        if float(weights.max()) < 1 and (mean <= _SHARE or total <= 1 + _SUM_SLACK):
            weights = weights / mean
            divided = f"so they were divided by their mean, {mean:.2g}, to count samples"
            notes = (*notes, f"the `weights` sum to {total:.3g}, {divided}")
        whole = replace(self, weights=weights, notes=notes, sha256=sha256)
        return whole if bool(kept.all()) else whole.part(kept)

    def part(self, chosen: Tensor) -> Self:
        weights = None if self.weights is None else self.weights[chosen]
        return replace(self, scores=self.scores[chosen], labels=self.labels[chosen], weights=weights)

    @cached_property
    def problems(self) -> list[Samples]:
        if self.kind != "multilabel":
            return [Samples(self.scores, self.labels, self.weights)]
        columns = range(self.scores.shape[1])
        return [Samples(self.scores[:, each], self.labels[:, each], self.weights) for each in columns]

    @cached_property
    def _profile(self) -> Profile:
        return profile_of(self.scores, self.labels, self.weights, self.kind)

    def result(self, solutions: Sequence[Solution], objective: str) -> FitResult:
        return join(
            solutions,
            objective=objective,
            notes=self.notes,
            num_samples=self.num_samples,
            data_sha256=self.sha256,
            profile=self._profile,
        )


def fingerprint(logits: ArrayLike, labels: ArrayLike, weights: ArrayLike | None) -> str:
    """``FitResult.data_sha256`` of samples that a calibrator may have been fitted on."""
    checked = check_logits(logits, labels, weights, allow_minus_inf=True)
    return CalibrationData.of(checked).sha256


def _suspicions(checked: Checked) -> Iterator[str]:
    multiclass = checked.task == "multiclass"
    seen = seem_probabilities(checked.scores, multiclass=multiclass)
    if seen:
        remedy = "logarithms, log(p)" if multiclass else "log-odds, log(p / (1 - p))"
        yield f"{seen}: pass their {remedy}"
    if checked.num_samples >= _FEWEST_ROWS and are_one_hot(checked.target):
        yield (
            "every row of `labels` holds one 1, and each column was fitted as a label of its own: for "
            "classes pass `labels.argmax(1)`"
        )


def zeros_said(num_zeros: int, task: Task) -> tuple[str, ...]:
    value, counted = ("zero", "1e-12") if task == "multiclass" else ("0 or 1", "1e-12 or 1 - 1e-12")
    noun, verb = ("probability", "was") if num_zeros == 1 else ("probabilities", "were")
    return (f"{num_zeros} {noun} of exactly {value} {verb} counted as {counted}",) if num_zeros else ()


def _digested(digest: Any, *tensors: Tensor) -> Any:
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)} ".encode())
        # A clone, as a single row of a wider table passes for contiguous with strides that are not.
        rows = tensor.cpu().clone(memory_format=torch.contiguous_format)
        digest.update(rows.view(torch.uint8).numpy().data)
    return digest


def few(num_samples: int) -> tuple[str, ...]:
    return (f"{num_samples} samples tell little",) if num_samples < _FEW else ()


def degenerate(num_samples: int, num_right: int) -> tuple[str, ...]:
    if num_samples < _FEW or 0 < num_right < num_samples:
        return few(num_samples)
    return (ALL_RIGHT,) if num_right else ("no sample is classified correctly",)


def with_doubts_of_data(solution: Solution, samples: Samples, *, in_any_unit: bool = True) -> Solution:
    """Add warnings about uninformative data; ``in_any_unit``: the unit of logits is arbitrary."""
    name = "doubts in any unit" if in_any_unit else "doubts"
    doubts = samples.once(name, partial(_doubts_of_data, samples, in_any_unit=in_any_unit))
    told = solution.warnings or degenerate(samples.num_samples, int(samples.correct.sum()))
    return replace(solution, warnings=tuple(dict.fromkeys((*doubts, *told))))


def _doubts_of_data(samples: Samples, *, in_any_unit: bool) -> tuple[str, ...]:
    width = 2 if samples.is_event else samples.scores.shape[1]
    told = (*absent_classes(samples.labels, width), *_rounded(samples))
    if _is_misleading(samples):
        return (*told, SILENT)
    if not in_any_unit and not samples.is_constant:
        return (*told, *_of_another_unit(samples))
    return told


def absent_classes(labels: Int[Tensor, " N"], num_classes: int) -> tuple[str, ...]:
    absent = (torch.bincount(labels, minlength=num_classes) == 0).nonzero()[:, 0].tolist()
    if not absent:
        return ()
    named = ", ".join(map(str, absent[:_NAMED]))
    more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
    one = len(absent) == 1
    who, occur, how = ("class", "occurs", "it is") if one else ("classes", "occur", "they are")
    return (f"{who} {named}{more} never {occur} among the labels, so the fit can't know how probable {how}",)


def _is_misleading(samples: Samples) -> bool:
    if samples.is_event:
        scores, outcomes = samples.scores.to(torch.float64), samples.outcomes
        scores = scores / (scores.abs().max() or 1)
        # Sums by outcome: for equal scores the difference is exactly zero.
        rate = float(samples.shares @ outcomes)
        means = [
            (samples.shares * part) @ scores / max(float(part @ samples.shares), _LEAST)
            for part in (outcomes, 1 - outcomes)
        ]
        return 0 < rate < 1 and float(means[0]) < float(means[1])
    means = by_rows(lambda rows: samples.scores[rows].mean(dim=1, dtype=torch.float64), samples.scores)
    own = samples.scores.gather(1, samples.labels[:, None])[:, 0].to(torch.float64)
    return float((own - means) @ samples.shares) < 0


def _of_another_unit(samples: Samples) -> tuple[str, ...]:
    """Warning if only an unusual temperature turns the logits into log-probabilities."""
    if bool(samples.correct.all()):
        return ()
    for end, sign, best in (
        (1 / _LARGEST, 1, f"above {_LARGEST:g}"),
        (_LARGEST, -1, f"below {1 / _LARGEST:g}"),
    ):
        if sign * likelihood_slopes(samples, end).first > 0:
            return (f"the best temperature is {best}: {_ANOTHER_UNIT}",)
    return ()


def _rounded(samples: Samples) -> tuple[str, ...]:
    """Warning if an offset leaves few digits for the differences between logits."""
    if samples.scores.dtype == torch.float64:
        return ()
    rows = samples.scores[:: -(-samples.num_samples // _MOST)].to(torch.float64)
    if samples.is_event:
        spread = float((rows - rows.median()).abs().mean())
    else:
        spread = float((rows.amax(dim=1) - rows.amin(dim=1)).mean())
    sizes, step = rows.abs(), torch.finfo(samples.scores.dtype).eps
    if not spread or step * float(sizes.max()) <= spread * _COARSE:
        return ()  # without the median, which takes longer
    step *= float(sizes.median())
    if step <= spread * _COARSE:
        return ()
    name = str(samples.scores.dtype).removeprefix("torch.")
    return (f"the logits differ by about {spread:.2g}, but {name} rounds them to {step:.2g}; {_MORE_DIGITS}",)


def with_doubts_of_temperature(solution: Solution, samples: Samples, objective: Objective) -> Solution:
    """Add warnings to a fit of a temperature, and possibly an exponent."""

    def flat_slope() -> float:
        low, high = torch.aminmax(samples.scores)
        largest = max(-float(low), float(high))
        return likelihood_slopes(samples, max(_NEARLY_INFINITE / (1 + largest), _LEAST)).first

    constant, all_right = samples.is_constant, bool(samples.correct.all())
    trouble = trouble_of(solution, constant=constant, all_right=all_right, flat_slope=flat_slope)
    if not trouble and samples.is_event:
        # Far on one side of zero, and made nearly equal by the temperature.
        low, high = (float(end) for end in torch.aminmax(samples.scores))
        alike = _ALIKE * solution.parameters["temperature"]
        if low * high > 0 and 0 < high - low < min(abs(low), abs(high), alike):
            trouble = (OFF_ZERO,)
    collapse = _collapse(samples, solution) if not trouble and objective not in DIFFERENTIABLE else ()
    return replace(solution, warnings=(*trouble, *solution.warnings, *collapse))


def trouble_of(
    solution: Solution, *, constant: bool, all_right: bool, flat_slope: Callable[[], float]
) -> tuple[str, ...]:
    """Causes of an undetermined temperature; ``flat_slope`` is the likelihood's slope as 1 / T tends to 0."""
    if constant:
        return (_CONSTANT,)
    if all_right:
        return (ALL_RIGHT,)
    # The likelihood only falls as the logits start to have weight.
    return (SILENT,) if "bracket" not in solution.certificate and flat_slope() >= 0 else ()


def _collapse(samples: Samples, solution: Solution) -> tuple[str, ...]:
    """Warning if the error is small because all confidences became similar."""

    def fullest_bin(temperature: float, gamma: float = 0.0) -> float:
        bins = width_bin_index(judged_confidences(samples, temperature, gamma), NUM_BINS)
        return float(torch.bincount(bins, samples.shares, NUM_BINS).max())

    found = solution.parameters
    after, before = fullest_bin(found["temperature"], found.get("gamma", 0.0)), fullest_bin(1.0)
    if after < _COLLAPSED or 1 - after > (1 - before) / 2:
        return ()
    said = (
        f"{after:.0%} of the confidences now fall into one of {NUM_BINS} bins ({before:.0%} before): the "
        'error is small because they barely differ; prefer objective="nll"'
    )
    return (said,)


def rank_order(ranking: Float[Tensor, " N"], outcomes: Tensor) -> Int[Tensor, " N"]:
    """The samples by ascending ``ranking``, ties by outcome."""
    order = torch.argsort(outcomes.to(torch.float64), stable=True)
    return order[torch.argsort(ranking[order], stable=True)]


def fold_numbers(
    ranking: Float[Tensor, " N"], outcomes: Tensor, num_folds: int, seed: int = 0
) -> Int[Tensor, " N"]:
    """Fold of each sample: neighbours in order of ``ranking`` are spread over the folds at random.

    So each fold has confidences of all sizes, and the order of the rows is irrelevant.
    """
    order = rank_order(ranking, outcomes)
    generator = torch.Generator().manual_seed(seed)
    num_runs = -(-len(order) // num_folds)
    dealt = torch.rand(num_runs, num_folds, generator=generator).argsort(dim=1).reshape(-1)[: len(order)]
    folds = torch.empty_like(order)
    folds[order] = dealt.to(order.device)
    return folds


def folds_of_alike(
    confidences: Float[Tensor, " N"], labels: Tensor, num_folds: int
) -> tuple[Int[Tensor, " N"], Int[Tensor, " N"]]:
    """Fold of each sample, and its kind: samples of equal confidence and label share a fold."""
    of_class = confidences.new_zeros(int(labels.max()) + 1).index_add_(0, labels, confidences)
    order = torch.argsort(labels)
    order = order[rank_order(confidences[order], of_class[labels[order]])]  # ties in no order of the classes
    ranked, classes = confidences[order], labels[order]
    first = torch.ones_like(order, dtype=torch.bool)
    first[1:] = (ranked[1:] != ranked[:-1]) | (classes[1:] != classes[:-1])
    kind = torch.empty_like(order)
    kind[order] = first.cumsum(0) - 1
    return fold_numbers(ranked[first], torch.arange(int(first.sum()), device=order.device), num_folds)[
        kind
    ], kind


def cluster_folds(codes: Int[Tensor, " N"], num_folds: int, seed: int = 0) -> Int[Tensor, " N"]:
    """Fold of each sample with whole clusters: the largest first, each into the smallest fold."""
    sizes = torch.bincount(codes)
    order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(seed))
    folds, filled = torch.empty_like(sizes), torch.zeros(num_folds)
    for cluster in order[torch.argsort(-sizes[order], stable=True)].tolist():
        folds[cluster] = filled.argmin()
        filled[folds[cluster]] += sizes[cluster]
    return folds[codes]


def check_folds(folds: int, num_samples: int, *, default: int = 0) -> None:
    """Refuse numbers of folds that leave some fold with fewer than two samples.

    ``default`` is the caller's default; 0 stands for no folds.
    """
    if num_samples < 4:
        raise InputError(f"there must be at least 4 samples to cut into folds; got {num_samples}.")
    if folds < 2 or folds > num_samples // 2:
        none, else_ = ("", f" (it is {default} where it is not given)") if default else ("0, or ", "")
        raise InputError(
            f"`folds` must be {none}from 2 to {num_samples // 2}, half the number of samples{else_}; "
            f"got {folds}."
        )


def held_out(
    data: CalibrationData, refitted: Callable[[CalibrationData, Tensor], Tensor], *, folds: int, seed: int
) -> dict[str, float]:
    """Log loss, confidence and accuracy of calibrators on samples outside their fit.

    ``excess`` is accuracy minus confidence in standard errors, ``excess_before`` that of the original scores.
    ``refitted`` fits to some samples and maps the scores of others.
    """
    check_folds(folds, len(data.scores))
    confidence_before, correct_before = _confidence(data.scores, data.labels, data.kind)
    numbers = fold_numbers(confidence_before, correct_before, folds, seed)

    def judged(inside: Tensor) -> Tensor:
        calibrated = refitted(data.part(~inside), data.scores[inside].to(torch.float64))
        labels = data.labels[inside]
        losses = log_losses(calibrated, labels, data.kind)
        return torch.stack([losses, *_confidence(calibrated, labels, data.kind)], dim=1)

    with without_warnings():
        losses, confidence, correct = out_of_fold(numbers, judged).unbind(dim=1)
    weights = torch.ones_like(confidence_before) if data.weights is None else data.weights
    shares = weights / weights.sum()
    means = {"log_loss": losses, "confidence": confidence, "accuracy": correct}
    found = {name: float(values @ shares) for name, values in means.items()}
    for name, values in (
        ("excess", correct - confidence),
        ("excess_before", correct_before - confidence_before),
    ):
        mean, error = mean_and_error(values, shares)
        found[name] = mean / error if error > 0 else 0.0
    return {name: value for name, value in found.items() if math.isfinite(value)}


def over_correction(found: dict[str, float]) -> tuple[str, ...]:
    """Warning if overconfidence became underconfidence beyond noise."""
    excess = found.get("excess", 0.0)
    if excess <= NOISE or found.get("excess_before", 0.0) >= 0:
        return ()
    said = (
        f"it over-corrects: on held-out folds it says {found['confidence']:.1%} and is right "
        f"{found['accuracy']:.1%} of the time, {excess:.1f} standard errors more"
    )
    return (said,)


def mean_and_error(
    values: Float[Tensor, " N"], shares: Float[Tensor, " N"], alike: Int[Tensor, " N"] | None = None
) -> tuple[float, float]:
    """Weighted mean and its standard error; samples of one kind in ``alike`` count as one."""
    mean = float(values @ shares)
    away = (values - mean) * shares
    return mean, float((away if alike is None else torch.bincount(alike, away)).square().sum().sqrt())


def log_losses(calibrated: Tensor, labels: Tensor, kind: Task) -> Float[Tensor, " N"]:
    if kind == "multiclass":
        return nll_loss(calibrated, labels, reduction="none")
    return _by_row(-logsigmoid(torch.where(labels == 1, calibrated, -calibrated)))


def _confidence(
    scores: Tensor, labels: Tensor, kind: Task
) -> tuple[Float[Tensor, " N"], Float[Tensor, " N"]]:
    """Probability of the more likely class, and its correctness; for several labels the means."""
    wide = scores.to(torch.float64)
    if kind == "multiclass":
        confidence, top = wide.softmax(dim=1).max(dim=1)
        return confidence, (top == labels).to(torch.float64)
    right = ((wide > 0) == (labels == 1)).to(torch.float64)
    return _by_row(wide.abs().sigmoid()), _by_row(right)


def _by_row(values: Tensor) -> Tensor:
    return values.mean(dim=1) if values.ndim == 2 else values
