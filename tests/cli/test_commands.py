"""The main job by command line: evaluate, fit, apply, compare; and what happens to bad input."""

import json
import re
from collections.abc import Iterator

import numpy as np
import pytest

import calibrant
from calibrant.reports.commands import mark_of_files
from command_line import one_line


def one_sentence(text: str) -> str:
    """The error as printed, without a traceback: what is wrong, and below it what to do, here on one line."""
    assert "Traceback" not in text
    lines = [line for line in text.splitlines() if line.strip()]
    assert lines[0].startswith("calibrant: ")
    assert "\n" not in one_line(text.strip()), text
    return one_line(text.strip())


def test_evaluate_says_over_confident_and_writes_report_and_numbers(run, over_confident, tmp_path) -> None:
    done = run("evaluate over.npz --report r.html --json r.json --bootstrap 100", code=0)
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


def test_fit_makes_a_calibrator_even_where_none_is_needed(run, tmp_path) -> None:
    """Of calibrated predictions the choice is to leave them; temperature scaling is fitted anyway."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=2000)
    labels = (rng.random(2000) < 1 / (1 + np.exp(-logits))).astype(int)
    np.savez(tmp_path / "true.npz", logits=logits, labels=labels)
    done = run("fit", "true.npz", "--all", "-o", "c.safetensors")
    assert "Choice: no calibrator." in done.stdout
    assert "note: temperature scaling was fitted anyway" in done.stdout
    fitted = calibrant.load_calibrator(tmp_path / "c.safetensors").fit_result_
    assert fitted.parameters["temperature"] == pytest.approx(1, abs=0.1)


def test_fit_then_apply_mends_the_temperature(run, over_confident, tmp_path) -> None:
    """The choice is told, the temperature near the planted 3; applied it lowers the test split's error."""
    done = run("fit", over_confident.name, "-o", "c.safetensors", code=0)
    assert "cross-validated log loss" in done.stdout
    assert "Choice: temperature." in done.stdout
    calibrator = calibrant.load_calibrator(tmp_path / "c.safetensors")
    assert calibrator.fit_result_.parameters["temperature"] == pytest.approx(3, rel=0.1)
    run("apply", "c.safetensors", over_confident.name, "-o", "out.npz", code=0)
    before, after = map(calibrant.load_predictions, (over_confident, tmp_path / "out.npz"))
    error = calibrant.metrics.expected_calibration_error
    assert error(after.test.probs, after.test.labels) < error(before.test.probs, before.test.labels) / 2


def test_multilabel_repairs_apply_to_files_without_labels(run, tmp_path) -> None:
    """The calibrator knows that its columns are labels of their own; the file need not say so again."""
    rng = np.random.default_rng(3)
    logits = rng.normal(size=(300, 3)) * 2
    labels = (rng.random((300, 3)) < 1 / (1 + np.exp(1 - logits))).astype(int)
    np.savez(tmp_path / "old.npz", logits=logits, labels=labels, split=np.arange(300) % 2)
    np.savez(tmp_path / "new.npz", logits=logits[:20])
    run("fit", "old.npz", "--method", "platt", "-o", "c.safetensors", code=0)
    run("apply", "c.safetensors", "new.npz", "-o", "out.npz", code=0)
    expected = calibrant.load_calibrator(tmp_path / "c.safetensors").predict_proba(logits[:20])
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["probs"], expected.numpy())


def test_compare_names_the_better_model(run, over_confident, tmp_path) -> None:
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
