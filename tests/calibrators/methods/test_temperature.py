"""Temperature scaling: certificates, golden values, bounds, what the searches promise."""

import math
import warnings
from collections.abc import Callable
from itertools import accumulate, repeat
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from calibrant import CalibrantWarning, metrics
from calibrant._math.convex_minimum import best_temperature
from calibrant.calibrators import FocalTemperatureScaling, TemperatureScaling, build
from calibrant.calibrators.fitting.data import with_doubts_of_temperature
from calibrant.calibrators.fitting.objectives import objective_value
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples, likelihood_slopes

SETS = ("over_K10", "under_K10", "K2")
PAPER_GRID = list(accumulate(repeat(0.1, 100)))


@pytest.mark.parametrize("name", SETS)
def test_grid_curves_and_optimum_are_the_references(golden: Callable[[str], Any], name: str) -> None:
    """The very float of the grid of Mukhoti et al.; their curves, in float32; an optimum within 1e-7."""
    reference = golden("temperature.json")["sets"][name]
    logits = torch.tensor(reference["logits"], dtype=torch.float64)
    labels = torch.tensor(reference["labels"])
    for objective in ("ece", "nll"):
        calibrator = TemperatureScaling(objective=objective, search="grid").fit(logits, labels)
        assert calibrator.fit_result_.parameters["temperature"] == reference["T_opt"][objective]
    samples = Samples(logits, labels, None)
    for temperature, ece, nll in reference["curve_T_ece_nll"]:
        assert objective_value(samples, "ece", temperature) == pytest.approx(ece, abs=2e-6)
        assert objective_value(samples, "nll", temperature) == pytest.approx(nll, rel=1e-6)
    result = TemperatureScaling().fit(logits, labels).fit_result_
    assert result.parameters["temperature"] == pytest.approx(reference["T_nll_continuous"], abs=1e-7)
    assert result.after == pytest.approx(reference["nll_at_continuous"], abs=1e-8)


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
@pytest.mark.parametrize("scale", [0.05, 1.0, 30.0])
def test_likelihood_optimum_is_a_root(calibrated: Callable[..., Any], kind: str, scale: float) -> None:
    """Autograd's derivative changes its sign at our temperature (brentq, its own tolerance 4e-16)."""
    scores, labels = calibrated(kind, 500)
    scores = scale * scores

    def derivative(inverse: float) -> float:
        beta = torch.tensor(inverse, dtype=torch.float64, requires_grad=True)
        if kind == "binary":
            loss = torch.nn.functional.binary_cross_entropy_with_logits(beta * scores, labels.double())
        else:
            loss = torch.nn.functional.cross_entropy(beta * scores, labels)
        return float(torch.autograd.grad(loss, beta)[0])

    root = 1 / brentq(derivative, 0.01, 100, xtol=1e-15)
    result = TemperatureScaling().fit(scores, labels).fit_result_
    assert result.parameters["temperature"] == pytest.approx(root, rel=1e-8)  # gradient below 1e-9
    assert result.converged
    assert result.certificate["gradient"] < 1e-8
    assert result.certificate["bracket"] == 2e-6


