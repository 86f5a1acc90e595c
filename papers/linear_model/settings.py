"""Settings of the linear-model study."""

from __future__ import annotations

from dataclasses import dataclass

GAMMAS = (0.0, 1.0, 2.0, 3.0)
SPREADS = (0.2, 0.35, 0.5, 0.7)
PRIOR_SCALE = 5.0


@dataclass(frozen=True, kw_only=True)
class Setting:
    """What the reference does not say is chosen here."""

    num_samples: int = 400
    num_test: int = 20_000
    spread: float = 0.35
    flipped: float = 0.1
    learning_rate: float = 0.02
    iterations: int = 50_000


DEFAULT = Setting()
