"""Settings of the properness study."""

from __future__ import annotations

LOSSES = (
    "cross-entropy",
    "brier",
    "proper-focal(gamma=2)",
    "focal(gamma=0.5)",
    "focal(gamma=1)",
    "focal(gamma=3)",
    "focal(gamma=5)",
    "scheduled-focal",
    "sample-focal",
    "dual-focal",
    "adafocal",
    "label-smoothing",
    "margin-label-smoothing",
    "focal-calibration(gamma=0, calibration_weight=0.5)",
    "focal-calibration(gamma=3, calibration_weight=0.5)",
    "focal-calibration(gamma=3, calibration_weight=5)",
    'focal-calibration(gamma=0, calibration_weight=0.5, norm="l1")',
    "mmce",
    "mmce(as_published=False)",
    "mmce(as_published=False, weighted=False)",
    "mdca",
    "smooth-calibration",
    "multilabel-focal",
    "multilabel-focal-calibration",
)
"""As :func:`calibrant.losses.build` takes them."""

STATEMENTS = {
    "cross-entropy": "strictly proper (Gibbs' inequality)",
    "brier": "strictly proper (a squared distance)",
    "proper-focal": "strictly proper: the inverse focal map undoes what focal loss elicits",
    "focal": "proper for γ = 0 only; elicits the inverse focal map, which keeps the order",
    "scheduled-focal": "as focal with the exponent of the epoch, here the first",
    "sample-focal": "focal with an exponent that jumps",
    "dual-focal": "the runner-up enters the power: below the truth's probability only",
    "adafocal": "as it starts: focal with γ = 1",
    "label-smoothing": "elicits (1 − α) p + α / C",
    "margin-label-smoothing": "proper where no probability is below exp(−margin) times the largest",
    "focal-calibration": 'strictly proper for γ = 0 with norm="l2" only',
    "mmce": "unweighted, the penalty is zero at the truth and nowhere negative: strictly proper; "
    "the weighted one is not zero at the truth",
    "mdca": "cross-entropy plus a penalty that is zero at the truth: strictly proper",
    "smooth-calibration": "cross-entropy plus a penalty that is zero at the truth: strictly proper",
    "multilabel-focal": "label by label as focal",
    "multilabel-focal-calibration": "label by label as focal-calibration",
}
SEED = 0
NUM_POSTERIORS = 5
MANY = 30
"""Classes of the second column of confidences."""
BATCH = 40
SEGMENTS = 400
"""For each number of classes, of losses of single rows."""