@pytest.mark.parametrize("beta", [1e-12, 0.6, 1.0, 50.0])
@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_likelihood_and_slopes_are_torchs(calibrated: Callable[..., Any], kind: str, beta: float) -> None:
    """The loss and its two derivatives by 1 / T are those that autograd finds, weights included."""
    scores, labels = calibrated(kind, 200, scale=6.0)
    weights = torch.rand(200, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    table = scores if kind == "multiclass" else torch.stack([torch.zeros_like(scores), scores], dim=1)
    at = torch.tensor(beta, dtype=torch.float64, requires_grad=True)
    losses = torch.nn.functional.cross_entropy(at * table, labels, reduction="none")
    loss = losses @ weights / weights.sum()
    (first,) = torch.autograd.grad(loss, at, create_graph=True)
    (second,) = torch.autograd.grad(first, at)
    found = likelihood_slopes(Samples(scores, labels, weights), beta)
    expected = [loss.item(), first.item(), second.item()]
    np.testing.assert_allclose((found.value, found.first, found.second), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("objective", ["nll", "brier", "ece", "adaptive_ece", "smce"])
@settings(max_examples=10)  # each against a hundred temperatures
@given(data=st.data())
def test_continuous_search_is_at_least_as_good_as_the_grid(objective: Any, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 10**6))
    generator = torch.Generator().manual_seed(seed)
    num_samples = data.draw(st.sampled_from([3, 20, 150]))
    num_classes = data.draw(st.sampled_from([2, 3, 12]))
    scale = 10 ** data.draw(st.floats(-1, 1.5))
    logits = scale * torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits / 2, dim=1), 1, generator=generator)[:, 0]
    samples = Samples(logits, labels, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        found = TemperatureScaling(objective=objective).fit(logits, labels).fit_result_.after
    assert found <= min(objective_value(samples, objective, value) for value in PAPER_GRID) + 1e-12


def test_grid_takes_the_smallest_of_equals() -> None:
    logits, labels = torch.zeros(9, 3), torch.arange(9) % 3
    with pytest.warns(CalibrantWarning, match="all equal"):
        calibrator = TemperatureScaling(objective="ece", search="grid").fit(logits, labels)
    assert calibrator.fit_result_.parameters["temperature"] == 0.1


@pytest.mark.parametrize("margin", [0.1, 5.0, 40.0])
def test_separable_data_reach_the_bound_from_afar(calibrated: Callable[..., Any], margin: float) -> None:
    """Newton's steps in log T fade on separable data; the bound is found all the same, in a few steps."""
    scores, _ = calibrated("multiclass", 50)
    best = scores.argmax(dim=1)
    scores = scores + margin * torch.nn.functional.one_hot(best, 4)
    samples = Samples(scores, best, None)
    root = best_temperature(lambda beta: likelihood_slopes(samples, beta), 1.0)
    assert root.temperature == 1e-4 or root.slope == 0  # at a margin of 40 the loss is zero from the start
    assert root.settled
    assert root.steps < 20


@pytest.mark.parametrize("gap", [1e-1, 1e-3, 1e-6])
def test_a_single_close_error_is_weighed_exactly(gap: float) -> None:
    """99 rows right by 5 and one wrong by little: the root of 99 * 5 s(-5 b) = gap * s(gap b), by brentq."""
    scores = torch.tensor([[5.0, 0.0]] * 99 + [[gap, 0.0]], dtype=torch.float64)
    labels = torch.tensor([0] * 99 + [1])

    def derivative(beta: float) -> float:
        return -99 * 5 / (1 + math.exp(5 * beta)) + gap / (1 + math.exp(-gap * beta))

    samples = Samples(scores, labels, None)
    found = best_temperature(lambda beta: likelihood_slopes(samples, beta), 1.0)
    assert found.temperature == pytest.approx(1 / brentq(derivative, 0.01, 100, xtol=1e-14), rel=1e-7)
    assert found.settled
    assert found.steps < 40


def test_brier_is_as_good_as_the_grid_where_descents_miss_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With starts that all lead elsewhere, the grid's best point is found and descended from."""
    generator = torch.Generator().manual_seed(2)
    logits = 3 * torch.randn(200, 4, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits / 2, dim=1), 1, generator=generator)[:, 0]
    honest = TemperatureScaling(objective="brier").fit(logits, labels).fit_result_
    monkeypatch.setattr("calibrant.calibrators.fitting.searches._STARTS", (100.0,))
    monkeypatch.setattr("calibrant._math.newton.MAX_STEPS", 1)
    with pytest.warns(CalibrantWarning, match="stopped before it arrived"):
        stopped = TemperatureScaling(objective="brier").fit(logits, labels).fit_result_
    samples = Samples(logits, labels, None)
    assert stopped.after <= min(objective_value(samples, "brier", value) for value in PAPER_GRID) + 1e-12
    assert stopped.after >= honest.after


@pytest.mark.parametrize("objective", ["ece", "smce"])
def test_collapse_is_said(objective: Any) -> None:
    """A calibration error won by making all confidences alike comes with a warning; a good fit does not."""
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(400, 3, generator=generator, dtype=torch.float64)
    honest = torch.multinomial(torch.softmax(logits / 1.5, dim=1), 1, generator=generator)[:, 0]
    told = TemperatureScaling(objective=objective).fit(logits, honest).fit_result_.warnings
    assert not any("of the confidences" in text for text in told)
    # Half right whatever the confidence, and more so where it is low: T grows until all say a half.
    samples = Samples(logits, honest, None)
    solution = Solution.by_gradient(0.0, steps=1, before=1.0, after=0.0, parameters={"temperature": 100.0})
    told = with_doubts_of_temperature(solution, samples, objective).warnings
    assert any("100% of the confidences now fall into one of 15 bins" in text for text in told)
    told = with_doubts_of_temperature(solution, samples, "nll").warnings
    assert not any("of the confidences" in text for text in told)


