"""Calibrators to try: built, fitted, and chosen by cross-validated log loss."""

from __future__ import annotations

import contextlib
import copy
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields

import numpy as np
import torch
from torch import Tensor

from calibrant._math.drawing import out_of_fold
from calibrant._math.errors import ConvergenceError, InputError, without_warnings
from calibrant._math.text_form import kind_of
from calibrant._math.top_k import TopK
from calibrant.calibrators import Calibrator, TemperatureScaling, build, fit_top_k_temperature
from calibrant.calibrators.selection import AS_THEY_CAME, select, usual_candidates
from calibrant.evaluation.arguments import Steps
from calibrant.evaluation.fitting.split import NUM_FOLDS, Split, stratified_folds
from calibrant.evaluation.resampling.events import Indices
from calibrant.evaluation.resampling.resamples import Stream, generator
from calibrant.evaluation.result import Choice, ChoiceRow, Fit, Kind
from calibrant.predictions import Predictions
from calibrant.predictions.to_event import repaired
from calibrant.predictions.top_k import has_row_temperature

DEFAULTS = ("temperature", "focal-temperature")


@dataclass(frozen=True)
class Labelled:
    """Scores and labels to fit calibrators on."""

    scores: Tensor
    labels: Tensor
    weights: Tensor | None

    @classmethod
    def of(cls, predictions: Predictions) -> Labelled:
        if predictions.labels is None:
            raise InputError("`labels` must be given to fit a calibrator; got none.")
        return cls(predictions.scores, predictions.labels, predictions.weights)

    def rows(self, index: Tensor) -> Labelled:
        weights = None if self.weights is None else self.weights[index]
        return Labelled(self.scores[index], self.labels[index], weights)


@dataclass(frozen=True)
class Template:
    """A calibrator to fit, any number of times."""

    name: str
    title: str
    calibrator: Calibrator

    def fit(self, data: Labelled) -> Calibrator:
        return fit_quietly(copy.deepcopy(self.calibrator), data)

    def fit_in_pieces(self, predictions: Predictions) -> Calibrator:
        if predictions.labels is None:
            raise InputError("`labels` must be given to fit a calibrator; got none.")
        calibrator = copy.deepcopy(self.calibrator)
        return calibrator.fit_in_pieces(predictions, predictions.labels, weights=predictions.weights)


@dataclass(frozen=True)
class FittedCalibrator:
    """A calibrator fitted on all calibration samples."""

    template: Template
    calibrator: Calibrator
    cross_fitted: Predictions | None  # test samples, each calibrated by a fit on the other folds
    keeps_order: bool = False  # whether it ranks an event's samples as their scores do

    @property
    def name(self) -> str:
        return self.template.name

    @property
    def title(self) -> str:
        return self.template.title


def fit_quietly(calibrator: Calibrator, data: Labelled) -> Calibrator:
    """Fit without warnings; ``fit_result_`` keeps them."""
    with without_warnings():
        return calibrator.fit(data.scores, data.labels, weights=data.weights)


def name_classes(calibrator: Calibrator, names: tuple[str, ...] | None, event_column: int = 1) -> None:
    """Store the class names, if their number fits, and the column of the event."""
    number = 2 if calibrator.kind_ == "binary" else calibrator.num_classes_
    calibrator.class_names_ = names if len(names or ()) == number else None
    calibrator.event_column_ = event_column


