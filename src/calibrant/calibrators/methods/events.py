"""Shared parts of calibrators that treat every class as an event: binned tables."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import ClassVar, NamedTuple, Self, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from calibrant._math.shapes import Bool, Float, Int
from calibrant._math.simplex import log_one_minus, log_softmax, normalise_gaps, split_top
from calibrant._math.text_form import plural
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.data import folds_of_alike, mean_and_error
from calibrant.calibrators.fitting.results import Solution, stack_tables
from calibrant.calibrators.fitting.samples import LOG_FLOOR, LOG_ODDS_LIMIT, Samples

_FEW = 100  # samples; with fewer, a free form is unreliable
_FEW_EACH = 30  # of any class; isotonic regression then loses about 0.2 nats to noise
_BEYOND = 1e-13  # less than the least probability of 1e-12, and with a finite logarithm
_FOLDS = 3
_SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of the original probabilities
Rows: TypeAlias = Bool[Tensor, " N"] | slice


class EventMap(NamedTuple):
    """A fitted function of log-odds, or one of each event, as rows that repeat their last entry."""

    places: Float[Tensor, "*K M"]
    values: Float[Tensor, "*K M"]
    warnings: tuple[str, ...] = ()
    further: Mapping[str, Float[Tensor, "*K M"]] = MappingProxyType({})  # tables of other parameters
    num_places: int = 0  # in all functions together


class Ranked(NamedTuple):
    """Samples of each event in order of their log-odds; samples of weight zero are ignored."""

    order: Int[Tensor, "K N"]
    log_odds: Float[Tensor, "K N"]
    outcomes: Float[Tensor, "K N"]
    weights: Float[Tensor, "K N"]

    @classmethod
    def of(
        cls, log_odds: Float[Tensor, "N K"], outcomes: Float[Tensor, "N K"], weights: Float[Tensor, " N"]
    ) -> Self:
        events = log_odds.T.contiguous()
        # NumPy's sort is several times as fast as torch's.
        order = torch.from_numpy(events.cpu().numpy().argsort(axis=1)).to(events.device)
        tables = (events, outcomes.T, weights.expand_as(order))
        return cls(order, *(table.gather(1, order) for table in tables))


def constant_in_bins(
    log_odds: Float[Tensor, "K N"], places: Float[Tensor, "K M"], values: Float[Tensor, "K M"]
) -> Float[Tensor, "K N"]:
    """Value of the bin ``(previous place, place]``; the last has no end."""
    index = number_below(places[:, :-1].contiguous(), log_odds.detach().contiguous())
    return values.gather(1, index)


def number_below(
    places: Float[Tensor, "K M"], values: Float[Tensor, "K N"], *, or_equal: bool = False
) -> Int[Tensor, "K N"]:
    """Number of ascending places below each value (with ``or_equal``, at or below it)."""
    if not torch.compiler.is_compiling():
        return torch.searchsorted(places, values, right=or_equal)
    # By halving, without branches: ONNX has no search.
    count, found = places.shape[1], torch.zeros_like(values, dtype=torch.int64)
    step = 1 << max(0, count.bit_length() - 1)
    while step and count:
        further = found + step
        place = places.gather(1, further.clamp(max=count) - 1)
        passed = (place <= values if or_equal else place < values) & (further <= count)
        found = torch.where(passed, further, found)
        step //= 2
    return found


class EventCalibrator(Calibrator):
    """One function of the log-odds of an event; for multiclass logits one per class, then normalised.

    With fewer than 30 samples of some class, such functions follow noise. Then the share ``original`` of the
    original probabilities is mixed in: the share with the lowest cross-validated log loss, or 1 if the gain
    is within its standard error. A warning reports it.

    If normalisation, or the coarseness of the functions, worsens even the calibration samples' Brier score,
    ``original`` becomes 1 and probabilities stay unchanged. Zeros count as 1e-12.
    """

    parameter_ranges: ClassVar = {
        "places": (-math.inf, math.inf),
        **dict.fromkeys(("values", "original"), (0.0, 1.0)),
    }
    parameter_shapes: ClassVar = {"places": ("K", "M"), "values": ("K", "M")}
    objective = "brier"
    places: Tensor
    values: Tensor
    original: Tensor
    _mixes_where_few = True  # or True if a setting fixes the share of the original

    def _fit_event(self, samples: Ordered) -> EventMap:
        raise NotImplementedError  # unused if ``_fitted`` is overridden

    _map_events = staticmethod(constant_in_bins)

    def _in_any_unit(self, samples: Samples) -> bool:
        """Return True for events, whose steps depend only on the order of log-odds."""
        return samples.is_event

    def _share_of_original(self, total_weight: float) -> float:
        del total_weight
        return 0.0

    def _solve(self, samples: Samples) -> Solution:
        wide, masses = samples.scores.to(torch.float64), samples.masses
        plain, log_odds = (wide, wide[:, None]) if samples.is_event else stated(wide)
        outcomes = samples.labels[:, None] if samples.is_event else one_hot(samples.labels, wide.shape[1])
        outcomes = outcomes.to(torch.float64)
        ranked = Ranked.of(log_odds, outcomes, masses)
        fitted = self._fitted(ranked)
        share = self._share_of_original(float(masses.sum()))
        rarest = float((masses @ outcomes).min())
        sparse = len(fitted.places) > 1 and rarest < _FEW_EACH
        if sparse and self._mixes_where_few and samples.num_samples >= _FOLDS:
            share = self._cross_validated_share(samples, ranked, plain, log_odds, least=share)

        def brier(calibrated: Tensor) -> float:
            probs = calibrated.sigmoid()[:, None] if samples.is_event else calibrated.exp()
            return float((probs - outcomes).square().sum(dim=1) @ masses / masses.sum())

        before = after = brier(plain)
        if share != 1:
            probs = self._fitted_probs(fitted, ranked, log_odds, slice(None))
            after = brier(_mixed(plain, probs, masses.new_tensor(share)))
        warnings = list(fitted.warnings)
        if sparse:
            told = f"the rarest class has {rarest:g} of the samples, few for a function of its own"
            warnings.append(f"{told}, {_told_of_share(share)}")
        elif samples.num_samples < _FEW:
            warnings.append(f"a calibrator of free form has only {plural(samples.num_samples, 'sample')}")
        if after > before:
            share, after = 1.0, before
            warnings.append("the calibrated probabilities had a worse Brier score, so nothing was changed")
        return Solution(
            converged=True,
            steps=1,
            before=before,
            after=after,
            parameters={"original": share},
            certificate={},
            message=f"{fitted.num_places} places",
            warnings=tuple(dict.fromkeys(warnings)),
            tables={"places": fitted.places, "values": fitted.values, **fitted.further},
        )

    def _fitted(self, ranked: Ranked) -> EventMap:
        problems = zip(ranked.log_odds, ranked.outcomes, ranked.weights, strict=True)
        if not bool((ranked.weights > 0).all()):
            problems = ([part[problem[-1] > 0] for part in problem] for problem in problems)
        functions = [self._fit_event(Ordered(*problem)) for problem in problems]
        named = [{"places": each.places, "values": each.values, **each.further} for each in functions]
        tables = {
            name: stack_tables([each[name] for each in named]).reshape(len(named), -1) for name in named[0]
        }
        notes = tuple(note for function in functions for note in function.warnings)
        num_places = sum(len(function.places) for function in functions)
        return EventMap(tables.pop("places"), tables.pop("values"), notes, tables, num_places)

    def _cross_validated_share(
        self,
        samples: Samples,
        ranked: Ranked,
        plain: Float[Tensor, "N C"],
        log_odds: Float[Tensor, "N C"],
        *,
        least: float,
    ) -> float:
        """Share of the original with the lowest held-out log loss; 1 unless the gain exceeds noise."""
        labels = samples.labels[:, None]
        folds, alike = folds_of_alike(plain.amax(dim=1), samples.labels, _FOLDS)
        probs, totals = plain.new_empty(len(plain), 1), plain.new_empty(len(plain), 1)
        for fold in range(int(folds.max()) + 1):
            inside = folds == fold
            weights = torch.where(inside, 0, samples.masses).expand_as(ranked.order).gather(1, ranked.order)
            fitted = self._fitted(ranked._replace(weights=weights))
            held_out = self._fitted_probs(fitted, ranked, log_odds, inside)
            probs[inside] = held_out.gather(1, labels[inside])
            totals[inside] = held_out.sum(dim=1, keepdim=True)
        came = plain.gather(1, labels)
        chosen, best, error = 1.0, 0.0, 0.0
        for share in (max(share, least) for share in _SHARES):
            mixed, total = (1 - share) * probs + share * came.exp(), (1 - share) * totals + share
            log_probs = torch.where(total == 0, came, (mixed / total).log().clamp(min=LOG_FLOOR))
            gain, noise = mean_and_error((log_probs - came)[:, 0], samples.shares, alike)
            if gain > best:
                chosen, best, error = share, gain, noise
        return chosen if best > error else 1.0

    def _transform(self, scores: Tensor) -> Tensor:
        wide = scores.to(torch.float64)  # in which the places were found
        share = self.fit_result_.parameters["original"]  # numbers: branches need not wait for a tensor
        if not isinstance(share, tuple):
            mapped = self._mapped(wide, self.places, self.values, self.original, unchanged=share == 1)
            return mapped.to(scores.dtype)
        columns = zip(wide.T, self.places, self.values, self.original, share, strict=True)
        mapped = [self._mapped(*column, unchanged=last == 1) for *column, last in columns]
        return torch.stack(mapped, dim=1).to(scores.dtype)

    def _mapped(
        self, scores: Tensor, places: Tensor, values: Tensor, original: Tensor, *, unchanged: bool
    ) -> Tensor:
        """Log-probabilities of logits ``(N, C)``, or log-odds of log-odds ``(N,)``."""
        if unchanged:
            return scores if scores.ndim == 1 else log_softmax(scores)
        plain, log_odds = (scores, scores[:, None]) if scores.ndim == 1 else stated(scores)
        return _mixed(plain, self._one_against_rest(log_odds, places, values), original)

    def _fitted_probs(self, fitted: EventMap, ranked: Ranked, log_odds: Tensor, rows: Rows) -> Tensor:
        del ranked
        return self._one_against_rest(log_odds[rows], fitted.places, fitted.values)

    def _one_against_rest(
        self, log_odds: Float[Tensor, "N K"], places: Float[Tensor, "J M"], values: Float[Tensor, "J M"]
    ) -> Float[Tensor, "N K"]:
        flat = log_odds.T.reshape(len(places), -1)
        return self._map_events(flat, places, values).reshape(log_odds.shape[1], -1).T


def _mixed(plain: Tensor, probs: Float[Tensor, "N K"], original: Tensor) -> Tensor:
    if plain.ndim == 1:
        mixed = (1 - original) * probs[:, 0] + original * plain.sigmoid()
        mixed = mixed.clamp(_BEYOND, 1 - _BEYOND)  # of whose logarithms the gradient is finite
        return (mixed.log() - (-mixed).log1p()).clamp(-LOG_ODDS_LIMIT, LOG_ODDS_LIMIT)
    mixed = (1 - original) * probs + original * plain.exp()
    total = mixed.sum(dim=1, keepdim=True)
    empty = total == 0  # such rows stay plain
    probs = (torch.where(empty, 1, mixed) / torch.where(empty, 1, total)).clamp(min=_BEYOND)
    log_probs = probs.log().clamp(min=LOG_FLOOR)
    return torch.where(empty, plain, log_softmax(log_probs))


def _told_of_share(share: float) -> str:
    if share < _SHARES[1]:
        return "which follows noise"
    if share == 1:
        return "so by cross-validation nothing was changed"
    return f"so by cross-validation {share:.0%} of the probabilities as they came were mixed in"


def stated(logits: Float[Tensor, "N C"]) -> tuple[Float[Tensor, "N C"], Float[Tensor, "N C"]]:
    """Log-probabilities, and log-odds of every class against the others."""
    split = split_top(logits)
    plain = normalise_gaps(split.top, split.gaps)
    return plain, plain - log_one_minus(split)


@dataclass(frozen=True, eq=False)
class Ordered:
    """Samples of one event in order of their log-odds, merged if equal."""

    log_odds: Float[Tensor, " N"]
    outcomes: Float[Tensor, " N"]
    weights: Float[Tensor, " N"]

    @cached_property
    def _groups(self) -> tuple[Float[Tensor, " G"], Int[Tensor, " N"]]:
        return torch.unique_consecutive(self.log_odds, return_inverse=True)

    @property
    def points(self) -> Float[Tensor, " G"]:
        return self._groups[0]

    @cached_property
    def masses(self) -> Float[Tensor, " G"]:
        return self.total(self.weights)

    @cached_property
    def hits(self) -> Float[Tensor, " G"]:
        return self.total(self.weights * self.outcomes)

    @cached_property
    def _middles(self) -> Float[Tensor, " G"]:
        return (self.masses.cumsum(0) - self.masses / 2) / self.masses.sum()

    def total(self, amounts: Float[Tensor, " N"]) -> Float[Tensor, " G"]:
        if len(self.points) == len(amounts):
            return amounts
        return amounts.new_zeros(len(self.points)).index_add_(0, self._groups[1], amounts)

    def equal_mass(self, num_bins: int) -> Int[Tensor, " G"]:
        """A bin for each point, none empty, of weights as equal as undivided points allow."""
        bins = (self._middles * num_bins).long().clamp(max=num_bins - 1)
        return torch.unique_consecutive(bins, return_inverse=True)[1]

    def ends(self, bins: Int[Tensor, " G"]) -> Float[Tensor, " M"]:
        """Half-way between a bin's last point and the next one; the last bin ends at its last point."""
        last = torch.cat([bins[1:] != bins[:-1], bins.new_ones(1).bool()])
        return self._half_ways[last]

    @cached_property
    def _half_ways(self) -> Float[Tensor, " G"]:
        """Mid-points between neighbours; the point itself if rounding leaves no gap."""
        following = torch.cat([self.points[1:], self.points[-1:]])
        half_way = self.points / 2 + following / 2  # halved first: the sum of two huge numbers is infinite
        return torch.where(half_way < following, half_way, self.points)
