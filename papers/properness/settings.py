"""Settings of the properness study."""

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
"""As :func:`calibrant.losses.build` takes them; losses that are not here follow with their defaults."""

SEED = 0
NUM_POSTERIORS = 5
MANY = 30
"""Classes of the second column of confidences."""
BATCH = 40
SEGMENTS = 400
"""For each number of classes, of losses of single rows."""
