"""Runs done again: which, and what is said where a number differs."""

from __future__ import annotations

import json
from pathlib import Path

from calibrant.experiments.repeats import apart, page_of_repeats, sample_of

RESULTS = Path(__file__).parents[2] / "docs" / "results"


def test_one_in_fifty_and_one_at_least() -> None:
    """Every fiftieth run is done again, evenly spread; of a few runs one is."""
    assert [len(sample_of(runs)) for runs in (1, 50, 51, 300)] == [1, 1, 2, 6]
    assert all(0 <= place < runs for runs in (1, 2, 51, 149) for place in sample_of(runs))


def test_every_number_counts_but_times() -> None:
    """A number that changed or is gone is unequal, wherever it stands; times are not compared."""
    found = {"cpu_seconds": 3.0, "stages": {"before": {"ece": 0.1, "nll": 0.4}}, "norms": [1.0, 2.0]}
    assert apart(found, {**found, "cpu_seconds": 9.0})["unequal"] == 0
    again = {"cpu_seconds": 3.0, "stages": {"before": {"ece": 0.3, "nll": 0.4}}, "norms": [1.0]}
    said = apart(found, again)
    assert (said["numbers"], said["unequal"]) == (4, 2)
    assert said["largest"] == {"name": "stages.before.ece", "found": 0.1, "again": 0.3}


def test_the_page_is_that_of_the_committed_repetitions() -> None:
    """The page is written from its file, and counts the runs that did not give every number again."""
    rows = json.loads((RESULTS / "repeats.json").read_text(encoding="utf-8"))
    assert (RESULTS / "repeats.md").read_text(encoding="utf-8") == page_of_repeats(rows)
    equal = sum(row["unequal"] == 0 for row in rows)
    assert f"{equal} of {len(rows)} runs gave every number again" in page_of_repeats(rows)
