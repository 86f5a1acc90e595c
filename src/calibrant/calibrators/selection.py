"""Candidate calibrators, and the choice among them by their loss on samples outside their fit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Checked, Task, check_choice, check_logits
from calibrant._math.drawing import out_of_fold
from calibrant._math.errors import ConvergenceError, InputError, without_warnings
from calibrant._math.machine import at_once, threads_for
from calibrant._math.scores import by_rows
from calibrant._math.shapes import Float, Int
from calibrant._math.simplex import log_softmax
from calibrant._math.text_form import decimals
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.data import (
    CalibrationData,
    check_folds,
    cluster_folds,
    fold_numbers,
    log_losses,
    rank_order,
)
from calibrant.calibrators.fitting.samples import floor_zero_probabilities
from calibrant.calibrators.roster import available, build

Criterion: TypeAlias = Literal["nll", "brier"]

AS_THEY_CAME = "none"
"""Name of the candidate that changes nothing."""

DEFAULT_FOLDS = 5
_TITLES = {"nll": "log loss", "brier": "Brier score"}
_SAMPLES_PER_NUMBER = 10
_FEWEST_WRONG = 20  # decisions, for a free form
_MOST_SORTED = 1 << 20  # scores for free forms, which sort them


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A calibrator and its loss on held-out samples."""

    text: str
    """Text for :func:`build`, or ``"none"`` for unchanged probabilities."""
    size: int
    """Number of fitted parameters."""
    loss: float
    """Mean over all samples, each judged by a calibrator fitted on the other folds."""
    behind: float
    """Loss minus the lowest one."""
    standard_error: float
    """Standard error of ``behind``, from the differences sample by sample."""

    @property
    def level(self) -> bool:
        """Return True if it is within one standard error of the best."""
        return self.behind <= self.standard_error


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Result of :func:`select`: the choice and the reason; ``print`` it."""

    calibrator: Calibrator | None
    """Fitted on all samples; None if probabilities are best unchanged."""
    chosen: Candidate
    candidates: tuple[Candidate, ...]
    """From the fewest fitted numbers to the most."""
    fitted: Mapping[str, Calibrator]
    """Every candidate that could be fitted, on all samples, by its text."""
    criterion: Criterion
    folds: int
    num_samples: int
    failures: tuple[str, ...]
    """A sentence on every candidate that could not be fitted."""
    fold_of: Int[Tensor, " N"] = field(repr=False, compare=False)
    """The fold of each sample."""
    on_others: Mapping[str, Mapping[int, Calibrator]] = field(repr=False, compare=False)
    """Every candidate, by its text, as it was fitted on the samples outside of each fold."""

    def __str__(self) -> str:
        width = max(len(candidate.text) for candidate in self.candidates)
        title = _TITLES[self.criterion]
        lines = [
            f"{self.num_samples:,} samples, {self.folds}-fold cross-validated {title} (lower is better):",
            f"  {'':{width}}      parameters      loss  behind the best",
        ]
        for each in self.candidates:
            mark = "*" if each is self.chosen else " "
            behind = "best"
            if each.behind > 0:
                behind = f"{decimals(each.behind, 5)} ± {decimals(each.standard_error, 5)}"
            lines.append(
                f"{mark} {each.text:{width}}  {each.size:14d}  {decimals(each.loss, 5):>8}  {behind}"
            )
        return "\n".join([*lines, self._reason(), *self.failures])

    def _reason(self) -> str:
        best = min(self.candidates, key=lambda each: each.behind)
        what = "no calibrator" if self.calibrator is None else self.chosen.text
        why = "It has the lowest loss, and no other has fewer parameters"
        if self.chosen is not best:
            why = "It has the fewest parameters of the methods within one standard error of the best, "
            why += best.text
        elif any(each.size < best.size for each in self.candidates):
            why = (
                "It has the lowest loss; every method with fewer parameters is more than one standard error "
            )
            why += "behind"
        return f"Choice: {what}. {why}."


def select(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    clusters: Sequence[str] | None = None,
    calibrators: Sequence[str | Calibrator] | None = None,
    criterion: Criterion = "nll",
    folds: int = DEFAULT_FOLDS,
    seed: int = 0,
    others: Mapping[str, tuple[Calibrator, Float[Tensor, " N"]]] | None = None,
) -> Selection:
    """Choose a calibrator by cross-validation with the one-standard-error rule.

    Every candidate is fitted on all folds but one and judged on that one, in turn. Among those whose mean
    loss is within one standard error of the lowest, the one with the fewest parameters is taken; the
    standard error is that of the paired differences, sample by sample. Changing nothing is always a
    candidate. Calibration error is not a criterion: a calibrator with equal output for every sample can have
    none.

    Args:
        logits: Logits ``(N, C)``, or log-odds ``(N,)`` of class 1.
        labels: Classes ``(N,)``, or zeros and ones ``(N, C)`` with one column per label.
        weights: Sample weights ``(N,)``.
        clusters: The patient, document or image of each sample, where samples of one are not independent:
            none is in two folds, and the standard error is that of whole clusters.
        calibrators: Candidates as :func:`build` takes them, or calibrators, which are fitted anew. By default
            those that suit the predictions, with at least ten samples for each number that they fit; if a
            class does not occur, none with numbers for each class.
        criterion: ``"nll"`` or ``"brier"``, both proper.
        folds: Number of folds, from 2 to half the number of samples.
        seed: For the division into folds.
        others: Candidates that act on more than the logits, by name: fitted on all samples, with the held-out
            loss of each sample.

    Returns:
        The choice, fitted on all samples, and how every candidate did; print it to read why.

    Raises:
        InputError: If shapes disagree, a value is NaN, a setting or candidate is unknown, or only one class
            occurs and no candidates are given.

    Note:
        As many fits as folds for every candidate, and one more. Warnings of the fits on folds are not shown.

    References:
        Breiman, Friedman, Olshen and Stone, "Classification and Regression Trees", 1984, section 3.4.3.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> log_odds = 2 * torch.randn(600, generator=generator)
        >>> labels = torch.bernoulli(torch.sigmoid(log_odds), generator=generator)
        >>> selection = select(3 * log_odds, labels, calibrators=["temperature", "platt"])
        >>> selection.chosen.text
        'temperature'
    """
    check_choice("criterion", criterion, get_args(Criterion))
    checked = check_logits(logits, labels, weights, allow_minus_inf=True)
    check_folds(folds, checked.num_samples, default=DEFAULT_FOLDS)
    wanted = _usual(checked) if calibrators is None else calibrators
    if not wanted and not others:
        raise InputError("`calibrators` must name at least one; got none.")
    # Refuse unknown names before any fit.
    made = {
        each if isinstance(each, str) else each.text: build(each)
        if isinstance(each, str)
        else each.unfitted()
        for each in wanted
    }
    codes = None if clusters is None else _codes(clusters, checked.num_samples)
    if codes is None:
        numbers = _folds_of(checked, folds, seed)
    else:
        folds = min(folds, int(codes.max()) + 1)
        numbers = cluster_folds(codes, folds, seed)
    losses = {AS_THEY_CAME: _losses_as_they_came(checked, criterion)}
    tried, fitted = dict[str, Calibrator](), dict[str, Calibrator]()
    errors, failures = dict[str, Exception](), list[str]()
    with threads_for(checked.scores.numel()), without_warnings():  # the results of the fits contain them
        whole = CalibrationData.of(checked)
        for text, calibrator in made.items():
            try:
                tried[text] = calibrator.fit_to(whole)
            except (InputError, ConvergenceError) as error:
                errors[text] = error
        del whole  # with what the fits kept in it, before those on folds need as much memory
        held_out, on_others = _judged_held_out(tried, checked, numbers, criterion, errors)
    for text in made:
        if text in errors:
            failures.append(f"{text} could not be fitted: {errors[text]}")
        elif bool(held_out[text].isnan().any()):
            failures.append(f"{text} failed: its loss is not a number")
        else:
            losses[text], fitted[text] = held_out[text], tried[text]
    for text, other in (others or {}).items():
        fitted[text], losses[text] = other
    sizes = {text: each.size for text, each in fitted.items()}
    candidates = _ranked(losses, sizes, checked.weights, codes)
    chosen = next(each for each in candidates if each.level)
    return Selection(
        calibrator=fitted.get(chosen.text),
        chosen=chosen,
        candidates=candidates,
        fitted=fitted,
        criterion=criterion,
        folds=folds,
        num_samples=checked.num_samples,
        failures=tuple(failures),
        fold_of=numbers,
        on_others=on_others,
    )


def out_of_fold_probs(
    calibrator: str | Calibrator,
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    folds: int = DEFAULT_FOLDS,
    seed: int = 0,
) -> Tensor:
    """Probabilities of each sample by a calibrator fitted on the other folds.

    Args:
        calibrator: As :func:`build` takes it, or a calibrator, which is fitted anew.
        logits: Logits ``(N, C)``, or log-odds ``(N,)`` of class 1.
        labels: Classes ``(N,)``, or zeros and ones of the shape of the logits with one column per label.
        weights: Sample weights ``(N,)``.
        folds: Number of folds, from 2 to half the number of samples.
        seed: For the division into folds.

    Returns:
        float64 in the shape of the logits.

    Raises:
        InputError: If shapes disagree, a value is NaN, or the calibrator is unknown or does not suit.

    Note:
        As many fits as folds. For :func:`~calibrant.metrics.variational_calibration_error` and
        :func:`~calibrant.metrics.refinement_decomposition`. Warnings of the fits are not shown.

    Example:
        >>> import torch
        >>> log_odds = torch.tensor([4.0, -4.0] * 20)
        >>> labels = torch.tensor([1, 0, 1, 0, 1, 0, 0, 1] * 5)
        >>> out_of_fold_probs("temperature", log_odds, labels, folds=2).shape
        torch.Size([40])
    """
    checked = check_logits(logits, labels, weights, allow_minus_inf=True)
    check_folds(folds, checked.num_samples, default=DEFAULT_FOLDS)
    fresh = build(calibrator) if isinstance(calibrator, str) else calibrator.unfitted()

    def inside_by_others(inside: Tensor) -> Tensor:
        shares = None if checked.weights is None else checked.weights[~inside]
        return fresh.fit(checked.scores[~inside], checked.target[~inside], weights=shares).predict_proba(
            checked.scores[inside]
        )

    with without_warnings():
        return out_of_fold(_folds_of(checked, folds, seed), inside_by_others)


def _codes(clusters: Sequence[str], num_samples: int) -> Int[Tensor, " N"]:
    numbers = {name: code for code, name in enumerate(dict.fromkeys(clusters))}
    if len(clusters) != num_samples or len(numbers) < 2:
        raise InputError(
            f"`clusters` must name the cluster of each of {num_samples} samples, two or more in all; got "
            f"{len(clusters)} names, {len(numbers)} of them different."
        )
    return torch.tensor([numbers[name] for name in clusters])


def _usual(checked: Checked) -> tuple[str, ...]:
    """Candidates by default; refuses labels with only one class."""
    labels, task = checked.target, checked.task
    if bool((labels == labels[:1]).all()):
        raise InputError(
            "`labels` must hold more than one class to choose a calibrator by: samples of one alone do not "
            "tell how often it is wrong; name the calibrator to fit it anyway."
        )
    missing = checked.num_classes - len(labels.unique()) if task == "multiclass" else 0
    decided = checked.scores.argmax(dim=1) if task == "multiclass" else (checked.scores > 0).to(labels.dtype)
    wrong = int((decided != labels).sum())
    return usual_candidates(task, *checked.scores.shape, missing=missing, wrong=wrong)


def _ranked(
    losses: dict[str, Tensor], sizes: dict[str, int], weights: Tensor | None, codes: Tensor | None
) -> tuple[Candidate, ...]:
    first = next(iter(losses.values()))
    shares = torch.ones_like(first) if weights is None else weights.to(first)
    shares = shares / shares.sum()
    means = {text: float(loss @ shares) for text, loss in losses.items()}
    best = min(means, key=lambda text: (means[text], sizes.get(text, 0)))

    def candidate(text: str) -> Candidate:
        difference = losses[text] - losses[best]
        deviations = shares * (difference - difference @ shares)
        if codes is not None:
            deviations = torch.zeros(int(codes.max()) + 1).to(deviations).index_add(0, codes, deviations)
        largest = float(deviations.abs().max()) or 1.0  # divided first: squares may be infinite
        error = largest * float((deviations / largest).square().sum().sqrt())
        loss, behind = means[text], means[text] - means[best]
        return Candidate(text=text, size=sizes.get(text, 0), loss=loss, behind=behind, standard_error=error)

    return tuple(sorted(map(candidate, losses), key=lambda each: (each.size, each.loss)))


def _judged_held_out(
    tried: Mapping[str, Calibrator],
    checked: Checked,
    numbers: Int[Tensor, " N"],
    criterion: Criterion,
    errors: dict[str, Exception],
) -> tuple[dict[str, Tensor], dict[str, dict[int, Calibrator]]]:
    """Losses of each sample under calibrators refitted on the other folds, and these calibrators by fold.

    All candidates are fitted to the samples outside a fold in turn, because they share much of the work.
    Failures are added to ``errors``.
    """
    on_others: dict[str, dict[int, Calibrator]] = {text: {} for text in tried}
    failed: list[tuple[int, str, Exception]] = []

    def losses_inside(inside: Tensor) -> Tensor:
        weights = None if checked.weights is None else checked.weights[~inside]
        given = (checked.scores[~inside], checked.target[~inside], weights)
        others = CalibrationData.of(check_logits(*given, allow_minus_inf=True))
        fold, scores = int(numbers[inside][0]), checked.scores[inside].to(torch.float64)
        losses = scores.new_full((len(scores), len(tried)), math.nan)
        for column, (text, calibrator) in enumerate(tried.items()):
            try:
                fitted = calibrator.refit_to(others)
                calibrated = fitted(scores).detach()
            except (InputError, ConvergenceError) as error:
                failed.append((fold, text, error))
                continue
            on_others[text][fold] = fitted
            losses[:, column] = _losses(calibrated, checked.target[inside], checked.task, criterion)
        return losses

    if not tried:
        return {}, {}
    losses = out_of_fold(numbers, losses_inside, threads=at_once(checked.num_samples))
    for _, text, error in sorted(failed, key=lambda each: each[0]):
        errors.setdefault(text, error)
    return dict(zip(tried, losses.T.contiguous(), strict=True)), on_others


def _losses_as_they_came(checked: Checked, criterion: Criterion) -> Float[Tensor, " N"]:
    def losses_of(rows: slice) -> Tensor:
        scores = floor_zero_probabilities(checked.scores[rows], checked.task)[0].to(torch.float64)
        came = log_softmax(scores) if checked.task == "multiclass" else scores
        return _losses(came, checked.target[rows], checked.task, criterion)

    return by_rows(losses_of, checked.scores)


def _losses(calibrated: Tensor, labels: Tensor, task: Task, criterion: Criterion) -> Float[Tensor, " n"]:
    """Log-loss or squared error of each sample, from calibrated scores; the mean over several labels."""
    if criterion == "nll":
        return log_losses(calibrated, labels, task)
    if task == "multiclass":
        return (calibrated.exp() - one_hot(labels, calibrated.shape[1])).square().sum(dim=1)
    losses = (calibrated.sigmoid() - labels).square()
    return losses if losses.ndim == 1 else losses.mean(dim=1)


def _folds_of(checked: Checked, folds: int, seed: int) -> Int[Tensor, " N"]:
    """The folds, whatever the order of the classes and whichever of two is the event."""
    scores, target = checked.scores, checked.target
    if checked.task == "multiclass":
        top = by_rows(lambda rows: log_softmax(scores[rows].to(torch.float64)).amax(dim=1), scores)
        margin = scores.gather(1, target[:, None])[:, 0] - scores.amax(dim=1)
        return fold_numbers(top.round(decimals=12), margin, folds, seed)
    scores, outcomes = scores.to(torch.float64), target.to(torch.float64)
    if checked.task == "multilabel":
        return fold_numbers(scores.sum(dim=1), outcomes.sum(dim=1), folds, seed)
    ranked = outcomes[rank_order(scores, outcomes)]
    others = 1 - ranked.flip(0)  # with the other class as the event
    unlike = (ranked != others).nonzero()[:1]
    if (excess := float((ranked - others).sum())) > 0 or (excess == 0 and bool(ranked[unlike].any())):
        scores, outcomes = -scores, 1 - outcomes
    return fold_numbers(scores, outcomes, folds, seed)


def usual_candidates(
    task: Task, num_samples: int, num_classes: int = 1, *, missing: int = 0, wrong: int | None = None
) -> tuple[str, ...]:
    """Calibrators that are tried by default on such predictions, from the fewest parameters to the most.

    Calibrators with parameters per class need ten samples for each of them and, like free forms, samples of
    every class; free forms also need a limited number of scores. If nearly every decision is right, only the
    few wrong ones inform the correction: each parameter needs one of them, and a free form twenty.

    Args:
        task: Kind of predictions.
        num_samples: Number of samples to choose by.
        num_classes: Number of classes or labels.
        missing: Number of classes absent from the samples.
        wrong: Number of samples whose class is not the most probable one; None if unknown.

    Example:
        >>> usual_candidates("binary", 1000)
        ('temperature', 'platt', 'beta', 'isotonic')
        >>> usual_candidates("binary", 1000, wrong=19)
        ('temperature', 'platt', 'beta')
    """
    wrong = num_samples if wrong is None else wrong
    kept: dict[str, float] = {}
    for text in available():
        calibrator = build(text)
        if task not in calibrator.tried_unasked:
            continue
        count = calibrator.num_parameters(num_classes)
        if count is None:
            few = wrong < min(_FEWEST_WRONG, num_samples)
            suits = not missing and not few and num_samples * num_classes <= _MOST_SORTED
        elif count == calibrator.num_parameters(num_classes + 1):
            suits = True
        else:
            suits = not missing and count <= wrong and _SAMPLES_PER_NUMBER * count <= num_samples
        if suits:
            kept[text] = math.inf if count is None else count
    return tuple(sorted(kept, key=lambda text: kept[text]))
