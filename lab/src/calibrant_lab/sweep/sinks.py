"""Export runs to experiment trackers, each by its own library."""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from calibrant._math.errors import InputError
from calibrant._math.text_form import named
from calibrant_lab.sweep.tasks.task import RunResult

__all__ = ["SINKS", "export"]

_PROJECT = "calibrant"
_TAG = "calibrant.run"
_LONGEST = 500  # characters of a parameter of MLflow
_METRICS, _PARAMETERS = 900, 90  # how many of them MLflow takes at once

Send: TypeAlias = Callable[[RunResult], bool]  # writes a run; False if an earlier export wrote it


def export(target: str, results: Iterable[RunResult]) -> int:
    """Send results to ``tensorboard:DIR``, ``mlflow:URI`` or ``wandb:DIR``; return how many were new."""
    name, colon, place = target.partition(":")
    if not colon or not place:
        raise InputError(f"--export must be NAME:PLACE, as in tensorboard:logs; got {target!r}.")
    try:
        send = named(name, SINKS, "sink")(place)
    except ImportError as error:
        raise InputError(f"{name} is not installed; pip install 'calibrant[{name}]' ({error}).") from error
    return sum(map(send, results))


def _tensorboard(target: str) -> Send:
    """Write a folder of event files per run, for ``tensorboard --logdir``."""
    writers: Any = import_module("torch.utils.tensorboard.writer")

    def send(result: RunResult) -> bool:
        folder = Path(target) / result.run
        if any(folder.glob("events.*")):
            return False
        with writers.SummaryWriter(str(folder)) as writer:
            time, steps = _ended(result), _with_finals(result)
            for step, values in steps:
                for name, value in values.items():
                    writer.add_scalar(name, value, step, walltime=time)
            rows = "\n".join(f"| {key} | {value} |" for key, value in result.settings.items())
            about = f"{_label(result)}: {result.status}" + (f", {result.reason}" if result.reason else "")
            text = f"{about}\n\n| setting | value |\n|---|---|\n{rows}"
            writer.add_text("run", text, steps[-1][0], walltime=time)
        return True

    return send


def _mlflow(target: str) -> Send:
    """Write a run in the experiment ``calibrant`` of a tracking server, a database or a folder."""
    entities: Any = import_module("mlflow.entities")
    tracking: Any = import_module("mlflow.tracking")
    client: Any = tracking.MlflowClient(tracking_uri=target)
    known = client.get_experiment_by_name(_PROJECT)
    experiment = known.experiment_id if known else client.create_experiment(_PROJECT)

    def send(result: RunResult) -> bool:
        if client.search_runs([experiment], filter_string=f"tags.`{_TAG}` = '{result.run}'", max_results=1):
            return False
        time = int(1000 * _ended(result))
        begun = time - int(1000 * result.wall_seconds)
        run = client.create_run(experiment, start_time=begun, run_name=_label(result)).info.run_id
        metrics = [
            entities.Metric(name, value, time, step)
            for step, values in _with_finals(result)
            for name, value in values.items()
        ]
        params = [entities.Param(key, str(value)[:_LONGEST]) for key, value in result.settings.items()]
        for kind, entries, most in (("metrics", metrics, _METRICS), ("params", params, _PARAMETERS)):
            for start in range(0, len(entries), most):
                client.log_batch(run, **{kind: entries[start : start + most]})
        # The tag by which it is known comes last: what was cut off is written again.
        tags = {_TAG: result.run, "status": result.status, "reason": result.reason or ""}
        client.log_batch(run, tags=[entities.RunTag(key, value) for key, value in tags.items()])
        client.set_terminated(run, "FINISHED" if result.status == "finished" else "FAILED", end_time=time)
        return True

    return send


def _wandb(target: str) -> Send:
    """Write offline runs to a folder, for upload by ``wandb sync``."""
    tracker: Any = import_module("wandb")
    folder = Path(target)
    folder.mkdir(parents=True, exist_ok=True)

    def send(result: RunResult) -> bool:
        if any(folder.glob(f"wandb/offline-run-*-{result.run}")):
            return False
        run = tracker.init(
            project=_PROJECT,
            id=result.run,
            name=_label(result),
            dir=str(folder),
            mode="offline",
            config=dict(result.settings),
            tags=[result.status],
            settings=tracker.Settings(silent=True, disable_git=True, x_disable_stats=True),
        )
        for step, values in curves(result):
            run.log(values, step=step)
        run.summary.update({**finals(result), "status": result.status, "reason": result.reason})
        run.finish(exit_code=0 if result.status == "finished" else 1)
        return True

    return send


SINKS: Mapping[str, Callable[[str], Send]] = {"tensorboard": _tensorboard, "mlflow": _mlflow, "wandb": _wandb}
"""Writers by name; each takes its target."""


def curves(result: RunResult) -> Iterator[tuple[int, dict[str, float]]]:
    for place, row in enumerate(result.rows, 1):
        yield int(row.get("epoch", place)), _numbers(row)


def finals(result: RunResult) -> dict[str, float]:
    """Return the test split's numbers by stage and name, fitted parameters, and the time."""
    spent = {"spent/wall_seconds": result.wall_seconds, "spent/cpu_seconds": result.cpu_seconds}
    return _numbers(result.metrics, "test/") | _numbers(result.parameters, "fitted/") | spent


def _with_finals(result: RunResult) -> list[tuple[int, dict[str, float]]]:
    steps = [*curves(result)]
    return [*steps, (steps[-1][0] if steps else 0, finals(result))]


def _numbers(content: Mapping[str, Any], before: str = "") -> dict[str, float]:
    """Return every finite number of nested tables, by path in letters that trackers allow."""
    found: dict[str, float] = {}
    for name, value in content.items():
        path = before + re.sub(r"[^\w.-]+", "-", name).strip("-")
        if isinstance(value, Mapping):
            found |= _numbers(value, f"{path}/")
        elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            found[path] = float(value)
    return found


def _label(result: RunResult) -> str:
    return " ".join(f"{key}={value}" for key, value in result.axes.items()) or result.run


def _ended(result: RunResult) -> float:
    return datetime.datetime.fromisoformat(result.ended).timestamp()
