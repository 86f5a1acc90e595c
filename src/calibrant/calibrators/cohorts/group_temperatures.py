"""Samples in groups; and temperature scaling by likelihood of all groups in step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from calibrant._math.checks import Checked, check_weights
from calibrant._math.convex_minimum import best_temperatures
from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant._math.threads import threads_for
from calibrant.calibrators.fitting.data import CalibrationData
from calibrant.calibrators.fitting.doubts import with_doubts_of_data, with_doubts_of_temperature
from calibrant.calibrators.fitting.likelihood import GroupLikelihoods, GroupRows
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.temperatures import LARGE, likeliest_of_some, of_likeliest
from calibrant.calibrators.fitting.units import divided, exponent_of, rescaled
from calibrant.calibrators.methods.temperature import TemperatureScaling


@dataclass(frozen=True, eq=False)
class GroupedData:
    """Samples of several groups; each counts all samples together like ``borrowed`` of its own."""

    checked: Checked
    rows: Mapping[str, Int[Tensor, " _"]]
    borrowed: float

    @cached_property
    def own(self) -> Float[Tensor, " N"]:
        """What each sample weighs in its group."""
        given, scores = self.checked.weights, self.checked.scores
        return torch.ones(len(scores), dtype=torch.float64).to(scores.device) if given is None else given

    @cached_property
    def numbers(self) -> Int[Tensor, " N"]:
        """The group of each sample, counted in the order of ``rows``."""
        numbers = torch.empty(self.checked.num_samples, dtype=torch.int64)
        for number, rows in enumerate(self.rows.values()):
            numbers[rows] = number
        return numbers.to(self.checked.scores.device)

    def mass(self, name: str) -> float:
        """What the samples of a group weigh together."""
        return float(self.own[self.rows[name].to(self.own.device)].sum())

    def weights(self, name: str) -> Float[Tensor, " N"]:
        """What each sample weighs in the fit of a group."""
        rows = self.rows[name].to(self.own.device)
        weights = self.own * (self.borrowed / self.own.sum())
        weights[rows] += self.own[rows]
        return weights


def are_fitted_in_step(template: object) -> bool:
    """Whether :func:`fit_group_temperatures` is for copies of this calibrator."""
    return (
        type(template) is TemperatureScaling
        and template.objective == "nll"
        and template.search == "continuous"
    )


def fit_group_temperatures(data: GroupedData) -> dict[str, TemperatureScaling]:
    """What ``TemperatureScaling`` finds for each group's weights, with all that it tells; without warning."""
    _refuse_weightless(data)
    given = CalibrationData.of(data.checked)
    fitted: dict[str, TemperatureScaling] = {}
    with threads_for(given.scores.numel()):
        found = [_solve(data, samples) for samples in given.problems()]
        for number, name in enumerate(data.rows):
            own = given.weighted(data.weights(name))
            solutions = [
                with_doubts_of_data(with_doubts_of_temperature(of_groups[number], samples, "nll"), samples)
                for of_groups, samples in zip(found, own.problems(), strict=True)
            ]
            result = own.result(solutions, "nll")
            temperature = torch.tensor(result.parameters["temperature"], dtype=torch.float64)
            fitted[name] = TemperatureScaling()
            fitted[name].restore(
                {"temperature": temperature.to(given.scores.device)},
                result,
                kind=given.kind,
                num_classes=data.checked.num_classes,
                class_names=None,
            )
    return fitted


def _refuse_weightless(data: GroupedData) -> None:
    """The error of a fit to samples of no weight; borrowed ones have some."""
    for name in data.rows:
        if data.borrowed == 0 and data.mass(name) == 0:
            try:
                check_weights(data.weights(name), data.checked.num_samples)
            except InputError as error:
                raise InputError(f"group {name!r}: {error}") from error


def _solve(data: GroupedData, samples: Samples) -> list[Solution]:
    """Every group's fit to one problem."""
    exponent = exponent_of(samples)
    samples = replace(samples, scores=divided(samples.scores, exponent))
    start = torch.ones(len(data.rows), dtype=torch.float64, device=samples.scores.device)
    if samples.scores.numel() > LARGE:
        for number, name in enumerate(data.rows):
            start[number] = likeliest_of_some(samples.weighted(data.weights(name)))
    slopes = _likelihoods(data, samples)
    roots = best_temperatures(slopes, start, bracket=True)
    before = start.new_tensor([root.at_start for root in roots])
    moved = (start != math.ldexp(1, -exponent)).nonzero()[:, 0]
    if len(moved):
        before[moved] = slopes(moved, torch.full_like(start[moved], math.ldexp(1, exponent)))[:, 0]
    return [
        rescaled(of_likeliest(*found), {"temperature": 1}, exponent)
        for found in zip(roots, before.tolist(), start.tolist(), strict=True)
    ]


def _likelihoods(data: GroupedData, samples: Samples) -> GroupLikelihoods:
    """Of each group the mean over its own samples and that over all, in the shares of own and borrowed."""
    samples, counted = samples.weighted(data.checked.weights), data.own > 0
    own, numbers = data.own[counted], data.numbers[counted]
    total = torch.bincount(numbers, own, len(data.rows)) + data.borrowed
    shares = own / total[numbers]  # of each sample in the objective of its group

    def rows() -> Iterator[GroupRows]:
        end = 0
        for block in samples.blocks():
            start, end = end, end + len(block.shares)
            yield GroupRows(block, numbers[start:end], shares[start:end])

    return GroupLikelihoods(rows, len(data.rows), data.borrowed / total if data.borrowed > 0 else None)
