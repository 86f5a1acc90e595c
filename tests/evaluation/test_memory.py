"""Memory: the table of probabilities is never held in double precision."""

from __future__ import annotations

import sys

import pytest

from fresh_process import printed

PROGRAM = """
import numpy as np
import torch
from calibrant import Predictions, evaluate

generator = torch.Generator().manual_seed(0)
for num_samples in (200, 20_000):
    logits = torch.randn(num_samples, 1000, generator=generator)
    draws = [torch.multinomial(rows.exp(), 1, generator=generator) for rows in logits.split(1000)]
    labels = torch.cat(draws)[:, 0]
    predictions = Predictions(logits=2 * logits, labels=labels, split=np.arange(num_samples) % 2)
    del logits
    found = evaluate(predictions, bootstrap=60, null_draws=60)
    print(found.verdict.direction, peak())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_no_table_of_a_thousand_classes_is_held_in_double_precision() -> None:
    """20,000 rows are 80 MB; all the work takes 245 more than 200 rows do, with the whole in double 405."""
    _, before, direction, megabytes = printed(PROGRAM)
    assert direction == "over-confident"
    assert int(megabytes) - int(before) < 360
