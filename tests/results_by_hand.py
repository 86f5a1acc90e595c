"""Results of runs that nobody trained, in the form in which a store gives them."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from calibrant_lab.sweep.tasks.task import RunResult

CIFAR = {"data.name": "cifar10", "model": "cifar-resnet(depth=50)"}


def make_result(
    settings: Mapping[str, Any],
    metrics: Mapping[str, Mapping[str, float | None]] | None = None,
    *,
    status: str = "finished",
    **more: Any,
) -> RunResult:
    """A result with these settings and numbers, and nothing else of note."""
    content: dict[str, Any] = {
        "run": "-".join(f"{value}" for value in settings.values()),
        "task": "training",
        "version": 1,
        "status": status,
        "reason": None if status == "finished" else "the loss is not finite",
        "settings": {"seed": 0, **settings},
        "axes": {},
        "inputs": {},
        "metrics": metrics or {},
        "undefined": {},
        "parameters": {},
        "wall_seconds": 1.0,
        "cpu_seconds": 2.0,
        "sessions": 1,
        "ended": "2026-01-01T00:00:00+00:00",
        "measures": 1,
        "environment": {},
        "more": {},
    }
    return RunResult(**(content | more))


def sweep(
    errors: Mapping[str, float], *, seeds: int = 5, spread: float = 0.001, **settings: Any
) -> list[RunResult]:
    """Runs of some losses: an ECE, half of it after scaling, and an NLL of ten times that.

    Seeds move all losses alike by ten times what they move each on its own, so that pairing matters.
    """
    draw, found = random.Random(0), []
    common = [10 * spread * draw.gauss(0, 1) for _ in range(seeds)]
    for loss, ece in errors.items():
        for seed in range(seeds):
            value = ece + common[seed] + spread * draw.gauss(0, 1)
            stages = {"uncalibrated": value, "temperature": value / 2}
            found.append(
                make_result(
                    {**settings, "loss": loss, "seed": seed},
                    {
                        stage: {"ece": each, "nll": 10 * each, "error": 3 * ece, "accuracy": 1 - 3 * ece}
                        for stage, each in stages.items()
                    },
                    parameters={"temperature": {"temperature": 1.5}},
                )
            )
    return found


def values(results: Sequence[RunResult], name: str = "ece", stage: str | None = None) -> list[float]:
    return [value for each in results if (value := each.value(name, stage)) is not None]


def write_store(folder: Path, results: Sequence[RunResult]) -> Path:
    for each in results:
        run = folder / "runs" / each.run
        run.mkdir(parents=True)
        content = {one.name: getattr(each, one.name) for one in fields(each) if one.name[0] != "_"}
        text = json.dumps({"format": 1, **content, "rows": list(each.rows)})
        (run / "result.json").write_text(text, encoding="utf-8")
    return folder