@pytest.mark.parametrize("objective", ["nll", "brier", "ece"])
@pytest.mark.parametrize("scale", [1 / 512, 1.0, 512.0])
def test_logits_on_any_usual_scale_are_mended(
    calibrated: Callable[..., Any], scale: float, objective: str
) -> None:
    """Cosines and scores in the hundreds need temperatures beyond 0.01 and 100, and get them."""
    scores, labels = calibrated("multiclass", 400)
    once = TemperatureScaling(objective=objective).fit(scores, labels).fit_result_
    scaled = TemperatureScaling(objective=objective).fit(scale * scores, labels).fit_result_
    assert not scaled.warnings
    if objective != "ece":
        assert scaled.parameters["temperature"] == pytest.approx(
            scale * once.parameters["temperature"], rel=1e-6
        )
    assert scaled.after == pytest.approx(once.after, rel=0.05 if objective == "ece" else 1e-9)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_tiny_and_huge_logits_are_no_trouble(scale: float) -> None:
    scores = torch.randn(50, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = scores.argmax(dim=1)
    labels[:10] = scores[:10].argmin(dim=1)
    found = [float(TemperatureScaling().fit(factor * scores, labels).temperature) for factor in (1.0, scale)]
    assert found[1] == pytest.approx(scale * found[0], rel=1e-6)


def test_constant_logits_keep_temperature_one() -> None:
    """Nothing can be learned from constant logits: T = 1, and a warning."""
    with pytest.warns(CalibrantWarning, match="all equal"):
        result = TemperatureScaling().fit(torch.ones(20, 3), torch.arange(20) % 3).fit_result_
    assert result.parameters["temperature"] == 1
    assert result.after == result.before == pytest.approx(math.log(3), rel=1e-12)


def test_zero_probabilities_are_counted_and_said() -> None:
    """A logit of -inf counts as probability 1e-12, and the warning says how many there were."""
    probs = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]], dtype=torch.float64)
    with pytest.warns(CalibrantWarning, match="3 probabilities of exactly zero were counted as 1e-12"):
        calibrator = TemperatureScaling().fit(probs.log(), torch.tensor([1, 0, 0]))
    with pytest.warns(CalibrantWarning, match="1 probability of exactly zero was counted as 1e-12"):
        TemperatureScaling().fit(probs[1:].log(), torch.tensor([0, 2]))
    both_ends = "2 probabilities of exactly 0 or 1 were counted as 1e-12 or 1 - 1e-12"
    with pytest.warns(CalibrantWarning, match=both_ends):  # of log-odds
        TemperatureScaling().fit(torch.tensor([1.0, 0.9, 0.6, 0.3, 1.0]).double().logit(), [1, 1, 0, 0, 0])
    expected = -(math.log(1e-12) + math.log(0.5) + math.log(0.2)) / 3
    assert calibrator.fit_result_.before == pytest.approx(expected, rel=1e-10)  # rows then sum to 1 + 1e-12
    assert torch.isfinite(calibrator.predict_proba(probs.log())).all()
    assert torch.isfinite(calibrator(probs.log())).all()


