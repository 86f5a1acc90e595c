"""Where a loss is smallest in expectation, against the focal map's inverse and closed forms."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from calibrant import losses, theory

Golden = Callable[[str], Any]


def focal(gamma: float) -> Callable[..., Tensor]:
    """Focal loss of the library, which warns below 0."""
    return functools.partial(losses.focal_loss, gamma=gamma)


def plain_focal(gamma: float) -> Callable[[Tensor, Tensor], Tensor]:
    """Focal loss written out, for any exponent, one value per sample."""

    def loss(logits: Tensor, labels: Tensor) -> Tensor:
        others = logits.scatter(1, labels[:, None], -math.inf).logsumexp(1)
        log_miss = others - logits.logsumexp(1)
        log_p = logits.log_softmax(1).gather(1, labels[:, None])[:, 0]
        return -(gamma * log_miss).exp() * log_p

    return loss


def test_focal_minimisers_are_the_published_ones(golden: Golden) -> None:
    for case in golden("theory.json")["focal_argmin_p08"]:
        found = theory.risk_minimiser(focal(case["gamma"]), [0.2, 0.8])
        assert found.probs[1].item() == pytest.approx(case["q"], abs=1e-12)
        assert found.kind == "interior"
        assert found.converged
        assert found.least_curvature > 0


@pytest.mark.parametrize("gamma", [0.5, 2.0, 10.0, 50.0])
@pytest.mark.parametrize("num_classes", [2, 3, 10, 60])
def test_focal_composed_with_its_map(gamma: float, num_classes: int, rng: np.random.Generator) -> None:
    """The map takes focal loss's minimiser to the posterior, to 1e-10, by both of the solvers."""
    posterior = torch.from_numpy(rng.dirichlet(np.full(num_classes, 1.0)))
    found = theory.risk_minimiser(plain_focal(gamma), posterior, num_starts=2)
    mapped = theory.focal_calibration_map(found.probs[None], gamma=gamma)[0]
    torch.testing.assert_close(mapped, posterior, rtol=0, atol=1e-10)
    assert found.error <= 1e-10


@pytest.mark.parametrize("gamma", [-0.99, -0.5])
def test_negative_exponents(gamma: float) -> None:
    """The loss decreases for gamma above -1: two classes, the stationary point is the map's."""
    found = theory.risk_minimiser(plain_focal(gamma), [0.4, 0.6])
    expected = theory.inverse_focal_calibration_map([0.6], gamma=gamma)[0]
    if found.kind == "interior":  # not convex: near certainty the risk may be lower still
        assert found.probs[1].item() == pytest.approx(expected.item(), abs=1e-10)
    risks = [
        float(0.4 * plain_focal(gamma)(z, torch.tensor([0])) + 0.6 * plain_focal(gamma)(z, torch.tensor([1])))
        for z in (torch.tensor([[-s / 2, s / 2]], dtype=torch.float64) for s in np.linspace(-20, 20, 801))
    ]
    assert found.risk <= min(risks) + 1e-12


def test_focal_calibration_is_not_proper(golden: Golden) -> None:
    """The minimisers of FCL are the reference's, over gamma, weight and posterior, and none is the truth."""
    cases = [case for case in golden("theory.json")["fcl_argmin"] if "p" in case][::6]
    for case in cases:
        loss = losses.FocalCalibrationLoss(gamma=case["gamma"], calibration_weight=case["lam"])
        found = theory.risk_minimiser(loss, [1 - case["p"], case["p"]])
        assert found.probs[1].item() == pytest.approx(case["q"], abs=1e-8)  # found by values
        assert found.probs[1].item() < case["p"] - 1e-3
    found = theory.risk_minimiser(
        losses.FocalCalibrationLoss(gamma=2, calibration_weight=0.5), [0.55, 0.3, 0.15]
    )
    assert found.probs.tolist() == pytest.approx([0.4736, 0.3287, 0.1977], abs=5e-5)


def test_label_smoothing_in_closed_form() -> None:
    posterior = np.array([0.7, 0.3, 0.0])
    found = theory.risk_minimiser(losses.LabelSmoothingLoss(smoothing=0.1), posterior)
    assert found.probs.tolist() == pytest.approx((0.9 * posterior + 0.1 / 3).tolist(), abs=1e-10)
    assert found.kind == "interior"


@pytest.mark.parametrize("posterior", [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0]])
def test_minima_at_infinity(posterior: list[float]) -> None:
    """Cross-entropy of a posterior with zeros: the limit, with exact zeros, and it is said."""
    found = theory.risk_minimiser(torch.nn.CrossEntropyLoss(), posterior)
    assert found.kind == "boundary"
    assert found.converged
    assert found.probs.tolist() == pytest.approx(posterior, abs=1e-12)
    assert [p == 0 for p in found.probs.tolist()] == [p == 0 for p in posterior]


