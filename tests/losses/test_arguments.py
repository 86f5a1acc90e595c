"""What callers can get wrong, and the sentence they get."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from calibrant import losses
from calibrant._math.errors import InputError

LOGITS = torch.zeros(4, 3)
LABELS = torch.tensor([0, 1, 2, 0])


BAD_VALUES: dict[str, Callable[[], Any]] = {
    "`labels` must be given": lambda: losses.focal_loss(LOGITS),
    r"shape \(4,\) to go with `logits` of shape \(4, 3\); got \(4, 1\); pass `labels.squeeze": lambda: (
        losses.focal_loss(LOGITS, LABELS[:, None])
    ),
    r"got \(4, 3\); pass classes as `labels.argmax\(1\)`, or `targets=labels.float\(\)`": lambda: (
        losses.focal_loss(LOGITS, torch.eye(3)[LABELS].long())
    ),
    "`correct` booleans or 0 and 1": lambda: losses.AdaFocalLoss().update(torch.full((4,), 0.5), LABELS),
    "`confidences` must be probabilities": lambda: losses.AdaFocalLoss().update(
        torch.full((4,), 2.0), LABELS > 0
    ),
    r"got \(4,\); for one log-odds per sample pass two columns, .*`MultilabelFocalLoss`": lambda: (
        losses.brier_loss(torch.zeros(4), LABELS)
    ),
    r"`labels` must have shape \(4, 2\)": lambda: losses.focal_loss(torch.zeros(4, 3, 2), LABELS),
    "at least two classes.*multilabel": lambda: losses.focal_loss(torch.zeros(4, 1), LABELS),
    "at least two classes": lambda: losses.focal_loss(torch.zeros(()), LABELS),
    r"`weight` must have one entry per class, shape \(3,\); got \(4,\)": lambda: losses.focal_loss(
        LOGITS, LABELS, weight=torch.ones(4)
    ),
    "`reduction` must be 'mean', 'sum' or 'none'; got 'avg'": lambda: losses.focal_loss(
        LOGITS, LABELS, reduction="avg"
    ),
    "`calibration_weight` must be finite and not negative": lambda: losses.focal_calibration_loss(
        LOGITS, LABELS, calibration_weight=float("inf")
    ),
    '`norm` must be one of "l1", "l2"; got .l3.': lambda: losses.focal_calibration_loss(
        LOGITS, LABELS, norm="l3"
    ),
    "`labels` and `targets` must not be given together": lambda: losses.focal_loss(
        LOGITS, LABELS, targets=LOGITS
    ),
    r"`targets` must have the shape of `logits`, \(4, 3\); got \(2, 3\)": lambda: losses.focal_loss(
        LOGITS, targets=LOGITS[:2]
    ),
    "`smoothing` must be between 0 and 1": lambda: losses.label_smoothing_loss(LOGITS, LABELS, smoothing=1.2),
    r"`smoothing` must be at most \(C - 1\) / C = 0.6667": lambda: losses.label_smoothing_loss(
        LOGITS, LABELS, smoothing=0.9, spread="others"
    ),
    '`spread` must be one of "all", "others"': lambda: losses.label_smoothing_loss(
        LOGITS, LABELS, spread="some"
    ),
    "`thresholds` must ascend from above 0 to 1": lambda: losses.sample_focal_loss(
        LOGITS, LABELS, thresholds=(0.2, 0.9)
    ),
    "`thresholds` must ascend": lambda: losses.sample_focal_loss(
        LOGITS, LABELS, thresholds=(0.5, 0.2, 1.0), gammas=(1, 2, 3)
    ),
    "`thresholds` must ascend from": lambda: losses.sample_focal_loss(
        LOGITS, LABELS, thresholds=(0.2, 0.2, 1.0), gammas=(1, 2, 3)
    ),
    "must have the same length, at least 1; got 3 and 2": lambda: losses.sample_focal_loss(
        LOGITS, LABELS, gammas=(5, 3, 2)
    ),
    '`closed` must be one of "left", "right"': lambda: losses.sample_focal_loss(
        LOGITS, LABELS, closed="both"
    ),
    r"`labels` must have the shape of `logits`, \(4, 3\)": lambda: losses.multilabel_focal_loss(
        LOGITS, LABELS
    ),
    r"`weight` must have one entry per label, shape \(3,\); got \(2,\)": lambda: losses.multilabel_focal_loss(
        LOGITS, LOGITS, weight=torch.ones(2)
    ),
    "`gammas` must be one more than `milestones`": lambda: losses.scheduled_gamma(0, gammas=(5, 3)),
    r"`milestones` must ascend; got \(250, 100\)": lambda: losses.scheduled_gamma(0, milestones=(250, 100)),
    "`bandwidth` must be at least 0.02; got 0": lambda: losses.mmce_loss(LOGITS, LABELS, bandwidth=0),
    "`epoch` must not be negative": lambda: losses.scheduled_gamma(-1),
    r"`confidences` and `correct` must have the same shape.*\(3,\).*\(4,\)": lambda: (
        losses.AdaFocalLoss().update(torch.rand(3), torch.ones(4))
    ),
    r"`confidences` and `correct` must have the same shape.*\(3, 1\)": lambda: losses.AdaFocalLoss().update(
        torch.rand(3, 1), torch.ones(3, 1)
    ),
    r"`confidences` and `correct` must have the same shape.*\(0,\)": lambda: losses.AdaFocalLoss().update(
        torch.rand(0), torch.ones(0)
    ),
    "`edges` must be one more than `gammas`": lambda: losses.adafocal_loss(
        LOGITS, LABELS, gammas=torch.ones(3), edges=torch.ones(3)
    ),
    "`num_bins` must be at least 1": lambda: losses.AdaFocalLoss(num_bins=0),
    "`initial_gamma` must be finite; got nan": lambda: losses.AdaFocalLoss(initial_gamma=float("nan")),
}
BAD_TYPES: dict[str, Callable[[], Any]] = {
    "`labels` must be integers.*`labels.long.*`targets`": lambda: losses.focal_loss(LOGITS, LABELS.float()),
    "`labels` must be a torch.Tensor; got list": lambda: losses.focal_loss(LOGITS, LABELS.tolist()),
    "`logits` must be a torch.Tensor; got ndarray": lambda: losses.brier_loss(np.zeros((4, 3)), LABELS),
    "`logits` must be floating-point; got torch.int64": lambda: losses.focal_loss(LOGITS.long(), LABELS),
    "`targets` must be floating-point.*`labels`": lambda: losses.focal_loss(LOGITS, targets=LABELS),
}


@pytest.mark.parametrize("message", [*BAD_VALUES, *BAD_TYPES])
def test_mistakes_are_named(message: str) -> None:
    table, error = (BAD_VALUES, InputError) if message in BAD_VALUES else (BAD_TYPES, TypeError)
    with pytest.raises(error, match=message):
        table[message]()


def test_modules_refuse_when_built() -> None:
    with pytest.raises(InputError, match="`thresholds` must ascend"):
        losses.SampleFocalLoss(thresholds=(0.2, 0.5))
    with pytest.raises(InputError, match="`milestones` must ascend"):
        losses.ScheduledFocalLoss(milestones=(3, 2))


def _takes_gamma() -> list[tuple[str, Callable[..., Any]]]:
    """Public functions and modules with an exponent of that name."""
    public = {name: getattr(losses, name) for name in losses.__all__}
    parameters = {name: inspect.signature(thing).parameters for name, thing in public.items()}
    # Those of a last layer pass theirs on to the loss of its logits.
    return [
        (name, public[name])
        for name, takes in parameters.items()
        if "gamma" in takes and "hidden" not in takes
    ]


def test_a_fraction_is_the_probability_of_the_label_also_with_alpha() -> None:
    """The expectation of the values of 1 and of 0, each with its weight; so is the gradient."""
    logits = torch.tensor([-2.0, 0.7, 3.0], dtype=torch.float64, requires_grad=True)
    share = torch.tensor([0.25, 0.9, 0.5], dtype=torch.float64)

    def of(labels: torch.Tensor) -> torch.Tensor:
        return losses.multilabel_focal_loss(logits, labels, gamma=2, alpha=0.9, reduction="none")

    found, expected = of(share), share * of(torch.ones(3)) + (1 - share) * of(torch.zeros(3))
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(each.sum(), logits, retain_graph=True)[0] for each in (found, expected)]
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize(("name", "thing"), _takes_gamma(), ids=[name for name, _ in _takes_gamma()])
def test_the_domain_of_gamma_is_the_documented_one(name: str, thing: Any) -> None:
    """What the docstring says of ``gamma`` is what is accepted, and what the refusal says."""
    function = getattr(thing, "function", thing)
    words = re.search(r"^ +gamma: (.*?)(?=^ +\w+: )", function.__doc__, flags=re.DOTALL | re.MULTILINE)[1]
    open_end = "greater than -1" in words
    assert open_end != ("not negative" in words)
    assert thing is function or inspect.signature(thing).parameters["gamma"].annotation == "float"

    def call(gamma: object) -> None:
        if thing is not function:
            thing(gamma=gamma)
            return
        logits = torch.zeros(4, 3)
        thing(logits, logits if name.startswith("multilabel") else LABELS, gamma=gamma)

    for gamma in (0, 0.5, 2, 50.0, *((-0.5, -0.999) if open_end else ())):
        call(gamma)
    rule = "greater than -1" if open_end else "not negative"
    refused = (
        (float("inf"), float("nan"), -1, -3.0) if open_end else (float("inf"), float("nan"), -1e-9, -0.5)
    )
    for gamma in refused:
        with pytest.raises(InputError, match=f"^`gamma` must be finite and {rule}; got {gamma}.$"):
            call(gamma)
    for gamma in ("2", None, True):
        with pytest.raises(TypeError, match=f"^`gamma` must be a number; got {gamma!r}.$"):
            call(gamma)
