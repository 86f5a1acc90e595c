"""Settings of the study of SST: which losses there are, and what the papers call them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from papers.claims import Departure
from papers.losses.settings import MUKHOTI
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
    scheduled_focal,
)

STRUCK, RENORMALISED = "struck", "renormalised"
CONVENTIONS: Mapping[str, str] = {
    STRUCK: "as published: the neutral class struck out",
    RENORMALISED: "renormalised: negative and positive divided by their sum",
}
STAGES = ("before", "by-ece", "by-adaptive-ece", "temperature", "focal-temperature")
PLAIN = frozenset({"cross-entropy", "brier", "label-smoothing", "mmce-published", "mmce-2"})
"""Losses that are no kind of focal loss."""
THREE_CLASSES = Departure(
    verdict="depends on the classes",
    what="The Tree-LSTM learns three classes at every node and is judged by two of them at the root; the "
    "theory is of two classes throughout.",
)
OTHER_CONVENTION = Departure(
    verdict="depends on the convention",
    what="The authors strike the neutral class out of three without dividing by what is left; here the two "
    "probabilities are renormalised, so what is found decides no claim of theirs.",
)
OTHER_EPOCHS = Departure(
    verdict="depends on the epoch",
    what="Each network is judged at the epoch with the best accuracy on the held-out sentences, which "
    "differs between the networks of a ratio; Komisarenko and Kull (2024) judge all at the last epoch.",
)
MARGIN = 1.1
"""The factor within which a ratio of temperatures counts as the predicted one."""
NO_GAIN = 0.002
"""Below this a change of NLL is none: what 0.001 of probability, by which the paper has the binary focal map
differ from a temperature at most, is worth at a probability of one half."""
METRICS = ("error", "nll", "ece", "adaptive_ece", "mce", "smce", "share_above_99")


LOSSES = (
    CROSS_ENTROPY,
    *FOCAL,
    SAMPLE_FOCAL,
    SAMPLE_FOCAL_532,
    *scheduled_focal((3, 7)),
    BRIER,
    replace(MMCE, title="MMCE, λ = 1", text="mmce(penalty=1)"),
    Loss(key="mmce-2", title="MMCE, λ = 2", text="mmce"),
    Loss(key="label-smoothing", title="label smoothing, 0.05", text="label-smoothing(smoothing=0.05)"),
    Loss(key="dual-focal", title="dual focal, γ = 5", text="dual-focal(gamma=5)"),
    Loss(key="adafocal", title="AdaFocal", text="adafocal"),
    Loss(
        key="focal-calibration",
        title="FCL, γ = 3, λ = 0.5",
        text="focal-calibration(gamma=3, calibration_weight=0.5)",
    ),
)


ROW = PrintedRow(paper="mukhoti-2020", cited=MUKHOTI, dataset="SST-Binary", losses=LOSSES, tables=TEXT_TABLES)
