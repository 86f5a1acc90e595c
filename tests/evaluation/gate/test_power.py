"""Samples that are too few for a gate: what would pass, and that it is said."""

import json

import numpy as np
import pytest
from scipy.stats import binom

from calibrant.evaluation import check
from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.gate.limits_and_baseline import UndetectedError, missed_accuracy, undetected
from calibrant.evaluation.judging.at_limit import AtLimitKernel, error_models
from calibrant.evaluation.resampling.events import Events
from calibrant.predictions import Predictions


def missed_error(error: AtLimitKernel, events: list[Events], limit: float) -> UndetectedError | None:
    """The worst model that would pass; the error found does not matter."""
    procedure = Procedure(kind="binary", num_bins=15, num_resamples=2, num_draws=1000, level=0.95, seed=0)
    models = error_models(error, events, 0.0, procedure)
    return undetected(models, limit, confidence=0.95)


def would_pass(
    num_samples: int, stated: float, limit: float, *, half: float = 0.5, level: float = 0.05
) -> tuple[float | None, bool]:
    """By the binomial distribution, where all samples are stated alike: the error is that of one bin."""
    errors = np.abs(np.arange(num_samples + 1) / num_samples - stated)

    def beyond(share: float, least: float) -> float:
        return float(binom.pmf(np.arange(num_samples + 1), num_samples, share)[errors >= least - 1e-9].sum())

    failing = [error for error in errors if beyond(stated - limit, error) <= level]
    if not failing or stated <= min(failing) - 1e-9:  # the worst is that none is right
        return None, True
    found = None
    first = max(2 * limit, limit + 0.05)
    for wrong in [first, *(k / 10 for k in range(1, 10) if k / 10 > first)]:
        if beyond(max(0.0, stated - wrong), min(failing)) >= half:
            break
        found = wrong
    return found, False


@pytest.mark.parametrize(("num_samples", "stated"), [(2, 0.9), (3, 0.9), (8, 0.95), (30, 0.8), (400, 0.8)])
@pytest.mark.parametrize("limit", [0.0, 0.05, 0.2])
def test_the_worst_model_that_passes_by_the_binomial_distribution(num_samples, stated, limit) -> None:
    """Draws find what an exact computation finds, with equal weights and with none.

    Four standard errors of the shares, of 1000 draws at the limit and 400 of the worse models, are allowed.
    """
    least, most = (
        would_pass(num_samples, stated, limit, half=0.5 + 0.1 * sign, level=0.05 - 0.028 * sign)
        for sign in (-1, 1)
    )
    for weights in (None, np.full(num_samples, 0.3)):
        event = Events(np.full(num_samples, stated), np.ones(num_samples), weights)
        found = missed_error("width l1", [event], limit)
        if found is not None and found.always:
            assert most[1]
        else:
            value = 0.0 if found is None else found.value
            assert (least[0] or 0.0) <= value <= (1.0 if most[1] else most[0] or 0.0)
            assert not least[1]
    assert (num_samples < 10) <= (found is not None)
    assert num_samples < 100 or found is None


def test_what_happened_does_not_matter_and_what_was_stated_does() -> None:
    stated = np.array([0.9, 0.8, 0.7])
    for error in ("width l1", "mass l1", "smooth"):
        found = {
            missed_error(error, [Events(probs, np.array(outcomes, float))], 0.05)
            for probs, outcomes in ((stated, [1, 1, 1]), (stated, [0, 1, 0]), (1 - stated, [0, 0, 1]))
        }
        assert len({each.value for each in found if each is not None}) == 1
        assert None not in found
    # The smooth error is greatest where none happens: no smooth weight changes its sign at once.
    stated = np.linspace(0.3, 0.7, 400)
    event = Events(stated, (np.arange(400) % 2).astype(float))
    assert missed_error("smooth", [event], 0.2) is None
    beyond = missed_error("smooth", [event], 0.5)  # the mean of what is stated
    assert (beyond.value, beyond.always) == (pytest.approx(0.5), True)


