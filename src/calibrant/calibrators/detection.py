"""Calibration of object detectors that depends on the position and size of a box."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

import calibrant
from calibrant._math.checks import check_choice
from calibrant._math.errors import CalibrantWarning, ConvergenceError, InputError
from calibrant.calibrators.file_format import DETECTION_KEY, FORMAT_VERSION, damaged, read_file, write_file

Method: TypeAlias = Literal["logistic", "dependent-logistic", "beta"]
METHODS: tuple[Method, ...] = ("logistic", "dependent-logistic", "beta")
Vector: TypeAlias = NDArray[np.float64]
Matrix: TypeAlias = NDArray[np.float64]
LEAST = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, kw_only=True)
class DetectionCalibration:
    """Maps a confidence and covariates of its box to a probability; made by :func:`fit_detections`."""

    method: Method
    weights: tuple[float, ...]
    """One for each term, in their order."""
    bias: float
    num_covariates: int
    loss: float
    """Mean log loss on the detections that it was fitted on."""
    covariates: tuple[str, ...] = ()
    """Names of the covariates, if any."""

    def predict_proba(self, confidences: ArrayLike, covariates: ArrayLike | None = None) -> Matrix:
        """Calibrated confidences ``(N,)``.

        Args:
            confidences: One for each detection, ``(N,)`` in 0..1.
            covariates: The columns of the fit, in the same order.

        Raises:
            InputError: If there are other columns, or a value lies outside 0..1.
        """
        axes = as_axes(confidences, covariates)
        if axes.shape[1] != 1 + self.num_covariates:
            raise InputError(
                f"`covariates` must have {self.num_covariates} columns, as in the fit; "
                f"got {axes.shape[1] - 1}."
            )
        from scipy.special import expit

        return expit(_TERMS[self.method](axes) @ np.array(self.weights) + self.bias)

    def to_json(self) -> str:
        """The calibrator as JSON text."""
        return json.dumps(vars(self))

    @classmethod
    def from_json(cls, text: str) -> DetectionCalibration:
        """Read the text from :meth:`to_json`; an ``InputError`` if it is no such text."""
        try:
            return cls.of(json.loads(text))
        except (ValueError, TypeError, KeyError) as error:
            raise InputError(f"it is not a calibrator of detections ({error}).") from error

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> DetectionCalibration:
        """Calibrator from a file's contents, by name; an ``InputError`` if numbers are amiss."""
        check_choice("method", given["method"], METHODS)
        kept = dict(given)
        kept |= {name: tuple(given.get(name, ())) for name in ("weights", "covariates")}
        found = cls(**kept)
        if not np.isfinite((*found.weights, found.bias)).all():
            raise InputError("its numbers must be finite.")
        found.predict_proba([0.5], np.full((1, found.num_covariates), 0.5))  # as many weights as terms
        return found


def fit_detections(
    confidences: ArrayLike,
    correct: ArrayLike,
    covariates: ArrayLike | None = None,
    *,
    method: Method = "logistic",
    names: Sequence[str] = (),
) -> DetectionCalibration:
    r"""Fit a calibrator of detections by maximum likelihood.

    With s the confidence's log-odds followed by the covariates r:

    - ``"logistic"``: :math:`\sigma(c + w^\top s)`;
    - ``"dependent-logistic"``: :math:`\sigma(c + w^\top s + s^\top A s)` with a symmetric A, the log-ratio of
      two normal densities with any means and covariances;
    - ``"beta"``: :math:`\sigma(c + \sum_k a_k \log s_k - b_k \log(1 - s_k))` over the confidence itself and
      the covariates; those of the confidence are not negative, so that a surer detection stays surer.

    Args:
        confidences: One for each detection, ``(N,)`` in 0..1.
        correct: Correctness of each, ``(N,)``.
        covariates: Columns ``(N, k)`` in 0..1, as :meth:`Detections.covariates` gives.
        method: The form.
        names: Names of the covariates, one for each column. ``calibrant apply`` asks for those of
            :meth:`Detections.covariates`.

    Returns:
        The calibrator. A :class:`~calibrant.CalibrantWarning` says where the detections are separable: right
        and wrong ones lie apart, so that no weights are large enough, and all confidences become 0 or 1.

    Raises:
        InputError: If shapes disagree, a value lies outside 0..1, the names are not one per covariate, or all
            detections are right or all wrong.
        ConvergenceError: If no optimum is found.

    References:
        Küppers, Kronenberger, Shantia and Haselhoff, "Multivariate Confidence Calibration for Object
        Detection", CVPR Workshops 2020.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> stated, place = rng.uniform(0.05, 0.95, (2, 4000))
        >>> right = rng.random(4000) < stated * (0.5 + 0.5 * place)  # worse on the left
        >>> found = fit_detections(stated, right, place[:, None])
        >>> left, whole = found.predict_proba([0.8, 0.8], [[0.1], [0.9]])
        >>> bool(left < 0.55 < 0.68 < whole)
        True
    """
    check_choice("method", method, METHODS)
    axes = as_axes(confidences, covariates)
    right = as_correct(correct, len(axes))
    if names and not len(set(names)) == len(names) == axes.shape[1] - 1:
        raise InputError(
            f"`names` must hold a name of its own for each of {axes.shape[1] - 1} covariates; "
            f"got {list(names)}."
        )
    if not 0 < right.mean() < 1:
        raise InputError("`correct` must hold right and wrong detections; got only one of them.")
    terms = _TERMS[method](axes)
    least = np.full(terms.shape[1], -np.inf)
    if method == "beta":
        least[[0, axes.shape[1]]] = 0.0
    weights, bias, loss = _fitted(terms, right, least)
    if (((terms @ weights + bias) > 0) == (right > 0)).all():
        warnings.warn(
            f"{method} separates all {len(right)} right and wrong detections, so its probabilities are near "
            "0 or 1; use more detections, fewer covariates, or a simpler method.",
            CalibrantWarning,
            stacklevel=2,
        )
    return DetectionCalibration(
        method=method,
        weights=tuple(weights.tolist()),
        bias=bias,
        num_covariates=axes.shape[1] - 1,
        loss=loss,
        covariates=tuple(names),
    )


