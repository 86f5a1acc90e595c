"""Results of fits as frozen data, with a profile of the data for detecting later shifts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import scattered
from calibrant._math.checks import Task
from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant._math.shapes import Float, Int
from calibrant._math.simplex import top_class
from calibrant._math.text_form import Note, reworded

LOWEST_GAMMA, HIGHEST_GAMMA = -0.999, 50.0  # focal exponents that are searched
NUM_BINS = 10
_FEWEST_ROWS = 1024  # examined for any number of classes
_MOST_ENTRIES = 2**14  # examined otherwise, so that a profile costs little compared with the fastest fit
_LIMIT = 700.0  # log-odds beyond which probabilities are one or zero anyway


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """Result of a calibrator's fit.

    In multilabel fits, with one fit per column, ``before``, ``after`` and ``compared`` are means
    over the columns, ``steps`` and ``certificate`` the maxima, and ``parameters`` hold one number
    per column.
    """

    converged: bool
    steps: int  # Newton steps, or evaluations of an objective without derivatives
    objective: str
    before: float  # objective of the original logits
    after: float
    parameters: Mapping[str, float | tuple[float, ...]]
    certificate: Mapping[str, float]  # evidence of the optimum; smaller is better
    compared: Mapping[str, float]  # the objective of simpler calibrators, by name
    message: str
    warnings: tuple[str, ...]
    num_samples: int
    data_sha256: str  # of the logits, labels and weights it was fitted on
    held_out: Mapping[str, float] = field(default_factory=dict[str, float])
    """Cross-validation, if requested. With ``fit(..., folds=)`` results of calibrators fitted on the other
    folds (``log_loss``, ``confidence``, ``accuracy``, and ``excess``: accuracy minus confidence in
    standard errors). With ``selection="cross_validated"`` the gain in log loss (``gain``, ``gain_error``)."""
    profile: Profile | None = None
    """Summary of the data for :func:`shift_of`; None for very many classes, and in older files."""

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        values: dict[str, Any] = dict(content)
        if values.get("profile"):
            values["profile"] = Profile(**values["profile"])
        return cls(**values)


def fitted_number(result: FitResult, name: str) -> float:
    value = result.parameters[name]
    if not isinstance(value, float):
        raise TypeError(f"`{name}` must be one number; got {value}.")
    return value


@dataclass(frozen=True, kw_only=True)
class Solution:
    """Fit of one problem: a multiclass or binary one, or one column of a multilabel one."""

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

    @classmethod
    def by_gradient(cls, slope: float, *, of: str = "", **parts: Any) -> Self:
        """Solution whose certificate is the largest derivative; ``of`` says by what."""
        parts = {"converged": slope < 1e-8, "certificate": {"gradient": slope}, **parts}
        return cls(message=f"gradient {slope:.1e}{of}", **parts)

    @property
    def said(self) -> tuple[str, ...]:
        """Warnings; an unfinished fit always has one."""
        stopped = f"the fit stopped before it arrived ({self.message})"
        return self.warnings if self.converged else (*self.warnings, stopped)


def join(
    solutions: Sequence[Solution],
    *,
    objective: str,
    num_samples: int,
    data_sha256: str,
    notes: Sequence[str] = (),
    profile: Profile | None = None,
) -> FitResult:
    """One result from the solutions of the columns, or from a single solution, with ``notes``."""
    first, several = solutions[0], len(solutions) > 1
    warnings = tuple(
        reworded(warning, f"label {column}: {warning}") if several else warning
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
    return {
        name: sum(table[name] for table in tables) / len(tables)
        for name in tables[0]
        if all(name in table for table in tables)
    }


def on_bounds(temperature: float, gamma: float = 0.0) -> tuple[str, ...]:
    said: list[str] = []
    if temperature in {LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE}:
        said.append(Note("the best temperature is a bound of the search", "bound"))
    if gamma in {LOWEST_GAMMA, HIGHEST_GAMMA}:
        said.append(Note(f"the best exponent is a bound, gamma = {gamma:g}", "bound"))
    return tuple(said)


def stack_tables(tables: Sequence[Tensor]) -> Tensor:
    """Table of a single problem; for several the stack, with short rows repeating their last entry."""
    if len(tables) == 1:
        return tables[0]
    longest = max((table.shape[-1] for table in tables if table.ndim), default=0)
    places = torch.arange(longest, device=tables[0].device)
    return torch.stack(
        [each[..., places.clamp(max=each.shape[-1] - 1)] if each.ndim else each for each in tables]
    )


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Class shares and confidences before calibration.

    Confidence is that of the top class; of binary and multilabel predictions the probability of class 1, as
    calibration is measured for these. For large tables the histogram and the means are those of a stratified
    random sample of rows.
    """

    class_prior: tuple[float, ...]
    """Share of each class among the labels, both of a binary one; of multilabel data that of each label."""
    mean_probs: tuple[float, ...]
    """Mean probability of each, as the model stated it."""
    spreads: tuple[float, ...]
    """Standard deviations of these probabilities from sample to sample."""
    edges: tuple[float, ...]
    """Log-odds of the confidences between which bins of about equal mass lie, ascending."""
    shares: tuple[float, ...]
    """Share of the samples in each bin; one more than edges."""
    num_rows: float
    """Number of samples; the effective number if they are weighted."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Probabilities before calibration, summarised for a profile."""

    probs: Float[Tensor, "N K"]
    log_odds: Float[Tensor, "N J"]
    weights: Float[Tensor, " N"]  # sum to one

    @property
    def num_rows(self) -> float:
        return float(1 / self.weights.square().sum())

    @property
    def means(self) -> Float[Tensor, " K"]:
        return self.weights @ self.probs

    @property
    def spreads(self) -> Float[Tensor, " K"]:
        return (self.weights @ (self.probs - self.means).square()).sqrt()

    def shares(self, edges: Float[Tensor, " B"]) -> Float[Tensor, " B+1"]:
        """Share of the samples between edges; several labels of a sample have equal weight."""
        bins = torch.searchsorted(edges, self.log_odds.contiguous())
        masses = (self.weights[:, None] / bins.shape[1]).expand(bins.shape)
        return torch.bincount(bins.reshape(-1), masses.reshape(-1), minlength=len(edges) + 1)


