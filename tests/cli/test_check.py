"""``calibrant check`` as a pipeline meets it; samples in clusters, and quantities that are asked for."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

from command_line import one_line


@pytest.fixture
def boastful(tmp_path: Path) -> Path:
    """Nothing but confidence and correctness, far too sure; a name that XML must escape."""
    rng = np.random.default_rng(1)
    path = tmp_path / "a<b>&c.npz"
    np.savez(path, confidence=np.full(400, 0.95), correct=rng.random(400) < 0.7)
    return path


def test_a_failure_is_exit_code_one_and_a_sentence(run, boastful, tmp_path) -> None:
    """The sentence says that noise does not explain it; JSON and JUnit say the same."""
    done = run("check", boastful.name, "--max-ece", "0.03", "--min-accuracy", "0.5",
               "--json", "found.json", "--junit", "found.xml")  # fmt: skip
    assert done.returncode == 1, done.stderr
    first, second = done.stdout.splitlines()[:2]
    assert re.match(r"FAIL: The calibration error \(ECE\) is 0\.\d+, above the limit of 0\.03", first)
    assert second.startswith("pass: The accuracy is 0.")
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["passed"] is False
    assert [each["outcome"] for each in found["checks"]] == ["fail", "pass"]
    assert found["command"].startswith("calibrant check")
    suites = ET.parse(tmp_path / "found.xml").getroot()
    assert (suites.tag, suites.attrib["tests"], suites.attrib["failures"]) == ("testsuites", "2", "1")
    cases = suites.findall("testsuite/testcase")
    assert [case.attrib["name"] for case in cases] == ["ece at most 0.03", "accuracy at least 0.5"]
    assert cases[0].attrib["classname"].endswith("a<b>&c.npz")
    failure = cases[0].find("failure")
    assert f"FAIL: {failure.attrib['message']}" == first
    assert cases[1].find("failure") is None


def test_too_few_samples_pass_with_a_word_and_fail_where_strict(run, tmp_path) -> None:
    """Three samples: exit code 0 and what they would let through; 1 with ``--strict``."""
    np.savez(tmp_path / "three.npz", confidence=[0.95] * 3, correct=[1, 1, 0])
    done = run("check", "three.npz", "--max-ece", "0.05", code=0)
    assert done.stdout.startswith("pass, too few samples to tell: ")
    assert "3 samples are too few: a model with a true error of 0.4 would pass" in done.stdout
    done = run("check", "three.npz", "--max-ece", "0.05", "--strict")
    assert done.returncode == 1
    assert done.stdout.startswith("FAIL: ")


def test_quiet_prints_only_failures(run, boastful) -> None:
    done = run("check", boastful.name, "--max-ece", "0.9", "--quiet")
    assert (done.returncode, done.stdout) == (0, "")
    done = run("check", boastful.name, "--max-ece", "0.01", "--min-accuracy", "0.1", "--quiet")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1


def test_bad_input_is_exit_code_two_in_every_format(run, boastful, tmp_path) -> None:
    """One sentence on stderr, and in the file that a pipeline reads."""
    done = run("check", boastful.name, "--json", "found.json", code=2)
    assert "there is nothing to check" in one_line(done.stderr)
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["passed"] is False
    assert f"calibrant: {found['error']}\n" == one_line(done.stderr)


def test_a_missing_file_is_an_error_in_junit(run, boastful, tmp_path) -> None:
    files = ("--json", "found.json", "--junit", "found.xml")
    done = run("check", "absent.npz", "--max-ece", "0.1", *files)
    assert (done.returncode, done.stderr) == (2, "calibrant: absent.npz: no such file.\n")
    suites = ET.parse(tmp_path / "found.xml").getroot()
    assert (suites.attrib["failures"], suites.attrib["errors"]) == ("0", "1")
    (error,) = suites.iter("error")
    assert error.attrib["message"] == "absent.npz: no such file."
    run("check", boastful.name, "--max-ece", "0.9", *files, code=0)
    assert "error" not in json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))


def test_a_summary_in_markdown(run, boastful, tmp_path) -> None:
    """It has the lines of the terminal and names the other files; an error is told in it, too."""
    check = ("check", boastful.name, "--max-ece", "0.03", "--min-accuracy", "0.5", "--markdown", "found.md")
    done = run(*check, "--junit", "found.xml")
    assert done.returncode == 1, done.stderr
    text = (tmp_path / "found.md").read_text(encoding="utf-8")
    assert text.startswith("<!-- calibrant summary -->\n### ✗ 1 of 2 checks fails\n\na\\<b>\\&c.npz\n")
    for line in done.stdout.splitlines():
        mark, _, sentence = line.partition(": ")
        assert f"- **{mark}** {sentence}\n" in text
    assert text.endswith("\n\nJUnit: `found.xml`\n")
    assert run("check", "absent.npz", *check[2:]).returncode == 2
    text = (tmp_path / "found.md").read_text(encoding="utf-8")
    assert text.endswith("### ✗ The check could not run\n\nabsent.npz: no such file.\n")
    assert "must end in .md" in one_line(run(*check[:-1], "found.txt").stderr)


@pytest.fixture
def visits(tmp_path) -> None:
    """Forty patients of ten visits each, in a table; some patients are to fit on, the others to judge on."""
    rng = np.random.default_rng(0)
    p = np.repeat(rng.random(40), 10)
    label = np.repeat(rng.random(40) < p[::10], 10).astype(int)
    split = np.repeat(np.arange(40) % 2, 10)
    lines = [f"{q},{y},p{k // 10},{s}" for k, (q, y, s) in enumerate(zip(p, label, split, strict=True))]
    (tmp_path / "visits.csv").write_text("\n".join(["prob,label,patient,split", *lines]) + "\n")


def test_every_command_takes_the_column(run, visits, tmp_path) -> None:
    evaluate = "evaluate visits.csv --bootstrap 20 --method platt --cluster patient"
    done = run(f"{evaluate} --json found.json", code=0)
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["settings"]["clusters"] == 20
    assert "20 clusters of 10 samples" in done.stdout
    assert "20 clusters" in run(f"{evaluate} --group-column patient", code=0).stdout  # which may be both
    plain = run("check", "visits.csv", "--max-ece", "0.05", "--bootstrap", "99")
    whole = run("check", "visits.csv", "--max-ece", "0.05", "--bootstrap", "99", "--cluster", "patient")
    assert (plain.returncode, whole.returncode) == (1, 0)
    (tmp_path / "other.csv").write_text((tmp_path / "visits.csv").read_text())
    both = run("compare visits.csv other.csv --group-column patient --cluster patient --bootstrap 40", code=0)
    assert "all models: Intervals and p-values treat the 20 clusters" in " ".join(both.stdout.split())
    run("fit", "visits.csv", "--cluster", "patient", "--out", "c.safetensors", code=0)


def test_a_quantity_is_added_by_name(run, over_confident, tmp_path) -> None:
    """Terminal and JSON have it with its interval; other quantities that were not asked for stay away."""
    few = {name: array[:1000] for name, array in np.load(over_confident).items()}
    np.savez(tmp_path / "few.npz", **few)
    few = "few.npz --bootstrap 20 --method temperature"
    done = run(f"evaluate {few} --metric smooth_ece --json found.json", code=0)
    assert "smECE" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    first, repaired = found["arms"]
    estimate = first["metrics"]["smooth_ece"]
    assert estimate["low"] < estimate["value"] < estimate["high"]
    assert repaired["change"]["smooth_ece"]["high"] < 0
    assert "debiased_ece" not in first["metrics"]


def test_a_baseline_can_be_held_by_such_a_quantity(run, over_confident, tmp_path) -> None:
    arrays = dict(np.load(over_confident))
    np.savez(tmp_path / "sharper.npz", **(arrays | {"logits": 2 * arrays["logits"]}))
    done = run("check", "sharper.npz", "--baseline", over_confident.name, "--baseline-metric", "smooth_ece",
               "--bootstrap", "50")  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("FAIL: The kernel-smoothed calibration error (smECE) is 0.")
