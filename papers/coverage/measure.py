"""Test sets with known true errors, judged batch by batch as ``calibrant evaluate`` judges them."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

import calibrant
from calibrant._math.means import rounded
from calibrant.evaluation import compare, evaluate
from calibrant.evaluation.resampling.events import Vector, width_bins
from calibrant.evaluation.thresholds import beyond_chance
from calibrant.predictions import Predictions
from papers.coverage import populations
from papers.coverage.populations import Stated
from papers.coverage.streams import FULL_STREAMS, SMALL_STREAMS, streams
from papers.runs import Records

TITLES = {
    "ece": "ECE",
    "classwise_ece": "class-wise ECE",
    "smce": "smCE",
    "adaptive_ece": "adaptive ECE",
    "l2_ece": "L2 ECE",
    "mce": "MCE",
    "kolmogorov_smirnov": "KS error",
    "over_confidence_error": "over-confidence error",
    "under_confidence_error": "under-confidence error",
    "smooth_ece": "smECE",
}
"""Errors, and what the page calls them."""
USUAL = ("over_confidence_error", "under_confidence_error")
RARE = ("kolmogorov_smirnov", "smooth_ece")
"""What is asked for of every set; of the first of a batch the KS error, and in some batches smECE."""
FILES = (
    "logits_eurosat_rgb/eurosat_rgb.npz",
    "logits_netcal_cifar/lenet-5-cifar-10.npz",
    "logits_netcal_cifar/wideresnet-16-4-cifar-100.npz",
    "logits_valtest_noisycal/ham10000.npz",
    "probs_pycalib_small/kitti_1layer_NN.npz",
    "probs_ecg_chagas/ecg_chagas.npz",
)
"""Real predictions, below the folder of the data."""
JUDGES = ("_math", "evaluation/judging", "evaluation/resampling")
"""Folders of the package on which intervals rest."""
Lists = dict[str, dict[str, list[Any]]]
"""By error and name: a number of each set."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How sets are made and judged, and the grid of cells."""

    spread: float = 1.5
    """Standard deviation of the logits."""
    num_bins: int = 15
    num_draws: int = 400
    level: float = 0.95
    sets: int = 20
    """Test sets of a batch; twice as many where the truth is stated."""
    rarely: int = 5
    """smECE is measured in every fifth batch."""
    resamples: int = 200
    truth_samples: int = 1_000_000
    bandwidth: float = 0.5
    """Of the kernel that smooths real outcomes, in log-odds."""
    changed_sets: int = 4
    """Test sets of a batch for differences."""
    classes: tuple[int, ...] = (2, 5, 10, 100)
    samples: tuple[int, ...] = (200, 1000, 5000)
    scales: tuple[float, ...] = (1.0, 1.05, 1.15, 1.3, 1.6)
    files: tuple[str, ...] = FILES
    file_samples: int = 1000
    changed_classes: tuple[int, ...] = (2, 10)
    changes: tuple[tuple[float, float], ...] = ((1.05, 1.0), (1.3, 1.0), (1.6, 1.15), (1.0, 1.3))
    """Scales before and after, on the same samples."""
    compared: tuple[tuple[float, float], ...] = ((1.0, 1.3), (1.3, 1.3), (1.3, 1.0))
    """Scales of one model and of another, on the same samples; not of two classes."""


SIZES = {
    "full": (Setting(), FULL_STREAMS),
    "small": (
        Setting(
            num_draws=40,
            sets=2,
            rarely=1,
            resamples=20,
            truth_samples=2000,
            changed_sets=1,
            classes=(2, 3),
            samples=(60,),
            scales=(1.0, 1.6),
            files=(),
            changed_classes=(3,),
            changes=((1.6, 1.0),),
            compared=((1.3, 1.0),),
        ),
        SMALL_STREAMS,
    ),
}


