"""What the data of a fit looked like: enough to notice that later data look different."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import scattered
from calibrant._math.checks import Task
from calibrant._math.shapes import Float, Int
from calibrant._math.simplex import top_class

NUM_BINS = 10
_FEWEST_ROWS = 1024  # looked at, however many classes there are
_MOST_ENTRIES = 2**14  # looked at otherwise, so that a profile costs little beside the fastest fit
_LIMIT = 700.0  # log-odds beyond which probabilities are one or zero anyway


@dataclass(frozen=True, kw_only=True)
class Profile:
    """Class shares, and how sure the model was, before calibration.

    Confidence is that of the top class; of binary and multilabel predictions the probability of class 1, as
    calibration is measured for these. For large tables the histogram and the means are those of some rows,
    drawn at random, one from each of as many stretches.
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
    """How many samples that rests on; of weighted ones the effective number."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Probabilities before calibration, summarised for a profile."""

    probs: Float[Tensor, "N K"]
    log_odds: Float[Tensor, "N J"]
    weights: Float[Tensor, " N"]  # sum to one

    @property
    def num_rows(self) -> float:
        """Effective number of samples."""
        return float(1 / self.weights.square().sum())

    @property
    def means(self) -> Float[Tensor, " K"]:
        """Mean probabilities."""
        return self.weights @ self.probs

    @property
    def spreads(self) -> Float[Tensor, " K"]:
        """Standard deviations."""
        return (self.weights @ (self.probs - self.means).square()).sqrt()

    def shares(self, edges: Float[Tensor, " B"]) -> Float[Tensor, " B+1"]:
        """Share of the samples between edges; several labels of a sample count in equal parts."""
        bins = torch.searchsorted(edges, self.log_odds.contiguous())
        masses = (self.weights[:, None] / bins.shape[1]).expand(bins.shape)
        return torch.bincount(bins.reshape(-1), masses.reshape(-1), minlength=len(edges) + 1)


def rows_looked_at(num_samples: int, width: int) -> Int[Tensor, " R"] | slice:
    """All rows, or some of a large table."""
    most = max(_FEWEST_ROWS, _MOST_ENTRIES // width)
    return slice(None) if num_samples <= most else (scattered(most) * num_samples).long()


def summary_of(scores: Tensor, weights: Tensor | None, kind: Task) -> Summary:
    """Summarise finite scores, or some rows of a large table."""
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
    """The profile of finite scores and their labels."""
    return _profile(summary_of(scores, weights, kind), _prior(scores, labels, weights, kind))


def profile_of_some(
    rows: Float[Tensor, "R C"],
    weights_of_rows: Tensor | None,
    labels: Int[Tensor, " N"],
    weights: Tensor | None,
) -> Profile:
    """:func:`profile_of` several classes, where only the rows of :func:`rows_looked_at` are held."""
    prior = _prior(rows, labels, weights, "multiclass")
    return _profile(summary_of(rows, weights_of_rows, "multiclass"), prior)


def _profile(seen: Summary, class_prior: Float[Tensor, " K"]) -> Profile:
    edges = _edges(seen.log_odds)
    return Profile(
        class_prior=tuple(class_prior.tolist()),
        mean_probs=tuple(seen.means.tolist()),
        spreads=tuple(seen.spreads.tolist()),
        edges=tuple(edges.tolist()),
        shares=tuple(seen.shares(edges).tolist()),
        num_rows=seen.num_rows,
    )


def _prior(scores: Tensor, labels: Tensor, weights: Tensor | None, kind: Task) -> Float[Tensor, " K"]:
    """Shares of the classes, or of each label."""
    masses = None if weights is None else weights.to(torch.float64)
    if kind == "multilabel":
        table = labels.to(torch.float64)
        return table.mean(dim=0) if masses is None else masses @ table / masses.sum()
    counts = torch.bincount(labels, masses, minlength=2 if kind == "binary" else scores.shape[1])
    return counts.to(torch.float64) / counts.sum()


def _edges(log_odds: Float[Tensor, "N J"]) -> Float[Tensor, " B"]:
    """Half-way between samples, so that rounding moves none to another bin; equal ones stay together."""
    ordered = np.sort(log_odds.cpu().numpy(), axis=None)  # ten times as fast as torch's
    places = np.arange(1, NUM_BINS) * len(ordered) // NUM_BINS
    values = np.unique(ordered[places])
    following = np.searchsorted(ordered, values, side="right")
    inside = following < len(ordered)
    edges = (values[inside] + ordered[following[inside]]) / 2
    return torch.from_numpy(edges).to(log_odds.device)
