"""What the terminal shows, at every width, and what holds of the verdict, here and in the report."""

import dataclasses
import html
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from calibrant._math.text_form import Note
from calibrant.evaluation import evaluate, phrases
from calibrant.evaluation.result import Check, Comparison, Coverage, Coverages, Estimate, Evaluation, Part
from calibrant.predictions import Predictions
from calibrant.reports import render, render_comparison, tables, words
from calibrant.reports.html import report_text
from calibrant.reports.terminal_table import Name
from undrawn import drawing_no_diagrams

FOUR = ("uncalibrated", "temperature", "focal-temperature", "platt")


def printed(
    found: Evaluation | Comparison, width: int = 80, *, encoding: str = "utf-8", verbose: bool = False
) -> str:
    """What is printed where output is piped into a file."""
    binary = io.BytesIO()
    console = Console(file=io.TextIOWrapper(binary, encoding=encoding, newline="\n"), width=width)
    if isinstance(found, Evaluation):
        render(found, console, verbose=verbose)
    else:
        render_comparison(found, console, verbose=verbose)
    console.file.flush()
    return binary.getvalue().decode(encoding)


def flat(text: str) -> str:
    """Text with every run of blanks as one."""
    return " ".join(text.split())


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("kind", ["multiclass", "binary", "multilabel", "top_label"])
def test_an_evaluation_fits_the_terminal(width, kind, evaluation_of) -> None:
    """No line is longer than the terminal, no number is cut, and what matters is there."""
    arms = ("uncalibrated",) if kind == "top_label" else FOUR
    found = evaluation_of(kind, arms=arms, recommended=arms[-1])
    text = printed(found, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert flat(f"{found.verdict.short} {found.verdict.line}") in flat(text)
    repaired = kind != "top_label"
    assert "Noise floor: a perfectly" in flat(text)
    floor = r" +0\.\d+" * (1 + repaired)
    assert re.search(rf"^  noise floor{floor} *$", text, re.MULTILINE)
    key = "event_ece" if kind == "binary" else "ece"
    for part in words.brief(found.arms[0].metrics[key]):
        assert part in text
    for note in found.notes:
        assert f"note: {note}" in flat(text)
    if repaired:
        assert words.brief(found.arms[-1].metrics[key])[0] in text
        assert re.search(r"0\.\d+( ✗)?( \[[^]]*\])? better", text)
        assert ("after Platt scaling" in text) == (width >= 96)
    assert len(text.splitlines()) <= 45


def test_the_table_shows_the_numbers(evaluation_of) -> None:
    """Every row holds the value, the interval and the judgement before and after the repair."""
    found = evaluation_of("multilabel")
    lines = printed(found, 120).splitlines()
    for key, title in {"ece": "ECE", "nll": "Log loss", "accuracy": "Accuracy"}.items():
        (line,) = (line for line in lines if re.match(rf"{title}  ", line))
        expected: list[str] = []
        for arm in (found.arms[0], found.arm(found.verdict.recommended)):
            mark = words.mark_of_change(key, "multilabel", arm.metrics[key], arm.change.get(key))
            value, interval = words.brief(arm.metrics[key], key)
            off = key == "ece" and arm.metrics[key].value > arm.null[0].upper
            expected += [value, *(["✗"] if off else []), interval, *([mark] if mark else [])]
        assert flat(line).startswith(flat(f"{title} {' '.join(expected)}"))


def test_only_the_recommended_repair_has_a_column(evaluation_of) -> None:
    found = evaluation_of(arms=FOUR, recommended="platt")
    for width in (60, 120):
        assert "Focal" not in printed(found, width).partition("Next")[0]
        text = printed(found, width, verbose=True)
        assert "Candidate" in text
        assert "Focal temperature scaling" in flat(text)
    warning = "Focal temperature scaling: gamma lies on its bound"
    assert warning in flat(printed(found, 120, verbose=True))
    assert warning not in flat(printed(found, 120))


def test_what_the_verdict_names_has_a_row(evaluation_of) -> None:
    """A metric that a test's line names is in the table; others of its kind need --verbose."""
    found = evaluation_of()
    assert "Classwise ECE" not in printed(found, 120)
    assert "Classwise ECE" in printed(found, 120, verbose=True)
    check = Check(name="Classes", passed=False, text="7 of 10 are off", metrics=("classwise_ece",))
    named = printed(with_verdict(found, checks=(check, check)), 120)
    assert re.search(r"^Classwise ECE  ", named, re.MULTILINE)
    assert "✗ Classes: 7 of 10 are off" in flat(named)


def test_the_commands_can_be_copied(evaluation_of) -> None:
    """A shell reads the same words whatever the width, and a narrow terminal breaks before an option only."""
    found = evaluation_of()
    for width in (60, 80):
        text = printed(found, width)
        start = text.index("  calibrant fit")
        commands = text[start : text.index("note:")].replace("\\\n", " ").strip().splitlines()
        assert [command.split() for command in commands] == [
            ["calibrant", "fit", "model.npz", "--method", "temperature", "--out", "temperature.safetensors"],
            ["calibrant", "apply", "temperature.safetensors"],
        ]


def test_missing_metrics_say_why(evaluation_of) -> None:
    """A metric that could not be computed is named with its reason instead of a row of dashes."""
    text = flat(printed(evaluation_of("multiclass")))
    assert "Not computed: Log loss (infinite: 3 samples have probability 0 for their label)." in text
    text = flat(printed(evaluation_of("top_label", arms=("uncalibrated",))))
    assert "Not computed: Log loss, Brier score (needs the probabilities of all classes)." in text
    found = evaluation_of("binary")
    first = found.arms[0]
    hole = Estimate(value=None, reason="infinite: 3 samples give their true class probability 0")
    first = dataclasses.replace(first, metrics={**first.metrics, "nll": hole})
    text = flat(printed(dataclasses.replace(found, arms=(first, *found.arms[1:]))))
    assert f"Log loss, Uncalibrated: {hole.reason}" in text


def test_leaving_it_alone_is_a_recommendation(evaluation_of) -> None:
    found = evaluation_of(recommended="uncalibrated")
    text = printed(with_verdict(found, line="Leave the probabilities as they are.", commands=()))
    assert "Leave the probabilities as they are." in text
    assert "  value " in text
    assert "after" not in text
    assert "Next" not in text


def test_an_unclear_verdict_hints_at_groups(evaluation_of) -> None:
    """Columns that were not read may name groups; where all is decided nothing is said of that."""
    note = Note("Not used: `channel`.", "unused")
    found = dataclasses.replace(evaluation_of(recommended="uncalibrated"), notes=(note,))
    assert "test them with --group-column" not in flat(printed(found))
    said = flat(printed(with_verdict(found, direction="undecided")))
    assert "Not used: `channel`. If a column names groups, test them with --group-column." in said


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("kind", ["multiclass", "binary", "multilabel"])
def test_a_comparison_fits_the_terminal(width, kind, comparison_of) -> None:
    """Every model has its row, with as many metrics as fit, and no line is too long."""
    found = comparison_of(kind, num_models=5)
    text = printed(found, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert flat(found.verdict) in flat(text)
    for model in found.models:
        assert words.shortened(model.name, most=20) in text
        assert words.brief(model.metrics["event_ece" if kind == "binary" else "ece"])[0] in text
    assert "Accuracy" in text or width == 60  # the headline compares it
    assert "top label" not in text
    assert "differences from" in flat(text)
    apart = flat(printed(comparison_of(kind, paired=False), width))
    assert "The samples might differ: " in apart


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_terminals_without_unicode_get_plain_letters(encoding, evaluation_of, comparison_of) -> None:
    text = printed(evaluation_of(), encoding=encoding)
    assert text.startswith("v Overconfident: average confidence")
    assert "[0.0467, 0.0581]" in text
    assert "?" not in text
    found = comparison_of()
    strange = dataclasses.replace(
        found, models=(dataclasses.replace(found.models[0], name="模型"), *found.models[1:])
    )
    assert "??" in printed(strange, encoding=encoding)


def with_verdict(found: Evaluation, **changes: Any) -> Evaluation:
    """The evaluation with something else in its verdict."""
    return dataclasses.replace(found, verdict=dataclasses.replace(found.verdict, **changes))


def test_the_next_step_says_on_what_it_depends(evaluation_of) -> None:
    found = with_verdict(
        evaluation_of(),
        condition="if it rains",
        caution="Mind the step.",
        commands=("calibrant one", "calibrant two"),
    )
    text = flat(printed(found))
    assert "Next, if it rains calibrant one calibrant two" in text
    assert text.index("Mind the step.") < text.index("noise floor")
    assert "Next calibrant fit" in flat(printed(evaluation_of()))
    # Square brackets are printed, not obeyed.
    found = dataclasses.replace(evaluation_of(), notes=("see [bold]x[/bold] and [link=y]z[/link]",))
    assert "see [bold]x[/bold] and [link=y]z[/link]" in flat(printed(found))


def test_it_says_how_often_the_intervals_cover(evaluation_of) -> None:
    """Of errors in the table, from the lowest cell to the highest, or on average; and of their changes."""
    ece = Coverage(average=0.97, lowest=0.94, highest=0.996, cells=72, sets=36_000)
    smce = Coverage(average=0.961, lowest=None, highest=None, cells=72, sets=144)
    coverage = Coverages(level=0.95, values={"ece": ece, "smce": smce}, changes={"ece": smce})
    found = dataclasses.replace(evaluation_of("multiclass"), coverage=coverage)
    assert tables.coverage_sentence(found) == (
        "In simulations (study coverage), 95% intervals contained the true value in this share of test sets: "
        "ECE 94–100%, smCE 96% on average; for changes, ECE 96% on average."
    )
    assert tables.coverage_sentence(found) in flat(printed(found, verbose=True))
    assert "contained the true value" not in flat(printed(found))
    without = dataclasses.replace(found, coverage=None)
    assert "contained the true value" not in flat(printed(without, verbose=True))


def test_a_value_outside_its_interval_is_explained(evaluation_of) -> None:
    found = evaluation_of(arms=("uncalibrated",))
    first = found.arms[0]
    plain = dataclasses.replace(first, metrics={"ece": Estimate(value=0.02, low=0.0, high=0.03)}, null=())
    above = dataclasses.replace(first, metrics={"ece": Estimate(value=0.04, low=0.0, high=0.03)}, null=())
    assert "lie above its interval" not in flat(
        printed(dataclasses.replace(found, arms=(plain,)), verbose=True)
    )
    assert "lie above its interval" in flat(printed(dataclasses.replace(found, arms=(above,)), verbose=True))


def test_several_labels_are_named_the_worst_first(evaluation_of) -> None:
    found = evaluation_of("multilabel", num_classes=8)
    rows = sorted(found.arms[0].classes, key=lambda row: -row.ece)
    lines = printed(found, 120).partition("Worst labels")[2].splitlines()[2:7]
    for row, line in zip(rows, lines, strict=False):
        assert phrases.number(row.ece) in line
    assert "The report shows the other 3." in flat(printed(found, 120))
    assert "Worst labels" not in printed(evaluation_of("multiclass"), 120)


def test_what_several_fits_warn_of_is_said_once() -> None:
    predictions = Predictions(
        probs=[[1.0, 0.0, 0.0], [0.5, 0.3, 0.2], [0.2, 0.3, 0.5]] * 20, labels=[0, 1, 2] * 20
    )
    found = evaluate(
        predictions, calibrators=["temperature", "focal-temperature"], bootstrap=20, null_draws=20
    )
    said = flat(printed(found))
    assert said.count("of exactly zero were counted") == 1


@pytest.mark.parametrize(
    ("name", "width", "lines"),
    [
        ("cross-entropy", 13, ["cross-entropy"]),
        ("cross-entropy", 11, ["cross-", "entropy"]),
        ("focal(gamma=2.5, alpha=1)", 17, ["focal(gamma=2.5,", "alpha=1)"]),
        ("runs/weight_decay/predictions.csv", 16, ["runs/weight_", "decay/", "predictions.csv"]),
        ("[bold]", 6, ["[bold]"]),
        ("abcdefgh", 5, ["abcde", "fgh"]),
        ("", 5, [""]),
    ],
)
def test_lines_end_after_parts(name, width, lines) -> None:
    """Within a word only where it is wider than the column; nothing is left out, markup is text."""
    table = Table.grid()
    table.add_column(width=width)
    table.add_row(Name(name))
    out = io.StringIO()
    Console(file=out, width=80).print(table)
    assert [line.rstrip() for line in out.getvalue().splitlines()] == lines


HOLDS = Part(name="top label", holds=True, p_value=0.4, adjusted_p=0.4, num_draws=1000)
FAILS = Part(name="classes", holds=False, p_value=0.000999, adjusted_p=0.003, num_draws=1000)


@pytest.fixture
def in_part(evaluation_of: Callable[..., Evaluation]) -> Evaluation:
    found = evaluation_of("multiclass")
    first = dataclasses.replace(found.arms[0], parts=(HOLDS, FAILS))
    rows = tuple(
        dataclasses.replace(row, adjusted_p=0.004 if place else 0.5, mean_probability=0.2 + place / 100)
        for place, row in enumerate(first.classes[:2])
    )
    verdict = dataclasses.replace(
        found.verdict,
        direction="calibrated in part",
        headline="Partly miscalibrated: overall confidence is fine, class probabilities are not.",
    )
    arms = tuple(dataclasses.replace(arm, classes=arm.classes[:2]) for arm in found.arms[1:])
    return dataclasses.replace(found, arms=(dataclasses.replace(first, classes=rows), *arms), verdict=verdict)


@drawing_no_diagrams()
def test_the_report_says_what_holds(in_part) -> None:
    """Below the first screen, each part with mark, words and p-value; the verdict's mark has its colour."""
    text = report_text(in_part)
    top, _, rest = text.partition("</header>")
    assert '<header class="calibrated-in-part">' in top
    assert "◐</span>" in top
    assert re.search(r"✓</span> top label <[^>]*>passes, p = 0.4<", rest)
    assert re.search(r"✗</span> classes <[^>]*>fails, p ≤ 0.003<", rest)
    assert re.search(r'title="[^"]*Holm[^"]*">p adjusted for 2 tests<', rest)
    assert ".calibrated-in-part .mark" in text


@drawing_no_diagrams()
def test_classes_that_are_off_stand_out(in_part) -> None:
    """Their mean probability is bold in the table, and below it stands what that means."""
    text = report_text(in_part)
    assert "<td><strong>0.2100</strong></td>" in text
    assert "<td>0.2000</td>" in text
    assert "Average probabilities in bold differ from the actual rate by more than noise" in text


def test_the_terminal_has_three_states(in_part) -> None:
    """Yellow for what is calibrated in part, green for all of it, and marks that differ without colour."""
    first_lines: dict[Any, str] = {}
    for direction in ("calibrated", "calibrated in part", "undecided"):
        found = dataclasses.replace(
            in_part, verdict=dataclasses.replace(in_part.verdict, direction=direction)
        )
        out = io.StringIO()
        render(found, Console(file=out, width=100, force_terminal=True, color_system="standard"))
        first_lines[direction] = out.getvalue().splitlines()[0]
    assert "\x1b[1;32m● " in first_lines["calibrated"]
    assert "\x1b[1;33m◐ " in first_lines["calibrated in part"]
    assert "\x1b[1m? " in first_lines["undecided"]


@drawing_no_diagrams()
def test_comparisons_say_who_errs_beyond_chance(comparison_of) -> None:
    """Each model with the parts that do not hold; where none is known, nothing is said."""
    comparison = comparison_of("multiclass")

    def said(*parts: tuple[Part, ...]) -> tuple[str, str]:
        models = tuple(
            dataclasses.replace(model, parts=each)
            for model, each in zip(comparison.models, parts, strict=False)
        )
        found = dataclasses.replace(comparison, models=models)
        out = io.StringIO()
        render_comparison(found, Console(file=out, width=300))
        return out.getvalue(), report_text(found)

    names = [model.name for model in comparison.models]
    for text in said((HOLDS, FAILS), (HOLDS,)):
        shown = html.unescape(text).replace("<wbr>", "")
        assert (
            f"1 of 2 fails the calibration test: {names[0]} (class probabilities). Passes: {names[1]}."
            in shown
        )
    for text in said((HOLDS,), (HOLDS,)):
        assert "Every model passes the calibration test on all samples together." in text
    for text in said((), ()):
        assert "the calibration test:" not in text.lower()
        assert "passes the calibration test" not in text