def measure(folder: Path, size: str = "full", seeds: str = "25") -> dict[str, Any]:
    """The results of so many batches in every cell; what is recorded in ``folder`` is not done again.

    ``size`` is ``full``, or ``small`` (seconds). ``CALIBRANT_DATA`` names the folder of the files; without
    it, only simulated predictions are judged.
    """
    (setting, of_streams), where = SIZES[size], os.environ.get("CALIBRANT_DATA")
    study = Study(setting, Path(where) if where else None, Records(folder / "coverage.jsonl"))
    every = range(int(seeds))
    cells = (*study.cells(), *study.changes())
    batches = {cell: [study.batch(cell, seed) for seed in every] for cell in cells}
    return {
        "setting": asdict(setting),
        "batches": len(every),
        "cells": [study.result(cell, batches[cell]) for cell in study.cells()],
        "changes": [study.result_of_change(cell, batches[cell]) for cell in study.changes()],
        "monitoring": streams(folder, of_streams),
    }


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Where sets come from, and how large they are."""

    classes: int
    samples: int
    scale: float | None = None
    file: str | None = None
    stated: Stated | None = None
    after: float | None = None
    """For differences, the scale after; `scale` is the one before."""
    model: Literal["another"] | None = None
    """For differences, whose scale is the one after, if not the same model's."""

    @property
    def title(self) -> str:
        """By which its records are known."""
        return ", ".join(f"{name} {value}" for name, value in vars(self).items() if value is not None)

    @property
    def calibrated(self) -> bool:
        """Whether the truth is stated."""
        return self.after is None and (self.scale == 1 or self.stated == "the truth")


