"""The gate: what fails, what noise explains, and how often each happens."""

import math
from typing import Any

import numpy as np
import pytest

from calibrant.evaluation import check
from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.judging.at_limit import at_limit, error_models
from calibrant.evaluation.resampling.events import Events
from calibrant.predictions import Predictions

NEAR = 4.0  # standard errors of a share that may part it from its expectation


def stepped(rng: np.random.Generator, num_samples: int, gap: float) -> Predictions:
    """Confidences at the middles of twelve bins, each too high by ``gap``: the true ECE is the gap."""
    confidence = rng.integers(6, 14, num_samples) / 15 + 1 / 30
    return Predictions(confidence=confidence, correct=rng.random(num_samples) < confidence - gap)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["ece", "adaptive_ece", "smce"])
@pytest.mark.parametrize(("num_samples", "gap"), [(150, 0.0), (150, 0.05), (400, 0.05)])
def test_a_model_at_the_limit_fails_as_rarely_as_promised(metric, num_samples, gap) -> None:
    """At 80 % confidence at most one in five fails, and not far fewer where the limit is exact."""
    rng = np.random.default_rng(5)
    rounds = 80
    failed = sum(
        not check(
            stepped(rng, num_samples, gap), {metric: gap}, confidence=0.8, bootstrap=50, seed=seed
        ).passed
        for seed in range(rounds)
    )
    spread = NEAR * math.sqrt(0.2 * 0.8 / rounds)
    assert failed / rounds < 0.2 + spread
    assert failed / rounds > 0.2 - spread


def test_a_small_calibrated_sample_passes_where_the_bare_number_would_not() -> None:
    """Of 60 samples even a calibrated model shows an ECE far above 0.03; strict mode goes by the number."""
    predictions = stepped(np.random.default_rng(0), 60, 0.0)
    (found,) = check(predictions, {"ece": 0.03}).checks
    assert found.value > 0.06
    assert (found.outcome, found.passed) == ("within noise", True)
    assert "This could be noise, so it passes: a model with a true error of 0.03" in found.sentence
    assert check(predictions, {"ece": 0.03}).checks == (found,)  # the same seed, the same bits
    strict = check(predictions, {"ece": 0.03}, strict=True)
    assert (strict.passed, strict.checks[0].outcome) == (False, "within noise")
    assert "the gate is strict" in strict.checks[0].sentence


def test_the_model_at_the_limit_is_at_the_limit() -> None:
    rng = np.random.default_rng(1)
    stated = np.round(rng.uniform(size=100_000), 3)
    event = Events(stated, (rng.random(100_000) < stated**2).astype(float), rng.uniform(0.5, 2, 100_000))
    procedure = Procedure(kind="binary", num_bins=15, num_resamples=2, num_draws=20, level=0.95, seed=0)
    for error in ("width l1", "mass l1", "smooth"):
        models = error_models(error, [event], 0.16, procedure)
        drawn = at_limit(models, 0.05, confidence=0.9)
        assert drawn.mean == pytest.approx(0.05, abs=0.004)  # sampling noise of 1e5
        assert drawn.p_value == 1 / 21


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel", "top_label"])
def test_every_kind_of_predictions(made, kind) -> None:
    honest, sharp = (made(kind, num_samples=1500, sharpness=sharpness) for sharpness in (1.0, 3.0))
    limits: dict[Any, float] = {"ece": 0.02, "smce": 0.02, "accuracy": 0.2}
    if kind != "top_label":
        limits["nll"] = check(honest, {"nll": 99}).checks[0].value + 1e-6  # type: ignore[operator]
    assert check(honest, limits, bootstrap=60).passed
    found = check(sharp, limits, bootstrap=60)
    outcomes = {each.metric: each.outcome for each in found.checks}
    assert outcomes.pop("accuracy") == "pass"
    assert set(outcomes.values()) == {"fail"}
    about = {"binary": "positive class", "multilabel": "labels"}.get(kind, "top label")
    assert found.checks[0].about == about


def test_the_baseline_is_paired_where_the_samples_are_the_same(made) -> None:
    """A worse model fails, a better one passes, and one that differs by noise passes with words."""
    honest, sharp = made(num_samples=1500), made(num_samples=1500, sharpness=2.0)
    worse = check(sharp, baseline=honest, bootstrap=60)
    assert (worse.passed, worse.paired) == (False, True)
    assert [each.metric for each in worse.checks] == ["ece", "nll"]
    assert "same samples). This is more than noise: it is worse by at least 0." in worse.checks[0].sentence
    better = check(honest, baseline=sharp, bootstrap=60)
    assert better.passed
    assert ", no worse than the baseline's" in better.checks[0].sentence
    other = check(made(num_samples=1500, seed=3), baseline=made(num_samples=1500, seed=4), bootstrap=60)
    assert (other.passed, other.paired) == (True, False)
    assert {each.outcome for each in other.checks} <= {"pass", "within noise"}


@pytest.mark.slow
def test_equal_models_rarely_fail_against_each_other() -> None:
    """Two calibrated models, judged apart, at 80 % confidence: about one in five by chance."""
    rng = np.random.default_rng(6)
    rounds = 60
    failed = sum(
        not check(
            stepped(rng, 300, 0.04),
            baseline=stepped(rng, 300, 0.04),
            confidence=0.8,
            bootstrap=100,
            seed=seed,
        ).passed
        for seed in range(rounds)
    )
    assert failed / rounds < 0.2 + NEAR * math.sqrt(0.2 * 0.8 / rounds)


