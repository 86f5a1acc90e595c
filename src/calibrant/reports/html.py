"""The report: one HTML file that needs no network, of an evaluation, a comparison or a monitor."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from calibrant._math.errors import InputError
from calibrant._math.files import write_text
from calibrant._math.text_form import suggesting
from calibrant.evaluation.group_repairs import ARMS, ByGroup, said_of
from calibrant.evaluation.group_repairs import title_of as title_of_repairs
from calibrant.evaluation.monitoring.result import Monitoring
from calibrant.evaluation.phrases import number as short_number
from calibrant.evaluation.phrases import p_number, part_p_value
from calibrant.evaluation.phrases import title as title_of
from calibrant.evaluation.quantities import CLASSWISE_ECE
from calibrant.evaluation.quantity import EVENT
from calibrant.evaluation.result import Comparison, Evaluation
from calibrant.evaluation.verdict.case import is_shifted
from calibrant.reports import monitoring, pictures, tables, words
from calibrant.reports.commands import mark_of_files, with_commands
from calibrant.reports.figures.drawing import drawing_style
from calibrant.reports.sections import Section
from calibrant.reports.sharing import to_share

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
MOST_CLASSES = 10  # of one table; of more, the worst are first
WORST_CLASSES = 6


@suggesting()
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
    shown by name, never by an absolute path. A file that is there is replaced; a failure leaves it as it was.

    Args:
        found: Result of :func:`calibrant.evaluate`, :func:`calibrant.compare` or
            :func:`calibrant.evaluation.monitor`.
        path: A file name that ends in ``.html``, in a folder that exists.
        title: Subject of the page, such as the model's name; by default the file's name.
        before: Further sections before those of the evaluation or comparison.
        after: Further sections after them.
        files: Files it is made from; the page carries a mark (no path) by which commands recognise it.
        by_group: Effects of repairs on each group, for an evaluation.

    Raises:
        InputError: If the name ends otherwise.
        OSError: If the folder is missing or may not be written to.
    """
    if Path(path).suffix.lower() != ".html":
        raise InputError(f"`path` must end in .html; got {Path(path).name!r}.")
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
    given: dict[str, object] = {
        "title": title,
        "date": report_date(),
        "made_by": mark_of_files(files) if files else "",
        "before": before,
        "after": after,
    }
    if not isinstance(found, Evaluation | Comparison | Monitoring):
        msg = f"`found` must be an Evaluation, a Comparison or a Monitoring; got {type(found).__name__}."
        raise TypeError(msg)
    with drawing_style():
        match to_share(found):
            case Evaluation() as shown:
                page, context = "evaluation.html", _evaluation_context(with_commands(shown), by_group)
            case Comparison() as shown:
                page, context = "comparison.html", _comparison_context(shown)
            case shown:
                page, context = "monitoring.html", monitoring.context(shown)
        return templates().get_template(page).render(context | given)


def first_screen(evaluation: Evaluation) -> str:
    """The first screen of the report as a piece of HTML that takes the colours of the page around it."""
    with drawing_style():
        context = _first_screen_context(with_commands(to_share(evaluation)))
        page = templates().get_template("notebook.html").render(context)
    mark = hashlib.sha256(page.encode()).hexdigest()[:8]  # its identifiers are this piece's alone
    return re.sub(r' id="|url\(#|href="#', rf"\g<0>{mark}-", page)


