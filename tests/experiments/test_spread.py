"""Tables shared out by engines: the same bits, also where a worker dies."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from calibrant import Predictions, evaluate
from calibrant.experiments.engines.in_order import in_order
from calibrant.experiments.engines.spread import spreading
from calibrant.predictions.partitioned import PartitionedPredictions


def test_no_more_is_asked_for_than_memory_holds() -> None:
    """Answers come in order, and questions are asked only so far ahead."""
    asked: list[int] = []

    def submit(item: int) -> int:
        asked.append(item)
        return -item

    answers = in_order(submit, range(9), ahead=3, get=abs)
    assert next(answers) == 0
    assert asked == [0, 1, 2]
    assert list(answers) == list(range(1, 9))


@pytest.mark.slow
def test_engines_give_the_same_bits_and_ray_survives_a_killed_worker(tmp_path) -> None:
    """One process, a pool of two and two raylets' workers agree to the last bit; one is killed meanwhile."""
    pytest.importorskip("ray")
    rng = np.random.default_rng(0)
    for k in range(4):
        logits = 2 * rng.normal(size=(500, 3))
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        Predictions(logits=logits, labels=labels).save(tmp_path / f"{k}.parquet")
    table = PartitionedPredictions(tmp_path)
    once = tmp_path / "killed"

    def judged(spread) -> str:
        return evaluate(
            table, calibrators=["temperature"], bootstrap=20, null_draws=40, spread=spread
        ).to_json()

    with spreading("serial") as spread:
        wanted = judged(spread)
    with spreading("pool", jobs=2) as spread:
        assert judged(spread) == wanted
    with spreading("ray", jobs=2) as spread:

        def with_a_death(task, items):
            def done(item):
                part = item[0] if isinstance(item, tuple) else item  # with the share of rows to draw
                if part.number == 2 and not once.exists():
                    once.write_text("")
                    os.kill(os.getpid(), signal.SIGKILL)
                return task(item)

            return spread(done, items)

        assert judged(with_a_death) == wanted
    assert once.exists()
