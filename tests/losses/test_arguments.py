"""What callers can get wrong, and the sentence they get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from calibrant import losses

LOGITS = torch.zeros(4, 3)
LABELS = torch.tensor([0, 1, 2, 0])


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: losses.focal_loss(LOGITS), ValueError, "`labels` must be given"),
        (
            lambda: losses.focal_loss(LOGITS, LABELS[:, None]),
            ValueError,
            r"`labels` must have shape \(4,\) to go with `logits` of shape \(4, 3\); got \(4, 1\)",
        ),
        (
            lambda: losses.focal_loss(torch.zeros(4, 3, 2), LABELS),
            ValueError,
            r"`labels` must have shape \(4, 2\)",
        ),
        (
            lambda: losses.focal_loss(LOGITS, LABELS.float()),
            TypeError,
            "`labels` must be integers.*`targets`",
        ),
        (
            lambda: losses.focal_loss(LOGITS, LABELS.tolist()),
            TypeError,
            "`labels` must be a torch.Tensor; got list",
        ),
        (
            lambda: losses.brier_loss(np.zeros((4, 3)), LABELS),
            TypeError,
            "`logits` must be a torch.Tensor; got ndarray",
        ),
        (
            lambda: losses.focal_loss(LOGITS.long(), LABELS),
            TypeError,
            "`logits` must be floating-point; got torch.int64",
        ),
        (
            lambda: losses.focal_loss(torch.zeros(4, 1), LABELS),
            ValueError,
            "at least two classes.*multilabel",
        ),
        (lambda: losses.focal_loss(torch.zeros(()), LABELS), ValueError, "at least two classes"),
        (
            lambda: losses.focal_loss(LOGITS, LABELS, weight=torch.ones(4)),
            ValueError,
            r"`weight` must have one entry per class, shape \(3,\); got \(4,\)",
        ),
        (
            lambda: losses.focal_loss(LOGITS, LABELS, reduction="avg"),
            ValueError,
            "`reduction` must be 'mean', 'sum' or 'none'; got 'avg'",
        ),
        (
            lambda: losses.focal_loss(LOGITS, LABELS, gamma=-1),
            ValueError,
            "`gamma` must be finite and greater than -1",
        ),
        (lambda: losses.focal_loss(LOGITS, LABELS, gamma=float("nan")), ValueError, "`gamma` must be finite"),
        (
            lambda: losses.focal_loss(LOGITS, LABELS, gamma="2"),
            TypeError,
            "`gamma` must be a number; got '2'",
        ),
        (
            lambda: losses.dual_focal_loss(LOGITS, LABELS, gamma=-0.5),
            ValueError,
            "`gamma` must be finite and not negative; got -0.5",
        ),
        (
            lambda: losses.focal_calibration_loss(LOGITS, LABELS, calibration_weight=float("inf")),
            ValueError,
            "`calibration_weight` must be finite and not negative",
        ),
        (
            lambda: losses.focal_calibration_loss(LOGITS, LABELS, norm="l3"),
            ValueError,
            '`norm` must be one of "l1", "l2"; got .l3.',
        ),
        (
            lambda: losses.focal_loss(LOGITS, LABELS, targets=LOGITS),
            ValueError,
            "`labels` and `targets` must not be given together",
        ),
        (
            lambda: losses.focal_loss(LOGITS, targets=LABELS),
            TypeError,
            "`targets` must be floating-point.*`labels`",
        ),
        (
            lambda: losses.focal_loss(LOGITS, targets=LOGITS[:2]),
            ValueError,
            r"`targets` must have the shape of `logits`, \(4, 3\); got \(2, 3\)",
        ),
        (
            lambda: losses.label_smoothing_loss(LOGITS, LABELS, smoothing=1.2),
            ValueError,
            "`smoothing` must be between 0 and 1",
        ),
        (
            lambda: losses.label_smoothing_loss(LOGITS, LABELS, smoothing=0.9, spread="others"),
            ValueError,
            r"`smoothing` must be at most \(C - 1\) / C = 0.6667",
        ),
        (
            lambda: losses.label_smoothing_loss(LOGITS, LABELS, spread="some"),
            ValueError,
            '`spread` must be one of "all", "others"',
        ),
        (
            lambda: losses.sample_focal_loss(LOGITS, LABELS, thresholds=(0.2, 0.9)),
            ValueError,
            "`thresholds` must ascend from above 0 to 1",
        ),
        (
            lambda: losses.sample_focal_loss(LOGITS, LABELS, thresholds=(0.5, 0.2, 1.0), gammas=(1, 2, 3)),
            ValueError,
            "`thresholds` must ascend",
        ),
        (
            lambda: losses.sample_focal_loss(LOGITS, LABELS, gammas=(5, 3, 2)),
            ValueError,
            "must be as many, not none; got 3 and 2",
        ),
        (
            lambda: losses.sample_focal_loss(LOGITS, LABELS, closed="both"),
            ValueError,
            '`closed` must be one of "left", "right"',
        ),
        (
            lambda: losses.multilabel_focal_loss(LOGITS, LABELS),
            ValueError,
            r"`labels` must have the shape of `logits`, \(4, 3\)",
        ),
        (
            lambda: losses.multilabel_focal_loss(LOGITS, LOGITS, weight=torch.ones(2)),
            ValueError,
            r"`weight` must have one entry per label, shape \(3,\); got \(2,\)",
        ),
        (
            lambda: losses.scheduled_gamma(0, gammas=(5, 3)),
            ValueError,
            "`gammas` must be one more than `milestones`",
        ),
        (
            lambda: losses.scheduled_gamma(0, milestones=(250, 100)),
            ValueError,
            r"`milestones` must ascend; got \(250, 100\)",
        ),
        (
            lambda: losses.mmce_loss(LOGITS, LABELS, bandwidth=0),
            ValueError,
            "`bandwidth` must be at least 0.02; got 0",
        ),
        (lambda: losses.scheduled_gamma(-1), ValueError, "`epoch` must not be negative"),
    ],
)
def test_mistakes_are_named(call: Callable[[], Any], error: type[Exception], message: str) -> None:
    """A wrong argument gets one sentence that names it and the rule."""
    with pytest.raises(error, match=message):
        call()


def test_a_label_out_of_range_is_an_error() -> None:
    """A label that is no class is not taken for another one."""
    for label in (3, -1):
        words = (
            rf"^Target {label} is out of bounds: `labels` must lie in 0\.\.2, or be `ignore_index`, -100\.$"
        )
        for loss in (losses.focal_loss, losses.cross_entropy_loss, losses.brier_loss):
            with pytest.raises(IndexError, match=words):
                loss(LOGITS, torch.tensor([0, 1, 2, label]))


def test_the_mean_of_no_samples_is_nan() -> None:
    """As torch's cross-entropy has it; the sum is zero."""
    for loss in (losses.focal_loss, losses.cross_entropy_loss):
        assert loss(LOGITS[:0], torch.zeros(0, dtype=torch.int64)).isnan()
        assert loss(LOGITS[:0], torch.zeros(0, dtype=torch.int64), reduction="sum") == 0


