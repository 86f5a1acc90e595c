"""Progress of an evaluation."""

from __future__ import annotations

from collections.abc import Callable

from calibrant.predictions import Predictions

Progress = Callable[[str, float], None]


class Steps:
    """Reports progress in equal steps."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._tell = progress or (lambda _stage, _fraction: None)
        self._total = total
        self._done = -1
        self._stage = ""

    def next(self, stage: str) -> None:
        """Begin the next step."""
        self._done += 1
        self._stage = stage
        self._tell(stage, min(1.0, self._done / self._total))

    def finish(self) -> None:
        """Report that everything is done."""
        self._tell("done", 1.0)

    def within(self, fraction: float) -> None:
        """Report which share of the current step is done."""
        self._tell(self._stage, min(1.0, (self._done + fraction) / self._total))

    def watching(self, test: Predictions) -> Callable[[float], None]:
        """Told how far a step is; where scores are read from a file, that is the first half of it."""
        if not test.streamed:
            return self.within
        test.watch(lambda fraction: self.within(fraction / 2))
        return lambda fraction: self.within((1 + fraction) / 2)
