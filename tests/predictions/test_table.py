"""What a table of predictions says about itself."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from calibrant._math.errors import InputError
from calibrant.predictions import Predictions, Source


def three_classes(**more: object) -> Predictions:
    logits = np.array([[2.0, 0.0, 0.0], [0.0, 3.0, 0.0], [1.0, 0.0, 1.0], [0.0, 0.0, 5.0]], dtype=np.float32)
    return Predictions(logits=logits, labels=[0, 1, 2, 0], **more)


@pytest.mark.parametrize(
    ("fields", "kind", "num_classes"),
    [
        ({"logits": [0.1, -0.3], "labels": [1, 0]}, "binary", 2),
        ({"probs": [0.1, 0.3]}, "binary", 2),
        ({"logits": [[0.1, 0.2], [1, 2]], "labels": [1, 0]}, "multiclass", 2),
        ({"probs": [[0.1, 0.2, 0.7], [1, 0, 0]]}, "multiclass", 3),
        ({"logits": [[0.1, 0.2], [1, 2]], "labels": [[1, 0], [1, 1]]}, "multilabel", 2),
        ({"probs": [[0.1, 0.2, 0.9], [1, 0, 1]], "kind": "multilabel"}, "multilabel", 3),
        ({"confidence": [0.9, 0.5], "correct": [True, False]}, "top_label", None),
    ],
)
def test_shapes_say_the_kind(fields, kind, num_classes) -> None:
    """The kind follows from the shapes; ``kind`` is needed only for several labels that are not known."""
    found = Predictions(**fields)
    assert (found.kind, found.num_classes, found.num_samples, len(found)) == (kind, num_classes, 2, 2)


def test_numbers_are_shared_and_kept() -> None:
    logits = np.zeros((4, 3), dtype=np.float32)
    found = Predictions(logits=logits, labels=np.zeros(4, dtype=np.uint8))
    assert found.values.data_ptr() == logits.ctypes.data
    assert found.scores.dtype == torch.float32
    assert found.labels.dtype == torch.int64
    probs = torch.tensor([[0.1, 0.9], [0.2, 0.8]], dtype=torch.float64)
    assert Predictions(probs=probs).probs.data_ptr() == probs.data_ptr()


def test_given_probabilities_stay_as_they_are() -> None:
    probs = np.array([[0.2, 0.8, 0.0], [1 / 3, 1 / 3, 1 / 3]])
    found = Predictions(probs=probs)
    assert found.probs.tolist() == probs.tolist()
    assert found.scores[0].tolist() == [np.log(0.2), np.log(0.8), -np.inf]
    assert found.notes == ()
    assert Predictions(probs=np.float16([[0.5, 0.5], [0.25, 0.75]])).values.dtype == torch.float16


def test_scores_of_events_are_log_odds() -> None:
    """Binary and multilabel probabilities give log-odds; 0 and 1 are infinitely far."""
    found = Predictions(probs=[0.0, 0.25, 0.5, 1.0])
    np.testing.assert_allclose(found.scores, [-np.inf, np.log(1 / 3), 0.0, np.inf], atol=1e-12)
    several = Predictions(probs=[[0.0, 0.25], [0.5, 1.0]], kind="multilabel")
    assert torch.equal(several.scores.flatten(), found.scores)


@given(st.lists(st.floats(-700, 700), min_size=4, max_size=4))
def test_probs_of_logits(values) -> None:
    """Logits give softmax or sigmoid in float64, so that probabilities and their scores agree."""
    rows = torch.tensor(values, dtype=torch.float64).reshape(2, 2)
    found = Predictions(logits=rows)
    torch.testing.assert_close(found.probs, rows.softmax(dim=1), atol=1e-12, rtol=1e-12)
    again = Predictions(logits=Predictions(probs=found.probs).scores.clamp(min=-1e3))
    torch.testing.assert_close(again.probs, found.probs, atol=1e-12, rtol=1e-12)
    event = Predictions(logits=rows[0])
    torch.testing.assert_close(event.probs, 1 / (1 + (-rows[0]).exp()), atol=1e-12, rtol=1e-12)


def test_confidence_and_correct() -> None:
    """The largest probability, and whether its class is the label; of several largest the first counts."""
    found = three_classes()
    largest = found.probs.max(dim=1).values
    assert torch.equal(found.confidence, largest)
    assert found.correct.tolist() == [True, True, False, False]  # the third is a tie, decided for class 0
    assert found.confidence.dtype == torch.float64
    assert found.correct.dtype == torch.bool


def test_confidence_of_events() -> None:
    """An event's confidence is the larger of p and 1 - p; one half predicts class 0, as ties do."""
    found = Predictions(probs=[0.2, 0.5, 0.75, 1.0], labels=[0, 0, 0, 1])
    assert found.confidence.tolist() == [0.8, 0.5, 0.75, 1.0]
    assert found.correct.tolist() == [True, True, False, True]
    several = Predictions(probs=[[0.2, 0.5], [0.75, 1.0]], labels=[[0, 0], [0, 1]])
    assert several.confidence.tolist() == [[0.8, 0.5], [0.75, 1.0]]
    assert several.correct.tolist() == [[True, True], [False, True]]


