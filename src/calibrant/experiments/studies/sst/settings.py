"""Settings of the study of SST: which losses there are, and what the papers call them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PAPER = "mukhoti-2020"
DATASET = "SST-Binary"
STRUCK, RENORMALISED = "struck", "renormalised"
CONVENTIONS: Mapping[str, str] = {
    STRUCK: "as published: the neutral class struck out",
    RENORMALISED: "renormalised: negative and positive divided by their sum",
}
STAGES = ("before", "by-ece", "by-adaptive-ece", "temperature", "focal-temperature")
PLAIN = frozenset({"cross-entropy", "brier", "label-smoothing", "mmce-published"})
"""Losses that are no kind of focal loss."""
METRICS = ("error", "nll", "ece", "adaptive_ece", "mce", "smce", "share_above_99")
GAMMAS = (1, 2, 3)


@dataclass(frozen=True, kw_only=True)
class Loss:
    """One loss of the row.

    Attributes:
        key: As in the study of losses, whose claims are asked of this network, too.
        title: What it is called on the page.
        text: As the grid has it.
        published: What the published tables call it.
    """

    key: str
    title: str
    text: str
    published: str | None = None


LOSSES = (
    Loss(key="cross-entropy", title="cross-entropy", text="cross-entropy", published="cross-entropy"),
    *(
        Loss(
            key=f"focal-{gamma}",
            title=f"focal, γ = {gamma}",
            text=f"focal(gamma={gamma})",
            published=f"focal(gamma={gamma})",
        )
        for gamma in GAMMAS
    ),
    Loss(key="sample-focal", title="FLSD-53", text="sample-focal", published="focal-sample(53)"),
    Loss(
        key="sample-focal-532",
        title="FLSD-532",
        text="sample-focal(thresholds=(0.2, 0.5, 1.0), gammas=(5, 3, 2))",
        published="focal-sample(532)",
    ),
    Loss(
        key="scheduled-531",
        title="FLSc-531",
        text="scheduled-focal(gammas=(5, 3, 1), milestones=(3, 7))",
        published="focal-scheduled(531)",
    ),
    Loss(
        key="scheduled-532",
        title="FLSc-532",
        text="scheduled-focal(gammas=(5, 3, 2), milestones=(3, 7))",
        published="focal-scheduled(532)",
    ),
    Loss(key="brier", title="Brier", text="brier", published="brier"),
    Loss(key="mmce-published", title="MMCE, as published", text="mmce", published="mmce"),
    Loss(key="label-smoothing", title="label smoothing, 0.05", text="label-smoothing(smoothing=0.05)"),
    Loss(key="dual-focal", title="dual focal, γ = 5", text="dual-focal(gamma=5)"),
    Loss(key="adafocal", title="AdaFocal", text="adafocal"),
    Loss(
        key="focal-calibration",
        title="FCL, γ = 3, λ = 0.5",
        text="focal-calibration(gamma=3, calibration_weight=0.5)",
    ),
)


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """One quantity of the published tables.

    Attributes:
        tables: Tables of the paper; the first that prints a loss counts.
        title: What it is.
        metric: What the published file calls it.
        stage: Before or after temperature scaling, or neither.
        ours: The stage and the metric that it is here.
        temperature: The name of our temperature that stands in brackets.
    """

    tables: tuple[str, ...]
    title: str
    metric: str
    stage: str
    ours: tuple[str, str]
    temperature: str | None = None


PRINTED = (
    PrintedTable(tables=("3", "9"), title="Error", metric="error", stage="na", ours=("before", "error")),
    PrintedTable(tables=("1", "7"), title="ECE", metric="ECE", stage="pre", ours=("before", "ece")),
    PrintedTable(
        tables=("1", "7"),
        title="ECE after T",
        metric="ECE",
        stage="post",
        ours=("by-ece", "ece"),
        temperature="ece_temperature",
    ),
    PrintedTable(
        tables=("2", "8"), title="Adaptive ECE", metric="AdaECE", stage="pre", ours=("before", "adaptive_ece")
    ),
    PrintedTable(
        tables=("2", "8"),
        title="Adaptive ECE after T",
        metric="AdaECE",
        stage="post",
        ours=("by-adaptive-ece", "adaptive_ece"),
        temperature="adaptive_ece_temperature",
    ),
    PrintedTable(tables=("10",), title="NLL × 100", metric="NLL", stage="pre", ours=("before", "nll")),
    PrintedTable(
        tables=("11",), title="NLL × 100 after T", metric="NLL", stage="post", ours=("by-ece", "nll")
    ),
    PrintedTable(tables=("12",), title="MCE", metric="MCE", stage="pre", ours=("before", "mce")),
    PrintedTable(tables=("13",), title="MCE after T", metric="MCE", stage="post", ours=("by-ece", "mce")),
)
"""The rows of SST in tables 1 to 3 and 7 to 13; table 4 and 5 repeat some of them."""
