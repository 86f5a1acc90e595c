"""What users have: the forms in which each kind of file may come."""

import gzip
import json
import subprocess
import sys

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import save_file

from calibrant import InputError
from calibrant.predictions import ColumnNames, Predictions, load_predictions
from calibrant.predictions.save_like import write_in_form_of
from tables_as_files import given_as

LOGITS = np.array([[2.0, 0.0, 1.0], [0.0, 3.0, 1.0], [1.0, 0.0, 2.0], [0.0, 1.0, 4.0]], dtype=np.float32)
PROBS = np.array([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.25, 0.25, 0.5], [0.125, 0.125, 0.75]])
LABELS = np.array([0, 1, 2, 0], dtype=np.uint8)


def read_parquet(folder, columns):
    parquet.write_table(pyarrow.table(columns), folder / "p.parquet")
    return load_predictions(folder / "p.parquet")


def test_paired_form(tmp_path) -> None:
    np.savez(
        tmp_path / "p.npz",
        probs_val=PROBS[:1],
        probs_test=PROBS[1:],
        labels_val=LABELS[:1],
        labels_test=LABELS[1:].astype(np.int64),
        groups_val=["x"],
        groups_test=["y", "yy", "z"],
        noisy_labels_val=LABELS[:1],
        split=[0, 0, 0, 0],
    )
    found = load_predictions(tmp_path / "p.npz")
    assert found.split.tolist() == [0, 1, 1, 1]
    assert np.array_equal(found.values, PROBS)
    assert found.labels.tolist() == [0, 1, 2, 0]
    assert found.groups == ("x", "y", "yy", "z")
    assert found.notes == ("Not used: `noisy_labels_val`, `split`.",)


@pytest.mark.parametrize(
    "arrays",
    [
        {"correct": [True, False]},
        {"correct": [1.0, 0.0], "true_label": [0, 1]},
        {"true_label": np.int16([3, 1]), "pred_label": np.int64([3, 2])},
        {"true_label": ["cat", "dog"], "pred_label": ["cat", "cow"]},
    ],
)
def test_top_label_only(arrays, tmp_path) -> None:
    np.savez(tmp_path / "p.npz", confidence=np.float32([0.75, 0.5]), **arrays)
    found = load_predictions(tmp_path / "p.npz")
    assert found.kind == "top_label"
    assert found.correct.tolist() == [True, False]
    assert found.confidence.tolist() == [0.75, 0.5]


def test_foreign_orders_and_python_objects_do_no_harm(tmp_path) -> None:
    """Another byte order, columns first, an ending in capitals, and objects that nobody asks for."""
    history = np.array([{"epoch": 1}], dtype=object)
    arrays = {"logits": np.asfortranarray(LOGITS.astype(">f8")), "labels": LABELS.astype(">i4")}
    np.savez(tmp_path / "p.npz", history=history, **arrays)
    found = load_predictions((tmp_path / "p.npz").rename(tmp_path / "P.NPZ"))
    assert np.array_equal(found.values, LOGITS)
    assert found.labels.tolist() == [0, 1, 2, 0]
    assert (found.source.format, found.notes) == ("npz", ("Not used: `history`.",))


def test_safetensors(tmp_path) -> None:
    tensors = {"probs": torch.from_numpy(PROBS), "labels": torch.from_numpy(LABELS), "extra": torch.zeros(1)}
    metadata = {"class_names": json.dumps(["a", "b", "ç"]), "producer": "me"}
    save_file(tensors, tmp_path / "p.safetensors", metadata=metadata)
    found = load_predictions(tmp_path / "p.safetensors")
    assert found.class_names == ("a", "b", "ç")
    assert found.labels.tolist() == [0, 1, 2, 0]
    assert found.notes == ("Not used: `extra`.",)


def test_pt(tmp_path) -> None:
    torch.save(
        {
            "logits_val": torch.from_numpy(LOGITS[:2]).requires_grad_(),
            "logits_test": torch.from_numpy(LOGITS[2:]),
            "labels_val": torch.tensor([0, 1]),
            "labels_test": torch.tensor([2, 0]),
            "class_names": ["a", "b", "c"],
            "epoch": 3,
        },
        tmp_path / "p.pt",
    )
    found = load_predictions(tmp_path / "p.pt")
    assert np.array_equal(found.values, LOGITS)
    assert found.split.tolist() == [0, 0, 1, 1]
    assert found.class_names == ("a", "b", "c")
    assert found.notes == ("Not used: `epoch`.",)


def test_a_packed_table(tmp_path) -> None:
    """A .csv.gz holds what the .csv holds, and the same predictions give the same bytes."""
    original = Predictions(logits=[[1.5, -2.0], [0.1, 3.0]], labels=[0, 1], class_names=["a", "b"])
    for name in ("p.csv", "p.csv.gz", "q.csv.gz"):
        original.save(tmp_path / name)
    assert gzip.decompress((tmp_path / "p.csv.gz").read_bytes()) == (tmp_path / "p.csv").read_bytes()
    assert (tmp_path / "p.csv.gz").read_bytes() == (tmp_path / "q.csv.gz").read_bytes()
    found = load_predictions(tmp_path / "p.csv.gz")
    assert found.values.tolist() == original.values.tolist()
    assert found.source.format == "csv.gz"


def test_parquet(tmp_path) -> None:
    columns = {
        "prob_cat": pyarrow.array([1, 0], pyarrow.int32()),
        "prob_dog": pyarrow.array([0.0, 1.0], pyarrow.float32()),
        "label": pyarrow.array(["dog", "cat"]).dictionary_encode(),
        "split": [0, 1],
        "weight": [1, 2],
        "group": pyarrow.array([3, 4], pyarrow.int8()),
        "id": ["x", "y"],
    }
    found = read_parquet(tmp_path, columns)
    assert found.values.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert found.labels.tolist() == [1, 0]
    assert (found.groups, found.notes) == (("3", "4"), ("Not used: `id`.",))
    top = read_parquet(tmp_path, {"confidence": [0.5, 0.75], "correct": [True, False]})
    assert top.correct.tolist() == [True, False]


