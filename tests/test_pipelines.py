"""The GitHub action and the GitLab template: their shell steps, run as a runner runs them."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from pages import DOCS, ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
GITLAB = yaml.safe_load((ROOT / ".ci" / "gitlab-template.yml").read_text(encoding="utf-8"))[
    ".calibrant-check"
]
STEPS = ACTION["runs"]["steps"]
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

# Stand for what needs a network. A virtual environment is one whose pip notes what it would install.
PROGRAMS = {
    "python": """
if [ "$1 $2" = "-m venv" ]; then mkdir -p "$3/bin" && cp "$0" "$(dirname "$0")/calibrant" "$3/bin"
elif [ "$1 $2" = "-m pip" ]; then echo "$@" > "$RUNNER_TEMP/pip"
else exec PYTHON "$@"; fi""",
    "calibrant": 'exec PYTHON -m calibrant "$@" --bootstrap 50',
    "gh": """
if [ "$2" = list ]; then echo "$@" > "$RUNNER_TEMP/gh"; echo "1 2"
elif [ "$3" = 2 ] && [ -f "$RUNNER_TEMP/../kept.npz" ]; then
  mkdir -p "$7" && cp "$RUNNER_TEMP/../kept.npz" "$7/my file.npz"
else exit 1; fi""",
    "pip": 'echo "$@" > pip',
    "curl": 'echo "$@" > curl; [ -f kept.npz ] && cp kept.npz calibrant-baseline/"my file.npz"',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with predictions that are far too sure; the programs above lie beside it."""
    rng = np.random.default_rng(0)
    (tmp_path / "bin").mkdir()
    (tmp_path / "work" / "temp").mkdir(parents=True)
    np.savez(tmp_path / "work" / "my file.npz", confidence=np.full(400, 0.95), correct=rng.random(400) < 0.7)
    for name, text in PROGRAMS.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/bash\n{text.strip()}\n".replace("PYTHON", shlex.quote(sys.executable)))
        program.chmod(0o755)
    return tmp_path / "work"


def better(folder: Path) -> None:
    """A baseline that the predictions are clearly worse than."""
    np.savez(folder / "kept.npz", confidence=np.full(400, 0.95), correct=np.arange(400) % 20 > 0)


