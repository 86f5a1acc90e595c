"""The first screen of a report: verdict, diagrams, three numbers, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calibrant.evaluation.quantities import (
    ACCURACY,
    AUROC,
    BRIER,
    CLASSWISE_ECE,
    ECE,
    GAP,
    MEAN_CONFIDENCE,
    NLL,
)
from calibrant.evaluation.quantity import EVENT
from calibrant.evaluation.result import Arm, Comparison, Estimate, Evaluation, NullError
from calibrant.evaluation.verdict.finding import title
from calibrant.reports import words
from calibrant.reports.pictures import Diagrams
from calibrant.reports.tables import is_rare, mark_above_trivial, nulls_of, recommended, trivial_accuracy

NUMBERS = 3


@dataclass(frozen=True)
class Number:
    """A metric before and after the recommended repair."""

    key: str
    title: str
    meaning: str
    before: Estimate
    after: Estimate | None
    mark: str | None
    """Whether the change is clearly better or worse."""
    null: NullError | None
    """The noise floor before the repair."""
    null_after: NullError | None


def three_numbers(evaluation: Evaluation, after: Arm | None) -> list[Number]:
    """What the verdict is about, then the usual ones that are known."""
    first, about, trivial = evaluation.arms[0], evaluation.verdict.about, trivial_accuracy(evaluation)
    errors = (ECE.event_key, ECE.key) if evaluation.kind == "binary" else (ECE.key,)
    error = about if about in first.metrics else next((key for key in errors if key in first.metrics), None)
    rare = (AUROC.key,) if is_rare(evaluation) else ()
    wanted = (error, NLL.key, *rare, ACCURACY.key, BRIER.key, GAP.key, MEAN_CONFIDENCE.key)
    known = [key for key in wanted if key and key in first.metrics and first.metrics[key].value is not None]

    def shown(key: str) -> Number:
        described = words.metric(key, evaluation.kind)
        later = None if after is None else after.metrics.get(key)
        mark = None
        if after is not None and later is not None:
            mark = words.mark_of_change(key, evaluation.kind, later, after.change.get(key))
            mark = mark_above_trivial(key, mark, later.value, trivial)
        before, later_null = (
            next(iter(nulls_of([] if arm is None else [arm], key)), None) for arm in (first, after)
        )
        title, meaning = described.title, described.meaning
        return Number(key, title, meaning, first.metrics[key], later, mark, before, later_null)

    return [shown(key) for key in known[:NUMBERS]]


def main_diagrams(groups: list[Diagrams], evaluation: Evaluation) -> Diagrams | None:
    """The diagrams of what the verdict is about: of a binary model the positive class or the top label."""
    about = evaluation.verdict.about or ""
    if evaluation.kind == "binary" and about and not about.startswith(EVENT):
        return next((each for each in groups if each.title == "top label"), None)
    return next(iter(groups), None)


def is_about_classes(evaluation: Evaluation) -> bool:
    """Whether the finding is one of classes or labels, which a reliability diagram would not show."""
    return evaluation.kind == "multilabel" or evaluation.verdict.about == CLASSWISE_ECE.key


@dataclass(frozen=True)
class Moved:
    """A model against the first one: what is better and what worse, beyond noise."""

    name: str
    numbers: tuple[tuple[str, Estimate, str | None], ...]
    """The key, value and mark of each of the numbers that everybody looks for."""
    better: tuple[str, ...]
    worse: tuple[str, ...]


def moved(comparison: Comparison) -> tuple[tuple[str, ...], list[Moved]]:
    """The titles of the three numbers, and how every model did."""
    kind, first = comparison.kind, comparison.models[0]
    error = ECE.event_key if ECE.event_key in first.metrics else ECE.key
    keys = [
        key
        for key in (error, NLL.key, ACCURACY.key, BRIER.key)
        if any(model.metrics[key].value is not None for model in comparison.models if key in model.metrics)
    ][:NUMBERS]
    rows: list[Moved] = []
    for model in comparison.models:
        marks = {
            key: words.mark_of_change(key, kind, model.metrics[key], model.difference.get(key))
            for key in keys
        }
        rows.append(
            Moved(
                model.name,
                tuple((key, model.metrics[key], marks[key]) for key in keys),
                tuple(words.metric(key, kind).title for key in keys if marks[key] == "better"),
                tuple(words.metric(key, kind).title for key in keys if marks[key] == "worse"),
            )
        )
    return tuple(words.metric(key, kind).title for key in keys), rows


def advice(evaluation: Evaluation) -> str:
    """What to do if there is no command: the last sentence of the verdict."""
    return evaluation.verdict.sentences[-1] if evaluation.verdict.sentences else ""


def why_title(evaluation: Evaluation) -> str:
    """What was chosen, in a heading."""
    after = recommended(evaluation)
    return "no repair" if after is None else title(after)


def contents(evaluation: Evaluation, **there: object) -> Iterator[tuple[str, str]]:
    """The sections of the page, by identifier; ``there``: what the optional ones would show."""
    noun = "Labels" if evaluation.kind == "multilabel" else "Classes"
    titles = {
        "numbers": "Metrics",
        "verdict": "Explanation",
        "choice": f"Why {why_title(evaluation)}",
        "chance": "Noise",
        "diagrams": "Diagrams",
        "foreign": "Out-of-distribution",
        "labels": "Label diagrams",
        "classes": noun,
        "groups": "Groups",
        "made": "Method",
    }
    first = ("numbers", "classes", "labels") if evaluation.kind == "multilabel" else ()
    for key in (*first, *(each for each in titles if each not in first)):
        title = titles[key]
        if there.get(key, True):
            yield key, title
