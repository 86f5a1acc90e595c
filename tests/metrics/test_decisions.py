"""Net benefit: by hand, by definition, and its interval."""

import numpy as np
import pytest

from calibrant import InputError, Predictions, evaluate
from calibrant.evaluation.quantities import thresholds_of
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


def test_intervals_are_those_of_whole_clusters() -> None:
    """By the cluster-robust error of a weighted mean; with a cluster for each sample nearly as without."""
    clusters, weights, at = RNG.integers(0, 40, size=300), RNG.uniform(size=300), [0.6, 0.05, 0.3]
    found = decision_curve(PROBS, LABELS, thresholds=at, weights=weights, clusters=clusters)
    for place, threshold in enumerate(at):
        moved = weights * (worth(threshold) - np.average(worth(threshold), weights=weights))
        totals = np.bincount(clusters, moved)
        reach = 1.959964 * np.sqrt(totals @ totals * 40 / 39) / weights.sum()
        assert found.high[place] - found.net_benefit[place] == pytest.approx(reach, abs=1e-7)
    single = decision_curve(PROBS, LABELS, clusters=[f"patient {k}" for k in range(300)])
    alone = decision_curve(PROBS, LABELS)
    expected = np.subtract(alone.high, alone.low) * np.sqrt(300 / 299)
    assert np.subtract(single.high, single.low) == pytest.approx(expected, abs=1e-12)
    counts = clusters < 20
    some = decision_curve(PROBS, LABELS, weights=weights * counts, clusters=clusters, thresholds=at)
    kept = {"weights": weights[counts], "clusters": clusters[counts]}
    assert some == decision_curve(PROBS[counts], LABELS[counts], **kept, thresholds=at)
    with pytest.raises(InputError, match="at least two clusters"):
        decision_curve(PROBS, LABELS, weights=clusters == 0, clusters=clusters)
    with pytest.raises(InputError, match=r"`clusters` must have shape \(300,\)"):
        decision_curve(PROBS, LABELS, clusters=clusters[1:])


@pytest.mark.parametrize("clusters", [None, [f"{k // 3}" for k in range(300)]])
def test_an_evaluation_has_the_numbers_of_the_curve(clusters: list[str] | None) -> None:
    keys = thresholds_of("20%, .05,.05")
    predictions = Predictions(probs=PROBS, labels=LABELS, clusters=clusters)
    shown = evaluate(predictions, metrics=keys, calibrators=(), bootstrap=20, null_draws=20).arms[0].metrics
    curve = decision_curve(PROBS, LABELS, thresholds=[0.05, 0.2], clusters=clusters)
    assert keys == ("net_benefit_0.05", "net_benefit_0.2")
    for k, key in enumerate(keys):
        found = shown[key]
        expected = curve.net_benefit[k], curve.low[k], curve.high[k]
        assert (found.value, found.low, found.high) == pytest.approx(expected, abs=1e-12)
        assert shown[f"{key}_all"].value == pytest.approx(curve.treat_all[k], abs=1e-12)


def test_thresholds_need_an_event_and_must_be_probabilities() -> None:
    three = Predictions(probs=[[0.2, 0.5, 0.3]] * 4, labels=[0, 1, 2, 1])
    with pytest.raises(InputError, match="net benefit needs an event with probabilities of two classes"):
        evaluate(three, metrics=["net_benefit_0.1"])
    for text in ("0.1,x", "0", "1.5", ""):
        with pytest.raises(InputError, match="--thresholds must be numbers between 0 and 1"):
            thresholds_of(text)
    with pytest.raises(InputError, match=r"net_benefit_0\.1 for net benefit at 0.1"):
        evaluate(probs=PROBS, labels=LABELS, metrics=["net_benefit_2"])


def test_thresholds_reach_as_far_as_probabilities() -> None:
    assert decision_curve([0.01, 0.04], [0, 1]).thresholds[-1] == pytest.approx(0.04)
    found = decision_curve([0.1, 1.0], [0, 1]).thresholds
    assert (len(found), found[-1]) == (99, pytest.approx(0.99))


def test_other_arguments_are_refused() -> None:
    for thresholds in ([0.0], [1.0], [], [np.nan]):
        with pytest.raises(InputError, match="`thresholds` must be numbers between 0 and 1"):
            decision_curve(PROBS, LABELS, thresholds=thresholds)
    with pytest.raises(InputError, match=r"pass one class: `probs\[:, k\]`"):
        decision_curve([[0.2, 0.8], [0.5, 0.5]], [0, 1])
    with pytest.raises(InputError, match="`level`"):
        decision_curve(PROBS, LABELS, level=95)
