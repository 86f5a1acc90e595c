"""A kind that is asked for, names that others give to columns and arrays, and what to do about rounding."""

import re

import numpy as np
import pytest

from calibrant._math.errors import InputError
from calibrant.predictions import load_predictions
from tables_as_files import given_as

EVENTS = {
    "logits": np.array([[2.0, 1.0, -1.0], [0.5, 0.0, 3.0]]),
    "probs": np.array([[0.875, 0.75, 0.125], [0, 0, 1]]),
}
ENDINGS = ("npz", "csv", "parquet", "safetensors", "pt")


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("space", ["logits", "probs"])
def test_unlabelled_events_are_read_by_kind(space, ending, tmp_path) -> None:
    """Without labels a table (N, C) is multilabel where that is asked for, in every format."""
    columns = {space: EVENTS[space].tolist()}
    if ending in {"csv", "parquet"}:
        columns = {f"{space[:-1]}_{index}": EVENTS[space][:, index].tolist() for index in range(3)}
    found = given_as(tmp_path, ending, columns, kind="multilabel")
    assert (found.kind, found.space, found.labels) == ("multilabel", space, None)
    assert np.array_equal(found.values, EVENTS[space])
    if space == "probs":
        with pytest.raises(InputError, match=r"must have rows summing to 1.*use the kind multilabel"):
            given_as(tmp_path, ending, columns)
    else:
        assert given_as(tmp_path, ending, columns).kind == "multiclass"


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
            "it holds predictions of kind multilabel, not multiclass.",
        ),
        ({"logits": EVENTS["logits"]}, "binary", "`logits` must be binary; got multiclass of shape (2, 3)."),
        (
            {"confidence": [0.5, 0.75], "correct": [0, 1]},
            "binary",
            "`confidence` takes `correct`, but no `class_names` or other `kind`.",
        ),
        (
            {"logits": EVENTS["logits"]},
            "several",
            "`kind` must be one of binary, multiclass, multilabel, top_label; got several.",
        ),
    ],
)
def test_a_kind_that_contradicts_the_file(arrays, kind, said, tmp_path) -> None:
    path = tmp_path / "p.npz"
    np.savez(path, **arrays)
    with pytest.raises(InputError, match=rf"\A{re.escape(f'{path}: {said}')}\Z"):
        load_predictions(path, kind=kind)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_plural_columns(ending, tmp_path) -> None:
    """``labels``, ``weights`` and ``groups`` say the same as ``label``, ``weight`` and ``group``."""
    found = []
    for plural in ("", "s"):
        row = {f"label{plural}": 0, f"weight{plural}": 2.5, f"group{plural}": "a", "prob": 0.25}
        found.append(given_as(tmp_path, ending, [row, row]))
    for table in found:
        assert (table.labels.tolist(), table.weights.tolist()) == ([0, 0], [2.5, 2.5])
        assert table.groups == ("a", "a")
    assert found[0].notes == found[1].notes


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
    np.savez(tmp_path / "p.npz", **arrays)
    found = load_predictions(tmp_path / "p.npz")
    assert found.notes == (note,)
    assert (found.labels is None) == ("labels" not in arrays)
