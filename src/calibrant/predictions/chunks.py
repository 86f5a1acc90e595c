"""Predictions that stay in their file: scores are read in pieces, again at every pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.arrays import ArrayLike, first_row
from calibrant._math.checks import check_weights
from calibrant._math.errors import InputError
from calibrant.predictions import checks
from calibrant.predictions.checks import ROUNDING_TOLERANCE, Kind
from calibrant.predictions.oddities import oddities
from calibrant.predictions.table import Predictions, Source

if TYPE_CHECKING:
    from jaxtyping import Float
    from torch import Tensor

PIECE = 1 << 22  # elements read at a time: 16 MiB of float32


class Rows(Protocol):
    """A table ``(N, C)`` in a file."""

    @property
    def shape(self) -> tuple[int, int]:
        """N and C."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Of what is read."""
        ...

    def read(self, start: int, stop: int) -> Float[Tensor, "n C"]:
        """Some consecutive rows, in memory of their own."""
        ...


class StreamedPredictions(Predictions):
    r"""Multiclass predictions of a file that need not fit into memory.

    They are used like :class:`Predictions`, which holds the same numbers in memory. What there is one of per
    sample (labels, split, weights, groups) is held; the scores are read in pieces, anew at every pass, and
    checked as they are read: an error names its row when the first pass gets there. ``scores``, ``probs`` and
    ``values`` read the whole table; ``scores_of`` and ``probs_of`` read some rows.

    Args:
        logits: Where rows of logits are read from.
        probs: Where rows of probabilities are read from.
        labels: True classes, or names that ``class_names`` holds.
        kind: ``"multiclass"``, if given.
        split: As of ``Predictions``, shape ``(N,)``.
        class_names: One name per class.
        weights: Weight of each sample, shape ``(N,)``.
        groups: Group of each sample, shape ``(N,)``.
        source: The file.
        notes: What a reader of the results must know about the input.

    Raises:
        InputError: If something is wrong with what is held; wrong scores are found when they are read.
    """

    def __init__(
        self,
        *,
        logits: Rows | None = None,
        probs: Rows | None = None,
        labels: ArrayLike | None = None,
        kind: Kind | None = None,
        split: ArrayLike | None = None,
        class_names: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        source: Source | None = None,
        notes: Iterable[str] = (),
    ) -> None:
        file = logits if logits is not None else probs
        if file is None or (logits is not None and probs is not None):
            raise InputError("give exactly one of `logits` and `probs`.")
        if kind not in {None, "multiclass"}:
            raise InputError(f"only multiclass predictions are read in pieces; got the kind {kind}.")
        num_samples, num_classes = file.shape
        names = None if class_names is None else checks.as_names(class_names, name="class_names")
        self._file = _CheckedRows(file, "probs" if logits is None else "logits")
        self._index: NDArray[np.int64] = np.arange(num_samples)
        self._space = self._file.space
        self._kind = "multiclass"
        self._correct = None
        self._values = torch.empty(file.shape, dtype=file.dtype, device="meta")  # a shape and a dtype
        self._labels = None if labels is None else _class_labels(labels, names, file.shape)
        self._class_names = None if names is None else checks.check_class_names(names, num_classes)
        self._split = None if split is None else checks.as_split(split, num_samples)
        self._weights = None if weights is None else check_weights(weights, num_samples).cpu()
        self._groups = None if groups is None else checks.as_groups(groups, num_samples)
        self._source = source
        first = self._read(slice(0, max(2, PIECE // num_classes)))
        odd = oddities(self._kind, self._space, first, self._labels, self._class_names)
        self._notes = (*notes, *odd)

    @property
    def values(self) -> Float[Tensor, "N C"]:
        """The whole table, read now."""
        return self._read(slice(None))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd about the input, and what was repaired in the rows read so far."""
        return (*self._notes, *self._file.repairs())

    def scores_of(self, rows: slice) -> Float[Tensor, "n C"]:
        """``scores`` of some rows, read from the file.

        Raises:
            InputError: If a value there is no score.
        """
        values = self._read(rows)
        return values if self._space == "logits" else values.to(torch.float64).log()

    def probs_of(self, rows: slice) -> Float[Tensor, "n C"]:
        """``probs`` of some rows, read from the file; float64.

        Raises:
            InputError: If a value there is no score.
        """
        values = self._read(rows).to(torch.float64)
        return values if self._space == "probs" else values.softmax(dim=1)

    @property
    def streamed(self) -> bool:
        """Whether the scores stay in their file: they do."""
        return True

    def loaded(self) -> Predictions:
        """The same predictions in memory."""
        given: dict[str, Any] = {self._space: self.values}
        return Predictions(
            **given,
            labels=self._labels,
            kind=self._kind,
            split=self._split,
            class_names=self._class_names,
            weights=self._weights,
            groups=self._groups,
            source=self._source,
        )

    def replace_scores(self, scores: ArrayLike) -> Predictions:
        """The same samples, in memory, with other logits or log-probabilities."""
        return self.loaded().replace_scores(scores)

    def replace_probs(self, probs: ArrayLike) -> Predictions:
        """The same samples, in memory, with other probabilities."""
        return self.loaded().replace_probs(probs)

    def watch(self, progress: Callable[[float], None]) -> None:
        """Call ``progress`` with the share of these rows that a pass has reached, whenever some are read."""
        self._progress = progress

    _progress: Callable[[float], None] | None = None

    def _rows(self, index: slice | ArrayLike, what: str) -> StreamedPredictions:
        part = super()._rows(index, what)
        assert isinstance(part, StreamedPredictions)  # noqa: S101  # a copy of this
        where = self._where(index)
        part._index = self._index[where if isinstance(where, slice) else where.numpy()]
        return part

    def _read(self, rows: slice) -> Float[Tensor, "n C"]:
        """The values of some of these rows, in their order."""
        index = self._index[rows]
        width = self._values.shape[1]
        order = np.argsort(index, kind="stable")  # quick where it is sorted already
        ranked = index[order]
        values = torch.empty((len(index), width), dtype=self._values.dtype)
        done = 0
        while done < len(ranked):  # files are read forwards, a stretch that holds rows wanted at a time
            start = int(ranked[done])
            stop = min(start + max(1, PIECE // width), int(ranked[-1]) + 1)
            upto = int(np.searchsorted(ranked, stop))
            piece = self._file.read(start, stop, keep=ranked[done:upto] - start)
            values = values.to(torch.promote_types(values.dtype, piece.dtype))
            values[torch.from_numpy(order[done:upto])] = piece.to(values.dtype)
            done = upto
        if self._progress is not None:
            self._progress(min(1.0, (rows.indices(len(self._index))[1]) / len(self._index)))
        return values


class _CheckedRows:
    """Rows that are checked as they are read; what is repaired is counted once, however often it is read."""

    def __init__(self, file: Rows, space: str) -> None:
        self.space: Any = space
        self._rows = file
        self._repaired = np.zeros(file.shape[0], dtype=np.bool_)
        self._largest = 0.0

    def read(self, start: int, stop: int, *, keep: NDArray[np.int64]) -> Float[Tensor, "n C"]:
        """Those of the rows ``start`` to ``stop`` that are wanted, sound."""
        values = self._rows.read(start, stop)
        if not np.array_equal(keep, np.arange(stop - start)):  # rows may repeat
            values = values[torch.from_numpy(keep)]
        if self.space == "logits":
            low, high = torch.aminmax(values)  # NaN propagates to both
            if not (bool(low.isfinite()) and bool(high.isfinite())):
                row = first_row(~values.isfinite())
                bad = values[row][~values[row].isfinite()]
                raise InputError(f"`logits` must be finite; row {start + keep[row]} holds {float(bad[0])}.")
            return values
        try:
            sound, notes = checks.repair_rows(values, name="probs")
        except InputError as error:
            raise InputError(f"in rows {start:,} to {stop - 1:,}, counted from {start:,}: {error}") from error
        if notes:
            miss = (values.to(torch.float64).sum(dim=1) - 1).abs()
            changed = (miss > ROUNDING_TOLERANCE) | (values > 1).any(dim=1)
            self._repaired[start + keep[changed.numpy()]] = True
            self._largest = max(self._largest, float(miss[changed].max()))
        return sound

    def repairs(self) -> tuple[str, ...]:
        """What was repaired so far, in a sentence."""
        count = int(self._repaired.sum())
        if count == 0:
            return ()
        return (checks.rows_divided(count, len(self._repaired), self._largest),)


def _class_labels(labels: ArrayLike, names: tuple[str, ...] | None, shape: tuple[int, int]) -> Tensor:
    """True classes, one per row."""
    found = checks.as_labels(labels, names)
    num_samples, num_classes = shape
    if found.shape != (num_samples,):
        raise InputError(
            f"`labels` must have shape ({num_samples},), one class per sample; got {tuple(found.shape)}."
        )
    bad = (found < 0) | (found >= num_classes)
    if bool(bad.any()):
        row = first_row(bad)
        raise InputError(f"`labels` must be in 0..{num_classes - 1}; row {row} holds {int(found[row])}.")
    return found
