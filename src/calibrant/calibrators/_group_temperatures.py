"""Samples in groups; and temperature scaling by likelihood of all groups in step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from calibrant._math.arrays import CACHED_ELEMENTS, DEVICE_ELEMENTS
from calibrant._math.checks import Checked, Task, check_weights
from calibrant._math.errors import InputError
from calibrant._math.threads import threads_for
from calibrant.calibrators._fit_data import (
    drop_weightless,
    fingerprint_by_weights,
    finite_scores,
    with_trouble,
)
from calibrant.calibrators._objectives import likelihood_terms
from calibrant.calibrators._samples import Block, Samples
from calibrant.calibrators._temperature_root import convex_minima
from calibrant.calibrators.many_temperatures import some_of
from calibrant.calibrators.profile import profile_of
from calibrant.calibrators.result import Solution, join
from calibrant.calibrators.temperature import (
    LARGE,
    TemperatureScaling,
    likeliest_of_some,
    of_likeliest,
    with_warnings,
)

if TYPE_CHECKING:
    from jaxtyping import Float, Int


@dataclass(frozen=True, eq=False)
class GroupedData:
    """Samples of several groups; each counts all samples together like ``borrowed`` of its own."""

    checked: Checked
    rows: Mapping[str, Int[Tensor, " n"]]
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
    checked = data.checked
    scores, notes = finite_scores(checked)
    sha256 = fingerprint_by_weights(checked.scores, checked.labels)
    fitted: dict[str, TemperatureScaling] = {}
    with threads_for(scores.numel()):
        problems = _problems(scores, checked.target, checked.task)
        found = [_solve(data, *problem) for problem in problems]
        for number, name in enumerate(data.rows):
            weights = data.weights(name)
            part, labels, kept = drop_weightless(scores, checked.target, weights)
            solutions = [
                with_warnings(Samples(*problem, kept), "nll", of_groups[number])
                for problem, of_groups in zip(_problems(part, labels, checked.task), found, strict=True)
            ]
            result = join(
                with_trouble(solutions, part, labels, checked.task),
                objective="nll",
                notes=notes,
                num_samples=checked.num_samples,
                data_sha256=sha256(weights),
                profile=profile_of(part, labels, kept, checked.task),
            )
            temperature = torch.tensor(result.parameters["temperature"], dtype=torch.float64)
            fitted[name] = TemperatureScaling()
            fitted[name].restore(
                {"temperature": temperature.to(scores.device)},
                result,
                kind=checked.task,
                num_classes=checked.num_classes,
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


def _problems(scores: Tensor, labels: Tensor, task: Task) -> list[tuple[Tensor, Tensor]]:
    """One problem, or one for each label of multilabel data."""
    if task != "multilabel":
        return [(scores, labels)]
    return [(scores[:, column], labels[:, column]) for column in range(scores.shape[1])]


def _solve(data: GroupedData, scores: Tensor, labels: Int[Tensor, " N"]) -> list[Solution]:
    """Every group's fit to one problem."""
    start = torch.ones(len(data.rows), dtype=torch.float64, device=scores.device)
    if scores.numel() > LARGE:
        for number, name in enumerate(data.rows):
            own = Samples(*drop_weightless(scores, labels, data.weights(name)))
            start[number] = likeliest_of_some(own)
    slopes = _GroupLikelihoods(data, scores, labels)
    roots = convex_minima(slopes, start, bracket=True)
    before = start.new_tensor([root.at_start for root in roots])
    moved = (start != 1).nonzero()[:, 0]
    if len(moved):
        before[moved] = slopes(moved, torch.ones_like(start[moved]))[:, 0]
    return [of_likeliest(*found) for found in zip(roots, before.tolist(), start.tolist(), strict=True)]


class _GroupLikelihoods:
    """Negative log-likelihood of each group as a function of its own 1 / T, with two derivatives.

    The mean over its own samples and that over all, in the shares of their weight and of what is borrowed.
    """

    def __init__(self, data: GroupedData, scores: Tensor, labels: Int[Tensor, " N"]) -> None:
        self.samples = Samples(*drop_weightless(scores, labels, data.checked.weights))
        counted = data.own > 0
        own, self.numbers = data.own[counted], data.numbers[counted]
        self.num_groups = len(data.rows)
        total = torch.bincount(self.numbers, own, self.num_groups) + data.borrowed
        self.shares = own / total[self.numbers]  # of each sample in the objective of its group
        self.borrows = data.borrowed > 0
        self.borrowed = data.borrowed / total  # share of the mean over all samples

    def __call__(self, groups: Int[Tensor, " A"], beta: Float[Tensor, " A"]) -> Float[Tensor, "A 3"]:
        place = torch.full((self.num_groups,), -1, device=beta.device)
        place[groups] = torch.arange(len(groups), device=beta.device)
        found = torch.zeros(len(groups), 3, dtype=torch.float64, device=beta.device)
        end = 0
        for block in self.samples.blocks():
            start, end = end, end + len(block.shares)
            at = place[self.numbers[start:end]]
            found += _own(block, self.shares[start:end], at, beta)
            if self.borrows:
                found += self.borrowed[groups, None] * _pooled(block, beta)
        return found


def _own(
    block: Block, shares: Float[Tensor, " n"], at: Int[Tensor, " n"], beta: Float[Tensor, " A"]
) -> Float[Tensor, "A 3"]:
    """Sums by group, each row at the temperature of its group; without rows of groups that are done."""
    wanted = at >= 0
    if not bool(wanted.all()):
        block, shares, at = some_of(block, wanted), shares[wanted], at[wanted]
        if not len(at):
            return beta.new_zeros(len(beta), 3)
    terms = likelihood_terms(block, beta[at, None]) * shares[:, None]
    return torch.stack([torch.bincount(at, column, len(beta)) for column in terms.unbind(dim=1)], dim=1)


def _pooled(block: Block, beta: Float[Tensor, " A"]) -> Float[Tensor, "A 3"]:
    """Sums over all rows, at each of the temperatures."""
    cached = CACHED_ELEMENTS if beta.device.type == "cpu" else DEVICE_ELEMENTS
    parts = beta.split(max(1, cached // block.below.numel()))
    return torch.cat([block.shares @ likelihood_terms(block, part[:, None, None]) for part in parts])
