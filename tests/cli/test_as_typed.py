"""The command line bears what people type."""

import io
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import calibrant
from calibrant._math.errors import InputError
from calibrant.cli.main import app
from calibrant.cli.terminal import is_our_json
from calibrant.evaluation.group_repairs import title_of
from calibrant.reports.commands import mark_of_files
from command_line import one_line


@pytest.fixture(scope="module")
def found() -> calibrant.Evaluation:
    rng = np.random.default_rng(0)
    odds = rng.normal(size=400)
    labels = (rng.random(400) < 1 / (1 + np.exp(-odds))).astype(int)
    given = calibrant.Predictions(logits=4 * odds, labels=labels)
    return calibrant.evaluate(given, calibrators=["temperature"], bootstrap=20, null_draws=40)


@pytest.fixture
def asked(monkeypatch, found) -> list[dict[str, Any]]:
    """What the library was asked to evaluate; it answers at once, with what it found of another model."""
    given: list[dict[str, Any]] = []

    def answer(predictions: calibrant.Predictions, **options: Any) -> calibrant.Evaluation:
        given.append({"predictions": predictions, **options})
        return replace(
            found, num_test=predictions.num_samples, source=predictions.source, command=options["command"]
        )

    def page(_: calibrant.Evaluation, path: Path, *, files: list[Path], **more: Any) -> None:
        repairs = "" if more["by_group"] is None else title_of(more["by_group"])
        path.write_text(f'<meta name="generator" content="calibrant {mark_of_files(files)}">{repairs}')

    monkeypatch.setattr("calibrant.evaluation.evaluate", answer)
    monkeypatch.setattr("calibrant.reports.write_report", page)  # a second of drawing
    return given


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "p.npz"
    np.savez(path, logits=np.linspace(-2, 2, 40), labels=np.arange(40) % 2)
    return path


def test_a_foreign_table_is_read_by_every_command(run, asked, tmp_path, found) -> None:
    """Names, words and percentages are understood; what is done next reads the file in the same way."""
    rows = [
        f"{word},{percent},{percent // 50}"
        for word, percent in zip(["ham", "spam"] * 20, range(10, 90, 2), strict=True)
    ]
    (tmp_path / "mail.csv").write_text("\n".join(["y_true,p_spam,site", *rows]))
    options = ("--group-column", "site", "--label-column", "y_true")
    run("evaluate", "mail.csv", *options, code=0)
    given = asked[0]["predictions"]
    assert (given.kind, given.class_names, given.probs[0].item()) == ("binary", ("ham", "spam"), 0.1)
    assert (given.labels[:2].tolist(), given.groups[0]) == ([0, 1], "0")
    fit = run("fit mail.csv --all --method temperature -o t.safetensors --label-column y_true", code=0)
    assert "note: `p_spam` holds percentages and was divided by 100." in fit.stdout
    run("apply t.safetensors mail.csv -o out.csv --prob-columns p_spam", code=0)
    run("check", "mail.csv", "--max-ece", "0.9", "--bootstrap", "20", *options, code=0)
    # What ``evaluate`` recommends carries its options.
    from calibrant.reports.commands import with_commands

    told = with_commands(found, reading="--label-column y")
    assert told.verdict.commands
    assert all(command.endswith(" --label-column y") for command in told.verdict.commands)


def test_repairs_by_group_are_shown(run, asked, tmp_path) -> None:
    """``--by-group`` adds a table: a row for each group, a column for each repair."""
    rng = np.random.default_rng(0)
    groups = np.array(["a; c", "b; c"])[np.arange(200) % 2]
    np.savez(tmp_path / "g.npz", logits=rng.normal(size=200), labels=rng.integers(0, 2, 200), groups=groups)
    done = run("evaluate", "g.npz", "--by-group", "--report", "g.html", code=0)
    lines = done.stdout.partition("Repairs by group")[2].splitlines()
    firsts = [line.partition(" ")[0] for line in lines]  # the name, and the count below it
    assert [firsts[firsts.index(name) + 1] for name in ("all", "c")] == ["100", "100"]
    told = "Groups off on average, out of 3, on these 100 samples"
    assert told in one_line(done.stdout)
    assert "Repairs by group: Platt scaling" in (tmp_path / "g.html").read_text()


