"""Streams of a calibrated model, and of one that changes, looked at after every batch by a monitor."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp
from scipy.stats import binom, norm

from calibrant.evaluation.monitoring.evidence import GAMBLERS, log_wealth
from calibrant.evaluation.resampling.events import Matrix, Vector
from papers.runs import Records

NAMES = ("evidence", "test at each look")


@dataclass(frozen=True, kw_only=True)
class Change:
    """From some look on, the true log-odds are ``slope`` times the stated ones, plus ``shift``."""

    slope: float = 1.0
    shift: float = 0.0

    @property
    def formula(self) -> str:
        scaled = "z" if self.slope == 1 else f"{self.slope:g} z"
        return f"{scaled} + {self.shift:g}" if self.shift else scaled


@dataclass(frozen=True, kw_only=True)
class Streams:
    """Streams of a model of one event whose log-odds z are normal."""

    spread: float = 2.0  # standard deviation of z
    batch: int = 20  # samples between two looks
    looks: int = 10_000
    looks_of_window: int = 100
    false_alarms: float = 0.05
    changes: tuple[Change, ...] = (Change(slope=0.8), Change(slope=0.5), Change(shift=0.3), Change(shift=1.0))
    change_at: tuple[int, ...] = (1000, 5000)  # looks
    quiet_streams: int = 400
    changed_streams: int = 40


FULL_STREAMS = Streams()
SMALL_STREAMS = Streams(
    batch=10,
    looks=40,
    looks_of_window=10,
    changes=(Change(slope=0.5),),
    change_at=(20,),
    quiet_streams=8,
    changed_streams=4,
)


def streams(folder: Path, setting: Streams) -> dict[str, Any]:
    """Alarms without a change, and delays after one; what is recorded in ``folder`` is not done again."""
    records = Records(folder / "streams.jsonl")
    cases = [(Change(), setting.looks, setting.quiet_streams)]
    cases += [(change, at, setting.changed_streams) for change in setting.changes for at in setting.change_at]
    alarms = []
    for number, case in enumerate(cases):
        compute = partial(_alarms, setting, number, *case)
        alarms.append(records.get(f"{case}, {setting}", lambda of=compute: {"alarms": of()})["alarms"])
    counts = {name: sum(each is not None for each in found) for name, found in alarms[0].items()}
    quiet = {name: {"streams": len(alarms[0][name]), "alarms": count} for name, count in counts.items()}
    names = ("batch", "looks", "looks_of_window", "spread", "false_alarms")
    return {
        **{name: getattr(setting, name) for name in names},
        "quiet": quiet,
        "changed": [
            _delays(setting, change, at, found["evidence"])
            for (change, at, _), found in zip(cases[1:], alarms[1:], strict=True)
        ],
    }


def _alarms(
    setting: Streams, number: int, change: Change, at: int, count: int
) -> dict[str, list[int | None]]:
    """The first look with an alarm of each stream, by the evidence and by a test at each look."""
    found = [
        _stream(setting, change, at, np.random.default_rng((number, *divmod(each, 20))))
        for each in range(count)
    ]
    return {name: [each[name] for each in found] for name in NAMES}


def _stream(setting: Streams, change: Change, at: int, rng: np.random.Generator) -> Mapping[str, int | None]:
    size = setting.looks * setting.batch
    look = np.arange(size) // setting.batch
    log_odds = setting.spread * rng.normal(size=size)
    truth = np.where(look >= at, change.slope * log_odds + change.shift, log_odds)
    outcomes = (rng.random(size) < expit(truth)).astype(np.float64)
    probs = expit(log_odds)
    bets = log_wealth(probs, outcomes, look, setting.looks, GAMBLERS)
    evidence = evidence_at_looks(bets, setting.looks_of_window)
    starts = np.arange(0, size, setting.batch)
    error = np.add.reduceat(outcomes - probs, starts).cumsum()
    spread = np.sqrt(np.add.reduceat(probs * (1 - probs), starts).cumsum())
    beyond = np.abs(error) > norm.isf(setting.false_alarms / 2) * spread
    raised = evidence >= -math.log(setting.false_alarms), beyond
    return {name: int(of.argmax()) if of.any() else None for name, of in zip(NAMES, raised, strict=True)}


def evidence_at_looks(bets: Matrix, looks_of_window: int) -> Vector:
    """The evidence after each look, where gamblers begin with each window; bets ``(looks, gamblers)``."""
    total = bets.cumsum(0)
    found = np.full(len(bets), -np.inf)
    for begun, start in enumerate(range(0, len(bets), looks_of_window), 1):
        before = total[start - 1] if start else 0.0
        wealth = np.asarray(logsumexp(total[start:] - before, axis=1))
        share = math.log(bets.shape[1] * begun * (begun + 1))
        found[start:] = np.logaddexp(found[start:], wealth - share)
    pocket = -np.log(np.arange(len(bets)) // looks_of_window + 2.0)
    return np.logaddexp(found, pocket)


def _delays(setting: Streams, change: Change, at: int, alarms: Sequence[int | None]) -> dict[str, Any]:
    """Samples after the change until half of the streams without an earlier alarm have raised one."""
    delays = sorted((alarm - at) * setting.batch for alarm in alarms if alarm is not None and alarm >= at)
    kept = sum(alarm is None or alarm >= at for alarm in alarms)
    return {
        "change": change.formula,
        "at": at,
        "streams": len(alarms),
        "before": len(alarms) - kept,
        "found": len(delays),
        "median_delay": delays[(kept - 1) // 2] if len(delays) > (kept - 1) // 2 else None,
        "median_interval": interval_of_median(delays, kept),
        "fixed_test": samples_of_fixed_test(setting, change),
    }


def interval_of_median(delays: Sequence[int], streams: int) -> tuple[int | None, int | None]:
    """The delays between which the median of all such streams lies, with 95 % confidence, by their order.

    Less than 2.5 % of binomial counts with one half lie below the rank of the first, and as few above that of
    the second; None where so many streams have not raised an alarm, or are not there.

    Example:
        >>> interval_of_median(range(1, 41), 40)
        (14, 27)
        >>> interval_of_median([1, 2, 3], 4)
        (None, None)
    """
    rank = int(binom.ppf(0.025, streams, 0.5))  # P(count < rank) <= 2.5 %
    if rank < 1:
        return None, None
    low, high = (delays[place] if place < len(delays) else None for place in (rank - 1, streams - rank))
    return low, high


def samples_of_fixed_test(setting: Streams, change: Change) -> float:
    """Samples after the change with which a test that knows its time and kind rejects half of the time.

    The score test of the slope or of the shift, two-sided, by its mean and variance per sample.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(200)
    weights = weights / weights.sum()
    log_odds = setting.spread * nodes
    direction = log_odds if change.slope != 1 else np.ones_like(log_odds)
    stated, true = expit(log_odds), expit(change.slope * log_odds + change.shift)
    mean = float(weights @ (direction * (true - stated)))
    variance = float(weights @ (direction**2 * stated * (1 - stated)))
    return float(norm.isf(setting.false_alarms / 2)) ** 2 * variance / mean**2
