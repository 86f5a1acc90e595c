"""One table of names serves every format: each known name, walked through each of them."""

import pytest

from calibrant._math.errors import InputError
from calibrant.predictions import ColumnNames
from calibrant.predictions.formats import aliases
from tables_as_files import given_as

TABLES = ("csv", "csv.gz", "tsv", "json", "jsonl", "parquet", "feather", "pandas", "polars")
ARRAYS = ("npz", "npy", "pt", "safetensors", "json of arrays", "json of pandas")
LABELLED, PROBS, WEIGHTS_GIVEN = [1, 0, 1], [0.75, 0.5, 0.25], [1.0, 2.0, 0.5]


@pytest.fixture
def read(tmp_path_factory):
    """Columns in a file of a format, each in a folder of its own, read."""
    return lambda ending, columns: given_as(tmp_path_factory.mktemp("names"), ending, columns)


@pytest.mark.parametrize("ending", [*TABLES, *ARRAYS])
def test_every_name_of_labels_scores_and_weights(read, ending) -> None:
    """Decisions are told from scores by their values."""
    for name in ("label", "labels", "Y_True", *aliases.LABELS):
        found = read(ending, {name: LABELLED, "prob": PROBS})
        assert (name, found.kind, found.labels.tolist()) == (name, "binary", LABELLED)
        assert found.probs.tolist() == PROBS
    for name in ("prob", "logit", *aliases.SINGLE, *aliases.DECISIONS):
        found = read(ending, {"y": LABELLED, name: PROBS})
        assert (name, found.kind, found.labels.tolist()) == (name, "binary", LABELLED)
        assert found.values.tolist() == PROBS
        assert found.space == ("logits" if name == "logit" else "probs")
    for name in aliases.DECISIONS:
        with pytest.raises(InputError, match=rf"it holds decisions \(`{name}`\), and no probabilities"):
            read(ending, {"y": LABELLED, name: [1, 0, 0]})
    for name in ("weight", "weights", "Sample_Weight", *aliases.WEIGHTS):
        found = read(ending, {"y": LABELLED, "prob": PROBS, name: WEIGHTS_GIVEN})
        assert (name, found.weights.tolist()) == (name, WEIGHTS_GIVEN)
        assert name in {"weight", "weights"} or any(f"`{name}` as `weight" in note for note in found.notes)


@pytest.mark.parametrize("ending", [*TABLES, *ARRAYS])
def test_groups_are_called_alike_in_every_format(tmp_path, ending) -> None:
    """A text file says True and 1; numbers with gaps are floats in a frame; none is a group of its own."""
    table, wanted = {"y": LABELLED, "prob": PROBS}, ("True", "False", "True")
    for name in ("group", "groups"):
        (folder := tmp_path / name).mkdir()
        assert given_as(folder, ending, table | {name: [True, False, True]}).groups == wanted
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
def test_every_name_of_scores_by_class(read, ending) -> None:
    for family, space in (("prob", "probs"), ("logit", "logits")):
        for prefix in (f"{family}_", *aliases.FAMILIES[family]):
            scores = {f"{prefix}{k}": [p if k else 1 - p for p in PROBS] for k in range(2)}
            found = read(ending, {"y": LABELLED, **scores})
            assert (prefix, found.kind, found.num_classes) == (prefix, "multiclass", 2)
            assert found.labels.tolist() == LABELLED
            assert (prefix, found.space, found.values[:, 1].tolist()) == (prefix, space, PROBS)


@pytest.mark.parametrize("ending", [*TABLES, *ARRAYS])
def test_every_name_of_confidences(read, ending) -> None:
    names = ("confidence", *aliases.CONFIDENCES)
    outcomes = [{name: LABELLED} for name in ("correct", *aliases.OUTCOMES)]
    outcomes += [{"y_true": [1, 0, 2], name: [1, 1, 2]} for name in aliases.PREDICTED]
    pairs = [*((name, outcomes[-1]) for name in names), *((names[-1], each) for each in outcomes)]
    for confidence, outcome in pairs:
        found = read(ending, {confidence: PROBS, **outcome})
        assert (confidence, outcome, found.kind) == (confidence, outcome, "top_label")
        assert (found.confidence.tolist(), found.correct.tolist()) == (PROBS, [True, False, True])


@pytest.mark.parametrize("ending", ["jsonl", "json", "json of arrays", "parquet", "feather"])
def test_lists_in_cells_have_the_same_names(read, ending) -> None:
    """The probabilities of all classes in one cell, in every format whose cells can be lists."""
    lists = [[1 - p, p] for p in PROBS]
    for name in ("probs", "prob", *aliases.SINGLE, *aliases.DECISIONS):
        found = read(ending, {"target": LABELLED, name: lists, "sample_weight": WEIGHTS_GIVEN})
        assert (name, found.kind, found.labels.tolist()) == (name, "multiclass", LABELLED)
        assert (found.probs.tolist(), found.weights.tolist()) == (lists, WEIGHTS_GIVEN)
