"""What scores, labels and weights must satisfy, and what the messages say."""

import math
from typing import Any

import numpy as np
import pytest
import torch

from calibrant._math.checks import (
    check_choice,
    check_logits,
    check_num_bins,
    check_probs,
    check_weights,
)
from calibrant._math.errors import InputError
from calibrant.metrics import brier_score


@pytest.mark.parametrize(
    ("scores", "labels", "task", "num_classes"),
    [
        ([0.5, 0.25], [0, 1], "binary", 2),
        ([[0.5, 0.5], [0.25, 0.75]], [0, 1], "multiclass", 2),
        ([[0.5, 0.5, 0.0], [0.25, 0.5, 0.25]], [2, 1], "multiclass", 3),
        ([[0.5, 0.5], [0.25, 0.75]], [[0, 1], [1, 1]], "multilabel", 2),
    ],
)
def test_the_shapes_tell_the_task(scores: Any, labels: Any, task: str, num_classes: int) -> None:
    for check in (check_probs, check_logits):
        checked = check(scores, labels, [1, 2])
        assert (checked.task, checked.num_classes, checked.num_samples) == (task, num_classes, 2)
        assert checked.labels is checked.target
        assert checked.target.dtype == torch.int64
        assert checked.weights is not None
        assert checked.weights.dtype == torch.float64


def test_without_labels() -> None:
    """Without labels a table is multiclass unless said otherwise; asking for the labels is an error."""
    table = [[0.5, 0.5]]
    assert check_probs(table).task == "multiclass"
    assert check_probs([[0.9, 0.9]], task="multilabel").task == "multilabel"
    assert check_logits(table, task="multilabel").task == "multilabel"
    assert check_logits([0.5]).task == "binary"
    with pytest.raises(InputError, match="`labels` must be given"):
        _ = check_logits(table).target


