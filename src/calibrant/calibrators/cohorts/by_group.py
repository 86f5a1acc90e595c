"""A calibrator for each group of samples, each borrowing from all."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor, nn

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import check_choice, check_logits, check_weights
from calibrant._math.errors import CalibrantWarning, ConvergenceError, InputError, without_warnings
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.file_format import FORMAT_VERSION, GROUPS_KEY, Saved
from calibrant.calibrators.fitting.data import CalibrationData
from calibrant.calibrators.inputs import refuse_other_columns
from calibrant.calibrators.roster import build

UnknownGroup: TypeAlias = Literal["error", "pooled"]
POOLED = "pooled"
_MOST_NAMED = 5


class GroupCalibrator(Saved, nn.Module):
    """A calibrator for each group of samples, and the pooled one of all; made by :func:`fit_groups`.

    It maps every row by the calibrator of its group. With ``unknown="pooled"`` the pooled one maps rows of
    groups absent from the fit; otherwise they are refused.

    Args:
        pooled: Calibrator fitted on all samples.
        by_group: Calibrator of every group, of the same kind.
        borrowed: Number of samples that each group borrowed from all groups.
        unknown: Treatment of other groups.

    Raises:
        InputError: If a calibrator is of another kind than the pooled one.

    Example:
        >>> calibrator = fit_groups(
        ...     "temperature", [4.0] * 20, [1] * 9 + [0] + [1] * 6 + [0] * 4, groups=["a"] * 10 + ["b"] * 10,
        ...     borrowed=0,
        ... )
        >>> [round(p, 4) for p in calibrator.predict_proba([4.0, 4.0], groups=["a", "b"]).tolist()]
        [0.9, 0.6]
    """

    def __init__(
        self,
        pooled: Calibrator,
        by_group: Mapping[str, Calibrator],
        *,
        borrowed: float,
        unknown: UnknownGroup = "error",
    ) -> None:
        super().__init__()
        check_choice("unknown", unknown, get_args(UnknownGroup))
        for name, each in by_group.items():
            if (each.kind_, each.num_classes_) != (pooled.kind_, pooled.num_classes_):
                raise InputError(f"the calibrator of group {name!r} is of another kind than the pooled one.")
        self.pooled = pooled
        self.borrowed = borrowed
        self.unknown: UnknownGroup = unknown
        self._names = tuple(by_group)
        self._parts = nn.ModuleList(by_group.values())  # by number: a name may hold a dot

    @property
    def by_group(self) -> dict[str, Calibrator]:
        """Calibrator of every group."""
        return {
            name: part
            for name, part in zip(self._names, self._parts, strict=True)
            if isinstance(part, Calibrator)
        }

    def forward(self, logits: ArrayLike, *, groups: ArrayLike) -> Tensor:
        """Calibrated log-probabilities ``(N, C)``, or log-odds in the shape of the log-odds given.

        Args:
            logits: Outputs of the model, of the kind it was fitted on.
            groups: The group of each row, ``(N,)`` names or numbers.

        Returns:
            In the dtype and on the device of ``logits``; differentiable with respect to them.

        Raises:
            InputError: If a group is unknown, the shape is not that of the fit, or a value is NaN.
        """
        refuse_other_columns(self.pooled, logits)
        given = logits if isinstance(logits, Tensor) else as_float_tensor(logits, name="logits")
        parts = [(rows, calibrator(given[rows])) for rows, calibrator in self._divided(given, groups)]
        order = torch.cat([rows for rows, _ in parts]).argsort()
        return torch.cat([part for _, part in parts])[order.to(given.device)]

    @torch.no_grad()
    def predict_proba(self, logits: ArrayLike, *, groups: ArrayLike) -> Tensor:
        """Calibrated probabilities of what :meth:`forward` takes, without gradients.

        Returns:
            float64: ``(N, C)`` with rows that sum to one, or the probability of class 1 in the shape of the
            log-odds.
        """
        refuse_other_columns(self.pooled, logits)
        given = as_float_tensor(logits, name="logits")
        probs = torch.empty(given.shape, dtype=torch.float64, device=given.device)
        for rows, calibrator in self._divided(given, groups):
            probs[rows] = calibrator.predict_proba(given[rows])
        return probs

    def _content(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
        parts = [self.pooled, *self.by_group.values()]
        content = {
            "format_version": FORMAT_VERSION,
            "groups": list(self._names),
            "borrowed": self.borrowed,
            "unknown": self.unknown,
            "parts": [asdict(part.header()) for part in parts],
        }
        tensors = {
            f"{place}.{name}": value
            for place, part in enumerate(parts)
            for name, value in part.named_buffers()
        }
        return GROUPS_KEY, content, tensors

    def extra_repr(self) -> str:
        """Number of groups, and the borrowed share."""
        return f"{len(self._names)} groups, borrowed={self.borrowed:g}, unknown={self.unknown!r}"

    def _divided(self, logits: Tensor, groups: ArrayLike) -> list[tuple[Tensor, Calibrator]]:
        known, rows_of = self.by_group, _rows_by_group(groups, len(logits))
        for name, rows in rows_of.items():
            if self.unknown == "error" and name not in known:
                raise InputError(
                    f"`groups` must name groups of the fit; row {int(rows[0])} is of group {name!r}. To map "
                    "such rows by the calibrator of all groups, give --unknown-groups pooled (in Python: "
                    '`unknown = "pooled"`).'
                )
        return [(rows.to(logits.device), known.get(name, self.pooled)) for name, rows in rows_of.items()]


def fit_groups(
    calibrator: str | Calibrator,
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    groups: ArrayLike,
    weights: ArrayLike | None = None,
    borrowed: float = 100.0,
    unknown: UnknownGroup = "error",
) -> GroupCalibrator:
    r"""Fit a calibrator for each group of samples: scanners, languages, customers.

    .. math:: \arg\min \sum_{i \in g} \omega_i L_i + \kappa \, \frac{\sum_i \omega_i L_i}{\sum_i \omega_i}

    Each group's objective is that of its own samples plus that of all, the latter counted like
    :math:`\kappa` = ``borrowed`` samples. Weights :math:`\omega` are scaled to sum to their effective number
    of samples, :math:`(\sum \omega)^2 / \sum \omega^2`. So a small group has nearly the pooled calibrator, a
    large one its own, and none has to fit a curve to five samples. Groups with fewer samples than are
    borrowed are warned of.

    Args:
        calibrator: Text for :func:`build`, or a calibrator, whose settings are used.
        logits: Logits ``(N, C)``, or log-odds ``(N,)`` of class 1.
        labels: Classes ``(N,)``, or zeros and ones ``(N, C)`` with one column per label.
        groups: The group of each sample, ``(N,)`` names or numbers.
        weights: Sample weights ``(N,)``, in any unit.
        borrowed: Weight in samples; with 0 each group uses only its own samples.
        unknown: Treatment of rows of other groups: ``"error"``, or ``"pooled"`` for the pooled calibrator.

    Returns:
        The calibrators, which ``predict_proba(logits, groups=...)`` uses.

    Raises:
        InputError: If shapes disagree, a value is NaN, ``borrowed`` is negative, or a group cannot be fitted;
            the message names it.

    Note:
        As many fits as groups, and one more, each to all samples that count in its group. For models of equal
        size, or heads of one model, see :func:`fit_temperatures`. A calibrator of its own may serve a group
        worse than the pooled one on new samples: judge both by ``evaluate`` on a file with ``groups``.

    Example:
        >>> labels = [1] * 90 + [0] * 10 + [1] * 60 + [0] * 40
        >>> groups = ["a"] * 100 + ["b"] * 100
        >>> fitted = fit_groups("temperature", [4.0] * 200, labels, groups=groups, borrowed=50)
        >>> [round(p, 2) for p in fitted.predict_proba([4.0, 4.0], groups=["a", "b"]).tolist()]
        [0.85, 0.65]
        >>> round(fitted.pooled.predict_proba([4.0]).item(), 2)
        0.75
    """
    if not borrowed >= 0 or not np.isfinite(borrowed):
        raise InputError(f"`borrowed` must be finite and not negative; got {borrowed}.")
    check_choice("unknown", unknown, get_args(UnknownGroup))
    template = build(calibrator) if isinstance(calibrator, str) else calibrator
    if not isinstance(template, Calibrator):  # pyright: ignore[reportUnnecessaryIsInstance]
        msg = f"`calibrator` must be a name or a calibrator, as in `TemperatureScaling()`; got {template!r}."
        raise TypeError(msg)
    checked = check_logits(logits, labels, weights, allow_minus_inf=True)
    rows = _rows_by_group(groups, checked.num_samples)
    data, scores = CalibrationData.of(replace(checked, weights=None)), checked.scores
    own = scores.new_ones(len(scores), dtype=torch.float64)
    if checked.weights is not None:
        own = checked.weights * (checked.weights.sum() / (checked.weights**2).sum())
    everyone = data if checked.weights is None else data.weighted(checked.weights)
    pooled = _fitted(template, everyone, "all groups")
    by_group: dict[str, Calibrator] = {}
    small: list[str] = []
    for name, inside in rows.items():
        inside = inside.to(own.device)
        counted = own * (borrowed / own.sum())
        counted[inside] += own[inside]
        what = f"group {name!r}"
        try:
            check_weights(counted, len(counted))
        except InputError as error:
            raise InputError(f"{what}: {error}") from error
        by_group[name] = _fitted(template, data.weighted(counted), what)
        if float(own[inside].sum()) < borrowed:
            small.append(name)
    known = pooled.fit_result_.warnings
    notes = [f"all groups: {warning}" for warning in known] + [
        f"group {name!r}: {warning}"
        for name, each in by_group.items()
        for warning in each.fit_result_.warnings
        if warning not in known
    ]
    if small:
        named = ", ".join(repr(name) for name in small[:_MOST_NAMED])
        more = f" and {len(small) - _MOST_NAMED} more" if len(small) > _MOST_NAMED else ""
        which, holds = ("group", "holds") if len(small) == 1 else ("groups", "hold")
        notes.insert(
            0,
            f"{which} {named}{more} {holds} fewer samples than the {borrowed:g} that are borrowed from all: "
            "what is fitted there is mostly the pooled calibrator",
        )
    if notes:
        warnings.warn(f"{template.name}: {'; '.join(notes)}.", CalibrantWarning, stacklevel=2)
    return GroupCalibrator(pooled, by_group, borrowed=float(borrowed), unknown=unknown)


def _rows_by_group(groups: ArrayLike, num_samples: int) -> dict[str, Tensor]:
    """Rows of every group, in order of first occurrence; numbers count by their text."""
    listed: Sequence[Any] = groups.tolist() if isinstance(groups, Tensor | np.ndarray) else list(groups)
    if len(listed) != num_samples:
        raise InputError(f"`groups` must hold {num_samples} names, one per sample; got {len(listed)}.")
    found: dict[str, list[int]] = {}
    for row, name in enumerate(listed):
        if not isinstance(name, str | int) or isinstance(name, bool) or name == "":
            raise InputError(f"`groups` must hold names or whole numbers; row {row} holds {name!r}.")
        found.setdefault(str(name), []).append(row)
    return {name: torch.tensor(rows) for name, rows in found.items()}


def _fitted(template: Calibrator, data: CalibrationData, what: str) -> Calibrator:
    try:
        with without_warnings():
            return template.unfitted().fit_to(data)
    except (InputError, ConvergenceError) as error:
        raise type(error)(f"{what}: {error}") from error
