"""The main job by command line: evaluate, fit, apply, compare; and what happens to bad input."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import calibrant
from calibrant.reports.commands import mark_of_files
from command_line import one_line

ELSEWHERE = pytest.mark.skipif(sys.platform == "win32", reason="Windows says it in other words")


def one_sentence(text: str) -> str:
    """The error as printed, without a traceback: what is wrong, and below it what to do, here on one line."""
    assert "Traceback" not in text
    lines = [line for line in text.splitlines() if line.strip()]
    assert lines[0].startswith("calibrant: ")
    assert "\n" not in one_line(text.strip()), text
    return one_line(text.strip())


def test_evaluate_says_over_confident_and_writes_report_and_numbers(run, over_confident, tmp_path) -> None:
    """Predictions sharpened threefold are called over-confident; report and JSON appear where asked."""
    done = run(
        "evaluate", over_confident.name, "--report", "r.html", "--json", "r.json", "--bootstrap", "100"
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "Overconfident" in done.stdout
    assert "Report: r.html" in done.stdout
    evaluation = calibrant.Evaluation.from_json((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert evaluation.verdict.direction == "over-confident"
    assert evaluation.settings.bootstrap == 100
    assert evaluation.command == "calibrant evaluate over.npz --report r.html --json r.json --bootstrap 100"
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.lower().startswith("<!doctype html>")
    assert f'content="calibrant {mark_of_files([over_confident])}"' in page[:4096]  # so it can be made anew


def test_fit_chooses_where_no_method_is_named(run, over_confident, tmp_path) -> None:
    """What was compared is printed, and the simplest that is level with the best is saved."""
    done = run("fit", over_confident.name, "-o", "c.safetensors")
    assert done.returncode == 0, done.stderr
    assert "cross-validated log-loss" in done.stdout
    assert "Choice: use temperature;" in done.stdout
    assert calibrant.load_calibrator(tmp_path / "c.safetensors").name == "temperature"


def test_fit_makes_a_calibrator_even_where_none_is_needed(run, tmp_path) -> None:
    """Of calibrated predictions the choice is to leave them; temperature scaling is fitted all the same."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=2000)
    labels = (rng.random(2000) < 1 / (1 + np.exp(-logits))).astype(int)
    np.savez(tmp_path / "true.npz", logits=logits, labels=labels)
    done = run("fit", "true.npz", "--all", "-o", "c.safetensors")
    assert "leave the probabilities as they are" in done.stdout
    assert "note: to have a calibrator all the same" in done.stdout
    assert calibrant.load_calibrator(tmp_path / "c.safetensors").fit_result_.parameters[
        "temperature"
    ] == pytest.approx(1, abs=0.1)


def test_fit_then_apply_mends_the_temperature(run, over_confident, tmp_path) -> None:
    """The fitted temperature is near the planted 3; applying it lowers the error of the test split."""
    assert run("fit", over_confident.name, "--method", "temperature", "-o", "c.safetensors").returncode == 0
    calibrator = calibrant.load_calibrator(tmp_path / "c.safetensors")
    assert calibrator.fit_result_.parameters["temperature"] == pytest.approx(3, rel=0.1)
    applied = run("apply", "c.safetensors", over_confident.name, "-o", "out.npz")
    assert applied.returncode == 0, applied.stderr
    before, after = (
        calibrant.load_predictions(over_confident),
        calibrant.load_predictions(tmp_path / "out.npz"),
    )
    error = calibrant.metrics.expected_calibration_error
    assert error(after.test.probs, after.test.labels) < error(before.test.probs, before.test.labels) / 2


def test_apply_needs_no_labels(run, over_confident, tmp_path) -> None:
    """Logits alone can be calibrated."""
    run("fit", over_confident.name, "--method", "focal-temperature", "-o", "c.safetensors")
    np.savez(tmp_path / "new.npz", logits=np.random.default_rng(0).normal(size=(5, 4)))
    done = run("apply", "c.safetensors", "new.npz", "-o", "out.npz")
    assert done.returncode == 0, done.stderr
    probs = np.load(tmp_path / "out.npz")["probs"]
    assert probs.shape == (5, 4)
    np.testing.assert_allclose(probs.sum(1), 1, atol=1e-12)


