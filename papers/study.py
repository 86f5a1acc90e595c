"""What a study is: an experiment that one command, ``python -m papers NAME``, repeats.

It is one folder, ``studies/<name>/``, of which ``studies/linear_model/`` is the example to read, and one line
in ``studies/roster.py``; "Add a study" in CONTRIBUTING.md says what stands in each file, and which laws
``tests/experiments/test_study_contract.py`` holds it to.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from calibrant._math.errors import InputError
from calibrant._math.files import write_text
from calibrant_lab.sweep.kept_runs import made_by, runs_in
from papers.claims import Claim
from papers.pages import render, results_text

if TYPE_CHECKING:
    from calibrant_lab.sweep.result import RunResult

Numbers: TypeAlias = Any
"""What a page is made of: dictionaries, lists, numbers and words."""
Runs: TypeAlias = Sequence[Mapping[str, Any]]
"""Settings and findings of runs, one dictionary each."""


@dataclass(frozen=True)
class Option:
    """An option of a study.

    Attributes:
        name: A keyword of ``run``, and with ``--`` before it an option of the command.
        kind: The type of the value; a list for an option that may be repeated.
        default: The value where the option is not given.
        help: What the option is for, as a sentence.
        least: The smallest value, for numbers.
        variable: An environment variable that gives the value, if any.
    """

    name: str
    kind: Any
    default: Any
    help: str
    least: int | None = None
    variable: str | None = None

    @property
    def flag(self) -> str:
        """The option as it is typed."""
        return f"--{self.name.replace('_', '-')}"


_PATH = Path | None
OUT = Option("out", Path, Path("study"), "The folder of the runs; what lies there is not done again.")
OUT_PAGES = Option("out", Path, Path("study"), "The folder for tables and figures.")
STORE = Option(
    "out",
    _PATH,
    None,
    "The store of the runs; what lies there is not done again (default: study, or none with --table).",
)
ADDED = Option(
    "table",
    _PATH,
    None,
    "Do no runs: make pages in this folder of the runs in its results files and of those in --out.",
)
SEEDS_OF_GRID = Option(
    "seeds", int | None, None, "How many seeds; 0, 1, 2 and so on (default: those of the grid).", least=1
)
SEEDS = Option("seeds", int, 3, "How many seeds; 0, 1, 2 and so on.", least=1)
TABLE = Option("table", _PATH, None, "Train nothing: write what the finished runs show into this folder.")
PAGES = Option("table", _PATH, None, "The folder for tables and figures, if not that of --out.")
DATA = Option("data", _PATH, None, "The folder of the prediction files.", variable="CALIBRANT_DATA")
PUBLISHED = Option("published", _PATH, None, "A folder of published tables, if not the package's.")
SETTING = Option("setting", list[str] | None, None, "Only this setting of the study; may be repeated.")


@dataclass(frozen=True, kw_only=True)
class Session:
    """Where a study reports while it runs.

    Attributes:
        tell: Takes a line to show.
        progress: Takes the present stage and the share that is done.
        command: The command that started the study, to be kept beside its runs.
        engine: What does the runs of a grid.
    """

    tell: Callable[[str], None] = print
    progress: Callable[[str, float], None] = lambda _stage, _share: None
    command: str = ""
    engine: str = "serial"


@dataclass(frozen=True, kw_only=True)
class Page:
    """A page of results: ``NAME.md`` with its figures, and ``NAME.json``, of which they are made.

    The file holds the runs of the study's grid, or, of a study without a grid, the numbers themselves.

    Attributes:
        name: Name of the files.
        template: The Jinja template.
        words: What the template needs beyond the numbers, derived from them.
        claims: The claims that the numbers decide.
        exchanged: The numbers with the results of two arms exchanged, where claims compare arms.
        figures: Names of the figures' files. From the numbers ``draw_figures`` draws them, in ``figures.py``
            beside the template.
        departs: What the study does otherwise than the papers whose claims it decides, as a sentence.
        numbers: From the runs, and what else the file holds, to the numbers; None if the file holds numbers.
        kept: What the file keeps of a result; by default the row of a simulation. None for one that lacks
            what the page shows, as runs of other grids may.
        digits: How many digits that count it keeps.
        where: Settings of the runs that are the page's.
        also: What the page needs and no run tells, from the settings of the runs and what the file has had
            so far.
        counts: Whether it needs the numbers of runs and of seeds that the grid has: ``wanted`` and ``seeds``.
    """

    name: str
    template: Path
    words: Callable[[Numbers], Mapping[str, Any]] = lambda _numbers: {}
    claims: Callable[[Numbers], Sequence[Claim]] = lambda _numbers: ()
    exchanged: Callable[[Numbers, str, str], Numbers] | None = None
    figures: tuple[str, ...] = ()
    departs: str = ""
    numbers: Callable[[Runs, Mapping[str, Any]], Numbers] | None = None
    kept: Callable[[RunResult], Mapping[str, Any] | None] = lambda result: result.rows[0]
    digits: int = 8
    where: Mapping[str, Any] = field(default_factory=dict[str, Any], hash=False)
    also: Callable[[Runs, Mapping[str, Any]], Mapping[str, Any]] = lambda _runs, _known: {}
    counts: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the page."""
        return (f"{self.name}.md", f"{self.name}.json", *self.figures)

    def content(self, folder: Path) -> Any:
        """What the results file in a folder holds; None where there is none."""
        path = folder / f"{self.name}.json"
        if not path.is_file():
            return None
        try:
            return json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise InputError(f"{path} is no whole results file; restore it, or make it anew.") from error

    def read(self, folder: Path) -> Numbers:
        """The numbers of the page in a folder."""
        return self.numbers_in(self.content(folder))

    def numbers_in(self, content: Any) -> Numbers:
        """The numbers that a results file gives."""
        if self.numbers is None:
            return content
        runs = runs_in(content)
        found = self.numbers([run.flat for run in runs], content.get("also", {}))
        return {"made_by": made_by(runs), **found}

    def text(self, numbers: Numbers) -> str:
        """The page in Markdown: a function of the numbers alone."""
        claims = {claim.key: claim for claim in self.claims(numbers)}
        return render(self.template, numbers=numbers, claims=claims, **self.words(numbers))

    def write(self, content: Any, folder: Path) -> list[Path]:
        """Write the page's files into a folder, made if need be."""
        folder.mkdir(parents=True, exist_ok=True)
        written = [folder / name for name in self.files]
        numbers = self.numbers_in(content)
        write_text(written[0], self.text(numbers))
        write_text(written[1], results_text(content))
        if self.figures:
            from calibrant.reports.figures.drawing import save_figure

            drawing = import_module(f"papers.{self.template.parent.name}.figures")
            for figure, path in zip(drawing.draw_figures(numbers), written[2:], strict=True):
                save_figure(figure, path)
        return written

    def rewrite(self, folder: Path) -> None:
        """Write the page again from the results file in a folder, after its words were changed."""
        content = self.content(folder)
        text, data = (folder / name for name in self.files[:2])
        write_text(text, self.text(self.numbers_in(content)))
        write_text(data, results_text(content))


@dataclass(frozen=True, kw_only=True)
class Study:
    """An experiment that one command repeats.

    Attributes:
        name: Name on the command line.
        summary: One line for the list of studies.
        run: Called as ``run(session, **options)``, a keyword for each option. Does whatever is not done yet,
            writes what is to be written, and returns what the command prints: paths, or a sentence.
        options: The options that it takes.
        pages: The pages of results that it writes.
        grid: The grid of its runs, whose store is the folder ``out``.
        records: The files of records that a study without a grid keeps there, as names or patterns.
        small: For a study that keeps runs, gives the settings under which it takes a second. They are the
            second argument of ``run``, which has a default; the laws of all studies run it so.
    """

    name: str
    summary: str
    run: Callable[..., Sequence[Path | str]] = field(repr=False)
    options: tuple[Option, ...] = (OUT,)
    pages: tuple[Page, ...] = ()
    grid: Path | None = None
    records: tuple[str, ...] = ()
    small: Callable[[], object] | None = field(default=None, repr=False)

    @property
    def files(self) -> tuple[str, ...]:
        """All that the study writes: records, then pages with their numbers and figures."""
        return (*self.records, *(name for page in self.pages for name in page.files))


def data_folder(data: Path | None) -> Path:
    """The folder of the prediction files, if there is one.

    Raises:
        InputError: If there is none.
    """
    if data is None or not data.is_dir():
        raise InputError("give the folder of the prediction files by --data, or set CALIBRANT_DATA.")
    return data
