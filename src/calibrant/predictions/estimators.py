"""Scores and classes of a fitted scikit-learn classifier, without importing scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant._math.text_form import kind_of, nearest

Response: TypeAlias = Literal["auto", "decision_function", "predict_proba"]
_ONE_LABEL = (
    "`estimator` must predict one label per sample; for several use "
    "`Predictions(probs=probs, labels=labels)` with both arrays of shape (N, C)."
)


def scores_of(
    estimator: Any, X: Any, response: Response, num_classes: int, *, margins_first: bool = False
) -> tuple[str, NDArray[np.float64]]:
    """Return the method used and its scores: ``(N, C)``, or ``(N,)`` for a decision between two classes."""
    check_choice("response", response, get_args(Response))
    known = ("predict_proba", "decision_function")
    wanted = (response,) if response != "auto" else known[::-1] if margins_first else known
    name = next((each for each in wanted if hasattr(estimator, each)), None)
    if name is None:
        lacks = "doesn't have it" if len(wanted) == 1 else "has neither"
        raise InputError(f"`estimator` must have {' or '.join(wanted)}; {type(estimator).__name__} {lacks}.")
    respond: Callable[[Any], Any] = getattr(estimator, name)
    given = np.asarray(respond(X), dtype=np.float64)
    by_pairs = getattr(innermost(estimator), "decision_function_shape", "ovr") == "ovo"
    if name == "decision_function" and num_classes > 2 and by_pairs:
        raise InputError(
            f"`estimator` must return one score per class; {type(estimator).__name__} has one per pair of "
            'classes: set decision_function_shape="ovr".'
        )
    num_scores = given.shape[1] if given.ndim == 2 else 1
    if num_scores != num_classes and (num_classes, num_scores) != (2, 1):
        raise InputError(
            f"`estimator` must return one score per class; `{name}` of {type(estimator).__name__} returns "
            f"{num_scores} for {num_classes} classes: choose another `response`."
        )
    if np.isnan(given).any():
        row = int(np.isnan(given.reshape(len(given), -1)).any(axis=1).argmax())
        raise InputError(f"`{name}` of {type(estimator).__name__} returned NaN in row {row}.")
    return name, given[:, 0] if given.ndim == 2 and given.shape[1] == 1 else given


def classes_of(estimator: Any) -> NDArray[Any]:
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise InputError(
            f"`estimator` must be a fitted classifier, with `classes_`; got {kind_of(estimator)}."
        )
    if isinstance(classes, list) or np.ndim(classes) != 1 or getattr(estimator, "multilabel_", False):
        raise InputError(_ONE_LABEL)
    return np.asarray(classes)


def class_numbers(classes: NDArray[Any], y: Any) -> NDArray[np.int64]:
    """Return labels ``(N,)`` as class indices."""
    number = {name: place for place, name in enumerate(classes.tolist())}
    labels = np.asarray(y)
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim > 1:
        raise InputError(_ONE_LABEL)
    if unknown := {each for each in labels.tolist() if each not in number}:
        first = min(map(str, unknown))
        end = nearest(first, map(str, classes.tolist()))
        raise InputError(f"`y` has a class that the estimator wasn't fitted on, {first!r}{end}")
    return np.array([number[name] for name in labels.tolist()], dtype=np.int64)


def innermost(estimator: Any) -> Any:
    if hasattr(estimator, "best_estimator_"):
        return innermost(estimator.best_estimator_)
    return innermost(estimator.steps[-1][1]) if hasattr(estimator, "steps") else estimator
