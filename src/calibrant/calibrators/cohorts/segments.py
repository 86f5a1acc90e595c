"""Segments that nobody named: boosted trees that correct log-odds by what else is known of a sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import check_at_least, check_logits
from calibrant._math.drawing import out_of_fold
from calibrant._math.errors import InputError
from calibrant.calibrators.fitting.data import NOISE, check_folds, fold_numbers, log_losses, mean_and_error
from calibrant.calibrators.fitting.samples import floor_zero_probabilities

Columns: TypeAlias = Mapping[str, ArrayLike | Sequence[Any]]
"""One value per sample ``(N,)`` under each name: finite numbers, or texts."""
Matrix: TypeAlias = NDArray[np.float64]

_RATE = 0.2  # share of its correction that a tree makes
_LEAVES, _LEAST = 8, 50  # of a tree, and samples in a leaf


@dataclass(frozen=True, kw_only=True)
class SegmentCalibrator:
    """Trees, one per round; :func:`fit_segments` makes it."""

    trees: tuple[Any, ...] = field(repr=False)
    """Trees of scikit-learn; none where none helped on held-out samples."""
    levels: Mapping[str, tuple[str, ...]]
    """The texts of each column of texts that the fit saw; empty for a column of numbers."""
    gain: float
    """By how much the mean log loss of held-out samples fell, in nats."""
    standard_error: float
    """Standard error of the gain."""

    def predict_proba(self, log_odds: ArrayLike, columns: Columns) -> Tensor:
        """Corrected probabilities of the event.

        Args:
            log_odds: Log-odds of the event, shape ``(N,)``.
            columns: Values of the columns of the fit; an unseen text counts as none of those seen.

        Returns:
            float64, shape ``(N,)``.

        Raises:
            InputError: If shapes disagree, or a column of the fit is missing.
        """
        scores = _log_odds(as_float_tensor(log_odds, name="log_odds"))
        table = _table(columns, scores, self.levels)
        return torch.from_numpy(_courses(scores, table, self.trees)[-1]).sigmoid()


def fit_segments(
    log_odds: ArrayLike,
    labels: ArrayLike,
    columns: Columns,
    *,
    weights: ArrayLike | None = None,
    most_rounds: int = 50,
    folds: int = 5,
    seed: int = 0,
) -> SegmentCalibrator:
    r"""Correct the log-odds of an event by boosted trees of a sample's columns and log-odds.

    .. math:: s \leftarrow s + \eta \, h(s, x) , \qquad
        h = \frac{\sum_{i \in \text{leaf}} (y_i - p_i)}{\sum_{i \in \text{leaf}} p_i (1 - p_i)}

    Each round grows one tree whose leaves are segments of samples that are off, and takes a Newton step of
    the log loss there. So nobody has to name the groups, as :func:`multicalibrate` needs. The number of
    rounds is the best on held-out folds; if the gain is not above two standard errors, it is
    none, and probabilities stay as they came.

    Args:
        log_odds: Log-odds ``(N,)`` of the event.
        labels: Outcomes in {0, 1}, shape ``(N,)``.
        columns: What is known of each sample.
        weights: Sample weights ``(N,)``.
        most_rounds: Largest number of trees.
        folds: Number of folds, from 2 to half the number of samples.
        seed: For the division into folds.

    Returns:
        The calibrator of events; of classes, pass the event that concerns you.

    Raises:
        InputError: If shapes disagree, a value is not finite, an outcome is rarer than ``folds``, or
            scikit-learn is not installed.

    Note:
        Needs scikit-learn. Grows (folds + 1) × rounds trees, each in O(N log N) per column; η is 0.2. It has
        no file format: use ``pickle``.

    References:
        Tax, Perini, Linder, Haimovich, Karamshuk, Okati, Vojnovic and Apostolopoulos, "MCGrad:
        Multicalibration at Web Scale", KDD 2026. A round is one tree here, and no rescaling follows it.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> site, log_odds = rng.choice(["north", "south"], 2000), rng.normal(size=2000)
        >>> true = 1 / (1 + np.exp(-(log_odds - 1.5 * (site == "south"))))
        >>> fitted = fit_segments(log_odds, (rng.random(2000) < true).astype(int), {"site": site})
        >>> new = fitted.predict_proba([0.0, 0.0], {"site": ["north", "south"]})
        >>> fitted.gain > 0.05, bool(new[0] > new[1] + 0.1)
        (True, True)
    """
    try:
        from sklearn.ensemble import GradientBoostingClassifier  # an extra
    except ImportError as error:
        raise InputError("segments need scikit-learn: pip install 'calibrant[sklearn]'.") from error
    check_at_least("most_rounds", most_rounds, 1)
    checked = check_logits(log_odds, labels, weights, allow_minus_inf=True)
    if checked.task != "binary" or checked.labels is None:
        raise InputError("`log_odds` must have shape (N,), with `labels` (N,); pass one event.")
    check_folds(folds, checked.num_samples, default=5)
    scores, outcomes = _log_odds(checked.scores), checked.target.cpu().numpy()
    if np.bincount(outcomes, minlength=2).min() < folds:
        raise InputError(f"`labels` must hold each outcome at least {folds} times, the number of folds.")
    masses = np.ones(len(scores)) if checked.weights is None else checked.weights.cpu().numpy()
    levels = {str(name): _levels(values) for name, values in columns.items()}
    table, truth = _table(columns, scores, levels), torch.from_numpy(outcomes)

    def grown(rows: Any, rounds: int) -> Any:
        trees = GradientBoostingClassifier(
            init=_AsTheyCame(),
            n_estimators=rounds,
            learning_rate=_RATE,
            max_leaf_nodes=_LEAVES,
            min_samples_leaf=_LEAST,
            random_state=0,
        )
        return trees.fit(table[rows], outcomes[rows], sample_weight=masses[rows]).estimators_[:, 0]

    def held_out(inside: Tensor) -> Tensor:
        rows = inside.numpy()
        courses = _courses(scores[rows], table[rows], grown(~rows, most_rounds))
        judged = [log_losses(torch.from_numpy(each), truth[inside], "binary") for each in courses]
        return torch.stack(judged, dim=1)

    judged = out_of_fold(fold_numbers(torch.from_numpy(scores), truth, folds, seed), held_out)
    shares = torch.from_numpy(masses / masses.sum())
    rounds = int((shares @ judged).argmin())
    gain, error = mean_and_error(judged[:, 0] - judged[:, rounds], shares)
    trees = tuple(grown(masses > 0, rounds)) if gain > NOISE * error else ()
    return SegmentCalibrator(trees=trees, levels=levels, gain=gain, standard_error=error)


class _AsTheyCame:
    """Where boosting begins: the first column holds log-odds."""

    def fit(self, *_given: Any, **_more: Any) -> _AsTheyCame:
        return self

    def predict_proba(self, table: Matrix) -> Matrix:
        probs = 1 / (1 + np.exp(-table[:, 0]))
        return np.column_stack([1 - probs, probs])


def _courses(scores: Matrix, table: Matrix, trees: Any) -> list[Matrix]:
    """Log-odds as they came, and after each tree."""
    found = [scores]
    for tree in trees:
        found.append(found[-1] + _RATE * tree.predict(table))
    return found


def _log_odds(scores: Tensor) -> Matrix:
    return floor_zero_probabilities(scores.detach().cpu().to(torch.float64), "binary")[0].numpy()


def _levels(values: Any) -> tuple[str, ...]:
    """The different texts of a column; none of a column of numbers."""
    given = np.asarray(values)
    return () if given.dtype.kind in "biuf" else tuple(sorted({str(value) for value in given.tolist()}))


def _table(columns: Columns, scores: Matrix, levels: Mapping[str, tuple[str, ...]]) -> Matrix:
    """The scores, a column for each column of numbers, and one of zeros and ones for each text."""
    parts = [scores]
    for name, texts in levels.items():
        values = np.asarray(columns.get(name, ()))
        if values.shape != scores.shape:
            raise InputError(f"`columns` must hold {name!r} of shape {scores.shape}; got {values.shape}.")
        parts += [(values.astype(str) == text).astype(float) for text in texts] or [values.astype(float)]
    table = np.column_stack(parts)
    if len(parts) == 1 or not np.isfinite(table).all():
        raise InputError("`columns` must name at least one, and hold finite numbers or texts.")
    return table