def templates(calibrators: Sequence[str | Calibrator] | None, kind: Kind) -> list[Template]:
    """The requested calibrators, or the default ones; no two alike."""
    if isinstance(calibrators, (str, Calibrator, type)):
        calibrators = [calibrators]
    task = "binary" if kind == "top_label" else kind  # the event that the prediction is right
    found: list[tuple[str, Calibrator]] = []
    for wanted in DEFAULTS if calibrators is None else calibrators:
        calibrator = build(wanted) if isinstance(wanted, str) else wanted
        if not isinstance(calibrator, Calibrator):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"`calibrators` must hold names or calibrators, as in `[PlattScaling()]`; got "
                f"{kind_of(calibrator)}."
            )
        if task not in calibrator.kinds:
            events = {
                "binary": "; two columns are one event, so use platt",
                "top_label": "; for confidences use platt",
            }
            suited = " and ".join(calibrator.kinds)
            raise InputError(
                f"{calibrator.name} is for {suited} predictions; got {kind} ones{events.get(kind, '')}."
            )
        if calibrator.text in {each.text for _, each in found}:
            raise InputError(f"`calibrators` must differ; {calibrator.text} is given twice.")
        found.append((wanted if isinstance(wanted, str) else calibrator.text, calibrator))
    methods = [each.name for _, each in found]

    def title(each: Calibrator) -> str:
        settings = each.text.removeprefix(each.name) if methods.count(each.name) > 1 else ""
        return f"{each.title} {settings}".rstrip()

    return [Template(name, title(each), each) for name, each in found]


def wants_calibrators(calibrators: Sequence[str | Calibrator] | None) -> bool:
    """True unless the list is empty; ``None`` means the default calibrators."""
    return calibrators is None or isinstance(calibrators, (str, Calibrator, type)) or len(calibrators) > 0


def cross_fit(
    template: Template, data: Labelled, folds: Indices, tell: Callable[[float], None] = lambda _: None
) -> Tensor:
    """Probabilities of every sample from a calibrator fitted on the other folds; float64."""
    done, total = itertools.count(1), len(np.unique(folds))

    def calibrated(inside: Tensor) -> Tensor:
        found = template.fit(data.rows(~inside)).predict_proba(data.scores[inside])
        tell(next(done) / total)
        return found

    return out_of_fold(torch.from_numpy(folds), calibrated)


def ranks_alike(calibrator: Calibrator, data: Labelled) -> bool:
    """True if an event's probabilities are in the order of its scores; each fold's map alone keeps it too."""
    if data.scores.ndim > 1:
        return False
    order = data.scores.argsort()
    before, after = (each[order].diff() > 0 for each in (data.scores, calibrator.predict_proba(data.scores)))
    return torch.equal(before, after)


def fit_summary(calibrator: Calibrator) -> Fit:
    return Fit(**{each.name: getattr(calibrator.fit_result_, each.name) for each in fields(Fit)})


FIT_FAILURES = (InputError, ConvergenceError)


UNCALIBRATED = "uncalibrated"
LEAST_TO_CHOOSE = 20  # calibration samples; with fewer, nothing is recommended
FEWEST_ROWS = 64  # however many classes there are
FLOOR = 1e-12  # of the probability of an outcome, so that one sample does not decide alone
MOST_ELEMENTS = 1 << 21  # of scores used for the choice: 21 000 samples of 100 classes


@dataclass(frozen=True)
class Recommendation:
    """The choice, and the calibrators fitted on the way."""

    choice: Choice
    fitted: Mapping[str, Calibrator] = field(compare=False)  # on all calibration samples
    folds: Indices | None = field(
        default=None, compare=False
    )  # of each calibration sample; None if subsampled
    on_others: Mapping[str, Mapping[int, Calibrator]] = field(default_factory=dict, compare=False)
    """Calibrators fitted on the samples outside each fold."""

    @property
    def name(self) -> str:
        return self.choice.chosen