def test_confidence_and_correct_work_in_pieces(monkeypatch) -> None:
    """No (N, C) table of float64 is made: no piece is larger than 2**17, and they join to the whole."""
    logits = np.random.default_rng(0).normal(size=(3000, 200)).astype(np.float32)
    found = Predictions(logits=logits, labels=logits.argmax(axis=1))
    sizes: list[int] = []
    original = Predictions.probs_of

    def recording(self: Predictions, rows: slice) -> torch.Tensor:
        probs = original(self, rows)
        sizes.append(probs.numel())
        return probs

    whole = found.probs.max(dim=1).values
    monkeypatch.setattr(Predictions, "probs_of", recording)
    assert bool(found.correct.all())
    assert torch.equal(found.confidence, whole)
    assert sum(sizes) == 2 * logits.size
    assert max(sizes) <= 2**17


def test_top_label_knows_confidence_only() -> None:
    found = Predictions(confidence=np.float32([0.75, 0.5, 1.0]), correct=[1, 0, 1], weights=[1, 2, 3])
    assert found.confidence.tolist() == [0.75, 0.5, 1.0]
    assert found.correct.tolist() == [True, False, True]
    assert found.labels is None
    assert Predictions(confidence=[0.75, 0.5]).as_binary().labels is None  # it can be repaired
    found = Predictions(confidence=[0.75, 0.5], correct=[1, 0], groups=["a", "b"]).replace_probs([0.5, 0.25])
    assert (found.kind, found.space, found.confidence.tolist()) == ("top_label", "confidence", [0.5, 0.25])
    assert (found.correct.tolist(), found.groups) == ([True, False], ("a", "b"))
    assert found.labels is None


def test_every_way_to_say_the_split() -> None:
    """Numbers, truth values and words, in any spelling."""
    for split in (
        [0, 1, 1, 0],
        np.array([False, True, True, False]),
        ["calibration", "test", "test", "val"],
        np.array(["Val", "TEST", "test", "validation"]),
        np.array([b"val", b"test", b"test", b"val"]),
        ["0", "1", "1", "0"],
        torch.tensor([0.0, 1.0, 1.0, 0.0]),
    ):
        found = three_classes(split=split)
        assert (found.split.tolist(), found.split.dtype) == ([0, 1, 1, 0], torch.uint8)
        assert found.has_calibration


def test_calibration_and_test() -> None:
    """The two splits part the samples with all that belongs to them, and have no split themselves."""
    found = three_classes(split=[0, 1, 1, 0], weights=[1, 2, 3, 4], groups=["a", "b", "b", "c"], notes=["n"])
    first, second = found.calibration, found.test
    assert first.labels.tolist() == [0, 0]
    assert torch.equal(first.values, found.values[[0, 3]])
    assert second.weights.tolist() == [2, 3]
    assert (first.groups, second.groups) == (("a", "c"), ("b", "b"))
    assert (first.split, first.has_calibration, first.notes) == (None, False, ("n",))
    assert second.values.data_ptr() == found.values[1:].data_ptr()  # rows that lie together are not copied


def test_a_split_may_be_missing() -> None:
    assert not three_classes(split=[1] * 4).has_calibration
    assert three_classes(split=[1] * 4).test.num_samples == 4


def test_with_split() -> None:
    found = three_classes()
    other = found.with_split([0, 0, 1, 1])
    assert (found.split, other.with_split(None).split) == (None, None)
    assert other.calibration.num_samples == 2


