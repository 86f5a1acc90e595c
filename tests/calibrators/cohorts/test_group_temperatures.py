"""Temperatures of groups: what fits to their weights find, and all that they tell."""

import warnings

import pytest
import torch
from torch import Tensor

from calibrant import CalibrantWarning, InputError
from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant.calibrators import FitResult, TemperatureScaling, fit_groups

NAMES = ("sharp", "plain", "blunt", "right", "misled", "level", "tiny")


def drawn(kind: str, num_samples: int = 420, seed: int = 0) -> tuple[Tensor, Tensor, list[str]]:
    """Groups of every fate: over- and under-confident, all right, all misled, all equal, of two samples."""
    generator = torch.Generator().manual_seed(seed)
    shape = {"multiclass": (num_samples, 4), "binary": (num_samples,), "multilabel": (num_samples, 2)}[kind]
    truth = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "multiclass":
        labels = torch.multinomial(truth.softmax(dim=1), 1, generator=generator)[:, 0]
        best = truth.argmax(dim=1)
    else:
        labels = torch.bernoulli(truth.sigmoid(), generator=generator).long()
        best = (truth > 0).long()
    number = torch.arange(num_samples) % 6
    number[torch.tensor([7, 50])] = 6
    factors = torch.tensor([3.0, 1.0, 0.4, 1.0, -1.0, 0.0, 1.0], dtype=torch.float64)[number]
    scores = truth * factors.reshape(-1, *[1] * (truth.ndim - 1))
    sure = ((number == 3) | (number == 4)).reshape(-1, *[1] * (labels.ndim - 1))
    return scores, torch.where(sure, best, labels), [NAMES[each] for each in number.tolist()]


def one_by_one(
    scores: Tensor, labels: Tensor, groups: list[str], weights: Tensor | None, borrowed: float
) -> dict[str, FitResult]:
    """A fit for each group, with its own samples in full and all of them in the share that is borrowed."""
    own = torch.ones(len(scores), dtype=torch.float64) if weights is None else weights
    found: dict[str, FitResult] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        for name in dict.fromkeys(groups):
            mine = torch.tensor([group == name for group in groups])
            given = own * (borrowed / own.sum()) + torch.where(mine, own, 0)
            found[name] = TemperatureScaling().fit(scores, labels, weights=given).fit_result_
    return found


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("kind", ["multiclass", "binary", "multilabel"])
@pytest.mark.parametrize("borrowed", [0.0, 0.5, 60.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_as_one_by_one(kind: str, borrowed: float, weighted: bool) -> None:
    scores, labels, groups = drawn(kind)
    generator = torch.Generator().manual_seed(1)
    weights = torch.randint(0, 3, (len(scores),), generator=generator).double() if weighted else None
    if weights is not None:
        weights[7] = 1.5  # of the group of two
    fitted = fit_groups("temperature", scores, labels, groups=groups, weights=weights, borrowed=borrowed)
    expected = one_by_one(scores, labels, groups, weights, borrowed)
    assert list(fitted.by_group) == list(expected)
    for name, part in fitted.by_group.items():
        assert part.fit_result_ == expected[name]
        reached = torch.tensor(part.fit_result_.parameters["temperature"], dtype=torch.float64)
        assert torch.equal(part.temperature, reached)
    if borrowed == 0 and kind == "multiclass":
        assert float(fitted.by_group["right"].temperature) == LOWEST_TEMPERATURE
        assert float(fitted.by_group["misled"].temperature) == HIGHEST_TEMPERATURE


def test_groups_without_weight() -> None:
    scores, labels, _ = drawn("binary", 60)
    groups = ["a"] * 30 + ["b"] * 30
    weights = torch.tensor([1.0] * 30 + [0.0] * 30)
    with pytest.raises(InputError, match="group 'b': `weights` must not all be zero"):
        fit_groups("temperature", scores, labels, groups=groups, weights=weights, borrowed=0)
    with pytest.warns(CalibrantWarning, match="group 'b' holds fewer samples than the 5"):
        fitted = fit_groups("temperature", scores, labels, groups=groups, weights=weights, borrowed=5)
    pooled = float(fitted.pooled.temperature)
    assert float(fitted.by_group["b"].temperature) == pytest.approx(pooled, rel=1e-9)
