"""Scores that stay in their file are the scores that would be in memory."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from calibrant import InputError
from calibrant.predictions import Predictions, files, load_predictions, open_predictions, stores
from calibrant.predictions.formats import parquet as parquet_format


@pytest.fixture(params=["npy", "parquet"])
def both(request: Any, tmp_path: Path, rng: np.random.Generator, monkeypatch: Any) -> list[Predictions]:
    """The same predictions in pieces of a few rows and in memory."""
    monkeypatch.setattr(stores, "PIECE", 70)
    monkeypatch.setattr(parquet_format, "PIECE", 50)
    logits = rng.normal(size=(101, 7)).astype(np.float32)
    arrays = {
        "logits": logits,
        "labels": rng.integers(0, 7, 101),
        "split": rng.integers(0, 2, 101),
        "weights": rng.random(101),
        "groups": np.array(["a", "b"])[rng.integers(0, 2, 101)],
    }
    held = Predictions(**arrays)
    if request.param == "npy":
        for name, array in arrays.items():
            np.save(tmp_path / f"{name}.npy", array)
        return [open_predictions(tmp_path, stream=True), held]
    import pyarrow
    from pyarrow import parquet

    held.save(tmp_path / "whole.parquet")
    table = parquet.read_table(tmp_path / "whole.parquet")
    assert isinstance(table, pyarrow.Table)
    parquet.write_table(table, tmp_path / "groups.parquet", row_group_size=23)
    return [open_predictions(tmp_path / "groups.parquet", stream=True), held]


def test_everything_read_is_what_memory_holds(both, assert_same) -> None:
    streamed, held = both
    assert streamed.streamed
    assert not held.streamed
    parts = ((streamed.test, held.test), (streamed.calibration, held.calibration))
    for one, other in ((streamed, held), *parts):
        assert_same(one, other)
        assert torch.equal(one.probs, other.probs)
        assert torch.equal(one.confidence, other.confidence)
        assert torch.equal(one.correct, other.correct)


def test_any_rows_in_any_order(both, rng) -> None:
    streamed, held = both
    shuffled = rng.integers(0, 101, size=60)
    for index in (slice(3, 40), slice(None, None, -2), shuffled, shuffled[:2]):
        assert torch.equal(streamed.rows(index).values, held.rows(index).values)
    assert torch.equal(
        streamed.rows(shuffled).rows([5, 1]).scores_of(slice(None)), held.rows(shuffled).rows([5, 1]).scores
    )
    assert torch.equal(streamed.probs_of(slice(90, 101)), held.probs_of(slice(90, 101)))
    assert torch.equal(streamed.probs_of(slice(2, 9)), held.probs_of(slice(2, 9)))  # backwards in the file


def test_it_can_be_loaded_saved_and_changed(both, assert_same, tmp_path) -> None:
    streamed, held = both
    loaded = streamed.loaded()
    assert not loaded.streamed
    assert_same(loaded, held)
    assert_same(streamed.replace_scores(2 * held.values), held.replace_scores(2 * held.values))
    assert_same(streamed.replace_probs(held.probs), held.replace_probs(held.probs))
    streamed.save(tmp_path / "copy.npz")
    assert_same(load_predictions(tmp_path / "copy.npz"), held)


def test_progress_is_told(both) -> None:
    """A watcher sees the share of its own rows that was reached, up to one."""
    seen: list[float] = []
    part = both[0].test
    part.watch(seen.append)
    for start in range(0, part.num_samples, 10):
        part.probs_of(slice(start, start + 10))
    assert seen == sorted(seen)
    assert seen[-1] == 1


def write(folder: Path, **arrays: Any) -> Path:
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return folder


def test_rows_of_probabilities_are_repaired_alike_and_counted_once(tmp_path, rng, monkeypatch) -> None:
    """Reading twice does not count the rows that missed one twice; the values are those of memory."""
    monkeypatch.setattr(stores, "PIECE", 12)
    probs = rng.dirichlet(np.ones(3), size=40)
    probs[[3, 30]] *= 1.0005
    write(tmp_path, probs=probs, labels=rng.integers(0, 3, 40))
    held, streamed = load_predictions(tmp_path), open_predictions(tmp_path, stream=True)
    for _ in range(2):
        assert torch.equal(streamed.values, held.values)
    assert streamed.notes == held.notes
    assert streamed.notes[0].startswith("2 of 40 rows of `probs` missed one, by up to 0.0005")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("logits", (33, 1, np.nan), r"`logits` must be finite; row 33 holds nan"),
        ("logits", (0, 1, np.inf), r"`logits` must be finite; row 0 holds inf"),
        ("probs", (33, 1, 3.0), r"in rows 32 to 35, counted from 32: .*row 1 holds 3"),
        ("probs", (33, 1, -0.5), r"row 1 holds -0.5"),
    ],
)
def test_what_is_no_score_is_named_when_it_is_read(tmp_path, rng, monkeypatch, name, change, message) -> None:
    monkeypatch.setattr(stores, "PIECE", 12)
    scores = rng.dirichlet(np.ones(3), size=40)
    row, column, value = change
    scores[row, column] = value
    write(tmp_path, **{name: scores}, labels=rng.integers(0, 3, 40))
    with pytest.raises(InputError, match=message):
        _ = open_predictions(tmp_path, stream=True).values


def test_labels_are_checked_at_once(tmp_path, rng) -> None:
    scores = rng.normal(size=(40, 3))
    write(tmp_path, logits=scores, labels=np.full(40, 3))
    with pytest.raises(InputError, match=r"`labels` must be in 0..2; row 0 holds 3"):
        open_predictions(tmp_path, stream=True)
    write(tmp_path, labels=np.zeros(39, int))
    with pytest.raises(
        InputError, match=r"`labels` must have shape \(40,\), one class per sample; got \(39,\)"
    ):
        open_predictions(tmp_path, stream=True)


def test_what_cannot_be_read_in_pieces_is_said(tmp_path, rng) -> None:
    write(tmp_path, logits=rng.normal(size=40), labels=rng.integers(0, 2, 40))
    with pytest.raises(InputError, match="only the scores of several classes, with one label each"):
        open_predictions(tmp_path, stream=True)
    assert open_predictions(tmp_path).kind == "binary"
    write(tmp_path, logits=rng.normal(size=(40, 3)), labels=rng.integers(0, 2, (40, 3)))
    assert open_predictions(tmp_path).kind == "multilabel"
    load_predictions(tmp_path).save(tmp_path / "p.npz")
    with pytest.raises(InputError, match=r"can only be read whole; .npy and .parquet"):
        open_predictions(tmp_path / "p.npz", stream=True)
    with pytest.raises(InputError, match="`labels` go with scores in a"):
        open_predictions(tmp_path / "p.npz", labels=tmp_path / "labels.npy")
    write(tmp_path, logits=np.asfortranarray(rng.normal(size=(40, 3))), labels=rng.integers(0, 3, 40))
    with pytest.raises(InputError, match=r"stored column by column; write numpy.ascontiguousarray"):
        open_predictions(tmp_path, stream=True)
    assert open_predictions(tmp_path).num_classes == 3


def test_large_files_are_streamed_without_being_asked(tmp_path, rng, monkeypatch) -> None:
    write(tmp_path, logits=rng.normal(size=(40, 3)), labels=rng.integers(0, 3, 40))
    assert not open_predictions(tmp_path).streamed
    monkeypatch.setattr(files, "STREAM_ABOVE", 40 * 3 * 8 - 1)
    assert open_predictions(tmp_path).streamed
    assert not open_predictions(tmp_path, stream=False).streamed


class Counted:
    """Rows of an array that count how often they are read."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self._values = torch.from_numpy(values)
        self.shape = tuple(self._values.shape)
        self.dtype = self._values.dtype
        self.reads = 0

    def read(self, start: int, stop: int) -> torch.Tensor:
        self.reads += 1
        return self._values[start:stop].clone()