@given(st.data())
def test_rows_choose_like_numpy(data) -> None:
    n = data.draw(st.integers(2, 8))
    found = Predictions(
        probs=np.linspace(0, 1, n), labels=np.arange(n) % 2, split=np.arange(n) % 2, groups=range(n)
    )
    index = data.draw(
        st.one_of(
            st.slices(n),
            st.lists(st.integers(-n, n - 1), min_size=2),
            st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
        )
    )
    expected = np.arange(n)[index]
    if len(expected) < 2:
        with pytest.raises(InputError, match="the chosen rows must hold at least two samples"):
            found.rows(index)
        return
    chosen = found.rows(index)
    assert chosen.groups == tuple(str(row) for row in expected)
    assert chosen.values.tolist() == np.linspace(0, 1, n)[index].tolist()
    assert chosen.labels.tolist() == chosen.split.tolist() == (expected % 2).tolist()


def test_replace_scores_keeps_everything_else() -> None:
    source = Source(name="a.npz", sha256="0" * 64, format="npz")
    found = three_classes(
        split=[0, 0, 1, 1],
        class_names=["a", "b", "c"],
        weights=[1, 2, 3, 4],
        groups=range(4),
        notes=["n"],
        source=source,
    )
    scores = torch.randn(4, 3, dtype=torch.float64)
    new = found.replace_scores(scores)
    assert new.space == "logits"
    assert torch.equal(new.scores, scores)
    for name in ("labels", "split", "class_names", "weights", "groups", "notes", "source", "kind"):
        assert getattr(new, name) is getattr(found, name)
    from_probs = Predictions(probs=[[0.5, 0.5], [0.1, 0.9]]).replace_scores([[1.0, 2.0], [3.0, 4.0]])
    assert (from_probs.space, from_probs.values.tolist()) == ("logits", [[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("old", "scores", "probs"),
    [
        ([[0.0, 0.0], [0.0, 0.0]], [[0.0, -np.inf], [0.0, 0.0]], [[1.0, 0.0], [0.5, 0.5]]),
        ([0.0, 0.0], [-np.inf, np.inf], [0.0, 1.0]),
    ],
)
def test_scores_of_probability_zero_become_probabilities(old, scores, probs, tmp_path) -> None:
    """A calibrator may say zero; the table then holds the probabilities, which every file can say."""
    new = Predictions(logits=old).replace_scores(scores)
    assert (new.space, new.probs.tolist(), new.scores.tolist()) == (
        "probs",
        probs,
        Predictions(probs=probs).scores.tolist(),
    )
    new.save(tmp_path / "p.csv")


def test_replace_probs() -> None:
    found = three_classes()
    probs = found.probs
    assert torch.equal(found.replace_probs(probs).probs, probs)
    assert found.replace_probs(probs).space == "probs"
    assert found.replace_probs(probs * 1.0005).notes == (
        "4 of 4 rows of `probs` missed one, by up to 0.0005, and were divided by their sum.",
    )
    several = Predictions(logits=[[0.0, 1.0], [0.0, 1.0]], labels=[[0, 1], [1, 1]])
    assert several.replace_probs([[0.5, 0.9], [0.5, 0.9]]).probs.tolist() == [[0.5, 0.9], [0.5, 0.9]]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rows_are_repaired_only_beyond_rounding(dtype) -> None:
    """Rows that rounding explains stay; others are divided by their sum, and the largest miss is said."""
    good, near, far = [0.25, 0.75], [0.25, 0.75 + 2**-20], [0.25, 0.75 + 2**-11]  # misses 0, 1e-6, 4.9e-4
    probs = np.array([good, near, far], dtype=dtype)
    found = Predictions(probs=probs)
    assert found.probs[:2].tolist() == probs[:2].astype(float).tolist()
    total = 1 + 2**-11
    tolerance = 1e-12 if dtype == np.float64 else 1e-7  # a float32 is stored
    np.testing.assert_allclose(found.probs[2], [0.25 / total, 1 - 0.25 / total], atol=tolerance)
    assert found.notes == (
        "1 of 3 rows of `probs` missed one, by up to 0.00049, and was divided by its sum.",
    )
    assert probs[2, 1] == dtype(0.75 + 2**-11)  # the caller's array is not touched


def test_a_probability_just_above_one_is_repaired() -> None:
    """Round-off above one goes: by the row's sum where there is a row, else to one."""
    rows = Predictions(probs=np.array([[1 + 1e-7, 0.0], [0.5, 0.5]]))
    assert rows.probs.tolist() == [[1.0, 0.0], [0.5, 0.5]]
    assert rows.notes == ("1 of 2 rows of `probs` missed one, by up to 1e-07, and was divided by its sum.",)
    events = Predictions(probs=[1.0005, 0.5])
    assert events.probs.tolist() == [1.0, 0.5]
    assert events.notes == ("1 of 2 values of `probs` exceeded 1, by up to 0.0005, and was set to 1.",)
    assert Predictions(confidence=[1.0005, 0.5], correct=[1, 0]).confidence.tolist() == [1.0, 0.5]


@given(st.integers(2, 30), st.sampled_from([np.float32, np.float64]), st.integers(0, 1000))
def test_a_softmax_is_never_repaired(num_classes, dtype, seed) -> None:
    """What a network's own softmax gives in float32 or float64 is left alone."""
    logits = np.random.default_rng(seed).normal(size=(5, num_classes)).astype(dtype) * 10
    probs = np.exp(logits - logits.max(axis=1, keepdims=True))
    probs /= probs.sum(axis=1, keepdims=True)
    found = Predictions(probs=probs)
    assert found.notes == ()
    assert found.values.data_ptr() == probs.ctypes.data


@pytest.mark.parametrize("faulty", ["never", "always"])
def test_the_repair_tests_bite(faulty, monkeypatch) -> None:
    """A table that never repairs, or repairs rows that rounding explains, is caught by the tests above."""
    planted = 1.0 if faulty == "never" else -1.0
    monkeypatch.setattr("calibrant.predictions.checks.ROUNDING_TOLERANCE", planted)
    with pytest.raises(AssertionError, match=r"assert|equal"):
        test_rows_are_repaired_only_beyond_rounding(np.float32)


def test_labels_may_be_names() -> None:
    """Names become the numbers of their classes; so do numbers, where no class has one for a name."""
    names = ["cat", "dog"]
    logits = np.zeros((3, 2))
    for labels in (
        np.array(["cat", "dog", "cat"], dtype=object),
        ["cat", "dog", "cat"],
        np.array(["cat", "dog", "cat"]),
        ["0", "1", "0"],
        ["0.0", "1.0", "0"],
    ):
        found = Predictions(logits=logits, labels=labels, class_names=names)
        assert found.labels.tolist() == [0, 1, 0]
    top = Predictions(confidence=[0.5, 0.7, 0.9], correct=[1, 0, 1], labels=["dog", "cat", "dog"])
    assert top.labels.tolist() == [1, 0, 1]
    shifted = Predictions(logits=logits, labels=["2", "1", "2"], class_names=["1", "2"])
    assert shifted.labels.tolist() == [1, 0, 1]


def test_names_are_tidied() -> None:
    """Blanks become single ones, as every file can hold them; plain numbers in order are no names."""
    found = three_classes(class_names=[" a\n b", "c", 3], groups=np.array([1, 2, 1, 3]))
    assert found.class_names == ("a b", "c", "3")
    assert found.groups == ("1", "2", "1", "3")
    assert three_classes(class_names=["0", "1", "2"]).class_names is None


def test_one_class_only_is_noted() -> None:
    """Labels that are all the same are allowed, and said; a class that never occurs is nothing special."""
    logits = np.zeros((3, 3))
    assert Predictions(logits=logits, labels=[2, 2, 2]).notes == ("Every label is 2: no other class occurs.",)
    named = Predictions(logits=logits, labels=[2, 2, 2], class_names=["a", "b", "c"], notes=["First."])
    assert named.notes == ("First.", "Every label is 2 (c): no other class occurs.")
    assert Predictions(logits=logits, labels=[0, 1, 1]).notes == ()


def test_repr_says_it_in_one_line() -> None:
    found = three_classes(split=[0, 1, 1, 1], weights=[1] * 4, groups=["a", "b", "a", "b"], notes=["n"])
    assert repr(found) == (
        "Predictions(multiclass, 4 samples, 3 classes, logits float32, 1 calibration + 3 test, weighted, "
        "2 groups, 1 note)"
    )
    source = Source(name="a.npz", sha256="", format="npz")
    binary = Predictions(probs=[0.1, 0.2], class_names=["no", "yes"], source=source)
    assert (
        repr(binary) == "Predictions(binary, 2 samples, probs float64, no labels, named classes, from a.npz)"
    )
