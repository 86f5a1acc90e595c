"""Properness, classification and convexity of losses for which the answer is known."""

import functools
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from calibrant import losses, theory

STRICTLY_PROPER: list[Callable[..., Tensor]] = [
    losses.cross_entropy_loss,
    losses.brier_loss,
    functools.partial(losses.proper_focal_loss, gamma=2.0),
    functools.partial(losses.focal_calibration_loss, gamma=0.0, calibration_weight=0.5),
]
IMPROPER: list[Callable[..., Tensor]] = [
    losses.focal_loss,
    losses.dual_focal_loss,
    losses.sample_focal_loss,
    losses.label_smoothing_loss,
    functools.partial(losses.margin_label_smoothing_loss, margin=1.0),
    losses.margin_label_smoothing_loss,
    functools.partial(losses.focal_calibration_loss, gamma=2.0, calibration_weight=10.0),
    functools.partial(losses.focal_calibration_loss, gamma=0.0, calibration_weight=0.5, norm="l1"),
]


@pytest.mark.parametrize("loss", STRICTLY_PROPER)
def test_no_counter_example_to_proper_losses(loss: Callable[..., Tensor]) -> None:
    """None is found, the posterior is met to 1e-10, and the search says how far it went."""
    found = theory.properness(loss, num_classes=(2, 4), num_posteriors=4)
    assert found.verdict == "none found"
    assert found.counter_example is None
    assert found.largest_miss < 1e-10
    assert found.num_posteriors == 8
    assert "No counter-example among 8 posteriors of 2 and 4 classes" in str(found)


@pytest.mark.parametrize("loss", IMPROPER)
def test_counter_examples_refute(loss: Callable[..., Tensor]) -> None:
    found = theory.properness(loss, num_posteriors=5)
    assert found.verdict == "improper"
    example = found.counter_example
    assert example is not None

    def risk(probs: Tensor) -> float:
        labels = torch.arange(len(probs))
        return float(loss(probs.log().expand(len(probs), -1), labels, reduction="none") @ example.posterior)

    assert risk(example.minimiser) < risk(example.posterior)
    assert risk(example.posterior) == pytest.approx(example.risk_of_posterior, rel=1e-12)
    assert risk(example.minimiser) == pytest.approx(example.risk_of_minimiser, rel=1e-12)


def test_proper_but_not_strictly() -> None:
    found = theory.properness(lambda logits, _: (logits * 0).sum(1), num_classes=(2, 3), num_posteriors=2)
    assert found.verdict == "none found, not strictly"
    assert "not always the only minimiser" in str(found)


def test_what_a_loss_declares_is_passed_on() -> None:
    """The attribute ``properness`` is the analytic statement."""

    class Declared(torch.nn.CrossEntropyLoss):
        properness = "strictly proper (Gibbs)."

    found = theory.properness(Declared(), num_classes=(2,), num_posteriors=1)
    assert found.statement == "strictly proper (Gibbs)."
    assert str(found).endswith("The loss states: strictly proper (Gibbs).")


def test_our_losses_declare_it_as_functions_as_partials_and_as_modules() -> None:
    """The statement is found through ``functools.partial`` too; a loss that states nothing has none."""
    ours = [losses.focal_loss, functools.partial(losses.focal_loss, gamma=0.0), losses.FocalLoss(gamma=0.0)]
    statements = [theory.properness(loss, num_classes=2, num_posteriors=1).statement for loss in ours]
    assert statements == [losses.FocalLoss.properness] * 3
    assert statements[0] is not None
    assert "proper for γ = 0 only" in statements[0]
    bare = theory.properness(torch.nn.functional.cross_entropy, num_classes=2, num_posteriors=1)
    assert bare.statement is None
    assert "states" not in str(bare)


def test_batch_losses() -> None:
    """Unweighted MMCE adds nothing at the truth; weighted as its authors do, it moves the minimum."""
    plain = losses.MMCELoss(weighted=False, as_published=False)
    weighted = losses.MMCELoss(as_published=False)
    kept = theory.properness(plain, num_classes=(2,), num_posteriors=2, batch_size=20)
    moved = theory.properness(weighted, num_classes=(2,), num_posteriors=2, batch_size=20)
    assert (kept.verdict, moved.verdict) == ("none found", "improper")


def test_focal_is_classification_calibrated_and_under_confident() -> None:
    found = theory.classification_calibration(losses.focal_loss, num_classes=(2, 3), num_posteriors=3)
    assert found.counter_example is None
    assert found.confidence == "under"
    assert found.least_change < -0.1
    assert found.largest_change <= 0


def test_focal_is_over_confident_with_many_classes() -> None:
    """One class twice as probable as 29 others: its probability is raised at the optimum."""
    loss = functools.partial(losses.focal_loss, gamma=1.0)
    found = theory.classification_calibration(loss, num_classes=(30,), num_posteriors=2)
    assert found.confidence in {"over", "both"}
    assert found.largest_change > 0


def test_a_loss_that_prefers_the_other_class_is_found_out() -> None:
    """Class 0 counts nine times as much: the minimiser's class is not the posterior's."""
    loss = torch.nn.CrossEntropyLoss(weight=torch.tensor([9.0, 1.0], dtype=torch.float64))
    found = theory.classification_calibration(loss, num_classes=(2,), num_posteriors=1)
    assert found.counter_example is not None
    assert found.counter_example.minimiser[0] > 0.5


@pytest.mark.parametrize(
    ("loss", "in_probs", "in_logits"),
    [
        (losses.cross_entropy_loss, True, True),
        (losses.brier_loss, True, False),
        (functools.partial(losses.focal_loss, gamma=0.5), True, False),
        (functools.partial(losses.focal_loss, gamma=5.0), True, False),
        (losses.label_smoothing_loss, True, True),
    ],
)
def test_convexity(loss: Callable[..., Tensor], in_probs: bool, in_logits: bool) -> None:
    found = theory.convexity(loss, space="probs"), theory.convexity(loss, space="logits")
    assert (found[0].convex, found[1].convex) == (in_probs, in_logits)
    if not in_logits:
        ends = found[1].ends
        assert ends is not None
        label = torch.tensor([0])
        values = [float(loss(z[None], label)) for z in (ends[0], ends.mean(0), ends[1])]
        assert values[1] > (values[0] + values[2]) / 2


def test_negative_exponents_are_not_convex() -> None:
    """Focal loss with gamma below 0 bends near certainty."""

    def negative(logits: Tensor, labels: Tensor) -> Tensor:
        log_p = logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
        return -(-log_p.expm1()).pow(-0.5) * log_p

    assert not theory.convexity(negative).convex
