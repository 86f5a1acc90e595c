"""Searches for the temperature."""

import math

import pytest
import torch

from calibrant import CalibrantWarning, metrics
from calibrant.calibrators import TemperatureScaling


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
