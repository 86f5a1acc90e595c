"""What reports say of how often intervals cover."""

from __future__ import annotations

import json

from calibrant.evaluation.measured_coverage import FILE, coverage_of
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.result import Intervals
from papers.analysis import content
from papers.coverage.run import packaged


def procedure(intervals: Intervals = "inverted", level: float = 0.95) -> Procedure:
    """Of binary predictions."""
    return Procedure(
        kind="binary", num_bins=15, num_resamples=20, num_draws=20, level=level, seed=0, intervals=intervals
    )


def test_the_package_says_what_the_study_found() -> None:
    """The file in the package is the summary of the page's numbers; the study renews both."""
    assert packaged(content("coverage")) == {FILE: json.loads(FILE.read_text(encoding="utf-8"))}


def test_coverage_is_told_of_what_was_measured_alone() -> None:
    """The forms of an error and its debiased one share it; means and other kinds of interval have none."""
    found = coverage_of(procedure(), ["event_ece", "ece", "debiased_ece", "nll", "no_such_metric"])
    assert found is not None
    assert list(found.values) == ["event_ece", "ece", "debiased_ece"]
    assert found.values["event_ece"] == found.values["debiased_ece"]
    assert coverage_of(procedure("centred"), ["ece"]) is None
    assert coverage_of(procedure(level=0.9), ["ece"]) is None
