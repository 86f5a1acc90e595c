"""Laws that every study of the roster obeys."""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import random
import re
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from calibrant._math.errors import InputError
from calibrant.cli.main import app
from calibrant_lab.sweep.grid import load_grid
from calibrant_lab.sweep.store import Store
from few_points import few_exponents
from papers.claims import Claim
from papers.pages import results_text
from papers.records import Records
from papers.roster import STUDIES
from papers.study import DATA, OUT, PUBLISHED, SEEDS, SETTING, TABLE, Page, Session, Study

RESULTS = Path(__file__).parents[2] / "docs" / "results"
FLAGS = {option.flag for option in (OUT, SETTING, SEEDS, TABLE, PUBLISHED, DATA)}
PAGES = [page for study in STUDIES for page in study.pages]
TURNED = {"holds": "does not hold", "does not hold": "holds"}


NOT_SMALL = {
    **dict.fromkeys(
        ("cifar10", "dynamics", "fcl-weights", "gammas", "sst", "sum-or-mean", "texts"),
        "trains by a recipe, as losses does",
    ),
    "chest-x-rays": "needs data sets; its own test measures",
    "calibrators": "needs prediction files; its own test resumes it",
    "curvature": "its own test resumes it",
    "losses": "its own test resumes it",
    "shift": "needs data sets; its own test trains",
}


def each(studies: list[Any]) -> pytest.MarkDecorator:
    """Parametrised over studies or pages, by their names."""
    return pytest.mark.parametrize("one", studies, ids=lambda one: one.name)


@functools.cache
def _text(page: Page, numbers: str) -> str:
    return page.text(json.loads(numbers))


def text_of(page: Page, numbers: Any) -> str:
    """The page in Markdown; the same numbers are rendered once for all the laws."""
    return _text(page, json.dumps(numbers))


def committed(page: Page) -> Any:
    """The page's numbers in ``docs/results``."""
    path = RESULTS / f"{page.name}.json"
    if not path.is_file():
        pytest.fail(f"commit what the study writes: `python -m papers {page.name} --table {RESULTS}`")
    return _read(page)


@functools.cache
def _studies() -> Any:
    """``python -m papers``, made once."""
    return get_command(app).commands["study"]  # pyright: ignore[reportAttributeAccessIssue]


@functools.cache
def _read(page: Page) -> Any:
    return page.read(RESULTS)


def test_names_and_files_are_parted() -> None:
    """No two studies share a name or write the same file."""
    names = [study.name for study in STUDIES]
    files = [name for study in STUDIES for name in study.files]
    assert len(set(names)) == len(names)
    assert len(set(files)) == len(files)


@each(list(STUDIES))
def test_a_study_says_what_it_writes(one: Study) -> None:
    """Each has a summary of one line, and names its files in its help."""
    assert one.summary.endswith(".")
    assert "\n" not in one.summary
    assert one.files
    wide = {"COLUMNS": "400", "TERMINAL_WIDTH": "400"}
    printed = CliRunner().invoke(app, ["study", one.name, "--help"], env=wide).output
    assert all(name in printed for name in one.files)
    assert all(option.flag in printed for option in one.options)


@each(list(STUDIES))
def test_run_takes_the_options(one: Study) -> None:
    """The keywords of ``run`` are the declared options, no more and no fewer."""
    parameters = inspect.signature(one.run).parameters.values()
    keywords = {each.name for each in parameters if each.kind is inspect.Parameter.KEYWORD_ONLY}
    assert keywords == {option.name for option in one.options}


@each(list(STUDIES))
def test_other_options_are_refused(one: Study) -> None:
    """What a study has no option for is refused in one sentence that names those it has, before any work."""
    known = {option.flag for option in one.options}
    for flag in (*sorted(FLAGS - known), "--nonsense"):
        message = f"the study {one.name} takes no '{flag}'; its options are .*{one.options[-1].flag}"
        with pytest.raises(InputError, match=message):
            _studies().main([one.name, flag, "3"], standalone_mode=False)
    with pytest.raises(InputError, match=f"the study {one.name} takes no '--nonsense'"):
        CliRunner().invoke(app, ["study", one.name, "--nonsense", "3"], catch_exceptions=False)


