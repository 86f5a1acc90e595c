"""The contributors' pages: what they name is there, commands are the Makefile's, links lead somewhere."""

from __future__ import annotations

import ast
import importlib
import math
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch

from import_graph import package_graph, rooms, with_picture

ROOT = Path(__file__).parents[1]
PAGES = ("CONTRIBUTING.md", "docs/architecture.md")
TEXTS = {page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
CODE = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
PATH = re.compile(r"^(?:src|lab|papers|tests|docs|changelog\.d|benchmarks|\.ci|\.github)/[\w./-]*$")
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
SECTIONS = dict(
    re.findall(
        r"^### (Add .*?)\n(.*?)(?=^###? |\Z)", TEXTS["CONTRIBUTING.md"], flags=re.DOTALL | re.MULTILINE
    )
)


def named_paths(text: str) -> set[str]:
    """The paths in inline code and in the commands of a page."""
    commands = [code for language, code in FENCED.findall(text) if language == "console"]
    words = {*CODE.findall(FENCED.sub("", text)), *(word for code in commands for word in code.split())}
    return {word for word in words if PATH.match(word)}


def exists(path: str) -> bool:
    """Whether a path is there; of a file that is to be written, the folder."""
    return (ROOT / path.partition("NAME")[0].rpartition("/")[0] if "NAME" in path else ROOT / path).exists()


def rows(text: str) -> list[list[str]]:
    """The cells of a page's tables, without the heads."""
    lines = re.findall(r"^\| (`.*) \|$", text, flags=re.MULTILINE)
    return [line.split(" | ") for line in lines]


@pytest.mark.parametrize("page", PAGES)
def test_named_paths_exist(page: str) -> None:
    paths = named_paths(TEXTS[page])
    assert len(paths) > 20
    assert [path for path in sorted(paths) if not exists(path)] == []


@pytest.mark.parametrize("page", ["README.md", *PAGES])
def test_links_lead_somewhere(page: str) -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)", (ROOT / page).read_text(encoding="utf-8"))
    assert links
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


def test_a_path_that_is_gone_is_noticed() -> None:
    """The check above can fail, in prose, in commands, and for files to be written."""
    text = (
        "`src/calibrant/gone.py`, `tests/nowhere/test_NAME.py`, `probs`\n```console\n$ pytest tests/gone\n```"
    )
    assert named_paths(text) == {"src/calibrant/gone.py", "tests/nowhere/test_NAME.py", "tests/gone"}
    assert not any(exists(path) for path in named_paths(text))
    assert exists("tests/losses/test_NAME.py")


def test_the_picture_is_drawn_from_the_imports() -> None:
    """Drawn anew, the page is the same; ``python tests/import_graph.py`` redraws it."""
    graph = package_graph()
    page = TEXTS["docs/architecture.md"]
    assert with_picture(page, graph) == page
    assert with_picture(page, graph | {"losses/focal.py": {"reports/html.py"}}) != page


def test_every_room_is_described() -> None:
    graph = package_graph()
    told = {cells[0].strip("`") for cells in rows(TEXTS["docs/architecture.md"])}
    there = {f"src/calibrant/{room}" for room in rooms(graph) if not room.startswith("__")}
    lab = {f"lab/src/calibrant_lab/{room}" for room in rooms(package_graph("calibrant_lab"))}
    assert {path for path in told if path.startswith("src/")} == there
    assert {path for path in told if path.startswith("lab/src")} >= {path for path in lab if "__" not in path}


FOUR = ("Add a loss", "Add a metric", "Add a network")


@pytest.mark.parametrize("section", SECTIONS)
def test_adding_touches_few_files(section: str) -> None:
    """A table of files with the changelog's, a skeleton that is Python, and the command to check it."""
    text = SECTIONS[section]
    assert 2 < len(rows(text)) <= (4 if section in FOUR else 5)
    languages = [language for language, _ in FENCED.findall(text)]
    assert languages == ["python", "console"]
    (skeleton, command) = (code for _, code in FENCED.findall(text))
    ast.parse(skeleton if not skeleton.startswith('"') else f"{{{skeleton}}}")
    assert re.fullmatch(r"\$ \.venv/bin/python -m pytest( (tests|src|lab|papers)/[\w./]+)+\n", command)


SKELETONS = {
    "Add a loss": (
        ["torch", "calibrant.losses._module", "calibrant.losses._rows", "calibrant._math.shapes"],
        lambda made: made["PolyLoss"](penalty=1.0)(torch.zeros(1, 2), torch.zeros(1).long()).item(),
        math.log(2) + 0.5,
    ),
    "Add a metric": (
        ["calibrant.metrics.scores"],
        lambda made: made["error_rate"]([0.9, 0.2], [1, 1]).item(),
        0.5,
    ),
    "Add a quantity": (
        ["calibrant.evaluation.quantities", "calibrant.evaluation.resampling.events"],
        lambda made: made["BIAS"].computed.value(np.array([0.9, 0.5]), np.array([1.0, 0.0]), None, 15),
        0.2,
    ),
}


@pytest.mark.parametrize("section", SKELETONS)
def test_skeletons_run(section: str) -> None:
    """With the imports of the file that the page names they compute what they say."""
    modules, value, expected = SKELETONS[section]
    made = {"torch": torch}
    for module in modules:
        made |= vars(importlib.import_module(module))
    (skeleton,) = (code for language, code in FENCED.findall(SECTIONS[section]) if language == "python")
    exec(compile(f"from __future__ import annotations\n{skeleton}", "CONTRIBUTING.md", "exec"), made)
    assert value(made) == pytest.approx(expected)


def test_there_is_a_section_for_each_kind() -> None:
    kinds = (
        "loss",
        "metric",
        "quantity",
        "calibrator",
        "file format",
        "study",
        "task or an engine",
        "dataset",
    )
    assert list(SECTIONS) == [f"Add a {kind}" for kind in (*kinds, "network")]


def test_commands_are_targets_of_the_makefile() -> None:
    """The page, the hooks before a commit and the workflows call ``make`` with what it knows."""
    workflow = "".join(
        (ROOT / f".github/workflows/{name}.yml").read_text(encoding="utf-8") for name in ("checks", "release")
    )
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    runs = re.findall(r"run: (.*)$", workflow, flags=re.MULTILINE)
    entries = re.findall(r"entry: (.*)$", hooks, flags=re.MULTILINE)
    assert runs
    assert entries
    assert all(command.startswith(("make ", "gh release ")) for command in [*runs, *entries])
    everywhere = [*runs, *entries, *CODE.findall(TEXTS["CONTRIBUTING.md"])]
    called = {command.split()[1] for command in everywhere if command.startswith("make ")}
    assert {"test", "lint", "wheel-check", "docs-check", "sbom"} <= called
    assert called <= TARGETS


def test_fragments_of_the_changelog_are_of_a_kind() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    kinds = {kind["directory"] for kind in project["tool"]["towncrier"]["type"]}
    names = {path.name for path in (ROOT / "changelog.d").glob("*.md")} - {"README.md"}
    assert {name.split(".")[1] for name in names} <= kinds
