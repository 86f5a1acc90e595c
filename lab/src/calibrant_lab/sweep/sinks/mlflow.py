"""To MLflow: a run of its own for each, in the experiment ``calibrant``."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.sinks.content import PROJECT, curves, ended, finals, label, refuse

_TAG = "calibrant.run"
_LONGEST = 500
"""Characters of a parameter."""


def to_mlflow(target: str, results: Iterable[RunResult]) -> int:
    """Write runs to a tracking server, a database or a folder, as MLflow names them."""
    try:
        entities: Any = import_module("mlflow.entities")
        tracking: Any = import_module("mlflow.tracking")
    except ImportError as error:
        refuse("mlflow", error)
    client: Any = tracking.MlflowClient(tracking_uri=target)
    known = client.get_experiment_by_name(PROJECT)
    experiment = known.experiment_id if known else client.create_experiment(PROJECT)
    written = 0
    for result in results:
        if client.search_runs([experiment], filter_string=f"tags.`{_TAG}` = '{result.run}'", max_results=1):
            continue
        time = int(1000 * ended(result))
        start = time - int(1000 * result.wall_seconds)
        tags = {_TAG: result.run, "status": result.status, "reason": result.reason or ""}
        run = client.create_run(experiment, start_time=start, run_name=label(result)).info.run_id
        step, metrics = 0, list[Any]()
        for step, values in curves(result):
            metrics += [entities.Metric(name, value, time, step) for name, value in values.items()]
        metrics += [entities.Metric(name, value, time, step) for name, value in finals(result).items()]
        params = [entities.Param(key, str(value)[:_LONGEST]) for key, value in result.settings.items()]
        for batch in _batched(metrics, 900):
            client.log_batch(run, metrics=batch)
        for batch in _batched(params, 90):
            client.log_batch(run, params=batch)
        # The tag by which it is known comes last: what was cut off is written again.
        client.log_batch(run, tags=[entities.RunTag(key, value) for key, value in tags.items()])
        client.set_terminated(run, "FINISHED" if result.status == "finished" else "FAILED", end_time=time)
        written += 1
    return written


def _batched(entries: list[Any], size: int) -> Iterable[list[Any]]:
    return (entries[start : start + size] for start in range(0, len(entries), size))