@each(PAGES)
def test_page_is_a_function_of_its_results(one: Page) -> None:
    """The results file suffices for the page: rendered again, both are what ``docs/results`` has."""
    numbers = committed(one)
    assert text_of(one, numbers) == (RESULTS / f"{one.name}.md").read_text(encoding="utf-8")
    assert results_text(one.content(RESULTS)) == (RESULTS / f"{one.name}.json").read_text(encoding="utf-8")


@each([page for page in PAGES if page.exchanged is not None])
def test_verdicts_turn_with_the_arms(one: Page) -> None:
    """With the results of the two arms exchanged, a claim that compares them gets the opposite verdict."""
    numbers = committed(one)
    claims = one.claims(numbers)
    compared = [claim for claim in claims if claim.arms]
    assert any(claim.verdict != "undecided" for claim in compared), "no claim is decided: take more --seeds"
    for arms in {claim.arms for claim in compared}:
        turned = _turned(one, numbers, arms)
        for claim in compared:
            if claim.arms == arms:
                assert turned[claim.key].verdict == TURNED.get(claim.verdict, claim.verdict), claim
                assert turned[claim.key].evidence != claim.evidence or claim.p_value == 1  # a tie


def _turned(page: Page, numbers: Any, arms: tuple[Any, ...]) -> dict[str, Claim]:
    """The claims, by their keys, where two arms have exchanged their results."""
    assert page.exchanged is not None
    turned = page.exchanged(numbers, *arms)
    assert text_of(page, turned) != text_of(page, numbers)
    return {found.key: found for found in page.claims(turned)}


KEPT = {
    "gamma",
    "seed",
    "n",
    "num_samples",
    "num_features",
    "beta",
    "radius",
    "epoch",
    "spread",
    "learning_rate",
}
"""What tells results apart and is no result."""


def mapped(numbers: Any, function: Callable[[float], float]) -> Any:
    """Numbers of which every result is replaced; counts and names stay."""
    if isinstance(numbers, dict):
        return {key: value if key in KEPT else mapped(value, function) for key, value in numbers.items()}
    if isinstance(numbers, list):
        return [mapped(value, function) for value in numbers]
    return function(numbers) if isinstance(numbers, float) else numbers


def by_place(numbers: Any) -> Any:
    """All results of the k-th of several runs replaced by k."""
    if isinstance(numbers, dict):
        return {key: by_place(value) for key, value in numbers.items()}
    if isinstance(numbers, list) and numbers and isinstance(numbers[0], dict):
        return [mapped(value, lambda _, k=k: k) for k, value in enumerate(numbers, 1)]
    return numbers


def by_name(numbers: Any, path: str) -> Any:
    """All results times a factor of their names: arms, stages and metrics differ, in all runs alike."""
    if isinstance(numbers, dict):
        if "seed" not in numbers:
            path += "/".join(value for value in numbers.values() if isinstance(value, str))
        return {
            key: value if key in KEPT else by_name(value, f"{path}/{key}") for key, value in numbers.items()
        }
    if isinstance(numbers, list):
        return [by_name(each, path) for each in numbers]
    factor = 10 ** (2 * zlib.crc32(path.encode()) / 2**32 - 1)
    return numbers * factor if isinstance(numbers, float) else numbers


def other_numbers(numbers: Any) -> Iterator[Any]:
    """Other results that a study might have had, most of them absurd."""
    yield from (mapped(numbers, lambda value, f=f: f * value) for f in (-1.0, 10.0, 0.1))
    yield from (mapped(numbers, lambda _, value=value: value) for value in (1.0, 0.0))
    yield by_place(numbers)
    for key in numbers:
        yield {**numbers, key: mapped(numbers[key], lambda _: 0.0)}
    yield from (by_name(numbers, str(salt)) for salt in range(8))
    yield from (by_name(mapped(numbers, lambda _: 1.0), str(salt)) for salt in range(4))  # seeds agree
    for seed in range(4):
        rng = random.Random(seed)
        yield mapped(numbers, lambda value, rng=rng: value * rng.gauss(0, 1))
        yield mapped(numbers, lambda value, rng=rng: value * rng.lognormvariate(0, 1))  # no sign changes


