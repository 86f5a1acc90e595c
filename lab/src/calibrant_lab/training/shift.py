"""Evaluate corrupted test samples with calibrators fitted on clean ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import torch

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant.calibrators import Calibrator
from calibrant.evaluation import compare
from calibrant.evaluation.fitting.templates import Labelled, templates
from calibrant.evaluation.result import Estimate
from calibrant.predictions import Predictions
from calibrant.predictions.to_event import repaired, to_repair
from calibrant.reports.sections import Section, SectionTable
from calibrant.reports.words import AS_TRAINED, number, with_interval
from calibrant_lab.data import Dataset, Part, load
from calibrant_lab.data.images.corruptions import CORRUPTIONS, CorruptedImages
from calibrant_lab.data.table import evenly
from calibrant_lab.training.data import Job
from calibrant_lab.training.recipe import Recipe
from calibrant_lab.training.samples import Inference, Samples

EVERY = "all"
_DRAWS = 400  # enough for intervals in a table
_RESAMPLES = 200


Shift: TypeAlias = tuple[str, int]  # a corruption and its severity


def shifts(recipe: Recipe) -> list[Shift]:
    asked = recipe.shift.corruption
    names = [asked] if isinstance(asked, str) else list(asked)
    if names == [EVERY]:
        names = list(CORRUPTIONS)
    if names and not recipe.shift.severities:
        raise InputError("`shift.severities` must name at least one of 1 to 5; got [].")
    for name in names:
        if name not in CORRUPTIONS:
            raise InputError(
                f"`shift.corruption` must name corruptions; got {name!r}"
                f"{nearest(name, [*CORRUPTIONS, EVERY])}"
            )
    return [(name, severity) for name in names for severity in sorted(set(recipe.shift.severities))]


def shifted(recipe: Recipe, dataset: Dataset, shift: Shift) -> Part:
    """Return the test samples under a corruption: computed, or from a published set."""
    settings, (corruption, severity) = recipe.shift, shift
    if settings.name:
        raw = load(f"{settings.name}(corruption={corruption!r}, severity={severity})")
        part = raw.train.rows(evenly(len(raw.train.labels), settings.samples))
        shape = tuple(part.inputs.shape[1:])
        if shape != dataset.input_shape or len(raw.class_names) != dataset.num_classes:
            raise InputError(
                f"`shift.name` must name images of shape {dataset.input_shape} and {dataset.num_classes} "
                f"classes, as {dataset.name} has; {settings.name} has {shape} and {len(raw.class_names)}."
            )
        return part
    rows = evenly(len(dataset.test), settings.samples)
    images = CorruptedImages(dataset.test.inputs, corruption, severity=severity, seed=settings.seed)
    return replace(dataset.test, inputs=images).rows(rows, memory=0)


Shifted: TypeAlias = tuple[Shift, torch.Tensor, torch.Tensor | None, torch.Tensor]
"""A shift with the labels, groups and logits of its samples."""


def shifted_logits(job: Job, samples: Samples, inference: Inference) -> list[Shifted]:
    """Return the logits of every shifted set; all processes must take part."""
    found: list[Shifted] = []
    for shift in shifts(job.recipe):
        part = shifted(job.recipe, job.dataset, shift)
        job.listener.stage(f"predicting under {shift[0]} {shift[1]}", 0.0)
        samples.add("shifted", part)
        found.append((shift, part.labels, part.groups, inference.final_logits("shifted")))
    return found


def judge_shifted(job: Job, clean: Predictions, found: Sequence[Shifted]) -> None:
    """Write predictions and metrics of shifted sets, with calibrators fitted on clean samples."""
    data = Labelled.of(to_repair(clean.calibration))
    wanted = templates(job.recipe.evaluation.calibrators or None, to_repair(clean).kind)
    calibrators = {each.title: each.fit(data) for each in wanted}
    rows = [_row(job, calibrators, clean.test)]
    job.folder.shift.mkdir(exist_ok=True)
    first = clean.calibration
    if first.labels is None:
        raise InputError("`labels` must be given for the calibration samples.")
    for place, ((corruption, severity), labels, patients, logits) in enumerate(found):
        job.listener.stage(f"evaluating {corruption} {severity}", place / len(found))
        clusters = None
        if patients is not None and first.clusters is not None:
            clusters = [*map(str, first.clusters), *map(str, patients.tolist())]
        whole = Predictions(
            logits=torch.cat([first.scores.to(logits.dtype), logits]),
            labels=torch.cat([first.labels, labels]),
            split=torch.tensor([0] * first.num_samples + [1] * len(labels)),
            class_names=list(job.dataset.class_names),
            clusters=clusters,
        )
        whole.save(job.folder.shift / f"{corruption}-{severity}.npz")
        rows.append(_row(job, calibrators, whole.test, corruption=corruption, severity=severity))
    settings = job.recipe.shift
    numbers = {
        "source": settings.name or "computed",
        "seed": settings.seed,
        "level": 0.95,
        "calibrators": [AS_TRAINED, *calibrators],
        "rows": rows,
    }
    job.folder.write_json(job.folder.shift_numbers, numbers)


def _row(
    job: Job,
    calibrators: Mapping[str, Calibrator],
    test: Predictions,
    *,
    corruption: str | None = None,
    severity: int = 0,
) -> dict[str, Any]:
    arms = [(AS_TRAINED, test)]
    for title, calibrator in calibrators.items():
        arms.append((title, repaired(test, calibrator.predict_proba(to_repair(test).scores))))
    judged = compare(
        arms,
        num_bins=job.recipe.evaluation.num_bins,
        bootstrap=min(job.recipe.evaluation.bootstrap, _RESAMPLES),
        null_draws=_DRAWS,
        seed=job.recipe.seed,
    )
    metrics = [model.metrics for model in judged.models]
    return {
        "corruption": corruption,
        "severity": severity,
        "num_test": test.num_samples,
        "accuracy": asdict(metrics[0]["accuracy"]),
        "ece": {name: asdict(each["ece"]) for (name, _), each in zip(arms, metrics, strict=True)},
    }


def shift_section(found: Mapping[str, Any]) -> Section:
    """Return the table of all shifted sets, with means by severity over several corruptions."""
    names = found["calibrators"]
    rows = [_cells(row) for row in found["rows"]]
    severities = sorted({row["severity"] for row in found["rows"]} - {0})
    if len(rows) > 1 + len(severities):
        rows[1:1] = [_mean(found["rows"], severity, names) for severity in severities]
    clean = found["rows"][0]
    made = f"computed with seed {found['seed']}" if found["source"] == "computed" else found["source"]
    return Section(
        title="Under shift",
        text=(
            f"Test images under corruptions ({made}).",
            "The calibrators are those fitted on clean images: does their repair last?",
        ),
        table=SectionTable(
            label="Accuracy and calibration error under shift",
            groups=(("", 3), ("Calibration error (ECE)", len(names))),
            columns=("Corruption", "Severity", "Accuracy", *names),
            rows=tuple(rows),
        ),
        note=f"{clean['num_test']} clean images, {found['rows'][-1]['num_test']} in each corrupted set. "
        "Intervals cover 95%; the means have none, because their images are the same.",
    )


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    name = "none" if row["corruption"] is None else str(row["corruption"])
    estimates = [Estimate(**each) for each in (row["accuracy"], *row["ece"].values())]
    return (name, str(row["severity"]), *map(with_interval, estimates))


def _mean(rows: list[Mapping[str, Any]], severity: int, names: list[str]) -> tuple[str, ...]:
    these = [row for row in rows if row["severity"] == severity]
    accuracy = sum(row["accuracy"]["value"] for row in these) / len(these)
    errors = [sum(row["ece"][name]["value"] for row in these) / len(these) for name in names]
    return (f"mean of {len(these)}", str(severity), number(accuracy), *(number(each) for each in errors))
