"""Frames of networks trained with several losses, and the papers' printed values."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from torch import Tensor

from calibrant.calibrators import Calibrator, build
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions
from calibrant_lab.sweep.published import facts
from papers.analysis import ordered

AS_TRAINED, WITH_T = "as trained", "with T"
CHOSEN: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "ECE": {AS_TRAINED: ("before", "ece"), WITH_T: ("by-ece", "ece")},
    "adaptive ECE": {AS_TRAINED: ("before", "adaptive_ece"), WITH_T: ("by-adaptive-ece", "adaptive_ece")},
}
"""Stage and metric of the errors that Mukhoti et al. (2020) print: T is chosen by the error itself."""
USUAL = {
    "error": "error",
    "NLL": "nll",
    "ECE": "ece",
    "AdaECE": "adaptive_ece",
    "class-wise ECE": "classwise_ece",
}
"""What most studies measure, by title."""
TITLES: Mapping[str, str] = {
    "cross-entropy": "cross-entropy",
    **{f"focal(gamma={gamma})": f"focal, γ = {gamma}" for gamma in (1, 2, 3, 5, 7)},
    "sample-focal": "FLSD-53",
    "sample-focal(thresholds=(0.2, 0.5, 1.0), gammas=(5, 3, 2))": "FLSD-532",
    "focal-calibration(gamma=3, calibration_weight=0.5)": "FCL",
    "label-smoothing(smoothing=0.05)": "label smoothing",
    "margin-label-smoothing": "margin smoothing",
    "brier": "Brier",
    "adafocal": "AdaFocal",
    "dual-focal(gamma=5)": "dual focal",
    "mmce": "MMCE",
    "mmce(as_published=False)": "MMCE, normalised once",
    "mdca": "MDCA",
}
"""Titles of losses as grids spell them, in most studies."""


def called(*titles: str) -> dict[str, str]:
    """Return the losses of these titles, in order.

    Example:
        >>> called("Brier", "FLSD-53")
        {'brier': 'Brier', 'sample-focal': 'FLSD-53'}
    """
    spelled = {title: loss for loss, title in TITLES.items()}
    return {spelled[title]: title for title in titles}


GRID_STEP = 0.1
"""Step of the temperatures that the papers choose by ECE."""
METHODS: Mapping[str, str] = {
    **called("cross-entropy", *(f"focal, γ = {gamma}" for gamma in (1, 2, 3)), "Brier", "MMCE"),
    "focal-sample(53)": "FLSD-53",
    "focal-sample(532)": "FLSD-532",
    **{f"focal-scheduled(53{last})": f"FLSc-53{last}" for last in (1, 2)},
    "weight-decay": "cross-entropy, weight decay",
    **{name: name.replace("-", " ") for name in ("label-smoothing", "dual-focal")},
    "focal-calibration": "FCL",
}
"""Titles of losses by what the files of printed numbers call them."""


def scheduled(first: int, second: int) -> dict[str, str]:
    """Return focal losses whose exponents fall after these epochs."""
    return {
        f"scheduled-focal(gammas=(5, 3, {last}), milestones=({first}, {second}))": f"FLSc-53{last}"
        for last in (1, 2)
    }


def frames_of(
    runs: Sequence[Mapping[str, Any]], keys: Sequence[str], titles: Mapping[str, str]
) -> dict[str, pd.DataFrame]:
    """Return ``judged`` by stage, ``errors`` before and after each one's temperature, and ``fitted``."""

    def of(run: Mapping[str, Any]) -> dict[str, Any]:
        return {name: run[name] for name in keys}

    judged = ({**of(run), "stage": stage, **found} for run in runs for stage, found in run["stages"].items())
    errors = (
        {**of(run), "metric": metric, "stage": stage, "value": run["stages"][where][column]}
        for run in runs
        for metric, stages in CHOSEN.items()
        for stage, (where, column) in stages.items()
    )
    fitted = ({**of(run), **run["parameters"]} for run in runs)
    found = {"judged": judged, "errors": errors, "fitted": fitted}
    return {name: ordered(pd.DataFrame(rows), "loss", titles) for name, rows in found.items()}


def repaired(
    given: Predictions, stages: Mapping[str, str]
) -> tuple[dict[str, Calibrator], dict[str, Tensor]]:
    """Return fits to held-out samples by stage, and probabilities of test samples, ``before`` too."""
    held_out, scores = Labelled.of(given.calibration), given.test.scores
    fits = {stage: fit_quietly(build(text), held_out) for stage, text in stages.items()}
    probs = {stage: fit.predict_proba(scores).double() for stage, fit in fits.items()}
    return fits, {"before": scores.double().softmax(1), **probs}


def gamma_3(frame: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return focal loss at γ = 3 minus the better of γ = 1 and 2, run by run as in the paper's table."""
    focal = [f"focal, γ = {gamma}" for gamma in (1, 2, 3)]
    rows = frame[frame.loss.isin(focal)].set_index([*by, "seed", "loss"])
    wide = rows.value.unstack("loss")[focal].dropna()
    return (wide[focal[2]] - wide[focal[:2]].min(axis=1)).rename("value").reset_index()


def on_grid(values: pd.Series) -> pd.Series:
    """Temperatures of a grid, spread as widely as rounding to steps of 0.1 spreads numbers, or wider.

    Equal ones would otherwise be known exactly.

    Example:
        >>> found = on_grid(pd.Series([0.8, 0.8, 0.8]))
        >>> round(float(found.mean()), 3), round(float(found.std()), 3)
        (0.8, 0.029)
    """
    least = GRID_STEP / math.sqrt(12)
    if len(values) < 2 or values.std() >= least:
        return values
    places = pd.Series(range(len(values)), index=values.index, dtype=float)
    return values.mean() + least * (places - places.mean()) / places.std()


def printed(paper: str, dataset: str) -> pd.DataFrame:
    """Return a paper's printed numbers for a dataset, as text: a row for each loss.

    Example:
        >>> printed("mukhoti-2020", "SST-Binary").loc["cross-entropy", "ECE pre"]
        '7.37'
    """
    rows = [
        (METHODS[fact.method], f"{fact.metric} {fact.stage}", fact.value)
        for fact in facts(paper)
        if fact.dataset == dataset and fact.method in METHODS and fact.value
    ]
    found = pd.DataFrame(rows, columns=["loss", "of", "value"]).drop_duplicates(["loss", "of"])
    return found.pivot(index="loss", columns="of", values="value")
