"""Focal temperature scaling: never worse than temperature scaling, golden values, derivatives, searches."""

import math
from collections.abc import Callable
from itertools import accumulate, repeat
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from calibrant import CalibrantWarning
from calibrant._math.binning import binned
from calibrant._math.focal_map import focal_map_logits
from calibrant.calibrators import FocalTemperatureScaling, TemperatureScaling
from calibrant.calibrators.fitting import grid as grid_module
from calibrant.calibrators.fitting.grid import Place, best_on_grid, best_on_line
from calibrant.calibrators.fitting.objectives import log_odds_of_top, objective_value, smooth_objective
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.searches import PAPER_GAMMAS, PAPER_TEMPERATURES

OBJECTIVES = ("nll", "brier", "ece", "adaptive_ece", "smce")
CODE_TEMPERATURES = list(accumulate(repeat(0.05, 100)))


def random_problem(seed: int, num_samples: int, num_classes: int, scale: float) -> tuple[Tensor, Tensor]:
    """Logits, and labels that a softmax of temperature 2 would draw."""
    generator = torch.Generator().manual_seed(seed)
    logits = scale * torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits / 2, dim=1), 1, generator=generator)[:, 0]
    return logits, labels


SEARCHES = ("full", "line", "grid")
SIZES = [(num_samples, num_classes) for num_samples in (2, 15, 60) for num_classes in (2, 5)]


@pytest.mark.usefixtures("few_points")
@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("search", SEARCHES)
def test_never_worse_than_temperature_scaling(objective: Any, search: Any) -> None:
    """On its own objective and its own data, for every size, from logits near zero to saturated ones."""
    place = OBJECTIVES.index(objective)
    scales = np.random.default_rng(place).permutation(np.geomspace(0.1, 20, len(SIZES)))
    cases = list(enumerate(zip(SIZES, scales.tolist(), strict=True)))
    # Half of the sizes each: over the objectives all of them, with each of the searches.
    for seed, (size, scale) in cases[(place + SEARCHES.index(search)) % 2 :: 2]:
        logits, labels = random_problem(seed, *size, scale)
        simpler = TemperatureScaling(objective=objective).fit(logits, labels).fit_result_
        result = FocalTemperatureScaling(objective=objective, search=search).fit(logits, labels).fit_result_
        assert result.after <= simpler.after <= simpler.before
        assert result.compared == {"temperature": simpler.after}
        assert result.before == simpler.before


@pytest.mark.filterwarnings("ignore:.*is a bound:calibrant.CalibrantWarning")
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_full_search_is_at_least_as_good_as_the_papers_grid(objective: Any) -> None:
    logits, labels = random_problem(0, 400, 6, 3.0)
    full = FocalTemperatureScaling(objective=objective).fit(logits, labels).fit_result_
    grid = FocalTemperatureScaling(objective=objective, search="grid").fit(logits, labels).fit_result_
    assert full.after <= grid.after + 1e-12


@pytest.mark.parametrize("objective", ["ece", "adaptive_ece"])
def test_full_search_is_at_least_as_good_as_the_line(golden: Callable[[str], Any], objective: Any) -> None:
    """The default search holds the line too: here that has .0255 where grid and windows have .0263."""
    reference = golden("focal_temperature.json")
    logits, labels = torch.tensor(reference["val_logits"]), torch.tensor(reference["val_labels"])
    full = FocalTemperatureScaling(objective=objective).fit(logits, labels).fit_result_
    line = FocalTemperatureScaling(objective=objective, search="line").fit(logits, labels).fit_result_
    assert full.after <= line.after


@pytest.mark.parametrize("objective", ["ece", "adaptive_ece", "smce"])
def test_screening_finds_the_best_of_the_line(objective: Any) -> None:
    """Interpolation along the line leads to the very point that computing all of it does."""
    samples = Samples(*random_problem(12, 300, 5, 4.0), None)
    points = [(1.6 + 1.3 * gamma, gamma) for gamma in np.linspace(-0.5, 5, 100).tolist()]
    best, computed = best_on_line(samples, objective, points, best=Place(0.0, 1.0, 1.0))
    values = [objective_value(samples, objective, *point) for point in points]
    assert (best.temperature, best.gamma) == points[int(np.argmin(values))]
    assert computed < 50


