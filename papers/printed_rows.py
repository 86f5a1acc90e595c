"""A row of a paper's result tables beside what our runs of the same losses show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

from calibrant._math.means import Mean, mean_of, plus_minus
from calibrant_lab.sweep.published import facts
from papers import on_bounds
from papers.arms import ArmRuns, Run
from papers.grouping import grouped
from papers.pages import table

SCALE = 100
"""The scale of the published tables: per cent, and NLL in hundredths of a nat."""
_AFTER_EPOCH, _FALL = 10, 0.25
"""After so many epochs a fall of the temperature by so large a share in one epoch is counted."""
Fact: TypeAlias = Mapping[str, str]
"""A printed number: ``column`` (its table, from 0), ``loss``, ``value``, ``table``, ``temperature``."""

Question: TypeAlias = tuple[str, str, Sequence[str]]
"""The metric and the stage of a published table, and the losses that a claim compares by them.

The metric T is the temperature beside the ECE.
"""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """One loss of a row.

    Attributes:
        key: As in the study of losses, whose claims can be asked of the row, too.
        title: What it is called on the page.
        text: As the grid has it.
        published: What the published tables call it.
    """

    key: str
    title: str
    text: str
    published: str | None = None


CROSS_ENTROPY = Loss(
    key="cross-entropy", title="cross-entropy", text="cross-entropy", published="cross-entropy"
)
GAMMAS = (1, 2, 3)
FOCAL = tuple(
    Loss(
        key=f"focal-{gamma}",
        title=f"focal, γ = {gamma}",
        text=f"focal(gamma={gamma})",
        published=f"focal(gamma={gamma})",
    )
    for gamma in GAMMAS
)
SAMPLE_FOCAL = Loss(key="sample-focal", title="FLSD-53", text="sample-focal", published="focal-sample(53)")
SAMPLE_FOCAL_532 = Loss(
    key="sample-focal-532",
    title="FLSD-532",
    text="sample-focal(thresholds=(0.2, 0.5, 1.0), gammas=(5, 3, 2))",
    published="focal-sample(532)",
)
BRIER = Loss(key="brier", title="Brier", text="brier", published="brier")
MMCE = Loss(key="mmce-published", title="MMCE, λ = 2", text="mmce", published="mmce")


def scheduled_focal(milestones: tuple[int, int]) -> tuple[Loss, ...]:
    """Exponents of 5, 3 and in the end 1, or 2; each from the epoch of a milestone on."""
    return tuple(
        Loss(
            key=f"scheduled-53{last}",
            title=f"FLSc-53{last}",
            text=f"scheduled-focal(gammas=(5, 3, {last}), milestones={milestones})",
            published=f"focal-scheduled(53{last})",
        )
        for last in (1, 2)
    )


@dataclass(frozen=True, kw_only=True)
class PrintedTable:
    """One quantity of the published tables.

    Attributes:
        tables: Tables of the paper; the first that prints a loss counts.
        title: What it is.
        metric: What the published file calls it.
        stage: Before or after temperature scaling, or neither.
        ours: The stage and the metric that it is here.
        temperature: The name of our temperature that stands in brackets.
    """

    tables: tuple[str, ...]
    title: str
    metric: str
    stage: str
    ours: tuple[str, str]
    temperature: str | None = None


TEXT_TABLES = (
    PrintedTable(tables=("3", "9"), title="Error", metric="error", stage="na", ours=("before", "error")),
    PrintedTable(tables=("1", "7"), title="ECE", metric="ECE", stage="pre", ours=("before", "ece")),
    PrintedTable(
        tables=("1", "7"),
        title="ECE after T",
        metric="ECE",
        stage="post",
        ours=("by-ece", "ece"),
        temperature="ece_temperature",
    ),
    PrintedTable(
        tables=("2", "8"), title="Adaptive ECE", metric="AdaECE", stage="pre", ours=("before", "adaptive_ece")
    ),
    PrintedTable(
        tables=("2", "8"),
        title="Adaptive ECE after T",
        metric="AdaECE",
        stage="post",
        ours=("by-adaptive-ece", "adaptive_ece"),
        temperature="adaptive_ece_temperature",
    ),
    PrintedTable(tables=("10",), title="NLL × 100", metric="NLL", stage="pre", ours=("before", "nll")),
    PrintedTable(
        tables=("11",), title="NLL × 100 after T", metric="NLL", stage="post", ours=("by-ece", "nll")
    ),
    PrintedTable(tables=("12",), title="MCE", metric="MCE", stage="pre", ours=("before", "mce")),
    PrintedTable(tables=("13",), title="MCE after T", metric="MCE", stage="post", ours=("by-ece", "mce")),
)
"""What tables 1 to 3 and 7 to 13 of Mukhoti et al. (2020) print of texts; tables 4 and 5 repeat some."""


@dataclass(frozen=True, kw_only=True)
class PrintedRow:
    """What a paper prints of one data set.

    Attributes:
        paper: Its name in the published files.
        cited: What the page calls it.
        dataset: The data set as the published file calls it.
        losses: The losses in the order of the page.
        tables: The quantities in the order of the page.
    """

    paper: str
    cited: str
    dataset: str
    losses: tuple[Loss, ...]
    tables: tuple[PrintedTable, ...]

    def facts(self) -> list[dict[str, str]]:
        """The printed numbers of the row, each once."""
        names = {loss.published: loss.key for loss in self.losses if loss.published}
        found: dict[tuple[int, str], dict[str, str]] = {}
        for place, printed in enumerate(self.tables):
            for fact in facts(self.paper):
                asked = fact.table in printed.tables and (fact.metric, fact.stage) == (
                    printed.metric,
                    printed.stage,
                )
                if asked and fact.dataset == self.dataset and fact.method in names and fact.value:
                    row = {"column": str(place), "loss": names[fact.method], "value": fact.value}
                    row |= {"table": fact.table, "temperature": fact.temperature}
                    found.setdefault((place, names[fact.method]), row)
        return [*found.values()]

    def said(self, printed: Iterable[Fact], question: Question | None) -> str:
        """What the row has where a claim compares losses that it prints, or nothing; an NLL in nats.

        A text may claim of all data what the row of one does not show; a verdict against it then agrees with
        the row.

        Args:
            printed: The printed numbers of the row.
            question: What is compared.
        """
        if question is None:
            return ""
        metric, stage, losses = question
        wanted = ("ECE" if metric == "T" else metric, stage)
        asked = [(each.metric, each.stage) for each in self.tables]
        column = asked.index(wanted) if wanted in asked else -1
        theirs = by_place(printed)
        if any((column, loss) not in theirs for loss in losses):
            return ""
        name = "temperature" if metric == "T" else "value"
        in_nats = metric == "NLL"  # as claims have it, not in the row's hundredths
        unit = "" if in_nats or metric == "T" else " %"
        found = [theirs[column, loss][name] for loss in losses]
        values = ", ".join(f"{float(each) / SCALE:.4f}" if in_nats else each for each in found)
        order = ", in this order" if len(losses) > 1 else ""
        return f"; the row of {self.cited} has {'T = ' if metric == 'T' else ''}{values}{unit}{order}"

    def arms(self, runs: Iterable[Run]) -> dict[str, ArmRuns]:
        """The losses that have runs, by key; a run says which ``loss`` and ``seed`` it is of."""
        found = grouped(runs, lambda run: run["loss"])
        return {
            loss.key: ArmRuns(
                key=loss.key,
                title=loss.title,
                runs={run["seed"]: run for run in sorted(found[loss.key], key=lambda run: run["seed"])},
            )
            for loss in self.losses
            if loss.key in found
        }

    def ours(self, arm: ArmRuns, column: int) -> Mean:
        """Our number for a column, in the unit of the published tables."""
        stage, metric = self.tables[column].ours
        found = arm.mean(lambda run: run["stages"][stage][metric])
        half_width = found.half_width and SCALE * found.half_width
        return replace(found, value=SCALE * found.value, half_width=half_width)

    def beside(self, arms: Mapping[str, ArmRuns], printed: Iterable[Fact]) -> str:
        """Ours as a table, with the published numbers below a loss that the paper has."""
        theirs = by_place(printed)
        columns = range(len(self.tables))
        rows: list[list[str]] = []
        for key, arm in arms.items():
            rows.append([arm.title, str(len(arm.runs)), *(self._cell(arm, column) for column in columns)])
            if any(loss == key for _, loss in theirs):
                rows.append(["*published*", "", *(_printed(theirs.get((column, key))) for column in columns)])
        return table(["loss", "n", *(each.title for each in self.tables)], rows)

    def _cell(self, arm: ArmRuns, column: int) -> str:
        name = self.tables[column].temperature
        bracket = "" if name is None else f" ({arm.parameter(name).value:.1f})"
        return f"{plus_minus(self.ours(arm, column), 2)}{bracket}"


def fitted_table(arms: Mapping[str, ArmRuns]) -> str:
    """What likelihood and the grid fitted, and the ECE with it; below it what the mark of a bound means."""
    heads = ["loss", "n", "T by NLL", "T by ECE", "ECE, T by NLL %", "focal temperature: T", "γ", "ECE %"]
    rows = [
        [
            arm.title,
            str(len(arm.runs)),
            _fitted(arm, "temperature"),
            _fitted(arm, "ece_temperature"),
            plus_minus(arm.metric("temperature", "ece"), 2, 100),
            _fitted(arm, "focal_temperature"),
            _fitted(arm, "gamma"),
            plus_minus(arm.metric("focal-temperature", "ece"), 2, 100),
        ]
        for arm in arms.values()
    ]
    text = table(heads, rows)
    note = on_bounds.note("gamma", "temperature", "ece_temperature")
    return f"{text}\n\n{note}" if on_bounds.ON_BOUND in text else text


def _fitted(arm: ArmRuns, name: str) -> str:
    values = [run["parameters"][name] for run in arm.runs.values()]
    return plus_minus(mean_of(values), 2) + on_bounds.mark(name, values)


def epochs_table(arms: Mapping[str, ArmRuns], epochs: Sequence[int]) -> str:
    """The epochs that were kept, and the temperature of the held-out texts after some epochs."""
    rows: list[list[str]] = []
    for arm in arms.values():
        kept = ", ".join(str(run["kept_epoch"]) for run in arm.runs.values())
        found = [arm.mean(lambda run, epoch=epoch: run["temperatures"][epoch - 1]) for epoch in epochs]
        rows.append([arm.title, kept, *(plus_minus(each, 2) for each in found)])
    return table(["loss", "epochs kept", *(f"T, epoch {epoch}" for epoch in epochs)], rows)


def falls(arms: Mapping[str, ArmRuns]) -> str:
    """In how many runs the temperature falls by a quarter within one epoch, and in how many it ends below 1.

    Losses are named of which some runs are under-confident and others over-confident.
    """
    runs = [run for arm in arms.values() for run in arm.runs.values()]
    steps = [pairwise(run["temperatures"][_AFTER_EPOCH - 1 :]) for run in runs]
    fallen = sum(any(after < (1 - _FALL) * before for before, after in each) for each in steps)
    below = {
        arm.title: [run["parameters"]["temperature"] < 1 for run in arm.runs.values()]
        for arm in arms.values()
    }
    mixed = [title for title, each in below.items() if 0 < sum(each) < len(each)]
    both = f", in some but not all under {'; '.join(mixed)}, whose mean ECE has errors of both directions"
    return (
        f"After epoch {_AFTER_EPOCH} it falls by more than {100 * _FALL:g} % from one epoch to the next in "
        f"{fallen} of {len(runs)} runs. At the epoch that is kept the likeliest T is below 1, which is "
        f"under-confidence, in {sum(map(sum, below.values()))} of {len(runs)} runs{both if mixed else ''}"
    )


def growth(arms: Mapping[str, ArmRuns]) -> str:
    """In how many runs the temperature of held-out texts grows, and where it does not in the second half."""
    runs = [(arm.title, run["temperatures"]) for arm in arms.values() for run in arm.runs.values()]
    last = max((len(found) for _, found in runs), default=0)
    grown = sum(found[0] < found[-1] for _, found in runs)
    of_title = Counter(title for title, _ in runs)
    fallen = Counter(title for title, found in runs if found[len(found) // 2 - 1] >= found[-1])
    said = f"T grows from epoch 1 to epoch {last} in {grown} of {len(runs)} runs"
    if not fallen:
        return f"{said}, and in all of them from epoch {last // 2} on"
    named = ", ".join(f"{title} (in {n} of {of_title[title]})" for title, n in fallen.items())
    return f"{said}; from epoch {last // 2} on it does not grow under {named}"


def losses_exchanged(numbers: Mapping[str, Any], first: str, second: str) -> dict[str, Any]:
    """The numbers with the runs of two losses exchanged."""
    partner = {first: second, second: first}
    runs = [{**run, "loss": partner.get(run["loss"], run["loss"])} for run in numbers["runs"]]
    return {**numbers, "runs": runs}


def by_place(printed: Iterable[Fact]) -> dict[tuple[int, str], Fact]:
    """Printed numbers by column and loss."""
    return {(int(each["column"]), each["loss"]): each for each in printed}


def _printed(fact: Fact | None) -> str:
    if fact is None:
        return "–"
    return f"*{fact['value']}*" + (f" (*{float(fact['temperature']):.1f}*)" if fact["temperature"] else "")