def test_accuracy_by_hand() -> None:
    """Of three at 0.9, two wrong fail (2.8 %); at 0.6 that is so in 35 % of cases, at 0.5 in half of them."""
    found = missed_accuracy(0.9, 3, confidence=0.95)
    assert (found.value, found.always) == (0.6, False)
    none = missed_accuracy(0.5, 3, confidence=0.95)  # not even three wrong fail: 12.5 %
    assert none.always
    assert missed_accuracy(0.9, 60, confidence=0.95) is None
    assert missed_accuracy(0.9, 100_000, confidence=0.95) is None


@pytest.mark.parametrize(("num_samples", "least"), [(5, 0.5), (5, 0.51), (8, 0.4), (60, 0.1)])
def test_a_low_accuracy_may_be_missed_too(num_samples, least) -> None:
    """Where twice the share that is wrong is out of reach, halfway to none right is looked at, and worse."""
    hits = np.arange(num_samples + 1)
    fails = hits[binom.cdf(hits, num_samples, least) <= 0.05]
    halfway = least / 2
    passed = [
        right
        for right in (halfway, *(k / 10 for k in range(10)))
        if 0 < right <= halfway and binom.cdf(max(fails), num_samples, right) < 0.5
    ]
    found = missed_accuracy(least, num_samples, confidence=0.95)
    assert found.value == pytest.approx(min(passed))
    assert not found.always
    predictions = Predictions(confidence=[0.9] * num_samples, correct=[1] * num_samples)
    strict = check(predictions, {"accuracy": least}, bootstrap=2, strict=True)
    assert (strict.passed, strict.checks[0].conclusive) == (False, False)


def test_a_high_limit_of_an_error_may_be_missed_too() -> None:
    """Of probabilities of 0.6 the error is 0.6 at most: at a limit of 0.35, 0.475 is looked at, then 0.5."""
    event = Events(np.full(12, 0.6), np.ones(12), None)
    found = missed_error("width l1", [event], 0.35)
    least = min(hits for hits in range(13) if binom.cdf(hits, 12, 0.25) > 0.05)  # hits that pass
    assert binom.sf(least - 1, 12, 0.125) > 0.6  # clearly more often than not
    assert (found.value, found.always) == (pytest.approx(0.5), False)
    many = Events(np.full(2000, 0.6), np.ones(2000), None)
    assert missed_error("width l1", [many], 0.35) is None
    # Chance gives an ECE of about 0.1 where 13 fall into a bin, next to none where all fall into one.
    spread = Events(np.linspace(0.01, 0.99, 200), np.ones(200), None)
    found = missed_error("width l1", [spread], 0.0)
    assert (found.value >= 0.05, found.always) == (True, False)
    alone = missed_error("width l1", [Events(np.full(200, 0.99), np.ones(200), None)], 0.0)
    assert alone is None


@pytest.mark.parametrize("num_samples", [50, 24_000])
def test_what_nothing_fails_is_said_of_many_samples_too(num_samples) -> None:
    """A limit beyond the greatest error, an accuracy of nothing, or ten draws: no number of samples helps."""
    predictions = Predictions(confidence=np.full(num_samples, 0.6), correct=np.arange(num_samples) % 2)
    found = check(predictions, {"ece": 0.9, "accuracy": 0}, bootstrap=40, strict=True).checks
    assert [(each.passed, each.conclusive, each.would_pass) for each in found] == [(False, False, None)] * 2
    (plain,) = check(predictions, {"ece": 0.9}, bootstrap=40).checks
    assert plain.sentence.endswith("With these probabilities no error can exceed 0.6: any model would pass.")
    fails = "so the strict gate fails: otherwise any model would pass"
    assert f"no error can exceed 0.6, {fails}" in found[0].sentence
    assert f"No accuracy is less than 0, {fails}" in found[1].sentence
    (drawn,) = check(predictions, {"ece": 0.3}, bootstrap=10).checks
    assert not drawn.conclusive
    assert "10 draws are too few" in drawn.sentence