def test_anything_that_reads_rows_will_do(rng, assert_same) -> None:
    logits, labels = rng.normal(size=(9, 3)), rng.integers(0, 3, 9)
    found = Predictions(logits=Counted(logits), labels=labels, class_names=["a", "b", "c"])
    assert found.streamed
    assert_same(found, Predictions(logits=logits, labels=labels, class_names=["a", "b", "c"]))


@pytest.mark.parametrize(
    ("rows", "more", "message"),
    [
        (1, {"labels": [0]}, "`logits` must hold at least two samples; got 1"),
        (
            9,
            {"kind": "multilabel"},
            "only multiclass predictions are read in pieces; got the kind multilabel",
        ),
        (9, {"correct": [True] * 9}, "`correct` and the kind top_label go with `confidence`"),
        (9, {"weights": [0.0] * 9}, "`weights` must not all be zero"),
    ],
)
def test_what_does_not_go_with_rows_of_a_file(rng, rows, more, message) -> None:
    """Too few rows, another kind, and what belongs to confidences are refused before a row is read."""
    file = Counted(rng.normal(size=(rows, 3)))
    with pytest.raises(InputError, match=message):
        Predictions(logits=file, **more)
    assert file.reads == 0


def test_notes_stay_when_scores_are_loaded(rng) -> None:
    """Given notes, oddities and repairs are those of the streamed predictions after a whole pass."""
    probs = rng.dirichlet(np.ones(3), size=9)
    probs[4] *= 1.0005
    streamed = Predictions(probs=Counted(probs), labels=np.zeros(9, int), notes=["Not used: `x`."])
    loaded = streamed.loaded()
    assert loaded.notes == streamed.notes
    held = Predictions(probs=probs, labels=np.zeros(9, int), notes=["Not used: `x`."])
    assert set(loaded.notes) == set(held.notes)
    assert len(held.notes) == 3


def test_new_scores_need_no_reading(rng, assert_same) -> None:
    logits = rng.normal(size=(9, 3))
    file = Counted(logits)
    streamed = Predictions(logits=file, labels=rng.integers(0, 3, 9))
    before = file.reads
    replaced = streamed.replace_scores(2 * logits)
    assert file.reads == before
    assert not replaced.streamed
    assert_same(replaced, streamed.loaded().replace_scores(2 * logits))
