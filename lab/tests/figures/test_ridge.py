"""The best temperature at each exponent."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from calibrant import InputError
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant.calibrators.fitting.objectives import objective_value
from calibrant.calibrators.fitting.samples import Samples
from calibrant_lab.figures import temperature_ridge

GAMMAS = [2.0, -0.5, 0.0, 5.0, 0.7, -0.9]


def drawn(num_samples: int = 400, num_classes: int = 5) -> tuple[Tensor, Tensor]:
    """Logits twice as large as they should be, and labels."""
    generator = torch.Generator().manual_seed(4)
    logits = 4 * torch.randn(num_samples, num_classes, generator=generator, dtype=torch.float64)
    return logits, torch.multinomial(torch.softmax(logits / 2, dim=1), 1, generator=generator)[:, 0]


def loss_at(logits: Tensor, labels: Tensor, temperature: float, gamma: float, objective: str) -> float:
    """The objective in two lines of its own."""
    log_probs = focal_map_logits(logits / temperature, gamma)
    if objective == "nll":
        return torch.nn.functional.nll_loss(log_probs, labels).item()
    targets = torch.nn.functional.one_hot(labels, logits.shape[1])
    return (log_probs.exp() - targets).square().sum(dim=1).mean().item()


def least(function: Any, bounds: tuple[float, float]) -> Any:
    return minimize_scalar(function, bounds=bounds, options={"xatol": 1e-9})


@pytest.mark.parametrize("objective", ["nll", "brier"])
def test_smooth_ridge_is_the_minimum(objective) -> None:
    """Every temperature is where a bounded search over log T, started afresh, finds the least objective."""
    logits, labels = drawn()
    ridge = temperature_ridge(logits, labels, gammas=GAMMAS, objective=objective)
    assert ridge.gammas.tolist() == GAMMAS
    for gamma, temperature, value in zip(ridge.gammas, ridge.temperatures, ridge.values, strict=True):
        found = least(lambda t, gamma=gamma: loss_at(logits, labels, math.exp(t), gamma, objective), (-3, 4))
        assert temperature == pytest.approx(math.exp(found.x), rel=1e-5)  # the search's own precision
        assert value == pytest.approx(found.fun, rel=1e-10)


def test_log_odds() -> None:
    generator = torch.Generator().manual_seed(5)
    scores = 3 * torch.randn(300, generator=generator, dtype=torch.float64)
    labels = torch.bernoulli(torch.sigmoid(scores / 2), generator=generator).long()
    ridge = temperature_ridge(scores, labels, gammas=[1.0])
    loss = torch.nn.BCEWithLogitsLoss()
    found = least(lambda t: loss(focal_map_log_odds(scores / t, 1.0), labels.double()).item(), (0.1, 20))
    assert ridge.temperatures[0] == pytest.approx(found.x, rel=1e-5)


@pytest.mark.parametrize("objective", ["ece", "adaptive_ece", "smce", "classwise"])
def test_jumping_ridge_beats_a_scan(objective) -> None:
    """What jumps is no higher at the ridge than anywhere on a scan around it, and is the metric itself."""
    logits, labels = drawn(200)
    samples = Samples(logits, labels, None)
    ridge = temperature_ridge(logits, labels, gammas=[-0.3, 1.0], objective=objective)
    likely = temperature_ridge(logits, labels, gammas=[-0.3, 1.0])
    for gamma, temperature, value, centre in zip(
        ridge.gammas, ridge.temperatures, ridge.values, likely.temperatures, strict=True
    ):
        assert value == objective_value(samples, objective, float(temperature), float(gamma))
        scanned = [
            objective_value(samples, objective, float(t), float(gamma))
            for t in centre * np.geomspace(1 / 3, 3, 221)[::10]
        ]
        assert value <= min(scanned) + 1e-12


def test_weights_count_copies() -> None:
    logits, labels = drawn(100)
    counts = torch.arange(100) % 3
    weighted = temperature_ridge(logits, labels, gammas=GAMMAS, weights=counts)
    copied = temperature_ridge(
        logits.repeat_interleave(counts, 0), labels.repeat_interleave(counts), gammas=GAMMAS
    )
    np.testing.assert_allclose(weighted.temperatures, copied.temperatures, rtol=1e-8)


def test_separable_samples_end_on_the_bound() -> None:
    """Where every sample is right the coldest temperature is best at every exponent; nothing is NaN."""
    logits, _ = drawn(50)
    ridge = temperature_ridge(logits, logits.argmax(dim=1), gammas=[-0.5, 0.0, 5.0])
    assert np.isfinite(ridge.values).all()
    assert ridge.temperatures.max() < 0.2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"gammas": [-1.0]}, "`gammas` must be from -0.999 to 50; got -1.0"),
        ({"gammas": [math.nan]}, "`gammas` must be from"),
        ({"objective": "auc"}, "`objective` must be one of"),
        ({"labels": torch.zeros(6, 5, dtype=torch.int64)}, r"one at a time, `logits\[:, k\]`"),
        ({"logits": torch.full((6, 5), math.nan)}, "row 0"),
    ],
)
def test_refusals(change, message) -> None:
    logits, labels = drawn(6)
    given: dict[str, Any] = {"logits": logits, "labels": labels, "gammas": [0.0], **change}
    with pytest.raises(InputError, match=message):
        temperature_ridge(given.pop("logits"), given.pop("labels"), **given)
