"""Settings of the temperature-line study."""

from __future__ import annotations

from typing import Literal

Criterion = Literal["nll", "ece"]
CRITERIA: tuple[Criterion, ...] = ("nll", "ece")
GAMMAS: tuple[float, ...] = tuple(-0.5 + 0.25 * step for step in range(23))
"""The exponents that are followed, over the range of the search along the line."""
RANGES = ((-0.5, 1.0), (0.0, 5.0), (-0.5, 5.0))
WHOLE = RANGES[-1]
LOSSES = {
    "cross-entropy": "cross-entropy",
    "focal(gamma=1)": "γ = 1",
    "focal(gamma=2)": "γ = 2",
    "focal(gamma=3)": "γ = 3",
    "focal(gamma=5)": "γ = 5",
}
PLAIN = "cross-entropy"
AS_PUBLISHED = ("focal(gamma=1)", "focal(gamma=2)", "focal(gamma=3)")
"""The losses of which it is claimed that they need a temperature nearer to 1."""
DIVISIONS = 3
WORTH = 1e-4
"""Differences of NLL below this count as nothing."""
LINEAR = 0.99
"""R² above which a relation counts as close to linear."""
