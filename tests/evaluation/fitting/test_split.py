"""Which samples calibrators are fitted on, and which they are judged on."""

import numpy as np
import pytest
import torch

from calibrant import InputError
from calibrant.evaluation.fitting import split as split_module
from calibrant.evaluation.fitting.split import choose_split, stratified_folds
from calibrant.predictions import Predictions, Source


def test_a_given_split_is_taken(made) -> None:
    """Fitted on what is marked 0, judged on what is marked 1, and nothing is announced; or other ones."""
    other = made("multiclass", 50, seed=1)
    with_split = choose_split(made("multiclass", 100, split=np.arange(100) % 4 == 0), other, 0)
    without = choose_split(made("multiclass", 100), other, 0)
    assert (with_split.num_calibration, with_split.test.num_samples) == (50, 25)
    assert (without.num_calibration, without.test.num_samples) == (50, 100)
    assert with_split.words == "all 50 samples of other predictions"
    split = np.arange(100) % 3 == 0
    chosen = choose_split(made("multiclass", 100, split=split), None, 0)
    assert chosen.calibration is not None
    assert (chosen.num_calibration, chosen.test.num_samples, chosen.folds) == (66, 34, None)
    assert "calibration split" in chosen.words
    assert not chosen.announce


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_without_a_split_all_samples_are_judged(made, kind) -> None:
    """Each with calibrators fitted on the other folds, which hold each class alike; the reader is told."""
    predictions = made(kind, 1501, seed=3)
    chosen = choose_split(predictions, None, 0)
    assert chosen.announce
    assert "5-fold cross-fitting" in chosen.words
    assert chosen.calibration is chosen.test is predictions
    sizes = np.bincount(chosen.folds)
    assert sizes.max() - sizes.min() <= 1


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_large_files_without_a_split_are_halved_within_each_class(made, kind, monkeypatch) -> None:
    """Each class is halved, the halves are disjoint and together everything, and the reader is told."""
    monkeypatch.setattr(split_module, "MOST_CROSS_FITTED", 1000)
    predictions = made(kind, 1501, seed=3)
    folds = stratified_folds(predictions, 2, 0)
    chosen = choose_split(predictions, None, 0)
    assert chosen.announce
    assert "seed 0" in chosen.words
    assert "calibration split" not in chosen.words
    assert (chosen.num_calibration, chosen.test.num_samples) == (751, 750)
    assert torch.equal(chosen.calibration.scores, predictions.scores[torch.from_numpy(folds == 0)])
    assert torch.equal(chosen.test.scores, predictions.scores[torch.from_numpy(folds == 1)])
    if kind != "multilabel":
        for label in predictions.labels.unique():
            of_label = folds[(predictions.labels == label).numpy()]
            assert abs(2 * of_label.sum() - len(of_label)) <= 1


@pytest.mark.parametrize("most", [500, 2000], ids=["halves", "folds"])
def test_many_samples_of_one_event_are_sorted(made, most, monkeypatch) -> None:
    """Test and calibration samples ascend, each with its own label and fold; others stay as they are."""
    monkeypatch.setattr(split_module, "MOST_CROSS_FITTED", most)
    given = made("binary", 1000, seed=3)
    kept = choose_split(given, None, 0).judged(None)
    assert kept.ascending.test is kept.test
    monkeypatch.setattr(split_module, "MOST_UNITS", 400)
    found = kept.ascending
    for before, after in ((kept.test, found.test), (kept.calibration, found.calibration)):
        order = before.scores.argsort()
        assert torch.equal(after.scores, before.scores[order])
        assert torch.equal(after.labels, before.labels[order])
    if kept.folds is not None:
        assert np.array_equal(found.folds, kept.folds[kept.test.scores.argsort()])


def test_rare_labels_are_spread(made) -> None:
    """Each of five folds holds one or two of the seven samples that have the rarest label."""
    rng = np.random.default_rng(0)
    labels = (rng.random((400, 3)) < [0.5, 0.3, 0.0]).astype(int)
    labels[rng.permutation(400)[:7], 2] = 1
    predictions = Predictions(logits=rng.normal(size=(400, 3)), labels=labels)
    folds = stratified_folds(predictions, 5, 0)
    assert sorted(np.bincount(folds[labels[:, 2] == 1], minlength=5)) == [1, 1, 1, 2, 2]


