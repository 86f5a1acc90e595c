"""What the curvature study did, in words made from the records."""

from __future__ import annotations

from collections.abc import Sequence

from calibrant.experiments.records import Record
from calibrant.experiments.studies.curvature_measures import EIGEN_TOLERANCE, TRACE_PRODUCTS
from calibrant.experiments.studies.curvature_settings import Setting


def done(records: Sequence[Record], settings: Sequence[Setting]) -> str:
    """How the study was made."""
    seeds = len({record["seed"] for record in records})
    lost = sum(not record["finite"] for record in records)
    trained = "; ".join(_setting(records, setting) for setting in settings)
    first = settings[0]
    fate = "All trainings stayed finite." if not lost else f"{lost} trainings diverged and are left out."
    residual = max(
        each[split][loss]["residual"] / max(abs(each[split][loss]["lambda_max"]), 1e-12)
        for record in records
        if record["finite"]
        for each in record["path"][1:]
        for split in ("train", "test")
        for loss in ("own", "cross_entropy")
    )
    errors = [
        abs(each[split][loss]["trace_error"] / each[split][loss]["trace"])
        for record in records
        if record["finite"]
        for each in record["path"][1:]
        for split in ("train", "test")
        for loss in ("own", "cross_entropy")
        if each[split][loss]["trace"]
    ]
    middle = sorted(errors)[len(errors) // 2]
    return (
        f"**What was done.** {len(records)} trainings, {seeds} seeds for each arm: {trained}. Stochastic "
        f"gradient descent with momentum {first.momentum:g} in batches of {first.batch_size}, "
        f"{first.epochs} epochs, learning rate {first.learning_rate:g}, a tenth of it from half of the "
        f"epochs on and a hundredth from three quarters on, weight decay {first.weight_decay:g}; no "
        "augmentation, no dropout. The published setting is not known to us; these numbers were chosen "
        "before any result on test samples was seen, and are the same for all arms. γ = 0 is cross-entropy; "
        "focal arms use the same learning rate, whose effect on them is smaller because their gradients "
        "are. A seed decides "
        "samples, weights and their order, and all arms of a seed share them. "
        f"{fate}\n\n"
        "**What was measured.** At epochs "
        f"{', '.join(str(epoch) for epoch in first.checkpoints)}: largest eigenvalue (Lanczos, relative "
        f"tolerance {EIGEN_TOLERANCE:g}; largest residual after epoch 0 {residual:.1%} of the eigenvalue) "
        f"and trace (Hutch++ with {TRACE_PRODUCTS} products; median standard error {middle:.1%}) of the "
        "Hessian by all parameters, in evaluation mode and without weight decay's part, of the loss trained "
        "(*own loss*) and of cross-entropy, on the same number of training and of test samples. Calibration "
        "is on all test samples; the temperature is fitted by NLL on held-out samples. Rank correlations are "
        "Spearman's, in brackets the 95 % interval of 2000 bootstrap resamples of the runs, drawn within "
        "each arm, and widened where need be to hold the value; bold where it leaves out zero. "
        "Means are ± half the width of their 95 % interval "
        "(Student's t over seeds). Intervals hold for one number at a time, not for all at once: of a "
        "hundred, some five leave out zero by chance. They speak of other seeds, not of other networks or "
        "data."
    )


def _setting(records: Sequence[Record], setting: Setting) -> str:
    size = next((record["parameters"] for record in records if record["setting"] == setting.key), 0)
    test = "10,000" if setting.data == "fashion_mnist" else f"{setting.test:,}"
    shrunk = f", images at 1/{setting.downsample} of their side" if setting.downsample > 1 else ""
    return (
        f"{setting.title} ({size:,} parameters, {setting.train:,} training and {test} test samples{shrunk}; "
        f"Hessians on {setting.measured} of each)"
    )
