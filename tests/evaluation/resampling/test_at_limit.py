"""Probabilities at the limit of a gate."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.evaluation.resampling.at_limit import OutcomeErrors
from calibrant.evaluation.resampling.events import Events


def at_limit(stated: list[float], outcomes: list[float], limit: float, *, num_bins: int) -> np.ndarray:
    """The probabilities of a model at the limit, with the gaps found."""
    event = Events(np.array(stated), np.array(outcomes))
    models = OutcomeErrors("width l1", [event], 0.0, num_bins=num_bins, num_draws=2, seed=0)
    return models.stated + models.at(limit, models.gaps())


def test_the_limit_is_reached_where_clipping_takes_from_the_gaps() -> None:
    """In one bin of 0.5 and 0.95 where all happens, 0.25 more on average takes 0.45 and 0.05."""
    assert at_limit([0.5, 0.95], [1.0, 1.0], 0.25, num_bins=1) == pytest.approx([0.95, 1.0], abs=1e-9)


def test_a_limit_out_of_reach_gives_the_most_there_is() -> None:
    """What errs is moved to the end; a bin that is exactly right stays."""
    stated, outcomes = [0.25, 0.25, 0.25, 0.25, 0.75, 0.75], [1.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    assert at_limit(stated, outcomes, 0.9, num_bins=2).tolist() == [0.25] * 4 + [1.0] * 2
