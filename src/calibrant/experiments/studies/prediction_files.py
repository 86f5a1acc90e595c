"""Every file of predictions in a folder, judged as it came: one row each."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant.evaluation.judging.measure import measure, nulls_and_curves
from calibrant.evaluation.judging.reduce import Reduced, reduce_predictions
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.result import Direction, Estimate, Kind
from calibrant.evaluation.verdict.finding import find
from calibrant.evaluation.versions import versions
from calibrant.predictions import Predictions, load_predictions

ENDINGS = (".npz", ".csv", ".parquet", ".safetensors", ".pt")
METRICS = ("accuracy", "nll", "ece", "adaptive_ece", "classwise_ece", "smce", "slope")
OF_THE_EVENT = {"ece", "adaptive_ece", "smce", "slope"}  # where there is one positive class
TITLES = {
    "accuracy": "accuracy",
    "nll": "NLL",
    "ece": "ECE",
    "adaptive_ece": "AdaECE",
    "classwise_ece": "classwise",
    "smce": "smCE",
    "slope": "slope",
}
ABOUT = """\
Every file is judged as it came, on all its samples, whatever split it has. Errors are fractions, over
15 bins, of the top label; of the positive class in files of one event (binary), and means over the labels in
multilabel ones. *ECE by chance* is the mean, and in brackets the {level:.0%} quantile, of the ECE that a
perfectly calibrated model shows on as many samples ({draws} draws). Intervals are at {level:.0%}, from
{resamples} resamples. *smCE* is the exact smooth calibration error, *smECE* the kernel-smoothed one, another
quantity. *Slope* is that of the logistic recalibration line: 1 if calibrated, below 1 over-confident. A file
that holds only top-label confidences has no NLL and no classwise error. The verdict is that of
`calibrant evaluate` for these samples.
"""


@dataclass(frozen=True, kw_only=True)
class Row:
    """One file."""

    name: str
    kind: Kind
    num_samples: int
    num_classes: int | None
    metrics: dict[str, Estimate]
    smooth_ece: float
    null_mean: float
    null_upper: float
    p_value: float
    direction: Direction


@dataclass(frozen=True, kw_only=True)
class Table:
    """Every file that could be read, and why others were not."""

    rows: tuple[Row, ...]
    left_out: dict[str, str]
    level: float
    bootstrap: int
    null_draws: int
    seed: int


def judge_folder(
    folder: Path,
    *,
    bootstrap: int = 1000,
    null_draws: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Callable[[str, float], None] | None = None,
) -> Table:
    """One row for each file of predictions below ``folder``.

    Files that hold no predictions (images, texts) are passed over; one that holds predictions and is refused
    is named with the reason.

    Raises:
        InputError: If the folder holds no file of predictions.
    """
    tell = progress or (lambda _stage, _fraction: None)
    left_out: dict[str, str] = {}
    rows = [
        _row(name, predictions, bootstrap, null_draws, level, seed)
        for name, predictions in prediction_files(folder, left_out, tell)
    ]
    if not rows:
        raise InputError(f"{folder} holds no file of predictions ({', '.join(ENDINGS)}).")
    return Table(
        rows=tuple(rows),
        left_out=left_out,
        level=level,
        bootstrap=bootstrap,
        null_draws=null_draws,
        seed=seed,
    )


def prediction_files(
    folder: Path,
    left_out: dict[str, str] | None = None,
    tell: Callable[[str, float], None] = lambda _stage, _fraction: None,
) -> Iterator[tuple[str, Predictions]]:
    """Every file of predictions below a folder, by its name from there; why others are refused is noted."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in ENDINGS)
    for place, path in enumerate(paths):
        name = path.relative_to(folder).as_posix()
        tell(name, place / len(paths))
        try:
            predictions = _read(path)
        except InputError as error:
            if left_out is not None and "and no predictions" not in str(error):
                left_out[name] = str(error).removeprefix(f"{path}: ")
            continue
        if predictions is not None:
            yield name, predictions


