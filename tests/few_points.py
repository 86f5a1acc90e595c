"""Searches of calibrators over fewer points, by the same lines: most laws hold for any number of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from calibrant.calibrators.fitting import grid, searches


@contextmanager
def few_points() -> Iterator[None]:
    """Search jumping objectives at a few points only."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name, step in (
            (searches, "PAPER_GAMMAS", 4),
            (searches, "PAPER_TEMPERATURES", 5),
            (searches, "_WIDE_GAMMAS", 12),
            (searches, "_FINE_GRID", 10),
        ):
            points = getattr(module, name)
            patch.setattr(module, name, points[(len(points) - 1) % step :: step])
        for module, name, value in (
            (searches, "_ZOOMED_POINTS", 3),
            (searches, "_ZOOM_POINTS", 4),
            (grid, "_MOST_EXACT", 8),
            (grid, "_SPACING", 0.25),
        ):
            patch.setattr(module, name, value)
        yield
