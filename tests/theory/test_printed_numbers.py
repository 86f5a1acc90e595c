"""Numbers and statements about the focal map that are printed elsewhere."""

import math

import numpy as np
import pytest
import torch

from calibrant import theory


def test_map_next_to_minus_one() -> None:
    """As gamma nears -1 the binary map stays monotone and nears s + log 2 far out; at -1 there is none."""
    log_odds = torch.linspace(-15, 15, 301, dtype=torch.float64)
    mapped = theory.focal_calibration_map_logits(log_odds, gamma=-1 + 1e-12)
    assert bool((mapped.diff() > 0).all())
    assert mapped[-1].item() == pytest.approx(15 + math.log(2), abs=5e-5)
    with pytest.raises(ValueError, match="greater than -1"):
        theory.focal_calibration_map_logits(log_odds, gamma=-1)


def test_negative_exponents_raise_some_of_many(rng: np.random.Generator) -> None:
    """For gamma = -1/2 no top of two classes is raised, the more the more classes; of 2 to 11 about half."""
    raised = []
    for num_classes in range(2, 12):
        probs = rng.dirichlet(np.ones(num_classes), size=3000)
        found = theory.confidence_change(np.log(probs), gamma=-0.5)
        assert found.raised + found.lowered == pytest.approx(1)
        raised.append(found.raised)
    assert raised[0] == 0
    assert raised == sorted(raised)
    assert raised[-1] > 0.98
    assert np.mean(raised) == pytest.approx(0.5, abs=0.1)


def published_code(logits: torch.Tensor, gamma: float) -> torch.Tensor:
    """The map as the authors' code computes it: clamped probabilities, the formula."""
    q = logits.softmax(-1).clamp(1e-12, 1 - 1e-12)
    slope = gamma * (1 - q) ** (gamma - 1) * q.log() - (1 - q) ** gamma / q
    weight = 1 / -slope
    return weight / weight.sum(-1, keepdim=True)


def test_published_code_saturates_in_float32() -> None:
    """At a gap of 16 it is finite, at 18 NaN: 1 - 1e-12 is 1 there; ours is right at both."""
    near, far = torch.tensor([[16.0, 0.0, 0.0]]), torch.tensor([[18.0, 0.0, 0.0]])
    assert bool(published_code(near, 2.0).isfinite().all())
    assert bool(published_code(far, 2.0).isnan().any())
    for row in (near, far):
        mapped = theory.focal_calibration_map_logits(row, gamma=2.0)
        exact = theory.focal_calibration_map_logits(row.double(), gamma=2.0)
        torch.testing.assert_close(mapped.double(), exact, rtol=1e-5, atol=0)


def test_published_code_in_float64(rng: np.random.Generator) -> None:
    """With logits up to 20 it agrees to 5e-11; for gamma below 0 and a gap of 50 the clamp makes it wrong."""
    logits = torch.from_numpy(rng.uniform(-20, 20, size=(3000, 5)))
    for gamma in (0.5, 2.0, 5.0):
        ours = theory.focal_calibration_map_logits(logits, gamma=gamma).exp()
        assert (published_code(logits, gamma) - ours).abs().max().item() < 5e-11
    far = torch.tensor([[50.0, 0.0]], dtype=torch.float64)
    exact = theory.focal_calibration_map_logits(far, gamma=-0.5).exp()[0, 1].item()
    assert published_code(far, -0.5)[0, 1].item() > 100 * exact


def test_no_temperature_of_the_caption_fits_three() -> None:
    """For gamma = 3 and two classes S(s) / s lies in [3.62, 4], so 1 / 0.36 = 2.78 is impossible."""
    found = theory.temperature_bounds(3)
    assert round(1 / found.tight_upper, 2) == 3.62
    assert 1 / found.tight_lower == pytest.approx(4)
    assert pytest.approx(0.755, abs=5e-4) == 1 / (0.95 * 0.5 + 0.85)
    assert theory.closest_temperature(3, 3).temperature == pytest.approx(0.36, abs=5e-3)


@pytest.mark.parametrize("num_classes", [2, 3, 4, 20, 100])
def test_the_closest_temperature_sharpens(num_classes: int) -> None:
    """It is below 1 for positive exponents, and rises with the number of classes from two to three."""
    found = [theory.closest_temperature(gamma, num_classes).temperature for gamma in (0.5, 2.0)]
    assert 0 < found[1] < found[0] < 1
    if num_classes > 2:
        assert found[1] > theory.closest_temperature(2.0).temperature


def test_closest_temperature_of_gamma_two_by_classes() -> None:
    """0.466 for three classes, then up: about 0.66 for ten and 0.83 for a hundred."""
    found = [theory.closest_temperature(2.0, count).temperature for count in (3, 10, 100)]
    assert round(found[0], 3) == 0.466
    assert found[1] == pytest.approx(0.66, abs=0.02)
    assert found[2] == pytest.approx(0.83, abs=0.02)


def test_likelihood_is_convex_in_the_inverse_temperature(rng: np.random.Generator) -> None:
    inverse = torch.linspace(0.02, 10, 100, dtype=torch.float64)
    for _ in range(5):
        logits = torch.from_numpy(rng.normal(size=(50, 4)) * rng.uniform(0.2, 5))
        labels = torch.from_numpy(rng.integers(0, 4, 50))
        values = torch.stack([torch.nn.functional.cross_entropy(b * logits, labels) for b in inverse])
        assert values.diff().diff().min().item() > -1e-12
        temperatures = values.diff().sign()
        assert bool((temperatures.diff() >= 0).all())  # falls, then rises
