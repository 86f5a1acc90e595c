"""Where the scores of predictions are kept: what every store offers, and the one in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from calibrant._math.arrays import row_slices
from calibrant._math.shapes import Float, Int


class ScoreStore(ABC):
    """Scores ``(N,)`` or ``(N, C)`` that are checked, wherever they are kept."""

    streamed: ClassVar[bool] = False
    """Whether the scores stay in a file, to be read again at every pass."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """``(N,)`` or ``(N, C)``."""

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The dtype of what is read, unless a repair needs a wider one."""

    @property
    def repairs(self) -> tuple[str, ...]:
        """What was repaired in the rows read so far, unless the notes of the predictions say it already."""
        return ()

    @abstractmethod
    def read(self, rows: slice) -> Float[Tensor, " n"] | Float[Tensor, "n C"]:
        """Some rows."""

    @abstractmethod
    def select(self, rows: slice | Int[Tensor, " n"]) -> ScoreStore:
        """A store of some rows, in that order."""

    @abstractmethod
    def pieces(self) -> Iterator[slice]:
        """All rows, in slices that are small enough to work on."""

    def watched(self, progress: Callable[[float], None]) -> ScoreStore:  # noqa: ARG002
        """The same scores; where they are read in pieces, ``progress`` is told which share has been read."""
        return self


@dataclass(frozen=True, eq=False)
class HeldScores(ScoreStore):
    """Scores in memory."""

    values: Float[Tensor, " N"] | Float[Tensor, "N C"]

    @property
    def shape(self) -> tuple[int, ...]:
        """``(N,)`` or ``(N, C)``."""
        return tuple(self.values.shape)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the values."""
        return self.values.dtype

    def read(self, rows: slice) -> Float[Tensor, " n"] | Float[Tensor, "n C"]:
        """A view of some rows."""
        return self.values[rows]

    def select(self, rows: slice | Int[Tensor, " n"]) -> HeldScores:
        """Some rows; a slice copies nothing."""
        return HeldScores(self.values[rows])

    def pieces(self) -> Iterator[slice]:
        """Slices whose float64 copies stay in cache."""
        return row_slices(self.values)
