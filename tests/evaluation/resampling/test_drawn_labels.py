"""Labels drawn from whole rows follow the probabilities, and the largest of many distances is judged."""

import numpy as np
import pytest

from calibrant.evaluation.judging.class_table import ClassTable, LabelledProbs, Truth
from calibrant.evaluation.judging.reduce import scan_rows
from calibrant.evaluation.resampling import null
from calibrant.evaluation.resampling.null import (
    ClassNull,
    ClassRowsBlock,
    class_scores,
    draw_labels,
    farthest_scores,
    joint_p_value,
)
from calibrant.predictions import Predictions

NEAR = 4.0  # standard errors


def class_table(num_samples: int = 300, num_classes: int = 4, *, weighted: bool = False) -> ClassTable:
    rng = np.random.default_rng(3)
    logits = 1.5 * rng.normal(size=(num_samples, num_classes))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    weights = rng.exponential(size=num_samples) if weighted else None
    table = LabelledProbs(Predictions(logits=logits, labels=labels, weights=weights))
    _, sums, agreement, _ = scan_rows(table, 15)
    return ClassTable(table, sums, agreement.variance)


def test_as_many_draws_are_kept_as_the_level_needs() -> None:
    """Two beyond each end of an interval at 99.8 %; of so few cells 455 would fill the memory set aside."""
    classes = class_table(20)
    kept = [classes.null(2100, (0,), level).noise for level in (0.95, 0.998)]
    assert [len(each) for each in kept if each is not None] == [455, 2000]


@pytest.mark.parametrize("weighted", [False, True])
def test_labels_follow_the_probabilities(weighted, monkeypatch) -> None:
    """Each class occurs in each bin as often as is stated there; every draw gives each sample one label."""
    monkeypatch.setattr(null, "MOST_DRAWN", 12 * 15 * 150)  # so that there are several walks
    classes = class_table(num_classes=12, weighted=weighted)
    filled = classes.sums.counts.numpy() > 0
    assert not filled.all()
    parts = list(draw_labels(lambda: classes.rows(15), filled, np.arange(12), num_draws=400, seed=(0, 2)))
    drawn = np.concatenate(parts, axis=1)
    assert len(parts) > 1
    assert drawn.shape == (filled.sum(), 400)
    np.testing.assert_allclose(drawn.sum(axis=0), classes.sums.total)
    error = drawn.std(axis=1) / np.sqrt(400)
    excess = np.abs(drawn.mean(axis=1) - classes.sums.confidences.numpy()[filled])
    assert (excess <= NEAR * error + 1e-9 + 0.01 * (error == 0)).all()


def test_rare_labels_follow_the_probabilities(monkeypatch) -> None:
    """Where only exceptions are drawn too: one in fifty or fewer, also where their steps run out midway."""
    rng = np.random.default_rng(5)
    rest = rng.dirichlet([0.5, 1.0, 2.0], size=60) * np.linspace(0.0, 0.02, 60)[:, None]
    probs = np.concatenate([rest[:, :2], 1 - rest.sum(axis=1, keepdims=True), rest[:, 2:]], axis=1)
    rows = ClassRowsBlock(
        probs=probs, stated=probs, bins=np.zeros((60, 4), np.int64), mass=rng.exponential(size=60)
    )
    given = lambda: iter([rows]), np.ones((4, 1), bool), np.array([2, 0, 3, 1])
    draws = draw_labels(*given, num_draws=4000, seed=(1,))
    drawn = np.concatenate(list(draws), axis=1)
    np.testing.assert_allclose(drawn.sum(axis=0), rows.mass.sum())
    error = np.sqrt(rows.mass**2 @ (probs * (1 - probs)) / 4000)
    assert (np.abs(drawn.mean(axis=1) - rows.mass @ probs) <= NEAR * error).all()
    monkeypatch.setattr(null, "SPARE", -5.0)  # standard deviations: fewer steps than are wanted
    again = np.concatenate(list(draw_labels(*given, num_draws=4000, seed=(2,))), axis=1)
    assert (np.abs(again.mean(axis=1) - rows.mass @ probs) <= NEAR * error).all()


def test_the_draws_are_joint() -> None:
    """Of two classes one occurs where the other does not: their counts move against each other exactly."""
    classes = class_table(num_classes=2)
    filled = classes.sums.counts.numpy() > 0
    (drawn,) = draw_labels(lambda: classes.rows(15), filled, np.arange(2), num_draws=50, seed=(0,))
    counts = np.add.reduceat(drawn, [0, filled[0].sum()])
    np.testing.assert_array_equal(counts.sum(axis=0), np.full(50, 300.0))
    assert counts[0].std() > 1


