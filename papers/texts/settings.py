"""Settings of the study of texts: the two rows, and what the papers print of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from papers.claims import Departure
from papers.losses.settings import ADAPTIVE_ECE_SEARCH, KULL, MUKHOTI
from papers.printed_rows import (
    BRIER,
    CROSS_ENTROPY,
    FOCAL,
    MMCE,
    SAMPLE_FOCAL,
    SAMPLE_FOCAL_532,
    TEXT_TABLES,
    Loss,
    PrintedRow,
    PrintedTable,
    scheduled_focal,
)

STAGES = {
    "by-ece": "temperature(objective='ece', search='grid')",
    "by-adaptive-ece": ADAPTIVE_ECE_SEARCH,
    "temperature": "temperature",
    "focal-temperature": "focal-temperature",
}
"""What is fitted on the held-out texts, by the name of the stage."""
METRICS = ("error", "nll", "ece", "adaptive_ece", "classwise_ece", "mce", "smce", "share_above_99")
DECAYED = "cross-entropy-decayed"
FEWER_EPOCHS = Departure(
    verdict="depends on the epochs",
    what="20 of the paper's 50 epochs, at a constant rate: most temperatures still rise.",
)
BEYOND = {
    MUKHOTI: Departure(
        verdict="beyond the paper", what="Mukhoti et al. (2020) have 20 Newsgroups and SST, but not AG News."
    ),
    KULL: Departure(verdict="beyond the paper", what="Komisarenko and Kull (2024) have images only."),
}
"""Why a paper's claim is left open on texts that it does not have."""
_MMCE = replace(MMCE, title="MMCE, λ = 8", text="mmce(penalty=8)")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Texts, and the row that a paper prints of them.

    Attributes:
        key: Its name in the results file.
        title: What it is called on the page.
        data: How the names of the data set begin.
        row: What the paper prints, and the losses of the page.
        epochs: Epochs after which the temperature is shown.
    """

    key: str
    title: str
    data: str
    row: PrintedRow
    epochs: tuple[int, ...]

    def loss_of(self, run: Mapping[str, Any]) -> str:
        """The key of a run's loss."""
        decayed = ", weight decay" if run["optimiser.weight_decay"] else ""
        return next(loss.key for loss in self.row.losses if loss.text == f"{run['loss']}{decayed}")


AG_NEWS = Setting(
    key="ag-news",
    title="AG News",
    data="ag_news",
    epochs=(1, 2, 5, 10, 20, 50),
    row=PrintedRow(
        paper="focal-calibration-loss-2025",
        cited="the paper on FCL",
        dataset="AG-News",
        losses=(
            Loss(
                key=DECAYED,
                title="cross-entropy, weight decay",
                text="cross-entropy, weight decay",
                published="weight-decay",
            ),
            BRIER,
            _MMCE,
            Loss(
                key="label-smoothing",
                title="label smoothing, 0.05",
                text="label-smoothing(smoothing=0.05)",
                published="label-smoothing",
            ),
            SAMPLE_FOCAL,
            Loss(
                key="dual-focal",
                title="dual focal, γ = 5",
                text="dual-focal(gamma=5)",
                published="dual-focal",
            ),
            Loss(
                key="focal-calibration",
                title="FCL, γ = 4, λ = 3",
                text="focal-calibration(gamma=4, calibration_weight=3)",
                published="focal-calibration",
            ),
            CROSS_ENTROPY,
            FOCAL[-1],
            Loss(
                key="focal-calibration-half",
                title="FCL, γ = 3, λ = 0.5",
                text="focal-calibration(gamma=3, calibration_weight=0.5)",
            ),
        ),
        tables=(
            PrintedTable(tables=("2",), title="Error", metric="error", stage="na", ours=("before", "error")),
            *(
                PrintedTable(
                    tables=(number,),
                    title=f"{metric}{' after T' if stage == 'post' else ''}",
                    metric=metric,
                    stage=stage,
                    ours=("by-ece" if stage == "post" else "before", name),
                    temperature="ece_temperature" if (metric, stage) == ("ECE", "post") else None,
                )
                for number, metric, name in (
                    ("1", "ECE", "ece"),
                    ("3", "smCE", "smce"),
                    ("6", "AdaECE", "adaptive_ece"),
                    ("7", "classwise-ECE", "classwise_ece"),
                )
                for stage in ("pre", "post")
            ),
        ),
    ),
)
NEWSGROUPS = Setting(
    key="newsgroups",
    title="20 Newsgroups",
    data="newsgroups20",
    epochs=(1, 2, 5, 10, 15, 20),
    row=PrintedRow(
        paper="mukhoti-2020",
        cited=MUKHOTI,
        dataset="20-Newsgroups",
        losses=(
            CROSS_ENTROPY,
            BRIER,
            _MMCE,
            *FOCAL,
            *scheduled_focal((5, 14)),
            SAMPLE_FOCAL_532,
            SAMPLE_FOCAL,
        ),
        tables=TEXT_TABLES,
    ),
)
SETTINGS = (AG_NEWS, NEWSGROUPS)


def setting_of(run: Mapping[str, Any]) -> Setting:
    """The setting whose texts a run has."""
    return next(each for each in SETTINGS if str(run["data.name"]).startswith(each.data))
