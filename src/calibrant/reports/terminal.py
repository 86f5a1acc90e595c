"""An evaluation or a comparison in the terminal: the verdict, one table, what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from calibrant.evaluation.group_repairs import ByGroup
from calibrant.evaluation.result import Arm, Comparison, Direction, Evaluation, OutOfDistribution
from calibrant.reports import tables
from calibrant.reports.commands import with_commands
from calibrant.reports.groups import groups_down
from calibrant.reports.labels import labels_down
from calibrant.reports.words import MARK_OF, interval, number, percent, shortened

CELL = 16  # 0.0412–0.0631 and three blanks
MOST_WARNINGS = 3  # of one calibrator
NAME = 28  # of a model, with two blanks
STYLE_OF: dict[Direction, str] = {
    "over-confident": "bold yellow",
    "under-confident": "bold blue",
    "over-predicting": "bold yellow",
    "under-predicting": "bold blue",
    "miscalibrated": "bold yellow",
    "calibrated in part": "bold yellow",
    "calibrated": "bold green",
    "undecided": "bold",
}
CHOSEN = (
    "The simplest within one standard error of the best, by cross-validated NLL on {:,} calibration samples."
)
ASCII = {
    "–": "-",
    "−": "-",
    "▼": "v",
    "▲": "^",
    "◆": "*",
    "●": "o",
    "◐": "%",
    "…": "...",
    "→": "->",
    "≤": "<=",
    "\u00a0": " ",
}


def render(evaluation: Evaluation, console: Console, *, by_group: ByGroup | None = None) -> None:
    """Print an evaluation in short; it fits 60 columns and needs neither colour nor Unicode.

    Args:
        evaluation: What :func:`calibrant.evaluate` returned.
        console: Where to print; its width decides how many calibrators the table shows.
        by_group: What repairs make of each group, as ``evaluate --by-group`` finds.
    """
    evaluation = with_commands(evaluation)
    verdict = evaluation.verdict
    style = STYLE_OF[verdict.direction]
    parts: list[RenderableType] = [
        Text(f"{MARK_OF[verdict.direction]} {verdict.short or verdict.headline}", style=style),
        *(Text(line) for line in [verdict.line] if line),
        *_warned(verdict.warnings),
        Text(),
        _metrics_down(evaluation, console.width),
        *(Text(sentence) for sentence in verdict.sentences[:1]),
    ]
    shown = [tables.ordered_arms(evaluation)[place] for place in _arms_shown(evaluation, console.width)]
    told = [
        tables.outside_sentence(shown),
        tables.coverage_sentence(evaluation, in_short=True),
        *_left_out(evaluation, console.width),
    ]
    parts += [Text(sentence, style="dim") for sentence in told if sentence]
    if evaluation.out_of_distribution is not None:
        parts += _detection(evaluation.out_of_distribution)
    parts += labels_down(evaluation)
    parts += groups_down(evaluation, by_group)
    parts += _recommendation(evaluation, console.width)
    parts += _notes(evaluation.notes)
    _print(console, parts)


def render_comparison(comparison: Comparison, console: Console) -> None:
    """Print a comparison in short; it fits 60 columns and needs neither colour nor Unicode.

    Args:
        comparison: What :func:`calibrant.compare` returned.
        console: Where to print; its width decides how many metrics the table shows.
    """
    first = comparison.models[0].name
    paired = (
        f"Judged on the same samples; paired differences against {first}."
        if comparison.paired
        else f"Compared with {first}. The samples are not known to be the same, so differences are unpaired."
    )
    _print(
        console,
        [
            Text(comparison.verdict, style="bold"),
            *_warned(comparison.warnings),
            *(Text(said) for said in [tables.beyond_chance(comparison)] if said),
            Text(paired),
            Text(),
            _models_down(comparison, console.width),
            *(
                Text(sentence, style="dim")
                for sentence in (
                    tables.coverage_sentence(comparison, in_short=True),
                    *_holes(tables.metric_table(comparison), range(len(comparison.models))),
                )
                if sentence
            ),
            *_notes(comparison.notes),
        ],
    )


def _metrics_down(evaluation: Evaluation, width: int) -> Table:
    """Metrics as rows, as many arms as columns as fit."""
    found = tables.metric_table(evaluation)
    shown = _arms_shown(evaluation, width)
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    grid.add_column(Text(f"{percent(evaluation.settings.level)} intervals", style="dim"))
    for place in shown:
        grid.add_column(Text(found.columns[place].title), justify="right", min_width=CELL - 3)
    for row in (row for row in found.rows if row.in_short):
        grid.add_row(Text(row.title), *(_cell(row.cells[place]) for place in shown))
        freed = [row.cells[place].estimate.without_chance for place in shown]
        if any(value is not None for value in freed):
            values = ("" if value is None else number(value) for value in freed)
            grid.add_row(*(Text(text, style="dim") for text in ("without chance", *values)))
    return grid


def _models_down(comparison: Comparison, width: int) -> Table:
    """Models as rows, as many metrics as columns as fit."""
    found = tables.metric_table(comparison)
    ranked = sorted((row.rank, k) for k, row in enumerate(found.rows) if row.rank is not None)
    rows = [found.rows[k] for _, k in ranked][: max(1, (width - NAME) // CELL)]
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1), show_edge=False, pad_edge=False)
    grid.add_column(Text(f"{percent(comparison.settings.level)} intervals", style="dim"), overflow="fold")
    for row in rows:
        grid.add_column(Text(row.title), justify="right", width=CELL - 3)
    for place, column in enumerate(found.columns):
        cells = (_cell(row.cells[place]) for row in rows)
        grid.add_row(Text(shortened(column.title, most=NAME - 2)), *cells)
    return grid


def _cell(cell: tables.Cell) -> Text:
    """The value, what became of it, and its interval below."""
    if cell.estimate.value is None:
        return Text(number(None), style="dim")
    text = Text(number(cell.estimate.value), style="bold" if cell.best else "")
    if cell.mark is not None:
        text.append(f" {cell.mark}", style="green" if cell.mark == "better" else "red")
    text.append(f"\n{interval(cell.estimate, between='–')}", style="not bold dim")
    return text


def _detection(found: OutOfDistribution) -> Iterable[RenderableType]:
    """How well foreign samples are told apart."""
    first = found.arms[0].metrics
    yield Text()
    yield Text(found.sentence)
    yield Text(
        f"AUPR {number(first['aupr'].value)}; of the test samples {number(first['fpr_at_95'].value)} are "
        "flagged where 95 % of the foreign ones are.",
        style="dim",
    )


def _arms_shown(evaluation: Evaluation, width: int) -> list[int]:
    """The places of the columns that fit."""
    return list(range(len(evaluation.arms)))[: max(1, (width - 16) // CELL)]


def _left_out(evaluation: Evaluation, width: int) -> Iterable[str]:
    """Names the metrics that are missing, and the arms for which the table has no room."""
    found = tables.metric_table(evaluation)
    for reason, names in found.missing.items():
        if found.in_short & set(names):
            yield f"No {', '.join(name for name in names if name in found.in_short)}: {reason}"
    shown, arms = _arms_shown(evaluation, width), tables.ordered_arms(evaluation)
    yield from _holes(found, shown)
    yield from _warnings([arms[place] for place in shown])
    titles = [arm.title for place, arm in enumerate(arms) if place not in shown]
    if titles:
        yield f"Also tried: {', '.join(titles)}; a wider terminal or the report shows them."


def _holes(found: tables.MetricTable, shown: Sequence[int]) -> Iterable[str]:
    """Why a metric that others have is missing from a column."""
    for row in (row for row in found.rows if row.in_short):
        for place in shown:
            estimate = row.cells[place].estimate
            if estimate.value is None:
                yield f"No {row.title} ({found.columns[place].title}): {estimate.reason or 'no reason given'}"


def _warnings(arms: Sequence[Arm]) -> Iterable[str]:
    """What the fits warned of, once for all that say the same; of many labels, the first few."""
    titles: dict[str, list[str]] = {}
    left_out: list[str] = []
    for arm in arms:
        warnings = () if arm.fit is None else arm.fit.warnings
        for warning in warnings[:MOST_WARNINGS]:
            titles.setdefault(warning, []).append(arm.title)
        if len(warnings) > MOST_WARNINGS:
            left_out.append(
                f"{arm.title}: {len(warnings) - MOST_WARNINGS} more warnings stand in the report."
            )
    yield from (f"{', '.join(names)}: {warning}" for warning, names in titles.items())
    yield from left_out


def _recommendation(evaluation: Evaluation, width: int) -> Iterable[RenderableType]:
    """Which arm to use, and the commands that make it so."""
    arm, repair = tables.recommended(evaluation), evaluation.verdict.repair
    if repair is not None and repair.by_group:
        yield Text()
        yield Text(f"Recommended: a calibrator for each group ({repair.method})", style="bold")
        yield Text(evaluation.verdict.reason or "", style="dim")
        yield from _commands(evaluation, width)
        return
    if arm is None:
        if len(evaluation.arms) > 1:
            yield Text()
            yield Text("Recommended: leave the probabilities as they are.", style="bold")
            yield from _reason(evaluation)
        return
    condition = evaluation.verdict.condition
    yield Text()
    yield Text(f"Recommended{f', {condition}' if condition else ''}: {arm.title}", style="bold")
    yield from _reason(evaluation)
    if evaluation.verdict.caution is not None:
        yield Text(evaluation.verdict.caution)
    yield from _commands(evaluation, width)


def _commands(evaluation: Evaluation, width: int) -> Iterable[Text]:
    """What to type."""
    for command in evaluation.verdict.commands:
        line = f"  {command}"  # a long one takes a line per option and is still one command for a shell
        line = line if len(line) <= width else line.replace(" --", " \\\n      --")
        yield Text(line, no_wrap=True, overflow="ignore")  # still to be pasted whole


def _reason(evaluation: Evaluation) -> Iterable[RenderableType]:
    """Why that is recommended; the candidates stand in the report, and ``fit`` prints them."""
    choice = evaluation.choice
    if choice is not None and choice.chosen == evaluation.verdict.recommended:
        yield Text(CHOSEN.format(choice.num_samples), style="dim")
    elif evaluation.verdict.reason is not None:
        yield Text(evaluation.verdict.reason, style="dim")


def _warned(warnings: Sequence[str]) -> Iterable[RenderableType]:
    """What looks wrong with the data."""
    return [Text(f"warning: {warning}", style="bold red") for warning in warnings]


def _notes(notes: Sequence[str]) -> Iterable[RenderableType]:
    if notes:
        yield Text()
    for note in notes:
        yield Text(f"note: {note}", style="dim")


def _print(console: Console, parts: Iterable[RenderableType]) -> None:
    """Print; where the terminal's encoding lacks a character, what is printed lacks it too."""
    if console.encoding.lower().startswith("utf"):
        _print_parts(console, parts)
        return
    with console.capture() as captured:
        _print_parts(console, parts)
    known = captured.get().translate(str.maketrans(ASCII))
    console.file.write(known.encode(console.encoding, "replace").decode(console.encoding))


def _print_parts(console: Console, parts: Iterable[RenderableType]) -> None:
    for part in parts:
        # What is to be pasted whole runs over the edge.
        whole = isinstance(part, Text) and part.no_wrap is True
        console.print(part, highlight=False, soft_wrap=whole)