def as_axes(confidences: ArrayLike, covariates: ArrayLike | None) -> Matrix:
    """Confidences and covariates as the columns of one table, if they lie in 0..1."""
    stated = np.asarray(confidences, np.float64)
    if stated.ndim != 1:
        raise InputError(f"`confidences` must have shape (N,); got {stated.shape}.")
    axes = stated[:, None]
    if covariates is not None:
        others = np.asarray(covariates, np.float64)
        if others.ndim != 2 or len(others) != len(stated):
            raise InputError(f"`covariates` must have shape ({len(stated)}, k); got {others.shape}.")
        axes = np.concatenate([axes, others], axis=1)
    if not ((axes >= 0).all() and (axes <= 1).all()):
        raise InputError("`confidences` and `covariates` must be in 0..1; take shares of the image.")
    return axes


def as_correct(correct: ArrayLike, num_detections: int) -> Vector:
    """Correctness as numbers, each 0 or 1."""
    right = np.asarray(correct, np.float64)
    if right.shape != (num_detections,) or not np.isin(right, (0, 1)).all():
        raise InputError(f"`correct` must hold 0 and 1, one for each of {num_detections} detections.")
    return right


def _linear(axes: Matrix) -> Matrix:
    p = np.clip(axes[:, :1], LEAST, 1 - LEAST)
    return np.concatenate([np.log(p) - np.log1p(-p), axes[:, 1:]], axis=1)


def _quadratic(axes: Matrix) -> Matrix:
    s = _linear(axes)
    first, second = np.triu_indices(s.shape[1])
    return np.concatenate([s, s[:, first] * s[:, second]], axis=1)


def _logarithms(axes: Matrix) -> Matrix:
    p = np.clip(axes, LEAST, 1 - LEAST)
    return np.concatenate([np.log(p), -np.log1p(-p)], axis=1)


_MOST_STEPS = 10_000
_TERMS: dict[str, Callable[[Matrix], Matrix]] = {
    "logistic": _linear,
    "dependent-logistic": _quadratic,
    "beta": _logarithms,
}


def _fitted(terms: Matrix, right: Matrix, least: Matrix) -> tuple[Matrix, float, float]:
    from scipy.optimize import minimize
    from scipy.special import expit

    centre = terms.mean(axis=0)
    scale = np.where(terms.std(axis=0) > 0, terms.std(axis=0), 1.0)
    z = (terms - centre) / scale

    def objective(parameters: Matrix) -> tuple[float, Matrix]:
        logits = z @ parameters[1:] + parameters[0]
        loss = float(np.mean(np.logaddexp(0.0, logits) - right * logits))
        slope = (expit(logits) - right) / len(right)
        return loss, np.append(slope.sum(), z.T @ slope)

    found = minimize(
        objective,
        np.zeros(1 + z.shape[1]),
        jac=True,
        method="L-BFGS-B",
        bounds=[(-np.inf, np.inf), *((each, np.inf) for each in least.tolist())],
        options={"maxiter": _MOST_STEPS, "maxfun": 10 * _MOST_STEPS, "ftol": 1e-15, "gtol": 1e-9},
    )
    if not np.isfinite(found.fun) or found.nit >= _MOST_STEPS:
        raise ConvergenceError("the calibrator of detections was not found; are some covariates alike?")
    weights = found.x[1:] / scale
    return weights, float(found.x[0] - weights @ centre), float(found.fun)


def save_detection_calibration(calibration: DetectionCalibration, path: str | os.PathLike[str]) -> None:
    """Write what :func:`fit_detections` gave; path and errors as for :meth:`Calibrator.save`.

    Example:
        >>> import tempfile
        >>> from calibrant.calibrators import fit_detections
        >>> fitted = fit_detections([0.9, 0.8, 0.3, 0.2] * 5, [1, 0, 1, 0] * 5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_detection_calibration(fitted, f"{folder}/cars.safetensors")
        ...     load_detection_calibration(f"{folder}/cars.safetensors") == fitted
        True
    """
    content = asdict(calibration)
    tensors = {name: torch.tensor(content.pop(name), dtype=torch.float64) for name in ("weights", "bias")}
    content |= {"format_version": FORMAT_VERSION, "calibrant_version": calibrant.__version__}
    write_file(path, DETECTION_KEY, content, tensors)


def load_detection_calibration(path: str | os.PathLike[str]) -> DetectionCalibration:
    """Read a file of :func:`save_detection_calibration`; path and errors as for :func:`load_calibrator`."""
    content, tensors = read_file(path, DETECTION_KEY, "a calibrator of detections")
    for name in ("format_version", "calibrant_version"):
        content.pop(name, None)
    try:
        numbers = {"weights": tensors["weights"].tolist(), "bias": float(tensors["bias"])}
        return DetectionCalibration.of(content | numbers)
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise damaged(path, "it does not have the form of a calibrator of detections") from error
