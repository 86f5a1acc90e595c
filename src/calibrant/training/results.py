"""What a finished training leaves behind: predictions, evaluation and report."""

from __future__ import annotations

import json
from dataclasses import replace

import torch

from calibrant.evaluation import evaluate
from calibrant.predictions import Predictions, load_predictions
from calibrant.reports import write_report
from calibrant.reports.commands import with_commands
from calibrant.training.budget import budget_note
from calibrant.training.job import Job
from calibrant.training.run import load_run
from calibrant.training.run_report import detection_of, run_sections


def write_results(job: Job, logits: dict[str, torch.Tensor], facts: dict[str, str]) -> None:
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
        detection = detection_of(predictions, foreign, name=settings.out_of_distribution)
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
    if note := budget_note(job.recipe):
        evaluation = replace(evaluation, notes=(f"Trained on a {note}.", *evaluation.notes))
    sections = run_sections(
        load_run(folder.path),
        facts=facts,
        predictions=predictions,
        test=job.dataset.test,
        class_names=job.dataset.class_names,
        detection=detection,
    )
    write_report(evaluation, folder.report, after=sections)
    folder.write(folder.evaluation, with_commands(evaluation).to_json() + "\n")