def test_a_gate_that_cannot_tell_says_so_and_strict_fails(made) -> None:
    few = Predictions(confidence=[0.95] * 3, correct=[1, 1, 0])
    found = check(few, {"ece": 0.05, "accuracy": 0.5})
    assert found.passed
    error, accuracy = found.checks
    assert (error.conclusive, error.would_pass) == (False, 0.4)
    assert error.sentence.endswith(
        "3 samples are too few: a model with a true error of 0.4 would pass more often than not."
    )
    assert (accuracy.outcome, accuracy.conclusive, accuracy.would_pass) == ("pass", False, None)
    assert accuracy.sentence.endswith("3 samples are too few: any model would pass.")
    strict = check(few, {"ece": 0.05, "accuracy": 0.5}, strict=True)
    assert [each.passed for each in strict.checks] == [False, False]
    assert strict.checks[1].sentence.endswith(
        "3 samples are too few, so the strict gate fails: otherwise any model would pass."
    )
    assert json.loads(found.to_json())["checks"][0]["would_pass"] == 0.4
    many = check(made("top_label", 3000), {"ece": 0.05, "smce": 0.05, "accuracy": 0.5}, strict=True)
    assert many.passed
    assert all(each.conclusive and "too few" not in each.sentence for each in many.checks)


@pytest.mark.parametrize(("num_samples", "known"), [(4, False), (5, True)])
def test_means_and_baselines_of_a_handful(num_samples, known) -> None:
    """At 95 % on one side, four samples that all go one way are still chance; a handful fails nothing."""
    log_odds = np.linspace(1, 2, num_samples)
    good = Predictions(logits=log_odds, labels=np.ones(num_samples))
    bad = Predictions(logits=-log_odds, labels=np.ones(num_samples))
    limit = {"nll": 0.1}
    checks = check(bad, limit, baseline=good, baseline_metrics=["nll"], bootstrap=100).checks  # type: ignore[arg-type]
    assert [each.outcome for each in checks] == (["fail"] * 2 if known else ["within noise"] * 2)
    assert [each.conclusive for each in checks] == [known, known]
    better = check(good, baseline=bad, baseline_metrics=["nll"], bootstrap=100, strict=True)
    assert better.passed is known


def test_few_samples_of_a_baseline_are_not_blamed_on_the_draws() -> None:
    three = Predictions(confidence=[0.9] * 3, correct=[1, 1, 0])
    (found,) = check(three, baseline=three, baseline_metrics=["ece"], bootstrap=10).checks
    assert not found.conclusive
    assert found.sentence.endswith("3 samples are too few: any model would pass.")


def test_a_model_of_the_least_accuracy_fails_as_rarely_as_promised() -> None:
    """At 95 % confidence at most one in twenty, also of few samples: all counts of hits are looked at."""
    for num_samples, least in ((3, 0.7), (10, 0.9), (25, 0.8)):
        failed = 0.0
        for hits in range(num_samples + 1):
            correct = np.arange(num_samples) < hits
            predictions = Predictions(confidence=np.full(num_samples, 0.9), correct=correct)
            if not check(predictions, {"accuracy": least}, bootstrap=2).passed:
                failed += float(binom.pmf(hits, num_samples, least))
        assert 0.0 < failed <= 0.05


def test_numbers_at_the_limit_are_told_apart() -> None:
    predictions = Predictions(confidence=np.full(1000, 0.90004), correct=np.arange(1000) < 870)
    (found,) = check(predictions, {"ece": 0.03}, bootstrap=20).checks
    assert found.sentence.startswith("The calibration error (ECE) is 0.03004, above the limit of 0.03.")
    baseline = Predictions(confidence=np.full(1000, 0.90001), correct=np.arange(1000) < 870)
    (found,) = check(predictions, baseline=baseline, bootstrap=20).checks
    assert "is 0.03004, worse than the baseline's 0.03001 (" in found.sentence
