# pyright: basic
"""Frames of networks that were trained with several losses, and what papers print of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from calibrant_lab.sweep.published import facts
from papers.analysis import ordered

AS_TRAINED, WITH_T = "as trained", "with T"
CHOSEN: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "ECE": {AS_TRAINED: ("before", "ece"), WITH_T: ("by-ece", "ece")},
    "adaptive ECE": {AS_TRAINED: ("before", "adaptive_ece"), WITH_T: ("by-adaptive-ece", "adaptive_ece")},
}
"""Stage and metric of the errors that Mukhoti et al. (2020) print: T is chosen by the error itself."""
METHODS: Mapping[str, str] = {
    "cross-entropy": "cross-entropy",
    **{f"focal(gamma={gamma})": f"focal, γ = {gamma}" for gamma in (1, 2, 3)},
    "focal-sample(53)": "FLSD-53",
    "focal-sample(532)": "FLSD-532",
    "focal-scheduled(531)": "FLSc-531",
    "focal-scheduled(532)": "FLSc-532",
    "brier": "Brier",
    "mmce": "MMCE",
    "weight-decay": "cross-entropy, weight decay",
    "label-smoothing": "label smoothing",
    "dual-focal": "dual focal",
    "focal-calibration": "FCL",
}
"""Titles of losses by what the files of printed numbers call them."""


def frames_of(
    runs: Sequence[Mapping[str, Any]],
    keys: Sequence[str],
    titles: Mapping[str, str],
    more: Sequence[str] = (),
) -> dict[str, pd.DataFrame]:
    """``judged`` by stage; ``errors`` as trained and with the temperature that each chose; ``fitted`` with ``more`` of a run.
    """

    def of(run: Mapping[str, Any], *others: str) -> dict[str, Any]:
        return {name: run[name] for name in (*keys, *others)}

    judged = ({**of(run), "stage": stage, **found} for run in runs for stage, found in run["stages"].items())
    errors = (
        {**of(run), "metric": metric, "stage": stage, "value": run["stages"][where][column]}
        for run in runs
        for metric, stages in CHOSEN.items()
        for stage, (where, column) in stages.items()
    )
    fitted = ({**of(run, *more), **run["parameters"]} for run in runs)
    found = {"judged": judged, "errors": errors, "fitted": fitted}
    return {name: ordered(pd.DataFrame(rows), "loss", titles) for name, rows in found.items()}


def printed(paper: str, dataset: str) -> pd.DataFrame:
    """The numbers that a paper prints of a data set, as text: a row for each loss.

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