@pytest.mark.parametrize("clustered", [False, True])
@pytest.mark.parametrize("kind", ["multiclass", "multilabel"])
def test_the_order_of_the_columns_does_not_divide_the_samples(kind, clustered) -> None:
    """Folds are the same with classes numbered otherwise; rare labels are as frequent as each other."""
    rng = np.random.default_rng(0)
    labels, order = rng.integers(4, size=90), np.array([3, 1, 0, 2])
    if kind == "multilabel":
        labels = np.eye(4, dtype=int)[np.arange(90) % 4] * (np.arange(90) >= 54)[:, None]
    moved = labels[:, order] if kind == "multilabel" else order.argsort()[labels]
    clusters = [str(k // 3) for k in range(90)] if clustered else None
    given = (
        Predictions(logits=np.zeros((90, 4)), labels=each, clusters=clusters) for each in (labels, moved)
    )
    first, second = (stratified_folds(each, 5, 0) for each in given)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("split", [None, np.ones(300), np.zeros(300)])
def test_few_samples_are_fitted_and_judged_in_turn(made, split) -> None:
    """Below 1000 samples: five folds over all, also where a split has one part; none of two samples."""
    none = choose_split(made("multiclass", 2), None, 0)
    assert (none.calibration, none.words.startswith("none: 2 samples are too few")) == (None, True)
    chosen = choose_split(made("multiclass", 300, split=split), None, 0)
    assert np.bincount(chosen.folds).tolist() == [60] * 5
    assert (chosen.num_calibration, chosen.test.num_samples) == (300, 300)
    assert "5-fold cross-fitting" in chosen.words
    assert chosen.announce


def test_top_label_predictions_are_divided_alike(made) -> None:
    """By their split, in turn, or in halves that are right alike; fitted on is that they are right."""
    marked = choose_split(made("top_label", 60, split=np.arange(60) % 2), None, 0)
    assert (marked.num_calibration, marked.test.num_samples) == (30, 30)
    few = choose_split(made("top_label", 60), None, 0)
    assert (few.num_calibration, few.test.num_samples, few.folds is None) == (60, 60, False)
    halves = choose_split(made("top_label", 1000), None, 0)
    assert abs(int(halves.calibration.correct.sum()) - int(halves.test.correct.sum())) <= 1
    fitted, judged = halves.judged(None).calibration, halves.judged(None).test
    assert (fitted.kind, judged.kind) == ("binary", "top_label")
    assert fitted.labels.tolist() == halves.calibration.correct.int().tolist()


def test_the_file_that_is_judged_is_not_fitted_on(made) -> None:
    """The same file, or the same object, is refused as ``calibration``."""
    files = [Source(name=name, sha256=digit * 64, format="npz") for name, digit in (("a", "0"), ("b", "1"))]
    first, same, other = (made("binary", 50, source=files[place]) for place in (0, 0, 1))
    for calibration in (first, same):
        with pytest.raises(InputError, match="without it, the file's own calibration split is used"):
            choose_split(first, calibration, 0)
    assert choose_split(first, other, 0).words == "all 50 samples of b"


def test_parts_of_one_file_may_be_fitted_on_and_judged(made) -> None:
    """Taken apart by the caller they hold other samples; with a split left in one, the file is refused."""
    file = Source(name="a", sha256="0" * 64, format="npz")
    first, second = (made("binary", 50, source=file, seed=seed) for seed in (0, 1))
    assert choose_split(first, second, 0).words == "all 50 samples of a"
    undivided = made("binary", 50, source=file, split=np.arange(50) % 2)
    for judged, fitted in ((undivided, second), (second, undivided)):
        with pytest.raises(InputError, match="must be other predictions than those evaluated"):
            choose_split(judged, fitted, 0)
