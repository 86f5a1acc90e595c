"""Settings of the evaluation of every arm, and the measured coverage of intervals made by them."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibrant import __version__
from calibrant._math.checks import check_choice, check_level, check_whole
from calibrant.evaluation.quantities import QUANTITIES, find
from calibrant.evaluation.quantity import EVENT
from calibrant.evaluation.resampling.events import Indices
from calibrant.evaluation.resampling.intervals import INTERVALS, Intervals
from calibrant.evaluation.resampling.resamples import Resamples, Stream, stream_seed
from calibrant.evaluation.result import Coverage, Coverages, Kind, Settings
from calibrant.predictions import Predictions


@dataclass(frozen=True, kw_only=True)
class Procedure:
    """Settings of the evaluation of every arm."""

    kind: Kind
    num_bins: int
    num_resamples: int
    num_draws: int
    level: float
    seed: int
    intervals: Intervals = "inverted"
    metrics: tuple[str, ...] = ()  # keys of additional quantities
    clusters: int | None = None  # number of resampled clusters; None: samples
    _resamples: dict[tuple[int, ...], Resamples] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_choice("intervals", self.intervals, INTERVALS)
        for name, value, least in (
            ("num_bins", self.num_bins, 1),
            ("bootstrap", self.num_resamples, 2),
            ("null_draws", self.num_draws, 1),
            ("seed", self.seed, 0),
        ):
            check_whole(name, value, least)
        check_level(self.level)

    def settings(self, calibration: str, calibrators: tuple[str, ...] = ()) -> Settings:
        return Settings(
            num_bins=self.num_bins,
            bootstrap=self.num_resamples,
            level=self.level,
            seed=self.seed,
            null_draws=self.num_draws,
            calibration=calibration,
            calibrators=calibrators,
            intervals=self.intervals,
            metrics=self.metrics,
            clusters=self.clusters,
        )

    def resamples(
        self, num_samples: int, part: int, clusters: Indices | None = None, *, most: int | None = None
    ) -> Resamples:
        """Resamples, shared by all arms of a part; only the first ones if fewer are wanted."""
        number = self.num_resamples if most is None else min(most, self.num_resamples)
        key = num_samples, part, number, 0 if clusters is None else hash(clusters.tobytes())
        kept = self._resamples.get(key)
        if kept is None:
            seed = stream_seed(self.seed, Stream.BOOTSTRAP, part)
            kept = Resamples(num_samples, number, seed, clusters)
            self._resamples[key] = kept
        return kept


def versions() -> dict[str, str]:
    return {
        "calibrant": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


Progress = Callable[[str, float], None]


class Steps:
    """Reports progress in equal steps."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._tell = progress or (lambda _stage, _fraction: None)
        self._total = total
        self._done = -1
        self._stage = ""

    def next(self, stage: str) -> None:
        self._done += 1
        self._stage = stage
        self._tell(stage, min(1.0, self._done / self._total))

    def finish(self) -> None:
        self._tell("done", 1.0)

    def within(self, fraction: float) -> None:
        self._tell(self._stage, min(1.0, (self._done + fraction) / self._total))

    def watching(self, test: Predictions) -> Callable[[float], None]:
        """A reporter of the share done of a step; reading streamed scores is its first half."""
        if not test.streamed:
            return self.within
        test.watch(lambda fraction: self.within(fraction / 2))
        return lambda fraction: self.within((1 + fraction) / 2)


FILE = Path(__file__).with_name("measured_coverage.json")  # written by `python -m papers coverage`


def coverage_of(procedure: Procedure, keys: Iterable[str]) -> Coverages | None:
    """Measured coverage of these quantities; ``None`` for intervals that were not measured."""
    found = _measured()
    measured = procedure.intervals == "inverted" and procedure.level == found["level"]
    if procedure.clusters is not None or not measured:
        return None
    wanted = {key: _measured_as(key, procedure.kind, found["values"]) for key in keys}

    def of(known: Mapping[str, Any]) -> dict[str, Coverage]:
        return {key: Coverage(**known[name]) for key, name in wanted.items() if name and name in known}

    return Coverages(level=found["level"], values=of(found["values"]), changes=of(found["changes"]))


def _measured_as(key: str, kind: Kind, measured: Mapping[str, Any]) -> str | None:
    """Key of the measured interval; a debiased error has that of the plain error."""
    plain = key.removeprefix(EVENT)
    quantity = find(key, kind)
    if plain in measured:
        return plain
    target = None if quantity is None else quantity.computed.target
    same = (each.key for each in QUANTITIES if each.computed.target == target and each.key in measured)
    return None if target is None else next(same, None)


@cache
def _measured() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))