def test_distances_of_common_and_rare_classes() -> None:
    """Many occurrences: the usual standard errors. A few: as unlikely as the Poisson distribution says."""
    expected, variance = np.array([10_000.0]), np.array([9_000.0])
    assert class_scores(np.array([10_190.0]), expected, variance)[0] == pytest.approx(2.0, abs=0.01)
    assert class_scores(np.array([9_810.0]), expected, variance)[0] == pytest.approx(-2.0, abs=0.01)
    rare = class_scores(np.array([0.0, 1.0, 3.0]), np.full(3, 0.01), np.full(3, 0.01))
    np.testing.assert_allclose(rare, [-np.sqrt(0.02), 2.69, 5.31], atol=0.01)
    certain = class_scores(np.array([0.0, 1.0]), np.array([0.0, 0.0]), np.array([0.0, 0.0]))
    np.testing.assert_array_equal(certain, [0.0, np.inf])
    # Those that do not occur in a draw included; one of these is the farthest in the second.
    occurs = np.array([[3.0, 3.0, -0.5], [0.0, 1.0, 0.0], [9.0, 0.0, 0.0]])
    expected, variance = np.array([3.0, 0.2, 4.0]), np.array([2.0, 0.2, 3.0])
    distances = np.abs(class_scores(occurs, expected, variance))
    assert distances[:, 1].argmax() == 2
    np.testing.assert_array_equal(farthest_scores(occurs, expected, variance), distances.max(axis=0))


def test_a_joint_p_value_is_uniform() -> None:
    """Of two unlike statistics of exchangeable draws, also where one is a copy of the other."""
    rng = np.random.default_rng(0)
    for copied in (False, True):
        found: list[float] = []
        for _ in range(400):
            first = rng.normal(size=100)
            second = first if copied else np.exp(rng.normal(size=100))
            found.append(joint_p_value([(first[0], first[1:]), (second[0], second[1:])]))
        for level in (0.05, 0.2, 0.5):
            share = float(np.mean(np.array(found) <= level + 1e-9))
            assert abs(share - level) < NEAR * np.sqrt(level * (1 - level) / 400)
    # What no draw reaches is as unlikely as the largest draw of the other statistic.
    draws = np.arange(99.0)
    assert joint_p_value([(200.0, draws), (0.0, draws)]) == 0.02
    assert joint_p_value([(0.0, draws), (200.0, draws)]) == 0.02
    assert joint_p_value([(200.0, draws), (200.0, draws)]) == 0.01
    assert joint_p_value([(-1.0, draws), (-1.0, draws)]) == 1.0


def test_each_class_is_held_against_the_furthest_of_all() -> None:
    """The p-value of a class is the share of draws in which any class is as far off, on either side."""
    null = ClassNull(
        scores=np.array([-3.5, 0.5, 1.5]),
        deviations=np.array([0.1, 0.2, 0.4]),
        farthest=np.array([1.0, 2.0, 3.0]),
    )
    np.testing.assert_allclose(null.adjusted_p_values(), [1 / 4, 1.0, 3 / 4])
    np.testing.assert_allclose(null.noise_floors(0.5), [0.2, 0.4, 0.8])
    undrawn = ClassNull(scores=np.array([-3.0, 0.5]), deviations=np.array([0.1, 0.2]))  # by the normal
    np.testing.assert_allclose(undrawn.adjusted_p_values(), [0.0054, 1.0], atol=1e-5)
    np.testing.assert_allclose(undrawn.noise_floors(0.95), [0.2241, 0.4483], atol=1e-4)


def test_the_class_wise_error_of_a_truth() -> None:
    """Of what is stated it is zero; the gaps found bring it towards the error found; a limit is met."""
    classes = class_table(2000, weighted=True)
    found = float(classes.sums.calibration_error("l1").mean())
    assert classes.error_of(classes.as_observed(0.0)) == pytest.approx(0.0, abs=1e-12)
    assert found / 2 < classes.error_of(classes.as_observed(1.0)) <= found  # since rows sum to one
    for family in (classes.as_observed, classes.furthest_away):
        looks: list[float] = []

        def counted(t: float, family=family, looks=looks) -> Truth:
            looks.append(t)
            return family(t)

        truth = classes.at(0.003, counted)
        assert len(looks) <= 10  # one more to give the truth
        assert classes.error_of(truth) == pytest.approx(0.003, rel=1e-5)
        for block in classes.rows(15, truth):
            np.testing.assert_allclose(block.probs.sum(axis=1), 1.0)
            assert (block.probs >= 0).all()
