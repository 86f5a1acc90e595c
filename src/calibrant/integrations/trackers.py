"""Evaluations in experiment trackers: MLflow, Weights & Biases, TensorBoard, Neptune."""

from __future__ import annotations

import math
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from matplotlib.image import imread

from calibrant._math.errors import InputError
from calibrant._math.files import write_text
from calibrant._math.text_form import named
from calibrant.calibrators import Calibrator, GroupCalibrator
from calibrant.evaluation.result import Evaluation
from calibrant.reports import figures, tables, write_report
from calibrant.reports.exports import markdown_text


@dataclass(frozen=True, kw_only=True)
class _Content:
    """Content to log, for every tracker; metrics have their full names."""

    prefix: str
    step: int | None
    metrics: Mapping[str, float]
    verdict: str
    summary: str
    folder: Path
    """Holds all files."""

    def named_files(self) -> Iterator[tuple[str, Path]]:
        for path in sorted(self.folder.iterdir()):
            yield f"{self.prefix}/{path.name}", path


def log_evaluation(
    evaluation: Evaluation,
    to: object,
    *,
    calibrator: Calibrator | GroupCalibrator | None = None,
    files: bool = True,
    prefix: str = "calibration",
    step: int | None = None,
) -> None:
    """Log an evaluation to an experiment tracker: numbers, diagrams, report and calibrator.

    Metrics are called ``calibration/before/ece`` or, after the recommended repair, ``calibration/after/ece``.
    Ends of intervals are ``ece_low`` and ``ece_high``, noise floors ``ece_noise_floor``. Files are the
    report, the evaluation as JSON, reliability diagrams, a summary in Markdown and the calibrator.

    Args:
        evaluation: Result of :func:`calibrant.evaluate`.
        to: The module ``mlflow``, a run of wandb or Neptune, or a ``SummaryWriter`` of TensorBoard; anything
            that takes ``to["name"] = value`` works as Neptune's does. Or a name: ``"mlflow"`` and ``"wandb"``
            for the active run, ``"tensorboard"`` for a new writer in the folder ``runs``.
        calibrator: The fitted calibrator to keep, such as one that :func:`calibrant.fit` returned; by default
            the recommended one, if the evaluation has it.
        files: Whether to log files; they take seconds, which is much for every epoch.
        prefix: Prefix of the names of metrics and files.
        step: The epoch or step; files of an earlier one are replaced.

    Raises:
        InputError: If there is no tracker of that name, or no active run of wandb.
        TypeError: If ``to`` is none of these.
        ImportError: If a library is named and not installed.

    Note:
        A metric that is infinite or undefined is left out. In TensorBoard, files lie in the writer's folder.

    Example:
        >>> import numpy as np
        >>> from calibrant import Predictions, evaluate
        >>> rng = np.random.default_rng(0)
        >>> log_odds = rng.normal(size=400)
        >>> labels = rng.random(400) < 1 / (1 + np.exp(-log_odds))
        >>> found = evaluate(Predictions(logits=3 * log_odds, labels=labels), calibrators=[], bootstrap=50)
        >>> run = {}
        >>> log_evaluation(found, run, files=False)
        >>> run["calibration/before/ece_low"] < run["calibration/before/ece_high"]
        True
        >>> print(run["calibration/verdict"])
        Overconfident: ...
    """
    if isinstance(to, str):
        to = named(to, _BY_NAME, "tracker")()
    send = next((send for fits, send in _TRACKERS if fits(to)), None)
    if send is None:
        raise TypeError(
            "`to` must be the module mlflow, a run of wandb or Neptune, a SummaryWriter, or a name; got "
            f"{type(to).__name__}."
        )
    summary = markdown_text(evaluation)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if files:
            _write_files(evaluation, calibrator, summary, folder)
        content = _Content(
            prefix=prefix,
            step=step,
            metrics={f"{prefix}/{name}": value for name, value in _numbers(evaluation)},
            verdict=evaluation.verdict.short or evaluation.verdict.headline,
            summary=summary,
            folder=folder,
        )
        send(to, content)


def _numbers(evaluation: Evaluation) -> Iterator[tuple[str, float]]:
    for when, arm in zip(("before", "after"), tables.before_and_after(evaluation), strict=False):
        found: dict[str, float | None] = {f"{null.metric}_noise_floor": null.upper for null in arm.null}
        for key, each in arm.metrics.items():
            found |= {key: each.value, f"{key}_low": each.low, f"{key}_high": each.high}
        for name, value in found.items():
            if value is not None and math.isfinite(value):
                yield f"{when}/{name}", float(value)


