"""The sections that a run's report adds to the evaluation, and those that a comparison of runs adds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from calibrant._math.errors import InputError
from calibrant.calibrators import TemperatureScaling
from calibrant.evaluation import Evaluation
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.metrics import out_of_distribution_detection, out_of_distribution_scores
from calibrant.metrics.out_of_distribution import OutOfDistributionScore
from calibrant.predictions import Predictions
from calibrant.reports import write_report
from calibrant.reports.sections import Section, SectionTable
from calibrant.reports.words import number
from calibrant_lab.data import Dataset
from calibrant_lab.reports.dynamics import compared_dynamics, dynamics_sections
from calibrant_lab.reports.run_panel import panel
from calibrant_lab.training.batches import batch_facts
from calibrant_lab.training.data import data_of
from calibrant_lab.training.heat_maps import heat_map_section
from calibrant_lab.training.label_table import label_section
from calibrant_lab.training.loss import build_loss, regularizer_facts
from calibrant_lab.training.neutral import convention_section
from calibrant_lab.training.recipe import WITHOUT_EFFECT, Recipe, budget_note
from calibrant_lab.training.run import Run, json_of
from calibrant_lab.training.shift import shift_section
from calibrant_lab.training.step_cost import cost_facts

SCORES: dict[OutOfDistributionScore, str] = {"entropy": "entropy", "max_probability": "maximum probability"}


def run_facts(
    recipe: Recipe, dataset: Dataset, model: nn.Module, *, device: str, processes: int
) -> dict[str, str]:
    """How a run was made, in a few words each."""
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
    """How the learning rate changes, and which of its changes come after the last epoch."""
    schedule, epochs = recipe.schedule, recipe.training.epochs
    late = [str(epoch) for epoch in schedule.milestones if epoch >= epochs]
    after = f"; of {epochs} epochs none is after {late[0]}, where it would change" if late else ""
    return f"{schedule.name}{after}"


def run_title(recipe: Recipe) -> str:
    """The title of a run's report.

    Example:
        >>> from calibrant_lab.training import Recipe
        >>> run_title(Recipe.read({"model": "mlp(widths=(64,))", "data": {"name": "digits"}}))
        'mlp on digits, cross-entropy'
    """
    return f"{recipe.model.partition('(')[0]} on {recipe.data.name}, {recipe.loss}"


def rewrite_report(run: Run, dataset: Dataset, *, further: Sequence[Section]) -> None:
    """Rewrite the report of a finished run, with further sections at its end."""
    if run.evaluation is None:
        raise InputError(f"{run.folder.path} is not finished, so it has no report.")
    session = run.folder.sessions[-1]
    device, processes = session["device"], session["processes"]
    facts = run_facts(run.recipe, dataset, run.model(), device=device, processes=processes)
    write_run_report(run, run.evaluation, dataset, facts=facts, further=further)


def write_run_report(
    run: Run,
    evaluation: Evaluation,
    dataset: Dataset,
    *,
    facts: Mapping[str, str],
    further: Sequence[Section] = (),
) -> None:
    """Write the report of a run, whose other results are in its directory already."""
    after = [*run_sections(run, dataset, facts), *further]
    write_report(evaluation, run.folder.report, title=run_title(run.recipe), after=after)


def run_sections(run: Run, dataset: Dataset, facts: Mapping[str, str]) -> Iterator[Section]:
    """How it was trained, some images with its answers, shifted and foreign samples, and how it learned."""
    yield Section(title="How it was trained", facts={**facts, **cost_facts(run.cost)})
    if run.conventions is not None:
        yield convention_section(run.conventions, run.recipe.evaluation.sst_binary)
    if run.labels is not None:
        yield label_section(run.labels)
    images = panel({"Answer": run.predictions}, dataset.test, dataset.class_names)
    yield from (each for each in (images, heat_map_section(run.folder.path)) if each is not None)
    if (shifts := json_of(run.folder.shift_numbers)) is not None:
        yield shift_section(shifts)
    if (detection := json_of(run.folder.detection)) is not None:
        yield _foreign_section(detection)
    yield from dynamics_sections(run.rows, run.snapshots)


def detection_of(predictions: Predictions, foreign: Predictions, *, name: str) -> dict[str, Any]:
    """How well entropy and maximum probability tell the test samples from foreign ones, as plain data.

    Foreign samples are the positives: AUROC, AUPR, and the share of test samples flagged where 95 % of the
    foreign ones are; before and after temperature scaling.
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
            label="Telling foreign samples",
            columns=("Told by", "AUROC", "AUPR", "FPR at 95 % TPR"),
            rows=rows,
        ),
        note="Foreign samples are the positives. An AUROC of 0.5 is guessing; compare an AUPR with "
        f"their share, {number(found['num_foreign'] / (found['num_foreign'] + found['num_test']))}.",
    )


def comparison_sections(runs: Mapping[str, Run]) -> tuple[Section, ...]:
    """How the runs differ, the same images under each, and how each learned.

    Args:
        runs: The finished runs, by name.
    """
    found = [
        _differences(runs),
        _common_panel(runs),
        compared_dynamics({name: run.rows for name, run in runs.items()}),
    ]
    return tuple(each for each in found if each is not None)


def _differences(runs: Mapping[str, Run]) -> Section | None:
    """The settings in which the recipes differ."""
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
    """The same images under every run, where all share the same data and these can still be read."""
    first, *others = runs.values()
    if any(each.data_sha256 != first.data_sha256 for each in others):
        return None
    try:
        data = data_of(first)
    except (InputError, OSError):
        return None  # the data are gone; a comparison of logits does not need them
    return panel({name: run.predictions for name, run in runs.items()}, data.test, data.class_names)
