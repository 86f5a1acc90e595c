"""Labels that are votes of several people: refused in one sentence, whose remedy is right."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calibrant
from calibrant import InputError, Predictions
from calibrant.calibrators import TemperatureScaling
from calibrant.metrics import brier_score
from tables_as_files import given_as

RNG = np.random.default_rng(0)
PROBS = RNG.dirichlet([1, 1, 1], 200)
COUNTS = np.array([RNG.multinomial(10, p) for p in PROBS])
SHARES = COUNTS / 10
THIRDS = np.tile([[0.33, 0.33, 0.33], [0.67, 0.33, 0.0]], (100, 1))  # rounded: not all sum to one
REMEDY = "one row per class that has any, with their share as its weight"


@pytest.mark.parametrize("labels", [SHARES, COUNTS, THIRDS])
def test_votes_are_refused_with_the_remedy(labels: np.ndarray) -> None:
    for take in (
        lambda: Predictions(probs=PROBS, labels=labels),
        lambda: brier_score(PROBS, labels),
        lambda: TemperatureScaling().fit(np.log(PROBS), labels),
    ):
        with pytest.raises(InputError, match=REMEDY):
            take()


@pytest.mark.parametrize("ending", ["csv", "jsonl", "npz"])
def test_votes_in_files(tmp_path: Path, ending: str) -> None:
    columns: dict[str, Any] = {"probs": PROBS, "labels": SHARES}
    if ending != "npz":
        rows = np.hstack([PROBS, SHARES]).T.tolist()
        names = [f"{what}_{name}" for what in ("prob", "label") for name in "abc"]
        columns = dict(zip(names, rows, strict=True))
    with pytest.raises(InputError, match=REMEDY):
        given_as(tmp_path, ending, columns)


def test_the_remedy_gives_the_score_against_the_distribution() -> None:
    row, label = np.nonzero(COUNTS)
    given = Predictions(probs=PROBS[row], labels=label, weights=SHARES[row, label], clusters=row)
    found = calibrant.evaluate(given, calibrators=[], bootstrap=20)
    loss = found.arm("uncalibrated").metrics["nll"].value
    assert loss == pytest.approx(-(SHARES * np.log(PROBS)).sum(axis=1).mean(), rel=1e-12)
    brier = found.arm("uncalibrated").metrics["brier"].value
    expected = (SHARES[:, :, None] * (PROBS[:, None] - np.eye(3)) ** 2).sum(axis=(1, 2)).mean()
    assert brier == pytest.approx(expected, rel=1e-12)