def recommend(wanted: Sequence[Template], calibration: Predictions, seed: int) -> Recommendation:
    """Choose the simplest calibrator whose cross-validated NLL is within one standard error of the best.

    Uses :func:`calibrant.calibrators.select`. Zero probabilities count as 1e-12 in every arm.
    """
    sample = _sample(calibration, seed)
    data = Labelled.of(sample)
    on_rows = [each.calibrator.text for each in wanted if has_row_temperature(each.calibrator.text, sample)]
    calibrators = [each.calibrator for each in wanted if each.calibrator.text not in on_rows]
    others: dict[str, tuple[Calibrator, Tensor]] = {}
    for text in on_rows:
        with contextlib.suppress(InputError):  # reported when the arm is fitted
            others[text] = held_out(sample, seed)
    found = select(
        data.scores,
        data.labels,
        weights=data.weights,
        clusters=sample.clusters,
        calibrators=calibrators,
        seed=seed,
        others=others,
    )
    known = {each.calibrator.text: (each.name, each.title) for each in wanted}
    known[AS_THEY_CAME] = (UNCALIBRATED, "Uncalibrated")
    names = {text: name for text, (name, _) in known.items()}
    candidates = tuple(
        ChoiceRow(
            name=names[each.text],
            title=known[each.text][1],
            size=each.size,
            nll=each.loss,
            behind=each.behind,
            standard_error=each.standard_error,
        )
        for each in found.candidates
    )
    choice = Choice(
        chosen=names[found.chosen.text],
        candidates=candidates,
        num_samples=sample.num_samples,
        folds=found.folds,
    )
    if sample is not calibration:
        return Recommendation(choice, {})
    return Recommendation(
        choice,
        {names[text]: each for text, each in found.fitted.items()},
        found.fold_of.numpy(),
        {names[text]: each for text, each in found.on_others.items()},
    )


def further(calibration: Predictions, tried: Sequence[Template]) -> list[Template]:
    """Further candidates, evaluated only if chosen."""
    names = {template.name for template in tried}
    texts = usual_candidates(
        "binary" if calibration.kind == "top_label" else calibration.kind,
        min(calibration.num_samples, _most_rows(calibration)),
        _width(calibration),
        missing=len(missing_classes(calibration)),
        wrong=int((~calibration.correct).sum()),  # of several labels in all columns together
    )
    return templates([text for text in texts if text not in names], calibration.kind)


def missing_classes(calibration: Predictions) -> list[int]:
    if calibration.kind != "multiclass" or calibration.labels is None:
        return []
    counts = np.bincount(calibration.labels.numpy(), minlength=calibration.num_classes or 0)
    return np.flatnonzero(counts == 0).tolist()


def _width(predictions: Predictions) -> int:
    return 1 if predictions.kind == "binary" else predictions.num_classes or 1


def _most_rows(predictions: Predictions) -> int:
    return max(FEWEST_ROWS, math.ceil(MOST_ELEMENTS / _width(predictions)))


def _sample(predictions: Predictions, seed: int) -> Predictions:
    most = _most_rows(predictions)
    if predictions.num_samples <= most:
        return predictions
    rows = generator(seed, Stream.FOLDS, part=1).permutation(predictions.num_samples)[:most]
    return predictions.rows(np.sort(rows))


def fit_to_rows(template: Template, split: Split) -> FittedCalibrator:
    """Fit the temperature of whole rows from their largest logits, and calibrate the test samples."""
    given, held = split.calibration, split.test.top_k
    if given is None or given.top_k is None or held is None:
        raise InputError("the largest logits of each sample must be known.")
    calibrator = fit_top_k_temperature(given.top_k, weights=given.weights)
    if split.folds is None:
        confidence = _confidence(held, calibrator)
    else:
        confidence = _in_turn(given.top_k, given.weights, split.folds, held)
    return FittedCalibrator(template, calibrator, split.test.replace_probs(confidence))


def held_out(calibration: Predictions, seed: int) -> tuple[Calibrator, Tensor]:
    """Temperature of whole rows, and losses of correctness with the temperatures of the other folds."""
    top_k, weights = calibration.top_k, calibration.weights
    if top_k is None or calibration.labels is None:
        raise InputError("the largest logits of each sample must be known, and labels.")
    stated = _in_turn(top_k, weights, stratified_folds(calibration, NUM_FOLDS, seed), top_k)
    losses = -torch.where(calibration.labels == 1, stated, 1 - stated).clamp(min=FLOOR).log()
    return fit_top_k_temperature(top_k, weights=weights), losses