@cache
def templates() -> Environment:
    """Templates that escape every value and raise for missing names."""
    environment = Environment(
        loader=PackageLoader("calibrant.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = environment.filters
    of_words = (words.number, words.interval, words.brief, words.count, words.plural, words.percent)
    of_words += (words.parameter, words.parameter_name, words.halves, words.misses, p_number, part_p_value)
    filters |= {each.__name__: each for each in of_words}
    filters |= {
        f"signed_{each.__name__}": partial(each, signed=True) for each in (words.number, words.interval)
    }
    filters |= {"short_number": short_number, "sentence": _sentence, "breakable": _breakable}
    filters |= {"dates": _dates, "day": _day}
    known: dict[str, Any] = environment.globals
    known |= {"tables": tables, "pictures": pictures, "words": words, "is_shifted": is_shifted}
    known |= {"repair_arms": ARMS, "title_of_repairs": title_of_repairs, "said_of_repairs": said_of}
    return environment


def _sentence(text: str) -> Markup:
    """A sentence of a verdict, with its text in backquotes as code."""
    pieces = text.split("`")
    return Markup().join(
        Markup("<code>{}</code>").format(piece) if place % 2 else piece for place, piece in enumerate(pieces)
    )


def _breakable(text: str) -> Markup:
    """A name, or a sentence with names in it, that may be broken after an underscore or a slash."""
    pieces = re.split(r"(?<=[_/])(?![_/])", text)
    return Markup("<wbr>").join(Markup.escape(piece) for piece in pieces)


_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?")


def _dates(text: str) -> Markup:
    """A text whose dates stay on one line."""
    return Markup(_DATE.sub(r'<span class="date">\g<0></span>', str(Markup.escape(text))))


def _day(date: date) -> str:
    """``22 November 2026``, whatever the language of the system."""
    return f"{date.day} {MONTHS[date.month - 1]} {date.year}"


def _first_screen_context(evaluation: Evaluation) -> dict[str, object]:
    groups, several = pictures.diagrams(evaluation), evaluation.kind == "multilabel"
    after = tables.recommended(evaluation)
    main, shifts, finding = _main_diagrams(groups, evaluation), pictures.class_shifts(evaluation), ()
    # A finding on classes or labels would not show in a reliability diagram.
    if shifts is not None and (several or evaluation.verdict.about == CLASSWISE_ECE.key):
        main, shifts, finding = None, None, (shifts, pictures.confidence_overlay(evaluation))
    return {
        "evaluation": evaluation,
        "recommended": after,
        "why_title": "no repair" if after is None else title_of(after),
        "table": tables.metric_table(evaluation),
        "all_diagrams": groups,
        "main_diagrams": main,
        "diagrams": [each for each in groups if each is not main],
        "shifts": shifts,
        "finding": [each for each in finding if each is not None],
    }


def _evaluation_context(evaluation: Evaluation, repairs: ByGroup | None) -> dict[str, object]:
    pairs = tables.class_pairs(evaluation)
    return _first_screen_context(evaluation) | {
        "choice": tables.choice_rows(evaluation),
        "shape_groups": pictures.shape_groups(evaluation),
        "detection": pictures.detection_picture(evaluation),
        "panels": pictures.label_panels(evaluation) if evaluation.kind == "multilabel" else [],
        "groups": tables.group_pairs(evaluation),
        "repairs": repairs,
        "all_pairs": pairs,
        "num_shown": len(pairs) if len(pairs) <= MOST_CLASSES else WORST_CLASSES,
    }


def _comparison_context(comparison: Comparison) -> dict[str, object]:
    models = comparison.models
    whole = [curve.name for curve in tables.whole_curves(models[0], comparison.kind)]
    labels = [  # those that every model has, so that a model keeps its colour from picture to picture
        curve.name
        for curve in tables.label_curves(models[0], comparison.kind)
        if all(curve.name in {other.name for other in model.curves} for model in models)
    ]
    return {
        "comparison": comparison,
        "failing": sum(not all(part.holds for part in model.parts) for model in models),
        "first": models[0],
        "table": tables.metric_table(comparison),
        "overlays": [
            pictures.overlay(comparison, name, f"overlay{place}", small=False)
            for place, name in enumerate(whole)
        ],
        "panels": [
            pictures.overlay(comparison, name, f"label{place}", small=True)
            for place, name in enumerate(labels[: pictures.MOST_PANELS])
        ],
        "num_labels": len(labels),
        "legend": pictures.legend([model.name for model in models[: pictures.MOST_OVERLAID]]),
        "diagrams": pictures.diagrams(comparison),
    }


def _main_diagrams(groups: list[pictures.Diagrams], evaluation: Evaluation) -> pictures.Diagrams | None:
    """The diagrams of the verdict's metric: for a binary model, of the positive class or the top label."""
    about = evaluation.verdict.about or ""
    if evaluation.kind == "binary" and about and not about.startswith(EVENT):
        return next((each for each in groups if each.title == "top label"), None)
    return next(iter(groups), None)


def report_date() -> date:
    """Today, or the day of ``SOURCE_DATE_EPOCH``, which makes reports reproducible to the byte."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    if not epoch:
        return datetime.now(tz=UTC).astimezone().date()
    try:
        return datetime.fromtimestamp(int(epoch), tz=UTC).date()
    except (ValueError, OverflowError, OSError) as error:
        raise InputError(
            f"`SOURCE_DATE_EPOCH` must be a number of seconds since 1970; got {epoch!r}."
        ) from error
