"""Every file of predictions in a folder, judged as it came: one row each."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant.evaluation.arguments import as_judged
from calibrant.evaluation.judging.measure import against_chance, measure
from calibrant.evaluation.judging.reduce import Reduced, reduce_predictions
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.result import Direction, Estimate, Kind, PartName
from calibrant.evaluation.verdict.finding import find
from calibrant.evaluation.versions import versions
from calibrant.predictions import Predictions
from papers.prediction_files import ENDINGS, prediction_files

LEVEL, SEED = 0.95, 0
METRICS = ("accuracy", "nll", "ece", "adaptive_ece", "classwise_ece", "smce", "slope")
OF_THE_EVENT = {"ece", "adaptive_ece", "smce", "slope"}  # where there is one positive class


@dataclass(frozen=True, kw_only=True)
class Row:
    """One file."""

    name: str
    kind: Kind
    num_samples: int
    num_classes: int | None
    metrics: dict[str, Estimate]
    smooth_ece: float
    null_mean: float
    null_upper: float
    p_value: float
    direction: Direction
    failing: list[PartName]


def judge_folder(
    folder: Path,
    *,
    bootstrap: int = 1000,
    null_draws: int = 1000,
    progress: Callable[[str, float], None] | None = None,
) -> dict[str, Any]:
    """The results file: one row for each file of predictions below ``folder``.

    Files that hold no predictions (images, texts) are passed over; one that holds predictions and is refused
    is named with the reason.

    Raises:
        InputError: If the folder holds no file of predictions.
    """
    tell = progress or (lambda _stage, _fraction: None)
    left_out: dict[str, str] = {}
    rows = [
        _row(name, predictions, bootstrap, null_draws)
        for name, predictions in prediction_files(folder, left_out, tell)
    ]
    if not rows:
        raise InputError(f"{folder} holds no file of predictions ({', '.join(ENDINGS)}).")
    return {
        "rows": [asdict(row) for row in rows],
        "left_out": left_out,
        "level": LEVEL,
        "bootstrap": bootstrap,
        "null_draws": null_draws,
        "seed": SEED,
        "versions": versions(),
    }


def _row(name: str, predictions: Predictions, bootstrap: int, null_draws: int) -> Row:
    predictions = as_judged(predictions)
    procedure = Procedure(
        kind=predictions.kind,
        num_bins=15,
        num_resamples=bootstrap,
        num_draws=null_draws,
        level=LEVEL,
        seed=SEED,
    )
    reduced = reduce_predictions(predictions, 15)
    judged = measure(reduced, procedure)
    names = tuple(str(k) for k in range(predictions.num_classes or 0))
    chance = against_chance(judged.noise, names)
    prefix = "event_" if predictions.kind == "binary" else ""
    null = next(each for each in chance.null if each.metric == f"{prefix}ece")
    found = find(judged, chance.parts, LEVEL)
    metrics = {each: judged.metrics[prefix + each if each in OF_THE_EVENT else each] for each in METRICS}
    if (
        predictions.kind == "top_label"
    ):  # theirs is that of being right, not to be read beside that of classes
        metrics["nll"] = Estimate(value=None, reason="needs the probabilities of all classes")
    return Row(
        name=name,
        kind=predictions.kind,
        num_samples=predictions.num_samples,
        num_classes=predictions.num_classes,
        metrics=metrics,
        smooth_ece=_smooth_ece(reduced, prefix),
        null_mean=null.mean,
        null_upper=null.upper,
        p_value=null.p_value,
        direction=found.direction,
        failing=list(found.failing),
    )


def _smooth_ece(reduced: Reduced, prefix: str) -> float:
    """The kernel-smoothed error, averaged over the events."""
    from calibrant.metrics import smooth_ece

    return math.fsum(
        smooth_ece(event.confidences, event.outcomes, weights=event.weights).item()
        for event in reduced.events[prefix]
    ) / len(reduced.events[prefix])
