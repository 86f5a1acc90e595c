"""What the records of the calibrator study show: one value for each division of each file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, TypeAlias

from calibrant._math.means import rounded
from papers.calibrators.settings import (
    COMPARED,
    FOCAL,
    MEASURES,
    PLAIN,
    RIVALS,
)
from papers.records import Record

Numbers: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One calibrator on one division of one file.

    Attributes:
        measures: Means over all samples, each judged by a fit to the half without it; None where infinite.
        changed: Share of samples whose most probable class (of yes-or-no labels: decision) is another one.
        seconds: Processor time of a fit, on one thread.
    """

    file: str
    kind: str
    num_samples: int
    num_classes: int
    seed: int
    calibrator: str
    measures: Mapping[str, float | None]
    changed: float | None
    seconds: float | None
    failure: str | None = None


def numbers_of(
    records: Sequence[Record], seeds: Sequence[int], versions: Mapping[str, str]
) -> dict[str, Any]:
    """The results file, of those of the divisions that are complete."""
    trials: dict[str, list[tuple[Trial, Record]]] = {}
    for record in records:
        if "trial" in record and record["trial"]["seed"] in seeds:
            trials.setdefault(record["trial"]["file"], []).append((Trial(**record["trial"]), record["draws"]))
    files = {name: _file(_complete(found)) for name, found in trials.items()}
    last = {record["file"]: record for record in records if "refits" in record}
    return {
        "divisions": min(len(each["seeds"]) for each in files.values()),
        "files": files,
        "exponent": {name: _exponent(record) for name, record in last.items()},
        "versions": dict(versions),
    }


def _complete(found: Sequence[tuple[Trial, Record]]) -> list[tuple[Trial, Record]]:
    """Without the divisions that lack a calibrator."""
    seeds = [trial.seed for trial, _ in found]
    whole = max(seeds.count(seed) for seed in set(seeds))
    return [each for each in found if seeds.count(each[0].seed) == whole]


def _file(found: Sequence[tuple[Trial, Record]]) -> dict[str, Any]:
    first = found[0][0]
    by_name: dict[str, list[tuple[Trial, Record]]] = {}
    for trial, draws in sorted(found, key=lambda each: each[0].seed):
        by_name.setdefault(trial.calibrator, []).append((trial, draws))
    means = {name: _mean_draws([draws for _, draws in group]) for name, group in by_name.items()}
    pairs = [(PLAIN, name) for name in by_name if name != PLAIN]
    pairs += [(FOCAL, name) for name in RIVALS if name in by_name]
    return {
        "kind": first.kind,
        "num_samples": first.num_samples,
        "num_classes": first.num_classes,
        "seeds": sorted({trial.seed for trial, _ in found}),
        "calibrators": {name: _calibrator([trial for trial, _ in group]) for name, group in by_name.items()},
        "errors": {pair_name(one, other): _errors(means[one], means[other]) for one, other in pairs},
    }


def _calibrator(trials: Sequence[Trial]) -> dict[str, Any]:
    """Values division by division; what failed has none."""
    fitted = [trial for trial in trials if trial.failure is None]
    seconds = [trial.seconds for trial in fitted if trial.seconds is not None]
    changed = [trial.changed for trial in fitted if trial.changed is not None]
    return {
        "measures": {
            name: [rounded(trial.measures[name]) for trial in fitted]
            for name in MEASURES
            if any(name in trial.measures for trial in fitted)
        },
        "changed": rounded(fmean(changed)) if changed else 0.0,
        "seconds": rounded(fmean(seconds)) if seconds else None,
        "failures": len(trials) - len(fitted),
    }


def _mean_draws(draws: Sequence[Record]) -> dict[str, list[float] | None]:
    """Each resample's measures, as means over the divisions; None where one is infinite or a fit failed."""
    found: dict[str, list[float] | None] = {}
    for name in COMPARED:
        each = [one.get(name) for one in draws]
        known = [values for values in each if values is not None]
        whole = len(known) == len(each)
        found[name] = [fmean(values) for values in zip(*known, strict=True)] if whole else None
    return found


def _errors(
    one: Mapping[str, list[float] | None], other: Mapping[str, list[float] | None]
) -> dict[str, float | None]:
    """Standard errors of the difference of two calibrators' measures, paired by resample."""
    found: dict[str, float | None] = {}
    for name in COMPARED:
        first, second = one[name], other[name]
        found[name] = (
            None
            if first is None or second is None
            else rounded(stdev(a - b for a, b in zip(first, second, strict=True)))
        )
    return found


def pair_name(one: str, other: str) -> str:
    """Two calibrators in the results file, in either order."""
    return " | ".join(sorted((one, other)))


def _exponent(record: Record) -> dict[str, Any]:
    return {
        "refits": len(record["refits"]["gains"]["nll"]),
        "refit_errors": _refit_errors(record),
        "rows": {name: rounded(value) for name, value in record["rows"].items()},
        "floors": [
            {
                "floor": each["floor"],
                "over": {
                    other: {
                        by: {
                            "before": rounded(found["before"]),
                            "gain": rounded(fmean(found["gains"])),
                            "error": rounded(found["error"]),
                        }
                        for by, found in measures.items()
                    }
                    for other, measures in each["over"].items()
                },
                **({"refit_errors": _refit_errors(each)} if "refits" in each else {}),
            }
            for each in record["floors"]
        ],
    }


def _refit_errors(record: Record) -> dict[str, float | None]:
    return {name: rounded(stdev(values)) for name, values in record["refits"]["gains"].items()}


def multiclass(numbers: Numbers) -> dict[str, Any]:
    """The files of one class a sample among several."""
    return {name: each for name, each in numbers["files"].items() if each["kind"] == "multiclass"}


def exchanged(numbers: Numbers, first: str, second: str) -> dict[str, Any]:
    """The numbers with the results of two calibrators exchanged."""
    partner = {first: second, second: first}

    def turned(name: str) -> str:
        return partner.get(name, name)

    files: dict[str, Any] = {}
    for file, found in numbers["files"].items():
        calibrators = found["calibrators"]
        errors = {
            pair_name(*(turned(each) for each in pair.split(" | "))): values
            for pair, values in found["errors"].items()
        }
        files[file] = {
            **found,
            "calibrators": {name: calibrators.get(turned(name), calibrators[name]) for name in calibrators},
            "errors": {**found["errors"], **errors},
        }
    return {**numbers, "files": files, "exponent": _turned_floors(numbers["exponent"], {first, second})}


def _turned_floors(exponent: Mapping[str, Any], pair: set[str]) -> dict[str, Any]:
    """With the gains of focal temperature scaling over the other of the pair the other way round."""
    found: dict[str, Any] = {}
    for name, each in exponent.items():
        floors = [
            {
                **floor,
                "over": {
                    other: {
                        by: {**values, "gain": -values["gain"]} if pair == {FOCAL, other} else values
                        for by, values in measures.items()
                    }
                    for other, measures in floor["over"].items()
                },
            }
            for floor in each["floors"]
        ]
        found[name] = {**each, "floors": floors}
    return found


def means_of(found: Mapping[str, Any], calibrator: str) -> dict[str, float | None]:
    """A calibrator's measures on one file, as means over the divisions; None where one is infinite."""
    measures = found["calibrators"].get(calibrator, {"measures": {}})["measures"]
    return {name: _mean(values) for name, values in measures.items()}


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known and len(known) == len(values) else None