def test_large_tables_start_from_some_of_their_rows(
    calibrated: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short cut for large tables, and rows made anew on every pass, change only the last digits."""
    scores, labels = calibrated("multiclass", 1500, scale=5.0)
    usual = TemperatureScaling().fit(scores, labels).fit_result_
    monkeypatch.setattr("calibrant.calibrators.fitting.searches.LARGE", 100)
    monkeypatch.setattr("calibrant.calibrators.fitting.searches._THIN_ROWS", 64)
    monkeypatch.setattr("calibrant.calibrators.fitting.samples._KEPT_ENTRIES", 100)
    large = TemperatureScaling().fit(scores, labels).fit_result_
    assert large.parameters["temperature"] == pytest.approx(usual.parameters["temperature"], rel=1e-8)
    assert large.before == pytest.approx(usual.before, rel=1e-12)


@pytest.mark.parametrize("text", ["temperature", 'focal-temperature(selection="cross_validated")'])
def test_each_label_is_fitted_on_its_own(calibrated: Callable[..., Any], text: str) -> None:
    scores, labels = calibrated("multilabel", 300)
    scores = scores * torch.tensor([0.5, 3.0])
    together = build(text).fit(scores, labels)
    alone = [build(text).fit(scores[:, j], labels[:, j]) for j in (0, 1)]
    for name, values in together.named_buffers():
        assert values.tolist() == [one.get_buffer(name).item() for one in alone]
    after = sum(one.fit_result_.after for one in alone) / 2
    assert together.fit_result_.after == pytest.approx(after, rel=1e-12)
    columns = torch.stack([one.predict_proba(scores[:, j]) for j, one in enumerate(alone)], dim=1)
    torch.testing.assert_close(together.predict_proba(scores), columns, rtol=0, atol=1e-15)


@pytest.mark.parametrize("objective", ["ece", "adaptive_ece"])
def test_weights_reach_binned_objectives(calibrated: Callable[..., Any], objective: Any) -> None:
    scores, labels = calibrated("multiclass", 200)
    weights = 2 * torch.rand(200, dtype=torch.float64, generator=torch.Generator().manual_seed(5)) ** 4
    calibrator = TemperatureScaling(objective=objective).fit(3 * scores, labels, weights=weights)
    probs = calibrator.predict_proba(3 * scores)
    metric = metrics.expected_calibration_error if objective == "ece" else metrics.adaptive_calibration_error
    error = float(metric(probs, labels, weights=weights))
    assert calibrator.fit_result_.after == pytest.approx(error, rel=1e-9)
    assert calibrator.fit_result_.after != pytest.approx(float(metric(probs, labels)), rel=1e-3)


@pytest.mark.filterwarnings("ignore:.*of the confidences now fall into one")  # so few samples invite it
@pytest.mark.parametrize("calibrator", [TemperatureScaling, FocalTemperatureScaling])
@pytest.mark.parametrize("kind", ["binary", "multilabel"])
def test_classwise_error_of_events_is_theirs(
    calibrated: Callable[..., Any], calibrator: Any, kind: str
) -> None:
    scores, labels = calibrated(kind, 100)
    one, other = (calibrator(objective=name).fit(3 * scores, labels) for name in ("classwise", "ece"))
    assert one.fit_result_.parameters == other.fit_result_.parameters
    assert one.fit_result_.after == other.fit_result_.after
    assert one.fit_result_.objective == "classwise"


def table(seed: int, num_samples: int = 120, num_classes: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]


@pytest.mark.parametrize(("factor", "end"), [(0.01, 0.1), (100.0, 10.0)])
def test_the_ends_of_the_papers_grid_are_warned_of(factor: float, end: float) -> None:
    """Logits a hundred times too small or too large want a temperature beyond the grid."""
    logits, labels = table(0)
    with pytest.warns(CalibrantWarning, match=f"the best temperature is the end of the grid, {end:g}"):
        fitted = TemperatureScaling(search="grid").fit(factor * logits, labels)
    assert fitted.temperature.item() == pytest.approx(end, abs=1e-12)
    TemperatureScaling(search="grid").fit(logits, labels)  # warns of nothing


@pytest.mark.parametrize("seed", range(3))
def test_a_calibration_error_is_searched_between_the_points_of_the_grids_too(seed: int) -> None:
    """The best temperature is neither a tenth nor a hundredth of a decade, and has the error reported."""
    logits, labels = table(seed)
    fitted = TemperatureScaling(objective="ece").fit(2.5 * logits, labels)
    temperature = fitted.temperature.item()
    for place in (10 * temperature, 100 * math.log10(temperature)):
        assert abs(place - round(place)) > 1e-6
    error = metrics.expected_calibration_error(fitted.predict_proba(2.5 * logits), labels)
    assert fitted.fit_result_.after == pytest.approx(error.item(), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_where_one_is_best_already_it_stays_one(seed: int) -> None:
    logits, labels = table(seed)
    first = TemperatureScaling(objective="brier").fit(2.5 * logits, labels)
    second = TemperatureScaling(objective="brier").fit(2.5 * logits / first.temperature, labels)
    assert second.temperature.item() == 1
    assert second.fit_result_.converged
    assert second.fit_result_.certificate["gradient"] < 1e-9
