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
import pandas as pd

import calibrant
from calibrant._math.means import rounded
from calibrant._math.scores import top_label
from calibrant.evaluation import compare, evaluate
from calibrant.evaluation.resampling.events import width_bins
from calibrant.evaluation.resampling.intervals import beyond_chance
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
Rows = list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Setting:
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
        return ", ".join(f"{name} {value}" for name, value in vars(self).items() if value is not None)

    @property
    def calibrated(self) -> bool:
        return self.after is None and (self.scale == 1 or self.stated == "the truth")


@dataclass(frozen=True)
class Study:
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
        errors, centred, parts, words = Rows(), Rows(), Rows(), list[str]()
        for number in range(setting.sets * (2 if cell.calibrated else 1)):
            if cell.file and cell.stated:
                given = self.population(cell.file, cell.stated).draw(cell.samples, rng)
            else:
                drawn = populations.normal((cell.samples, cell.classes), setting.spread, rng)
                given = populations.stated(*drawn, cell.scale or 1.0)
            tops = top_label(given.probs.double(), given.labels).confidence.numpy()
            largest = float(np.abs(gaps)[width_bins(tops, len(gaps))].max())
            how, more = self._how(rng), {"set": number, "largest": largest}
            rare = RARE[: 1 + (not (seed + 1) % setting.rarely)] if number == 0 else ()
            found = evaluate(given, calibrators=[], metrics=(*USUAL, *rare), **how)
            (arm,) = found.arms
            errors += _ends(arm.metrics, cell, **more)
            if number == 0:
                (arm_centred,) = evaluate(given, calibrators=[], intervals="centred", **how).arms
                centred += _ends(arm_centred.metrics, cell, **more)
            parts.append({part.name: rounded(part.adjusted_p, 6) for part in arm.parts})
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
        found = Rows()
        for _ in range(self.setting.changed_sets):
            logits, labels = populations.normal((cell.samples, cell.classes), self.setting.spread, rng)
            known = logits if cell.model is None else populations.coarser(logits, rng)
            both = ((logits, cell.scale), (known, cell.after))
            both = [populations.stated(each, labels, scale or 1.0) for each, scale in both]
            (_, after) = compare([("before", both[0]), ("after", both[1])], **self._how(rng)).models
            found += _ends(after.difference, cell)
        return {"errors": found}

    def result(self, cell: Cell, batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Shares of the sets of a cell that were covered or raised an alarm."""
        truth, errors = self.truth(cell)["errors"], dict[str, Any]()
        own = _by_error(batches, "centred")
        for key, of in _by_error(batches, "errors").items():
            told = {"without_chance": _mean(of.without_chance), "real": _mean(of.low > 0)}
            bootstrap = centred(of, own[key], truth[key]) if key in own else None
            errors[key] = {**counted(of, truth[key]), **told, "centred": bootstrap}
        parts = pd.DataFrame(part for batch in batches for part in batch["parts"])
        fails = parts.map(lambda p: beyond_chance(p, self.setting.level))
        said = [word for batch in batches for word in batch["words"]]
        return {
            **{name: getattr(cell, name) for name in ("classes", "samples", "scale", "file", "stated")},
            "sets": len(said),
            "errors": errors,
            "verdict": {
                "alarms": _mean(fails.any(axis=1)),
                "parts": {name: _mean(of) for name, of in fails.items()},
                "words": {word: said.count(word) / len(said) for word in sorted(set(said))},
            },
        }

    def result_of_change(self, cell: Cell, batches: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Shares of the differences of a cell that were covered."""
        before = self.truth(replace(cell, after=None, model=None))["errors"]
        after = self.truth(replace(cell, scale=cell.after, after=None))["errors"]
        errors = {
            key: {**counted(of, after[key] - before[key]), "clear": _mean((of.low > 0) | (of.high < 0))}
            for key, of in _by_error(batches, "errors").items()
        }
        place = {"classes": cell.classes, "samples": cell.samples, "before": cell.scale, "after": cell.after}
        return {**place, "model": cell.model, "errors": errors}


@cache
def fingerprint(setting: Setting) -> str:
    """The code of today and the setting, in twelve letters."""
    package = Path(calibrant.__file__).parent
    files = [file for folder in JUDGES for file in sorted((package / folder).rglob("*.py"))]
    read = (file.read_bytes() for file in files)
    return hashlib.sha256(b"".join((*read, repr(setting).encode()))).hexdigest()[:12]


def _ends(found: Mapping[str, Any], cell: Cell, *, largest: float | None = None, **more: Any) -> Rows:
    """Errors with intervals, in the form shown first: of two classes that of the positive one, if any.

    The truth of MCE is the largest true gap in the bins that hold samples of a set.
    """
    keys = [key for key in TITLES if key in found and (cell.classes > 2 or key != "classwise_ece")]
    ends = {key: found.get(f"event_{key}", found[key]) for key in keys}
    names = ("value", "low", "high", "without_chance")
    return [
        {"error": key, **{name: rounded(getattr(of, name), 6) for name in names}}
        | {"truth": largest if key == "mce" else None, **more}
        for key, of in ends.items()
    ]


def _by_error(batches: Sequence[Mapping[str, Any]], what: str) -> dict[str, pd.DataFrame]:
    """The rows of all batches, by error in the order of the page."""
    rows = pd.DataFrame(row for batch in batches for row in batch[what])
    found = dict(list(rows.groupby("error")))
    return {key: found[key] for key in TITLES if key in found}


def _mean(values: Any) -> float:
    return round(float(np.mean(values)), 8)


def counted(of: pd.DataFrame, truth: float) -> dict[str, Any]:
    """Shares of intervals that cover, lie above and below the truth, or a set's own; ends may be rounded."""
    true = of.truth.astype(float).fillna(truth)
    above, below = of.low > true + 1e-9, of.high < true - 1e-9
    return {
        "sets": len(of),
        "covered": _mean(~(above | below)),
        "above": _mean(above),
        "below": _mean(below),
        "width": _mean(of.high - of.low),
        "value": _mean(of.value),
        "truth": _mean(true),
    }


def centred(of: pd.DataFrame, own: pd.DataFrame, truth: float) -> dict[str, Any]:
    """The centred bootstrap on the first set of each batch, and the width of the other interval there."""
    found, first = counted(own, truth), of[of["set"] == 0]
    width = _mean(first.high - first.low)
    return {**{name: found[name] for name in ("sets", "covered", "width")}, "inverted_width": width}