def _in_turn(top_k: TopK, weights: Tensor | None, folds: Indices, held: TopK) -> Tensor:
    """Confidences of the ``held`` rows, each with the temperature fitted on the other folds."""

    def judged(inside: Tensor) -> Tensor:
        others = None if weights is None else weights[~inside]
        return _confidence(held.rows(inside), fit_top_k_temperature(top_k.rows(~inside), weights=others))

    return out_of_fold(torch.from_numpy(folds), judged)


def _confidence(top_k: TopK, calibrator: TemperatureScaling) -> Tensor:
    return top_k.at(float(calibrator.temperature)).confidence


def one_class_only(predictions: Predictions | None) -> bool:
    """True if all samples are of the same class; with several labels per sample there is no such class."""
    labels = None if predictions is None else predictions.labels
    return labels is not None and labels.ndim == 1 and len(labels.unique()) == 1


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The calibrators, fitted, and the one that is recommended."""

    tried: list[Template]  # those asked for, and the one that is recommended
    recommendation: Recommendation | None
    calibrators: list[FittedCalibrator]
    failures: list[str]  # a sentence on each that could not be fitted


def fit(split: Split, wanted: Sequence[Template], seed: int, steps: Steps, *, more: bool) -> Fitted:
    """Fit the wanted calibrators and the one chosen by cross-validation, from ``more`` candidates if set."""
    steps.next("choosing among the calibrators")
    held, wanted, recommendation = split.calibration, list(wanted), None
    enough = split.effective_calibration >= LEAST_TO_CHOOSE and not one_class_only(held)
    if held is not None and wanted and enough:
        others = further(held, wanted) if more else []
        recommendation = recommend([*wanted, *others], held, seed)
        wanted += [template for template in others if template.name == recommendation.name]
    if split.in_pieces is not None:
        split.in_pieces.watch(steps.within)  # once for each pass
    found = Fitted(tried=wanted, recommendation=recommendation, calibrators=[], failures=[])
    for template in wanted:
        steps.next(f"fitting {template.name}")
        try:
            fitted = _fit(template, split, recommendation, steps.within)
            if held is not None:
                name_classes(fitted.calibrator, held.class_names, held.event_column)
            found.calibrators.append(fitted)
        except FIT_FAILURES as error:
            found.failures.append(f"{template.name} could not be fitted: {error}")
    return found


def _fit(
    template: Template, split: Split, chosen: Recommendation | None, tell: Callable[[float], None]
) -> FittedCalibrator:
    """Fit a calibrator on all calibration samples, and on folds; reuse the fits of the choice."""
    if split.calibration is None:
        raise InputError("there are no samples to fit on.")
    if has_row_temperature(template.name, split.calibration):
        return fit_to_rows(template, split)
    if split.in_pieces is not None and template.calibrator.fits_in_pieces:
        return FittedCalibrator(template, template.fit_in_pieces(split.in_pieces), None)
    data = Labelled.of(split.calibration)
    known = None if chosen is None else chosen.fitted.get(template.name)
    calibrator = known or template.fit(data)
    if split.folds is None:
        return FittedCalibrator(template, calibrator, None)
    on_others = None if chosen is None else chosen.on_others.get(template.name)
    if chosen is not None and chosen.folds is not None and on_others is not None:
        folds = torch.from_numpy(chosen.folds)  # each calibrator is applied to the one that it has not seen
        probs = out_of_fold(
            folds, lambda some: on_others[int(folds[some][0])].predict_proba(data.scores[some])
        )
    else:
        probs = cross_fit(template, data, split.folds, tell)
    return FittedCalibrator(template, calibrator, repaired(split.test, probs), ranks_alike(calibrator, data))