def test_multilabel_repairs_apply_to_files_without_labels(run, tmp_path) -> None:
    """The calibrator knows that its columns are labels of their own; the file need not say so again."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(300, 3)) * 2
    labels = (rng.random((300, 3)) < 1 / (1 + np.exp(1 - logits))).astype(int)
    np.savez(tmp_path / "old.npz", logits=logits, labels=labels, split=np.arange(300) % 2)
    np.savez(tmp_path / "new.npz", logits=logits[:20])
    assert run("fit", "old.npz", "--method", "platt", "-o", "c.safetensors").returncode == 0
    done = run("apply", "c.safetensors", "new.npz", "-o", "out.npz")
    assert done.returncode == 0, done.stderr
    expected = calibrant.load_calibrator(tmp_path / "c.safetensors").predict_proba(logits[:20])
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["probs"], expected.numpy())


def test_compare_names_the_better_model(run, over_confident, tmp_path) -> None:
    """Of a file and its repaired form, the repaired one has the lower error."""
    run("fit", over_confident.name, "-o", "c.safetensors")
    run("apply", "c.safetensors", over_confident.name, "-o", "fixed.npz")
    files = ("--json", "c.json", "--markdown", "c.md")
    done = run("compare", over_confident.name, "fixed.npz", "--bootstrap", "100", *files)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "c.md").read_text(encoding="utf-8").endswith("\n\nnumbers: `c.json`\n")
    found = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    assert found["paired"]
    first, second = found["models"]
    assert (first["name"], second["name"]) == ("over", "fixed")
    assert second["difference"]["ece"]["high"] < 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("evaluate", "absent.npz"), "absent.npz"),
        (("evaluate", "over.npz", "--report", "r.pdf"), "must end in .html"),
        (("evaluate", "over.npz", "--report", "nowhere/r.html"), "does not exist"),
        (("evaluate", "over.npz", "--method", "temprature"), "temperature"),
        (("fit", "over.npz", "--method", "focal-temprature", "-o", "c.safetensors"), "focal-temperature"),
        (("fit", "over.npz", "-o", "c.bin"), "must end in .safetensors"),
        (("fit", "nosplit.npz", "-o", "c.safetensors"), "no calibration split"),
        (("fit", "unlabelled.npz", "-o", "c.safetensors"), "no labels"),
        (("apply", "over.npz", "over.npz", "-o", "o.npz"), "not a safetensors file"),
        (("apply", "c.safetensors", "five.npz", "-o", "o.npz"), "5"),
        (("apply", "c.safetensors", "over.npz", "-o", "o.xyz"), ".xyz"),
        (("apply", "c.safetensors", "over.npz", "-o", "over.npz"), "would be overwritten"),
        (("apply", "c.safetensors", "over.npz", "-o", "./../{folder}/over.npz"), "would be overwritten"),
        (("apply", "c.safetensors", "onehot.npz", "-o", "o.npz"), "multilabel"),
        (("fit", "over.npz", "-o", "kept.safetensors"), "is not a calibrator"),
        (("compare", "over.npz"), "two files or more"),
        (("compare", "over.npz", "binary.npz"), "binary"),
        (("evaluate", "truncated.npz"), "truncated.npz"),
        (("evaluate", "empty.csv"), "empty"),
        (("evaluate", "words.csv"), "which word is class 1 is not guessed"),
        pytest.param(
            ("evaluate", "x" * 300 + ".npz"), "xxx… cannot be opened: File name too long.", marks=ELSEWHERE
        ),
        pytest.param(
            ("evaluate", "over.npz", "--report", "x" * 300 + ".html"),
            "xxx: File name too long.",
            marks=ELSEWHERE,
        ),
        pytest.param(
            ("fit", "over.npz", "-o", "x" * 300 + ".safetensors"), "xxx: File name too long.", marks=ELSEWHERE
        ),
        (
            ("apply", "over.npz", "c.safetensors", "-o", "o.npz"),
            "the calibrator comes first, and over.npz is not one: calibrant apply c.safetensors over.npz",
        ),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(run, over_confident, tmp_path, arguments, words) -> None:
    """Every expected failure names the trouble in one line, and leaves no half-written file behind."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "nosplit.npz", logits=rng.normal(size=(50, 3)), labels=rng.integers(0, 3, 50))
    np.savez(tmp_path / "unlabelled.npz", logits=rng.normal(size=(50, 3)))
    np.savez(tmp_path / "five.npz", logits=rng.normal(size=(50, 5)), labels=rng.integers(0, 5, 50))
    np.savez(tmp_path / "binary.npz", logits=rng.normal(size=50), labels=rng.integers(0, 2, 50))
    np.savez(
        tmp_path / "onehot.npz",
        logits=rng.normal(size=(50, 4)),
        labels=np.eye(4, dtype=int)[rng.integers(0, 4, 50)],
    )
    calibrant.load_predictions(over_confident).save(tmp_path / "kept.safetensors")
    (tmp_path / "truncated.npz").write_bytes(over_confident.read_bytes()[:500])
    (tmp_path / "empty.csv").touch()
    (tmp_path / "words.csv").write_text("label,prob\nill,0.5\nwell,0.25\n", encoding="utf-8")
    if "c.safetensors" in arguments and arguments[0] == "apply":
        run("fit", "over.npz", "-o", "c.safetensors")
    present = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    done = run(*(argument.format(folder=tmp_path.name) for argument in arguments))
    assert done.returncode == 2, done.stdout + done.stderr
    assert words in one_sentence(done.stderr)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == present


