"""Results of a finished training: predictions, evaluation, and report sections."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from calibrant._math.binning import width_bin_index
from calibrant._math.drawing import num_units
from calibrant._math.errors import InputError
from calibrant._math.files import write_text
from calibrant._math.text_form import of_kind
from calibrant.calibrators import TemperatureScaling
from calibrant.evaluation import Evaluation, evaluate
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.evaluation.resampling.events import Vector, auroc_influence
from calibrant.evaluation.resampling.intervals import centred_interval
from calibrant.evaluation.resampling.resamples import Resamples
from calibrant.evaluation.result import Estimate
from calibrant.metrics import out_of_distribution_detection, out_of_distribution_scores
from calibrant.metrics.out_of_distribution import OutOfDistributionScore
from calibrant.predictions import Predictions, load_predictions
from calibrant.reports import write_report
from calibrant.reports.commands import with_commands
from calibrant.reports.sections import Section, SectionTable
from calibrant.reports.words import number
from calibrant_lab.data import Dataset
from calibrant_lab.reports.curvature import curvature_section, read_curvature
from calibrant_lab.reports.dynamics import compared_dynamics, dynamics_sections
from calibrant_lab.reports.run_panel import panel
from calibrant_lab.training import neutral
from calibrant_lab.training.data import Job, data_of
from calibrant_lab.training.heat_maps import ACTUAL, heat_map_facts, heat_map_section
from calibrant_lab.training.learner import cost_facts
from calibrant_lab.training.loss import build_loss, regularizer_facts
from calibrant_lab.training.recipe import WITHOUT_EFFECT, Recipe, budget_note
from calibrant_lab.training.run import Run, json_of, load_run
from calibrant_lab.training.samples import batch_facts
from calibrant_lab.training.shift import Shifted, judge_shifted, shift_section


@dataclass(frozen=True, kw_only=True)
class LabelRow:
    """Ranking and calibration of one label, or of one class against the others."""

    name: str
    num_positives: int
    auroc: Estimate  # without a value where all samples have the label, or none
    ece: Estimate
    gap: Estimate  # mean probability less share of positives


def label_rows(
    probs: NDArray[np.float64],
    outcomes: NDArray[np.bool_],
    groups: Sequence[str],
    names: Sequence[str],
    *,
    num_bins: int = 15,
    num_resamples: int = 500,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[LabelRow, ...]:
    """Return AUROC, calibration error and gap of each column, with intervals from resampled groups.

    Whole groups are drawn with replacement, as many as there are, so samples of one group need not be
    independent of each other; groups must be. Replicates are moved to centre on the value, as elsewhere in an
    evaluation. Calibrators and network count as given: their own uncertainty is not in the intervals.
    ``probs`` and ``outcomes`` are ``(N, C)``.
    """
    _, code = np.unique(np.asarray(groups), return_inverse=True)
    if num_units(len(code), code) < 2:
        raise InputError("`groups` must name at least two groups; got one, which cannot be resampled.")
    resamples = Resamples(len(code), num_resamples, (seed,), code)
    weights = [row.astype(float) for counts in resamples.blocks() for row in resamples.by_row(counts)]
    bounds = {"auroc": (0.0, 1.0), "ece": (0.0, 1.0), "gap": (-1.0, 1.0)}
    rows: list[LabelRow] = []
    for name, column, positive in zip(names, probs.T, outcomes.T, strict=True):
        values, *replicates = (
            label_values(column, positive, each, num_bins) for each in (np.ones(len(code)), *weights)
        )
        found: dict[str, Estimate] = {}
        for (key, limits), value, seen in zip(bounds.items(), values, np.array(replicates).T, strict=True):
            low, high = centred_interval(value, seen, level, limits) or (None, None)
            found[key] = Estimate(value=value, low=low, high=high)
            if np.isnan(value):
                found[key] = Estimate(value=None, reason="all samples have the label, or none")
        rows.append(LabelRow(name=name, num_positives=int(positive.sum()), **found))
    return tuple(rows)


def label_values(
    probs: Vector, positive: NDArray[np.bool_], weights: Vector, num_bins: int
) -> tuple[float, float, float]:
    """Return AUROC (NaN if one side has no weight), ECE and gap."""
    bins = width_bin_index(torch.from_numpy(probs), num_bins).numpy()
    ranked, difference = auroc_influence(probs, positive, weights), weights * (probs - positive)
    error = np.abs(np.bincount(bins, difference, minlength=num_bins)).sum()
    gap = difference.sum() / weights.sum()
    return np.nan if ranked is None else ranked[0], float(error / weights.sum()), float(gap)


COLLAPSED = (
    "The training diverged or collapsed: the network is no better than the class frequencies. Lower "
    "optimiser.learning_rate, or set optimiser.clip_norm."
)


def write_results(
    job: Job, logits: dict[str, torch.Tensor], facts: dict[str, str], shifted: Sequence[Shifted]
) -> None:
    """Write predictions and report; the evaluation is last, since it marks the run as finished."""
    folder, settings = job.folder, job.recipe.evaluation
    foreign = None
    if job.foreign is not None:
        kind, names = "multilabel" if job.dataset.multilabel else None, list(job.dataset.class_names)
        Predictions(logits=logits["foreign"], kind=kind, class_names=names).save(folder.foreign_predictions)
        foreign = load_predictions(folder.foreign_predictions)
    if neutral.strikes_neutral(job.model):
        labels = {name: job.dataset.parts[name].labels for name in ("calibration", "test")}
        folder.write_json(
            folder.conventions, neutral.conventions_of(logits, labels, num_bins=settings.num_bins)
        )
    _write_predictions(job, logits)
    predictions = load_predictions(folder.predictions)
    if shifted:
        judge_shifted(job, predictions, shifted)
    if settings.heat_maps:
        label = None if job.report else ACTUAL
        facts = facts | heat_map_facts(load_run(folder.path), job.dataset, label=label)
    if not job.report:
        return
    if foreign is not None:
        found = detection_of(predictions, foreign, name=job.recipe.foreign.name)
        folder.write_json(folder.detection, found)
    if len(set(predictions.test.clusters or ())) < 2:
        predictions = predictions.with_clusters(None)
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
    collapsed = bool(of_kind(evaluation.verdict.warnings, "useless"))
    notes = [COLLAPSED] if collapsed else []
    notes += [f"Trained on a {note}."] if (note := budget_note(job.recipe)) else []
    evaluation = replace(evaluation, notes=(*notes, *evaluation.notes))
    write_run_report(load_run(folder.path), evaluation, job.dataset, facts=facts)
    write_text(folder.evaluation, with_commands(evaluation).to_json() + "\n")


def _write_predictions(job: Job, logits: dict[str, torch.Tensor]) -> None:
    parts = [job.dataset.calibration, job.dataset.test]
    both = torch.cat([logits["calibration"], logits["test"]])
    labels = torch.cat([part.labels for part in parts])
    place = torch.cat([torch.full((len(part),), place) for place, part in enumerate(parts)])
    patients = [part.groups for part in parts if part.groups is not None]
    if job.recipe.evaluation.sst_binary == "struck":
        made = neutral.struck_predictions(both, labels, place)
    else:
        made = Predictions(
            logits=both,
            labels=labels,
            split=place,
            class_names=list(job.dataset.class_names),
            clusters=torch.cat(patients) if len(patients) == len(parts) else None,
        )
    made.save(job.folder.predictions)


SCORES: dict[OutOfDistributionScore, str] = {"entropy": "entropy", "max_probability": "maximum probability"}


def run_facts(
    recipe: Recipe, dataset: Dataset, model: nn.Module, *, device: str, processes: int
) -> dict[str, str]:
    """Describe a run's making, in a few words per fact."""
    optimiser, training = recipe.optimiser, recipe.training
    clip = f", gradients clipped at {optimiser.clip_norm:g}" if optimiser.clip_norm else ", no clipping"
    rate = f"{optimiser.name}, learning rate {optimiser.learning_rate:g} ({_course(recipe)})"
    averaged = "summed over" if recipe.reduction == "sum" else "averaged over"
    note, loss = budget_note(recipe), build_loss(recipe, dataset)
    batches = batch_facts(recipe, len(dataset.train), model, loss, processes=processes)
    begun = f", beginning with {recipe.initial.weights}" if recipe.initial.weights else ""
    size = sum(parameter.numel() for parameter in model.parameters())
    return {
        **({} if note is None else {"budget": note}),
        "data": dataset.summary(),
        "model": f"{recipe.model}, {size:,} parameters{begun}",
        "loss": f"{recipe.loss}, {averaged} batches of {training.batch_size}{batches}",
        "optimiser": f"{rate}, weight decay {optimiser.weight_decay:g}{clip}",
        **regularizer_facts(recipe),
        "runs on": f"{device}, processes: {processes}, {training.precision}",
    }