@pytest.mark.parametrize(
    ("scores", "labels", "task", "message"),
    [
        ([0.5], [1], "multiclass", r"`logits` must be multiclass; got binary of shape \(1,\)"),
        ([[0.5, 0.5]], [1], "multilabel", "must be multilabel; got multiclass"),
        ([[0.5, 0.5]], None, "binary", "must be binary; got multiclass"),
    ],
)
def test_a_task_that_the_shapes_contradict(scores: Any, labels: Any, task: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_logits(scores, labels, task=task)


@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        (0.5, [1], r"shape \(N,\) or \(N, C\); got \(\)"),
        (np.zeros((2, 2, 2)), [0, 1], r"shape \(N,\) or \(N, C\); got \(2, 2, 2\)"),
        (np.zeros((0,)), np.zeros(0), "at least one sample"),
        (np.zeros((3, 1)), np.zeros(3), r"for a binary model with one output pass `logits\[:, 0\]`"),
        (np.zeros((3, 0)), np.zeros(3), "at least two columns"),
        (np.zeros(3), np.zeros((3, 1)), r"`labels` must have shape \(3,\) to go .* pass `labels\[:, 0\]`"),
        (np.zeros((3, 2)), np.zeros((3, 1)), r"shape \(3,\), or \(3, 2\) for several .* `labels\[:, 0\]`"),
        (np.zeros((3, 2)), np.zeros(4), r"got \(4,\)\."),
        (np.zeros((3, 2)), [0, 1, 2], "must be 0 or 1; row 2 holds 2"),
        (np.zeros((3, 4)), [0, 4, 2], r"in 0\.\.3; row 1 holds 4"),
        (np.zeros((3, 2)), [[0, 1], [0, -1], [0, 0]], r"row 1 holds \[0, -1\]"),
    ],
)
def test_shapes_and_labels(scores: Any, labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_logits(scores, labels)


def test_logits_must_be_finite() -> None:
    remedies = {
        np.nan: "leave that row out",
        np.inf: "in float32 or float64",
        -np.inf: "pass `probs`, which can be 0",
    }
    for bad, remedy in remedies.items():
        with pytest.raises(InputError, match=f"`logits` must be finite; row 1 holds {bad}; .*{remedy}"):
            check_logits([[0.0, 1.0], [bad, 2.0]], [0, 1])


def test_logarithms_of_zero() -> None:
    """With ``allow_minus_inf``, -inf passes where it can be the logarithm of a zero."""
    checked = check_logits([[0.0, -np.inf], [1.0, 2.0]], [0, 1], allow_minus_inf=True)
    assert checked.scores[0, 1] == -math.inf
    with pytest.raises(InputError, match="finite or -inf; row 1 holds inf"):
        check_logits([[0.0, -np.inf], [np.inf, 2.0]], [0, 1], allow_minus_inf=True)
    with pytest.raises(InputError, match="row 1 is -inf throughout"):
        check_logits([[0.0, 1.0], [-np.inf, -np.inf]], [0, 1], allow_minus_inf=True)
    certain = check_logits([np.inf, -np.inf], [1, 0], allow_minus_inf=True)  # log-odds of one and zero
    assert certain.scores.tolist() == [math.inf, -math.inf]
    with pytest.raises(InputError, match="row 1 holds nan"):
        check_logits([np.inf, np.nan], [1, 0], allow_minus_inf=True)


def test_probabilities() -> None:
    """Values in [0, 1] and, for classes, rows that sum to one within what is tolerated."""
    check_probs([[1.0, 0.0], [0.9995, 0.0]], [0, 1])
    check_probs([[0.9, 0.9], [0.0, 1.0]], [[0, 1], [1, 1]])
    for bad, message in [
        ([[0.5, 0.5], [1.2, -0.2]], "row 1 holds 1.2; if they are logits, apply the softmax"),
        ([[0.5, 0.5], [0.4, 0.4]], "row 1 sums to 0.8"),
        ([[0.5, 0.5], [0.4, np.nan]], "row 1 holds nan"),
    ]:
        with pytest.raises(InputError, match=message):
            check_probs(bad, [0, 1])
    with pytest.raises(InputError, match=r"row 0 holds 1.0001; .* apply the sigmoid"):
        check_probs([1.0001], [1])


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, 2.0], r"shape \(3,\), one per sample; got \(2,\)"),
        ([1.0, -2.0, 1.0], "row 1 holds -2"),
        ([1.0, 2.0, np.nan], "row 2 holds nan"),
        ([0.0, 0.0, 0.0], "must not all be zero"),
    ],
)
def test_weights(weights: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        check_weights(weights, 3)


def test_options() -> None:
    check_choice("norm", "l1", ("l1", "l2"))
    with pytest.raises(InputError, match='`norm` must be one of "l1", "l2"; got \'l3\''):
        check_choice("norm", "l3", ("l1", "l2"))
    with pytest.raises(InputError, match=r'^`search` must be one of "grid", "line"; got 3\.$'):
        check_choice("search", 3, iter(["grid", "line"]))
    check_num_bins(np.int64(3))
    for bad in (2.0, True, "3"):
        with pytest.raises(TypeError, match="`num_bins` must be an integer"):
            check_num_bins(bad)
    with pytest.raises(InputError, match="`num_bins` must be at least 1; got -1"):
        check_num_bins(-1)


@pytest.mark.parametrize("make", [list, np.array])
def test_labels_that_are_words_are_told_to_be_numbered(make) -> None:
    """Lists are taken as arrays are; words get the remedy, which numbers them as scikit-learn does."""
    words, probs = make(["no", "yes", "no"]), [0.2, 0.7, 0.4]
    with pytest.raises(TypeError, match=r"row 0 holds 'no'; number the classes from 0, as `numpy\.unique"):
        brier_score(probs, words)
    numbers = np.unique(words, return_inverse=True)[1]
    assert brier_score(probs, numbers.tolist()) == brier_score(np.array(probs), numbers)