def test_several_files_one_after_another(run, asked, file, tmp_path) -> None:
    """Each has its verdict and its page, and a row of the last table; a bad one is told, and counts."""
    (tmp_path / "bad.npz").write_bytes(b"PK")
    calibrant.load_predictions(file).rows(slice(0, 30)).save(tmp_path / "part.npz")
    files = ("--report", "pages", "--json", "all.json", "--markdown", "all.md")
    done = run("evaluate", "part.npz", "bad.npz", "p.npz", *files, code=2)
    assert done.stderr.startswith("calibrant: ")
    assert "bad.npz" in one_line(done.stderr)
    assert done.stdout.count("Best fix: temperature scaling") == 2
    last = done.stdout.rstrip().splitlines()[-4:]  # of each file two: a value, and its interval below
    assert [line.split()[0] for line in last[::2]] == ["part.npz", "p.npz"]
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == ["p.html", "part.html"]
    found = json.loads((tmp_path / "all.json").read_text())
    assert [each["num_test"] for each in found] == [30, 40]
    assert (tmp_path / "all.md").read_text(encoding="utf-8").count(
        "report: `pages`, numbers: `all.json`"
    ) == 2


def test_files_of_one_name_have_pages_of_their_own(run, asked, file, tmp_path) -> None:
    """The folders that tell them apart name the pages; a file that comes twice is judged once."""
    for name in ("one", "[b]two"):
        (tmp_path / name).mkdir()
        shutil.copy(file, tmp_path / name / "p.npz")
    done = run("evaluate", "one/p.npz", "[b]two/p.npz", "one/../one/p.npz", "--report", "pages", code=0)
    assert sorted(path.name for path in (tmp_path / "pages").iterdir()) == ["[b]two-p.html", "one-p.html"]
    assert [each for each in done.stdout.split() if each.endswith("two/p.npz")][-1] == "[b]two/p.npz"
    assert len(asked) == 2


def test_patterns_that_the_shell_left(run, asked, file) -> None:
    run("evaluate", "*.npz", code=0)
    assert len(asked) == 1