def _course(recipe: Recipe) -> str:
    """Describe the learning rate schedule, and its steps beyond the last epoch."""
    schedule, epochs = recipe.schedule, recipe.training.epochs
    late = [str(epoch) for epoch in schedule.milestones if epoch >= epochs]
    after = f"; of {epochs} epochs none is after {late[0]}, where it would change" if late else ""
    return f"{schedule.name}{after}"


def rewrite_report(run: Run, dataset: Dataset) -> None:
    if run.evaluation is None:
        raise InputError(f"{run.folder.path} is not finished, so it has no report.")
    made = {name: run.folder.sessions[-1][name] for name in ("device", "processes")}
    facts = run_facts(run.recipe, dataset, run.model(), **made)
    write_run_report(run, run.evaluation, dataset, facts=facts)


def write_run_report(run: Run, evaluation: Evaluation, dataset: Dataset, *, facts: Mapping[str, str]) -> None:
    title = f"{run.recipe.model.partition('(')[0]} on {run.recipe.data.name}, {run.recipe.loss}"
    write_report(evaluation, run.folder.report, title=title, after=[*run_sections(run, dataset, facts)])


def run_sections(run: Run, dataset: Dataset, facts: Mapping[str, str]) -> Iterator[Section]:
    yield Section(title="How it was trained", facts={**facts, **cost_facts(run.cost)})
    if run.conventions is not None:
        yield neutral.convention_section(run.conventions, run.recipe.evaluation.sst_binary)
    images = panel({"Answer": run.predictions}, dataset.test, dataset.class_names)
    yield from (each for each in (images, heat_map_section(run.folder.path)) if each is not None)
    if (shifts := json_of(run.folder.shift_numbers)) is not None:
        yield shift_section(shifts)
    if (detection := json_of(run.folder.detection)) is not None:
        yield _foreign_section(detection)
    yield from dynamics_sections(run.rows, run.snapshots)
    if found := read_curvature(run.folder.curvature):
        yield curvature_section(found)


