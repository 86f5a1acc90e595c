"""The gate on the class-wise error, which draws labels of whole rows from a model at the limit."""

import numpy as np
import pytest

from calibrant.evaluation import check

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
