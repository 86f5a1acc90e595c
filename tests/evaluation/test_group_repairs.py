"""Repairs by group: what is fitted on some samples and judged, group by group, on others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from calibrant import evaluate
from calibrant._math.errors import InputError
from calibrant.evaluation.group_repairs import ARMS, group_repairs, said_of, with_repairs_by_group
from calibrant.evaluation.result import Repair
from calibrant.predictions import Predictions
from calibrant.reports.commands import repair_commands


def biased(count: int = 3000, *, columns: int = 1) -> Predictions:
    """One group is told too little and the other too much."""
    rng = np.random.default_rng(0)
    odds = rng.normal(size=count)
    old = rng.random(count) < 0.5
    labels = (rng.random(count) < 1 / (1 + np.exp(-odds - np.where(old, 1.0, -1.0)))).astype(int)
    logits = np.stack([-odds, odds, np.full(count, -9.0)][:columns], axis=1) / 2 if columns > 1 else odds
    groups = np.where(old, "old; all sites", "young; all sites")
    return Predictions(logits=logits, labels=labels, groups=groups, split=np.arange(count) % 2)


@pytest.mark.parametrize("columns", [1, 3])
def test_only_repairs_by_group_mend_groups_that_differ(columns) -> None:
    """One calibrator for all leaves each group as far off as it was; the others mend it."""
    rows = {row.name: row for row in group_repairs(biased(columns=columns), method="temperature")}
    assert next(iter(rows)) == ""
    assert set(rows) == {"", "old", "young", "all sites"}
    assert rows[""].count == rows["all sites"].count == 1500
    if columns == 1:
        plain, pooled, _, several = (abs(gap.value) for gap in rows["old"].gaps)
        assert min(plain, pooled) > 0.1
        assert several < 0.05


def test_the_sentence_counts_groups_that_are_clearly_off() -> None:
    """By intervals: both differing groups before, none after multicalibration."""
    text = said_of(group_repairs(biased(), method="platt"))
    assert text.startswith("Groups whose average probability is off, of 3: uncalibrated 2, one for all 2")
    assert text.endswith(f", {ARMS[-1]} 0.")


def test_a_calibrator_for_each_group_is_recommended_where_it_clearly_helps() -> None:
    """Two groups that differ get their own; where groups are drawn at random, nothing is said of them."""
    differing = biased()
    random = np.random.default_rng(1).choice(["a", "b"], size=differing.num_samples)
    alike = Predictions(
        logits=differing.scores, labels=differing.labels, groups=random, split=differing.split
    )
    for predictions, recommended in ((differing, True), (alike, False)):
        found = evaluate(predictions, calibrators=["platt"], bootstrap=50)
        answer, repairs = with_repairs_by_group(found, predictions, level=0.95, seed=0)
        assert (answer.verdict.repair is not None and answer.verdict.repair.by_group) is recommended
        lost = repairs.rows[0].behind[0]
        assert (lost.low > 0) is recommended
    fit, _ = repair_commands(
        Repair(method="platt", file="p.csv", all_rows=True, format="csv", space="probs", by_group=True)
    )
    assert fit == "calibrant fit p.csv --all --method platt --by-group --out platt-by-group.safetensors"


def test_platt_scaling_by_group_is_tried_where_a_temperature_is_best_for_all() -> None:
    """Two groups that err in opposite directions: a temperature for each cannot mend them."""
    for predictions in (biased(), biased(columns=2)):
        found = evaluate(predictions, calibrators=["temperature"], bootstrap=50)
        temperature = Repair(method="temperature", file="p.csv", all_rows=True, format="csv", space="probs")
        pooled = replace(found, verdict=replace(found.verdict, repair=temperature))
        answer, repairs = with_repairs_by_group(pooled, predictions, level=0.95, seed=0)
        assert repairs.method == "platt"
        assert answer.verdict.repair == replace(temperature, method="platt", by_group=True)
        assert "The method is platt" in answer.verdict.reason
        old = next(row for row in repairs.rows if row.name == "old")
        assert abs(old.gaps[2].value) < 0.05 < abs(old.gaps[1].value)


def test_what_cannot_be_judged_is_refused() -> None:
    """No groups, several labels, or a handful of samples."""
    with pytest.raises(InputError, match="`groups` must be given"):
        group_repairs(Predictions(logits=[0.0, 1.0], labels=[0, 1]))
    with pytest.raises(InputError, match="one label per sample"):
        group_repairs(Predictions(logits=[[0.0, 1.0]] * 2, labels=[[0, 1]] * 2, groups=["a", "b"]))
    with pytest.raises(InputError, match="need 20 samples or more; got 4"):
        group_repairs(Predictions(logits=[0.0] * 4, labels=[0, 1] * 2, groups=["a", "b"] * 2))
