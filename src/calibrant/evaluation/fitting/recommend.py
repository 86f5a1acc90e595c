"""Which arm to use, decided on the calibration samples alone and never by the calibration error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from calibrant.calibrators import Calibrator
from calibrant.calibrators.selection import AS_THEY_CAME, select, usual_candidates
from calibrant.evaluation.fitting.templates import Labelled, Template, templates
from calibrant.evaluation.fitting.top_k import judged_on_rows
from calibrant.evaluation.resampling.events import Indices
from calibrant.evaluation.resampling.resamples import Stream, generator
from calibrant.evaluation.result import Choice, ChoiceRow
from calibrant.predictions import Predictions
from calibrant.predictions.top_k import has_row_temperature

UNCALIBRATED = "uncalibrated"
LEAST_TO_CHOOSE = 20  # calibration samples; with fewer, nothing is recommended
FEWEST_ROWS = 64  # however many classes there are
MOST_ELEMENTS = 1 << 21  # of scores used for the choice: 21 000 samples of 100 classes


@dataclass(frozen=True)
class Recommendation:
    """The choice and what it was made from, simplest arm first."""

    choice: Choice
    fitted: Mapping[str, Calibrator] = field(compare=False)
    """Calibrators fitted on all calibration samples on the way."""
    folds: Indices | None = field(default=None, compare=False)
    """The fold of each calibration sample; ``None`` if only some samples made the choice."""
    on_others: Mapping[str, Mapping[int, Calibrator]] = field(default_factory=dict, compare=False)
    """Calibrators fitted on the samples outside of each fold."""

    @property
    def name(self) -> str:
        return self.choice.chosen


def recommend(wanted: Sequence[Template], calibration: Predictions, seed: int) -> Recommendation:
    """The simplest calibrator whose cross-validated NLL is within one standard error of the best.

    As :func:`calibrant.calibrators.select` chooses; changing nothing is the simplest of all. Probabilities of
    exactly zero count as 1e-12 in every arm, so that one of them does not decide alone.
    """
    sample = _sample(calibration, seed)
    data = Labelled.of(sample)
    others = judged_on_rows(wanted, sample, seed)
    calibrators = [
        each.calibrator for each in wanted if not has_row_temperature(each.calibrator.text, sample)
    ]
    found = select(
        data.scores,
        data.labels,
        weights=data.weights,
        clusters=sample.clusters,
        calibrators=calibrators,
        seed=seed,
        others=others,
    )
    whole = sample is calibration
    names = {template.calibrator.text: template.name for template in wanted} | {AS_THEY_CAME: UNCALIBRATED}
    titles = {template.name: template.title for template in wanted} | {UNCALIBRATED: "Uncalibrated"}
    candidates = tuple(
        ChoiceRow(
            name=names[each.text],
            title=titles[names[each.text]],
            size=each.size,
            nll=each.loss,
            behind=each.behind,
            standard_error=each.standard_error,
        )
        for each in found.candidates
    )
    return Recommendation(
        Choice(
            chosen=names[found.chosen.text],
            candidates=candidates,
            num_samples=sample.num_samples,
            folds=found.folds,
        ),
        {names[text]: each for text, each in found.fitted.items()} if whole else {},
        found.fold_of.numpy() if whole else None,
        {names[text]: each for text, each in found.on_others.items()} if whole else {},
    )


def further(calibration: Predictions, tried: Sequence[Template]) -> list[Template]:
    """More candidates, which are evaluated only if they are chosen."""
    names = {template.name for template in tried}
    task = "binary" if calibration.kind == "top_label" else calibration.kind
    texts = usual_candidates(
        task,
        min(calibration.num_samples, _most_rows(calibration)),
        _width(calibration),
        missing=len(missing_classes(calibration)),
        wrong=_wrong(calibration),
    )
    return templates([text for text in texts if text not in names], calibration.kind)


def _wrong(calibration: Predictions) -> int:
    """Number of wrong decisions; of several labels in all columns together."""
    return int((~calibration.correct).sum())


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
