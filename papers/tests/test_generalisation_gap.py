"""The generalisation-gap study, small: the argument in numbers, and the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from calibrant import theory
from calibrant_lab.sweep.kept_runs import KeptRun, content_of
from papers.generalisation_gap import PAGE
from papers.generalisation_gap.measure import GeneralisationGap
from papers.generalisation_gap.numbers import by_quantity


def runs(cells: list[tuple[int, int]], seeds: list[int]) -> list[dict[str, Any]]:
    """Each cell, samples and features, on each seed."""
    keys: tuple[str, ...] = ("num_samples", "num_features", "seed")
    points: list[dict[str, Any]] = [
        dict(zip(keys, (*cell, seed), strict=True)) for seed in seeds for cell in cells
    ]
    return [{**point, **GeneralisationGap().simulate(point)} for point in points]


def content(records: list[dict[str, Any]]) -> dict[str, Any]:
    """The results file of such runs."""
    kept = [
        KeptRun(
            settings={name: value for name, value in record.items() if name != "arms"},
            found=by_quantity(record["arms"]),
        )
        for record in records
    ]
    return content_of(kept, PAGE.also(records, {}))


@pytest.fixture(scope="module")
def gap_records() -> list[dict[str, Any]]:
    """Two loads, two seeds."""
    return runs([(200, 40), (800, 2)], [0, 1])


def test_the_argument_in_numbers(gap_records: list[dict[str, Any]]) -> None:
    """Cross-entropy: temperature 1 on its sample, above on new ones; the product foretells focal loss's."""
    for record in gap_records:
        cross, focal = record["arms"][0], record["arms"][2]
        assert cross["train"]["temperature"] == pytest.approx(1, abs=1e-7)
        product = focal["train"]["temperature"] * cross["test"]["temperature"]
        assert product == pytest.approx(focal["test"]["temperature"], rel=0.05)
        closest = theory.closest_temperature(1.0, 2).temperature
        assert focal["train"]["temperature"] == pytest.approx(closest, rel=0.03)
    assert gap_records[0]["arms"][0]["test"]["temperature"] > 1.5


def test_generalisation_gap_page(gap_records: list[dict[str, Any]], tmp_path: Path) -> None:
    """The page is whole with cells missing, and says how many fits have no minimum."""
    written = PAGE.write(content(gap_records), tmp_path)
    text = written[0].read_text(encoding="utf-8")
    assert "All 24 fits have a minimum." in text
    assert "nan" not in text
    cells = PAGE.read(tmp_path)["cells"]
    assert [(cell["num_samples"], cell["num_features"]) for cell in cells] == [(200, 40), (800, 2)]


def test_fits_without_minimum_are_counted() -> None:
    """A sample that can be separated has no minimum; it is counted and left out."""
    records = runs([(20, 40), (200, 40)], [0])
    assert not any(arm["converged"] for arm in records[0]["arms"])
    numbers = PAGE.numbers_in(content(records))
    assert [arm["without_minimum"] for arm in numbers["cells"][0]["arms"]] == [1] * 6
    assert numbers["cells"][0]["arms"][0]["test_overconfidence"] is None
    assert "6 of 12 fits have no minimum" in PAGE.text(numbers)


@pytest.mark.parametrize(("temperature", "said"), [(1.0, "depends on the gap"), (2.2, "holds")])
def test_better_is_asked_of_the_argument_s_gap(
    gap_records: list[dict[str, Any]], temperature: float, said: str
) -> None:
    """At the largest load, where cross-entropy needs what the argument starts from; the smallest is ours."""
    numbers = PAGE.numbers_in(content(gap_records))
    cross, _, focal, *_ = numbers["cells"][0]["arms"]
    cross["each"] |= {
        "test_temperature": [temperature, temperature + 0.01],
        "test_calibration_error": [0.2, 0.21],
    }
    focal["each"] |= {"test_calibration_error": [0.1, 0.11]}
    claims = {claim.key: claim for claim in PAGE.claims(numbers)}
    assert (claims["better-heavy"].verdict, claims["better-heavy"].said) == ("holds", said)
    assert claims["better-light"].source == "this project"


def test_the_farthest_fit_is_named(gap_records: list[dict[str, Any]]) -> None:
    """How far cross-entropy's temperature on its sample is from 1 is said of single fits, not of means."""
    numbers = PAGE.numbers_in(content(gap_records))
    numbers["cells"][0]["arms"][0]["each"]["train_temperature_less_1"] = [3e-8, -3e-8]
    claims = {claim.key: claim for claim in PAGE.claims(numbers)}
    assert "at most 3.0e-08 from 1 in any fit" in claims["calibrated-on-sample"].evidence
