"""Net benefit: by hand, by definition, and its interval."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import InputError
from calibrant.metrics import decision_curve

RNG = np.random.default_rng(0)
PROBS = RNG.uniform(size=300).round(2)
LABELS = (RNG.uniform(size=300) < PROBS).astype(int)


def worth(threshold: float) -> np.ndarray:
    """What each sample adds: 1 for a hit, minus the odds for a false alarm."""
    treated = threshold <= PROBS
    return treated * LABELS - treated * (1 - LABELS) * threshold / (1 - threshold)


def test_net_benefit_is_the_mean_of_what_each_sample_adds() -> None:
    """Also for probabilities on a threshold, which are treated; its interval is that of a mean."""
    at = [0.01, 0.25, 0.5, 0.8]
    found = decision_curve(PROBS, LABELS, thresholds=at)
    reach = [1.959964 * worth(t).std() / np.sqrt(300) for t in at]
    assert found.thresholds == tuple(at)
    assert found.net_benefit == pytest.approx([worth(t).mean() for t in at], abs=1e-12)
    assert found.high == pytest.approx(np.array(found.net_benefit) + reach, abs=1e-7)
    assert found.low == pytest.approx(np.array(found.net_benefit) - reach, abs=1e-7)


def test_treating_all_is_a_model_that_is_always_sure() -> None:
    """Its net benefit is that of probability one, and without a threshold above it is the prevalence."""
    found = decision_curve(np.ones(300), LABELS, thresholds=[1e-9, 0.3])
    assert found.net_benefit == pytest.approx(found.treat_all, abs=1e-12)
    assert found.treat_all[0] == pytest.approx(LABELS.mean(), abs=1e-8)


def test_weights_count_as_repeats() -> None:
    """A weight of two is the sample twice; the order of the samples is immaterial."""
    weights = RNG.integers(0, 3, size=300)
    rows = RNG.permutation(np.repeat(np.arange(300), weights))
    weighted = decision_curve(PROBS, LABELS, weights=weights, thresholds=[0.1, 0.6])
    repeated = decision_curve(PROBS[rows], LABELS[rows], thresholds=[0.1, 0.6])
    assert weighted.net_benefit == pytest.approx(repeated.net_benefit, abs=1e-12)
    assert weighted.treat_all == pytest.approx(repeated.treat_all, abs=1e-12)


def test_thresholds_reach_as_far_as_probabilities() -> None:
    """By default 99, below one."""
    assert decision_curve([0.01, 0.04], [0, 1]).thresholds[-1] == pytest.approx(0.04)
    found = decision_curve([0.1, 1.0], [0, 1]).thresholds
    assert (len(found), found[-1]) == (99, pytest.approx(0.99))


def test_other_arguments_are_refused() -> None:
    """Thresholds out of range, several classes, and levels that are none."""
    for thresholds in ([0.0], [1.0], [], [np.nan]):
        with pytest.raises(InputError, match="`thresholds` must be numbers between 0 and 1"):
            decision_curve(PROBS, LABELS, thresholds=thresholds)
    with pytest.raises(InputError, match=r"pass one class: `probs\[:, k\]`"):
        decision_curve([[0.2, 0.8], [0.5, 0.5]], [0, 1])
    with pytest.raises(InputError, match="`level`"):
        decision_curve(PROBS, LABELS, level=95)
