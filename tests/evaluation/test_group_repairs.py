"""Repairs by group: what is fitted on some samples and judged, group by group, on others."""

from dataclasses import replace

import numpy as np
import pytest

from calibrant import evaluate, fit
from calibrant.evaluation.group_repairs import (
    ARMS,
    ByGroup,
    group_repairs,
    said_of,
    title_of,
    with_repairs_by_group,
)
from calibrant.evaluation.phrases import bad_groups
from calibrant.evaluation.result import Evaluation, Repair
from calibrant.predictions import Predictions
from calibrant.reports.commands import repair_commands
from calibrant.reports.html import report_text
from undrawn import drawing_no_diagrams


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


def test_copies_in_clusters_tell_as_much_as_the_samples() -> None:
    """Four visits of each patient, all alike: the same means, and intervals no narrower."""
    given = biased(400)
    rows = np.repeat(np.arange(400), 4)
    visits = given.rows(rows).with_clusters([f"p{k}" for k in rows])
    for one, other in zip(group_repairs(given), group_repairs(visits), strict=True):
        assert (one.name, 4 * one.count) == (other.name, other.count)
        for mine, theirs in zip(one.losses[:2], other.losses[:2], strict=True):  # others borrow less
            assert theirs.value == pytest.approx(mine.value)
            assert theirs.high - theirs.low == pytest.approx(mine.high - mine.low, rel=0.05)
    names = ["all old" if "old" in group else f"p{k}" for k, group in zip(rows, visits.groups, strict=True)]
    (old,) = (row for row in group_repairs(visits.with_clusters(names)) if row.name == "old")
    assert {each.reason for each in old.gaps} == {"too few clusters"}


@pytest.fixture(scope="module")
def repaired() -> tuple[Evaluation, Evaluation, ByGroup]:
    """The evaluation of two groups that differ, its answer after repairs by group, and these."""
    found = evaluate(biased(), calibrators=["platt"], bootstrap=50)
    return found, *with_repairs_by_group(found, biased(), level=0.95, seed=0)


@drawing_no_diagrams()
def test_the_sentence_counts_groups_that_are_clearly_off(repaired) -> None:
    found, answer, repairs = repaired
    start = "Groups off on average, out of 3, on these 1,500 samples: 2 (uncalibrated), 2 (one for all)"
    text = said_of(repairs, found)
    assert text.startswith(start)
    assert f", 0 ({ARMS[-1]})." in text
    assert ("The verdict finds" in text) is (len(bad_groups(found.arms[0].groups, 0.95)) != 2)
    said = "Repairs by group: Platt scaling, fitted on 1,500 samples and tested on 1,500 others."
    assert title_of(repairs).startswith(said)
    assert answer.verdict.line.startswith("Best fix: Platt scaling per group. Log loss falls from")
    section = (
        report_text(answer, by_group=repairs).partition('<h2 id="groups">')[2].partition("</section>")[0]
    )
    table = section.partition(title_of(repairs))[2]
    assert table.count('<th scope="row"') == len(repairs.rows) == 4
    assert said_of(repairs, answer) in table
    assert "Repairs by group" not in report_text(answer)


def two_channels() -> Predictions:
    """3000 customers of one channel, calibrated, and 450 of another whose scores are a third too high."""
    rng = np.random.default_rng(7)
    direct = rng.beta(2, 6, 3000)
    gone = rng.random(3000) < direct
    reseller = rng.beta(2, 6, 450)
    gone_too = rng.random(450) < reseller
    return Predictions(
        probs=np.concatenate([direct, np.minimum(1.33 * reseller, 0.999)]),
        labels=np.concatenate([gone, gone_too]).astype(int),
        groups=np.repeat(["direct", "reseller"], [3000, 450]),
    )


def test_a_group_that_is_off_is_told_what_is_known() -> None:
    """Before a test by group, that it is the next step; after one that doesn't help, that nothing does."""
    predictions = two_channels()
    found = evaluate(predictions, bootstrap=50)
    assert [row.name for row in bad_groups(found.arms[0].groups, 0.95)] == ["reseller"]
    untried = (
        "One calibrator for all samples doesn't fix group reseller: test one per group with --by-group "
        "(Python: `fit(..., by_group=True)`)."
    )
    assert found.verdict.line.splitlines()[-1] == found.verdict.sentences[-1] == untried
    answer, repairs = with_repairs_by_group(found, predictions, level=0.95, seed=0)
    assert repairs.rows[0].behind[0].low < 0  # no clear gain
    unfixed = (
        "Group reseller is off, but no repair tested clearly fixes it: none lowers the log loss beyond noise."
    )
    assert answer.verdict.line.splitlines()[-1] == answer.verdict.sentences[-1] == unfixed
    *others, last = repairs.rows
    within = replace(last, gaps=(replace(last.gaps[0], low=-1.0), *last.gaps[1:]))
    said = said_of(replace(repairs, rows=(*others, within)), found)
    assert "0 (uncalibrated)" in said
    assert "The verdict finds 1 off before any repair: it tests all 3,450 samples, not only these." in said
    assert found.verdict.repair is answer.verdict.repair is None


def test_fit_takes_the_method_that_was_tested() -> None:
    """Of two classes Platt scaling for each group, as a temperature cannot move base rates."""
    predictions = two_channels()
    found = evaluate(predictions, calibrators=["temperature"], bootstrap=50)
    _, repairs = with_repairs_by_group(found, predictions, level=0.95, seed=0)
    fitted = fit(predictions, every_row=True, by_group=True)
    assert fitted.pooled.name == repairs.method == "platt"
    assert {part.name for part in fitted.by_group.values()} == {"platt"}


def test_a_calibrator_for_each_group_is_recommended_where_it_clearly_helps(repaired) -> None:
    """Two groups that differ get their own; where groups are drawn at random, nothing is said of them."""
    differing = biased()
    random = np.random.default_rng(1).choice(["a", "b"], size=differing.num_samples)
    alike = Predictions(
        logits=differing.scores, labels=differing.labels, groups=random, split=differing.split
    )
    found = evaluate(alike, calibrators=["platt"], bootstrap=50)
    unhelped = with_repairs_by_group(found, alike, level=0.95, seed=0)
    for (answer, repairs), recommended in ((repaired[1:], True), (unhelped, False)):
        assert (answer.verdict.repair is not None and answer.verdict.repair.by_group) is recommended
        assert (repairs.rows[0].behind[0].low > 0) is recommended
    fit, _ = repair_commands(
        Repair(method="platt", file="p.csv", all_rows=True, format="csv", space="probs", by_group=True)
    )
    assert fit == "calibrant fit p.csv --all --method platt --by-group --out platt-by-group.safetensors"


def test_platt_scaling_by_group_is_tried_where_a_temperature_is_best_for_all() -> None:
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