def detection_of(predictions: Predictions, foreign: Predictions, *, name: str) -> dict[str, Any]:
    """Return how well entropy and maximum probability detect out-of-distribution samples.

    Out-of-distribution samples are the positives: AUROC, AUPR, and the share of test samples flagged if 95%
    of the others are; before and after temperature scaling.
    """
    test = predictions.test
    repair = fit_quietly(TemperatureScaling(), Labelled.of(predictions.calibration))
    found: dict[str, Any] = {"name": name, "num_test": test.num_samples, "num_foreign": foreign.num_samples}
    for state in ("uncalibrated", "temperature"):
        for score in SCORES:
            inside, outside = (
                out_of_distribution_scores(
                    logits=each.scores.double() if state == "uncalibrated" else repair(each.scores.double()),
                    score=score,
                    multilabel=predictions.kind == "multilabel",
                )
                for each in (test, foreign)
            )
            seen = out_of_distribution_detection(inside, outside)
            numbers = {"auroc": seen.auroc, "aupr": seen.aupr, "fpr_at_95_tpr": seen.fpr_at_tpr}
            found.setdefault(state, {})[score] = numbers
    return found


def _foreign_section(found: Mapping[str, Any]) -> Section:
    states = {"uncalibrated": "as trained", "temperature": "after temperature scaling"}
    rows = tuple(
        (f"{name}, {said}", *(number(value) for value in found[state][score].values()))
        for state, said in states.items()
        for score, name in SCORES.items()
    )
    return Section(
        title="Samples of another kind",
        text=(
            f"{found['name']}: {found['num_foreign']} samples of a kind that the network was not trained on.",
            f"How well does its uncertainty tell them from the {found['num_test']} test samples?",
        ),
        table=SectionTable(
            label="Telling foreign samples", columns=("Told by", "AUROC", "AUPR", "FPR at 95% TPR"), rows=rows
        ),
        note="Foreign samples are the positives. An AUROC of 0.5 is guessing; compare an AUPR with "
        f"their share, {number(found['num_foreign'] / (found['num_foreign'] + found['num_test']))}.",
    )


def comparison_sections(runs: Mapping[str, Run]) -> tuple[Section, ...]:
    found = [
        _differences(runs),
        _common_panel(runs),
        compared_dynamics({name: run.rows for name, run in runs.items()}),
    ]
    return tuple(each for each in found if each is not None)


def _differences(runs: Mapping[str, Run]) -> Section | None:
    flat = {name: run.recipe.settings() for name, run in runs.items()}
    first = next(iter(flat.values()))
    differing = [
        key
        for key in first
        if key.partition(".")[0] not in {*WITHOUT_EFFECT, "record"}
        and any(each[key] != first[key] for each in flat.values())
    ]
    if not differing:
        return None
    return Section(
        title="What the runs differ in",
        table=SectionTable(
            label="Settings in which the recipes differ",
            columns=("Run", *differing),
            rows=tuple((name, *(str(each[key]) for key in differing)) for name, each in flat.items()),
            words=tuple(range(1, 1 + len(differing))),
        ),
    )


def _common_panel(runs: Mapping[str, Run]) -> Section | None:
    """Show common images under every run, if all share data that is still readable."""
    first, *others = runs.values()
    if any(each.data_sha256 != first.data_sha256 for each in others):
        return None
    try:
        data = data_of(first)
    except (InputError, OSError):
        return None  # the data are gone; a comparison of logits does not need them
    return panel({name: run.predictions for name, run in runs.items()}, data.test, data.class_names)
