"""What a finished training leaves behind: predictions, evaluation and report."""

from __future__ import annotations

import json
from collections.abc import Sequence

import torch

from calibrant.evaluation import evaluate
from calibrant.predictions import Predictions, load_predictions
from calibrant.reports import write_report
from calibrant.reports.commands import with_commands
from calibrant.reports.run_sections import Section
from calibrant.training.job import Job
from calibrant.training.run import load_run
from calibrant.training.run_report import detection_of, run_sections
from calibrant.training.shift import Shifted, ShiftResults, shift_section


def write_results(
    job: Job, logits: dict[str, torch.Tensor], facts: dict[str, str], shifted: Sequence[Shifted]
) -> None:
    """Write predictions and report; the evaluation comes last, because it says that the run is finished."""
    folder, settings = job.folder, job.recipe.evaluation
    parts = [job.dataset.calibration, job.dataset.test]
    Predictions(
        logits=torch.cat([logits["calibration"], logits["test"]]),
        labels=torch.cat([part.labels for part in parts]),
        split=torch.cat([torch.full((len(part),), place) for place, part in enumerate(parts)]),
        class_names=list(job.dataset.class_names),
    ).save(folder.predictions)
    predictions, foreign, detection = load_predictions(folder.predictions), None, None
    if job.foreign is not None:
        names = list(job.dataset.class_names)
        Predictions(logits=logits["foreign"], class_names=names).save(folder.foreign_predictions)
        foreign = load_predictions(folder.foreign_predictions)
        detection = detection_of(predictions, foreign, name=job.recipe.foreign_name)
        folder.write(folder.detection, json.dumps(detection, indent=2) + "\n")
    evaluation = evaluate(
        predictions,
        calibrators=settings.calibrators or None,
        num_bins=settings.num_bins,
        bootstrap=settings.bootstrap,
        ood=foreign,
        seed=job.recipe.seed,
        command=job.command,
        progress=job.listener.stage,
    )
    sections = run_sections(
        load_run(folder.path),
        facts=facts,
        predictions=predictions,
        test=job.dataset.test,
        class_names=job.dataset.class_names,
        detection=detection,
        shift=_write_shifted(job, predictions, shifted),
    )
    write_report(evaluation, folder.report, after=sections)
    folder.write(folder.evaluation, with_commands(evaluation).to_json() + "\n")


def _write_shifted(job: Job, clean: Predictions, shifted: Sequence[Shifted]) -> Section | None:
    """Predictions and numbers of the shifted sets, if the recipe has any."""
    if not shifted:
        return None
    results = ShiftResults(job, clean)
    for place, each in enumerate(shifted):
        job.listener.stage(f"judging {each.shift.corruption} {each.shift.severity}", place / len(shifted))
        results.add(each)
    return shift_section(results.write())
