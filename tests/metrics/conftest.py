"""Hands the rosters of metrics and streaming classes to the tests that ask for one."""

import pytest

from rosters import METRICS
from rosters_streaming import STREAMING

# What a test may ask for, and which entries it then gets.
ENTRIES = {
    "metric": lambda _: True,
    "weighted_metric": lambda entry: entry.weighted,
    "unweighted_metric": lambda entry: not entry.weighted,
    "replicating_metric": lambda entry: entry.weighted and entry.replicates,
    "unreplicating_metric": lambda entry: entry.weighted and not entry.replicates,
    "metric_of_labels": lambda entry: "multilabel" in entry.tasks and entry.labels_apart,
    "metric_of_joint_labels": lambda entry: "multilabel" in entry.tasks and not entry.labels_apart,
    "metric_without_labels": lambda entry: not entry.per_label,
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One run of the test for every metric that it asks for, or for every streaming class."""
    for fixture, wanted in ENTRIES.items():
        if fixture in metafunc.fixturenames:
            entries = [entry for entry in METRICS if wanted(entry)]
            metafunc.parametrize(fixture, entries, ids=[entry.name for entry in entries])
    if "streaming" in metafunc.fixturenames:
        metafunc.parametrize("streaming", STREAMING, ids=[entry.name for entry in STREAMING])
