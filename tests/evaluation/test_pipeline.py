"""The whole answer: values, honesty of the fit, reproducibility, every kind and the edges."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from calibrant import ConvergenceError, InputError, metrics
from calibrant.calibrators import TemperatureScaling, build
from calibrant.evaluation import Evaluation, compare, evaluate
from calibrant.evaluation.arguments import GROUPS_NOTE
from calibrant.evaluation.fitting.templates import Labelled, cross_fit, templates
from calibrant.evaluation.quantities import display_order, quantities
from calibrant.predictions import Kind, Predictions
from evaluation_values import further_values, public_values

Maker = Callable[..., Predictions]
CALIBRATORS: dict[Kind, tuple[str, ...]] = {
    "multiclass": ("temperature", "focal-temperature"),
    "binary": ("temperature", "focal-temperature", "platt"),
    "multilabel": ("temperature", "focal-temperature", "platt"),
    "top_label": (),
}
KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel", "top_label")
HALVES = np.arange(400) % 2
QUICK: dict[str, Any] = {"bootstrap": 100, "null_draws": 60}
QUICKER = QUICK | {"calibrators": ["temperature"]}


@pytest.fixture(scope="module")
def evaluations(made: Maker) -> dict[Kind, tuple[Predictions, Evaluation]]:
    """Over-confident predictions of each kind with a split, and what was found."""
    found: dict[Kind, tuple[Predictions, Evaluation]] = {}
    for kind in KINDS:
        predictions = made(kind, 400, 5, sharpness=2.5, split=HALVES)
        found[kind] = (predictions, evaluate(predictions, **QUICK))
    return found


def test_by_default_a_richer_calibrator_is_found_where_it_pays() -> None:
    generator = torch.Generator().manual_seed(4)
    logits = 2 * torch.randn(4000, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    shifted = Predictions(logits=logits + torch.tensor([2.0, -1.0, 0.5, 0.0]), labels=labels)
    found = evaluate(shifted, **QUICK)
    assert [arm.name for arm in found.arms] == ["uncalibrated", "temperature", "focal-temperature", "vector"]
    assert found.verdict.recommended == "vector"
    only = evaluate(shifted, calibrators=["temperature"], **QUICK)
    assert [arm.name for arm in only.arms] == ["uncalibrated", "temperature"]


@pytest.mark.filterwarnings(
    "ignore::calibrant.CalibrantWarning"
)  # of the fits made here; evaluate() has none
@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_every_value_is_that_of_the_public_metric_on_the_test_samples(evaluations, kind) -> None:
    """As the predictions came, and after each calibrator, which is fitted here on calibration samples."""
    predictions, found = evaluations[kind]
    test, calibration = predictions.test, predictions.calibration
    usual = ["uncalibrated", "temperature", "focal-temperature"]
    further = [found.verdict.recommended] if found.verdict.recommended not in usual else []
    assert [arm.name for arm in found.arms] == usual + further
    for arm in found.arms:
        probs = test.probs
        if arm.fit is not None:
            calibrator = build(arm.name).fit(calibration.scores, calibration.labels)
            probs = calibrator.predict_proba(test.scores)
        expected = public_values(kind, probs, test.labels) | further_values(kind, probs, test.labels)
        values = {name: estimate.value for name, estimate in arm.metrics.items()}
        assert values == pytest.approx(expected, abs=1e-12), arm.name


EVERYWHERE = {
    *("accuracy", "mean_confidence", "gap", "nll", "brier", "auroc", "slope", "intercept"),
    *("ece", "adaptive_ece", "smce", "l2_ece", "mce", "classwise_ece"),
    *("entropy", "entropy_correct", "entropy_incorrect"),
    *("high_confidence_share", "high_confidence_accuracy"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_names_order_and_completeness(evaluations, kind) -> None:
    """Every metric in its order, with a value or a reason; every null, curve and class; JSON keeps all."""
    _, found = evaluations[kind]
    more = {
        "binary": {
            *("event_ece", "event_adaptive_ece", "event_smce", "event_slope", "event_intercept"),
            *("mean_probability", "prevalence"),
        },
        "multilabel": {"mean_probability", "prevalence"},
    }
    for arm in found.arms:
        assert set(arm.metrics) >= EVERYWHERE | more.get(kind, set())
        assert list(arm.metrics) == [each.key for each in quantities(kind)]
        assert list(arm.metrics) == sorted(arm.metrics, key=display_order)
        assert all((each.value is None) == bool(each.reason) for each in arm.metrics.values())
        assert tuple(arm.change) == (() if arm.fit is None else tuple(arm.metrics))
        declared = [each.key for each in quantities(kind) if getattr(each.computed, "null", False)]
        declared += ["classwise_ece"] * (kind == "multiclass")  # of all classes at once
        assert sorted(null.metric for null in arm.null) == sorted(declared)
        assert {"ece", "smce", *({"event_ece"} if kind == "binary" else ())} <= {*declared}
        curves = {
            "binary": ["positive class", "top label"],
            "multilabel": ["all labels", "0", "1", "2", "3", "4"],
        }
        assert [curve.name for curve in arm.curves] == curves.get(kind, ["top label"])
        assert len(arm.classes) == {"binary": 2, "top_label": 0}.get(kind, 5)
    assert (found.num_calibration, found.num_test) == (200, 200)
    few_draws = [note for note in found.notes if note.startswith("With 40 draws")]
    assert len(found.notes) - len(few_draws) == 0
    text = found.to_json()

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} in JSON")

    json.loads(text, parse_constant=refuse)
    assert Evaluation.from_json(text) == found
    assert len(found.rows()) == sum(len(arm.metrics) for arm in found.arms)


@pytest.mark.parametrize("kind", ["multiclass", "top_label"])
def test_the_seed_decides_every_bit(made, kind) -> None:
    """The same seed gives the same text, another seed other intervals, also where it draws the split."""
    predictions = made(kind, 100, 3, sharpness=2)
    calibrators = ["temperature"][: len(CALIBRATORS[kind])]
    first, again, other = (
        evaluate(predictions, calibrators=calibrators, seed=seed, **QUICK) for seed in (5, 5, 6)
    )
    assert first.to_json() == again.to_json()
    assert first.arms[0].metrics["accuracy"].value == other.arms[0].metrics["accuracy"].value
    assert first.arms[0].metrics["accuracy"].low != other.arms[0].metrics["accuracy"].low
    assert first.arms[0].null[0].mean != other.arms[0].null[0].mean


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_nothing_is_fitted_or_chosen_on_test_samples(made, kind) -> None:
    predictions = made(kind, 400, 3, sharpness=2.5, split=HALVES)
    labels = predictions.labels
    options = QUICK | {"calibrators": [name for name in CALIBRATORS[kind] if name != "focal-temperature"]}
    found = evaluate(predictions, **options)

    def poisoned(part: int) -> Evaluation:
        spoilt = labels.clone()
        where = torch.from_numpy(np.flatnonzero(part == HALVES))
        spoilt[where] = labels[where].roll(1, dims=0)
        return evaluate(Predictions(logits=predictions.scores, labels=spoilt, split=HALVES), **options)

    def fits(evaluation: Evaluation) -> list[Any]:
        return [(arm.parameters, arm.fit) for arm in evaluation.arms]

    def choice(evaluation: Evaluation) -> list[Any]:
        return [each for each in evaluation.verdict.sentences if "cross-validated log loss" in each] + [
            evaluation.choice
        ]

    other_test = poisoned(1)
    assert fits(other_test) == fits(found)
    assert choice(other_test) == choice(found)
    assert other_test.arms[0].metrics["accuracy"] != found.arms[0].metrics["accuracy"]
    other_calibration = poisoned(0)
    assert fits(other_calibration) != fits(found)
    assert choice(other_calibration) != choice(found)


def test_changes_are_paired(made) -> None:
    found = evaluate(made("binary", 400, sharpness=1.2, split=HALVES), bootstrap=300, null_draws=40)
    arm, first = found.arm("temperature"), found.arms[0]

    def width(estimate: Any) -> float:
        return estimate.high - estimate.low

    for name in ("nll", "brier"):
        apart = np.hypot(width(arm.metrics[name]), width(first.metrics[name]))
        assert width(arm.change[name]) < apart / 3, name
        difference = arm.metrics[name].value - first.metrics[name].value
        assert arm.change[name].value == pytest.approx(difference, abs=1e-15)
    assert width(arm.change["accuracy"]) == 0  # a temperature changes no decision
    assert width(arm.change["auroc"]) == pytest.approx(0, abs=1e-12)
    assert width(arm.metrics["auroc"]) > 0.05


def test_too_few_draws_to_find_an_error_are_noted(made) -> None:
    """Parts of a verdict share the level: two with several classes, three with groups as well."""
    several = made("multiclass", 200)
    grouped = Predictions(logits=several.scores, labels=several.labels, groups=np.arange(200) % 2)
    for given, fewest in ((made("binary", 200), 20), (several, 40), (grouped, 60)):
        for draws in (fewest - 1, fewest):
            notes = evaluate(given, calibrators=[], bootstrap=20, null_draws=draws).notes
            said = f"With {draws} draws under calibration no error can count as real at this level; "
            assert any(each == f"{said}take {fewest} or more." for each in notes) == (draws < fewest)


def test_infinite_nll_has_no_value_but_a_reason() -> None:
    """Three certain mistakes: the uncalibrated NLL is infinite, the calibrators count 1e-12 and say so."""
    rng = np.random.default_rng(0)
    probs = rng.dirichlet([1, 1, 1], size=400)
    labels = np.array([rng.choice(3, p=row) for row in probs])
    for row in (1, 3, 5, 6):  # 6 is a calibration sample
        probs[row] = np.eye(3)[(labels[row] + 1) % 3]
    found = evaluate(Predictions(probs=probs, labels=labels, split=HALVES), **QUICKER)
    nll = found.arms[0].metrics["nll"]
    assert (nll.value, nll.low, nll.high) == (None, None, None)
    assert nll.reason == "infinite: 3 samples give their true class probability 0"
    change = found.arm("temperature").change["nll"]
    assert (change.value, change.reason) == (None, nll.reason)
    assert found.arm("temperature").metrics["nll"].value is not None
    assert "counted as 1e-12" in " ".join(found.arm("temperature").fit.warnings)
    assert Evaluation.from_json(found.to_json()) == found


def test_weights_are_kept_in_resamples(made) -> None:
    """Values equal the weighted public metrics, and a sample of weight zero can be infinite without harm."""
    rng = np.random.default_rng(1)
    weights = rng.choice([0.0, 1.0, 2.5], size=400)
    predictions = made("multiclass", 400, sharpness=2, split=HALVES, weights=weights)
    found = evaluate(predictions, **QUICKER)
    test = predictions.test
    options = {"weights": test.weights}
    values = found.arms[0].metrics
    assert values["nll"].value == pytest.approx(
        metrics.negative_log_likelihood(test.probs, test.labels, **options).item(), abs=1e-12
    )
    assert values["adaptive_ece"].value == pytest.approx(
        metrics.adaptive_calibration_error(test.probs, test.labels, **options).item(), abs=1e-12
    )
    assert values["auroc"].value == pytest.approx(
        metrics.auroc(test.probs, test.labels, **options).item(), abs=1e-12
    )
    probs = test.probs.clone()
    silent = int((test.weights == 0).nonzero()[0])
    probs[silent] = torch.eye(4, dtype=torch.float64)[(test.labels[silent] + 1) % 4]
    judged = Predictions(probs=probs, labels=test.labels, weights=test.weights)
    assert evaluate(judged, calibration=predictions.calibration, **QUICKER).arms[0].metrics["nll"].value
    # Weights of two everywhere change neither values nor intervals nor p-values.
    plain, doubled = (
        evaluate(made("binary", 300, split=np.arange(300) % 2, weights=weights), **QUICKER)
        for weights in (None, np.full(300, 2.0))
    )
    for name, estimate in plain.arms[0].metrics.items():
        other = doubled.arms[0].metrics[name]
        assert (other.value, other.low, other.high) == pytest.approx(
            (estimate.value, estimate.low, estimate.high), abs=1e-12
        ), name
    assert [null.p_value for null in plain.arms[0].null] == [null.p_value for null in doubled.arms[0].null]


@pytest.mark.parametrize(
    ("kind", "num_samples"),
    [("binary", 2), ("binary", 5), ("multiclass", 3), ("multilabel", 2), ("multilabel", 5), ("top_label", 3)],
)
def test_the_smallest_samples(made, kind, num_samples) -> None:
    """A handful of samples give an evaluation that never calls itself certain, and that JSON can hold."""
    calibrators = None if num_samples == 5 else ["temperature"][: len(CALIBRATORS[kind])]
    found = evaluate(made(kind, num_samples, 3, seed=num_samples), calibrators=calibrators, **QUICK)
    assert found.verdict.direction != "calibrated"
    assert found.verdict.recommended == "uncalibrated"
    assert Evaluation.from_json(found.to_json()) == found


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_one_class_only(kind) -> None:
    """All labels alike: no AUROC, a reason for it, and an answer all the same."""
    rng = np.random.default_rng(0)
    shape = (60,) if kind == "binary" else (60, 3)
    labels = np.zeros((60, 3) if kind == "multilabel" else 60, dtype=int)
    found = evaluate(Predictions(logits=rng.normal(size=shape), labels=labels), **QUICKER)
    auroc = found.arms[0].metrics["auroc"]
    assert (auroc.value, auroc.reason) == (None, "undefined: no class has both positive and negative samples")
    assert all(row.auroc is None for row in found.arms[0].classes)
    never = found.arms[0].classes if kind == "multilabel" else found.arms[0].classes[1:]
    assert all(row.accuracy is None and row.count == 0 for row in never)
    assert Evaluation.from_json(found.to_json()) == found


def test_a_class_missing_from_the_calibration_samples_is_named() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(3000, 3, generator=generator)
    labels = torch.multinomial((logits / 2).softmax(dim=1), 1, generator=generator)[:, 0]
    split = ((torch.arange(3000) % 2 == 0) | (labels == 2)).to(torch.int64)
    found = evaluate(
        Predictions(logits=logits, labels=labels, split=split, class_names=["a", "b", "rare"]),
        bootstrap=20,
        null_draws=20,
    )
    assert any("Class rare does not occur" in note for note in found.notes)
    assert found.verdict.recommended in {"uncalibrated", "temperature", "focal-temperature"}


def test_a_class_that_never_occurs(made) -> None:
    """It has a row without recall and AUROC, and is left out of the mean AUROC."""
    predictions = made("multiclass", 200, 3)
    logits = np.concatenate([predictions.scores, np.full((200, 1), -4.0)], axis=1)
    found = evaluate(Predictions(logits=logits, labels=predictions.labels), **QUICKER)
    row = found.arms[0].classes[3]
    assert (row.count, row.prevalence, row.auroc, row.accuracy) == (0, 0, None, None)
    assert 0 < row.mean_probability < 0.1
    assert found.arms[0].metrics["auroc"].value is not None


def test_all_right_and_all_wrong() -> None:
    """Entropies among the right or the wrong are missing with a reason where there are none."""
    logits = np.tile([2.0, 0.0], (40, 1))
    right = evaluate(Predictions(logits=logits, labels=np.zeros(40)), **QUICKER).arms[0].metrics
    wrong = evaluate(Predictions(logits=logits, labels=np.ones(40)), **QUICKER).arms[0].metrics
    assert right["entropy_incorrect"].reason == "undefined: no prediction is wrong"
    assert wrong["entropy_correct"].reason == "undefined: no prediction is right"
    assert right["high_confidence_accuracy"].reason == "undefined: no confidence reaches 0.99"
    assert right["accuracy"].value == 1
    assert wrong["accuracy"].value == 0


def test_cross_fitting_never_judges_a_sample_by_its_own_label(made) -> None:
    """Flipping one label leaves the probabilities of its own fold alone and moves those of the others."""
    predictions = made("binary", 60, sharpness=2)
    folds = np.arange(60) % 5
    flipped = predictions.labels.clone()
    flipped[7] = 1 - flipped[7]
    (template,) = templates(["temperature"], "binary")
    before, after = (
        cross_fit(template, Labelled(predictions.scores, labels, None), folds).numpy()
        for labels in (predictions.labels, flipped)
    )
    assert np.array_equal(before[folds == 2], after[folds == 2])
    assert (before[folds != 2] != after[folds != 2]).all()


def test_the_ranks_of_a_repair_are_those_of_its_one_map() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(-1, 2, 400)
    found = evaluate(
        Predictions(logits=2 * logits, labels=rng.random(400) < 1 / (1 + np.exp(-logits))),
        calibrators=["temperature", "platt"],
        bootstrap=50,
    )
    before, *repaired = (arm.metrics["auroc"] for arm in found.arms)
    assert [arm.value for arm in repaired] == [before.value] * 2
    assert all(arm.change["auroc"].value == 0 for arm in found.arms[1:])


def test_calibrators_by_name_and_as_objects(made) -> None:
    """Names with settings, objects, or none at all; objects are copied, and titles tell settings apart."""
    predictions = made("multiclass", 300, split=np.arange(300) % 2)
    mine = TemperatureScaling(objective="brier")
    found = evaluate(predictions, calibrators=["temperature", 'temperature(objective="ece")', mine], **QUICK)
    names = ["temperature", 'temperature(objective="ece")', 'temperature(objective="brier")']
    assert list(found.settings.calibrators) == names
    assert [arm.name for arm in found.arms] == ["uncalibrated", *names]
    assert [arm.title for arm in found.arms[1:]] == [
        "Temperature scaling",
        'Temperature scaling (objective="ece")',
        'Temperature scaling (objective="brier")',
    ]
    assert "fit_result_" not in vars(mine)
    assert [template.title for template in templates([mine], "binary")] == ["Temperature scaling"]
    for alike in (["temperature", "temperature"], ['temperature(objective="brier")', mine]):
        with pytest.raises(InputError, match=r"`calibrators` must differ; temperature.* is given twice"):
            evaluate(predictions, calibrators=alike, **QUICK)
    assert evaluate(predictions, calibrators=[], **QUICK).verdict.recommended == "uncalibrated"


class Giving(TemperatureScaling):
    name = "giving-up"

    def _solve(self, samples: Any) -> Any:
        raise ConvergenceError(f"{samples.num_samples} samples were too many.")


def test_a_calibrator_that_cannot_be_fitted_is_left_out_and_named(made) -> None:
    predictions = made("multiclass", 300, split=np.arange(300) % 2)
    found = evaluate(predictions, calibrators=["temperature", Giving()], **QUICK)
    assert [arm.name for arm in found.arms] == ["uncalibrated", "temperature"]
    assert "giving-up could not be fitted: 150 samples were too many." in found.notes


def test_what_is_recorded(made) -> None:
    predictions = made("multiclass", 100, 3, class_names=["a", "b", "c"])
    found = evaluate(predictions, num_bins=7, level=0.9, seed=3, command="calibrant evaluate x", **QUICKER)
    assert (found.command, found.class_names, found.num_classes) == (
        "calibrant evaluate x",
        ("a", "b", "c"),
        3,
    )
    assert set(found.versions) == {"calibrant", "python", "torch", "numpy"}
    settings = found.settings
    assert (settings.num_bins, settings.bootstrap, settings.level) == (7, 100, 0.9)
    assert (settings.seed, settings.null_draws) == (3, 60)
    assert [row.name for row in found.arms[0].classes] == ["a", "b", "c"]
    assert len(found.arms[0].curves[0].counts) == 7
    # Stages are named, and the share that is done never falls.
    told: list[tuple[str, float]] = []
    evaluate(made("binary", 100), progress=lambda stage, share: told.append((stage, share)), **QUICKER)
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    stages = {stage for stage, _ in told}
    assert {"fitting temperature", "evaluating temperature", "evaluating the predictions", "done"} <= stages


def test_too_few_draws_to_call_an_error_real(made) -> None:
    """The smallest p-value of 19 draws is 1/20, not below 0.05: the reader is told; 20 suffice."""
    predictions = made("top_label", 500, sharpness=3)
    few, enough = (evaluate(predictions, bootstrap=20, null_draws=draws) for draws in (19, 20))
    assert [part.holds for part in few.arms[0].parts] == [True]
    assert few.notes[-1].endswith("no error can count as real at this level; take 20 or more.")
    assert [part.holds for part in enough.arms[0].parts] == [False]
    assert enough.verdict.direction == "over-confident"


def test_top_label_predictions_say_what_is_missing(evaluations) -> None:
    """The metrics that need all classes have no value but a reason; the others are the public ones."""
    predictions, found = evaluations["top_label"]
    values = found.arms[0].metrics
    for name in ("classwise_ece", "auroc", "entropy", "entropy_correct", "entropy_incorrect"):
        assert values[name].value is None
        assert "needs the probabilities of all classes" in values[name].reason
    test = predictions.test
    expected = metrics.expected_calibration_error(test.confidence, test.correct).item()
    assert values["ece"].value == pytest.approx(expected, abs=1e-15)
    for name, function in (("nll", metrics.negative_log_likelihood), ("brier", metrics.brier_score)):
        assert values[name].value == pytest.approx(function(test.confidence, test.correct).item(), abs=1e-12)


def test_calibration_from_other_predictions(made) -> None:
    """All of them are fitted on, or only what is marked 0; settings, notes and the repair say so."""
    other = made("multiclass", 150, seed=9, sharpness=2)
    found = evaluate(made("multiclass", 80, sharpness=2), calibration=other, **QUICKER)
    fitted = TemperatureScaling().fit(other.scores, other.labels)
    assert found.arm("temperature").parameters == fitted.fit_result_.parameters
    assert (found.num_calibration, found.num_test) == (150, 80)
    assert found.settings.calibration == "all 150 samples of other predictions"
    other = made("multiclass", 900, seed=9, sharpness=3, split=np.arange(900) % 3 == 0)
    found = evaluate(made("multiclass", 600, sharpness=3), calibration=other, **QUICKER)
    fitted = TemperatureScaling().fit(other.calibration.scores, other.calibration.labels)
    assert found.arm("temperature").parameters == fitted.fit_result_.parameters
    assert found.settings.calibration == "the 600 samples of other predictions marked as calibration split"
    assert found.notes == (f"Calibrators were fitted on {found.settings.calibration}.",)
    assert not found.verdict.repair.all_rows


def test_what_is_not_used_or_cannot_be_learned_is_noted(made) -> None:
    """Groups, calibration samples that are all of one class, and a calibration split beside other samples."""
    grouped = made("binary", 60, groups=[f"g{row % 3}" for row in range(60)])
    note = GROUPS_NOTE
    assert note in evaluate(grouped, **QUICKER).notes
    assert f"a: {note}" in compare([("a", grouped), ("b", made("binary", 60))], **QUICK).notes
    one_class = Predictions(logits=np.linspace(-1, 1, 60), labels=np.zeros(60))
    assert any("hold one class only" in note for note in evaluate(one_class, **QUICKER).notes)
    assert not any("one class only" in note for note in evaluate(grouped, **QUICKER).notes)
    # Where other predictions are given to fit on, the split's own part is left out.
    predictions = made("multiclass", 100, split=np.arange(100) % 4 > 0)
    other = made("multiclass", 60, seed=1)
    found = evaluate(predictions, calibration=other, **QUICKER)
    assert found.num_test == 75
    note = "The 25 samples marked as calibration split are not used: `calibration` takes their place."
    assert note in found.notes
    assert note not in evaluate(made("multiclass", 100), calibration=other, **QUICKER).notes


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_the_log_loss_of_huge_logits_is_finite(made, kind) -> None:
    """Where a probability vanishes in float64 the log-probability of a logit does not."""
    given = made(kind, 300)
    logits, labels = 500 * given.values.to(torch.float64), given.labels
    options = {"bootstrap": 20, "null_draws": 20, "calibrators": []}
    found = evaluate(Predictions(logits=logits, labels=labels, kind=kind), **options)
    if kind == "multiclass":
        expected = torch.nn.functional.cross_entropy(logits, labels)
    else:
        expected = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels.to(logits))
    assert found.arms[0].metrics["nll"].value == pytest.approx(
        expected.item(), rel=1e-9
    )  # of 1 - p float64 has few digits
    probs = logits.softmax(dim=1) if kind == "multiclass" else logits.sigmoid()
    stated = evaluate(Predictions(probs=probs, labels=labels, kind=kind), **options)
    assert stated.arms[0].metrics["nll"].value is None


def test_where_nothing_is_fitted_all_samples_are_judged(made) -> None:
    """None is put aside, with or without a split of one part; of two parts the test split is judged."""
    marked = np.arange(1200) % 3 == 0
    few: dict[str, Any] = {"calibrators": [], "bootstrap": 2, "null_draws": 2}
    for split, num_test in ((None, 1200), (np.ones(1200), 1200), (marked, 400)):
        found = evaluate(made("binary", 1200, split=split), **few)
        assert (found.num_calibration, found.num_test) == (0, num_test)
        assert not any("fitted" in note for note in found.notes)
    other = evaluate(made("binary", 1200), calibration=made("binary", 60, seed=1, split=marked[:60]), **few)
    assert (other.num_calibration, other.num_test) == (0, 1200)
    assert not any("fitted" in note for note in other.notes)


@pytest.mark.parametrize("weights", ["one", "beta"])
def test_uneven_weights_make_no_slope_and_no_choice(weights) -> None:
    """Calibrated data of an effective size near one are not called miscalibrated, and nothing is chosen."""
    for seed in range(2):
        rng = np.random.default_rng(seed)
        probs = 1 / (1 + np.exp(-2 * rng.normal(size=200)))
        labels = (rng.random(200) < probs).astype(int)
        mass = np.r_[1e6, np.ones(199)] if weights == "one" else 1 / rng.beta(0.2, 2, size=200)
        found = evaluate(Predictions(probs=probs, labels=labels, weights=mass), **QUICKER)
        slope = found.arms[0].metrics["event_slope"]
        assert slope.low is None
        assert "the weights leave an effective size of " in (slope.reason or "")
        assert found.verdict.recommended == "uncalibrated"
        assert "200 calibration samples of an effective size of " in str(found.verdict)
