"""Multicalibration: probabilities that are right within each of many groups, which may overlap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.arrays import ArrayLike, as_float_tensor
from calibrant._math.checks import Task, check_logits, check_num_bins
from calibrant._math.errors import InputError
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.file_format import FORMAT_VERSION, MULTI_KEY, Saved
from calibrant.calibrators.inputs import refuse_other_columns
from calibrant.calibrators.roster import build

Groups: TypeAlias = Mapping[str, ArrayLike] | Sequence[str]
"""A mask ``(N,)`` for each group; or one text per sample, with the names of its groups between semicolons."""
Matrix: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]

EVERYONE = ""
"""The name of the group of all samples, which always counts."""
_LEAST, _MOST = 1e-12, 1 - 1e-12


@dataclass(frozen=True, kw_only=True)
class Correction:
    """One step: a shift of an event's probabilities within one bin and group."""

    group: str
    event: int  # class or label; 0 of a binary model
    low: float
    high: float  # of the bin (low, high], the first closed at 0
    shift: float
    count: float  # weight of the samples
    z: float  # deviation of their outcomes, in standard errors


@dataclass(frozen=True, kw_only=True)
class Multicalibrator(Saved):
    """Corrections, one after the other; made by :func:`multicalibrate`."""

    kind: Task
    num_classes: int
    groups: tuple[str, ...]
    corrections: tuple[Correction, ...]
    start: Calibrator | None = None
    """Fitted calibrator applied before the corrections."""

    def predict_proba(self, logits: ArrayLike, *, groups: Groups) -> Tensor:
        """Corrected probabilities.

        Args:
            logits: Outputs of the model, of the kind it was fitted on.
            groups: The groups of these samples; names that the fit did not see get no correction of their
                own.

        Returns:
            float64: ``(N, C)`` with rows that sum to one, or the probability of each event.

        Raises:
            InputError: If shapes disagree.
        """
        scores = as_float_tensor(logits, name="logits")
        if self.start is not None:
            refuse_other_columns(self.start, logits)
            scores = self.start(scores.to(torch.float64))
        probs = _probs(scores, self.kind)
        if probs.shape[1] != (1 if self.kind == "binary" else self.num_classes):
            raise InputError(
                f"`logits` must be of {self.num_classes} classes; got shape {tuple(scores.shape)}."
            )
        masks = memberships(groups, len(probs))
        for each in self.corrections:
            if (inside := masks.get(each.group)) is not None:
                column = probs[:, each.event]
                in_bin = ((column > each.low) | (each.low == 0)) & ((column <= each.high) | (each.high >= 1))
                rows = inside & in_bin
                column[rows] = np.clip(column[rows] + each.shift, _LEAST, _MOST)
        table = torch.from_numpy(probs)
        if self.kind == "multiclass":
            return table / table.sum(dim=1, keepdim=True)
        return table[:, 0] if self.kind == "binary" else table

    def _content(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
        content = {
            "format_version": FORMAT_VERSION,
            "kind": self.kind,
            "num_classes": self.num_classes,
            "groups": list(self.groups),
            "corrections": [asdict(each) for each in self.corrections],
            "start": None if self.start is None else asdict(self.start.header()),
        }
        tensors = {} if self.start is None else dict(self.start.named_buffers())
        return MULTI_KEY, content, tensors


def multicalibrate(
    logits: ArrayLike,
    labels: ArrayLike,
    *,
    groups: Groups,
    weights: ArrayLike | None = None,
    start: str | Calibrator | None = None,
    num_bins: int = 10,
    threshold: float = 3.0,
    most_steps: int = 1000,
) -> Multicalibrator:
    r"""Correct probabilities until they match the actual rates at each level in every group.

    .. math:: \left| \sum_{i \in g,\; p_i \in b} (y_i - p_i) \right|
       \le z \sqrt{\sum_{i \in g,\; p_i \in b} p_i (1 - p_i)} \qquad \text{for all groups } g, \text{ bins } b

    While some group and bin miss this, the one that misses by the most standard errors is shifted by the mean
    of :math:`y_i - p_i` there; samples move between bins as they are shifted. Groups may overlap, and all
    samples count as a group. Every class of a multiclass model is an event; its probabilities are normalised
    at the end.

    Args:
        logits: Logits ``(N, C)``, or log-odds ``(N,)`` of class 1.
        labels: Classes ``(N,)``, or zeros and ones ``(N, C)`` with one column per label.
        groups: A boolean mask ``(N,)`` for each name; or one text per sample with the names of its groups
            between semicolons, as ``"female; over 60"``.
        weights: Sample weights ``(N,)``.
        start: A calibrator, as :func:`build` takes it, that is fitted to all samples and applied first.
        num_bins: Bins of equal width.
        threshold: z; the smaller it is, the more is corrected and the more of that is noise.
        most_steps: After which it stops in any case.

    Returns:
        The corrections in their order; ``predict_proba(logits, groups=...)`` makes them.

    Raises:
        InputError: If shapes disagree, a value is NaN, or a setting is out of range.

    Note:
        The paper stops at a fixed error, for which it bounds how many samples are needed; here the stop is
        one of significance, so that small cells are not fitted to their noise. O(steps × N × groups). Start
        from probabilities that are calibrated as a whole: corrections that all need are then few.

    References:
        Hébert-Johnson, Kim, Reingold and Rothblum, "Multicalibration: calibration for the
        (computationally-identifiable) masses", ICML 2018.

    Example:
        >>> labels = [1] * 90 + [0] * 10 + [1] * 60 + [0] * 40
        >>> masks = {"a": [True] * 100 + [False] * 100, "even": [True, False] * 100}
        >>> fitted = multicalibrate([1.1] * 200, labels, groups=masks)
        >>> [round(p, 2) for p in fitted.predict_proba([1.1] * 200, groups=masks)[[0, 199]].tolist()]
        [0.9, 0.6]
    """
    check_num_bins(num_bins)
    if not threshold > 0:
        raise InputError(f"`threshold` must be positive; got {threshold}.")
    checked = check_logits(logits, labels, weights, allow_minus_inf=True)
    if checked.labels is None:
        raise InputError("`labels` must be given to fit; got None.")
    masks = memberships(groups, checked.num_samples)
    first = build(start) if isinstance(start, str) else start
    scores = checked.scores
    if first is not None:
        first = first.unfitted().fit(scores, checked.labels, weights=checked.weights)
        scores = first(scores.to(torch.float64))
    probs = _probs(scores, checked.task)
    num_events, labels = probs.shape[1], checked.labels.cpu().numpy()
    outcomes = np.eye(num_events)[labels] if checked.task == "multiclass" else labels.reshape(-1, num_events)
    masses = np.ones(len(probs)) if checked.weights is None else checked.weights.cpu().numpy()
    given = masses, masks, num_bins, threshold, most_steps
    found = [_corrections(probs[:, event], outcomes[:, event], event, *given) for event in range(num_events)]
    return Multicalibrator(
        kind=checked.task,
        num_classes=checked.num_classes,
        groups=tuple(name for name in masks if name != EVERYONE),
        corrections=tuple(chain.from_iterable(found)),
        start=first,
    )


def memberships(groups: Groups, num_samples: int) -> dict[str, Mask]:
    """Mask of each group, and of all, as long as there are samples."""
    masks: dict[str, Mask] = {EVERYONE: np.ones(num_samples, dtype=np.bool_)}
    if isinstance(groups, Mapping):
        masks |= {str(name): np.asarray(mask).astype(np.bool_) for name, mask in groups.items()}
    else:
        texts = [[part.strip() for part in str(text).split(";")] for text in groups]
        names = dict.fromkeys(part for parts in texts for part in parts if part)
        masks |= {name: np.array([name in parts for parts in texts], dtype=np.bool_) for name in names}
        if len(texts) != num_samples:
            raise InputError(f"`groups` must hold {num_samples} texts, one per sample; got {len(texts)}.")
    for name, mask in masks.items():
        if mask.shape != (num_samples,):
            raise InputError(
                f"`groups` must have masks of shape ({num_samples},); {name!r} has {mask.shape}."
            )
    return masks


def _corrections(
    probs: Matrix,
    outcomes: Matrix,
    event: int,
    masses: Matrix,
    masks: Mapping[str, Mask],
    num_bins: int,
    threshold: float,
    most_steps: int,
) -> list[Correction]:
    edges = np.arange(1, num_bins) / num_bins
    rows = {name: np.flatnonzero(mask) for name, mask in masks.items() if mask.any()}
    found: list[Correction] = []
    for _ in range(most_steps):
        worst: tuple[float, str, int] = (threshold, "", 0)
        bins = np.searchsorted(edges, probs, side="left")
        off, spread = masses * (outcomes - probs), masses**2 * probs * (1 - probs)
        for name, members in rows.items():
            sums, noise = (np.bincount(bins[members], part[members], num_bins) for part in (off, spread))
            scores = np.abs(sums) / np.sqrt(np.maximum(noise, 1e-12))
            if scores.max() > worst[0]:
                worst = float(scores.max()), name, int(scores.argmax())
        z, name, cell = worst
        if z == threshold:
            break
        inside = rows[name][bins[rows[name]] == cell]
        mass = float(masses[inside].sum())
        shift = float(off[inside].sum()) / mass
        probs[inside] = np.clip(probs[inside] + shift, _LEAST, _MOST)
        low, high = cell / num_bins, (cell + 1) / num_bins
        found.append(Correction(group=name, event=event, low=low, high=high, shift=shift, count=mass, z=z))
    return found


def _probs(scores: Tensor, kind: Task) -> Matrix:
    """A column for each event, float64, not shared with the scores."""
    wide = scores.detach().cpu().to(torch.float64)
    probs = wide.softmax(dim=1) if kind == "multiclass" else wide.sigmoid().reshape(len(wide), -1)
    return np.clip(probs.numpy(), _LEAST, _MOST)
