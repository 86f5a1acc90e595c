"""Odd inputs are noted, and their numbers left alone."""

import numpy as np
import pytest
import torch

from calibrant.predictions import Predictions, load_predictions, oddities
from calibrant.predictions.oddities import LIKE_PROBABILITIES, ONE_HOT, ONE_LABEL_EACH, SUSPICIOUS
from tables_as_files import given_as

PROBS = np.array([[0.5, 0.25, 0.25], [0.2, 0.3, 0.5], [0.0, 0.0, 1.0]])


@pytest.fixture(params=["one piece", "row by row"])
def pieces(request, monkeypatch) -> None:
    if request.param == "row by row":
        monkeypatch.setattr(
            oddities, "row_slices", lambda table: (slice(row, row + 1) for row in range(len(table)))
        )


@pytest.mark.usefixtures("pieces")
def test_labels_that_exclude_each_other() -> None:
    """One label in every row is noted; one row with none or two of them settles that it is multilabel."""
    for last, expected in (([0, 1, 0], (ONE_LABEL_EACH,)), ([0, 0, 0], ()), ([1, 1, 0], ())):
        labels = [[1, 0, 0], [0, 0, 1], last]
        assert Predictions(probs=PROBS, labels=labels, kind="multilabel").notes == expected
    assert Predictions(probs=PROBS, kind="multilabel").notes == ()


@pytest.mark.usefixtures("pieces")
def test_one_hot_labels_beside_rows_that_sum_to_one_are_classes() -> None:
    one_hot = [[1, 0, 0], [0, 0, 1], [0, 1, 0]]
    found = Predictions(probs=PROBS, labels=one_hot)
    assert (found.kind, found.labels.tolist(), found.notes) == ("multiclass", [0, 2, 1], (ONE_HOT,))
    assert ONE_HOT in SUSPICIOUS
    assert Predictions(probs=PROBS, labels=one_hot, kind="multilabel").kind == "multilabel"
    assert Predictions(probs=PROBS / 2, labels=one_hot).kind == "multilabel"
    assert Predictions(probs=PROBS, labels=[[1, 0, 0], [0, 0, 1], [0, 1, 1]]).kind == "multilabel"


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_one_hot_labels_of_tables(tmp_path, ending) -> None:
    """A column of zeros and ones for each class says classes; what calibrant wrote says its kind."""
    labels = torch.tensor([[1, 0, 0], [0, 0, 1], [0, 1, 0]])
    columns = {f"prob_{name}": PROBS[:, k].tolist() for k, name in enumerate("abc")}
    columns |= {f"label_{name}": labels[:, k].tolist() for k, name in enumerate("abc")}
    found = given_as(tmp_path, ending, columns)
    assert (found.kind, found.labels.tolist()) == ("multiclass", [0, 2, 1])
    given = given_as(tmp_path, ending, columns, kind="multilabel")
    assert given.labels.equal(labels)
    given.save(tmp_path / f"p.{ending}")
    assert load_predictions(tmp_path / f"p.{ending}").labels.equal(labels)


@pytest.mark.usefixtures("pieces")
def test_logits_that_look_like_probabilities() -> None:
    """Noted and kept as logits; one value outside [0, 1], or one row off by more than 1e-3, is a logit's."""
    found = Predictions(logits=PROBS)
    assert found.notes == (LIKE_PROBABILITIES,)
    assert torch.equal(found.scores, torch.from_numpy(PROBS))
    rounded, negative, far = PROBS.copy(), PROBS.copy(), PROBS.copy()
    rounded[2, 2] = 0.9995
    negative[2] = [-0.1, 0.1, 1.0]
    far[2, 2] = 0.998
    assert Predictions(logits=rounded).notes == (LIKE_PROBABILITIES,)
    assert Predictions(logits=negative).notes == Predictions(logits=far).notes == ()
    assert Predictions(logits=PROBS, kind="multilabel").notes == ()
    assert Predictions(logits=PROBS[:, 0]).notes == ()


def test_classes_of_one_name() -> None:
    found = Predictions(probs=PROBS, labels=[0, 1, 2], class_names=["crane", "dog", "crane"])
    assert found.notes == ("2 classes are called crane (numbers 0, 2).",)
    assert Predictions(probs=PROBS, class_names=["crane", "dog", "cow"]).notes == ()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["yes", "no", "no"], ("no", "yes")),
        (["Yes", "No", "Yes"], ("No", "Yes")),
        (["Y", "Y", "Y"], ("N", "Y")),
        (["negative", "positive", "negative"], ("negative", "positive")),
        (["Neg", "Neg", "Neg"], ("Neg", "Pos")),
    ],
)
def test_yes_and_no(words, names) -> None:
    """Two words of which one affirms are labels of an event, and its classes are called by them."""
    found = Predictions(probs=[0.5, 0.25, 0.75], labels=words)
    assert found.class_names == names
    assert [names[label] for label in found.labels] == words
    assert found.notes[0] == f"Labels are words: {names[1]} counts as class 1, {names[0]} as class 0."
    top = Predictions(confidence=[0.5, 0.25, 0.75], correct=["Yes", "no", "yes"])
    assert top.correct.tolist() == [True, False, True]
