"""What the README shows is run here, on the demo's own output."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from calibrant.calibrators.fitting import focal_searches
from calibrant.experiments.studies.demo import run
from calibrant.experiments.studies.demo.comparison import ALL, FEW
from command_line import call

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the output of a demo in it that trains for fewer epochs, and fits from fewer starts."""
    folder = tmp_path_factory.mktemp("readme")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(run, "FEW", replace(FEW, num_epochs=50))
        patch.setattr(run, "ALL", replace(ALL, num_epochs=1))
        patch.setattr(focal_searches, "START_GAMMAS", (0.0, 1.0))
        run.run_demo(folder / "demo", num_seeds=2)
    return folder


def test_python_examples_run(folder, monkeypatch, capsys) -> None:
    """The Python blocks, one after the other, print a verdict, a small error and a table."""
    monkeypatch.chdir(folder)
    exec(compile("\n".join(blocks("python")), "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert printed.startswith("Over-confident")
    assert "confidence  accuracy" in printed


def test_shell_examples_run(folder) -> None:
    """Every ``calibrant`` line succeeds and writes the files that it names."""
    commands = [
        line.removeprefix("$ calibrant ")
        for block in blocks("console")
        for line in block.splitlines()
        if line.startswith("$ calibrant ")
    ]
    assert len(commands) >= 4
    for command in commands:
        arguments = shlex.split(command, comments=True)
        if arguments == ["demo"]:  # the folder has its output
            continue
        done = call(*arguments, folder=folder)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    written = {path.name for path in folder.iterdir()}
    assert {"report.html", "numbers.json", "repair.safetensors", "repaired.npz"} <= written


def test_every_linked_file_exists() -> None:
    """Relative links and pictures of the README lead somewhere."""
    targets = re.findall(r"\]\((?!https?://)([^)#]+)", README)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []
