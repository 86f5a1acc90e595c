"""What scores, labels and weights must satisfy, and what the messages say."""

import math
from collections.abc import Callable
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
    """Without labels a table is multiclass unless said otherwise."""
    table = [[0.5, 0.5]]
    assert check_probs(table).task == "multiclass"
    assert check_probs([[0.9, 0.9]], task="multilabel").task == "multilabel"
    assert check_logits(table, task="multilabel").task == "multilabel"
    assert check_logits([0.5]).task == "binary"


# Beside what each metric refuses in ``laws_metrics``.
REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: check_logits([0.5], [1], task="multiclass"), r"must be multiclass; got binary of shape \(1,\)"),
    (lambda: check_logits([[0.5, 0.5]], [1], task="multilabel"), "must be multilabel; got multiclass"),
    (lambda: check_logits([[0.5, 0.5]], task="binary"), "must be binary; got multiclass"),
    (lambda: check_logits([[0.5, 0.5]]).target, "`labels` must be given"),
    (lambda: check_logits(0.5, [1]), r"shape \(N,\) or \(N, C\); got \(\)"),
    (lambda: check_logits(np.zeros((2, 2, 2)), [0, 1]), r"shape \(N,\) or \(N, C\); got \(2, 2, 2\)"),
    (
        lambda: check_logits(np.zeros((3, 1)), [0, 0, 0]),
        r"binary model with one output pass `logits\[:, 0\]`",
    ),
    (lambda: check_logits(np.zeros((3, 0)), [0, 0, 0]), "at least two columns"),
    (lambda: check_logits(np.zeros(3), np.zeros((3, 1))), r"shape \(3,\) to go .* pass `labels\[:, 0\]`"),
    (lambda: check_logits(np.zeros((3, 2)), np.zeros((3, 1))), r"\(3, 2\) for several .* `labels\[:, 0\]`"),
    (lambda: check_logits(np.zeros((3, 2)), np.zeros(4)), r"got \(4,\)\."),
    (lambda: check_logits(np.zeros((3, 4)), [0, 4, 2]), r"in 0\.\.3; row 1 holds 4"),
    (lambda: check_logits(np.zeros((3, 2)), [[0, 1], [0, -1], [0, 0]]), r"row 1 holds \[0, -1\]"),
    (lambda: check_logits([[0.0, 1.0], [np.nan, 2.0]], [0, 1]), "row 1 holds nan; .*leave that row out"),
    (lambda: check_logits([[0.0, 1.0], [np.inf, 2.0]], [0, 1]), "row 1 holds inf; .*in float32 or float64"),
    (
        lambda: check_logits([[0.0, 1.0], [-np.inf, 2.0]], [0, 1]),
        "holds -inf; .*pass `probs`, which can be 0",
    ),
    (lambda: check_probs([1.0001], [1]), r"row 0 holds 1.0001; .* apply the sigmoid"),
    (lambda: check_weights([1.0, 2.0], 3), r"shape \(3,\), one per sample; got \(2,\)"),
    (lambda: check_weights([1.0, 2.0, np.nan], 3), "row 2 holds nan"),
    (lambda: check_weights([0.0, 0.0, 0.0], 3), "must not all be zero"),
    (lambda: check_choice("norm", "l3", ("l1", "l2")), '`norm` must be one of "l1", "l2"; got \'l3\''),
    (
        lambda: check_choice("search", 3, iter(["grid", "line"])),
        r'^`search` must be one of "grid", "line"; got 3\.$',
    ),
    (lambda: check_num_bins(-1), "`num_bins` must be at least 1; got -1"),
    (lambda: check_num_bins(2.0), "`num_bins` must be an integer"),
    (lambda: check_num_bins(True), "`num_bins` must be an integer"),
    (lambda: check_num_bins("3"), "`num_bins` must be an integer"),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_what_is_refused(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises((InputError, TypeError), match=sentence):
        call()


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


def test_what_is_taken() -> None:
    """Values in [0, 1] and, for classes, rows that sum to one within what is tolerated; integers of NumPy."""
    check_probs([[1.0, 0.0], [0.9995, 0.0]], [0, 1])
    check_probs([[0.9, 0.9], [0.0, 1.0]], [[0, 1], [1, 1]])
    check_choice("norm", "l1", ("l1", "l2"))
    check_num_bins(np.int64(3))


@pytest.mark.parametrize("make", [list, np.array])
def test_labels_that_are_words_are_told_to_be_numbered(make) -> None:
    """Lists are taken as arrays are; words get the remedy, which numbers them as scikit-learn does."""
    words, probs = make(["no", "yes", "no"]), [0.2, 0.7, 0.4]
    with pytest.raises(TypeError, match=r"row 0 holds 'no'; number the classes from 0, as `numpy\.unique"):
        brier_score(probs, words)
    numbers = np.unique(words, return_inverse=True)[1]
    assert brier_score(probs, numbers.tolist()) == brier_score(np.array(probs), numbers)
