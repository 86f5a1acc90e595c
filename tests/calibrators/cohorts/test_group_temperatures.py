"""Temperatures of all groups in step: what fits one by one find, and all that they tell."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from calibrant import CalibrantWarning, InputError
from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant.calibrators import FitResult, TemperatureScaling, fit_groups
from calibrant.calibrators.fitting import likelihood

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


def assert_alike(found: FitResult, expected: FitResult) -> None:
    """Equal but for rounding, which alone decides how small a derivative of about zero is."""
    same = {field.name for field in dataclasses.fields(FitResult)}
    same -= {"parameters", "before", "after", "certificate", "message", "steps"}
    assert {name: getattr(found, name) for name in same} == {name: getattr(expected, name) for name in same}
    torch.testing.assert_close(
        torch.tensor(found.parameters["temperature"], dtype=torch.float64),
        torch.tensor(expected.parameters["temperature"], dtype=torch.float64),
        rtol=1e-9,
        atol=0,
    )
    assert abs(found.steps - expected.steps) <= 1  # one more where rounding makes the derivative zero
    assert found.before == pytest.approx(expected.before, rel=1e-12)
    assert found.after == pytest.approx(expected.after, rel=1e-12)
    assert dict(found.certificate) == pytest.approx(dict(expected.certificate), abs=1e-12)
    derivative = "derivative by log T"
    if derivative not in expected.message:
        assert found.message == expected.message
    else:
        assert found.message.startswith(derivative)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("kind", ["multiclass", "binary", "multilabel"])
@pytest.mark.parametrize("borrowed", [0.0, 0.5, 60.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_same_as_one_by_one(kind: str, borrowed: float, weighted: bool) -> None:
    """Temperature, likelihoods, steps, certificate, warnings, fingerprint and profile of every group."""
    scores, labels, groups = drawn(kind)
    generator = torch.Generator().manual_seed(1)
    weights = torch.randint(0, 3, (len(scores),), generator=generator).double() if weighted else None
    if weights is not None:
        weights[7] = 1.5  # of the group of two
    fitted = fit_groups("temperature", scores, labels, groups=groups, weights=weights, borrowed=borrowed)
    expected = one_by_one(scores, labels, groups, weights, borrowed)
    assert list(fitted.by_group) == list(expected)
    for name, part in fitted.by_group.items():
        assert type(part) is TemperatureScaling
        assert_alike(part.fit_result_, expected[name])
        reached = torch.tensor(part.fit_result_.parameters["temperature"], dtype=torch.float64)
        assert torch.equal(part.temperature, reached)
    if borrowed == 0 and kind == "multiclass":
        assert float(fitted.by_group["right"].temperature) == LOWEST_TEMPERATURE
        assert float(fitted.by_group["misled"].temperature) == HIGHEST_TEMPERATURE


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("borrowed", [0.0, 60.0])
def test_large_tables_start_from_some_of_the_rows(borrowed: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also there the result is that of fits one by one, whose search starts in the same place."""
    for module in ("fitting.temperatures", "cohorts.by_group"):
        monkeypatch.setattr(f"calibrant.calibrators.{module}.LARGE", 200)
    monkeypatch.setattr("calibrant.calibrators.fitting.searches._THIN_ROWS", 40)
    scores, labels, groups = drawn("multiclass")
    fitted = fit_groups("temperature", scores, labels, groups=groups, borrowed=borrowed)
    for name, expected in one_by_one(scores, labels, groups, None, borrowed).items():
        assert_alike(fitted.by_group[name].fit_result_, expected)


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows in many blocks, temperatures in many parts: the same but for the order of sums."""
    scores, labels, groups = drawn("multiclass")
    whole = fit_groups("temperature", scores, labels, groups=groups, borrowed=60)
    monkeypatch.setattr("calibrant._math.arrays.CACHED_ELEMENTS", 100)
    monkeypatch.setattr("calibrant.calibrators.fitting.likelihood.CACHED_ELEMENTS", 300)
    parts = fit_groups("temperature", scores, labels, groups=groups, borrowed=60)
    for name, part in parts.by_group.items():
        assert float(part.temperature) == pytest.approx(float(whole.by_group[name].temperature), rel=1e-10)


def test_zero_probabilities_are_floored() -> None:
    """And told, in every group's result as in a fit of its own."""
    scores, labels, groups = drawn("multiclass")
    scores = scores.log_softmax(dim=1)
    scores[::9, 0] = -torch.inf
    with pytest.warns(CalibrantWarning, match="group 'sharp': 47 probabilities of exactly zero"):
        fitted = fit_groups("temperature", scores, labels, groups=groups, borrowed=30)
    for name, expected in one_by_one(scores, labels, groups, None, 30).items():
        assert_alike(fitted.by_group[name].fit_result_, expected)


