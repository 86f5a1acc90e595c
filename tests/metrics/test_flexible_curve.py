"""The flexible calibration curve: against statsmodels, under transformations, and what is refused."""

import numpy as np
import pytest

from calibrant import InputError
from calibrant.metrics import flexible_calibration_curve

ROWS = np.arange(600)
PROBS = ((ROWS + 0.5) / 600) ** 2 * 0.98
LABELS = ((ROWS * 0.6180339887) % 1 < PROBS**1.3).astype(int)
CLUSTERS, WEIGHTS = ROWS * 7 // 60 % 43, 1.0 + ROWS % 3

# statsmodels 0.14 (GLM, binomial) on the natural spline basis of patsy with the same knots. With weights and
# clusters: cov_type="cluster" with freq_weights, times (N - k) / (N - 1), which undoes its correction.
REFERENCE = {
    "plain": (
        (0.060672134, 0.388767528, 0.939119434),
        (0.014406642, 0.318788167, 0.810867774),
        (0.222042067, 0.463652944, 0.982301157),
        (0.063611867, 0.07937305, 0.09334361),
    ),
    "both": (
        (0.039360119, 0.379074093, 0.94337216),
        (0.01688792, 0.331464436, 0.880394889),
        (0.089027415, 0.429132576, 0.974162351),
        (0.062432994, 0.07418944, 0.10026563),
    ),
}


@pytest.mark.parametrize("which", REFERENCE)
def test_curve_and_band_are_those_of_statsmodels(which: str) -> None:
    """Also with weights and clusters together; positions run between the 1st and 99th percentile."""
    more = {"weights": WEIGHTS, "clusters": CLUSTERS} if which == "both" else {}
    found = flexible_calibration_curve(PROBS, LABELS, num_points=3, **more)
    actual, low, high, distances = REFERENCE[which]
    assert found.positions == pytest.approx((8.2347e-05, 0.479482014, 0.958881681), abs=1e-8)
    assert found.actual == pytest.approx(actual, abs=1e-8)
    assert (found.low, found.high) == (pytest.approx(low, abs=1e-7), pytest.approx(high, abs=1e-7))
    assert (found.ici, found.e50, found.e90) == pytest.approx(distances, abs=1e-8)


def test_weights_count_as_repeats_and_order_is_immaterial() -> None:
    """The curve of repeated samples, those of no weight left out; in clusters of repeats also its band."""
    weights = WEIGHTS * (ROWS % 5 > 0)
    rows = np.random.default_rng(0).permutation(np.repeat(ROWS, weights.astype(int)))
    repeated = flexible_calibration_curve(PROBS[rows], LABELS[rows], clusters=rows, num_points=5)
    weighted = flexible_calibration_curve(PROBS, LABELS, weights=weights, clusters=ROWS, num_points=5)
    for name in ("positions", "actual", "low", "high", "ici", "e50", "e90"):
        assert getattr(weighted, name) == pytest.approx(getattr(repeated, name), abs=1e-9)
    larger = flexible_calibration_curve(PROBS, LABELS, weights=9 * WEIGHTS, num_points=5)
    smaller = flexible_calibration_curve(PROBS, LABELS, weights=WEIGHTS, num_points=5)
    assert larger.high == pytest.approx(smaller.high, abs=1e-9)


def test_two_probabilities_are_judged_by_their_rates() -> None:
    """With too few values for a spline the curve is a line, here through both rates: 3/10 and 6/10."""
    probs, labels = [0.2] * 10 + [0.7] * 10, [1] * 3 + [0] * 7 + [1] * 6 + [0] * 4
    found = flexible_calibration_curve(probs, labels, num_points=2)
    assert found.positions == (0.2, 0.7)
    assert found.actual == pytest.approx((0.3, 0.6), abs=1e-9)
    assert (found.ici, found.e50, found.e90) == pytest.approx((0.1, 0.1, 0.1), abs=1e-9)


@pytest.mark.parametrize(
    ("probs", "labels", "more", "said"),
    [
        (PROBS, np.zeros(600), {}, "all outcomes are alike"),
        (np.full(600, 0.3), LABELS, {}, "all probabilities are alike"),
        (PROBS, PROBS > 0.5, {}, "the probabilities separate the outcomes"),
        (PROBS, LABELS, {"num_knots": 6}, "`num_knots` must be 3, 4 or 5; got 6"),
        (PROBS, LABELS, {"clusters": CLUSTERS[1:]}, r"`clusters` must have shape \(600,\)"),
    ],
)
def test_what_has_no_curve_is_refused(
    probs: object, labels: object, more: dict[str, object], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        flexible_calibration_curve(probs, labels, **more)
