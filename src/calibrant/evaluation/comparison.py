"""Several models side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from calibrant._math.errors import InputError
from calibrant._math.text_form import suggesting
from calibrant.evaluation.arguments import (
    Procedure,
    Progress,
    check_pairs,
    coverage_of,
    few_draws_note,
    few_resamples_note,
    refuse_other_classes,
    versions,
)
from calibrant.evaluation.fitting.split import is_cross_fitted
from calibrant.evaluation.judging.at_limit import at_limit, error_models
from calibrant.evaluation.judging.measure import Measured, against_chance, change, measure
from calibrant.evaluation.judging.reduce import ArmStatistics, Judgeable
from calibrant.evaluation.phrases import clearly, number, with_interval
from calibrant.evaluation.quantities import ACCURACY, ECE, NLL, check_metrics
from calibrant.evaluation.quantity import EVENT
from calibrant.evaluation.resampling.intervals import beyond_chance
from calibrant.evaluation.result import SCHEMA_VERSION, ComparedModel, Comparison, Kind
from calibrant.evaluation.source import DEALT_OTHERWISE, ModelSamples, alarms, in_same_clusters, samples_of
from calibrant.evaluation.spread import Spread, here
from calibrant.predictions.formats.mark import Mark, mark_in
from calibrant.predictions.labels import the_event

ROUNDING = 1e-9  # relative; two forms of the same predictions differ by less


@suggesting(unnamed='the models in one argument, as in `compare({{"a": first, "b": second}})`; got {}.')
def compare(
    models: Sequence[tuple[str, Judgeable]] | Mapping[str, Judgeable],
    *,
    positive_class: int | str | None = None,
    num_bins: int = 15,
    bootstrap: int = 1000,
    null_draws: int = 1000,
    level: float = 0.95,
    metrics: Sequence[str] = (),
    seed: int = 0,
    command: str | None = None,
    progress: Progress | None = None,
    spread: Spread = here,
) -> Comparison:
    """Compare several models on their test samples, and test which is better.

    If all models have the same samples, every resample draws the same samples for all of them, and
    differences are paired. Samples count as the same if labels and weights agree in every row. Top-label
    predictions without labels count as the same samples if they are right in the same rows, unless so few
    are right (or wrong) that this could be coincidence. So files of one model before and after a repair are
    paired, and files of two models are not. Nothing is calibrated: pass calibrated predictions to compare
    those.

    Args:
        models: Predictions by name, or pairs of both; two or more, all of one kind. Those without a split are
            compared on all samples. Segmentation is read one image at a time, and images are the clusters.
        positive_class: With two classes, the positive one, as in :func:`evaluate`.
        num_bins: Bins of every calibration error and diagram.
        bootstrap: Resamples, at least 2; too few for the level (below 100, or 2 / (1 - level)) are noted.
        null_draws: Draws under perfect calibration, at least 1.
        level: Level of every interval.
        metrics: Further quantities, as in :func:`evaluate`.
        seed: Random seed; the same seed gives the same bits.
        command: The command line to record, if there was one.
        progress: Called with a few words and the finished share.
        spread: Spreads the parts of tables, or images, as ``calibrant compare --engine`` does.

    Returns:
        Frozen data with ``to_json``; ``difference`` is a model minus the first one. Intervals and ``null`` as
        in :func:`evaluate`.

    Raises:
        TypeError: If ``models`` holds anything but pairs of a name and predictions.
        InputError: If there are fewer than two models, two of one name or of different kinds, or no labels;
            or if two name their classes, and not the same ones in the same order.

    Example:
        >>> import numpy as np
        >>> from calibrant import Predictions
        >>> rng = np.random.default_rng(0)
        >>> log_odds = rng.normal(size=1000)
        >>> labels = rng.random(1000) < 1 / (1 + np.exp(-log_odds))
        >>> honest = Predictions(logits=log_odds, labels=labels)
        >>> sharper = Predictions(logits=3 * log_odds, labels=labels)
        >>> found = compare([("honest", honest), ("sharper", sharper)], bootstrap=200, null_draws=200)
        >>> found.paired, found.models[1].difference["nll"].low > 0
        (True, True)
    """
    models = list(models.items()) if isinstance(models, Mapping) else models
    check_pairs(models)
    names = [name for name, _ in models]
    if len(names) < 2:
        raise InputError(f"`models` must hold two models or more; got {len(names)}.")
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"`models` must have different names; {twice[0]!r} is given {names.count(twice[0])} times."
        )
    subjects = [
        samples_of(given, num_bins, name=name, positive_class=positive_class, spread=spread)
        for name, given in models
    ]
    kinds = {subject.kind: name for name, subject in reversed([*zip(names, subjects, strict=True)])}
    if len(kinds) > 1:
        said = " and ".join(f"{name} is {kind}" for kind, name in kinds.items())
        raise InputError(f"all models must be of the same kind; {said}.")
    refuse_other_classes([(name, each.class_names) for name, each in zip(names, subjects, strict=True)])
    kind = subjects[0].kind
    procedure = Procedure(
        kind=kind,
        num_bins=num_bins,
        num_resamples=bootstrap,
        num_draws=null_draws,
        level=level,
        seed=seed,
        metrics=check_metrics(metrics),
    )
    notes = _notes(names, subjects)
    paired = all(subjects[0].same_as(other) for other in subjects[1:])
    if paired:
        subjects = in_same_clusters(subjects, num_bins)
    procedure = replace(procedure, clusters=subjects[0].samples.num_clusters)
    judged: list[Measured] = []
    seen: list[ArmStatistics] = []
    found: list[ComparedModel] = []
    warnings: list[tuple[str, str]] = []
    for place, (name, subject) in enumerate(zip(names, subjects, strict=True)):
        if progress is not None:
            progress(f"evaluating {name}", place / len(models))
        reduced = subject.reduced(procedure.metrics)
        judged.append(measure(reduced, procedure, part=0 if paired else place))
        seen.append(reduced)
        warnings += [(name, warning) for warning in alarms(subject.test, reduced)]
        null, curves, parts, _ = against_chance(judged[-1].noise, subject.labels)
        found.append(
            ComparedModel(
                name=name,
                source=subject.source,
                num_test=subject.samples.num_tested,
                metrics=judged[-1].metrics,
                difference=change(judged[-1], judged[0], level, paired=paired) if place else {},
                null=null,
                curves=curves,
                parts=parts,
            )
        )
    if progress is not None:
        progress("done", 1.0)
    verdict, short = _verdict(found, judged, kind, level, None if paired else (seen, procedure))
    return Comparison(
        schema_version=SCHEMA_VERSION,
        kind=kind,
        paired=paired,
        settings=procedure.settings("none: the models are compared as they are"),
        models=tuple(found),
        verdict=verdict,
        notes=(*notes, *few_draws_note(null_draws, level), *few_resamples_note(bootstrap, level)),
        versions=versions(),
        command=command,
        warnings=said_once(warnings, len(models)),
        coverage=coverage_of(procedure, found[0].metrics),
        short=short,
    )


def said_once(said: Sequence[tuple[str, str]], num_models: int) -> tuple[str, ...]:
    """Sentences with the names of their models; one sentence for all that share it.

    Example:
        >>> said_once([("a", "Odd."), ("b", "Odd."), ("b", "Very odd.")], 2)
        ('all models: Odd.', 'b: Very odd.')
    """
    by_text: dict[str, list[str]] = {}
    for name, text in said:
        by_text.setdefault(text, []).append(name)
    return tuple(f"{_all_or(names, num_models)}: {text}" for text, names in by_text.items())


def _all_or(names: list[str], num_models: int) -> str:
    return "all models" if len(names) == num_models else ", ".join(names)


def _notes(names: list[str], subjects: list[ModelSamples]) -> tuple[str, ...]:
    named = [*zip(names, subjects, strict=True)]
    said = [(name, note) for name, subject in named for note in subject.notes]
    said += [(name, note) for name, subject in named for note in subject.clusters_note]
    alike = _same_repaired(named)
    if alike:  # these sentences name the calibrators
        said = [(name, note) for name, note in said if mark_in([note]) is None]
    notes = [*said_once(said, len(names)), *alike]
    halved = [
        name
        for name, each in named
        if not each.has_split and each.test is not None and not is_cross_fitted(each.test)
    ]
    if halved:
        notes.append(
            f"All samples of {_all_or(halved, len(names))} are compared, because there is no split. "
            "`evaluate` fits calibrators on one half of such a file and tests the other, so its numbers "
            "differ."
        )
    if any(subjects[0].same_rows_other_batches(other) for other in subjects[1:]):
        notes.append(DEALT_OTHERWISE)
    if len({subject.num_classes for subject in subjects}) > 1:
        sizes = ", ".join(f"{name} {subject.num_classes}" for name, subject in named)
        notes.append(f"The models have different numbers of classes ({sizes}).")
    return tuple(notes)


def _same_repaired(models: Sequence[tuple[str, ModelSamples]]) -> list[str]:
    """Sentences that name models with the same predictions, before or after a calibrator."""
    files: dict[str, list[str]] = {each.mark.file: [] for _, each in models if each.mark and each.mark.file}
    for name, each in models:
        sha256 = "" if each.source is None else each.source.sha256
        mark = each.mark or Mark.of("uncalibrated", sha256)
        if mark.file in files:
            files[mark.file].append(f"{name} ({mark.method})")
    return [
        f"The same model, before or after calibration: {', '.join(names)}."
        for names in files.values()
        if len(names) > 1
    ]


def _verdict(
    found: list[ComparedModel],
    judged: list[Measured],
    kind: Kind,
    level: float,
    apart: tuple[list[ArmStatistics], Procedure] | None,
) -> tuple[str, str]:
    """Full and short verdict: the smallest errors, and whether noise could explain the differences.

    Models with samples of their own (``apart``) have their own noise, the more the fewer samples they have.
    One is worse only if a model as good as the best seldom shows as much error there.
    """
    metrics = {ECE.key: "calibration error"}
    if kind == "binary":
        metrics = {
            ECE.event_key: f"calibration error of {the_event(found[0].curves[0].name)}",
            ECE.key: "calibration error of the top label",
        }
    metrics[NLL.key] = "log loss"
    paired = apart is None
    sentences: list[str] = []
    leading: list[list[int]] = []
    for metric, name in metrics.items():
        known = {place: model.metrics[metric].value for place, model in enumerate(found)}
        ranked = sorted((value, place) for place, value in known.items() if value is not None)
        if not ranked:
            continue
        least, best = ranked[0]
        alike, close = [best], list[int]()
        for value, place in ranked[1:]:
            sign = clearly(change(judged[place], judged[best], level, paired=paired)[metric])
            chance = False
            if apart is not None and metric != NLL.key:
                # Could noise explain this error, were the true one that of the best?
                seen, procedure = apart
                events = seen[place].events[EVENT if metric == ECE.event_key else ""]
                drawn = at_limit(error_models("width l1", events, value, procedure), least, confidence=level)
                chance = not beyond_chance(drawn.p_value, level)
            if sign <= 0 or chance or math.isclose(value, least, rel_tol=ROUNDING):
                (alike if number(value) == number(least) else close).append(place)
        sentences.append(_ranked(found, metric, name, alike, close, among=len(ranked)))
        leading.append(alike + close)
    accuracy = [model.metrics[ACCURACY.key].value or 0.0 for model in found]
    best = max(range(len(found)), key=lambda place: accuracy[place])
    lower = [
        place
        for place in range(len(found))
        if clearly(change(judged[place], judged[best], level, paired=paired)[ACCURACY.key]) < 0
    ]
    if lower:
        known = [f"{found[k].name}, {with_interval(found[k].metrics[ACCURACY.key])}" for k in (best, *lower)]
        said = (
            f"The accuracy of {' and of '.join(known[1:])}, is lower than that of {known[0]}, beyond noise."
        )
        sentences.insert(1, said)
    most = [best, *(place for place in range(len(found)) if place not in {best, *lower})]
    return " ".join(sentences), comparison_in_short([model.name for model in found], leading[0], most)


def _ranked(
    found: list[ComparedModel], metric: str, name: str, alike: list[int], close: list[int], *, among: int
) -> str:

    def shown(places: list[int]) -> str:
        return " and ".join(
            f"{found[place].name} with {with_interval(found[place].metrics[metric])}" for place in places
        )

    if among > 1 and len(alike) == among:
        return f"Equal {name}: {shown(alike)}."
    said = f"Lowest {name}: {shown(alike)}" + (", equal" if len(alike) > 1 else "")
    if close:
        return f"{said}, but noise could explain the difference to {shown(close)}."
    return f"{said}, beyond noise." if among > 1 else f"{said}."


def comparison_in_short(
    names: Sequence[str], least_error: Sequence[int], most_accurate: Sequence[int]
) -> str:
    """Name the models that lead in calibration error and in accuracy.

    Args:
        names: The models.
        least_error: The places of the model with the lowest error, and of those that noise could explain.
        most_accurate: Likewise for the accuracy.

    Example:
        >>> comparison_in_short(["a", "b"], [1], [0])
        'b has the lower calibration error, a the higher accuracy.'
        >>> comparison_in_short(["a", "b", "c"], [2], [0, 1])
        'Lowest calibration error: c; highest accuracy: a (+1 tied).'
    """
    if len(names) > 2:
        error, accuracy = _leader(names, least_error), _leader(names, most_accurate)
        return f"Lowest calibration error: {error}; highest accuracy: {accuracy}."
    error, accuracy = (names[each[0]] if len(each) == 1 else None for each in (least_error, most_accurate))
    if error is None and accuracy is None:
        return "Tied within noise in calibration error and in accuracy."
    if accuracy is None:
        return f"{error} has the lower calibration error; accuracy is tied."
    if error is None:
        return f"{accuracy} has the higher accuracy; calibration error is tied."
    if error == accuracy:
        return f"{error} has the lower calibration error and the higher accuracy."
    return f"{error} has the lower calibration error, {accuracy} the higher accuracy."


def _leader(names: Sequence[str], places: Sequence[int]) -> str:
    if len(places) == len(names):
        return "all tied"
    return names[places[0]] + (f" (+{len(places) - 1} tied)" if len(places) > 1 else "")