def test_ties_keep_what_was_found_before() -> None:
    """A point of a later window that is only as good does not replace the best; one that is better does."""
    samples = Samples(torch.zeros(9, 3), torch.arange(9) % 3, None)  # every temperature is as good
    first, _ = best_on_grid(samples, "ece", (0.0,), (2.0, 3.0))
    assert first.temperature == 2.0
    assert best_on_grid(samples, "ece", (0.0,), (0.5, 4.0), best=first)[0] is first
    worse = Place(0.0, 7.0, first.value + 1e-3)
    assert best_on_grid(samples, "ece", (0.0,), (0.5, 4.0), best=worse)[0].temperature == 0.5


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("weighted", [False, True])
def test_screening_finds_the_best_of_the_grid(objective: Any, weighted: bool) -> None:
    logits, labels = random_problem(11, 300, 5, 4.0)
    logits[100:150] = logits[:50]  # ties must not be torn apart
    weights = torch.rand(300, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    samples = Samples(logits, labels, weights if weighted else None)
    gammas, temperatures = (-0.5, 0.25, 3.0), PAPER_TEMPERATURES[4::5]
    best, computed = best_on_grid(samples, objective, gammas, temperatures)
    values = np.array([[objective_value(samples, objective, t, g) for t in temperatures] for g in gammas])
    gamma, place = np.unravel_index(values.argmin(), values.shape)
    assert (best.temperature, best.gamma) == (temperatures[place], gammas[gamma])
    assert best.value == values.min()
    assert computed < values.size / 3


def test_screening_that_interpolates_badly_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted fault, values interpolated in reverse order, loses the best point."""
    logits, labels = random_problem(11, 300, 5, 4.0)
    samples = Samples(logits, labels, None)
    best, _ = best_on_grid(samples, "ece", (0.25,), PAPER_TEMPERATURES)
    true_matrix = grid_module._interpolation
    monkeypatch.setattr(grid_module, "_interpolation", lambda *args: true_matrix(*args)[::-1].copy())
    assert best_on_grid(samples, "ece", (0.25,), PAPER_TEMPERATURES)[0].value > best.value


@pytest.mark.parametrize("gamma", ["-0.75", "-0.25", "0", "0.37", "1", "5"])
def test_objectives_follow_the_papers_curves(golden: Callable[[str], Any], gamma: str) -> None:
    """NLL, the original adaptive error, and the best T of each agree with the authors' code.

    It computes in float32 with clamped probabilities, which saturate where two logits differ by more than
    about 17 temperatures: there, up to T = 1.5, its values are of its own making.
    """
    reference = golden("focal_temperature.json")
    logits = torch.tensor(reference["val_logits"], dtype=torch.float64)
    samples = Samples(logits, torch.tensor(reference["val_labels"]), None)
    curves = reference["gammas"][gamma]
    likelihoods: list[float] = []
    errors: list[float] = []
    for temperature in CODE_TEMPERATURES:
        likelihoods.append(objective_value(samples, "nll", temperature, float(gamma)))
        odds = torch.cat(
            [log_odds_of_top(block, temperature, (float(gamma),))[0] for block in samples.blocks()]
        )
        bins = binned(odds.sigmoid(), samples.outcomes, num_bins=15, binning="mukhoti")
        errors.append(float(bins.calibration_error("l1")))
    unsaturated = slice(30, None)
    np.testing.assert_allclose(likelihoods[unsaturated], curves["nll_curve"][unsaturated], rtol=2e-6)
    np.testing.assert_allclose(errors[unsaturated], curves["ece_curve"][unsaturated], atol=2e-6)
    assert CODE_TEMPERATURES[int(np.argmin(likelihoods))] == curves["T_ce"]
    assert CODE_TEMPERATURES[int(np.argmin(errors))] == curves["T_ece"]


@pytest.mark.parametrize("objective", ["nll", "brier"])
@pytest.mark.parametrize(
    ("gamma", "temperature"), [(-0.9, 0.05), (-0.3, 0.8), (0.0, 9.0), (0.4, 0.05), (2.0, 0.8), (20.0, 9.0)]
)
@pytest.mark.parametrize("num_classes", [2, 3, 10])
def test_objective_and_derivatives_are_autograds(
    objective: Any, gamma: float, temperature: float, num_classes: int
) -> None:
    """Value, gradient and second derivatives by log T and gamma are those of the focal map itself."""
    logits, labels = random_problem(5, 60, num_classes, 5.0)
    weights = torch.rand(60, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def loss(point: Tensor) -> Tensor:
        log_probs = focal_map_logits(logits / point[0].exp(), point[1])
        losses = torch.nn.functional.nll_loss(log_probs, labels, reduction="none")
        if objective == "brier":
            targets = torch.nn.functional.one_hot(labels, num_classes)
            losses = (log_probs.exp() - targets).square().sum(dim=1)
        return losses @ weights / weights.sum()

    point = torch.tensor([math.log(temperature), gamma], dtype=torch.float64)
    found = smooth_objective(Samples(logits, labels, weights), objective, temperature, gamma)
    gradient = torch.autograd.functional.jacobian(loss, point)
    hessian = torch.autograd.functional.hessian(loss, point)
    assert found.value == pytest.approx(loss(point).item(), rel=1e-10)
    # Another implementation, whose logits reach 5 / 0.05: relative to the size of what is summed.
    np.testing.assert_allclose(found.gradient, gradient.numpy(), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(found.hessian, hessian.numpy(), rtol=1e-8, atol=1e-10)


def test_optimum_on_a_bound_is_said() -> None:
    """Data whose loss still falls at gamma = 50 end there, with a warning and a vanishing gradient by T."""
    logits, labels = random_problem(0, 400, 6, 3.0)
    with pytest.warns(CalibrantWarning, match="the best exponent is a bound, gamma = 50"):
        result = FocalTemperatureScaling().fit(logits, labels).fit_result_
    assert result.parameters["gamma"] == 50
    assert result.converged
    assert result.certificate["gradient"] < 1e-8
    assert result.after < result.compared["temperature"]


def test_no_improvement_gives_temperature_scaling_itself() -> None:
    """Where no exponent helps, gamma is 0 exactly, and the predictions those of temperature scaling."""
    logits, labels = torch.full((100,), 4.0), torch.tensor([1] * 70 + [0] * 30)
    focal = FocalTemperatureScaling().fit(logits, labels)
    simple = TemperatureScaling().fit(logits, labels)
    assert focal.fit_result_.parameters == {**simple.fit_result_.parameters, "gamma": 0.0}
    assert "no exponent is better" in focal.fit_result_.message
    torch.testing.assert_close(focal.predict_proba(logits), simple.predict_proba(logits), rtol=1e-12, atol=0)


def test_line_search_walks_the_line() -> None:
    """What it finds lies on the line through the best temperatures at gamma = 0 and 1."""
    logits, labels = random_problem(21, 800, 6, 4.0)
    samples = Samples(logits, labels, None)
    ten = list(accumulate(repeat(0.1, 100)))
    start, end = (min(ten, key=lambda t: objective_value(samples, "ece", t, gamma)) for gamma in (0.0, 1.0))
    result = FocalTemperatureScaling(objective="ece", search="line").fit(logits, labels).fit_result_
    gamma, temperature = result.parameters["gamma"], result.parameters["temperature"]
    assert gamma != 0
    assert temperature == pytest.approx(start + gamma * (end - start), rel=1e-12)
    assert result.steps <= 300


def test_grid_is_the_papers() -> None:
    """Nine exponents by 500 temperatures."""
    assert PAPER_GAMMAS == (-0.5, -0.25, 0.05, 0.25, 0.37, 0.5, 0.75, 1.0, 5.0)
    np.testing.assert_allclose(PAPER_TEMPERATURES, np.linspace(0.01, 5, 500), rtol=1e-15)
    logits, labels = random_problem(1, 300, 5, 4.0)
    parameters = FocalTemperatureScaling(search="grid").fit(logits, labels).fit_result_.parameters
    assert parameters["gamma"] in PAPER_GAMMAS
    assert parameters["temperature"] in PAPER_TEMPERATURES
