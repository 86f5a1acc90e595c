"""A release: one version everywhere, a recipe for conda, and a workflow that needs no secret."""

import re
import shutil
import subprocess
import tomllib
from typing import Any

import pytest
import yaml

import calibrant
import calibrant_lab
from pages import ROOT

PROJECT, LAB = (
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for folder in ("", "lab")
)
RECIPE = yaml.safe_load((ROOT / "recipe" / "recipe.yaml").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github").rglob("*.yml"))
RELEASE = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8"))
OF_CONDA = {"torch": "pytorch", "matplotlib": "matplotlib-base"}


def test_one_version_everywhere() -> None:
    """That of `calibrant.__version__`, with the date of its entry in the changelog."""
    number, date = re.findall(
        r"^## (\S+) \((.*)\)$", (ROOT / "CHANGELOG.md").read_text("utf-8"), flags=re.MULTILINE
    )[0]
    cited: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert number == calibrant.__version__ == calibrant_lab.__version__
    assert (str(cited["version"]), str(cited["date-released"])) == (number, date)
    assert RECIPE["context"]["version"] == number
    assert LAB["dependencies"][0] == f"calibrant=={number}"
    pipelines = (ROOT / "docs" / "how-to" / "gate-in-ci.md").read_text(encoding="utf-8")
    assert re.findall(r"(?:calibrant[@=]+v?|raw/v)([\d.]+\d)", pipelines) == [number] * 4


def test_both_packages_have_the_license() -> None:
    assert (ROOT / "lab" / "LICENSE").read_text("utf-8") == (ROOT / "LICENSE").read_text("utf-8")


def test_the_recipe_has_the_requirements_of_the_wheel() -> None:
    python, *needed = RECIPE["requirements"]["run"]
    wheel = [
        re.sub(r"^[\w-]+", lambda name: OF_CONDA.get(name[0], name[0]), each)
        for each in PROJECT["dependencies"]
    ]
    assert [each.replace(" ", "") for each in needed] == wheel
    assert (
        python.replace("${{ python_min }}", RECIPE["context"]["python_min"])
        == f"python {PROJECT['requires-python']}"
    )
    (script,) = RECIPE["build"]["python"]["entry_points"]
    assert script == f"calibrant = {PROJECT['scripts']['calibrant']}"


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_have_a_version(path) -> None:
    """Those of others; a branch such as `main` could change under us."""
    used = re.findall(r"uses: (\S+)", path.read_text(encoding="utf-8"))
    assert [each for each in used if not re.search(r"^\./|@v\d", each)] == []


def test_a_job_of_the_release_may_do_one_thing() -> None:
    """Packages are uploaded with a short-lived identity, by a job that runs no code of the repository."""
    allowed = {name: job.get("permissions", {}) for name, job in RELEASE["jobs"].items()}
    writes = {
        name: {each for each, level in may.items() if level == "write"} for name, may in allowed.items()
    }
    assert RELEASE["permissions"] == {"contents": "read"}
    assert writes == {"build": set(), "pypi": {"id-token"}, "container": {"packages"}, "github": {"contents"}}
    upload = RELEASE["jobs"]["pypi"]
    assert [step["uses"].partition("@")[0] for step in upload["steps"]] == [
        "actions/download-artifact",
        "pypa/gh-action-pypi-publish",
    ]
    assert upload["strategy"]["matrix"]["project"] == [PROJECT["name"], LAB["name"]]
    assert "secrets." not in str(RELEASE)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_the_notes_are_the_newest_entry(tmp_path) -> None:
    for name in ("Makefile", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    subprocess.run(["make", "release-notes"], cwd=tmp_path, check=True, capture_output=True)
    notes = (tmp_path / "build" / "notes.md").read_text(encoding="utf-8")
    entries = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").split("\n## ")
    assert notes.strip() == entries[1].partition("\n")[2].strip()
