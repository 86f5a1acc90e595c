"""Calibrators to try: built, fitted and applied to other samples."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from calibrant._math.drawing import out_of_fold
from calibrant._math.errors import ConvergenceError, InputError, without_warnings
from calibrant._math.text_form import kind_of
from calibrant.calibrators import Calibrator, build
from calibrant.evaluation.resampling.events import Indices
from calibrant.evaluation.result import Fit, Kind
from calibrant.predictions import Predictions

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


def probs_in_turn(on_others: Mapping[int, Calibrator], data: Labelled, folds: Indices) -> Tensor:
    """Probabilities from fitted calibrators, each applied to the fold that it has not seen."""
    numbers = torch.from_numpy(folds)
    return out_of_fold(
        numbers,
        lambda inside: on_others[int(numbers[inside][0])].predict_proba(data.scores[inside]),
    )


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