@dataclass(frozen=True)
class Study:
    """The cells of a setting, and what was recorded of them."""

    setting: Setting
    folder: Path | None
    records: Records

    def cells(self) -> Iterator[Cell]:
        setting = self.setting
        for classes, samples, scale in product(setting.classes, setting.samples, setting.scales):
            yield Cell(classes=classes, samples=samples, scale=scale)
        for file, what in product(setting.files if self.folder else (), ("as in the file", "the truth")):
            classes = self.population(file, what).stated.shape[1]
            yield Cell(classes=classes, samples=setting.file_samples, file=file, stated=what)

    def changes(self) -> Iterator[Cell]:
        """The cells of differences."""
        setting = self.setting
        for classes, samples in product(setting.changed_classes, setting.samples):
            for before, after in setting.changes:
                yield Cell(classes=classes, samples=samples, scale=before, after=after)
            for one, other in setting.compared if classes > 2 else ():
                yield Cell(classes=classes, samples=samples, scale=one, after=other, model="another")

    def population(self, file: str, what: Stated) -> populations.Redrawn:
        return populations.redrawn(Path(self.folder or "") / file, self.setting.bandwidth, what)

    def batch(self, cell: Cell, seed: int) -> Mapping[str, Any]:
        judge = self._judged if cell.after is None else self._compared
        rng = np.random.default_rng((seed, *cell.title.encode()))
        key = f"sets, seed {seed}, {cell.title}, {fingerprint(self.setting)}"
        return self.records.get(key, lambda: judge(cell, seed, rng))

    def truth(self, cell: Cell) -> Mapping[str, Any]:
        """The errors of the population of a cell, and the gaps of the top label by bin."""
        setting = self.setting

        def compute() -> dict[str, Any]:
            if cell.file and cell.stated:
                population = self.population(cell.file, cell.stated)
                errors, gaps = populations.redrawn_truth(population, setting.num_bins)
            else:
                how = setting.spread, setting.num_bins, setting.truth_samples
                draw = partial(populations.normal_truth, another=cell.model is not None)
                errors, gaps = draw(cell.classes, cell.scale or 1.0, *how)
            return {"errors": errors, "gaps": gaps.tolist()}

        if cell.calibrated:
            return {"errors": dict.fromkeys(TITLES, 0.0), "gaps": [0.0] * setting.num_bins}
        title = replace(cell, samples=0).title
        return self.records.get(f"truth, {title}, {fingerprint(setting)}", compute)

    def _judged(self, cell: Cell, seed: int, rng: np.random.Generator) -> dict[str, Any]:
        """Sets of a cell; of each error the results, set by set, and what the verdict says."""
        setting, gaps = self.setting, np.array(self.truth(cell)["gaps"])
        errors, centred, parts, words = Lists(), Lists(), Lists(), list[str]()
        for number in range(setting.sets * (2 if cell.calibrated else 1)):
            if cell.file and cell.stated:
                given = self.population(cell.file, cell.stated).draw(cell.samples, rng)
            else:
                drawn = populations.normal((cell.samples, cell.classes), setting.spread, rng)
                given = populations.stated(*drawn, cell.scale or 1.0)
            how = self._how(rng)
            rare = RARE[: 1 + (not (seed + 1) % setting.rarely)] if number == 0 else ()
            found = evaluate(given, calibrators=[], metrics=(*USUAL, *rare), **how)
            (arm,) = found.arms
            _add(errors, _ends(arm.metrics, cell))
            errors["mce"].setdefault("truth", []).append(_largest_in(given, gaps))
            if number == 0:
                (arm_centred,) = evaluate(given, calibrators=[], intervals="centred", **how).arms
                _add(centred, _ends(arm_centred.metrics, cell))
            _add(parts, {part.name: {"p": part.adjusted_p} for part in arm.parts})
            words.append(found.verdict.direction)
        return {"errors": errors, "centred": centred, "parts": parts, "words": words}

    def _how(self, rng: np.random.Generator) -> dict[str, Any]:
        setting = self.setting
        return {
            "bootstrap": setting.resamples,
            "null_draws": setting.num_draws,
            "num_bins": setting.num_bins,
            "level": setting.level,
            "seed": int(rng.integers(1 << 30)),
        }

    def _compared(self, cell: Cell, _seed: int, rng: np.random.Generator) -> dict[str, Any]:
        found = Lists()
        for _ in range(self.setting.changed_sets):
            logits, labels = populations.normal((cell.samples, cell.classes), self.setting.spread, rng)
            known = logits if cell.model is None else populations.coarser(logits, rng)
            both = ((logits, cell.scale), (known, cell.after))
            both = [populations.stated(each, labels, scale or 1.0) for each, scale in both]
            (_, after) = compare([("before", both[0]), ("after", both[1])], **self._how(rng)).models
            _add(found, _ends(after.difference, cell))
        return {"errors": found}

    def result(self, cell: Cell, batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Shares of the sets of a cell that were covered or raised an alarm."""
        truth, errors = self.truth(cell)["errors"], dict[str, Any]()
        for key, lists in _errors_in(batches):
            told = {"without_chance": _mean(lists["without_chance"]), "real": _mean(lists["low"] > 0)}
            own = {"centred": centred(batches, key, truth[key])}
            errors[key] = {**counted(lists, truth[key]), **told, **own}
        fails = {
            name: [beyond_chance(p, self.setting.level) for p in _lists(batches, "parts", name)["p"]]
            for name in batches[0]["parts"]
        }
        said = [word for batch in batches for word in batch["words"]]
        return {
            **{name: getattr(cell, name) for name in ("classes", "samples", "scale", "file", "stated")},
            "sets": len(said),
            "errors": errors,
            "verdict": {
                "alarms": _mean(np.any(list(fails.values()), axis=0)),
                "parts": {name: _mean(each) for name, each in fails.items()},
                "words": {word: said.count(word) / len(said) for word in sorted(set(said))},
            },
        }

    def result_of_change(self, cell: Cell, batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Shares of the differences of a cell that were covered."""
        before = self.truth(replace(cell, after=None, model=None))["errors"]
        after = self.truth(replace(cell, scale=cell.after, after=None))["errors"]
        errors: dict[str, Any] = {}
        for key, lists in _errors_in(batches):
            clear = (lists["low"] > 0) | (lists["high"] < 0)
            errors[key] = {**counted(lists, after[key] - before[key]), "clear": _mean(clear)}
        place = {"classes": cell.classes, "samples": cell.samples, "before": cell.scale, "after": cell.after}
        return {**place, "model": cell.model, "errors": errors}


@cache
def fingerprint(setting: Setting) -> str:
    """The code of today and the setting, in twelve letters."""
    package = Path(calibrant.__file__).parent
    files = [file for folder in JUDGES for file in sorted((package / folder).rglob("*.py"))]
    read = (file.read_bytes() for file in files)
    return hashlib.sha256(b"".join((*read, repr(setting).encode()))).hexdigest()[:12]


def _ends(found: Mapping[str, Any], cell: Cell) -> dict[str, dict[str, float]]:
    """Errors with intervals, in the form shown first: of two classes that of the positive one, if any."""
    keys = [key for key in TITLES if key in found and (cell.classes > 2 or key != "classwise_ece")]
    ends = {key: vars(found.get(f"event_{key}", found[key])) for key in keys}
    names = ("value", "low", "high", "without_chance")
    return {key: {name: of[name] for name in names if of[name] is not None} for key, of in ends.items()}


def _largest_in(given: Predictions, gaps: Vector) -> float:
    """The largest true gap of the top label in those bins that hold samples of a set."""
    probs = given.probs.double()
    top = probs.amax(1) if probs.ndim == 2 else torch.maximum(probs, 1 - probs)
    return float(np.abs(gaps)[width_bins(top.numpy(), len(gaps))].max())


def _add(lists: Lists, found: Mapping[str, Mapping[str, float]]) -> None:
    for key, numbers in found.items():
        for name, value in numbers.items():
            lists.setdefault(key, {}).setdefault(name, []).append(rounded(value, 6))


def _errors_in(batches: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, dict[str, Vector]]]:
    for key in TITLES:
        if any(key in batch["errors"] for batch in batches):
            yield key, _lists(batches, "errors", key)


