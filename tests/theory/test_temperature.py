"""Bounds of the focal map by temperatures, and the closest temperature."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from calibrant import theory

Golden = Callable[[str], Any]
GAMMAS = [-0.99, -0.9, -0.5, 0.0, 0.5, 1.0, 4.0, 10.0, 50.0]


def test_published_bounds(golden: Golden) -> None:
    """Gamma 4: T from .2 to .2384 by theory; .2126, .2066, .2033 to .2178 over log-odds to 5, 10, 20."""
    reference = golden("theory.json")["binary_bounds"]
    for reach, lower, upper in reference["exact_T_range_abs_s_le"]:
        found = theory.temperature_bounds(4, max_log_odds=reach)
        assert [found.lower, found.upper] == pytest.approx(reference["theory_T"], rel=1e-14)
        assert found.tight_lower == pytest.approx(lower, rel=1e-12)
        assert found.tight_upper == pytest.approx(upper, rel=1e-9)  # the reference's grid starts beside zero
    assert 1 / found.tight_upper == pytest.approx(reference["slope0"], rel=1e-13)


@pytest.mark.parametrize("gamma", GAMMAS)
def test_binary_map_lies_between(gamma: float) -> None:
    """Theory's bounds and the tight ones hold on a fine grid; the tight ones are met and no wider."""
    log_odds = torch.cat([torch.logspace(-4, 2.5, 4000, dtype=torch.float64)])
    slope = theory.focal_calibration_map_logits(log_odds, gamma=gamma) / log_odds
    found = theory.temperature_bounds(gamma)
    for lower, upper in ((found.lower, found.upper), (found.tight_lower, found.tight_upper)):
        assert slope.min() >= 1 / upper * (1 - 1e-12)
        assert slope.max() <= 1 / lower * (1 + 1e-12)
    assert found.lower <= found.tight_lower * (1 + 1e-12)
    assert found.tight_upper <= found.upper * (1 + 1e-12)
    reach = log_odds.max().item()
    near = theory.temperature_bounds(gamma, max_log_odds=reach)
    assert 1 / near.tight_upper == pytest.approx(slope.min().item(), rel=1e-6)
    assert 1 / near.tight_lower == pytest.approx(slope.max().item(), rel=1e-6)


def test_least_slope_of_gamma_ten() -> None:
    """Up to gamma 5 the slope rises from zero on; at 10 its minimum, 10.5078, is below its start, 10.5130."""
    found = theory.temperature_bounds(10)
    log_2 = math.log(2)
    start = 11 - 10 * (2 * log_2 - 1) / (1 + 10 * log_2)
    assert start == pytest.approx(10.5130, abs=5e-5)
    assert 1 / found.tight_upper == pytest.approx(10.5078, abs=5e-5)
    start_of_five = 6 - 5 * (2 * log_2 - 1) / (1 + 5 * log_2)
    assert 1 / theory.temperature_bounds(5).tight_upper == pytest.approx(start_of_five, rel=1e-12)


@pytest.mark.parametrize("gamma", [-0.99, -0.5, 0.3, 1.0, 5.0, 50.0])
@pytest.mark.parametrize("num_classes", [3, 10, 300])
def test_ratios_of_two_classes(gamma: float, num_classes: int, rng: np.random.Generator) -> None:
    found = theory.temperature_bounds(gamma, num_classes=num_classes)
    for size in (0.3, 1.0, 4.0, 15.0):
        logits = torch.from_numpy(rng.normal(size=(400, num_classes)) * size)
        before = torch.log_softmax(logits, 1)
        after = theory.focal_calibration_map_logits(logits, gamma=gamma)
        first, second = rng.permutation(num_classes)[:2]
        gap = before[:, first] - before[:, second]
        apart = gap.abs() > 1e-4
        slope = ((after[:, first] - after[:, second]) / gap)[apart]
        assert slope.min() >= 1 / found.upper * (1 - 1e-9)
        assert slope.max() <= 1 / found.lower * (1 + 1e-9)