def test_modules_refuse_when_built() -> None:
    """A module checks its settings when it is made, not in the first batch."""
    with pytest.raises(ValueError, match="`gamma` must be finite"):
        losses.FocalLoss(gamma=-2)
    with pytest.raises(ValueError, match="`thresholds` must ascend"):
        losses.SampleFocalLoss(thresholds=(0.2, 0.5))
    with pytest.raises(ValueError, match="`milestones` must ascend"):
        losses.ScheduledFocalLoss(milestones=(3, 2))


def test_no_samples(class_loss: Any) -> None:
    """An empty batch gives NaN for the mean and zero for the sum, as cross-entropy does."""
    none = torch.zeros(0, dtype=torch.int64)
    for num_classes in (3, 200):
        empty = torch.zeros(0, num_classes, dtype=torch.float64)
        assert class_loss(empty, none).isnan()
        if not class_loss.batch:
            assert class_loss(empty, none, reduction="sum") == 0
            assert class_loss(empty, none, reduction="none").shape == (0,)


def test_nan_passes_through(class_loss: Any) -> None:
    """NaN in the logits gives NaN in the loss, never a number."""
    logits = torch.zeros(4, 3, dtype=torch.float64)
    logits[2, 1] = float("nan")
    assert class_loss(logits, LABELS).isnan()


def test_masked_classes(class_loss: Any) -> None:
    """A class that is masked out by a logit of -inf has probability zero, and the gradient is zero there."""
    logits = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    masked = logits.clone()
    masked[:, 3] = -float("inf")
    if "smoothing" in class_loss.options or class_loss.name == "margin_label_smoothing":
        assert class_loss(masked, LABELS).isinf()  # they ask every class for some probability
        return
    leaf = masked.requires_grad_()
    value = class_loss(leaf, LABELS)
    (gradient,) = torch.autograd.grad(value, leaf)
    assert value.isfinite()
    assert (gradient[:, 3] == 0).all()
    if class_loss.name != "mdca":  # it averages over the classes, masked or not
        torch.testing.assert_close(value.detach(), class_loss(logits[:, :3], LABELS), rtol=1e-10, atol=1e-10)
