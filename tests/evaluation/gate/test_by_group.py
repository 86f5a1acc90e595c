"""Limits held in every group."""

import re

import numpy as np
import pytest

from calibrant import Predictions
from calibrant._math.errors import InputError
from calibrant.evaluation import check
from calibrant.evaluation.parts import source
from calibrant.predictions.partitioned import PartitionedPredictions
from calibrant.reports.exports import junit_text


def table(*, gap: float, sizes: dict[str, int], bad: str, seed: int = 0, **more: object) -> Predictions:
    """Calibrated probabilities of an event, but for one group in which they are too high by ``gap``."""
    rng = np.random.default_rng(seed)
    groups = np.repeat(list(sizes), list(sizes.values()))
    stated = 0.15 + 0.7 * rng.random(len(groups))
    true = stated - gap * (groups == bad)
    return Predictions(probs=stated, labels=rng.random(len(groups)) < true, groups=groups, **more)


def test_a_bad_group_fails_what_all_samples_pass() -> None:
    """3000 calibrated customers hide 450 for whom 14 points too much is predicted; both rates are given."""
    predictions = table(gap=0.14, sizes={"direct": 3000, "reseller": 450}, bad="reseller")
    found = check(predictions, {"ece": 0.05})
    assert [(each.group, each.passed) for each in found.checks] == [
        (None, True),
        ("direct", True),
        ("reseller", False),
    ]
    assert not found.passed
    sentence = found.checks[2].sentence
    assert sentence.startswith("Group reseller: The calibration error (ECE) of the positive class is 0.")
    assert sentence.endswith("% actual.")
    assert check(predictions, {"ece": 0.05}, groups="none").passed
    assert check(predictions, {"ece": 0.05}, groups=["direct"]).passed
    assert 'name="ece at most 0.05 in group reseller"' in junit_text(found)
    predictions = table(gap=0.14, sizes={"direct": 1000, "": 500}, bad="")
    failed = {
        each.group: each.sentence for each in check(predictions, {"ece": 0.05}).checks if not each.passed
    }
    assert [*failed] == ["unknown"]
    assert failed["unknown"].startswith("Group unknown: ")


def test_calibrated_groups_rarely_fail() -> None:
    """Of 12 tables with eight calibrated groups, about 5% of a limit of zero fail in any; 4 is too many."""
    failed = 0
    for seed in range(12):
        predictions = table(gap=0.0, sizes=dict.fromkeys("abcdefgh", 60), bad="", seed=seed)
        checks = check(predictions, {"ece": 0.0}, bootstrap=60).checks
        failed += not all(each.passed for each in checks if each.group is not None)
    assert failed <= 3  # more has a chance of 1 in 450


def test_small_groups_are_checked_together() -> None:
    """Groups below 30 samples are one, and counted in its name; limits of other values are not for groups."""
    sizes = {"large": 200, "tiny": 12, "small": 29, "one": 1}
    predictions = table(gap=0.0, sizes=sizes, bad="")
    found = check(predictions, {"ece": 0.2, "accuracy": 0.1}, bootstrap=100)
    assert [(each.metric, each.group) for each in found.checks] == [
        ("ece", None),
        ("accuracy", None),
        ("ece", "large"),
        ("ece", "other (3 groups)"),
    ]


def test_a_group_of_one_sample_is_refused_or_said() -> None:
    predictions = table(gap=0.0, sizes={"large": 200, "one": 1}, bad="")
    found = check(predictions, {"ece": 0.2}, bootstrap=100)
    assert [each.group for each in found.checks] == [None, "large"]
    assert "Group one was not checked: it holds one sample." in found.notes
    with pytest.raises(InputError, match="'one' holds one"):
        check(predictions, {"ece": 0.2}, groups=["one"], bootstrap=100)
    # One group alone is all samples again; if it is asked for it is checked all the same.
    predictions = table(gap=0.0, sizes={"all": 100}, bad="")
    assert [each.group for each in check(predictions, {"ece": 0.3}).checks] == [None]
    asked = check(predictions, {"ece": 0.3}, groups=["all"])
    assert [each.group for each in asked.checks] == [None, "all"]


def test_groups_of_a_table_in_parts_are_checked(tmp_path, monkeypatch) -> None:
    """Each like the same rows in memory; of rows too many to hold, random ones are, which is said."""
    rng = np.random.default_rng(1)
    sizes = {"direct": 1000, "reseller": 450, "small": 20, "tiny": 5}
    held = table(gap=0.2, sizes=sizes, bad="reseller", weights=rng.uniform(0.5, 1, 1475))
    mixed = held.rows(rng.permutation(1475))
    for number in range(2):
        mixed.rows(np.arange(number, 1475, 2)).save(tmp_path / f"{number}.parquet")
    whole = mixed.rows(np.r_[0:1475:2, 1:1475:2])
    parts = PartitionedPredictions(tmp_path)
    limits = {"ece": 0.05, "smce": 0.05, "accuracy": 0.1}
    found = check(parts, limits, bootstrap=60)
    assert [(each.group, each.passed) for each in found.checks if not each.passed] == [
        ("reseller", False),
        ("reseller", False),
    ]
    mine, theirs = (
        [each for each in of.checks if each.group is not None]
        for of in (found, check(whole, limits, bootstrap=60))
    )
    assert mine == theirs
    assert not any("random rows" in note for note in found.notes)
    assert check(parts, {"ece": 0.08}, bootstrap=60, groups="none").passed
    named = check(parts, {"ece": 0.08}, bootstrap=60, groups=["tiny"], positive_class=0)
    assert {each.group for each in named.checks} == {None, "tiny"}
    monkeypatch.setattr(source, "MOST_FITTED", 1000)
    some = check(parts, {"ece": 0.05}, bootstrap=60)
    assert [each.group for each in some.checks if not each.passed] == ["reseller"]
    assert any(
        re.fullmatch("Groups were checked on [0-9,]+ random rows of the table.", n) for n in some.notes
    )
    plain = tmp_path / "plain.parquet"
    Predictions(probs=held.probs, labels=held.labels).save(plain)
    with pytest.raises(InputError, match="the predictions have none"):
        check(PartitionedPredictions(plain), limits, groups=["a"])