def rows_looked_at(num_samples: int, width: int) -> Int[Tensor, " R"] | slice:
    most = max(_FEWEST_ROWS, _MOST_ENTRIES // width)
    return slice(None) if num_samples <= most else (scattered(most) * num_samples).long()


def summary_of(scores: Tensor, weights: Tensor | None, kind: Task) -> Summary:
    chosen = rows_looked_at(scores.shape[0], scores.shape[1] if scores.ndim == 2 else 1)
    if isinstance(chosen, Tensor):
        chosen = chosen.to(scores.device)
    rows = scores.detach()[chosen].to(torch.float64)
    masses = rows.new_ones(len(rows)) if weights is None else weights[chosen].to(rows)
    if not bool(masses.any()):
        masses = torch.ones_like(masses)
    masses = masses / masses.sum()
    if kind == "multiclass":
        top = top_class(rows)[:, None]
        odds = (rows - rows.gather(1, top)).exp_()  # against the top class, whose own are 1
        others = odds.scatter_(1, top, 0).sum(dim=1, keepdim=True)
        probs = odds.scatter_(1, top, 1).div_(1 + others)
        return Summary(probs, others.log().neg_().clamp_(-_LIMIT, _LIMIT), masses)
    log_odds = rows.clamp(-_LIMIT, _LIMIT)
    if kind == "multilabel":
        return Summary(log_odds.sigmoid(), log_odds, masses)
    return Summary(torch.stack([(-log_odds).sigmoid(), log_odds.sigmoid()], dim=1), log_odds[:, None], masses)


def profile_of(
    scores: Tensor, labels: Int[Tensor, " N"] | Int[Tensor, "N C"], weights: Tensor | None, kind: Task
) -> Profile:
    return profile_of_rows(summary_of(scores, weights, kind), labels, weights, kind)


def profile_of_rows(seen: Summary, labels: Tensor, weights: Tensor | None, kind: Task) -> Profile:
    """Profile from the labels and weights of all samples, and a summary of :func:`rows_looked_at`."""
    masses = None if weights is None else weights.to(torch.float64)
    if kind == "multilabel":
        table = labels.to(torch.float64)
        prior = table.mean(dim=0) if masses is None else masses @ table / masses.sum()
    else:
        counts = torch.bincount(labels, masses, minlength=seen.probs.shape[1])
        prior = counts.to(torch.float64) / counts.sum()
    edges = _edges(seen.log_odds)
    tables = {
        "class_prior": prior,
        "mean_probs": seen.means,
        "spreads": seen.spreads,
        "edges": edges,
        "shares": seen.shares(edges),
    }
    numbers: dict[str, Any] = {name: tuple(table.tolist()) for name, table in tables.items()}
    return Profile(**numbers, num_rows=seen.num_rows)


def _edges(log_odds: Float[Tensor, "N J"]) -> Float[Tensor, " B"]:
    """Edges half-way between samples, so that rounding moves none; ties stay together."""
    ordered = np.sort(log_odds.cpu().numpy(), axis=None)  # ten times as fast as torch's
    places = np.arange(1, NUM_BINS) * len(ordered) // NUM_BINS
    values = np.unique(ordered[places])
    following = np.searchsorted(ordered, values, side="right")
    inside = following < len(ordered)
    edges = (values[inside] + ordered[following[inside]]) / 2
    return torch.from_numpy(edges).to(log_odds.device)