def write_table(table: Table, folder: Path) -> tuple[Path, Path]:
    """``prediction-files.md`` and the same as ``.json``."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        folder / "prediction-files.md": markdown(table),
        folder / "prediction-files.json": json.dumps(asdict(table) | {"versions": versions()}, indent=1)
        + "\n",
    }
    for path, text in texts.items():
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    first, second = texts
    return first, second


def markdown(table: Table) -> str:
    """The table to read."""
    about = ABOUT.format(level=table.level, draws=table.null_draws, resamples=table.bootstrap)
    titles = ["file", "kind", "N", "C", *TITLES.values()]
    titles.insert(titles.index("ECE") + 1, "ECE by chance")
    titles.insert(titles.index("smCE") + 1, "smECE")
    titles.append("verdict")
    lines = [
        "# Prediction files, judged as they came",
        "",
        about,
        f"Made by `calibrant study predictions` (seed {table.seed}).",
        "",
        f"| {' | '.join(titles)} |",
        "|---|---|" + "---:|" * (len(titles) - 3) + "---|",
    ]
    lines += [f"| {' | '.join(_cells(row))} |" for row in table.rows]
    if table.left_out:
        lines += ["", "Left out:", ""]
        lines += [f"- `{name}`: {reason}" for name, reason in table.left_out.items()]
    return "\n".join(lines) + "\n"


def _read(path: Path) -> Predictions | None:
    """Predictions of a file; of its five largest probabilities, the largest; none of an archive of images."""
    if path.suffix == ".npz":
        with np.load(path, allow_pickle=False) as archive:
            if "top5_probs" in archive.files:
                return _largest_of_five(path, archive["top5_probs"], archive["top5_classes"])
            if not any(name.startswith(("logits", "probs", "confidence")) for name in archive.files):
                return None
    return load_predictions(path)


def _largest_of_five(path: Path, probs: Any, classes: Any) -> Predictions:
    """The confidence in the first of five classes; the labels stand beside them, by the data set's name."""
    with np.load(path.with_name("labels.npz"), allow_pickle=False) as archive:
        key = path.stem.rpartition("_")[2]
        if key not in archive.files:
            raise InputError(f"{path}: labels.npz holds no `{key}`.")
        correct = classes[:, 0] == archive[key]
    return Predictions(confidence=probs[:, 0], correct=correct)


def _row(
    name: str, predictions: Predictions, bootstrap: int, null_draws: int, level: float, seed: int
) -> Row:
    procedure = Procedure(
        kind=predictions.kind,
        num_bins=15,
        num_resamples=bootstrap,
        num_draws=null_draws,
        level=level,
        seed=seed,
    )
    reduced = reduce_predictions(predictions, 15)
    judged = measure(reduced, procedure)
    names = tuple(str(k) for k in range(predictions.num_classes or 0))
    nulls = nulls_and_curves(reduced, procedure, names)["null"]
    prefix = "event_" if predictions.kind == "binary" else ""
    null = next(each for each in nulls if each.metric == f"{prefix}ece")
    return Row(
        name=name,
        kind=predictions.kind,
        num_samples=predictions.num_samples,
        num_classes=predictions.num_classes,
        metrics={each: judged.metrics[prefix + each if each in OF_THE_EVENT else each] for each in METRICS},
        smooth_ece=_smooth_ece(reduced, prefix),
        null_mean=null.mean,
        null_upper=null.upper,
        p_value=null.p_value,
        direction=find(judged, nulls, level).direction,
    )


def _smooth_ece(reduced: Reduced, prefix: str) -> float:
    """The kernel-smoothed error, averaged over the events."""
    from calibrant.metrics import smooth_ece

    return math.fsum(
        smooth_ece(event.confidences, event.outcomes, weights=event.weights).item()
        for event in reduced.events[prefix]
    ) / len(reduced.events[prefix])


def _cells(row: Row) -> Iterator[str]:
    """A line of the table."""
    yield from (f"`{row.name}`", row.kind, f"{row.num_samples:,}", str(row.num_classes or "–"))
    for name in TITLES:
        estimate = row.metrics[name]
        digits = 3 if name in {"accuracy", "nll", "slope"} else 4
        if estimate.value is None:
            yield "∞" if (estimate.reason or "").startswith("infinite") else "–"
        elif name in {"ece", "slope"} and estimate.low is not None and estimate.high is not None:
            yield f"{estimate.value:.{digits}f} ({estimate.low:.{digits}f}–{estimate.high:.{digits}f})"
        else:
            yield f"{estimate.value:.{digits}f}"
        if name == "ece":
            yield f"{row.null_mean:.4f} ({row.null_upper:.4f})"
        elif name == "smce":
            yield f"{row.smooth_ece:.4f}"
    yield row.direction
