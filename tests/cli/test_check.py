"""``calibrant check`` as a pipeline meets it."""

from __future__ import annotations

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
    assert failure is not None
    assert f"FAIL: {failure.attrib['message']}" == first
    assert cases[1].find("failure") is None


def test_too_few_samples_pass_with_a_word_and_fail_where_strict(run, tmp_path) -> None:
    """Three samples: exit code 0 and what they would let through; 1 with ``--strict``."""
    np.savez(tmp_path / "three.npz", confidence=[0.95] * 3, correct=[1, 1, 0])
    done = run("check", "three.npz", "--max-ece", "0.05")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("pass, too few samples to tell: ")
    assert "3 samples are too few: a model with a true error of 0.4 would pass" in done.stdout
    done = run("check", "three.npz", "--max-ece", "0.05", "--strict")
    assert done.returncode == 1
    assert done.stdout.startswith("FAIL: ")


def test_quiet_prints_only_failures(run, boastful) -> None:
    """A pass prints nothing, a failure its sentence."""
    done = run("check", boastful.name, "--max-ece", "0.9", "--quiet")
    assert (done.returncode, done.stdout) == (0, "")
    done = run("check", boastful.name, "--max-ece", "0.01", "--min-accuracy", "0.1", "--quiet")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "there is nothing to check"),
        (
            ("--max-classwise-ece", "1"),
            "classwise_ece cannot be checked: needs the probabilities of all classes",
        ),
        (("--max-ece", "-1"), "must be 0 or more"),
        (("--max-ece", "5%"), "--max-ece must be a number such as 0.03; got '5%'; write 0.05."),
        (("--min-accuracy", "0,9"), "--min-accuracy must be a number such as 0.03; got '0,9'; write 0.9."),
        (("--max-nll", "low"), "--max-nll must be a number such as 0.03; got 'low'."),
        (("--max-ece", "0.1", "--baseline-metric", "ece"), "--baseline-metric go with a --baseline"),
        (("--baseline", "absent.npz"), "absent.npz: no such file"),
        (("--max-ece", "0.1", "--junit", "found.txt"), "must end in .xml"),
        (("--baseline", "a<b>&c.npz", "--baseline-metric", "f1"), "there is no metric 'f1'"),
    ],
)
def test_bad_input_is_exit_code_two_in_every_format(run, boastful, tmp_path, arguments, words) -> None:
    """One sentence on stderr, and in the files that a pipeline reads, if these can be written."""
    done = run("check", boastful.name, *arguments, "--json", "found.json")
    assert done.returncode == 2
    assert words in one_line(done.stderr)
    assert len(one_line(done.stderr).strip().splitlines()) == 1
    if "--junit" in arguments:
        assert [path.name for path in tmp_path.iterdir()] == [boastful.name]
    else:
        found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
        assert found["passed"] is False
        assert f"calibrant: {found['error']}\n" == one_line(done.stderr)


def test_a_missing_file_is_an_error_in_junit(run, boastful, tmp_path) -> None:
    """It is no failure of a check; the next run replaces it."""
    files = ("--json", "found.json", "--junit", "found.xml")
    done = run("check", "absent.npz", "--max-ece", "0.1", *files)
    assert (done.returncode, done.stderr) == (2, "calibrant: absent.npz: no such file.\n")
    suites = ET.parse(tmp_path / "found.xml").getroot()
    assert (suites.attrib["failures"], suites.attrib["errors"]) == ("0", "1")
    (error,) = suites.iter("error")
    assert error.attrib["message"] == "absent.npz: no such file."
    assert run("check", boastful.name, "--max-ece", "0.9", *files).returncode == 0
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
