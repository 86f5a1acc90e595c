"""Choosing a calibrator: by held-out proper losses, the simplest of those that are level, with the reason."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from calibrant import InputError, metrics
from calibrant.calibrators import TemperatureScaling, available, build, select
from calibrant.calibrators.selection import usual_candidates

MULTICLASS = (
    "temperature",
    "focal-temperature",
    "ensemble-temperature",
    "vector",
    "structured-matrix",
    "isotonic",
)


@pytest.mark.parametrize("criterion", ["nll", "brier"])
@pytest.mark.parametrize(
    ("change", "chosen"),
    [
        (lambda scores: scores, "none"),
        (lambda scores: 3 * scores, "temperature"),
        (lambda scores: scores + 2, "platt"),
    ],
)
def test_no_more_numbers_are_taken_than_needed(
    calibrated: Callable[..., Any], change: Any, chosen: str, criterion: Any
) -> None:
    """What is chosen is fitted on all samples; where nothing is to be mended, the text says so."""
    scores, labels = calibrated("binary", 800)
    candidates = ["platt", "temperature", "beta"]
    selection = select(change(scores), labels, calibrators=candidates, criterion=criterion)
    assert selection.chosen.text == chosen
    assert f"Choice: {'no calibrator' if chosen == 'none' else chosen}." in str(selection)
    if selection.calibrator is not None:
        whole = build(chosen).fit(change(scores), labels)
        assert torch.equal(selection.calibrator.predict_proba(scores), whole.predict_proba(scores))


def test_losses_are_those_of_other_folds(calibrated: Callable[..., Any]) -> None:
    scores, labels = calibrated("multiclass", 120)
    scores = 1.5 * scores
    free = "dirichlet(off_diagonal=0,intercept=0)"
    selection = select(scores, labels, calibrators=["temperature", free])
    by_text = {each.text: each for each in selection.candidates}
    assert by_text[free].loss > by_text["temperature"].loss
    inside = [build(text).fit(scores, labels).fit_result_.after for text in (free, "temperature")]
    assert inside[0] < inside[1]


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("criterion", ["nll", "brier"])
def test_loss_as_they_came_is_the_metric(calibrated: Callable[..., Any], kind: str, criterion: Any) -> None:
    """The loss of changing nothing is the log loss or Brier score of the probabilities, weights included."""
    scores, labels = calibrated(kind, 100)
    weights = torch.rand(100, generator=torch.Generator().manual_seed(1))
    selection = select(
        scores, labels, weights=weights, calibrators=["temperature"], criterion=criterion, folds=2
    )
    probs = scores.softmax(dim=1) if kind == "multiclass" else scores.sigmoid()
    metric = metrics.negative_log_likelihood if criterion == "nll" else metrics.brier_score
    (unchanged,) = [each for each in selection.candidates if each.text == "none"]
    assert unchanged.loss == pytest.approx(float(metric(probs, labels, weights=weights)), rel=1e-6)
    assert unchanged.size == 0


def test_rule_is_one_standard_error(calibrated: Callable[..., Any]) -> None:
    """The chosen one is within one standard error of the best, and everything simpler is not."""
    scores, labels = calibrated("multiclass", 400)
    selection = select(scores * torch.tensor([1.0, 1.5, 2.0, 2.5]), labels)
    assert {each.text for each in selection.candidates} == {"none", *MULTICLASS}
    place = selection.candidates.index(selection.chosen)
    assert selection.chosen.behind <= selection.chosen.standard_error
    assert all(each.behind > each.standard_error for each in selection.candidates[:place])
    sizes = [each.size for each in selection.candidates]
    assert sizes == sorted(sizes)
    assert min(each.behind for each in selection.candidates) == 0


def test_text_names_every_candidate_and_the_reason(calibrated: Callable[..., Any]) -> None:
    """Printed, it is a table with a mark at the choice and a sentence that says why."""
    scores, labels = calibrated("binary", 300)
    selection = select(3 * scores, labels, calibrators=["temperature", "platt"])
    text = str(selection)
    assert "300 samples, 5-fold cross-validated log loss" in text
    assert "* temperature" in text
    assert all(name in text for name in ("none", "platt", "best"))
    assert "Choice: temperature. It " in text
    rows = {line.split()[-1] for line in text.splitlines() if line.startswith(("*", "  none", "  platt"))}
    assert "best" in rows  # and not by how much it is behind itself
    assert "±" in text


def test_losses_beyond_all_measure_are_ranked_and_shown_with_an_exponent() -> None:
    """Logits of 1e300: no line of 300 digits, and a candidate without a loss is named, not ranked."""
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.0, 2.0]]).double().repeat(5, 1) * 1e300
    labels = torch.tensor([0, 1, 0, 1, 1, 0, 1, 0, 0, 1]).repeat(2)
    selection = select(logits, labels, calibrators=["temperature", "vector"])
    assert "e+299" in str(selection)
    assert max(len(line) for line in str(selection).splitlines()) < 200
    assert not any(math.isnan(each.loss) for each in selection.candidates)
    assert all(math.isfinite(each.standard_error) for each in selection.candidates)


def test_the_best_is_chosen_for_being_the_best(calibrated: Callable[..., Any]) -> None:
    scores, labels = calibrated("binary", 300)
    found = select(3 * scores, labels, calibrators=["temperature"])
    assert "every method with fewer parameters is more than one standard error behind." in str(found)
    alone = dataclasses.replace(found, candidates=(found.chosen,))
    assert "It has the lowest loss, and no other has fewer parameters." in str(alone)


def test_same_seed_same_choice(calibrated: Callable[..., Any]) -> None:
    data = calibrated("binary", 200)
    losses = [
        [each.loss for each in select(*data, calibrators=["platt"], seed=seed).candidates]
        for seed in (0, 0, 1)
    ]
    assert losses[0] == losses[1] != losses[2]


def test_unsuitable_candidates_are_named(calibrated: Callable[..., Any]) -> None:
    selection = select(*calibrated("multiclass", 60), calibrators=["temperature", "platt"])
    assert "platt could not be fitted" in str(selection)


def test_calibrators_may_be_given_themselves(calibrated: Callable[..., Any]) -> None:
    """A calibrator with settings is fitted anew and named as ``build`` would take it; all fits are kept."""
    data = calibrated("binary", 800)
    given = TemperatureScaling(objective="brier")
    selection = select(*data, calibrators=[given, "platt"])
    assert list(selection.fitted) == ['temperature(objective="brier")', "platt"]
    assert selection.fitted['temperature(objective="brier")'] is not given
    assert selection.fitted["platt"].fit_result_.num_samples == 800


def test_what_is_tried_suits_the_size() -> None:
    """Ten samples for each number fitted, of 30 classes 60 or 930; isotonic up to a million scores."""
    assert usual_candidates("multiclass", 9300, 30) == MULTICLASS
    assert set(MULTICLASS) - set(usual_candidates("multiclass", 9299, 30)) == {"structured-matrix"}
    assert "vector" in usual_candidates("multiclass", 600, 30)
    assert "vector" not in usual_candidates("multiclass", 599, 30)
    assert "isotonic" not in usual_candidates("multiclass", 1100, 1000)
    assert usual_candidates("binary", 10) == ("temperature", "platt", "beta", "isotonic")


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("text", available())
def test_declared_numbers_are_those_fitted(calibrated: Callable[..., Any], text: str) -> None:
    """A calibrator fits as many numbers as it declares, unless that depends on the samples."""
    calibrator = build(text)
    kind = "multiclass" if "multiclass" in calibrator.kinds else "binary"
    scores, labels = calibrated(kind, 300)
    declared = calibrator.num_parameters(scores.shape[1] if kind == "multiclass" else 1)
    assert declared is None or declared == calibrator.fit(scores, labels).size


def test_one_class_is_nothing_to_choose_by(calibrated: Callable[..., Any]) -> None:
    scores, _ = calibrated("multiclass", 60)
    labels = torch.zeros(60, dtype=torch.int64)
    with pytest.raises(InputError, match="more than one class"):
        select(scores, labels)
    assert select(scores, labels, calibrators=["temperature"]).candidates


def test_without_a_class_nothing_is_fitted_for_each_class(calibrated: Callable[..., Any]) -> None:
    """Where a class does not occur, candidates with numbers for each class are left out."""
    scores, labels = calibrated("multiclass", 2000)
    kept = labels != 0
    tried = {each.text for each in select(scores, labels).candidates}
    left = {each.text for each in select(scores[kept], labels[kept]).candidates}
    assert {"vector", "structured-matrix", "isotonic"} <= tried
    assert left == tried - {"vector", "structured-matrix", "isotonic"}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        *(({"folds": folds}, "`folds` must be") for folds in (0, 1, 40)),
        ({"criterion": "ece"}, "`criterion` must be"),  # a constant prediction can have no calibration error
        ({"calibrators": []}, "`calibrators` must name at least one"),
        ({"calibrators": ["plat"]}, "there is no calibrator 'plat'"),
    ],
)
def test_bad_options_are_refused(calibrated: Callable[..., Any], options: Any, sentence: str) -> None:
    """Each fold needs samples to be judged on, and others to fit on; some candidate must be there."""
    with pytest.raises(InputError, match=sentence):
        select(*calibrated("binary", 60), **options)
    if "folds" in options:
        with pytest.raises(InputError, match="`folds` must be 0, or from 2 to"):
            TemperatureScaling().fit(*calibrated("binary", 20), folds=options["folds"] or -1)
