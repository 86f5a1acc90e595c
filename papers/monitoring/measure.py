"""Streams of a calibrated model, and of one that changes, looked at after every batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logsumexp
from scipy.stats import norm

from calibrant.evaluation.monitoring.evidence import GAMBLERS, log_wealth
from calibrant.evaluation.resampling.events import Matrix, Vector
from papers.monitoring.settings import Change, Setting
from papers.records import Record, Records


def run_monitoring(
    out: Path, setting: Setting, tell: Callable[[str], None] = lambda _: None
) -> Sequence[Record]:
    """The records of every group of streams, computed where they are not there."""
    records = Records(out / "monitoring-runs.jsonl")
    cases: list[tuple[Change, int, int]] = [(Change(), setting.looks, setting.quiet_streams)]
    cases += [(change, at, setting.changed_streams) for change in setting.changes for at in setting.change_at]
    for case, (change, at, streams) in enumerate(cases):
        for group in range(math.ceil(streams / setting.streams_of_record)):
            count = min(setting.streams_of_record, streams - group * setting.streams_of_record)
            key = f"{setting.batch}x{setting.looks}: {change} at {at}, {group}"
            records.get(key, lambda s=(case, group), n=count, c=change, a=at: _group(setting, c, a, s, n))
            tell(f"{change} at {at}: {group * setting.streams_of_record + count} of {streams} streams")
    return records.all()


def _group(setting: Setting, change: Change, at: int, seed: tuple[int, int], count: int) -> dict[str, Any]:
    streams = [
        _stream(setting, change, at, np.random.default_rng((*seed, number))) for number in range(count)
    ]
    return {
        "slope": change.slope,
        "shift": change.shift,
        "at": at,
        "alarms": {name: [each[name] for each in streams] for name in ("evidence", "test at each look")},
    }


def _stream(setting: Setting, change: Change, at: int, rng: np.random.Generator) -> dict[str, int | None]:
    """The first look with an alarm, by the evidence and by a test at each look."""
    size = setting.looks * setting.batch
    look = np.arange(size) // setting.batch
    log_odds = setting.spread * rng.normal(size=size)
    truth = np.where(look >= at, change.slope * log_odds + change.shift, log_odds)
    outcomes = (rng.random(size) < expit(truth)).astype(np.float64)
    probs = expit(log_odds)
    bets = log_wealth(probs, outcomes, look, setting.looks, GAMBLERS)
    evidence = evidence_at_looks(bets, setting.looks_of_window)
    error = np.add.reduceat(outcomes - probs, np.arange(0, size, setting.batch)).cumsum()
    spread = np.sqrt(np.add.reduceat(probs * (1 - probs), np.arange(0, size, setting.batch)).cumsum())
    beyond = np.abs(error) > norm.isf(setting.false_alarms / 2) * spread
    return {
        "evidence": _first(evidence >= -math.log(setting.false_alarms)),
        "test at each look": _first(beyond),
    }


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


def _first(alarms: np.ndarray[Any, np.dtype[np.bool_]]) -> int | None:
    return int(alarms.argmax()) if alarms.any() else None


def samples_of_fixed_test(setting: Setting, change: Change) -> float:
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
