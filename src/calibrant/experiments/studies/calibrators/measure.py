"""Every calibrator on every file of logits: fitted on one half of the samples, judged on the other."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from calibrant import metrics
from calibrant._math.errors import InputError
from calibrant._math.threads import threads_for
from calibrant.calibrators import available, build
from calibrant.evaluation.fitting.split import stratified_folds
from calibrant.evaluation.fitting.templates import FIT_FAILURES, Labelled, fit_quietly
from calibrant.experiments.prediction_files import prediction_files
from calibrant.experiments.records import Records
from calibrant.experiments.studies.calibrators.numbers import AS_THEY_CAME, CRITERIA, FITTED_BY, Trial
from calibrant.predictions import Predictions

RECORDS = "trials.jsonl"
MOST_CLASSES = {"dirichlet": 50}  # with more a fit takes minutes


def calibrators_for(kind: str, num_classes: int) -> list[str]:
    """Every calibrator for that kind of predictions, then the temperatures fitted by other criteria.

    Dirichlet calibration is left out above 50 classes, where a fit takes minutes. Of several labels per
    sample focal temperature scaling is fitted by NLL alone: by a binned error each label takes seconds.
    """
    names = [
        name
        for name in available()
        if kind in build(name).kinds and num_classes <= MOST_CLASSES.get(name, num_classes)
    ]
    by_others = FITTED_BY[:1] if kind == "multilabel" else FITTED_BY
    return names + [f'{name}(objective="{by}")' for name in by_others for by in CRITERIA[1:]]


def run_calibrator_study(
    folder: Path, out: Path, *, seeds: Sequence[int] = range(10), tell: Callable[[str], None] = lambda _: None
) -> Path:
    """Carry out what is not in ``out/trials.jsonl`` yet, one line for each trial as it ends.

    Raises:
        InputError: If the folder holds no file of predictions with all scores.
    """
    files = {name: given for name, given in prediction_files(folder) if given.kind != "top_label"}
    if not files:
        raise InputError(f"{folder} holds no file of predictions with all scores.")
    records = Records(out / RECORDS)
    with threads_for(0):
        for seed, (name, predictions) in itertools.product(seeds, files.items()):
            division = _Division(name, predictions, seed)
            names = calibrators_for(predictions.kind, predictions.num_classes or 2)
            for text in (AS_THEY_CAME, *names):
                records.get(f"{name}, {seed}, {text}", partial(division.trial, text))
            tell(f"{name}, division {seed + 1}")
    return records.path


@dataclass(frozen=True)
class _Division:
    """One file, divided once."""

    file: str
    predictions: Predictions
    seed: int

    @cached_property
    def _halves(self) -> tuple[Predictions, Predictions]:
        halves = stratified_folds(self.predictions, 2, self.seed)
        return self.predictions.rows(halves == 0), self.predictions.rows(halves == 1)

    def trial(self, text: str) -> dict[str, Any]:
        """One calibrator, fitted on one half and judged on the other."""
        calibration, test = self._halves
        before = test.probs
        probs, seconds, failure = before, None, None
        if text != AS_THEY_CAME:
            start = time.process_time()
            try:
                calibrator = fit_quietly(build(text), Labelled.of(calibration))
            except FIT_FAILURES as error:
                failure = str(error)
            else:
                seconds = time.process_time() - start
                probs = calibrator.predict_proba(test.scores)
        trial = Trial(
            file=self.file,
            kind=test.kind,
            num_samples=self.predictions.num_samples,
            num_classes=test.num_classes or 2,
            seed=self.seed,
            calibrator=text,
            measures={} if failure else _measured(probs, Labelled.of(test), test.kind),
            changed=None if failure else _changed(before, probs, test.kind),
            seconds=seconds,
            failure=failure,
        )
        return asdict(trial)


def _measured(probs: torch.Tensor, test: Labelled, kind: str) -> dict[str, float | None]:
    labels, weights = test.labels, test.weights
    found = {
        "nll": metrics.negative_log_likelihood(probs, labels, weights=weights),
        "brier": metrics.brier_score(probs, labels, weights=weights),
        "ece": metrics.expected_calibration_error(probs, labels, weights=weights),
        "adaptive_ece": metrics.adaptive_calibration_error(probs, labels, weights=weights),
        "smce": metrics.smooth_calibration_error(probs, labels, weights=weights),
        "accuracy": metrics.accuracy(probs, labels, weights=weights),
    }
    if kind == "multiclass":
        found["classwise"] = metrics.classwise_calibration_error(probs, labels, weights=weights)
    values = {name: float(value) for name, value in found.items()}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _changed(before: torch.Tensor, after: torch.Tensor, kind: str) -> float:
    if kind == "multiclass":
        return float((before.argmax(dim=1) != after.argmax(dim=1)).double().mean())
    return float(((before > 0.5) != (after > 0.5)).double().mean())