def test_a_value_at_its_limit_keeps_it() -> None:
    """Rounding is no excess: of a limit, of a weighted share, and of a baseline."""
    errs = Predictions(confidence=np.full(100, 0.9), correct=np.arange(100) < 80)
    (found,) = check(errs, {"ece": 0.1}, strict=True, bootstrap=200).checks
    assert found.value > 0.1  # by rounding
    assert found.outcome == "pass"
    assert found.sentence.startswith("The calibration error (ECE) is 0.100, within the limit of 0.1.")
    share = Predictions(confidence=np.full(30, 0.9), correct=np.arange(30) < 21, weights=np.full(30, 0.3))
    (found,) = check(share, {"accuracy": 0.7}, bootstrap=2).checks
    assert 0 < 0.7 - found.value < 1e-12
    assert found.outcome == "pass"
    order = np.random.default_rng(0).permutation(100)
    correct, weights = np.arange(100) < 80, np.where(np.arange(100) % 3, 0.1, 0.37)
    first, second = (
        Predictions(confidence=np.full(100, 0.9), correct=correct[of], weights=weights[of])
        for of in (np.arange(100), order)
    )
    (found,) = check(first, baseline=second, bootstrap=20).checks
    assert 0 < found.value - found.against < 1e-12
    assert found.outcome == "pass"


def test_infinite_scores_fail() -> None:
    """A true class of probability zero exceeds every limit, and is worse than any finite baseline."""
    certain = Predictions(probs=[[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]], labels=[1, 1, 0])
    unsure = Predictions(probs=[[0.5, 0.5]] * 3, labels=[1, 1, 0])
    found = check(certain, {"nll": 100}, bootstrap=20)
    assert (found.passed, found.checks[0].value) == (False, None)
    assert "infinite: 1 sample gives its true class probability 0" in found.checks[0].sentence
    assert '"value": null' in found.to_json()
    against = check(certain, baseline=unsure, baseline_metrics=["nll"], bootstrap=20)
    assert against.checks[0].outcome == "fail"
    assert check(unsure, baseline=certain, baseline_metrics=["nll"], bootstrap=20).passed


@pytest.mark.parametrize("metric", ["ece", "smce"])
def test_few_samples_of_the_same_model_are_no_worse_than_many(metric) -> None:
    """Chance gives more error to fewer samples: against a baseline on others that alone fails rarely."""
    rng = np.random.default_rng(3)
    many = stepped(rng, 4000, 0.02)
    held = [
        check(stepped(rng, 60, 0.02), baseline=many, baseline_metrics=[metric], bootstrap=100)
        for _ in range(12)
    ]
    assert sum(not each.passed for each in held) <= 3
    worse = check(stepped(rng, 1000, 0.2), baseline=many, baseline_metrics=[metric], bootstrap=100)
    assert not worse.passed


KEY = "classwise_ece"


def test_the_classes_are_gated(made) -> None:
    """Calibrated classes keep a limit that chance alone exceeds; those that are off do not."""
    honest, off = made("multiclass", 1500), made("multiclass", 1500, shift=np.array([1.5, 0, 0, 0]))
    (passed,) = check(honest, {KEY: 0.01}, bootstrap=200).checks
    assert passed.value > 0.01  # more than allowed
    assert (passed.outcome, passed.conclusive, passed.about) == ("within noise", True, "all classes")
    (failed,) = check(off, {KEY: 0.01}, bootstrap=200).checks
    assert failed.outcome == "fail"
    assert failed.p_value == 1 / 201
    assert failed.sentence.startswith("The classwise calibration error is 0.")
    assert "This is more than noise: a model with a true error of 0.01 stays below" in failed.sentence
    assert check(off, {KEY: 0.3}, bootstrap=50).checks[0].outcome == "pass"


def test_models_at_no_error_fail_as_rarely_as_promised(made) -> None:
    """At 80 % confidence and a limit of zero about one calibrated model in five fails."""
    failed = sum(
        not check(made("multiclass", 150, seed=seed), {KEY: 0.0}, confidence=0.8, bootstrap=49).passed
        for seed in range(60)
    )
    assert 3 <= failed <= 24  # 12 expected, with a standard deviation of 3


def test_few_samples_cannot_tell(made) -> None:
    (found,) = check(made("multiclass", 12), {KEY: 0.2}, bootstrap=200).checks
    assert not found.conclusive
    assert found.would_pass is None or found.would_pass > 0.2


def test_what_passes_is_told_from_the_draws_that_are_kept(made) -> None:
    """Of classes in clusters 400 draws are kept, however many are asked for: twelve samples tell no more."""
    few, clusters = made("multiclass", 12), np.arange(12) // 3
    for draws in (400, 1000):
        (found,) = check(few, {KEY: 0.1}, cluster=clusters, bootstrap=draws).checks
        assert found.would_pass == pytest.approx(0.2)


@pytest.mark.parametrize(("kind", "like"), [("binary", "event_ece"), ("multilabel", "ece")])
def test_without_classes_of_their_own(made, kind, like) -> None:
    """The class-wise error is that of the positive class, or of the labels; so is what chance gives."""
    predictions = made(kind, 800, sharpness=2.0)
    both = check(predictions, {KEY: 0.02, "ece": 0.02}, bootstrap=100).checks
    assert both[0].value == pytest.approx(both[1].value, rel=1e-9)
    assert both[0].p_value == both[1].p_value


def test_against_a_baseline_of_other_samples(made) -> None:
    """What resampling calls worse must also be more than a model as good as the baseline shows by chance."""
    off = made("multiclass", 1500, shift=np.array([1.5, 0, 0, 0]))
    found = check(off, baseline=made("multiclass", 900, seed=1), baseline_metrics=[KEY], bootstrap=100)
    assert (found.passed, found.paired) == (False, False)
    few = made("multiclass", 100, seed=2)  # more error by chance
    assert check(few, baseline=made("multiclass", 3000), baseline_metrics=[KEY], bootstrap=100).passed
