"""The first screen of a report: verdict, diagrams, three numbers, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from calibrant.evaluation.quantities.accuracy import ACCURACY
from calibrant.evaluation.quantities.auroc import AUROC
from calibrant.evaluation.quantities.brier import BRIER
from calibrant.evaluation.quantities.brier_skill import BRIER_SKILL
from calibrant.evaluation.quantities.ece import ECE
from calibrant.evaluation.quantities.gap import GAP
from calibrant.evaluation.quantities.mean_confidence import MEAN_CONFIDENCE
from calibrant.evaluation.quantities.nll import NLL
from calibrant.evaluation.quantities.quantity import EVENT
from calibrant.evaluation.result import Arm, Comparison, Estimate, Evaluation, NullError
from calibrant.reports import words
from calibrant.reports.pictures import Diagrams
from calibrant.reports.tables import is_rare, mark_above_trivial, trivial_accuracy

NUMBERS = 3


@dataclass(frozen=True)
class Number:
    """A metric as it came and as recommended."""

    title: str
    meaning: str
    before: Estimate
    after: Estimate | None
    mark: str | None
    """Whether the change is clearly better or worse."""
    null: NullError | None
    """What chance gives, of the predictions as they came."""


def three_numbers(evaluation: Evaluation, after: Arm | None) -> list[Number]:
    """What the verdict is about, then the usual ones that are known."""
    first, about = evaluation.arms[0], evaluation.verdict.about
    errors = (ECE.event_key, ECE.key) if evaluation.kind == "binary" else (ECE.key,)
    error = about if about in first.metrics else next((key for key in errors if key in first.metrics), None)
    rare = (AUROC.key, BRIER_SKILL.key) if is_rare(evaluation) else ()
    wanted = (error, NLL.key, *rare, ACCURACY.key, BRIER.key, GAP.key, MEAN_CONFIDENCE.key)
    found: list[Number] = []
    trivial = trivial_accuracy(evaluation)
    for key in wanted:
        estimate = None if key is None else first.metrics.get(key)
        if key is None or estimate is None or estimate.value is None:
            continue
        later = None if after is None else after.metrics.get(key)
        change = None if after is None else after.change.get(key)
        described = words.metric(key, evaluation.kind)
        found.append(
            Number(
                described.title,
                described.meaning,
                estimate,
                later,
                None
                if later is None
                else mark_above_trivial(
                    key, words.mark_of_change(key, evaluation.kind, later, change), later.value, trivial
                ),
                next((null for null in first.null if null.metric == key), None),
            )
        )
    return found[:NUMBERS]


def main_diagrams(groups: list[Diagrams], evaluation: Evaluation) -> Diagrams | None:
    """The diagrams of what the verdict is about: of a binary model the positive class or the top label."""
    about = evaluation.verdict.about or ""
    if evaluation.kind == "binary" and about and not about.startswith(EVENT):
        return next((each for each in groups if each.title == "top label"), None)
    return next(iter(groups), None)


@dataclass(frozen=True)
class Moved:
    """A model against the first one: what is better and what worse, beyond chance."""

    name: str
    numbers: tuple[tuple[Estimate, str | None], ...]
    """The value and mark of each of the numbers that everybody looks for."""
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
                tuple((model.metrics[key], marks[key]) for key in keys),
                tuple(words.metric(key, kind).title for key in keys if marks[key] == "better"),
                tuple(words.metric(key, kind).title for key in keys if marks[key] == "worse"),
            )
        )
    return tuple(words.metric(key, kind).title for key in keys), rows


def advice(evaluation: Evaluation) -> str:
    """What to do where there is no command: the last sentence of the verdict."""
    return evaluation.verdict.sentences[-1] if evaluation.verdict.sentences else ""


def contents(evaluation: Evaluation, **there: object) -> Iterator[tuple[str, str]]:
    """The sections of the page, by identifier; ``there``: what the optional ones would show."""
    noun = "Labels" if evaluation.kind == "multilabel" else "Classes"
    titles = {
        "numbers": "Numbers",
        "verdict": "In words",
        "choice": "Choice",
        "chance": "Chance",
        "diagrams": "Diagrams",
        "foreign": "Other samples",
        "labels": "Label diagrams",
        "classes": noun,
        "groups": "Groups",
        "made": "How it was made",
    }
    first = ("numbers", "classes", "labels") if evaluation.kind == "multilabel" else ()
    for key in (*first, *(each for each in titles if each not in first)):
        title = titles[key]
        if there.get(key, True):
            yield key, title
