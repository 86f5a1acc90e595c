"""Stores of scores: in memory, or in a file that every pass reads in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.arrays import first_row, row_slices
from calibrant._math.checks import not_finite
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant.predictions import checks

PIECE = 1 << 22  # elements read at a time: 16 MiB of float32


@dataclass(frozen=True, eq=False)
class HeldScores:
    """Checked scores ``(N,)`` or ``(N, C)`` in memory."""

    values: Float[Tensor, " N"] | Float[Tensor, "N C"]
    streamed: ClassVar[bool] = False
    repairs: ClassVar[tuple[str, ...]] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def dtype(self) -> torch.dtype:
        return self.values.dtype

    def read(self, rows: slice) -> Float[Tensor, " n"] | Float[Tensor, "n C"]:
        return self.values[rows]

    def select(self, rows: slice | Int[Tensor, " n"]) -> HeldScores:
        return HeldScores(self.values[rows])

    def pieces(self) -> Iterator[slice]:
        return row_slices(self.values)

    def watched(self, progress: Callable[[float], None]) -> HeldScores:  # noqa: ARG002
        return self


@runtime_checkable
class ScoreFile(Protocol):
    """A table ``(N, C)`` in a file, read some rows at a time."""

    @property
    def shape(self) -> tuple[int, int]:
        """N and C."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the values read."""
        ...

    def read(self, start: int, stop: int) -> Float[Tensor, "n C"]:
        """Read consecutive rows into their own memory."""
        ...


class CheckedFile:
    """File whose rows are checked when read; each repair counts once."""

    def __init__(self, file: ScoreFile, space: Literal["logits", "probs"]) -> None:
        self.shape = file.shape
        self.dtype = file.dtype
        self._file = file
        self._space = space
        self._repaired = np.zeros(file.shape[0], dtype=np.bool_)
        self._largest = 0.0

    def read(self, start: int, stop: int, *, keep: NDArray[np.int64]) -> Float[Tensor, "n C"]:
        """Read the rows ``start + keep``, all below ``stop``."""
        values = self._file.read(start, stop)
        if not np.array_equal(keep, np.arange(stop - start)):  # rows may repeat
            values = values[torch.from_numpy(keep)]
        if self._space == "logits":
            low, high = torch.aminmax(values)  # NaN propagates to both
            if not (bool(low.isfinite()) and bool(high.isfinite())):
                row = first_row(~values.isfinite())
                bad = values[row][~values[row].isfinite()]
                raise not_finite(int(start + keep[row]), float(bad[0]))
            return values
        try:
            sound, changed, largest = checks.repair_rows(values)
        except InputError as error:
            raise InputError(f"in rows {start:,} to {stop - 1:,}, counted from {start:,}: {error}") from error
        self._repaired[start + keep[changed.numpy()]] = True
        self._largest = max(self._largest, largest)
        return sound

    @property
    def repairs(self) -> tuple[str, ...]:
        return checks.rows_divided(int(self._repaired.sum()), len(self._repaired), self._largest)


@dataclass(frozen=True, eq=False)
class FileScores:
    """Rows of a file of scores, in some order."""

    file: CheckedFile
    index: NDArray[np.int64]
    progress: Callable[[float], None] | None = None
    streamed: ClassVar[bool] = True

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.index), self.file.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in the file; rows that are repaired may need a wider one."""
        return self.file.dtype

    @property
    def repairs(self) -> tuple[str, ...]:
        return self.file.repairs

    def read(self, rows: slice) -> Float[Tensor, "n C"]:
        index = self.index[rows]
        order = np.argsort(index, kind="stable")  # quick where it is sorted already
        ranked = index[order]
        values = torch.empty((len(index), self.shape[1]), dtype=self.dtype)
        done = 0
        while done < len(ranked):  # files are read forwards, a stretch that holds rows wanted at a time
            start = int(ranked[done])
            stop = min(start + self._step, int(ranked[-1]) + 1)
            upto = int(np.searchsorted(ranked, stop))
            piece = self.file.read(start, stop, keep=ranked[done:upto] - start)
            values = values.to(torch.promote_types(values.dtype, piece.dtype))
            values[torch.from_numpy(order[done:upto])] = piece.to(values.dtype)
            done = upto
        if self.progress is not None:
            self.progress(min(1.0, rows.indices(len(self.index))[1] / len(self.index)))
        return values

    def select(self, rows: slice | Int[Tensor, " n"]) -> FileScores:
        return replace(self, index=self.index[rows if isinstance(rows, slice) else rows.numpy()])

    def pieces(self) -> Iterator[slice]:
        for start in range(0, len(self.index), self._step):
            yield slice(start, min(start + self._step, len(self.index)))

    def watched(self, progress: Callable[[float], None]) -> FileScores:
        return replace(self, progress=progress)

    @property
    def _step(self) -> int:
        return max(1, PIECE // self.shape[1])


ScoreStore: TypeAlias = HeldScores | FileScores
