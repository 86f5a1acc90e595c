"""The test that decides whether probabilities of an event are true."""

from collections.abc import Callable

import numpy as np
import pytest

from calibrant.evaluation.resampling.calibration_test import (
    _scan,
    calibration_test,
    furthest_of,
    furthest_range,
)
from calibrant.evaluation.resampling.events import Events, Vector

Truth = Callable[[Vector], Vector]
DRAWS, LEVEL = 99, 0.05


def sigmoid(log_odds: Vector) -> Vector:
    return 1 / (1 + np.exp(-log_odds))


def rejected(base: float, spread: float, size: int, truth: Truth, *, sets: int = 60) -> float:
    """The share of simulated sets in which the test finds an error; ``truth`` maps the stated log-odds."""
    found = 0
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        stated = rng.normal(base, spread, size)
        outcomes = (rng.random(size) < sigmoid(truth(stated))).astype(float)
        found += calibration_test(Events(sigmoid(stated), outcomes), DRAWS, (seed,)).p_value <= LEVEL
    return found / sets


@pytest.mark.parametrize(("base", "spread", "size"), [(0, 1.5, 1000), (-3.6, 0.9, 4000), (-3, 1, 60)])
def test_calibrated_events_are_rarely_accused(base, spread, size) -> None:
    """In 5% of sets; of 100 sets, 14% is more than four standard errors above that."""
    assert rejected(base, spread, size, lambda z: z, sets=100) < 0.14


@pytest.mark.parametrize(
    ("base", "spread", "size", "truth", "power"),
    [
        (0, 1.5, 1000, lambda z: z - 0.3, 0.8),  # too high throughout
        (0, 1.5, 1000, lambda z: 0.75 * z, 0.8),  # too extreme
        (-3.6, 0.9, 8000, lambda z: z + 0.5 * np.sin(3.2 * (z + 3.6) / 0.9), 0.9),  # a wave in a rare event
        (0, 1.5, 2000, lambda z: z + 0.5 * np.exp(-(z**2) / 0.3), 0.7),  # in the middle alone
        (0, 1.5, 1000, lambda z: z + 0.3 * np.sign(z), 0.55),  # two halves that cancel
    ],
)
def test_planted_errors_are_found(base, spread, size, truth, power) -> None:
    """Each with at least this power; `docs/results` has the measured ones."""
    assert rejected(base, spread, size, truth) >= power


@pytest.mark.parametrize("seed", [0, 1])
def test_a_network_that_is_nearly_always_sure_is_accused(seed) -> None:
    """Draws have single misses where hardly any is expected; these do not hide that too many are wrong."""
    rng = np.random.default_rng(seed)
    stated = sigmoid(rng.normal(9, 4, 2000)).clip(1e-12, 1 - 1e-12)
    right = (rng.random(2000) < stated - 0.1 * ((stated > 0.7) & (stated < 0.999))).astype(float)
    assert calibration_test(Events(stated, right), 80, (0,)).p_value == pytest.approx(1 / 81)


def test_rows_in_any_order_and_copies_give_the_same_range() -> None:
    """The furthest range does not depend on the order of rows, and a weight of two counts as two copies."""
    rng = np.random.default_rng(0)
    stated = rng.random(300).round(2)
    outcomes = (rng.random(300) < np.where(stated > 0.7, stated - 0.3, stated)).astype(float)
    found = furthest_range(Events(stated, outcomes))
    order = rng.permutation(300)
    assert furthest_range(Events(stated[order], outcomes[order])) == found
    double = furthest_range(Events(stated, outcomes, np.full(300, 2.0)))
    assert (double.low, double.high) == (found.low, found.high)
    assert found.low > 0.6
    inside = (stated >= found.low) & (stated <= found.high)
    assert found.predicted == pytest.approx(stated[inside].mean())
    assert found.actual == pytest.approx(outcomes[inside].mean())


def test_odd_samples() -> None:
    """One sample, equal probabilities, and certain ones that are right: p-values are numbers in (0, 1]."""
    for stated, outcomes in (
        ([0.3], [1.0]),
        ([0.3] * 50, [1.0] * 15 + [0.0] * 35),
        ([0.0, 1.0], [0.0, 1.0]),
        ([1.0] * 5, [1.0] * 5),
    ):
        events = Events(np.array(stated), np.array(outcomes))
        p = calibration_test(events, DRAWS, (0,)).p_value
        assert LEVEL < p <= 1
    certain = Events(np.array([0.0] * 30 + [0.5] * 20), np.array([1.0] * 30 + [1.0, 0.0] * 10))
    assert calibration_test(certain, DRAWS, (0,)).p_value <= LEVEL
    assert furthest_range(Events(np.ones(5), np.ones(5))) is None


def test_weights_decide_what_counts() -> None:
    """Samples without weight are as good as absent, and unequal weights keep the share of false alarms."""
    rng = np.random.default_rng(1)
    stated = rng.random(500)
    outcomes = (rng.random(500) < stated).astype(float)
    wrong = np.concatenate([outcomes, np.zeros(200)])
    weights = np.repeat([1.0, 0.0], [500, 200])
    events = Events(np.concatenate([stated, np.full(200, 0.9)]), wrong, weights)
    alone = calibration_test(Events(stated, outcomes), DRAWS, (0,))
    assert calibration_test(events, DRAWS, (0,)).p_value == alone.p_value
    accused = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        stated, mass = rng.random(200), rng.lognormal(size=200)
        outcomes = (rng.random(200) < stated).astype(float)
        accused += calibration_test(Events(stated, outcomes, mass), DRAWS, (seed,)).p_value <= LEVEL
    assert accused <= 13


def test_clusters_that_agree_are_not_evidence() -> None:
    """Outcomes that clusters share look wrong if they are taken for independent, and right if not."""
    taken, told = 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        codes = np.repeat(np.arange(60), 20)
        stated = rng.random(60)[codes]
        outcomes = (rng.random(60)[codes] < stated).astype(float)
        taken += calibration_test(Events(stated, outcomes), DRAWS, (seed,)).p_value <= LEVEL
        told += calibration_test(Events(stated, outcomes, clusters=codes), DRAWS, (seed,)).p_value <= LEVEL
    assert taken > 50
    assert told <= 9


def test_one_bad_label_of_many_is_found() -> None:
    """One p-value for twenty events of which one is off, however many draws there are."""
    rng = np.random.default_rng(3)
    tests = []
    for label in range(20):
        stated = rng.random(800)
        true = stated**2 if label == 7 else stated
        outcomes = (rng.random(800) < true).astype(float)
        tests.append(calibration_test(Events(stated, outcomes), DRAWS, (label,)))
    assert furthest_of(tests).p_value <= LEVEL
    assert furthest_of([each for place, each in enumerate(tests) if place != 7]).p_value > LEVEL


def test_a_range_is_found_wherever_it_lies() -> None:
    """From either end; of three cells that are off, those before them do not count."""
    sums = np.random.default_rng(0).normal(size=(20, 400))
    sums[12:15, 0] += 4
    found = _scan(sums)
    assert found == pytest.approx(_scan(sums[::-1]), rel=1e-12)
    assert found[0] == max(found)
