"""Where the scores of predictions are kept: what every store offers, and the one in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from calibrant._math.arrays import row_slices

if TYPE_CHECKING:
    import torch
    from jaxtyping import Float, Int
    from torch import Tensor


class ScoreStore(Protocol):
    """Scores ``(N,)`` or ``(N, C)`` that are checked, wherever they are kept."""

    @property
    def shape(self) -> tuple[int, ...]:
        """``(N,)`` or ``(N, C)``."""
        ...

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of what is read, unless a repair needs a wider one."""
        ...

    @property
    def streamed(self) -> bool:
        """Whether the scores stay in a file, to be read again at every pass."""
        ...

    @property
    def repairs(self) -> tuple[str, ...]:
        """What was repaired in the rows read so far and is not in the notes of the predictions yet."""
        ...

    def read(self, rows: slice) -> Float[Tensor, " n"] | Float[Tensor, "n C"]:
        """Some rows."""
        ...

    def select(self, rows: slice | Int[Tensor, " n"]) -> ScoreStore:
        """A store of some rows, in that order; no row is read."""
        ...

    def pieces(self) -> Iterator[slice]:
        """All rows, in slices that are small enough to work on."""
        ...

    def watched(self, progress: Callable[[float], None]) -> ScoreStore:
        """The same store, which calls ``progress`` with the share of its rows that a pass has read."""
        ...


@dataclass(frozen=True, eq=False)
class HeldScores:
    """Scores in memory."""

    values: Float[Tensor, " N"] | Float[Tensor, "N C"]
    streamed = False
    repairs = ()

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

    def watched(self, progress: Callable[[float], None]) -> HeldScores:  # noqa: ARG002
        """The same store: what is in memory is read at once."""
        return self
