"""Settings of the study of SST: which losses there are, and what the papers call them."""

from __future__ import annotations

from collections.abc import Mapping

from calibrant.experiments.printed_rows import TEXT_TABLES, Loss, PrintedRow

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


ROW = PrintedRow(paper="mukhoti-2020", dataset="SST-Binary", losses=LOSSES, tables=TEXT_TABLES)
