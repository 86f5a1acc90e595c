"""Predictions from data frames and back."""

from typing import Any

import numpy as np
import pandas
import polars
import pytest
import torch

from calibrant import InputError, Predictions
from calibrant.predictions import predictions_from_frame, predictions_to_frame

LIBRARIES: Any = (pandas, polars)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize(
    "predictions",
    [
        Predictions(probs=[[0.7, 0.3, 0.0], [0.1, 0.2, 0.7]], labels=[0, 2], class_names=("a", "b", "c")),
        Predictions(logits=[0.5, -1.0, 2.0], labels=[1, 0, 1], split=[0, 1, 1], groups=["x", "y", "x"]),
        Predictions(probs=[[0.7, 0.3], [0.1, 0.2]], labels=[[1, 0], [0, 0]], weights=[1.0, 2.5]),
        Predictions(confidence=[0.9, 0.6], correct=[True, False]),
        Predictions(probs=[0.2, 0.9]),
    ],
    ids=lambda each: each.kind,
)
def test_a_frame_holds_all_of_it(library: Any, predictions: Predictions) -> None:
    frame = predictions_to_frame(predictions, library=library.__name__)
    assert isinstance(frame, library.DataFrame)
    assert frame.equals(predictions.to_frame(library=library.__name__))
    back = predictions_from_frame(frame)
    assert back.kind == predictions.kind
    assert (back.class_names, back.groups) == (predictions.class_names, predictions.groups)
    for name in ("labels", "split", "weights"):
        one, other = getattr(back, name), getattr(predictions, name)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(back.confidence, predictions.confidence)


@pytest.mark.parametrize("library", LIBRARIES)
def test_names_and_categories_are_labels(library: Any) -> None:
    frame = library.DataFrame({"label": ["dog", "cat"], "prob_cat": [0.9, 0.4], "prob_dog": [0.1, 0.6]})
    if library is pandas:
        frame["label"] = frame["label"].astype("category")
    read = predictions_from_frame(frame)
    assert read.class_names == ("cat", "dog")
    assert read.labels.tolist() == [1, 0]


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_cells_may_hold_the_scores_of_all_classes(kind: Any) -> None:
    rows = [[0.875, 0.125], [0.25, 0.75]]
    assert predictions_from_frame(pandas.DataFrame({"probs": [*map(kind, rows)]})).probs.tolist() == rows
    array = polars.DataFrame({"probs": rows}, schema={"probs": polars.Array(polars.Float64, 2)})
    assert predictions_from_frame(array).probs.tolist() == rows


@pytest.mark.parametrize("library", LIBRARIES)
def test_gaps_among_scores_are_refused(library: Any) -> None:
    frame = library.DataFrame({"label": [0, 1], "prob": [0.5, None]})
    with pytest.raises(InputError, match="`prob` must hold a number in every row"):
        predictions_from_frame(frame)


def test_what_is_no_frame_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a pandas or polars DataFrame; got dict"):
        predictions_from_frame({"label": [0]})
    with pytest.raises(InputError, match='`library` must be "pandas" or "polars"; got'):
        predictions_to_frame(Predictions(probs=[0.2, 0.3]), library="dask")  # pyright: ignore[reportArgumentType]
    twice = pandas.DataFrame([[0, 0.5, 0.5]], columns=["label", "prob", "prob"])
    with pytest.raises(InputError, match="'prob' stands twice"):
        predictions_from_frame(twice)