def test_a_linear_loss_goes_to_a_vertex() -> None:
    """1 - p of the true class alone is minimised by certainty."""

    def linear(logits: Tensor, labels: Tensor) -> Tensor:
        return 1 - logits.softmax(1).gather(1, labels[:, None])[:, 0]

    found = theory.risk_minimiser(linear, [0.5, 0.3, 0.2])
    assert found.probs.tolist() == [1.0, 0.0, 0.0]
    assert found.kind == "boundary"
    assert found.risk == pytest.approx(0.5, abs=1e-12)


def test_a_kink_and_a_jump() -> None:
    def kinked(logits: Tensor, labels: Tensor) -> Tensor:
        return (logits[:, 1] - logits[:, 0] - 1 - 0 * labels).abs()

    found = theory.risk_minimiser(kinked, [0.4, 0.6])
    assert found.kind == "kink"
    assert found.converged
    assert found.probs[1].item() == pytest.approx(1 / (1 + math.exp(-1)), abs=1e-10)

    def jumping(logits: Tensor, labels: Tensor) -> Tensor:
        log_odds = logits[:, 1] - logits[:, 0] + 0 * labels
        return torch.where(log_odds < 0.5, -log_odds, 1 + log_odds / 100)

    found = theory.risk_minimiser(jumping, [0.4, 0.6])
    assert found.probs[1].item() == pytest.approx(1 / (1 + math.exp(-0.5)), abs=1e-9)


def test_two_equal_minima_are_both_found() -> None:
    """A double well: the other place is in ``others``."""

    def wells(logits: Tensor, labels: Tensor) -> Tensor:
        log_odds = logits[:, 1] - logits[:, 0] + 0 * labels
        return (log_odds.square() - 1).square()

    found = theory.risk_minimiser(wells, [0.5, 0.5])
    places = sorted(probs[1].item() for probs in (found.probs, *found.others))
    assert places == pytest.approx([1 / (1 + math.e), 1 / (1 + 1 / math.e)], abs=1e-10)


def test_reductions_do_not_matter() -> None:
    """Module or function, mean, sum or none, one value per sample or one: the minimiser is the same."""
    posterior = [0.1, 0.3, 0.6]
    expected = theory.risk_minimiser(losses.focal_loss, posterior).probs

    def mean_only(logits: Tensor, labels: Tensor) -> Tensor:
        return losses.focal_loss(logits, labels)

    for loss in (
        losses.FocalLoss(),
        losses.FocalLoss(reduction="sum"),
        losses.FocalLoss(reduction="none"),
        mean_only,
    ):
        torch.testing.assert_close(theory.risk_minimiser(loss, posterior).probs, expected, rtol=0, atol=1e-11)
    module = losses.FocalLoss(reduction="sum")
    theory.risk_minimiser(module, posterior)
    assert module.reduction == "sum"


def test_class_weights_count() -> None:
    weight = torch.tensor([1.0, 3.0], dtype=torch.float64)
    found = theory.risk_minimiser(torch.nn.CrossEntropyLoss(weight=weight), [0.5, 0.5])
    assert found.probs.tolist() == pytest.approx([0.25, 0.75], abs=1e-10)


def test_batch_losses_see_the_posterior() -> None:
    """MMCE without weights is least at the truth; with the weights of its authors it pulls towards a half."""
    plain = losses.MMCELoss(weighted=False, as_published=False)
    assert theory.risk_minimiser(plain, [0.2, 0.8], batch_size=20).probs[1].item() == pytest.approx(
        0.8, abs=1e-9
    )
    weighted = losses.MMCELoss(as_published=False)
    assert theory.risk_minimiser(weighted, [0.2, 0.8], batch_size=20).probs[1].item() < 0.51


def test_elicited_map_is_the_inverse_map(rng: np.random.Generator) -> None:
    rows = torch.from_numpy(rng.dirichlet(np.ones(4), size=3))
    found = theory.elicited_map(focal(2.0), rows)
    torch.testing.assert_close(
        found, theory.inverse_focal_calibration_map(rows, gamma=2.0), rtol=0, atol=1e-10
    )
    events = theory.elicited_map(focal(2.0), [0.3, 0.8])
    expected = theory.inverse_focal_calibration_map([0.3, 0.8], gamma=2.0)
    torch.testing.assert_close(events, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("posterior", "message"),
    [
        ([[0.5, 0.5]], r"`posterior` must have shape \(C,\)"),
        ([0.5, 0.4], "`posterior` must be probabilities that sum to one"),
        ([1.0], "shape"),
    ],
)
def test_refused_posteriors(posterior: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        theory.risk_minimiser(losses.focal_loss, posterior)
