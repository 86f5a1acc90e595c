"""One table of names serves every format: each known name, walked through each of them."""

from __future__ import annotations

import pytest

from calibrant._math.errors import InputError
from calibrant.predictions import ColumnNames
from calibrant.predictions.formats.aliases import (
    CONFIDENCES,
    DECISIONS,
    FAMILIES,
    LABELS,
    OUTCOMES,
    PREDICTED,
    SINGLE,
    WEIGHTS,
)
from tables_as_files import given_as

TABLES = ("csv", "csv.gz", "tsv", "json", "jsonl", "parquet", "feather", "pandas", "polars")
ARRAYS = ("npz", "npy", "pt", "safetensors", "json of arrays", "json of pandas")
LABELLED, PROBS, WEIGHTS_GIVEN = [1, 0, 1], [0.75, 0.5, 0.25], [1.0, 2.0, 0.5]


@pytest.mark.parametrize("ending", [*TABLES, *ARRAYS])
@pytest.mark.parametrize("name", ["label", "labels", "Y_True", *LABELS])
def test_every_name_of_true_classes(tmp_path, ending, name) -> None:
    found = given_as(tmp_path, ending, {name: LABELLED, "prob": PROBS})
    assert (found.kind, found.labels.tolist(), found.probs.tolist()) == ("binary", LABELLED, PROBS)


@pytest.mark.parametrize("ending", [*TABLES, *ARRAYS])
@pytest.mark.parametrize("name", ["prob", "logit", *SINGLE, *DECISIONS])
def test_every_name_of_a_single_score(tmp_path, ending, name) -> None:
    found = given_as(tmp_path, ending, {"y": LABELLED, name: PROBS})
    assert (found.kind, found.labels.tolist(), found.values.tolist()) == ("binary", LABELLED, PROBS)
    assert found.space == ("logits" if name == "logit" else "probs")


@pytest.mark.parametrize("ending", [*TABLES, *ARRAYS])
@pytest.mark.parametrize("name", DECISIONS)
def test_decisions_are_told_by_their_values(tmp_path, ending, name) -> None:
    with pytest.raises(InputError, match=rf"it holds decisions \(`{name}`\), and no probabilities"):
        given_as(tmp_path, ending, {"y": LABELLED, name: [1, 0, 0]})


@pytest.mark.parametrize("ending", [*TABLES, *ARRAYS])
@pytest.mark.parametrize("name", ["weight", "weights", "Sample_Weight", *WEIGHTS])
def test_every_name_of_weights(tmp_path, ending, name) -> None:
    found = given_as(tmp_path, ending, {"y": LABELLED, "prob": PROBS, name: WEIGHTS_GIVEN})
    assert found.weights.tolist() == WEIGHTS_GIVEN
    assert name in {"weight", "weights"} or any(f"`{name}` as `weight" in note for note in found.notes)


@pytest.mark.parametrize("ending", [*TABLES, *ARRAYS])
def test_groups_are_called_alike_in_every_format(tmp_path, ending) -> None:
    """A text file says True and 1; numbers with gaps are floats in a frame; none is a group of its own."""
    table, wanted = {"y": LABELLED, "prob": PROBS}, ("True", "False", "True")
    assert given_as(tmp_path, ending, table | {"group": [True, False, True]}).groups == wanted
    if ending in TABLES:
        (folder := tmp_path / "gaps").mkdir()
        found = given_as(folder, ending, table | {"group": [1, None, 2]})
        assert found.groups == ("1", "unknown", "2")
        with pytest.raises(InputError, match=r"must hold a name in every row; (line [23]|row 1) is empty"):
            given_as(folder, ending, table | {"cluster": ["a", None, "b"]})


@pytest.mark.parametrize("ending", TABLES)
def test_weights_of_another_name_are_named(tmp_path, ending) -> None:
    columns = {"y": LABELLED, "prob": PROBS, "w": [1, 1, 1], "exposure": WEIGHTS_GIVEN, "n": [3, 2, 1]}
    remedy = "say so by `columns`" if ending in {"pandas", "polars"} else r"\(--weight-column\)"
    with pytest.raises(InputError, match=rf"holds the weights, `exposure` or `w`\? .*{remedy}"):
        given_as(tmp_path, ending, columns)
    unread = given_as(tmp_path, ending, {"y": LABELLED, "prob": PROBS, "obs_weight": WEIGHTS_GIVEN})
    said = next(
        note for note in unread.notes if "`obs_weight`; if `obs_weight` holds weights, call it" in note
    )
    assert ("--weight-column" in said) == (ending not in {"pandas", "polars"})
    for name in ("exposure", "n"):
        found = given_as(tmp_path, ending, columns, columns=ColumnNames(weight=name))
        assert found.weights.tolist() == columns[name]


@pytest.mark.parametrize("ending", [*TABLES, *ARRAYS])
@pytest.mark.parametrize("prefix", ["prob_", "logit_", *FAMILIES["prob"], *FAMILIES["logit"]])
def test_every_name_of_scores_by_class(tmp_path, ending, prefix) -> None:
    family = next(name for name, known in FAMILIES.items() if prefix in {f"{name}_", *known})
    scores = {f"{prefix}{k}": [p if k else 1 - p for p in PROBS] for k in range(2)}
    found = given_as(tmp_path, ending, {"y": LABELLED, **scores})
    assert (found.kind, found.num_classes, found.labels.tolist()) == ("multiclass", 2, LABELLED)
    assert (found.space, found.values[:, 1].tolist()) == ({"prob": "probs"}.get(family, "logits"), PROBS)


@pytest.mark.parametrize("ending", [*TABLES, *ARRAYS])
@pytest.mark.parametrize("confidence", ["confidence", *CONFIDENCES])
def test_every_name_of_confidences(tmp_path, ending, confidence) -> None:
    for number, outcome in enumerate(["correct", *OUTCOMES]):
        (folder := tmp_path / str(number)).mkdir()
        found = given_as(folder, ending, {confidence: PROBS, outcome: LABELLED})
        assert (found.kind, found.confidence.tolist()) == ("top_label", PROBS)
        assert found.correct.tolist() == [True, False, True]
    for number, predicted in enumerate(PREDICTED):
        (folder := tmp_path / f"predicted{number}").mkdir()
        found = given_as(folder, ending, {confidence: PROBS, "y_true": [1, 0, 2], predicted: [1, 1, 2]})
        assert (found.kind, found.correct.tolist()) == ("top_label", [True, False, True])


@pytest.mark.parametrize("ending", ["jsonl", "json", "json of arrays", "parquet", "feather"])
@pytest.mark.parametrize("name", ["probs", "prob", *SINGLE, *DECISIONS])
def test_lists_in_cells_have_the_same_names(tmp_path, ending, name) -> None:
    """The probabilities of all classes in one cell, in every format whose cells can be lists."""
    lists = [[1 - p, p] for p in PROBS]
    found = given_as(tmp_path, ending, {"target": LABELLED, name: lists, "sample_weight": WEIGHTS_GIVEN})
    assert (found.kind, found.labels.tolist(), found.probs.tolist()) == ("multiclass", LABELLED, lists)
    assert found.weights.tolist() == WEIGHTS_GIVEN
