"""The smoothed error and the smooth reliability curve as the caller sees them."""

import numpy as np
import pytest
import torch

from calibrant.metrics import smooth_calibration_error, smooth_ece, smooth_reliability_curve


def table(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Probabilities (80, 4) of an over-confident model and its labels."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(80, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits, 1), 1, generator=generator)[:, 0]
    return torch.softmax(2 * logits, 1), labels


def test_bandwidth_given_or_found() -> None:
    """The default is the fixed point; the error falls as the bandwidth grows, not below the mean residual."""
    probs, labels = table()
    probs = torch.softmax(probs.log() / 2, 1)  # calibrated: residuals of both signs
    found = smooth_ece(probs, labels).item()
    at_found = smooth_ece(probs, labels, bandwidth=found).item()
    assert at_found == pytest.approx(found, abs=1e-9)  # the tolerance of the fixed point
    assert smooth_ece(probs, labels, bandwidth=found / 2) > found > smooth_ece(probs, labels, bandwidth=1.0)
    confidence, prediction = probs.max(dim=1)
    assert found >= ((prediction == labels).double() - confidence).mean().abs() - 1e-12
    assert smooth_calibration_error(probs, labels) <= 1.8 * found


def test_weights_replicate_on_the_curve() -> None:
    probs, labels = table()
    times = torch.arange(80) % 4
    many = probs.repeat_interleave(times, 0), labels.repeat_interleave(times)
    curve = smooth_reliability_curve(probs, labels, bandwidth=0.1, weights=times)
    again = smooth_reliability_curve(*many, bandwidth=0.1)
    assert curve.density == pytest.approx(again.density, abs=1e-12)
    assert curve.outcome == pytest.approx(again.outcome, abs=1e-12)


def test_rows_that_sum_to_a_little_more_than_one() -> None:
    """A confidence of 1.0005 (a rounded export) is taken as it is and smoothed from the end."""
    probs = np.array([[1.0005, 0.0], [0.3, 0.7]])
    assert smooth_ece(probs, [0, 0]).item() == pytest.approx(
        smooth_ece(np.array([[1.0, 0.0], [0.3, 0.7]]), [0, 0]).item(), abs=1e-3
    )
    assert smooth_reliability_curve(probs, [0, 0]).positions[-1] == 1


@pytest.mark.parametrize("bandwidth", [None, 0.05, 0.3])
def test_the_curve_holds_the_error(bandwidth: float | None) -> None:
    """Density integrates to one, and the gap between outcome and confidence under it is the error."""
    probs, labels = table()
    curve = smooth_reliability_curve(probs, labels, bandwidth=bandwidth, num_points=20001)
    density = np.array(curve.density)
    confidence, outcome = (
        np.array([np.nan if value is None else value for value in values])
        for values in (curve.confidence, curve.outcome)
    )
    gap = np.nan_to_num(np.abs(outcome - confidence)) * density

    def integral(values: np.ndarray) -> float:
        return float((values[1:] + values[:-1]).sum() / 40000)

    assert integral(density) == pytest.approx(1, abs=1e-6)  # trapezoid rule on 20000 cells
    error = smooth_ece(probs, labels, bandwidth=curve.bandwidth).item()
    assert integral(gap) == pytest.approx(error, abs=1e-6)
    if bandwidth is None:
        assert curve.bandwidth == smooth_ece(probs, labels).item()


def test_the_curve_says_nothing_where_nothing_is() -> None:
    """Far from every score outcome and confidence are None; near one they are its own."""
    curve = smooth_reliability_curve([0.2, 0.2], [0, 1], bandwidth=0.02, num_points=11)
    assert curve.positions == pytest.approx(np.linspace(0, 1, 11))
    assert curve.outcome[2] == pytest.approx(0.5, abs=1e-12)
    assert curve.confidence[2] == pytest.approx(0.2, abs=1e-12)
    assert curve.outcome[6] is None
    assert curve.confidence[10] is None
    assert curve.density[6] == pytest.approx(0, abs=1e-12)


def test_a_few_points_lie_on_the_same_curve() -> None:
    probs, labels = table()
    few = smooth_reliability_curve(probs, labels, bandwidth=0.02, num_points=11)
    many = smooth_reliability_curve(probs, labels, bandwidth=0.02, num_points=1001)
    assert few.density == pytest.approx(many.density[::100], abs=1e-8)
