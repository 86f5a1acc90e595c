"""Per-sample scores in closed form, for classes, events and several labels."""

import torch

from calibrant._math.scores import (
    steady_sigmoid,
)


def test_equal_scores_have_equal_probabilities() -> None:
    """Of 67 equal scores the last three, which are no whole vector, are rounded as the others are."""
    scores = torch.arange(200, dtype=torch.float64).sin()
    each = torch.stack([steady_sigmoid(score.repeat(67)) for score in scores])
    assert bool((each == each[:, :1]).all())
    assert float((each[:, 0] - scores.sigmoid()).abs().max()) < 1e-15
    assert steady_sigmoid(torch.empty(0)).shape == (0,)