@pytest.fixture
def full_disk() -> Iterator[None]:
    """No file can grow beyond 20 kB."""
    resource = pytest.importorskip("resource", reason="needs limits on the size of files")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("ending", ["npz", "csv", "csv.gz", "safetensors", "pt", "parquet"])
def test_a_full_disk_is_one_sentence(over_confident, full_disk, tmp_path, ending) -> None:
    """Where a file cannot be written to its end, one sentence names it, and no half of it is left."""
    with pytest.raises(OSError, match=re.escape(f"out.{ending} cannot be written: ")):
        calibrant.load_predictions(over_confident).save(tmp_path / f"out.{ending}")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["over.npz"]


def test_the_keyboard_stops_a_command_that_reads(run, over_confident, monkeypatch) -> None:
    """Ctrl-C while a file is read: one sentence, exit code 130."""

    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("calibrant.predictions.open_predictions", interrupted)
    done = run("evaluate", over_confident.name)
    assert done.returncode == 130
    assert one_sentence(done.stderr).startswith("calibrant: stopped; ")


def test_help_and_version(run) -> None:
    """``--help`` lists every command; ``--version`` prints the package's version."""
    text = run("--help").stdout
    assert all(name in text for name in ("evaluate", "fit", "apply", "compare", "demo"))
    assert run("--version").stdout.strip() == f"calibrant {calibrant.__version__}"


@pytest.mark.real_data
@pytest.mark.parametrize(
    "name",
    [
        "logits_valtest_noisycal/ham10000.npz",
        "probs_ecg_chagas/ecg_chagas.npz",
        "logits_chestxray14_multilabel/chestxray14_densenet121.npz",
        "toplabel_confidences/other__snacks.npz",
    ],
)
def test_real_files_end_in_a_verdict(run, data_folder: Path, tmp_path, name) -> None:
    """At most 600 rows of one real file of each kind go through to a verdict and a report."""
    options = ("--report", "r.html", "--bootstrap", "20", "--method", "temperature")
    given = calibrant.load_predictions(data_folder / name)
    given.rows(slice(None, None, -(-given.num_samples // 600))).save(tmp_path / "some.npz")
    done = run("evaluate", "some.npz", *options)
    assert done.returncode == 0, done.stderr
    assert "confident" in done.stdout or "calibrated" in done.stdout
    assert (tmp_path / "r.html").stat().st_size < 2_000_000