def test_probabilities_are_noticed_in_every_group() -> None:
    """As in a fit of its own."""
    scores, labels, groups = drawn("multiclass")
    probs = scores.softmax(dim=1)
    with pytest.warns(CalibrantWarning, match="group 'sharp': every row of `logits` sums to one"):
        fitted = fit_groups("temperature", probs, labels, groups=groups, borrowed=30)
    for name, expected in one_by_one(probs, labels, groups, None, 30).items():
        assert_alike(fitted.by_group[name].fit_result_, expected)


@pytest.fixture
def rows_seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many rows are computed at one temperature, or at several together."""
    seen: list[int] = []
    terms = likelihood.likelihood_terms

    def counted(block: Any, beta: Any) -> Tensor:
        found = terms(block, beta)
        seen.append(found[..., 0].numel())
        return found

    monkeypatch.setattr(likelihood, "likelihood_terms", counted)
    return seen


@pytest.mark.parametrize("num_groups", [2, 40])
def test_steps_are_passes(rows_seen: list[int], num_groups: int) -> None:
    """Without borrowing all groups' steps together are one pass over the samples each."""
    generator = torch.Generator().manual_seed(0)
    truth = 2 * torch.randn(4000, 3, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(truth.softmax(dim=1), 1, generator=generator)[:, 0]
    groups = torch.arange(4000) % num_groups
    fitted = fit_groups("temperature", truth * (1 + groups[:, None] % 3), labels, groups=groups, borrowed=0)
    steps = max(part.fit_result_.steps for part in fitted.by_group.values())
    assert 4000 * 3 < sum(rows_seen) <= 4000 * steps
    assert len(rows_seen) <= steps


def test_other_calibrators_are_fitted_one_by_one(rows_seen: list[int]) -> None:
    """Another objective, or another search, keeps its own fit."""
    scores, labels, groups = drawn("multiclass", 120)
    groups = ["a" if name in {"sharp", "plain", "blunt"} else "b" for name in groups]
    for template in (
        TemperatureScaling(objective="brier"),
        TemperatureScaling(search="grid"),
        "smoothed-temperature",
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CalibrantWarning)
            fit_groups(template, scores, labels, groups=groups, borrowed=10)
    assert rows_seen == []


def test_groups_without_weight() -> None:
    """Refused by name without borrowing; with it they have the pooled temperature."""
    scores, labels, _ = drawn("binary", 60)
    groups = ["a"] * 30 + ["b"] * 30
    weights = torch.tensor([1.0] * 30 + [0.0] * 30)
    with pytest.raises(InputError, match="group 'b': `weights` must not all be zero"):
        fit_groups("temperature", scores, labels, groups=groups, weights=weights, borrowed=0)
    with pytest.warns(CalibrantWarning, match="group 'b' holds fewer samples than the 5"):
        fitted = fit_groups("temperature", scores, labels, groups=groups, weights=weights, borrowed=5)
    pooled = float(fitted.pooled.temperature)
    assert float(fitted.by_group["b"].temperature) == pytest.approx(pooled, rel=1e-9)