def bash(folder: Path, script: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a step with the shell options of GitHub's runner."""
    path = f"{folder.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=os.environ | {"PATH": path, "PYTHONUTF8": "1"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


class Runner:
    """What a runner does with an action: conditions, environment, outputs; other actions are passed over."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.folder, self.log, self.code = folder, "", 0
        defaults = {"token": "secret", "baseline-branch": "main"}
        given = {name: each.get("default", "") for name, each in ACTION["inputs"].items()}
        self.known = {f"inputs.{name}": value for name, value in (given | defaults | inputs).items()}
        self.known |= {"github.repository": "a/b", "github.ref_name": "main"}
        self.known["steps.python.outputs.python-path"] = str(folder.parent / "bin" / "python")
        self.summary = folder / "temp" / "summary"
        self.uses = [self._step(step) for step in STEPS if self.code == 0 and self._if(step)]

    def _value(self, expression: str) -> Any:
        names = re.sub(r"[a-z]\w*\.[\w.-]+", lambda found: repr(self.known.get(found[0], "")), expression)
        return eval(names.replace("&&", " and ").replace("||", " or "), {})  # of our own file

    def _if(self, step: dict[str, Any]) -> bool:
        return bool(self._value(step.get("if", "True")))

    def _filled(self, text: str) -> str:
        return re.sub(r"\${{ (.*?) }}", lambda found: str(self._value(found[1])), text)

    def _step(self, step: dict[str, Any]) -> dict[str, str] | None:
        if "uses" in step:
            return {name: self._filled(str(value)) for name, value in step["with"].items()}
        assert step["shell"] == "bash"
        assert "${{" not in step["run"]  # which would let an input write the script
        output = self.folder / "temp" / "output"
        output.write_text("")
        done = bash(
            self.folder,
            step["run"],
            {
                **{name: self._filled(value) for name, value in step["env"].items()},
                "RUNNER_TEMP": str(self.folder / "temp"),
                "GITHUB_ACTION_PATH": "/action",
                "GITHUB_OUTPUT": str(output),
                "GITHUB_STEP_SUMMARY": str(self.summary),
                "GITHUB_WORKFLOW": "tests",
            },
        )
        self.log, self.code = self.log + done.stdout + done.stderr, done.returncode
        for line in output.read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition("=")
            self.known[f"steps.{step['id']}.outputs.{name}"] = value
        return None

    def outputs(self) -> dict[str, str]:
        return {name: self._filled(each["value"]) for name, each in ACTION["outputs"].items()}


@pytest.mark.slow
def test_the_action_compares_with_the_main_branch_and_reports(folder: Path) -> None:
    """A failure ends the step, is annotated and in the summary; the file does not become the baseline."""
    better(folder)
    runner = Runner(
        folder,
        file="my file.npz",
        limits="--min-accuracy 0.5",
        options="--baseline-metric 'ece'",
        **{"baseline-artifact": "predictions"},
    )
    assert runner.code == 1, runner.log
    (error,) = re.findall(r"^::error title=calibrant check::(.*)$", runner.log, flags=re.MULTILINE)
    assert "worse than the baseline's" in error
    assert "95%25 of cases" in error
    out = runner.outputs()
    assert (out["passed"], out["exit-code"]) == ("false", "1")
    assert json.loads(Path(out["json"]).read_text(encoding="utf-8"))["passed"] is False
    assert 'failures="1"' in Path(out["junit"]).read_text(encoding="utf-8")
    summary = Path(out["markdown"]).read_text(encoding="utf-8")
    assert summary.startswith("<!-- calibrant summary -->\n### ✗ 1 of 2 checks fails")
    assert runner.summary.read_text(encoding="utf-8") == summary
    assert "--workflow tests --branch main --status success" in (folder / "temp" / "gh").read_text()
    assert len(runner.uses) == len(STEPS) - 1  # nothing is uploaded
    told = Runner(folder, file="my file.npz", limits="--max-ece 0.01", fail="false")
    assert (told.code, told.outputs()["passed"]) == (0, "false")
    wrong = Runner(folder, file="absent.npz", limits="--max-ece 0.01", fail="false")
    assert wrong.code == 2
    assert "::error title=calibrant check::absent.npz: no such file." in wrong.log
    assert "The check could not run" in wrong.summary.read_text(encoding="utf-8")


def test_the_first_run_on_the_main_branch_saves_a_baseline(folder: Path) -> None:
    """Without limits there is nothing to check yet, which is said; then the file is uploaded."""
    runner = Runner(folder, file="my file.npz", **{"baseline-artifact": "predictions"})
    assert runner.code == 0, runner.log
    assert "::notice title=calibrant check::main has no artifact predictions yet" in runner.log
    assert "so nothing was checked" in runner.log
    assert runner.uses[-1] == {
        "name": "predictions",
        "path": "my file.npz",
        "overwrite": "True",
        "if-no-files-found": "error",
    }


@pytest.mark.parametrize(
    ("version", "installed"),
    [
        ("", "-c /action/constraints.txt /action"),
        ("0.3.0", "calibrant==0.3.0"),
        ("./my clone", "./my clone"),
    ],
)
def test_what_the_action_installs(folder: Path, version: str, installed: str) -> None:
    """By default its own commit with pinned packages; else a version, or whatever pip takes."""
    Runner(folder, file="my file.npz", version=version, **{"baseline-artifact": "predictions"})
    words = (folder / "temp" / "pip").read_text().strip()
    assert words == f"-m pip install --quiet --disable-pip-version-check {installed}"


def gitlab(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the job with its variables and those that GitLab sets."""
    given = {name: str(value) for name, value in (GITLAB["variables"] | variables).items()}
    given |= {"CALIBRANT_FILE": "my file.npz", "CI_API_V4_URL": "https://gitlab.example/api/v4"}
    given |= {"CI_PROJECT_ID": "7", "CI_DEFAULT_BRANCH": "main", "CI_JOB_NAME": "a b", "CI_JOB_TOKEN": "t"}
    return bash(folder, "\n".join([*GITLAB["before_script"], *GITLAB["script"]]), given)


@pytest.mark.slow
def test_the_gitlab_job_compares_with_the_default_branch(folder: Path) -> None:
    """It installs, fetches the baseline and fails with the exit code of the check; artefacts are there."""
    better(folder)
    done = gitlab(folder, CALIBRANT_LIMITS="--min-accuracy 0.5", CALIBRANT_OPTIONS="--baseline-metric 'ece'")
    assert done.returncode == 1, done.stderr
    assert "FAIL: The calibration error" in done.stdout
    assert "pass: The accuracy" in done.stdout
    assert (folder / "pip").read_text() == "install --quiet calibrant\n"
    assert "/projects/7/jobs/artifacts/main/raw/my file.npz" in (folder / "curl").read_text()
    assert {"check.json", "check.xml", "check.md"} <= {path.name for path in folder.iterdir()}


def test_the_first_gitlab_job_passes(folder: Path) -> None:
    done = gitlab(folder)
    assert done.returncode == 0, done.stderr
    assert "nothing was checked" in done.stdout


@pytest.mark.slow
def test_the_nightly_script_watches_every_segment(folder: Path) -> None:
    """The alarm of one segment is the exit code of the whole, and each leaves its metrics."""
    page = (DOCS / "how-to" / "monitor.md").read_text(encoding="utf-8")
    section = page.partition("## Watch segments every night\n")[2]
    made, split = (
        re.search(mark, section, flags=re.DOTALL)
        for mark in (r"<!-- python\n(.*?)-->", r"```python\n(.*?)```")
    )
    script = re.search(r"```bash\n(.*?)```", section, flags=re.DOTALL)
    assert made and split and script  # noqa: PT018 (one page)
    (folder / "made.py").write_text(f"import numpy as np\nrng = np.random.default_rng(0)\n{made[1]}")
    (folder / "split.py").write_text(split[1])
    subprocess.run([sys.executable, "made.py"], cwd=folder, check=True)
    path = f"{folder.parent / 'bin'}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", script[1]],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.count("ALARM: ") == 1
    for name, alarm in (("direct", 0), ("reseller", 1)):
        text = (folder / "segments" / f"{name}.prom").read_text()
        assert f'calibrant_monitor_alarm{{file="{name}.parquet"}} {alarm}\n' in text
