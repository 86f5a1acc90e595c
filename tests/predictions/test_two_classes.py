"""Two classes as one event."""

import numpy as np
import pytest
import torch

from calibrant.predictions import Predictions
from calibrant.predictions.to_event import repaired, to_repair

LOGITS = np.array([[2.0, -1.0], [0.0, 3.0], [1.0, 1.0], [0.5, 0.25]])
LABELS = np.array([0, 1, 1, 0])
EXTRAS = {"split": [0, 1, 0, 1], "weights": [1.0, 2.0, 3.0, 4.0], "groups": ["a", "b", "a", "b"]}


def test_logits_become_log_odds_of_class_1() -> None:
    """The difference of the columns; labels, split, weights and groups stay, and a note names the class."""
    event = Predictions(logits=LOGITS, labels=LABELS, class_names=["well", "ill"], **EXTRAS).as_binary()
    assert (event.kind, event.space, event.class_names) == ("binary", "logits", ("well", "ill"))
    assert event.values.tolist() == [-3.0, 3.0, 0.0, -0.25]
    assert event.labels.tolist() == LABELS.tolist()
    assert (event.split.tolist(), event.weights.tolist(), list(event.groups)) == tuple(EXTRAS.values())
    assert event.notes == ("Two columns are one event: ill is positive.",)


def test_probabilities_stay_what_they_were() -> None:
    """The positive column is taken as it is, in its dtype: a value on the edge of a bin stays there."""
    probs = np.array([[0.8, 0.2], [0.4, 0.6]], dtype=np.float32)
    event = Predictions(probs=probs, labels=[0, 1]).as_binary()
    assert event.values.dtype == torch.float32
    assert event.values.tolist() == probs[:, 1].tolist()
    assert event.notes == ("Two columns are one event: class 1 is positive.",)


def test_a_rounded_one_is_known_by_the_other_column() -> None:
    """Where float32 rounds the positive column to one, the other says how far from one it is."""
    event = Predictions(probs=np.array([[1e-9, 1.0], [0.0, 1.0]], dtype=np.float32)).as_binary()
    np.testing.assert_allclose(1 - event.probs[0].item(), 1e-9, rtol=1e-6)
    assert event.probs[1].item() == 1.0


@pytest.mark.parametrize("chosen", [0, "0", "well"])
def test_the_other_class_may_be_positive(chosen: int | str) -> None:
    names = {"class_names": ["well", "ill"], "labels": LABELS}
    columns = Predictions(logits=LOGITS, **names).as_binary(chosen)
    single = Predictions(logits=LOGITS[:, 1] - LOGITS[:, 0], **names).as_binary(chosen)
    for event in (columns, single):
        assert event.values.tolist() == [3.0, -3.0, 0.0, 0.25]
        assert event.labels.tolist() == [1, 0, 0, 1]
        assert event.class_names == ("ill", "well")
    assert single.notes == ()
    probs = Predictions(probs=[0.25, 1.0], labels=[0, 1]).as_binary(0)
    assert (probs.values.tolist(), probs.labels.tolist(), probs.class_names) == (
        [0.75, 0.0],
        [1, 0],
        ("1", "0"),
    )


def test_a_name_that_is_a_number_is_a_name() -> None:
    """Where classes are called 1 and 7, 1 means the class that is called so: class 0."""
    event = Predictions(logits=LOGITS, labels=LABELS, class_names=["1", "7"]).as_binary("1")
    assert event.class_names == ("7", "1")


def test_one_number_per_sample_stays() -> None:
    """A binary form, with class 1 positive, is what it was; nothing is copied."""
    given = Predictions(logits=LOGITS[:, 1])
    assert given.as_binary().values.data_ptr() == given.values.data_ptr()


def test_the_way_to_a_calibrator_and_back() -> None:
    """Two columns go as one number and come back as two; every other form passes as it is."""
    columns = Predictions(logits=LOGITS, labels=LABELS, **EXTRAS)
    assert to_repair(columns).values.tolist() == [-3.0, 3.0, 0.0, -0.25]
    back = repaired(columns, torch.tensor([0.25, 0.5, 1.0, 0.0]))
    assert back.probs.tolist() == [[0.75, 0.25], [0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]
    assert (back.kind, back.split.tolist()) == ("multiclass", EXTRAS["split"])
    three = Predictions(logits=np.eye(3))
    assert to_repair(three) is three
    assert repaired(three, three.probs).probs.tolist() == three.probs.tolist()
