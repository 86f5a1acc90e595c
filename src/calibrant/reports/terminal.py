"""An evaluation or a comparison in the terminal: the verdict, one table, the next steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from io import StringIO

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from calibrant._math.text_form import of_kind
from calibrant.evaluation import quantities, result
from calibrant.evaluation.group_repairs import ARMS, ByGroup, said_of, title_of
from calibrant.evaluation.phrases import number as short_number
from calibrant.evaluation.phrases import percent as share
from calibrant.evaluation.phrases import title as title_within
from calibrant.evaluation.verdict.case import is_shifted
from calibrant.reports import tables, words
from calibrant.reports.commands import with_commands
from calibrant.reports.terminal_table import plain_table

CELL = 19  # of a comparison's table
FLOOR = 14  # of its last column
ONE_LINE = 96  # columns: narrower terminals show intervals below their values
MOST_GROUPS = 12
MOST_LABELS = 5
MOST_WARNINGS = 3  # of one calibrator
NAME = 22  # of a model, with two blanks
STYLE_OF: dict[result.Direction, str] = {
    "over-confident": "bold yellow",
    "under-confident": "bold blue",
    "over-predicting": "bold yellow",
    "under-predicting": "bold blue",
    "miscalibrated": "bold yellow",
    "calibrated in part": "bold yellow",
    "calibrated": "bold green",
    "undecided": "bold",
}
ASCII: dict[int, int | str] = {
    **str.maketrans("–−▼▲✓✗●◐\u00a0", "--v^+xo% "),
    **str.maketrans({"γ": "gamma", "…": "...", "→": "->", "≤": "<="}),
}


def render(
    evaluation: result.Evaluation, console: Console, *, by_group: ByGroup | None = None, verbose: bool = False
) -> None:
    """Print an evaluation in short; it fits 60 columns and needs neither colour nor Unicode.

    Args:
        evaluation: Result of :func:`calibrant.evaluate`.
        console: Where to print.
        by_group: Effects of repairs on each group, from ``evaluate --by-group``.
        verbose: Also print every metric, every candidate and how the numbers were computed.
    """
    evaluation = with_commands(evaluation)
    verdict, table = evaluation.verdict, tables.metric_table(evaluation)
    arms = tables.before_and_after(evaluation)
    headline = f"{words.MARK_OF[verdict.direction]} {verdict.short or verdict.headline}"
    parts: list[RenderableType] = [
        Text(headline, style=STYLE_OF[verdict.direction]),
        *_checks(verdict.checks),
        *(Text(line) for line in (*verdict.line.splitlines(), verdict.caution or "") if line),
        *_warned(verdict.warnings),
        Text(),
        *_metrics_down(evaluation, console.width, verbose=verbose),
        *_dim((*_missing(table), *_holes(table, len(arms)))),
        *_dim(_warnings(evaluation.arms if verbose else arms)),
        *_detection(evaluation.out_of_distribution),
        *_labels_down(evaluation),
        *_groups_down(evaluation, by_group),
        *(_at_length(evaluation) if verbose else ()),
        *_commands(evaluation, console.width),
        *_notes(_with_hint(evaluation)),
    ]
    _print(console, parts)


def render_comparison(comparison: result.Comparison, console: Console, *, verbose: bool = False) -> None:
    """Print a comparison in short; it fits 60 columns and needs neither colour nor Unicode.

    Args:
        comparison: Result of :func:`calibrant.compare`.
        console: Where to print; its width decides how many metrics the table shows.
        verbose: Also print the verdict in full and the measured coverage of the intervals.
    """
    table = tables.metric_table(comparison)
    said = [tables.pairing_sentence(comparison), *_holes(table, len(comparison.models))]
    if verbose:
        outside, coverage = tables.outside_sentence(comparison.models), tables.coverage_sentence(comparison)
        said += [comparison.verdict, outside, coverage]
    parts = [
        Text(comparison.short or comparison.verdict, style="bold"),
        *(Text(tests) for tests in [tables.tests_sentence(comparison)] if tests),
        *_warned(comparison.warnings),
        Text(),
        *_models_down(comparison, console.width),
        *_dim(said),
        *_notes(comparison.notes),
    ]
    _print(console, parts)


def as_text(found: result.Evaluation | result.Comparison, *, width: int = 80) -> str:
    """Output of :func:`render` or :func:`render_comparison`, without colour."""
    text = StringIO()
    console = Console(file=text, width=width, color_system=None, force_jupyter=False)
    if isinstance(found, result.Comparison):
        render_comparison(found, console)
    else:
        render(found, console)
    return "\n".join(map(str.rstrip, text.getvalue().splitlines()))


def _dim(sentences: Iterable[str]) -> list[Text]:
    return [Text(said, style="dim") for said in sentences if said]


def _checks(checks: Sequence[result.Check]) -> Iterable[RenderableType]:
    """A line for each of several tests; a single one is in the headline."""
    if len(checks) < 2:
        return
    grid = Table.grid(padding=(0, 1))
    for check in checks:
        mark = Text("✓", style="green") if check.passed else Text("✗", style="red")
        grid.add_row(" ", mark, Text(f"{check.name}:"), Text(check.text))
    yield grid


def _metrics_down(evaluation: result.Evaluation, width: int, *, verbose: bool) -> Iterable[RenderableType]:
    """Metrics as rows, before and after the recommended repair, each noise floor below its error."""
    arms = tables.before_and_after(evaluation)
    grid = plain_table()
    grid.add_column(Text(words.plural(evaluation.num_test, "sample"), style="dim"))
    grid.add_column("before" if len(arms) > 1 else "value", no_wrap=True)
    for arm in arms[1:]:
        grid.add_column(f"after {title_within(arm)}" if width >= ONE_LINE else "after", no_wrap=True)
    between = " " if width >= ONE_LINE else "\n"
    rows = tables.brief_rows(evaluation, every=verbose)
    for row in rows:
        cells = (_cell(cell, between) for cell in row.cells)
        grid.add_row(Text(row.title), *cells)
    yield grid
    yield from _dim([tables.floor_sentence(evaluation)])
    if any(row.key == quantities.BRIER_SKILL.key for row in rows):
        yield from _dim(["Brier skill: 0 is no better than always predicting the actual rate; 1 is perfect."])


def _labels_down(evaluation: result.Evaluation) -> list[Table | Text]:
    """The labels with the largest errors; empty if each sample has one label."""
    if evaluation.kind != "multilabel":
        return []
    pairs, level = tables.class_pairs(evaluation), evaluation.settings.level
    repaired = any(pair.after for pair in pairs)
    titles = ("Positive", "Predicted", "Actual", "ECE", *(["ECE after"] if repaired else []))
    grid = plain_table("Worst labels" if len(pairs) > MOST_LABELS else "Label", titles)
    for pair in pairs[:MOST_LABELS]:
        row, off = pair.before, is_shifted(pair.before, level)
        cells = [
            Text(words.shortened(row.name, most=24), style="bold" if off else ""),
            words.count(row.count),
            f"{share(row.mean_probability)}{' *' if off else '  '}",
            share(row.prevalence),
            short_number(row.ece),
        ]
        grid.add_row(
            *cells, *([short_number(pair.after.ece) if pair.after else words.MISSING] if repaired else [])
        )
    said = "*: significant after correcting for the number of labels."
    left = len(pairs) - MOST_LABELS
    said += f" The report shows the other {left}." if left > 0 else ""
    return [Text(), grid, *_dim([said])]


def _groups_down(evaluation: result.Evaluation, repairs: ByGroup | None = None) -> list[Table | Text]:
    """Short table of the groups, and the effects of repairs on them; empty without groups."""
    pairs = tables.group_pairs(evaluation)
    repaired = [] if repairs is None else [Text(), *_repairs_down(repairs, evaluation)]
    if not pairs:
        return repaired
    grid = plain_table("Group", ("Samples", "Predicted", "Actual", "ECE"))
    for pair in pairs[:MOST_GROUPS]:
        row = pair.before
        grid.add_row(
            Text(_folded(row.name), style="bold" if pair.real else ""),
            words.count(row.count),
            words.brief(row.predicted, quantities.ACCURACY.key)[0],
            Text("\n").join(map(Text, words.brief(row.actual, quantities.ACCURACY.key))),
            Text(words.brief(row.ece)[0]).append(
                f"\np {pair.p_value}{' *' if pair.real else ' ?' if pair.before.vague else ''}", style="dim"
            ),
        )
    hint = "Groups differ: --by-group tests whether one calibrator per group helps."
    untold = repairs is None and "--by-group" not in evaluation.verdict.line
    told = [Text(hint)] if untold and len(pairs) > 1 and any(pair.real for pair in pairs) else []
    return [Text(), grid, *_below(pairs), *told, *repaired]


def _folded(group: str) -> str:
    """A line for each column that names the group, ``sex=f; site=north``."""
    return "\n".join(words.shortened(part, most=20) for part in group.split("; "))


def _repairs_down(repairs: ByGroup, evaluation: result.Evaluation) -> list[Table | Text]:
    """Effects on each group of one repair for all, one per group, and multicalibration."""
    grid = plain_table("Group", [arm.capitalize() for arm in ARMS])
    for row in repairs.rows[: MOST_GROUPS + 1]:
        cells = [
            Text(words.number(gap.value, signed=True))
            .append(f"\n{words.interval(gap, signed=True)}", style="dim")
            .append(f"\nlog loss {words.brief(loss)[0]}")
            for gap, loss in zip(row.gaps, row.losses, strict=True)
        ]
        name = Text(_folded(row.name or "all")).append(f"\n{words.count(row.count)}", style="dim")
        grid.add_row(name, *cells)
    return [Text(title_of(repairs)), grid, *_dim([said_of(repairs, evaluation)])]


def _below(pairs: Sequence[tables.GroupPair]) -> list[Text]:
    """Key of the marks, and the number of groups left out."""
    said: list[str] = []
    if any(pair.real for pair in pairs[:MOST_GROUPS]):
        adjusted = f", corrected for {len(pairs)} groups (Holm)" if len(pairs) > 1 else ""
        said.append(f"*: above noise{adjusted}")
    if any(pair.before.vague and not pair.real for pair in pairs[:MOST_GROUPS]):
        said.append("?: too few samples to show an error of 5 points")
    if len(pairs) > MOST_GROUPS:
        said.append(f"{len(pairs) - MOST_GROUPS} more groups are in the report")
    return _dim([f"{'; '.join(said)}."] if said else [])


def _at_length(evaluation: result.Evaluation) -> Iterable[RenderableType]:
    """Every candidate, and how the numbers were computed."""
    if len(evaluation.arms) > 1:
        yield from (Text(), _candidates(evaluation))
    more = tables.outside_sentence(evaluation.arms), tables.coverage_sentence(evaluation)
    yield from (Text(), *_dim([*evaluation.verdict.sentences, *more]))


def _candidates(evaluation: result.Evaluation) -> Table:
    about, kind = evaluation.verdict.about or quantities.ECE.key, evaluation.kind
    keys = [
        key
        for key in (about, quantities.NLL.key, quantities.ACCURACY.key)
        if key in evaluation.arms[0].metrics
    ]
    validated = {each.name: each.nll for each, _ in tables.choice_rows(evaluation)}
    titles = [words.metric(key, kind).title.partition(", ")[0] for key in keys]
    grid = plain_table("Candidate", (*titles, "Tests", "Cross-validated log loss"))
    for arm in tables.ordered_arms(evaluation):
        passed = f"{sum(part.holds for part in arm.parts)} of {len(arm.parts)}" if arm.parts else ""
        score = words.brief(result.Estimate(value=validated.get(arm.name)))[0]
        grid.add_row(arm.title, *(words.brief(arm.metrics[key], key)[0] for key in keys), passed, score)
    return grid


def _models_down(comparison: result.Comparison, width: int) -> Iterable[RenderableType]:
    """Models as rows, as many metrics as columns as fit, and the noise floor of the first."""
    titles, rows = tables.brief_models(comparison)
    room = FLOOR if any(row.floors for row in rows) and width >= NAME + 3 * CELL + FLOOR else 0
    most = max(1, (width - NAME - room) // CELL)
    grid = plain_table(Text(f"{words.percent(comparison.settings.level)} intervals", style="dim"))
    for title in titles[:most]:
        grid.add_column(Text(title), justify="right", width=CELL - 3)
    if room:
        grid.add_column("noise floor", justify="right", width=FLOOR - 3)
    for row in rows:
        cells = [_cell(cell, "\n") for cell in row.cells[:most]]
        floor = [Text(*row.floors or (words.MISSING,))] if room else []
        grid.add_row(Text(words.shortened(row.title, most=NAME - 2)), *cells, *floor)
    yield grid
    yield from _dim([tables.floor_sentence(comparison)] if room else [])


def _cell(cell: tables.Brief, between: str) -> Text:
    text = Text(cell.value, style="bold" if cell.best else "")
    judged = Text(f" {cell.mark}", style="green" if cell.mark == "better" else "red") if cell.mark else Text()
    shown = Text(f"{between}{cell.interval}" if cell.interval else "", style="not bold dim")
    return text + (shown + judged if between == " " else judged + shown)


def _detection(found: result.OutOfDistribution | None) -> Iterable[RenderableType]:
    if found is None:
        return
    first = found.arms[0].metrics
    yield Text()
    yield Text(found.sentence)
    flagged = words.percent(first["fpr_at_95"].value or 0.0)
    said = (
        f"AUPR {words.number(first['aupr'].value)}; at a threshold that flags 95% of the out-of-distribution "
        f"samples, {flagged} of the test samples are flagged."
    )
    yield from _dim([said])


def _missing(found: tables.MetricTable) -> Iterable[str]:
    for reason, names in found.missing.items():
        if shown := [name for name in names if name in found.in_short]:
            yield f"Not computed: {', '.join(shown)} ({reason})."


def _holes(found: tables.MetricTable, columns: int) -> Iterable[str]:
    for row in (row for row in found.rows if row.in_short):
        for column, cell in zip(found.columns[:columns], row.cells, strict=False):
            if cell.estimate.value is None:
                yield f"{row.words.title}, {column.title}: {cell.estimate.reason or 'not computed'}."


def _warnings(arms: Sequence[result.Arm]) -> Iterable[str]:
    """Warnings of the fits, once for equal ones; only the first few of many labels."""
    for warning, names in tables.titles_by_warning(arms, most=MOST_WARNINGS).items():
        yield f"{', '.join(names)}: {warning}"
    for arm in arms:
        left = 0 if arm.fit is None else len(arm.fit.warnings) - MOST_WARNINGS
        if left > 0:
            yield f"{arm.title}: {left} more warnings in the report."


def _commands(evaluation: result.Evaluation, width: int) -> Iterable[RenderableType]:
    verdict = evaluation.verdict
    if verdict.commands:
        yield Text()
        yield Text(f"Next, {verdict.condition}" if verdict.condition else "Next", style="bold")
    for command in verdict.commands:
        line = f"  {command}"
        # Breaks before an option and is still one command for a shell.
        line = line if len(line) <= width else line.replace(" --", " \\\n      --")
        yield Text(line, no_wrap=True, overflow="ignore")  # still to be pasted whole


def _warned(warnings: Sequence[str]) -> Iterable[RenderableType]:
    return [Text(f"warning: {warning}", style="bold red") for warning in warnings]


def _with_hint(evaluation: result.Evaluation) -> list[str]:
    """The notes; if nothing is decided, with the option that tests the groups of a column."""
    unclear = evaluation.verdict.direction == "undecided" and not evaluation.arms[0].groups
    hint = " If a column names groups, test them with --group-column." if unclear else ""
    unused = of_kind(evaluation.notes, "unused")
    return [note + hint if note in unused else note for note in evaluation.notes]


def _notes(notes: Sequence[str]) -> Iterable[RenderableType]:
    return [Text(), *_dim(f"note: {note}" for note in notes)] if notes else []


def _print(console: Console, parts: Iterable[RenderableType]) -> None:
    """Print, with replacements for characters that the terminal's encoding lacks."""
    unicode = console.encoding.lower().startswith("utf")
    with nullcontext() if unicode else console.capture() as captured:
        for part in parts:
            # Lines to paste whole run over the edge.
            whole = isinstance(part, Text) and part.no_wrap is True
            console.print(part, highlight=False, soft_wrap=whole)
    if captured is not None:
        known = captured.get().translate(ASCII)
        console.file.write(known.encode(console.encoding, "replace").decode(console.encoding))