@pytest.mark.parametrize("gamma", [-0.99, -0.5, 0.3, 1.0, 5.0, 50.0])
def test_bounds_of_ratios_are_sharp(gamma: float) -> None:
    """Two nearly equal classes beside a third reach one bound, a sure class the other."""
    found = theory.temperature_bounds(gamma, num_classes=3)
    p = np.geomspace(1e-4, 0.4999, 2000)
    rows = np.stack([p, p * (1 - 1e-5), 1 - p * (2 - 1e-5)], axis=1)
    mapped = theory.focal_calibration_map_logits(np.log(rows), gamma=gamma)
    reached = (mapped[:, 0] - mapped[:, 1]) / -math.log1p(-1e-5)
    extreme = 1 / found.upper if gamma > 0 else 1 / found.lower
    best = float(reached.min() if gamma > 0 else reached.max())
    assert best == pytest.approx(extreme, rel=2e-4)
    sure = theory.focal_calibration_map_logits([[600.0, 0.0, 0.0]], gamma=gamma)[0]
    assert float(sure[0] - sure[1]) / 600 == pytest.approx(gamma + 1, rel=0.02, abs=0.01)


def test_closest_binary_temperatures(golden: Golden) -> None:
    """1 / T and the error: gamma .5, 1, 2, 3, 5 give T = .7312, .5615, .3731, .2758, .1796."""
    for case in golden("theory.json")["closest_invT_binary_minimax"]:
        found = theory.closest_temperature(case["gamma"])
        assert 1 / found.temperature == pytest.approx(case["invT"], abs=2e-7)
        assert found.error == pytest.approx(case["maxerr"], abs=6e-9)
    printed = {0.5: 0.7312, 1: 0.5615, 2: 0.3731, 3: 0.2758, 5: 0.1796}
    for gamma, temperature in printed.items():
        assert theory.closest_temperature(gamma).temperature == pytest.approx(temperature, abs=6e-5)


def test_closest_temperatures_of_three_classes(golden: Golden) -> None:
    """T = .806, .658, .466, .357, .244, .149 with errors .021 to .076, on logits up to 5."""
    for case in golden("theory.json")["closest_invT_3d_minimax_logits_pm5"]:
        found = theory.closest_temperature(case["gamma"], 3)
        assert 1 / found.temperature == pytest.approx(case["invT"], rel=1e-3)  # its grid is coarser
        assert found.error == pytest.approx(case["maxerr"], rel=5e-3)
    printed = {0.5: 0.806, 1: 0.658, 2: 0.466, 3: 0.357, 5: 0.244, 9: 0.149}
    for gamma, temperature in printed.items():
        assert theory.closest_temperature(gamma, 3).temperature == pytest.approx(temperature, abs=6e-4)


@pytest.mark.parametrize(("gamma", "num_classes"), [(2.0, 2), (-0.9, 2), (50.0, 2), (1.0, 4), (2.0, 30)])
def test_no_other_temperature_is_closer(gamma: float, num_classes: int, rng: np.random.Generator) -> None:
    found = theory.closest_temperature(gamma, num_classes, max_logit=None if num_classes == 2 else 5.0)
    if num_classes == 2:
        scale = 1 / (gamma + 1)
        rows = torch.linspace(-12 * scale, 12 * scale, 20001, dtype=torch.float64)
        mapped, link = theory.focal_calibration_map_logits(rows, gamma=gamma).sigmoid(), torch.sigmoid
    else:
        levels = torch.from_numpy(rng.choice([-5.0, -4.0, 4.0, 5.0], size=(4000, num_classes)))
        levels[:, -1] = 0
        rows, link = levels, lambda z: z.softmax(1)
        mapped = theory.focal_calibration_map_logits(rows, gamma=gamma).exp()

    def error(temperature: float) -> float:
        return float((mapped - link(rows / temperature)).abs().max())

    at_best = error(found.temperature)
    assert at_best <= found.error * (1.01 if num_classes < 5 else 1.1)
    if num_classes == 2:
        assert min(error(found.temperature * 0.998), error(found.temperature * 1.002)) > at_best


def test_exact_at_zero() -> None:
    found = theory.closest_temperature(0, 3)
    assert found.temperature == 1
    assert found.error == pytest.approx(0, abs=1e-15)
