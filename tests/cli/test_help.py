"""``--help``: short, grouped, with examples and one name for one idea; old names work and say so."""

import re
import shlex
from typing import Any

import pytest
import typer

import calibrant
from calibrant.cli.help import GONE, INPUT, OLD_NAMES
from calibrant.cli.main import app
from command_line import call, one_line

GROUP = typer.main.get_command(app)
COMMANDS: dict[str, Any] = GROUP.commands  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("name", [*COMMANDS])
def test_a_help_is_one_screen_with_two_examples(run, name) -> None:
    """At most 45 lines of 100 columns: what the command does, then two examples that can be typed."""
    text = run(name, "--help").stdout
    lines = text.splitlines()
    assert len(lines) <= 45
    assert max(map(len, lines)) <= 100
    assert lines[0].endswith(".")
    examples = text.partition("Examples:\n")[2].partition("\n\n")[0].splitlines()
    assert len(examples) == 2
    for example in examples:
        words = shlex.split(example)
        assert words[0] == "calibrant"
        known = {each for param in COMMANDS[words[1]].params for each in param.opts}
        assert {word.partition("=")[0] for word in words if word.startswith("-")} <= known


def test_the_first_help_groups_the_commands(run) -> None:
    text = run("--help").stdout
    titles = [line for line in text.splitlines() if re.fullmatch("[A-Z][a-z]+:?", line)]
    assert titles == ["Examples:", "Evaluate", "Fix", "Watch", "Look", "Lab", "Options"]
    shown = re.findall(r"^  ([a-z]+)  ", text, flags=re.MULTILINE)
    assert sorted(shown) == sorted(set(COMMANDS) - {"help"})
    # No ``<path>``, no ``{file}``.
    for name, command in COMMANDS.items():
        for param in command.params:
            if param.param_type_name == "option" and not param.is_flag and param.name != "help":
                assert re.fullmatch("[A-Z]+", param.metavar or ""), (name, param.name, param.metavar)


def test_reading_options_are_behind_one_line(run) -> None:
    """``calibrant help input`` prints them once; every command that reads understands them."""
    text = run("help", "input").stdout
    for name in ("evaluate", "fit", "apply", "compare", "check", "monitor", "figure"):
        own = [each for each in COMMANDS[name].params if getattr(each, "rich_help_panel", None) == INPUT]
        assert len(own) == 16
        assert all(each.opts[0] in text for each in own)
        shown = run(name, "--help").stdout
        assert "calibrant help input" in shown
        assert "--prob-columns NAMES" not in shown
    assert run("help", "fit").stdout == run("fit", "--help").stdout
    assert "did you mean 'input'?" in run("help", "inptu").stderr.lower()


@pytest.mark.parametrize(
    ("command", "old", "new"),
    [(command, *each) for command, names in OLD_NAMES.items() for each in names.items()],
)
def test_old_names_work_until_their_version(run, command, old, new) -> None:
    """With a note; no help shows them. The release that removes them fails here until they are removed."""
    assert [*map(int, calibrant.__version__.split(".")[:2])] < [*map(int, GONE.split("."))]
    typed = {each for param in COMMANDS[command].params for each in param.opts}
    assert new in typed
    assert old not in typed
    assert old not in run(command, "--help").stdout.split()
    done = run(command, f"{old}=")
    assert f"note: {old} is now {new}; calibrant {GONE} removes the old name." in one_line(done.stderr)
    assert f"no option {old}" not in one_line(done.stderr)


def test_an_old_name_has_its_effect(tmp_path, over_confident) -> None:
    """As an option, and as a default of ``pyproject.toml``."""
    options = ("check", over_confident.name, "--max-ece", "0.9", "--bootstrap", "20", "--json", "-")
    assert '"confidence": 0.9' in call(*options, "--confidence", "0.9", folder=tmp_path).stdout
    (tmp_path / "pyproject.toml").write_text("[tool.calibrant.check]\nconfidence = 0.8\n")
    assert '"confidence": 0.8' in call(*options, folder=tmp_path).stdout


def test_methods_are_listed_in_one_place(run, monkeypatch) -> None:
    """All of the roster, a planted one included; the helps of commands point there."""
    from calibrant.calibrators import available, roster

    monkeypatch.setitem(roster.CALIBRATORS, "planted-by-a-test", roster.CALIBRATORS["platt"])
    text = run("methods").stdout
    assert all(name in text for name in available())
    for kind in roster.CALIBRATORS.values():
        assert len((kind.__doc__ or "").partition("\n")[0].split()) <= 12, kind
    for command in ("evaluate", "fit", "serve"):
        shown = run(command, "--help").stdout
        assert "calibrant methods" in shown
        assert "isotonic" not in shown
