"""The report: one HTML file that needs no network, of an evaluation, a comparison or a monitor."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from calibrant._math.errors import InputError
from calibrant._math.files import write_text
from calibrant.evaluation.group_repairs import ARMS, ByGroup, said_of
from calibrant.evaluation.group_repairs import title_of as title_of_repairs
from calibrant.evaluation.monitoring.result import Monitoring
from calibrant.evaluation.phrases import number as short_number
from calibrant.evaluation.phrases import p_number, part_p_value
from calibrant.evaluation.quantities import (
    ACCURACY,
    AUROC,
    BRIER,
    CLASSWISE_ECE,
    ECE,
    GAP,
    MEAN_CONFIDENCE,
    NLL,
    display_order,
)
from calibrant.evaluation.quantity import EVENT
from calibrant.evaluation.result import (
    Arm,
    Comparison,
    Estimate,
    Evaluation,
    NullError,
    Repair,
    Verdict,
)
from calibrant.evaluation.verdict.finding import is_shifted
from calibrant.evaluation.verdict.finding import title as title_of
from calibrant.reports import monitoring, pictures, shapes, tables, words
from calibrant.reports.commands import mark_of_files, with_commands
from calibrant.reports.figures.drawing import drawing_style
from calibrant.reports.sections import Section

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
MOST_CLASSES = 10  # of one table; where there are more, the worst stand first
WORST_CLASSES = 6
NUMBERS = 3  # at the top
MOST_PANELS = 8  # before the others are folded


def write_report(
    found: Evaluation | Comparison | Monitoring,
    path: str | os.PathLike[str],
    *,
    title: str | None = None,
    before: Sequence[Section] = (),
    after: Sequence[Section] = (),
    files: Sequence[str | os.PathLike[str]] = (),
    by_group: ByGroup | None = None,
) -> None:
    """Write a report as one HTML file without links to anything outside it.

    The same data give the same bytes on the same day; ``SOURCE_DATE_EPOCH`` sets the day. Files are
    shown by name, never by an absolute path. The file is whole or not there: a failure leaves what was there
    before.

    Args:
        found: What :func:`calibrant.evaluate`, :func:`calibrant.compare` or
            :func:`calibrant.evaluation.monitor` returned.
        path: A file name that ends in ``.html``, in a folder that exists.
        title: What the page is about, as the name of the model; by default the name of the file.
        before: Further sections before those of the evaluation or comparison.
        after: Further sections after them.
        files: What it is made from; the page then carries a mark (no path) by which commands know it again.
        by_group: What repairs do to each group, for an evaluation.

    Raises:
        InputError: If the name ends otherwise.
        OSError: If the folder is missing or may not be written to.
    """
    if Path(path).suffix.lower() != ".html":
        msg = f"`path` must end in .html; got {Path(path).name!r}."
        raise InputError(msg)
    text = report_text(found, title=title, before=before, after=after, files=files, by_group=by_group)
    write_text(path, text)


def report_text(
    found: object,
    *,
    title: str | None = None,
    before: Sequence[Section] = (),
    after: Sequence[Section] = (),
    files: Sequence[str | os.PathLike[str]] = (),
    by_group: ByGroup | None = None,
) -> str:
    """The report as HTML text.

    Raises:
        TypeError: If ``found`` is neither an evaluation nor a comparison nor a monitoring.
    """
    given: dict[str, object] = {
        "title": title,
        "date": report_date(),
        "made_by": mark_of_files(files) if files else "",
        "before": before,
        "after": after,
    }
    if isinstance(found, Evaluation):
        with drawing_style():
            context = _evaluation_context(with_commands(to_share(found)), by_group)
            return templates().get_template("evaluation.html").render(context | given)
    if isinstance(found, Comparison):
        with drawing_style():
            context = _comparison_context(to_share(found))
            return templates().get_template("comparison.html").render(context | given)
    if isinstance(found, Monitoring):
        with drawing_style():
            context = monitoring.context(to_share(found))
            return templates().get_template("monitoring.html").render(context | given)
    msg = f"`found` must be an Evaluation, a Comparison or a Monitoring; got {type(found).__name__}."
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
        "signed": partial(words.number, signed=True),
        "signed_interval": partial(words.interval, signed=True),
        "count": words.count,
        "plural": words.plural,
        "percent": words.percent,
        "parameter": words.parameter,
        "parameter_name": words.parameter_name,
        "brief": words.brief,
        "short_number": short_number,
        "sentence": _sentence,
        "misses": words.misses,
        "breakable": _breakable,
        "day": _day,
        "part_p_value": part_p_value,
    }
    return environment


def _sentence(text: str) -> Markup:
    """A sentence of a verdict, what it quotes in backquotes as code."""
    pieces = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if place % 2 else piece for place, piece in enumerate(pieces)
    )


def _breakable(text: str) -> Markup:
    """A name, or a sentence with names in it, that may be broken after an underscore or a slash."""
    pieces = re.split(r"(?<=[_/])(?![_/])", text)
    return Markup("<wbr>").join(Markup.escape(piece) for piece in pieces)


def _day(date: date) -> str:
    """``22 November 2026``, whatever the language of the system."""
    return f"{date.day} {MONTHS[date.month - 1]} {date.year}"


@dataclass(frozen=True)
class NullRow:
    """Chance against what was found, for one metric of one arm or model."""

    metric: str
    observed: float
    mean: float
    upper: float
    p_value: str


def _evaluation_context(evaluation: Evaluation, repairs: ByGroup | None) -> dict[str, object]:
    after = tables.recommended(evaluation)
    pairs = tables.class_pairs(evaluation)
    shown = pairs if len(pairs) <= MOST_CLASSES else pairs[:WORST_CLASSES]
    after_panel = tables.shown_second(evaluation)
    panel_names = [arm.title for arm in (evaluation.arms[0], after_panel) if arm is not None]
    panels = pictures.label_panels(evaluation) if evaluation.kind == "multilabel" else []
    groups = list(pictures.diagrams(evaluation))
    main, by_group = _main_diagrams(groups, evaluation), tables.group_pairs(evaluation)
    shifts, finding = pictures.class_shifts(evaluation), ()
    if shifts is not None and _is_about_classes(evaluation):
        main, shifts, finding = None, None, (shifts, pictures.confidence_overlay(evaluation))
    further = [each for each in groups if each is not main]
    table, detection = tables.metric_table(evaluation), shapes.detection_picture(evaluation)
    shape_groups, choice = shapes.shape_groups(evaluation), tables.choice_rows(evaluation)
    return {
        "evaluation": evaluation,
        "recommended": after,
        "mark": words.MARK_OF[evaluation.verdict.direction],
        "numbers": three_numbers(evaluation, after),
        "advice": _advice(evaluation),
        "why_title": _why_title(evaluation),
        "contents": list(
            _contents(
                evaluation,
                choice=choice,
                diagrams=groups,
                foreign=detection,
                labels=panels,
                classes=pairs,
                groups=by_group or repairs,
            )
        ),
        "table": table,
        "main_rows": table.main(evaluation.verdict.about),
        "choice": choice,
        "coverage": tables.coverage_sentence(evaluation),
        "outside": tables.outside_sentence(evaluation.arms),
        "shared_warnings": tables.shared_warnings(evaluation.arms),
        "null_sentences": _null_sentences(evaluation),
        "null_groups": _null_groups(evaluation),
        "null_pictures": pictures.error_pictures(tables.ordered_arms(evaluation), evaluation),
        "main_diagrams": main,
        "shifts": shifts,
        "finding_legend": pictures.legend(("Before", "After")[: 1 + (after is not None)], of="overlay-key"),
        "finding": [each for each in finding if each is not None],
        "diagrams": further,
        "shape_groups": shape_groups,
        "detection": detection,
        "detection_rows": shapes.detection_rows(evaluation),
        "panels": panels,
        "most_panels": MOST_PANELS,
        "panel_legend": pictures.legend(panel_names),
        "num_labels": len(evaluation.arms[0].classes),
        "groups": by_group,
        "repairs": repairs,
        "repair_arms": ARMS,
        "repairs_title": None if repairs is None else title_of_repairs(repairs),
        "repairs_said": None if repairs is None else said_of(repairs, evaluation),
        "pairs": shown,
        "shifted": lambda row: is_shifted(row, evaluation.settings.level),
        "further_pairs": pairs[len(shown) :],
        "widest_error": max(
            (row.ece for pair in pairs for row in (pair.before, pair.after) if row), default=0
        )
        or 1,
    }


def _comparison_context(comparison: Comparison) -> dict[str, object]:
    first = comparison.models[0]
    whole = [curve.name for curve in tables.whole_curves(first, comparison.kind)]
    labels = [  # those that every model has, so that a model keeps its colour from picture to picture
        curve.name
        for curve in tables.label_curves(first, comparison.kind)
        if all(curve.name in {other.name for other in model.curves} for model in comparison.models)
    ]
    table, (moved_titles, moved) = tables.metric_table(comparison), _moved(comparison)
    return {
        "comparison": comparison,
        "beyond_chance": tables.tests_sentence(comparison),
        "failing": sum(not all(part.holds for part in model.parts) for model in comparison.models)
        if all(model.parts for model in comparison.models)
        else None,
        "moved_titles": moved_titles,
        "moved": moved,
        "main_rows": table.main(),
        "most_panels": MOST_PANELS,
        "first": first,
        "table": table,
        "coverage": tables.coverage_sentence(comparison),
        "outside": tables.outside_sentence(comparison.models),
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
    first, about, trivial = evaluation.arms[0], evaluation.verdict.about, tables.trivial_accuracy(evaluation)
    errors = (ECE.event_key, ECE.key) if evaluation.kind == "binary" else (ECE.key,)
    error = about if about in first.metrics else next((key for key in errors if key in first.metrics), None)
    rare = (AUROC.key,) if tables.is_rare(evaluation) else ()
    wanted = (error, NLL.key, *rare, ACCURACY.key, BRIER.key, GAP.key, MEAN_CONFIDENCE.key)
    known = [key for key in wanted if key and key in first.metrics and first.metrics[key].value is not None]

    def shown(key: str) -> Number:
        described = words.metric(key, evaluation.kind)
        later = None if after is None else after.metrics.get(key)
        mark = None
        if after is not None and later is not None:
            mark = words.mark_of_change(key, evaluation.kind, later, after.change.get(key))
            mark = tables.mark_above_trivial(key, mark, later.value, trivial)
        before, later_null = (
            next(iter(tables.nulls_of([] if arm is None else [arm], key)), None) for arm in (first, after)
        )
        title, meaning = described.title, described.meaning
        return Number(key, title, meaning, first.metrics[key], later, mark, before, later_null)

    return [shown(key) for key in known[:NUMBERS]]


def _main_diagrams(groups: list[pictures.Diagrams], evaluation: Evaluation) -> pictures.Diagrams | None:
    """The diagrams of what the verdict is about: of a binary model the positive class or the top label."""
    about = evaluation.verdict.about or ""
    if evaluation.kind == "binary" and about and not about.startswith(EVENT):
        return next((each for each in groups if each.title == "top label"), None)
    return next(iter(groups), None)


def _is_about_classes(evaluation: Evaluation) -> bool:
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


def _moved(comparison: Comparison) -> tuple[tuple[str, ...], list[Moved]]:
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


def _advice(evaluation: Evaluation) -> str:
    """What to do if there is no command: the last sentence of the verdict."""
    return evaluation.verdict.sentences[-1] if evaluation.verdict.sentences else ""


def _why_title(evaluation: Evaluation) -> str:
    after = tables.recommended(evaluation)
    return "no repair" if after is None else title_of(after)


def _contents(evaluation: Evaluation, **there: object) -> Iterator[tuple[str, str]]:
    """The sections of the page, by identifier; ``there``: what the optional ones would show."""
    noun = "Labels" if evaluation.kind == "multilabel" else "Classes"
    titles = {
        "numbers": "Metrics",
        "verdict": "Explanation",
        "choice": f"Why {_why_title(evaluation)}",
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


def _null_sentences(evaluation: Evaluation) -> list[str]:
    """The answer to "is this more than chance?" for the predictions as they came."""
    first, level = evaluation.arms[0], evaluation.settings.level
    return [
        tables.null_sentence(null, observed, evaluation.kind, level)
        for null in sorted(first.null, key=lambda null: display_order(null.metric))
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
            for null in sorted(part.null, key=lambda null: display_order(null.metric))
            if (observed := part.metrics[null.metric].value) is not None
        ]
        if rows:
            groups.append((part.title, rows))
    return groups


Found = TypeVar("Found", Evaluation, Comparison, Monitoring)

# Where paths may stand, beside the command. Arms and models have numbers by the thousand and no paths.
_TEXTS = {
    Evaluation: ("verdict", "notes", "settings"),
    Monitoring: ("notes", "source", "baseline"),
    Comparison: ("verdict", "short", "warnings", "notes"),
}

# From a root (/, C:\, \\host) up to the last separator before the name.
_FOLDERS = re.compile(r"(?<![\w.~/\\-])(?:[A-Za-z]:[\\/]|\\\\|/)(?:[^\s/\\'\"`]+[\\/])+(?=[^\s/\\'\"`])")

# A whole argument that is such a path, or the value of an option that is.
_PATH = re.compile(r"^(--?[\w-]+=)?(?:[A-Za-z]:[\\/]|\\\\|/).*[\\/](?=[^/\\])")


def without_folders(text: str) -> str:
    r"""A text in which absolute paths are cut to their last part.

    Example:
        >>> without_folders("in /home/ann/x/p.npz, at 1/2 and a/b.npz; C:\\Users\\ann\\q.csv")
        'in p.npz, at 1/2 and a/b.npz; q.csv'
    """
    return _FOLDERS.sub("", text)


def command_to_share(command: str) -> str:
    """A command line whose absolute paths are cut to their last part, blanks in them or not.

    Example:
        >>> command_to_share("calibrant evaluate '/home/ann/my data/p.npz' --report=/tmp/r.html")
        'calibrant evaluate p.npz --report=r.html'
    """
    try:
        words = shlex.split(command)
    except ValueError:
        return without_folders(command)
    return shlex.join(_PATH.sub(r"\1", word) for word in words)


def to_share(found: Found) -> Found:
    """The same evaluation or comparison, with names of files in place of absolute paths."""
    return _cut(found)


def _cut(value: Any) -> Any:
    """The same without folders in its texts."""
    if isinstance(value, str):
        return without_folders(value)
    for kind, texts in _TEXTS.items():
        if isinstance(value, kind):
            changes = {name: _cut(getattr(value, name)) for name in texts}
            if isinstance(value, Comparison):
                changes["models"] = tuple(
                    dataclasses.replace(each, name=_cut(each.name)) for each in value.models
                )
            command = None if value.command is None else command_to_share(value.command)
            return dataclasses.replace(value, command=command, **changes)
    if isinstance(value, Verdict) and value.commands:
        commands = tuple(command_to_share(each) for each in value.commands)
        return dataclasses.replace(_cut(dataclasses.replace(value, commands=())), commands=commands)
    if isinstance(value, Repair):
        return dataclasses.replace(value, file=None if value.file is None else _PATH.sub("", value.file))
    if isinstance(value, tuple):
        return tuple(_cut(each) for each in value)  # pyright: ignore[reportUnknownVariableType]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(
            value, **{each.name: _cut(getattr(value, each.name)) for each in dataclasses.fields(value)}
        )
    return value


def report_date() -> date:
    """Today, or the day of ``SOURCE_DATE_EPOCH``, which makes reports reproducible to the byte.

    Raises:
        InputError: If the variable is set to anything but a number of seconds.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return datetime.now(tz=UTC).astimezone().date()
    try:
        return datetime.fromtimestamp(int(epoch), tz=UTC).date()
    except (ValueError, OverflowError, OSError) as error:
        msg = f"`SOURCE_DATE_EPOCH` must be a number of seconds since 1970; got {epoch!r}."
        raise InputError(msg) from error
