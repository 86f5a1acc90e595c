"""Output for CI systems and collectors: Markdown summaries, JUnit XML, Prometheus metrics."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from calibrant.evaluation.gate.check import summed_up
from calibrant.evaluation.gate.result import Check, GateError, GateResult
from calibrant.evaluation.monitoring.result import Monitoring
from calibrant.evaluation.phrases import title as title_within
from calibrant.evaluation.quantities import with_gate
from calibrant.evaluation.result import Comparison, Evaluation
from calibrant.reports import tables, words
from calibrant.reports.commands import with_commands
from calibrant.reports.sharing import to_share

MARKS = {"pass": "pass", "within noise": "pass, within noise", "fail": "FAIL"}
TOO_FEW = "pass, too few samples to tell"
MOST_OF_GROUPS = 5  # checks of groups that have a line each

_HELP = {
    "alarm": "Whether the monitor has raised an alarm.",
    "evidence_log10": "Evidence against each hypothesis after the last window, as a power of ten.",
    "threshold_log10": "Evidence that raises an alarm.",
    "samples": "Samples seen.",
    "labelled_samples": "Samples whose label is known.",
    "window": "What the last window with labels shows.",
    "window_end_seconds": "When that window ends.",
}


def prometheus_text(found: Monitoring, *, model: str | None = None) -> str:
    """Metrics in Prometheus's text format; those of a window are of the last one that has labels.

    Each has the labels ``file``, if the samples came from one, and ``model``, if it is named, so that the
    metrics of several models stay apart.

    Example:
        >>> import numpy as np
        >>> from calibrant import Predictions
        >>> from calibrant.evaluation import monitor
        >>> stream = Predictions(confidence=[0.5, 0.6] * 20, correct=[1, 0, 1, 1] * 10)
        >>> found = monitor(stream, np.arange(40), window=20, bootstrap=10)
        >>> print(prometheus_text(found, model="a").splitlines()[2])
        calibrant_monitor_alarm{model="a"} 0
    """
    rows: dict[str, list[tuple[dict[str, str], float]]] = {name: [] for name in _HELP}
    rows["alarm"] = [({}, 0 if found.passed else 1)]
    rows["samples"] = [({}, found.num_samples)]
    rows["labelled_samples"] = [({}, found.num_labelled)]
    for test in found.tests:
        label = {"test": test.key}
        rows["evidence_log10"].append((label, test.log10_evidence[-1]))
        rows["threshold_log10"].append((label, test.log10_threshold))
    last = next((each for each in reversed(found.windows) if each.metrics), None)
    for name, estimate in {} if last is None else last.metrics.items():
        for bound in ("value", "low", "high"):
            if (number := getattr(estimate, bound)) is not None:
                rows["window"].append(({"metric": name, "bound": bound}, number))
    if last is not None and last.end_seconds is not None:
        rows["window_end_seconds"] = [({}, last.end_seconds)]
    which = {} if found.source is None else {"file": found.source.name}
    which |= {} if model is None else {"model": model}
    lines: list[str] = []
    for name, values in rows.items():
        if values:
            full = f"calibrant_monitor_{name}"
            lines += [f"# HELP {full} {_HELP[name]}", f"# TYPE {full} gauge"]
            lines += [f"{full}{_labels(which | own)} {number:.17g}" for own, number in values]
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    r"""Labels and values in Prometheus's syntax.

    Example:
        >>> print(_labels({"file": 'a "b".csv', "model": "x"}))
        {file="a \"b\".csv",model="x"}
    """
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    inside = ",".join(f'{name}="{value.translate(escapes)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def markdown_text(
    found: Evaluation | Comparison | GateResult | GateError, *, files: Mapping[str, object] | None = None
) -> str:
    """A short summary in GitHub's and GitLab's Markdown, for job summaries and comments.

    It has the headline, the tests and the table that the terminal shows. Its first line is a comment by which
    the commands, or a bot that updates a comment, recognise it. Absolute paths are cut to their last part,
    and names cannot add markup.

    Args:
        found: Result of :func:`calibrant.evaluate`, :func:`calibrant.compare` or
            :func:`calibrant.evaluation.check`.
        files: Further files by content, for a last line; those that are None are left out.

    Returns:
        The text, with a newline at its end.

    Example:
        >>> from calibrant.evaluation import check
        >>> from calibrant.predictions import Predictions
        >>> predictions = Predictions(confidence=[0.9] * 50, correct=[1] * 45 + [0] * 5)
        >>> text = markdown_text(check(predictions, {"ece": 0.03}), files={"JUnit": "checks.xml"})
        >>> print(text.splitlines()[1], text.splitlines()[-1], sep="; ")
        ### ✓ The check passes; JUnit: `checks.xml`
    """
    match to_share(found):
        case Evaluation() as shown:
            content = _of_evaluation(with_commands(shown))
        case Comparison() as shown:
            content = _of_comparison(shown)
        case GateResult() as shown:
            failing = sum(not each.passed for each in shown.checks)
            said = f"{failing} of {words.plural(len(shown.checks), 'check')} fail{'s' * (failing == 1)}"
            content = {
                "headline": f"✗ {said}" if failing else "✓ The check passes",
                "name": shown.source and shown.source.name,
                "points": [*check_lines(shown)],
            }
        case shown:
            content = {"headline": "✗ The check could not run", "said": [shown.error]}
    named = {what: file for what, file in (files or {}).items() if file is not None}
    return _summary().render(
        {"name": None, "points": (), "said": (), "heads": (), "rows": (), "notes": (), "commands": ()}
        | content
        | {"files": named}
    )


def _of_evaluation(found: Evaluation) -> dict[str, Any]:
    verdict, arms = found.verdict, tables.before_and_after(found)
    after = [f"after {title_within(arm)}" for arm in arms[1:]]
    return {
        "headline": f"{words.MARK_OF[verdict.direction]} {verdict.short or verdict.headline}",
        "name": found.source and found.source.name,
        "points": [("✓" if each.passed else "✗", f"{each.name}: {each.text}") for each in verdict.checks],
        "said": [*verdict.line.splitlines(), verdict.caution, *_warned(verdict.warnings)],
        "heads": (
            words.plural(found.num_test, "sample"),
            *(["before", *after] if after else ["value"]),
        ),
        "rows": [(row.title, *map(_cell, row.cells)) for row in tables.brief_rows(found)],
        "notes": [tables.floor_sentence(found), *found.notes],
        "commands": verdict.commands,
    }


def _of_comparison(found: Comparison) -> dict[str, Any]:
    titles, rows = tables.brief_models(found)
    return {
        "headline": found.short or found.verdict,
        "said": [tables.tests_sentence(found), *_warned(found.warnings)],
        "heads": (f"{words.percent(found.settings.level)} intervals", *titles, "noise floor"),
        "rows": [(row.title, *map(_cell, row.cells), *(row.floors or (words.MISSING,))) for row in rows],
        "notes": [tables.floor_sentence(found), tables.pairing_sentence(found), *found.notes],
    }


def _warned(warnings: tuple[str, ...]) -> list[str]:
    return [f"warning: {each}" for each in warnings]


def _cell(cell: tables.Brief) -> str:
    return " ".join(filter(None, (cell.value, cell.interval, cell.mark)))


@cache
def _summary() -> Template:
    environment = Environment(
        loader=PackageLoader("calibrant.reports"),
        finalize=_escaped,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("summary.md")


_MARKUP = re.compile(r"[\\`*<|~$]|(?<!\w)_|_(?!\w)|\](?=[(\[])|&(?=#?\w)")


def _escaped(value: object) -> str:
    r"""Escape markup in names; text in backquotes stays code.

    Example:
        >>> print(_escaped("a|b <c> my_class `--cluster`"))
        a\|b \<c> my_class `--cluster`
    """
    text = " ".join(str(value).split())
    if isinstance(value, Markup):
        return str(value)
    pieces = text.split("`")
    if len(pieces) % 2 == 0 or any("|" in piece for piece in pieces[1::2]):
        pieces = [text]
    pieces[::2] = [_MARKUP.sub(r"\\\g<0>", piece) for piece in pieces[::2]]
    return "`".join(pieces)


def check_lines(found: GateResult, *, quiet: bool = False) -> Iterator[tuple[str, str]]:
    """Marks and sentences of a gate, as the terminal and a summary show them.

    Args:
        found: Result of :func:`calibrant.evaluation.check`.
        quiet: Leave out checks that pass, and notes.

    Yields:
        A mark, such as ``FAIL``, ``pass``, ``warning`` or ``note``, and a sentence.
    """
    shown, passing = summed_up(found.checks, MOST_OF_GROUPS)
    yield from (("warning", warning) for warning in found.warnings)
    for each in shown:
        if not (quiet and each.passed):
            mark = "FAIL" if not each.passed else MARKS[each.outcome] if each.conclusive else TOO_FEW
            yield mark, each.sentence
    if not quiet:
        yield from () if passing is None else (("pass", f"{passing}."),)
        yield from (("note", note) for note in found.notes)


def junit_text(found: GateResult) -> str:
    """One test case per check, with its sentence as the message of a failure or as output.

    Example:
        >>> from calibrant.evaluation import check
        >>> from calibrant.predictions import Predictions
        >>> predictions = Predictions(confidence=[0.9] * 50, correct=[1] * 45 + [0] * 5)
        >>> text = junit_text(check(predictions, {"ece": 0.03}))
        >>> text.splitlines()[1]
        '<testsuites name="calibrant check" tests="1" failures="0" errors="0">'
    """
    cases = [
        (_name(each), "system-out" if each.passed else "failure", each.kind, each.sentence)
        for each in found.checks
    ]
    name = "predictions" if found.source is None else found.source.name
    return _junit(name, cases, found.warnings)


def junit_error(name: str, sentence: str) -> str:
    """One test case with an error: the reason that a file could not be checked.

    Example:
        >>> junit_error("p.npz", "there is no such file.").splitlines()[4].strip()
        '<error message="there is no such file." type="error">there is no such file.</error>'
    """
    return _junit(name, [("check", "error", "error", sentence)])


def _junit(name: str, cases: list[tuple[str, str, str, str]], warnings: Sequence[str] = ()) -> str:
    """Cases are names, tags, types and sentences."""
    tags = [tag for _, tag, _, _ in cases]
    counts = {"tests": len(cases), "failures": tags.count("failure"), "errors": tags.count("error")}
    numbers = {what: str(count) for what, count in counts.items()}
    root = ET.Element("testsuites", {"name": "calibrant check", **numbers})
    suite = ET.SubElement(root, "testsuite", {"name": f"calibrant check {name}", **numbers, "skipped": "0"})
    for title, tag, kind, sentence in cases:
        case = ET.SubElement(suite, "testcase", {"classname": f"calibrant.check.{name}", "name": title})
        more = {} if tag == "system-out" else {"message": sentence, "type": kind}
        ET.SubElement(case, tag, more).text = sentence
    if warnings:
        ET.SubElement(suite, "system-err").text = "\n".join(warnings)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    allowed = "".join(letter for letter in text if letter >= " " or letter in "\t\n")  # XML 1.0 has no others
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{allowed}\n'


def _name(each: Check) -> str:
    if each.group is not None:
        return f"{_name(replace(each, group=None))} in group {each.group}"
    if each.kind == "baseline":
        return f"{each.metric} no worse than the baseline"
    return f"{each.metric} at {'least' if with_gate()[each.metric].sign < 0 else 'most'} {each.against:g}"