def test_parquet_names_that_begin_alike(tmp_path) -> None:
    """A column is taken by its whole name, also where another begins with it and a dot."""
    columns = {"prob_a": [1.0, 0.0], "prob_a.b": [0.0, 1.0], "label": ["a.b", "a"]}
    found = read_parquet(tmp_path, columns)
    assert found.class_names == ("a", "a.b")
    assert found.values.tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_reading_is_lean(tmp_path) -> None:
    """Reading 40 MB of logits takes their memory once, and the paired form at most twice."""
    code = """
import sys
from pathlib import Path
from calibrant import load_predictions
def peak():
    return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith("VmHWM"))
load_predictions(sys.argv[1])
before = peak()
predictions = load_predictions(sys.argv[2])
predictions.confidence, predictions.correct
print((peak() - before) * 1024 / predictions.values.nbytes)
"""
    logits = np.zeros((20_000, 500), dtype=np.float32)
    labels = np.zeros(len(logits), dtype=np.int16)
    np.savez(tmp_path / "small.npz", logits=logits[:5], labels=labels[:5])
    np.savez(tmp_path / "plain.npz", logits=logits, labels=labels)
    half = len(logits) // 2
    np.savez(
        tmp_path / "paired.npz",
        logits_val=logits[:half],
        logits_test=logits[half:],
        labels_val=labels[:half],
        labels_test=labels[half:],
    )
    for name, most in (("plain.npz", 1.5), ("paired.npz", 2.5)):  # half a table of room for everything else
        command = [sys.executable, "-c", code, str(tmp_path / "small.npz"), str(tmp_path / name)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert float(done.stdout) < most, name


@pytest.mark.parametrize("sized", [-1, 3])
def test_parquet_column_of_whole_rows(sized: int, tmp_path) -> None:
    """A list of all classes in each cell, of any length or a fixed one; companions by either name."""
    logits = pyarrow.array([[0.5, 2.0, 1.0], [0.0, -1.0, 3.0]], pyarrow.list_(pyarrow.float32(), sized))
    more = {"label": [1, 2], "weight": [1.0, 3.0], "site": ["a", "b"]}
    parquet.write_table(pyarrow.table({"logits": logits, **more}), tmp_path / "t.parquet")
    found = load_predictions(tmp_path / "t.parquet", columns=ColumnNames(group="site"))
    assert found.scores.tolist() == logits.to_pylist()
    assert (found.labels.tolist(), found.weights.tolist()) == ([1, 2], [1.0, 3.0])
    assert (found.groups, found.notes) == (("a", "b"), ())
    names = (tmp_path / "t.parquet", ".parquet", tmp_path / "u.parquet", ".parquet")
    assert write_in_form_of(*names, found)
    written = load_predictions(tmp_path / "u.parquet")
    torch.testing.assert_close(written.probs, found.probs)
    assert parquet.read_table(tmp_path / "u.parquet").column_names == ["probs", *more]


UNLABELLED = {
    "logits": np.array([[2.0, 1.0, -1.0], [0.5, 0.0, 3.0]]),
    "probs": np.array([[0.875, 0.75, 0.125], [0, 0, 1]]),
}


@pytest.mark.parametrize("ending", ["npz", "csv", "parquet", "safetensors", "pt"])
@pytest.mark.parametrize("space", ["logits", "probs"])
def test_unlabelled_events_are_read_by_kind(space, ending, tmp_path) -> None:
    """Without labels a table (N, C) is multilabel where that is asked for, in every format."""
    columns = {space: UNLABELLED[space].tolist()}
    if ending in {"csv", "parquet"}:
        columns = {f"{space[:-1]}_{index}": UNLABELLED[space][:, index].tolist() for index in range(3)}
    found = given_as(tmp_path, ending, columns, kind="multilabel")
    assert (found.kind, found.space, found.labels) == ("multilabel", space, None)
    assert np.array_equal(found.values, UNLABELLED[space])
    if space == "probs":
        with pytest.raises(InputError, match=r"must have rows summing to 1.*use the kind multilabel"):
            given_as(tmp_path, ending, columns)
    else:
        assert given_as(tmp_path, ending, columns).kind == "multiclass"


@pytest.mark.parametrize(
    ("arrays", "note"),
    [
        (
            {"logits_val": LOGITS, "logits_test": LOGITS, "y_true_test": LABELS},
            "`y_true_test`; if `y_true_test` holds the true classes, name it `labels_test`",
        ),
        ({"logits": LOGITS, "labels": LABELS, "y": LABELS}, "`y`"),
        ({"confidence": [0.5, 0.75], "correct": [0, 1], "y": [0, 1]}, "`y`"),
        ({"logits": LOGITS, "id": LABELS}, "`id`"),
    ],
)
def test_labels_by_another_name(arrays, note, tmp_path) -> None:
    np.savez(tmp_path / "p.npz", **arrays)
    found = load_predictions(tmp_path / "p.npz")
    assert found.notes == (f"Not used: {note}.",)
    assert (found.labels is None) == ("labels" not in arrays)


def test_foreign_byte_order_and_column_order(tmp_path) -> None:
    np.savez(tmp_path / "p.npz", logits=np.asfortranarray(LOGITS.astype(">f8")), labels=LABELS.astype(">i4"))
    found = load_predictions(tmp_path / "p.npz")
    assert np.array_equal(found.values, LOGITS)
    assert found.labels.tolist() == [0, 1, 2, 0]
