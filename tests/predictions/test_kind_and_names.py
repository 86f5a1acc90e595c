"""A kind that is asked for, names that others give to columns and arrays, and what to do about rounding."""

from __future__ import annotations

import re

import numpy as np
import pytest

from calibrant._math.errors import InputError
from calibrant.predictions import Predictions, load_predictions

EVENTS = {
    "logits": np.array([[2.0, 1.0, -1.0], [0.5, 0.0, 3.0]]),
    "probs": np.array([[0.9, 0.8, 0.1], [0, 0, 1]]),
}
ENDINGS = (".npz", ".csv", ".parquet", ".safetensors", ".pt")


def without_kind(space: str, path) -> None:
    """Write scores of three events under names that do not say that they are events."""
    if path.suffix == ".csv":
        header = ",".join(f"{space[:-1]}_{index}" for index in range(3))
        np.savetxt(path, EVENTS[space], delimiter=",", header=header, comments="")
    elif path.suffix == ".parquet":
        import pyarrow
        from pyarrow import parquet

        table = {f"{space[:-1]}_{index}": EVENTS[space][:, index] for index in range(3)}
        parquet.write_table(pyarrow.table(table), path)
    elif path.suffix == ".npz":
        np.savez(path, **{space: EVENTS[space]})
    else:
        import torch
        from safetensors.torch import save_file

        tensors = {space: torch.from_numpy(EVENTS[space])}
        save_file(tensors, path) if path.suffix == ".safetensors" else torch.save(tensors, path)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("space", ["logits", "probs"])
def test_unlabelled_events_are_read_by_kind(space, ending, tmp_path) -> None:
    """Without labels a table (N, C) is multilabel where that is asked for, in every format."""
    path = tmp_path / f"p{ending}"
    without_kind(space, path)
    found = load_predictions(path, kind="multilabel")
    assert (found.kind, found.space, found.labels) == ("multilabel", space, None)
    assert np.array_equal(found.values, EVENTS[space])
    if space == "probs":
        with pytest.raises(InputError, match=r"must have rows summing to 1.*or the kind multilabel"):
            load_predictions(path)
    else:
        assert load_predictions(path).kind == "multiclass"


@pytest.mark.parametrize(
    ("arrays", "kind", "said"),
    [
        (
            {"logits": EVENTS["logits"], "labels": [0, 2]},
            "multilabel",
            "`logits` must be multilabel; got multiclass of shape (2, 3), with labels of shape (2,).",
        ),
        (
            {"logits": EVENTS["logits"], "kind": "multilabel"},
            "multiclass",
            "it holds predictions of kind multilabel; kind multiclass was asked for.",
        ),
        ({"logits": EVENTS["logits"]}, "binary", "`logits` must be binary; got multiclass of shape (2, 3)."),
        (
            {"confidence": [0.5, 0.75], "correct": [0, 1]},
            "binary",
            "`confidence` goes with `correct`, without `class_names` or other `kind`.",
        ),
        (
            {"logits": EVENTS["logits"]},
            "several",
            "`kind` must be one of binary, multiclass, multilabel, top_label; got several.",
        ),
    ],
)
def test_a_kind_that_contradicts_the_file(arrays, kind, said, tmp_path) -> None:
    """The file's own word or shape counts, and one sentence says what differs."""
    path = tmp_path / "p.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=rf"\A{re.escape(f'{path}: {said}')}\Z"):
        load_predictions(path, kind=kind)


@pytest.mark.parametrize("form", ["prob", "prob_0,prob_1"])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_plural_columns(ending, form, tmp_path) -> None:
    """``labels``, ``weights`` and ``groups`` say the same as ``label``, ``weight`` and ``group``."""
    scores = {"prob": "0.25", "prob_0,prob_1": "0.25,0.75"}[form]
    found = []
    for header in ("label,weight,group", "labels,weights,groups"):
        path = tmp_path / "p.csv"
        path.write_text(f"{header},{form}\n0,2.5,a,{scores}\n1,1,b,{scores}\n")
        if ending == ".parquet":
            from pyarrow import csv, parquet

            parquet.write_table(csv.read_csv(path), tmp_path / "p.parquet")
            path = tmp_path / "p.parquet"
        found.append(load_predictions(path))
    for table in found:
        assert table.labels is not None
        assert table.weights is not None
        assert (table.labels.tolist(), table.weights.tolist()) == ([0, 1], [2.5, 1.0])
        assert table.groups == ("a", "b")
    assert found[0].notes == found[1].notes


@pytest.mark.parametrize("name", ["label", "weight", "group"])
def test_both_forms_of_a_column(name, tmp_path) -> None:
    """Two columns that would say the same are refused."""
    path = tmp_path / "p.csv"
    path.write_text(f"{name},{name}s,prob\n0,1,0.5\n1,1,0.5\n")
    said = f"{path}: it holds both `{name}` and `{name}s`; keep one of them."
    with pytest.raises(InputError, match=rf"\A{re.escape(said)}\Z"):
        load_predictions(path)


def test_rounded_rows_are_told_what_to_do() -> None:
    """Rows of two decimals may miss one by too much; what the message proposes makes them readable."""
    probs = np.array([[0.33, 0.33, 0.33], [0.2, 0.3, 0.5]])
    remedies = "name logits `logits`; divide rounded rows by their sum, or export more digits"
    with pytest.raises(InputError, match=remedies):
        Predictions(probs=probs)
    assert Predictions(probs=probs / probs.sum(axis=1, keepdims=True)).notes == ()


@pytest.mark.parametrize(
    ("arrays", "note"),
    [
        (
            {"logits_val": EVENTS["logits"], "logits_test": EVENTS["logits"], "y_true_test": [0, 1]},
            "Not used: `y_true_test`; if `y_true_test` holds the true classes, name it `labels_test`.",
        ),
        ({"logits": EVENTS["logits"], "labels": [0, 1], "y": [0, 1]}, "Not used: `y`."),
        ({"confidence": [0.5, 0.75], "correct": [0, 1], "y": [0, 1]}, "Not used: `y`."),
        ({"logits": EVENTS["logits"], "id": [0, 1]}, "Not used: `id`."),
    ],
)
def test_labels_by_another_name(arrays, note, tmp_path) -> None:
    """Where labels are absent, what looks like them is pointed out, and not used."""
    np.savez(tmp_path / "p.npz", **arrays)
    found = load_predictions(tmp_path / "p.npz")
    assert found.notes == (note,)
    assert (found.labels is None) == ("labels" not in arrays)
