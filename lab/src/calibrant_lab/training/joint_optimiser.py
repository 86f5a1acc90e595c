"""Several optimisers, each for its own parameters, that act as one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.optim import Optimizer

RELATIVE_RATE = "relative_rate"
"""Entry of a parameter group: its learning rate against that of the recipe."""


class JointOptimiser(Optimizer):
    """Optimisers that take their steps together; state and parameter groups are theirs, one after the other.

    Args:
        parts: The optimisers.
        rates: Learning rate of each, relative to the recipe's.
    """

    def __init__(self, parts: Sequence[Optimizer], *, rates: Sequence[float]) -> None:
        self.parts = tuple(parts)
        self._counts = [len(part.param_groups) for part in parts]
        for part, rate in zip(parts, rates, strict=True):
            for group in part.param_groups:
                group[RELATIVE_RATE] = rate
        super().__init__([group for part in parts for group in part.param_groups], {})
        for part in parts:
            self.state.update(part.state)
        self._share()

    def step(self, closure: Any = None) -> Any:
        """A step of each; the closure, where there is one, is called once."""
        value = None if closure is None else closure()
        for part in self.parts:
            part.step()
        return value

    def load_state_dict(self, state_dict: Any) -> None:
        """Resume from what ``state_dict`` gave."""
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        """Let the parts work on this state and these groups, which others may replace."""
        place = 0
        for part, count in zip(self.parts, self._counts, strict=True):
            part.state = self.state
            part.param_groups = self.param_groups[place : place + count]
            place += count
