"""Settings of the study of exponents: the losses, the numbers of images, what counts as equal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from papers.claims import Departure

Criterion: TypeAlias = Literal["nll", "adaptive_ece"]

FOCAL: Mapping[str, int] = {f"focal-{gamma}": gamma for gamma in (1, 2, 3, 5, 7)}
LOSSES: Mapping[str, tuple[str, str]] = {
    "cross-entropy": ("cross-entropy", "cross-entropy"),
    **{key: (f"focal(gamma={gamma})", f"focal, γ = {gamma}") for key, gamma in FOCAL.items()},
    "sample-focal": ("sample-focal", "FLSD-53"),
    "adafocal": ("adafocal", "AdaFocal"),
}
"""The rows of table 1: how the grid spells a loss, and what the page calls it."""
TITLES: Mapping[str, str] = {key: title for key, (_, title) in LOSSES.items()}
ROWS_SIZE = 10000
"""The number of images of the rows of table 1."""
SIZES = (1000, 3000, 10000, 50000)
OF_SIZES = ("cross-entropy", "focal-1", "focal-2", "focal-3", "focal-5")
OBJECTIVES: Mapping[Criterion, str] = {"nll": "NLL", "adaptive_ece": "AdaECE"}
"""By what temperatures and exponents are chosen; the paper's ECE has bins of equal mass."""
GAINS: Mapping[Criterion, float] = {"nll": 0.01, "adaptive_ece": 0.2}
"""By what share of it the paper lowers what is judged where that chooses the temperature, on average."""
GAINS_OF_THEIRS = Departure(
    verdict="depends on the network",
    what="How large the gain is depends on the network. Komisarenko and Kull (2024) give it for theirs, as a "
    "mean over temperatures with and without an exponent; here networks are smaller, and it is of a "
    "temperature alone.",
)
"""Why a gain of another size does not refute theirs."""
FITS = ("before", *(f"{method}-{by}" for by in OBJECTIVES for method in ("temperature", "focal")))
"""What is done to a run: nothing, and either method by either criterion."""
CALIBRATED = 0.01
"""Mean confidence and accuracy that are no farther apart count as calibrated: one percentage point."""
SAME = 0.1
"""What differs by no larger a share of cross-entropy's own counts as the same: ten per cent."""
SEPARATED = 0.01
"""A temperature at or below this is no finding: every training image is right, and lower is likelier."""
LOWEST = 1e-4
"""The lowest temperature that a fit gives."""
CLASSES = 10
QUESTIONS: Mapping[str, str] = {
    "focal-temperature-": "Focal temperature scaling gives a lower value of the criterion than temperature "
    "scaling:",
    "criterion-": "Choosing a temperature by what is judged is better:",
    "falls-": "The likeliest temperature falls from one exponent to the next:",
    "gain-": "The gain is at least the paper's, on average:",
    "error-": "Larger exponents of training err more often:",
    "ece-": "They are better calibrated after temperature scaling:",
    "calibrated-": "Cross-entropy calibrated on its training images:",
    "under-": "Focal loss under-confident on its training images:",
    "above-one-": "Cross-entropy over-confident on new images:",
    "nearer-": "Focal loss's temperature nearer to 1 than cross-entropy's:",
    "same-gap-": "The excess of confidence grows as much from training to new images, to a tenth of it:",
    "same-ratio-": "The compensation, as the log of a ratio of temperatures, is the same, to a tenth of it:",
    "fixed-train-": "On training images focal loss lowers the temperature by the factor closest to its map, "
    "to ten per cent:",
    "fixed-new-": "It does on new images:",
}
"""What claims are about, by how their keys begin."""
