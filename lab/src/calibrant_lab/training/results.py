"""What a finished training leaves behind: predictions, evaluation and report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from calibrant.evaluation import evaluate
from calibrant.evaluation.alarms import NO_BETTER
from calibrant.predictions import Predictions, load_predictions
from calibrant.reports.commands import with_commands
from calibrant_lab.training.heat_maps import heat_map_facts
from calibrant_lab.training.job import Job
from calibrant_lab.training.label_table import label_table
from calibrant_lab.training.neutral import conventions_of, strikes_neutral, struck_predictions
from calibrant_lab.training.recipe import budget_note
from calibrant_lab.training.run import load_run
from calibrant_lab.training.run_report import detection_of, write_run_report
from calibrant_lab.training.shift import Shifted, judge_shifted

OVER_IMAGES = (
    "Intervals and chance are over images; images of one patient resemble each other, so they may be too "
    "narrow. The table of labels has intervals over patients."
)

COLLAPSED = (
    "The training diverged or collapsed: the network is no better than the class frequencies. Lower "
    "optimiser.learning_rate, or set optimiser.clip_norm."
)


def is_complete(job: Job) -> bool:
    """Whether everything is there that the job leaves behind."""
    return (job.folder.evaluation if job.report else job.folder.predictions).is_file()


def write_results(
    job: Job, logits: dict[str, torch.Tensor], facts: dict[str, str], shifted: Sequence[Shifted]
) -> None:
    """Write predictions and report; the evaluation comes last, because it says that the run is finished."""
    folder, settings = job.folder, job.recipe.evaluation
    foreign = _write_foreign(job, logits)
    _write_conventions(job, logits)
    _write_predictions(job, logits)
    predictions = load_predictions(folder.predictions)
    if shifted:
        judge_shifted(job, predictions, shifted)
    if not job.report:
        return
    if foreign is not None:
        found = detection_of(predictions, foreign, name=job.recipe.foreign_name)
        folder.write_json(folder.detection, found)
    num_bins, seed = settings.num_bins, job.recipe.seed
    num_resamples = min(settings.bootstrap, 500)
    labels = label_table(predictions, num_bins=num_bins, num_resamples=num_resamples, seed=seed)
    if labels is not None:
        folder.write_json(folder.labels, labels)
        predictions = predictions.without_groups()  # hundreds of patients make no table of groups
    evaluation = evaluate(
        predictions,
        calibrators=settings.calibrators or None,
        num_bins=num_bins,
        bootstrap=settings.bootstrap,
        ood=foreign,
        seed=seed,
        command=job.command,
        progress=job.listener.stage,
    )
    if note := budget_note(job.recipe):
        evaluation = replace(evaluation, notes=(f"Trained on a {note}.", *evaluation.notes))
    if labels is not None:
        evaluation = replace(evaluation, notes=(*evaluation.notes, OVER_IMAGES))
    if any(warning.startswith(NO_BETTER) for warning in evaluation.verdict.warnings):
        evaluation = replace(evaluation, notes=(COLLAPSED, *evaluation.notes))
    run = load_run(folder.path)
    facts = {**facts, **heat_map_facts(run, job.dataset)}
    write_run_report(run, evaluation, job.dataset, facts=facts)
    folder.write(folder.evaluation, with_commands(evaluation).to_json() + "\n")


def _write_predictions(job: Job, logits: dict[str, torch.Tensor]) -> None:
    parts = [job.dataset.calibration, job.dataset.test]
    both = torch.cat([logits["calibration"], logits["test"]])
    labels = torch.cat([part.labels for part in parts])
    place = torch.cat([torch.full((len(part),), place) for place, part in enumerate(parts)])
    groups = [part.groups for part in parts if part.groups is not None]
    if job.recipe.evaluation.sst_binary == "struck":
        made = struck_predictions(both, labels, place)
    else:
        made = Predictions(
            logits=both,
            labels=labels,
            split=place,
            class_names=list(job.dataset.class_names),
            groups=torch.cat(groups) if len(groups) == len(parts) else None,
        )
    made.save(job.folder.predictions)


def _write_conventions(job: Job, logits: dict[str, torch.Tensor]) -> None:
    """The numbers by both conventions, of a network that learns a neutral class."""
    if strikes_neutral(job.model):
        found = conventions_of(
            logits,
            {name: job.dataset.parts[name].labels for name in ("calibration", "test")},
            num_bins=job.recipe.evaluation.num_bins,
        )
        job.folder.write_json(job.folder.conventions, found)


def _write_foreign(job: Job, logits: dict[str, torch.Tensor]) -> Predictions | None:
    """What the network says of out-of-distribution samples, where there are any."""
    if job.foreign is None:
        return None
    path = job.folder.foreign_predictions
    Predictions(
        logits=logits["foreign"],
        kind="multilabel" if job.dataset.multilabel else None,
        class_names=list(job.dataset.class_names),
    ).save(path)
    return load_predictions(path)