def _lists(batches: Sequence[Mapping[str, Any]], where: str, key: str) -> dict[str, Vector]:
    """The numbers of all batches, one after the other."""
    known = [batch[where][key] for batch in batches if key in batch[where]]
    return {name: np.concatenate([each[name] for each in known]) for name in known[0]}


def _mean(values: Any) -> float:
    return round(float(np.mean(values)), 8)


def counted(lists: Mapping[str, Vector], truth: float) -> dict[str, Any]:
    """Which share of intervals covers, lies above and lies below the truth; ends may be rounded.

    The largest gap is that of the bins that hold samples, so that its truth is another for each set.
    """
    low, high = lists["low"], lists["high"]
    true = lists.get("truth", np.full(len(low), truth))
    above, below = low > true + 1e-9, high < true - 1e-9
    return {
        "sets": len(low),
        "covered": _mean(~(above | below)),
        "above": _mean(above),
        "below": _mean(below),
        "width": _mean(high - low),
        "value": _mean(lists["value"]),
        "truth": _mean(true),
    }


def centred(batches: Sequence[Mapping[str, Any]], key: str, truth: float) -> dict[str, Any] | None:
    """The centred bootstrap on the first set of each batch, and the width of the other interval there."""
    if key not in batches[0]["centred"]:
        return None
    lists = _lists(batches, "centred", key)
    first = [{name: values[0] for name, values in batch["errors"][key].items()} for batch in batches]
    true = {"truth": np.array([each["truth"] for each in first])} if key == "mce" else {}
    found = counted({**lists, **true}, truth)
    width = _mean([each["high"] - each["low"] for each in first])
    return {**{name: found[name] for name in ("sets", "covered", "width")}, "inverted_width": width}
