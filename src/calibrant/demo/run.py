"""The demo: one network evaluated and repaired, and ten losses on the same digits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from calibrant._math.files import write_text
from calibrant.calibrators import build
from calibrant.demo import page
from calibrant.demo.comparison import ALL, FEW, Half, carry_out
from calibrant.demo.networks import digits, train_together
from calibrant.evaluation import Evaluation, evaluate
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.evaluation.result import Arm
from calibrant.predictions import Predictions, load_predictions
from calibrant.reports import write_report
from calibrant.reports.commands import with_commands

NUM_SEEDS = 5
MARK = "demo.json"
"""Written first, and by nothing else: a demo that was stopped may be started again in its folder."""


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """Findings of the demo, and its output paths."""

    repair: str
    evaluation: Evaluation
    losses: str
    few: Half
    everything: Half
    predictions: Path
    calibrator: Path
    report: Path
    json: Path


def run_demo(
    folder: Path,
    *,
    seed: int = 0,
    num_seeds: int = NUM_SEEDS,
    command: str | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> DemoResult:
    """Train, evaluate, repair; write predictions, calibrator, numbers and report into ``folder``."""
    tell = progress or (lambda _stage, _fraction: None)
    folder.mkdir(parents=True, exist_ok=True)
    result = {
        "predictions": folder / "predictions.npz",
        "calibrator": folder / "calibrator.safetensors",
        "report": folder / "report.html",
        "json": folder / "evaluation.json",
    }
    seeds = range(seed, seed + num_seeds)
    write_text(folder / MARK, json.dumps({"calibrant": "demo", "seeds": list(seeds)}) + "\n")
    few = carry_out(FEW, seeds, progress=lambda done: tell("little data, ten losses", 0.5 * done))
    everything = carry_out(ALL, seeds, progress=lambda done: tell("all the data", 0.5 + 0.2 * done))
    _predictions(few.logits, few.labels).save(result["predictions"])
    predictions = load_predictions(result["predictions"])  # from the file, so that the report can name it
    evaluation = with_commands(
        evaluate(
            predictions,
            seed=seed,
            command=command,
            progress=lambda stage, fraction: tell(stage, 0.7 + 0.2 * fraction),
        )
    )
    recommended = evaluation.verdict.recommended
    repaired = evaluation.arm("temperature" if recommended == "uncalibrated" else recommended)
    fit_quietly(build(repaired.name), Labelled.of(predictions.calibration)).save(result["calibrator"])
    tell("writing the report", 0.92)
    write_report(evaluation, result["report"], title=page.TITLE, before=page.sections(few, everything))
    write_text(result["json"], evaluation.to_json() + "\n")
    return DemoResult(
        repair=repair_sentences(evaluation.arm("uncalibrated"), repaired, evaluation.num_test),
        evaluation=evaluation,
        losses=page.summary(few, everything),
        few=few,
        everything=everything,
        **result,
    )


def repair_sentences(before: Arm, after: Arm, num_test: int) -> str:
    """Describe the repair of one network next to the noise floor."""
    errors = [arm.metrics["ece"].value or 0.0 for arm in (before, after)]
    floor = next(null.mean for null in before.null if null.metric == "ece")
    done = "lowered" if errors[1] < errors[0] else "raised"
    return (
        f"{after.title} {done} the calibration error (ECE) of one small network from {errors[0]:.3f} to "
        f"{errors[1]:.3f}.\nA perfectly calibrated network would average {floor:.3f} "
        f"on {num_test} test images."
    )


def train_on_digits(*, seed: int, progress: Callable[[float], None] | None = None) -> Predictions:
    """Train the network that the demo evaluates: cross-entropy on little data."""
    data = digits(FEW, [seed])
    logits = train_together(FEW, data, ["cross-entropy"], [seed], progress=progress)[0, 0]
    return _predictions(logits, data.labels[torch.cat([data.calibration, data.test], dim=1)[0]])


def _predictions(logits: Tensor, labels: Tensor) -> Predictions:
    split = (np.arange(len(labels)) >= FEW.num_calibration).astype(np.uint8)
    return Predictions(
        logits=logits, labels=labels, split=split, class_names=[str(digit) for digit in range(10)]
    )
