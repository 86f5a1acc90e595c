"""What a fit found, as frozen data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant.calibrators.fitting.profile import Profile

LOWEST_GAMMA, HIGHEST_GAMMA = -0.999, 50.0  # focal exponents that are searched


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """How a calibrator's fit went.

    In multilabel fits, whose columns are fitted one by one, ``before``, ``after`` and ``compared`` are means
    over the columns, ``steps`` and ``certificate`` the largest of them, and ``parameters`` hold one number
    per column.
    """

    converged: bool
    steps: int  # Newton steps, or evaluations of the objective where that has no derivatives
    objective: str
    before: float  # the objective of the logits as they came
    after: float
    parameters: Mapping[str, float | tuple[float, ...]]
    certificate: Mapping[str, float]  # what shows that this is the optimum; smaller is better
    compared: Mapping[str, float]  # the objective of simpler calibrators, by name
    message: str
    warnings: tuple[str, ...]
    num_samples: int
    data_sha256: str  # of the logits, labels and weights it was fitted on
    held_out: Mapping[str, float] = field(default_factory=dict[str, float])
    """By cross-validation, where that was asked for: with ``fit(..., folds=)`` what calibrators fitted on the
    other folds say (``log_loss``, ``confidence``, ``accuracy``, and ``excess``: by how many standard errors
    accuracy lies above confidence); with ``selection="cross_validated"`` by how much the log-loss falls
    (``gain``, ``gain_error``)."""
    profile: Profile | None = None
    """What the data looked like, for :func:`shift_of`; None of very many classes, and in files of older
    versions."""

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """What ``dataclasses.asdict`` made a dictionary of."""
        values: dict[str, Any] = dict(content)
        if values.get("profile"):
            values["profile"] = Profile(**values["profile"])
        return cls(**values)


def fitted_number(result: FitResult, name: str) -> float:
    """A parameter that is one number; a ``TypeError`` if it is one number per column."""
    value = result.parameters[name]
    if not isinstance(value, float):
        raise TypeError(f"`{name}` must be one number; got {value}.")
    return value


@dataclass(frozen=True, kw_only=True)
class Solution:
    """The fit of one problem: a multiclass or binary one, or one column of a multilabel one."""

    converged: bool
    steps: int
    before: float
    after: float
    parameters: Mapping[str, float]
    certificate: Mapping[str, float]
    message: str
    warnings: tuple[str, ...] = ()
    compared: Mapping[str, float] = field(default_factory=dict[str, float])
    held_out: Mapping[str, float] = field(default_factory=dict[str, float])
    tables: Mapping[str, Tensor] = field(default_factory=dict[str, "Tensor"])
    """Parameters that are more than one number; the calibrator keeps them, the result does not."""

    @property
    def said(self) -> tuple[str, ...]:
        """What to warn of; a fit that did not arrive never stays silent."""
        stopped = f"the fit stopped before it arrived ({self.message})"
        return self.warnings if self.converged else (*self.warnings, stopped)


def join(
    solutions: Sequence[Solution],
    *,
    objective: str,
    notes: Sequence[str],
    num_samples: int,
    data_sha256: str,
    profile: Profile | None,
) -> FitResult:
    """One result from the solutions of the columns, or from a single solution, with ``notes``."""
    first, several = solutions[0], len(solutions) > 1
    warnings = tuple(
        f"label {column}: {warning}" if several else warning
        for column, solution in enumerate(solutions)
        for warning in solution.said
    )
    message = first.message
    if several:
        settled = sum(solution.converged for solution in solutions)
        message = f"{settled} of {len(solutions)} labels converged, each fitted on its own"
    return FitResult(
        converged=all(solution.converged for solution in solutions),
        steps=max(solution.steps for solution in solutions),
        objective=objective,
        before=sum(solution.before for solution in solutions) / len(solutions),
        after=sum(solution.after for solution in solutions) / len(solutions),
        parameters={
            name: tuple(solution.parameters[name] for solution in solutions) if several else value
            for name, value in first.parameters.items()
        },
        certificate={
            name: max(solution.certificate.get(name, 0.0) for solution in solutions)
            for name in dict.fromkeys(name for solution in solutions for name in solution.certificate)
        },
        compared=_means([solution.compared for solution in solutions]),
        held_out=_means([solution.held_out for solution in solutions]),
        message=message,
        warnings=(*notes, *warnings),
        num_samples=num_samples,
        data_sha256=data_sha256,
        profile=profile,
    )


def _means(tables: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Means of the entries that all of them hold."""
    return {
        name: sum(table[name] for table in tables) / len(tables)
        for name in tables[0]
        if all(name in table for table in tables)
    }


def on_bounds(temperature: float, gamma: float = 0.0) -> tuple[str, ...]:
    """Warnings of parameters that lie on a bound."""
    said: list[str] = []
    if temperature in {LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE}:
        said.append("the best temperature is a bound of the search")
    if gamma in {LOWEST_GAMMA, HIGHEST_GAMMA}:
        said.append(f"the best exponent is a bound, gamma = {gamma:g}")
    return tuple(said)


def stack_tables(tables: Sequence[Tensor]) -> Tensor:
    """The table of a single problem; of several the stack, short rows continued with their last entry."""
    if len(tables) == 1:
        return tables[0]
    longest = max((table.shape[-1] for table in tables if table.ndim), default=0)
    return torch.stack([_lengthened(table, longest) for table in tables])


def _lengthened(table: Tensor, length: int) -> Tensor:
    if not table.ndim or table.shape[-1] == length:
        return table
    last = table[..., -1:].expand(*table.shape[:-1], length - table.shape[-1])
    return torch.cat([table, last], dim=-1)
