# pyright: basic
"""Frames of networks that were trained with several losses, and what papers print of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from calibrant_lab.sweep.published import facts
from papers.analysis import difference

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


def errors(runs: Iterable[Mapping[str, Any]], keys: Iterable[str]) -> pd.DataFrame:
    """Both errors of each run as trained, and with the temperature that each chose."""
    names = list(keys)
    return pd.DataFrame(
        {
            **{name: run[name] for name in names},
            "metric": metric,
            "stage": stage,
            "value": run["stages"][of][column],
        }
        for run in runs
        for metric, stages in CHOSEN.items()
        for stage, (of, column) in stages.items()
    )


def relative(frame: pd.DataFrame, keys: list[str], column: str, reference: str) -> pd.DataFrame:
    """What share a column is above that of the reference loss, with the same keys.

    Example:
        >>> frame = pd.DataFrame({"loss": ["a", "b"], "seed": [0, 0], "error": [0.1, 0.11]})
        >>> round(float(relative(frame, ["seed"], "error", "a").value.iloc[1]), 3)
        0.1
    """
    base = frame.loc[frame.loss == reference].set_index(keys)[[column]].set_axis(["base"], axis=1)
    return frame.join(base, on=keys).assign(value=lambda found: found[column] / found.base - 1)


def less(frame: pd.DataFrame, first: str, others: Iterable[str], by: Sequence[str]) -> pd.DataFrame:
    """The values of a loss less those of each other one, for a claim that it has the least of all."""
    return pd.concat(
        difference(frame, "value", "loss", first, other, by=by).assign(other=other) for other in others
    )


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
