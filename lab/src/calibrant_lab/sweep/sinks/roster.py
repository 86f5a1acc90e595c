"""Every sink, and the export of results to one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from calibrant._math.errors import InputError
from calibrant._math.text_form import named
from calibrant_lab.sweep.result import RunResult
from calibrant_lab.sweep.sinks.mlflow import to_mlflow
from calibrant_lab.sweep.sinks.tensorboard import to_tensorboard
from calibrant_lab.sweep.sinks.wandb import to_wandb

SINKS: Mapping[str, Callable[[str, Iterable[RunResult]], int]] = {
    "tensorboard": to_tensorboard,
    "mlflow": to_mlflow,
    "wandb": to_wandb,
}
"""By name: takes a target and results, and says how many it wrote; those it has already are left out."""


def export(target: str, results: Iterable[RunResult]) -> int:
    """Send results to ``tensorboard:DIR``, ``mlflow:URI`` or ``wandb:DIR``.

    Returns:
        How many were written; what an earlier export wrote is not written again.

    Raises:
        InputError: If there is no such sink, or its library is not installed.
    """
    name, colon, place = target.partition(":")
    if not colon or not place:
        raise InputError(f"--export must be NAME:PLACE, as in tensorboard:logs; got {target!r}.")
    return named(name, SINKS, "sink")(place, results)