def _write_files(
    evaluation: Evaluation, calibrator: Calibrator | GroupCalibrator | None, summary: str, folder: Path
) -> None:
    arms = tables.before_and_after(evaluation)
    write_report(evaluation, folder / "report.html")
    write_text(folder / "evaluation.json", evaluation.to_json() + "\n")
    write_text(folder / "summary.md", summary)
    for when, arm in zip(("before", "after"), arms, strict=False):
        for curve in tables.whole_curves(arm, evaluation.kind):
            figure: Any = figures.reliability_diagram(curve).figure
            name = f"reliability-{curve.name.replace(' ', '-')}-{when}.png"
            figure.savefig(folder / name, dpi=150, bbox_inches="tight")
    fitted = arms[-1].fitted if calibrator is None else calibrator
    if fitted is not None:
        fitted.save(folder / "calibrator.safetensors")


def _to_tensorboard(writer: Any, content: _Content) -> None:
    for name, value in content.metrics.items():
        writer.add_scalar(name, value, content.step)
    writer.add_text(f"{content.prefix}/summary", content.summary, content.step)
    for name, path in content.named_files():
        if path.suffix == ".png":
            writer.add_image(name, imread(path)[..., :3], content.step, dataformats="HWC")
    shutil.copytree(content.folder, Path(writer.log_dir) / content.prefix, dirs_exist_ok=True)
    writer.flush()


def _to_mlflow(mlflow: Any, content: _Content) -> None:
    mlflow.log_metrics(dict(content.metrics), step=content.step)
    mlflow.set_tag(f"{content.prefix}/verdict", content.verdict)
    mlflow.log_artifacts(str(content.folder), artifact_path=content.prefix)


def _to_wandb(run: Any, content: _Content) -> None:
    values: dict[str, Any] = dict(content.metrics)
    wandb: Any = sys.modules.get("wandb")  # there, as its run is
    kept = Path(run.dir) / content.prefix
    shutil.copytree(content.folder, kept, dirs_exist_ok=True)
    for name, path in content.named_files():
        run.save(str(kept / path.name), base_path=run.dir, policy="now")
        if wandb is not None and path.suffix == ".png":
            values[name] = wandb.Image(str(path))
        elif wandb is not None and path.suffix == ".html":
            values[name] = wandb.Html(path.read_text(encoding="utf-8"))
    run.log(values, step=content.step)
    run.summary[f"{content.prefix}/verdict"] = content.verdict


def _to_fields(run: Any, content: _Content) -> None:
    """Log to Neptune by ``append`` and ``upload``, or to any mapping as numbers, text and bytes."""
    for name, value in content.metrics.items():
        append = None if content.step is None else getattr(_field(run, name), "append", None)
        if append is None:
            run[name] = value
        else:
            append(value, step=content.step)
    run[f"{content.prefix}/verdict"] = content.verdict
    for name, path in content.named_files():
        upload = getattr(_field(run, name), "upload", None)
        if upload is None:
            run[name] = path.read_bytes()
        else:
            upload(str(path), wait=True)  # as the file is gone afterwards


def _field(run: Any, name: str) -> object:
    try:
        return run[name]
    except KeyError:
        return None


def _with(*names: str) -> Callable[[object], bool]:
    return lambda to: all(hasattr(to, name) for name in names)


_TRACKERS: tuple[tuple[Callable[[object], bool], Callable[[Any, _Content], None]], ...] = (
    (_with("add_scalar", "add_text", "add_image", "log_dir"), _to_tensorboard),
    (_with("log_metrics", "log_artifacts", "set_tag"), _to_mlflow),
    (_with("log", "save", "summary", "dir"), _to_wandb),
    (_with("__setitem__", "__getitem__"), _to_fields),
)
"""Attributes that identify each tracker; the first match is used."""


def _active_run() -> object:
    run = import_module("wandb").run
    if run is None:
        raise InputError("wandb has no active run; start one with `wandb.init()`.")
    return run


_BY_NAME: Mapping[str, Callable[[], object]] = {
    "mlflow": lambda: import_module("mlflow"),
    "wandb": _active_run,
    "tensorboard": lambda: import_module("torch.utils.tensorboard.writer").SummaryWriter(),
}