@each(PAGES)
def test_verdicts_that_compare_no_arms_follow_from_the_numbers(one: Page) -> None:
    """Each such claim gets another verdict from some other results, so none is decided beforehand."""
    numbers = committed(one)
    left = {claim.key: claim.verdict for claim in one.claims(numbers) if not claim.arms}
    for other in other_numbers(numbers) if left else ():
        with contextlib.suppress(ArithmeticError, ValueError, KeyError):  # results that cannot be
            found = {claim.key: claim.verdict for claim in one.claims(other)}
            left = {key: verdict for key, verdict in left.items() if found.get(key, verdict) == verdict}
        if not left:
            break
    assert not left, "no other results were found that change these verdicts; are they computed?"


@each(PAGES)
def test_templates_do_not_judge(one: Page) -> None:
    """No verdict is typed into a template, and every claim that the numbers decide is on the page."""
    typed = re.sub(r"\{[{%].*?[%}]\}", "", one.template.read_text(encoding="utf-8"))
    judged = re.compile(r"\*\*(holds|does not|not reproduced|undecided)|never seen", re.IGNORECASE)
    assert not judged.search(typed)
    numbers = committed(one)
    shown = text_of(one, numbers)
    assert all(claim.statement in shown for claim in one.claims(numbers))


@each(PAGES)
def test_a_page_that_compares_can_be_turned(one: Page) -> None:
    """Claims have keys of their own, and where one compares arms the page says how to exchange them."""
    found = one.claims(committed(one))
    assert len({claim.key for claim in found}) == len(found)
    assert one.exchanged is not None or not any(claim.arms for claim in found)


@each([study for study in STUDIES if study.grid or any(name.endswith(".jsonl") for name in study.records)])
def test_a_second_run_does_nothing(one: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept is not computed again, and the files are the same; all of them are declared."""
    if one.name in NOT_SMALL:
        pytest.skip(NOT_SMALL[one.name])
    assert one.small, f"give {one.name} small settings: Study(small=lambda: ...)"
    fewer = {"out": tmp_path, "seeds": 2}
    options = {option.name: fewer.get(option.name, option.default) for option in one.options}
    session = Session(tell=lambda _: None)
    with few_exponents():
        printed = one.run(session, one.small(), **options)
    first = _bytes_in(tmp_path)
    assert {name for name in first if "/" not in name} - OF_STORES == set(one.files)
    assert any(name.endswith("/result.json") for name in first) == (one.grid is not None)

    monkeypatch.setattr(Store, "begin", lambda *_: pytest.fail("done again"))
    recall = Records.get
    monkeypatch.setattr(
        Records, "get", lambda self, key, _: recall(self, key, lambda: pytest.fail("computed again"))
    )
    with few_exponents():
        assert one.run(session, one.small(), **options) == printed
    assert _bytes_in(tmp_path) == first


OF_STORES = {"README.txt", "index.jsonl", "fingerprints.json"}


def _bytes_in(folder: Path) -> dict[str, bytes]:
    """Every file but leases, by its path in the folder."""
    files = [path for path in folder.rglob("*") if path.is_file() and "leases" not in path.parts]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


@each([study for study in STUDIES if study.grid])
def test_a_study_s_grid_is_among_the_grids(one: Study) -> None:
    """`grids/NAME.toml` names the runs of the study's own grid, with the seeds of the committed page."""
    assert one.grid is not None
    ours, found = load_grid(one.grid), load_grid(RESULTS.parents[1] / "lab" / "grids" / f"{one.name}.toml")
    assert found.points == ours.points
    seeds = len({point.settings["seed"] for point in found.points})
    assert all(f"--seeds {seeds} " in text_of(page, committed(page)) for page in one.pages)


def test_the_roster_is_light() -> None:
    """The command line starts without any study, and reading the roster loads nothing heavy."""
    first, then = "calibrant.cli.main", "papers.roster"
    code = f"import sys, {first}; print(*sys.modules); import {then}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    at_start, after = (set(line.split()) for line in loaded.splitlines())
    assert not [name for name in at_start if name.startswith("calibrant_lab.sweep")]
    assert then in after
    roots = {name.partition(".")[0] for name in after}
    assert not roots & {"torch", "numpy", "scipy", "matplotlib", "jinja2", "pydantic"}
