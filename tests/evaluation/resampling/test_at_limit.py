"""Probabilities at the limit of a gate."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant.evaluation.resampling.at_limit import OutcomeError, probabilities_at
from calibrant.evaluation.resampling.events import Events


def test_the_limit_is_reached_where_clipping_takes_from_the_gaps() -> None:
    """In one bin of 0.5 and 0.95 where all happens, 0.25 more on average takes 0.45 and 0.05."""
    measure = OutcomeError(Events(np.array([0.5, 0.95]), np.ones(2), None), "width l1", 1)
    (probs,) = probabilities_at([measure], [measure.gaps()], 0.25)
    assert probs == pytest.approx([0.95, 1.0], abs=1e-9)


def test_a_limit_out_of_reach_gives_the_most_there_is() -> None:
    """What errs is moved to the end; a bin that is exactly right stays."""
    stated, outcomes = np.array([0.25, 0.25, 0.25, 0.25, 0.75, 0.75]), np.array([1.0, 0, 0, 0, 1, 1])
    measure = OutcomeError(Events(stated, outcomes, None), "width l1", 2)
    (probs,) = probabilities_at([measure], [measure.gaps()], 0.9)
    assert probs.tolist() == [0.25] * 4 + [1.0] * 2
