"""Calibrators for scikit-learn's classifiers."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, Self, TypeAlias, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils import (
    _safe_indexing,  # pyright: ignore[reportPrivateUsage]
    check_array,
    get_tags,
    indexable,
)
from sklearn.utils.metadata_routing import get_routing_for_object
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import (
    _num_samples,  # pyright: ignore[reportPrivateUsage]
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
)

from calibrant._math.arrays import refuse_masked
from calibrant._math.checks import check_choice
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant.calibrators import Calibrator, Selection, build, select
from calibrant.predictions.estimators import Response, class_numbers, classes_of, innermost, scores_of

Scores: TypeAlias = NDArray[np.float64]
"""Logits ``(N, C)``, or log-odds ``(N,)`` of the second class."""


class CalibratedClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A scikit-learn classifier with calibrated probabilities.

    By default the data are split into folds. For each fold a clone of the estimator is fitted on the others
    and scores it. One calibrator is fitted on all these scores, and the estimator itself on all the data.
    With ``cv="prefit"`` the estimator was fitted before, on other data, and all data go to the calibrator.

    Args:
        estimator: A classifier with ``decision_function`` or ``predict_proba``; by default
            ``LogisticRegression()``.
        method: A calibrator as :func:`calibrant.calibrators.build` takes it, such as ``"temperature"`` or
            ``'focal-temperature(objective="brier")'``; or ``"auto"``: what
            :func:`calibrant.calibrators.select` chooses, which may be to change nothing.
        cv: Number of folds (stratified), a splitter, pairs of indices, or ``"prefit"``. A
            ``FrozenEstimator`` counts as prefit whatever this says.
        response: Whether the calibrator gets what ``decision_function`` says, or the logarithms of what
            ``predict_proba`` says; ``"auto"`` takes the first that the estimator has. For margins, such as
            those of support vector machines, prefer a method with an intercept, such as ``"platt"``.
        n_jobs: Processes that fit folds side by side.

    Attributes:
        classes_: The classes.
        estimator_: The fitted estimator.
        calibrator_: The fitted calibrator, which can be saved; None where ``"auto"`` chose to change nothing.
        selection_: With ``"auto"`` why; print it.
        n_features_in_: Number of features, if the estimator has it.
        feature_names_in_: Their names, likewise.

    Note:
        Scores of clones fitted on less data than the final estimator replace its own, as in every
        cross-fit. Sample weights go to the calibrator, and to the estimator if its ``fit`` takes them. With
        two classes, a calibrator that is only for several gets two logits.

    Example:
        >>> from sklearn.datasets import make_classification
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = make_classification(n_samples=2000, n_informative=6, random_state=0)
        >>> model = CalibratedClassifier(GaussianNB(), method="platt").fit(X[:1000], y[:1000])
        >>> uncalibrated = GaussianNB().fit(X[:1000], y[:1000])
        >>> from sklearn.metrics import log_loss
        >>> log_loss(y[1000:], model.predict_proba(X[1000:])) < log_loss(
        ...     y[1000:], uncalibrated.predict_proba(X[1000:])
        ... )
        True
    """

    response: Response
    classes_: NDArray[Any]
    estimator_: Any
    calibrator_: Calibrator | None

    def __init__(
        self,
        estimator: Any = None,
        *,
        method: str = "temperature",
        cv: Any = 5,
        response: Response = "auto",
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.method = method
        self.cv = cv
        self.response = response
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> Self:
        """Fit the estimator, unless it was fitted before, and the calibrator.

        Args:
            X: Whatever the estimator takes.
            y: Classes ``(N,)``, numbers or words; at least two different ones.
            sample_weight: Weights ``(N,)``.
            groups: Groups ``(N,)`` for a splitter that keeps them together, such as ``GroupKFold``.

        Returns:
            The classifier itself.

        Raises:
            InputError: If a setting is unknown or not for the classes of ``y``, there is only one class, or a
                class has fewer samples than there are folds.
        """
        check_choice("response", self.response, get_args(Response))
        is_for_several = self._is_for_several()  # an unknown method is refused before anything is fitted
        prefit = self._is_prefit()
        estimator = LogisticRegression() if self.estimator is None else self.estimator
        if y is None:
            raise InputError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        refuse_masked(y, name="y")
        data, y, groups = indexable(X, y, groups)
        check_classification_targets(y)
        labels = column_or_1d(y, warn=True)
        weights = None if sample_weight is None else _weights(sample_weight, len(labels))
        self.classes_, targets = np.unique(labels, return_inverse=True)
        if prefit:
            if self.estimator is None:
                raise InputError('`estimator` must be a fitted one with cv="prefit"; got None.')
            check_is_fitted(estimator)
            self.classes_ = classes_of(estimator)
            targets = class_numbers(self.classes_, labels)
        if len(self.classes_) > 2 and not is_for_several:
            raise InputError(
                f"Only binary classification is supported by `method` {self.method}, and there are "
                f'{len(self.classes_)} classes; take one for several, such as "temperature".'
            )
        if prefit:
            self.estimator_ = estimator
            scores = self._scores(estimator, data)
        else:
            present = np.unique(labels if weights is None else labels[weights > 0])
            if len(present) < 2:
                raise InputError(
                    f"`y` must hold at least two classes to calibrate; got one class, {present}."
                )
            if weights is not None and _weight_name(estimator) is None:
                warnings.warn(
                    f"{type(innermost(estimator)).__name__} takes no `sample_weight` and is fitted without: "
                    "only the calibrator is weighted.",
                    CalibrantWarning,
                    stacklevel=2,
                )
            rows, scores = self._cross_fitted(estimator, data, labels, targets, weights, groups)
            targets = targets[rows]
            self.estimator_ = _fitted(clone(estimator), data, labels, weights)
            weights = None if weights is None else weights[rows]
        self._limit = _limit(scores)
        self._fit_calibrator(self._within_limit(scores), targets, weights)
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Calibrated probabilities.

        Args:
            X: Whatever the estimator takes.

        Returns:
            Shape ``(N, C)``, columns in the order of ``classes_``.
        """
        check_is_fitted(self, "estimator_")
        if _num_samples(X) == 0:
            return np.empty((0, len(self.classes_)))
        found = self._within_limit(self._scores(self.estimator_, X))
        scores = torch.from_numpy(np.ascontiguousarray(found))
        if self.calibrator_ is None:
            probs = torch.sigmoid(scores) if scores.ndim == 1 else torch.softmax(scores, dim=1)
        elif scores.ndim == 1 and self.calibrator_.kind_ == "multiclass":
            probs = self.calibrator_.predict_proba(_two_logits(scores))
        else:
            probs = self.calibrator_.predict_proba(scores)
        if probs.ndim == 1:
            probs = torch.stack([1 - probs, probs], dim=1)
        return probs.numpy()

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of the highest calibrated probability.

        Args:
            X: Whatever the estimator takes.

        Returns:
            Classes ``(N,)``.
        """
        best = self.predict_proba(X).argmax(axis=1)
        return self.classes_[best]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        inner = get_tags(LogisticRegression() if self.estimator is None else self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.classifier_tags.multi_class = self._is_for_several()
        return tags

    def _is_for_several(self) -> bool:
        return self.method == "auto" or "multiclass" in build(self.method).kinds

    def _is_prefit(self) -> bool:
        if isinstance(self.cv, str) and self.cv != "prefit":
            raise InputError(
                f'`cv` must be a number, a splitter, pairs of indices or "prefit"; got {self.cv!r}.'
            )
        return isinstance(self.cv, str) or type(self.estimator).__name__ == "FrozenEstimator"

    def _cross_fitted(
        self,
        estimator: Any,
        X: Any,
        labels: NDArray[Any],
        targets: NDArray[np.int64],
        weights: NDArray[np.float64] | None,
        groups: Any,
    ) -> tuple[NDArray[np.int64], Scores]:
        """Return rows, and their scores by clones fitted on other rows."""
        splitter: Any = check_cv(self.cv, labels, classifier=True)
        if isinstance(self.cv, int):
            fewest = int(np.bincount(targets).min())
            if fewest < self.cv:
                raise InputError(
                    f"`cv` must be at most {fewest}, the number of samples of the rarest class, or have "
                    f"that class removed; got {self.cv}."
                )
        splits = list(splitter.split(X, labels, groups))

        def one(train: NDArray[np.int64], test: NDArray[np.int64]) -> Scores:
            inside = None if weights is None else weights[train]
            fitted = _fitted(clone(estimator), _safe_indexing(X, train), labels[train], inside)
            if (found := len(classes_of(fitted))) != len(self.classes_):
                raise InputError(
                    f"`cv` must leave samples of every class to fit on; one fold has "
                    f"{found} of {len(self.classes_)} classes."
                )
            return self._scores(fitted, _safe_indexing(X, test))

        found: Any = Parallel(n_jobs=self.n_jobs)(delayed(one)(*split) for split in splits)
        return np.concatenate([test for _, test in splits]), np.concatenate(found)

    def _scores(self, estimator: Any, X: Any) -> Scores:
        """Return logits, or the log-odds of the second of two classes."""
        name, given = scores_of(estimator, X, self.response, len(self.classes_), margins_first=True)
        if name == "decision_function":
            return given
        with np.errstate(divide="ignore"):
            given = np.log(given)
        return given[:, 1] - given[:, 0] if given.shape[1] == 2 else given

    def _within_limit(self, scores: Scores) -> Scores:
        """Replace the scores of probabilities of exactly zero and one by finite ones."""
        return np.where(np.isinf(scores), np.sign(scores) * self._limit, scores)

    def _fit_calibrator(
        self, scores: Scores, targets: NDArray[np.int64], weights: NDArray[np.float64] | None
    ) -> None:
        logits, labels = torch.from_numpy(np.ascontiguousarray(scores)), torch.from_numpy(targets)
        if self.method == "auto":
            self.selection_: Selection = select(logits, labels, weights=weights)
            self.calibrator_ = self.selection_.calibrator
        else:
            calibrator = build(self.method)
            if logits.ndim == 1 and "binary" not in calibrator.kinds:
                logits = _two_logits(logits)
            self.calibrator_ = calibrator.fit(logits, labels, weights=weights)
        if self.calibrator_ is not None:
            self.calibrator_.class_names_ = tuple(str(name) for name in self.classes_)


def _weights(given: Any, count: int) -> NDArray[np.float64]:
    """Return one weight per sample; a single number applies to all."""
    given = np.full(count, float(given)) if isinstance(given, Real) else given
    refuse_masked(given, name="sample_weight")
    weights: NDArray[np.float64] = check_array(
        given, ensure_2d=False, dtype="float64", input_name="sample_weight"
    )
    if weights.shape != (count,):
        raise InputError(f"`sample_weight` must have shape ({count},); got {weights.shape}.")
    if (weights < 0).any():
        raise InputError(f"`sample_weight` must not be negative; got {weights.min():g}.")
    if not weights.any():
        raise InputError("`sample_weight` must not all be zero; give at least one sample a positive weight.")
    return weights


def _fitted(estimator: Any, X: Any, labels: NDArray[Any], weights: NDArray[np.float64] | None) -> Any:
    name = None if weights is None else _weight_name(estimator)
    return estimator.fit(X, labels, **({} if name is None else {name: weights}))


def _weight_name(estimator: Any) -> str | None:
    """Return the name of sample weights in ``fit`` (in pipelines, of the last step), or None."""
    if has_fit_parameter(estimator, "sample_weight"):
        return "sample_weight"
    if get_config()["enable_metadata_routing"]:
        consumed = get_routing_for_object(estimator).consumes("fit", {"sample_weight"})
        return "sample_weight" if consumed else None
    if isinstance(estimator, BaseSearchCV):
        return _weight_name(estimator.estimator)
    if not isinstance(estimator, Pipeline):
        return None
    step, last = estimator.steps[-1]
    inner = _weight_name(last)
    return None if inner is None else f"{step}__{inner}"


def _limit(scores: Scores) -> float:
    """Return the size of infinite scores: half the smallest non-zero probability, or half of one per row."""
    finite = scores[np.isfinite(scores)]
    sizes = np.abs(finite) if scores.ndim == 1 else -finite[finite < 0]  # logarithms; that of one is zero
    return float(max(sizes, default=np.log(len(scores)))) + float(np.log(2))


def _two_logits(log_odds: torch.Tensor) -> torch.Tensor:
    return torch.stack([-log_odds / 2, log_odds / 2], dim=1)