def test_a_pipe_in_and_json_out(run, asked, file, monkeypatch) -> None:
    """``-`` reads the standard input whatever its format, and ``--json -`` prints nothing else."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    done = run("evaluate", "-", "--json", "-", code=0)
    assert json.loads(done.stdout)["source"]["name"] == "stdin"
    text = "label\tprob\n" + "1\t0.75\n0\t0.5\n" * 20
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    done = run("check /dev/stdin --format tsv --max-ece 0.9 --json - --bootstrap 20", code=0)
    assert json.loads(done.stdout)["passed"]


def test_levels_as_people_say_them(run, asked, file) -> None:
    for level in ("95", "95%", "0.95"):
        run("evaluate", file.name, "--level", level)
    assert [each["level"] for each in asked] == [0.95] * 3


def test_every_command_knows_quiet_verbose_and_version(run) -> None:
    """``-q``, ``-v`` and ``-V`` everywhere."""
    group = typer.main.get_command(app)
    for name, command in group.commands.items():
        known = {option for each in command.params for option in each.opts}
        assert {"-q", "-v", "-V"} <= known, name
    assert run("fit", "-V").stdout.strip() == f"calibrant {calibrant.__version__}"


def test_quiet_prints_nothing_and_verbose_the_stages(run, asked, file) -> None:
    """Before the command and after it: silence where it succeeds; stages with seconds, and tracebacks."""
    done = run("-q", "evaluate", "p.npz")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert "reading p.npz" in run("-v", "evaluate", "p.npz").stderr
    assert "Best fix" in run("evaluate", "p.npz").stdout  # it holds for that command only
    fit = ("fit", file.name, "--all", "--method", "temperature", "-o", "c.safetensors")
    assert run(*fit, "-q").stdout == ""
    assert " s  fitting temperature on 40 samples" in run(*fit, "-v").stderr
    done = run("evaluate", file.name, "--by-group", "-v", code=2)
    assert "Traceback" in one_line(done.stderr)


def test_nothing_is_replaced_by_another_command(run, asked, file, tmp_path) -> None:
    """A report is replaced by another one of its file, a calibrator by an equal one; else by --force."""
    first = ("evaluate", file.name, "--report", "r.html")
    run(*first, code=0)
    run(*first, code=0)
    run(*first, "--seed", "1", code=0)
    other = ("evaluate", "other.npz", "--report", "r.html")
    (tmp_path / "other.npz").write_bytes(file.read_bytes())
    done = run(*other, code=2)
    assert "r.html already exists and isn't a report of other.npz; use --force" in one_line(done.stderr)
    run(*other, "--force", code=0)
    fit = ("fit", file.name, "--all", "-o", "c.safetensors", "--method")
    run(*fit, "temperature", code=0)
    run(*fit, "temperature", code=0)
    kept = (tmp_path / "c.safetensors").read_bytes()
    assert "has other content; use --force to overwrite it" in one_line(run(*fit, "platt").stderr)
    assert (tmp_path / "c.safetensors").read_bytes() == kept
    run(*fit, "platt", "--force", code=0)
    (tmp_path / "package.json").write_text('{"name": "page"}')
    assert "already exists" in run("evaluate", file.name, "--json", "package.json").stderr


@pytest.mark.parametrize(
    "command",
    [
        "figure reliability p.npz -o there.svg",
        "check p.npz --max-ece 0.9 --bootstrap 20 --junit there.xml",
        "check p.npz --max-ece 0.9 --bootstrap 20 --markdown there.md",
        "check p.npz --max-ece 0.9 --bootstrap 20 --json there.json",
        "monitor p.npz --time t --json there.json",
        "monitor p.npz --time t --prometheus there.prom",
        "curvature module:factory --json there.json",
        "curvature module:factory --figure there.svg",
        "predict lenet p.npz -o there.npz",
        "convert p.npz -o there.safetensors",
        "demo --out there",
    ],
)
def test_what_others_wrote_is_kept(run, file, tmp_path, command) -> None:
    words = command.split()
    place = tmp_path / next(word for word in words if word.startswith("there"))
    place = place / "report.html" if words[0] == "demo" else place
    place.parent.mkdir(exist_ok=True)
    place.write_text("mine")
    done = run(*words)
    assert (done.returncode, place.read_text()) == (2, "mine"), done.stderr
    assert "--force" in one_line(done.stderr)
    assert ("from before" in one_line(done.stderr)) == (words[0] in {"predict", "convert"})


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ('{"measurements": ["my own"]}', False),
        ('{"checks": []}', False),
        ('{"schema_version": 1, "versions": {"mine": "1"}}', False),
        ('{"format": 1, "of": "me", "measurements": ["my own"]}', False),
        ('[{"schema_version": 1, "versions": {"calibrant": "1"}}, 1]', False),
        ("[]", False),
        ("schema_version", False),
        ("\udcff", False),
        ("", True),
        ('{"schema_version": 1, "versions": {"calibrant": "1"}}', True),
        ('[{"schema_version": 1, "versions": {"calibrant": "1"}}]', True),
        ('{"format": 1, "of": "a run", "measurements": [{"trace": 1, "trace_standard_error": 0}]}', True),
    ],
)
def test_numbers_of_ours_are_told_from_those_of_others(tmp_path, text, ours) -> None:
    """A key that ours have is not enough, nor a list with one of ours; an empty file holds nothing."""
    path = tmp_path / "some.json"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    assert is_our_json(path) is ours


@pytest.mark.parametrize(
    ("command", "mark"), [("demo --out there", "demo.json"), ("heatmap . --out there", "heat-maps.json")]
)
def test_a_folder_is_known_by_its_own_mark(run, tmp_path, command, mark, monkeypatch) -> None:
    """Not by an evaluation.json, which training writes, too; a mark that is there, or --force, lets pass."""
    seen = []

    def stop(*_arguments, **_settings) -> None:
        seen.append(command)
        raise InputError("past the guard")

    monkeypatch.setattr("calibrant.demo.run.carry_out", stop)
    monkeypatch.setattr("calibrant_lab.training.load_run", stop)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "evaluation.json").write_text("{}")
    assert "is not empty and holds no" in run(*command.split()).stderr
    assert not seen
    assert "past the guard" in run(*command.split(), "--force").stderr
    (tmp_path / "there" / mark).write_text("{}")
    assert "past the guard" in run(*command.split()).stderr


def test_a_demo_that_was_stopped_may_begin_again(tmp_path, monkeypatch) -> None:
    from calibrant.demo.run import run_demo

    def stop(*_arguments, **_settings) -> None:
        raise KeyboardInterrupt("stopped")

    monkeypatch.setattr("calibrant.demo.run.carry_out", stop)
    with pytest.raises(KeyboardInterrupt, match="stopped"):
        run_demo(tmp_path / "there")
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["demo.json"]


def test_own_numbers_are_replaced(run, file) -> None:
    """A check in a pipeline writes the same file again; a figure that is the same, too."""
    check = ("check", "p.npz", "--max-ece", "0.9", "--bootstrap", "20", "--junit", "c.xml")
    check += ("--markdown", "c.md")
    figure = ("figure", "reliability", "p.npz", "-o", "r.svg")
    for command in (check, (*check, "--seed", "1"), figure, figure):
        run(*command, code=0)


def test_defaults_from_pyproject(run, asked, file, tmp_path) -> None:
    """The nearest file upward that has them, for all commands and for one; what is typed wins."""
    (tmp_path / "pyproject.toml").write_text(
        "[tool.calibrant]\nbootstrap = 20\n[tool.calibrant.evaluate]\nbins = 7\nmethod = ['temperature']\n"
    )
    run("evaluate", file.name, "--bins", "9")
    run("evaluate", file.name)
    one = "[tool.calibrant]\nbootstrap = 20\n[tool.calibrant.evaluate]\nmethod = 'temperature'\nbins = 7\n"
    (tmp_path / "pyproject.toml").write_text(one)
    run("evaluate", file.name)
    assert [(each["num_bins"], each["bootstrap"], each["calibrators"]) for each in asked] == [
        (9, 20, ["temperature"]),
        (7, 20, ["temperature"]),
        (7, 20, ["temperature"]),
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "[tool.calibrant]\nbin = 3\n",
            "[tool.calibrant] must hold options of commands; got bin; did you mean bins?",
        ),
        ("[tool.calibrant.evaluate]\nmax-ece = 3\n", "got max-ece"),
        ("[tool.calibrant.evalute]\n", "got evalute; did you mean evaluate?"),
        ("[tool\n", "is not TOML"),
    ],
)
def test_wrong_defaults_are_one_sentence(run, tmp_path, text, words) -> None:
    (tmp_path / "pyproject.toml").write_text(text)
    done = run("evaluate", "p.npz", code=2)
    assert words in one_line(done.stderr)
    assert str(tmp_path / "pyproject.toml") in one_line(done.stderr)


def test_a_missing_file_is_told_before_anything_heavy_is_imported(run, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "calibrant.evaluation.pipeline", None)
    monkeypatch.setitem(sys.modules, "calibrant.predictions", None)  # importing it would fail
    for command in (("evaluate",), ("compare", "absent.npz"), ("check",)):
        done = run(*command, "absent.npz")
        assert (done.returncode, done.stderr) == (2, "calibrant: absent.npz: no such file.\n")


def test_shells_complete_commands_and_options(tmp_path, monkeypatch, run) -> None:
    monkeypatch.setenv("_CALIBRANT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "calibrant evaluate --lev")
    monkeypatch.setenv("COMP_CWORD", "2")
    (tmp_path / "pyproject.toml").write_text("[tool.calibrant]\nbin = 3\n")  # of no interest to the shell
    assert run().stdout.split() == ["--level"]
    assert "_CALIBRANT_COMPLETE" in os.environ
