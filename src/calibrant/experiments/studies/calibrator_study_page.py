"""What the trials of the calibrator study show: tables and sentences, all from the numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from calibrant._math.files import write_text
from calibrant.evaluation.versions import versions
from calibrant.experiments.means import Mean, mean_of
from calibrant.experiments.studies.calibrator_study import (
    CRITERIA,
    FITTED_BY,
    MEASURES,
    Trial,
)

SHOWN = ("nll", "brier", "ece", "classwise", "smce", "accuracy")
TITLES = {
    "nll": "NLL",
    "brier": "Brier",
    "ece": "ECE",
    "adaptive_ece": "AdaECE",
    "classwise": "classwise",
    "smce": "smCE",
    "accuracy": "accuracy",
}
RIVALS = ("vector", "matrix", "structured-matrix")
ABOUT = """\
Each file's samples were divided into halves at random within each class, {seeds} times. Every calibrator was
fitted on one half and judged on the other. Means over the divisions, ± half the width of a 95 % interval
(Student's t). Divisions of one file share samples: the interval tells how far the division matters, not how
far another data set would differ. Errors are over 15 bins of equal width, of the top label; of the positive
class in files of one event, and means over the labels in multilabel ones. Nothing was chosen on the half that
judges. *Changed* is the share of samples whose decision is another one; *seconds* of processor time on one
thread. Histogram and scaling-binning leave probabilities as they came where even the Brier score of the half
they are fitted on would rise.
"""


@dataclass(frozen=True)
class Summary:
    """One calibrator on one file, over the divisions."""

    calibrator: str
    means: dict[str, Mean | None]
    """None where a value is infinite or missing in some division."""
    changed: float
    seconds: float | None
    failures: int


def write_pages(trials: Sequence[Trial], folder: Path) -> tuple[Path, Path]:
    """``calibrators.md`` and the means as ``calibrators.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    page, numbers = folder / "calibrators.md", folder / "calibrators.json"
    write_text(page, markdown(trials))
    content = {
        name: {each.calibrator: asdict(each) for each in summaries(of_file)}
        for name, of_file in by_file(trials).items()
    }
    write_text(numbers, json.dumps({"files": content, "versions": versions()}, indent=1) + "\n")
    return page, numbers


def by_file(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """The trials of every file, of the divisions that are complete."""
    files: dict[str, list[Trial]] = {}
    for trial in trials:
        files.setdefault(trial.file, []).append(trial)
    for name, found in files.items():
        per_seed = {seed: sum(each.seed == seed for each in found) for seed in {each.seed for each in found}}
        whole = max(per_seed.values())
        files[name] = [each for each in found if per_seed[each.seed] == whole]
    return files


def summaries(trials: Sequence[Trial]) -> list[Summary]:
    """Of one file: every calibrator's means, in the order in which they were tried."""
    return [
        _summary(name, [trial for trial in trials if trial.calibrator == name])
        for name in dict.fromkeys(trial.calibrator for trial in trials)
    ]


def _summary(name: str, trials: Sequence[Trial]) -> Summary:
    fitted = [trial for trial in trials if trial.failure is None]
    means: dict[str, Mean | None] = {}
    for measure in MEASURES:
        values = [trial.measures.get(measure) for trial in fitted]
        known = [value for value in values if value is not None]
        means[measure] = mean_of(known) if known and len(known) == len(values) else None
    seconds = [trial.seconds for trial in fitted if trial.seconds is not None]
    changed = [trial.changed for trial in fitted if trial.changed is not None]
    return Summary(
        name,
        means,
        sum(changed) / len(changed) if changed else 0.0,
        sum(seconds) / len(seconds) if seconds else None,
        len(trials) - len(fitted),
    )


def gain(trials: Sequence[Trial], measure: str, first: str, second: str) -> Mean | None:
    """How much lower a measure is after the second calibrator than after the first, by divisions."""
    values = {(trial.seed, trial.calibrator): trial.measures.get(measure) for trial in trials}
    falls: list[float] = []
    for seed in sorted({trial.seed for trial in trials}):
        one, other = values.get((seed, first)), values.get((seed, second))
        if one is not None and other is not None:
            falls.append(one - other)
    return mean_of(falls) if falls else None


def markdown(trials: Sequence[Trial]) -> str:
    """The page."""
    files = by_file(trials)
    seeds = {len({trial.seed for trial in found}) for found in files.values()}
    told = str(seeds.pop()) if len(seeds) == 1 else f"{min(seeds)} to {max(seeds)}"
    lines = ["# Calibrators on real predictions", "", ABOUT.format(seeds=told)]
    lines += ["Made by `calibrant study calibrators --table docs/results`.", ""]
    lines += ["## Does the exponent of focal temperature scaling pay?", "", *_exponent(files), ""]
    lines += ["## Focal temperature scaling against vector and matrix scaling", "", *_rivals(files), ""]
    lines += ["## Fitted by one criterion, judged by another", "", *_criteria(files), ""]
    for name, found in files.items():
        first = found[0]
        lines += [f"## `{name}`", "", f"{first.kind}, N = {first.num_samples:,}, C = {first.num_classes}", ""]
        lines += [*_table(summaries(found)), ""]
    return "\n".join(lines)


def _exponent(files: dict[str, list[Trial]]) -> Iterator[str]:
    yield "How much lower each measure is than after temperature scaling, both fitted by NLL:"
    yield ""
    yield "| file | NLL | Brier | ECE | smCE |"
    yield "|---|---:|---:|---:|---:|"
    sides: dict[str, list[int]] = {}
    for name, found in files.items():
        cells: list[str] = []
        for measure in ("nll", "brier", "ece", "smce"):
            mean = gain(found, measure, "temperature", "focal-temperature")
            cells.append(_cell(mean, sign="+"))
            sides.setdefault(measure, []).append(_side(mean))
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield ""
    shares = {
        name: 100 * fall.value / before.value
        for name, found in files.items()
        if (fall := gain(found, "nll", "temperature", "focal-temperature")) is not None
        and (before := _mean(found, "temperature", "nll")) is not None
    }
    most = sorted(shares, key=lambda name: -shares[name])
    yield (
        f"As a share of the NLL it helps most on `{most[0]}` ({shares[most[0]]:+.1f} %), least on "
        f"`{most[-1]}` ({shares[most[-1]]:+.2f} %); on {sum(share < 1 for share in shares.values())} of "
        f"{len(shares)} files by less than one per cent."
    )
    for measure, signs in sides.items():
        yield (
            f"{TITLES[measure]} is lower beyond the interval on {signs.count(1)} of {len(signs)} files, "
            f"higher on {signs.count(-1)}, undecided on {signs.count(0)}."
        )


def _rivals(files: dict[str, list[Trial]]) -> Iterator[str]:
    yield "How much lower each one's NLL and ECE are than focal temperature scaling's (below zero: higher):"
    yield ""
    yield f"| file | {' | '.join(f'{name}: NLL | ECE' for name in RIVALS)} |"
    yield "|---|" + "---:|---:|" * len(RIVALS)
    wins: dict[str, list[int]] = {}
    for name, found in files.items():
        if found[0].kind != "multiclass":
            continue
        cells: list[str] = []
        for rival in RIVALS:
            for measure in ("nll", "ece"):
                mean = gain(found, measure, "focal-temperature", rival)
                cells.append(_cell(mean, sign="+"))
                wins.setdefault(f"{rival} {TITLES[measure]}", []).append(_side(mean))
        yield f"| `{name}` | {' | '.join(cells)} |"
    yield ""
    for what, signs in wins.items():
        yield (
            f"{what}: lower than focal temperature scaling's on {signs.count(1)} of {len(signs)} files, "
            f"higher on {signs.count(-1)}."
        )


def _criteria(files: dict[str, list[Trial]]) -> Iterator[str]:
    yield (
        "By how many per cent a measure changes if the calibrator is fitted by it instead of by NLL "
        "(below zero: it pays), mean over the divisions:"
    )
    for calibrator in FITTED_BY:
        yield ""
        titles = [f"by {TITLES[by]}" for by in CRITERIA[1:]]
        yield f"| {calibrator}; file | {' | '.join(titles)} | NLL, if by ECE |"
        yield "|---|" + "---:|" * len(CRITERIA)
        columns: list[list[float]] = [[] for _ in CRITERIA]
        for name, found in files.items():
            means = {each.calibrator: each.means for each in summaries(found)}
            pairs = [(by, f'{calibrator}(objective="{by}")') for by in CRITERIA[1:]]
            pairs.append(("nll", f'{calibrator}(objective="ece")'))
            cells: list[str] = []
            for column, (measure, text) in zip(columns, pairs, strict=True):
                before = means.get(calibrator, {}).get(measure)
                after = means.get(text, {}).get(measure)
                if before is None or after is None or before.value == 0:
                    cells.append("–")
                    continue
                column.append(100 * (after.value / before.value - 1))
                cells.append(f"{column[-1]:+.1f}")
            yield f"| `{name}` | {' | '.join(cells)} |"
        yield f"| mean | {' | '.join(_mean_of_column(column) for column in columns)} |"


def _mean(trials: Sequence[Trial], calibrator: str, measure: str) -> Mean | None:
    return next(each.means[measure] for each in summaries(trials) if each.calibrator == calibrator)


def _mean_of_column(column: Sequence[float]) -> str:
    if not column:
        return "–"
    mean = mean_of(column)
    return f"{mean.value:+.1f}" + ("" if mean.half_width is None else f" ± {mean.half_width:.1f}")


def _table(found: Sequence[Summary]) -> Iterator[str]:
    yield f"| calibrator | {' | '.join(TITLES[name] for name in SHOWN)} | changed | seconds |"
    yield "|---|" + "---:|" * (len(SHOWN) + 2)
    for each in sorted(found, key=_nll):
        cells = [_cell(each.means[name]) for name in SHOWN]
        seconds = "–" if each.seconds is None else f"{each.seconds:.3f}"
        failed = f" ({each.failures} failed)" if each.failures else ""
        yield f"| {each.calibrator}{failed} | {' | '.join(cells)} | {each.changed:.2%} | {seconds} |"


def _nll(each: Summary) -> float:
    mean = each.means["nll"]
    return math.inf if mean is None else mean.value


def _side(mean: Mean | None) -> int:
    """1 above zero beyond the interval, -1 below, else 0."""
    return 0 if mean is None else (mean.low > 0) - (mean.high < 0)


def _cell(mean: Mean | None, *, sign: str = "") -> str:
    if mean is None:
        return "–"
    return f"{mean.value:{sign}.4f}" + ("" if mean.half_width is None else f" ± {mean.half_width:.4f}")
