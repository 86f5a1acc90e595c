"""The report: one HTML file that needs no network, written from an evaluation or a comparison."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from calibrant._math.errors import InputError
from calibrant._math.files import write_text
from calibrant.evaluation.phrases import p_number, part_p_value
from calibrant.evaluation.quantities.roster import place
from calibrant.evaluation.result import Arm, Comparison, Estimate, Evaluation
from calibrant.evaluation.verdict.finding import is_shifted
from calibrant.reports import pictures, shapes, tables, words
from calibrant.reports.commands import command_mark, with_commands
from calibrant.reports.figures.drawing import drawing_style
from calibrant.reports.groups import group_pairs
from calibrant.reports.run_sections import Opening, Section

MOST_CLASSES = 30  # of one table; where there are more, the worst stand first
WORST_CLASSES = 20


def write_report(
    found: Evaluation | Comparison,
    path: str | os.PathLike[str],
    *,
    opening: Opening | None = None,
    before: Sequence[Section] = (),
    after: Sequence[Section] = (),
) -> None:
    """Write a report as one HTML file without links to anything outside it.

    The same data give the same bytes. The file is whole or not there: a failure leaves what was there before.

    Args:
        found: What :func:`calibrant.evaluate` or :func:`calibrant.compare` returned.
        path: A file name that ends in ``.html``, in a folder that exists.
        opening: Begin with this in place of the verdict, which then follows ``before`` (evaluations only).
        before: Further sections before those of the evaluation or comparison.
        after: Further sections after them.

    Raises:
        InputError: If the name ends otherwise.
        OSError: If the folder is missing or may not be written to.
    """
    if Path(path).suffix.lower() != ".html":
        msg = f"`path` must end in .html; got {Path(path).name!r}."
        raise InputError(msg)
    write_text(path, report_text(found, opening=opening, before=before, after=after))


def report_text(
    found: object,
    *,
    opening: Opening | None = None,
    before: Sequence[Section] = (),
    after: Sequence[Section] = (),
) -> str:
    """The report as HTML text.

    Raises:
        TypeError: If ``found`` is neither an evaluation nor a comparison.
    """
    given: dict[str, object] = {"opening": opening, "before": before, "after": after}
    if isinstance(found, Evaluation):
        with drawing_style():
            return (
                templates()
                .get_template("evaluation.html")
                .render(_evaluation_context(with_commands(found)) | given)
            )
    if isinstance(found, Comparison):
        with drawing_style():
            return templates().get_template("comparison.html").render(_comparison_context(found) | given)
    msg = f"`found` must be an Evaluation or a Comparison; got {type(found).__name__}."
    raise TypeError(msg)


@cache
def templates() -> Environment:
    """Everything that is filled in is escaped, and a name that is missing is an error."""
    environment = Environment(
        loader=PackageLoader("calibrant.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = environment.filters
    filters |= {
        "number": words.number,
        "interval": words.interval,
        "count": words.count,
        "plural": words.plural,
        "percent": words.percent,
        "parameter": words.parameter,
        "parameter_name": words.parameter_name,
        "unbroken": words.unbroken,
        "sentence": _sentence,
        "mark": command_mark,
        "part_p_value": part_p_value,
    }
    return environment


def _sentence(text: str) -> Markup:
    """A sentence of a verdict, what it quotes in backquotes as code."""
    pieces = words.unbroken(text).split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if place % 2 else piece for place, piece in enumerate(pieces)
    )


@dataclass(frozen=True)
class Tile:
    """A number that everybody looks for, as it came and as recommended."""

    title: str
    meaning: str
    before: Estimate
    after: Estimate | None


@dataclass(frozen=True)
class NullRow:
    """Chance against what was found, for one metric of one arm or model."""

    metric: str
    observed: float
    mean: float
    upper: float
    p_value: str


def _evaluation_context(evaluation: Evaluation) -> dict[str, object]:
    """Everything the template of one evaluation shows."""
    after = tables.recommended(evaluation)
    pairs = tables.class_pairs(evaluation)
    shown = pairs if len(pairs) <= MOST_CLASSES else pairs[:WORST_CLASSES]
    after_panel = tables.shown_second(evaluation)
    panel_names = [arm.title for arm in (evaluation.arms[0], after_panel) if arm is not None]
    multilabel = evaluation.kind == "multilabel"
    return {
        "evaluation": evaluation,
        "recommended": after,
        "mark": words.MARK_OF[evaluation.verdict.direction],
        "tiles": list(_tiles(evaluation, after)),
        "table": tables.metric_table(evaluation),
        "coverage": tables.coverage_sentence(evaluation),
        "null_sentences": _null_sentences(evaluation),
        "null_groups": _null_groups(evaluation),
        "null_pictures": pictures.error_pictures(evaluation.arms, evaluation),
        "diagrams": list(pictures.diagrams(evaluation)),
        "shape_groups": shapes.shape_groups(evaluation),
        "detection": shapes.detection_picture(evaluation),
        "detection_rows": shapes.detection_rows(evaluation),
        "panels": pictures.label_panels(evaluation) if multilabel else [],
        "panel_legend": pictures.legend(panel_names),
        "num_labels": len(evaluation.arms[0].classes),
        "groups": group_pairs(evaluation),
        "pairs": shown,
        "shifted": lambda row: is_shifted(row, evaluation.settings.level),
        "further_pairs": pairs[len(shown) :],
        "widest_error": max(
            (row.ece for pair in pairs for row in (pair.before, pair.after) if row), default=0
        )
        or 1,
    }


def _comparison_context(comparison: Comparison) -> dict[str, object]:
    """Everything the template of one comparison shows."""
    first = comparison.models[0]
    whole = [curve.name for curve in tables.whole_curves(first, comparison.kind)]
    labels = [  # those that every model has, so that a model keeps its colour from picture to picture
        curve.name
        for curve in tables.label_curves(first, comparison.kind)
        if all(curve.name in {other.name for other in model.curves} for model in comparison.models)
    ]
    return {
        "comparison": comparison,
        "beyond_chance": tables.beyond_chance(comparison),
        "first": first,
        "table": tables.metric_table(comparison),
        "coverage": tables.coverage_sentence(comparison),
        "null_groups": _null_groups(comparison),
        "null_pictures": pictures.error_pictures(comparison.models, comparison),
        "overlays": [
            pictures.overlay(comparison, name, f"overlay{place}", small=False)
            for place, name in enumerate(whole)
        ],
        "panels": [
            pictures.overlay(comparison, name, f"label{place}", small=True)
            for place, name in enumerate(labels[: pictures.MOST_PANELS])
        ],
        "num_labels": len(labels),
        "legend": pictures.legend([model.name for model in comparison.models[: pictures.MOST_OVERLAID]]),
        "diagrams": list(pictures.model_diagrams(comparison)),
    }


def _tiles(evaluation: Evaluation, after: Arm | None) -> Iterator[Tile]:
    """The handful of numbers at the top."""
    first = evaluation.arms[0]
    for key in sorted(first.metrics, key=place):
        estimate, described = first.metrics[key], words.metric(key, evaluation.kind)
        if not described.main or estimate.value is None:
            continue
        yield Tile(
            described.title, described.meaning, estimate, None if after is None else after.metrics.get(key)
        )


def _null_sentences(evaluation: Evaluation) -> list[str]:
    """The answer to "is this more than chance?" for the predictions as they came."""
    first, level = evaluation.arms[0], evaluation.settings.level
    return [
        tables.null_sentence(null, observed, evaluation.kind, level)
        for null in sorted(first.null, key=lambda null: place(null.metric))
        if words.metric(null.metric, evaluation.kind).drawn
        and (observed := first.metrics[null.metric].value) is not None
    ]


def _null_groups(found: Evaluation | Comparison) -> list[tuple[str, list[NullRow]]]:
    """Every error that chance was drawn for, by arm or model."""
    groups: list[tuple[str, list[NullRow]]] = []
    for part in tables.columns(found):
        rows = [
            NullRow(
                words.metric(null.metric, found.kind).title, observed, null.mean, null.upper, p_number(null)
            )
            for null in sorted(part.null, key=lambda null: place(null.metric))
            if (observed := part.metrics[null.metric].value) is not None
        ]
        if rows:
            groups.append((part.title, rows))
    return groups
