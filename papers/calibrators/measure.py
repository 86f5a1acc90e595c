"""Every calibrator on every file of logits: fitted on either half of the samples, judged on the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch

from calibrant import metrics
from calibrant._math.errors import InputError
from calibrant._math.threads import threads_for
from calibrant.calibrators import available, build
from calibrant.evaluation.fitting.templates import FIT_FAILURES, Labelled
from calibrant.predictions import Predictions
from papers.calibrators import settings
from papers.calibrators.crossed import Crossed, Division
from papers.calibrators.exponent import floored_gains, refitted_gains, rows_of_gain
from papers.calibrators.numbers import Trial
from papers.calibrators.resamples import Resamples
from papers.calibrators.settings import AS_THEY_CAME, CRITERIA, FITTED_BY
from papers.prediction_files import prediction_files
from papers.records import Records

RECORDS = "calibrators-runs.jsonl"


def calibrators_for(kind: str, num_classes: int) -> list[str]:
    """Every calibrator for that kind of predictions, then the temperatures fitted by other criteria.

    Dirichlet calibration is left out above 50 classes, where a fit takes minutes. For several labels per
    sample focal temperature scaling is fitted by NLL alone: by a binned error each label takes seconds.
    """
    names = [
        name
        for name in available()
        if kind in build(name).kinds and num_classes <= settings.MOST_CLASSES.get(name, num_classes)
    ]
    by_others = FITTED_BY[:1] if kind == "multilabel" else FITTED_BY
    return names + [f'{name}(objective="{by}")' for name in by_others for by in CRITERIA[1:]]


def run_calibrator_study(
    folder: Path, out: Path, *, seeds: Sequence[int], tell: Callable[[str], None] = lambda _: None
) -> Records:
    """Carry out what is not recorded yet, a line for each result as it comes.

    Raises:
        InputError: If the folder holds no file of predictions with all scores.
    """
    records = Records(out / RECORDS)
    empty = True
    with threads_for(0):
        for name, predictions in prediction_files(folder):
            if predictions.kind == "top_label":
                continue
            empty = False
            file = _File(name, predictions.with_split(None))
            for seed in seeds:
                division = Division(file.predictions, seed)
                for text in (AS_THEY_CAME, *calibrators_for(file.predictions.kind, file.num_classes)):
                    records.get(f"{name}, {seed}, {text}", partial(file.trial, division, text))
                tell(f"{name}, division {seed + 1}")
            records.get(f"{name}, {len(seeds)} divisions, exponent", partial(file.exponent, seeds))
            tell(f"{name}, exponent")
    if empty:
        raise InputError(f"{folder} holds no file of predictions with all scores.")
    return records


@dataclass(frozen=True)
class _File:
    """One file and its resamples, the same for all calibrators and divisions."""

    name: str
    predictions: Predictions

    @property
    def num_classes(self) -> int:
        """C; 2 for an event."""
        return self.predictions.num_classes or 2

    @cached_property
    def resamples(self) -> Resamples:
        """Resamples of all samples, whatever half they are in."""
        return Resamples(self.predictions.num_samples, settings.RESAMPLES, seed=0)

    def trial(self, division: Division, text: str) -> Mapping[str, Any]:
        """One calibrator on one division."""
        data, before = division.data, self.predictions.probs.double()
        failure, crossed = None, Crossed(before, 0.0, ())
        if text != AS_THEY_CAME:
            try:
                crossed = division.judged(text)
            except FIT_FAILURES as error:
                failure = str(error)
        trial = Trial(
            file=self.name,
            kind=self.predictions.kind,
            num_samples=self.predictions.num_samples,
            num_classes=self.num_classes,
            seed=division.seed,
            calibrator=text,
            measures={} if failure else _measured(crossed.probs, data, self.predictions.kind),
            changed=None if failure else _changed(before, crossed.probs, self.predictions.kind),
            seconds=None if failure or text == AS_THEY_CAME else crossed.seconds,
            failure=failure,
        )
        draws = {} if failure else self.resamples.measures(crossed.probs, data)
        short = {name: values and [float(f"{each:.9g}") for each in values] for name, values in draws.items()}
        return {"trial": asdict(trial), "draws": short}

    def exponent(self, seeds: Sequence[int]) -> Mapping[str, Any]:
        """What the exponent gains, also with fits to resamples, and where it comes from."""
        return {
            "file": self.name,
            "refits": refitted_gains(Division(self.predictions, seeds[0]), self.resamples, settings.REFITS),
            "rows": rows_of_gain(self.predictions, seeds),
            "floors": floored_gains(self.predictions, seeds, self.resamples, refits=settings.REFITS),
        }


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
