"""``calibrant apply``: data that changed, and other class frequencies."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import calibrant
from calibrant.calibrators import (
    BiasCorrectedTemperatureScaling,
    TemperatureScaling,
    adjust_to_prior,
    shift_of,
)
from calibrant.repair.applying import notes_on_shift

MEANS = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]])


def write(path: Path, prior: list[float], num_samples: int, seed: int) -> np.ndarray:
    """Logits of a model that is too sure, for classes of these frequencies; half calibration, half test."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, p=prior, size=num_samples)
    features = MEANS[labels] + rng.normal(size=(num_samples, 2))
    logits = 2 * (features @ MEANS.T - (MEANS**2).sum(axis=1) / 2)
    np.savez(path, logits=logits, labels=labels, split=np.arange(num_samples) % 2)
    return labels


@pytest.fixture
def fitted(run, tmp_path) -> Path:
    """A calibrator of equally frequent classes, and a file in which they are not."""
    write(tmp_path / "old.npz", [1 / 3] * 3, 4000, 0)
    write(tmp_path / "new.npz", [0.9, 0.05, 0.05], 4000, 1)
    done = run("fit", "old.npz", "--method", "bias-corrected-temperature", "-o", "c.safetensors")
    assert done.returncode == 0, done.stderr
    return tmp_path


def loss(path: Path) -> float:
    """Log-loss of a file of probabilities."""
    predictions = calibrant.load_predictions(path)
    return float(calibrant.metrics.negative_log_likelihood(predictions.probs, predictions.labels))


def test_shift_is_noted(run, fitted) -> None:
    """Where class frequencies differ much the file is written, with a note; where they do not, without."""
    same = run("apply", "c.safetensors", "old.npz", "-o", "out.npz")
    assert same.returncode == 0, same.stderr
    assert "note" not in same.stdout
    done = run("apply", "c.safetensors", "new.npz", "-o", "out.npz", "--force")
    assert done.returncode == 0, done.stderr
    scores = calibrant.load_predictions(fitted / "new.npz").scores
    told = shift_of(calibrant.load_calibrator(fitted / "c.safetensors"), scores).sentences
    assert told
    assert all(f"note: {sentence}" in done.stdout for sentence in told)
    assert (fitted / "out.npz").exists()


def test_label_shift_is_estimated_and_corrected(run, fitted) -> None:
    """``--label-shift em`` tells the frequencies, lowers the log-loss, and equals the correction by hand."""
    run("apply", "c.safetensors", "new.npz", "-o", "plain.npz")
    done = run("apply", "c.safetensors", "new.npz", "-o", "em.npz", "--label-shift", "em")
    assert done.returncode == 0, done.stderr
    found = re.findall(r"estimated share of class (\d): (\S+) ± (\S+), (\S+) in the calibration", done.stdout)
    assert len(found) == 3
    shares = {int(name): float(share) for name, share, *_ in found}
    assert [shares[k] for k in range(3)] == pytest.approx([0.9, 0.05, 0.05], abs=0.03)
    assert loss(fitted / "em.npz") < loss(fitted / "plain.npz") - 0.1
    known = run("apply", "c.safetensors", "new.npz", "-o", "known.npz", "--prior", "0.9,0.05,0.05")
    assert known.returncode == 0, known.stderr
    assert loss(fitted / "em.npz") == pytest.approx(loss(fitted / "known.npz"), abs=0.01)
    calibrator = calibrant.load_calibrator(fitted / "c.safetensors")
    assert isinstance(calibrator, BiasCorrectedTemperatureScaling)
    predictions = calibrant.load_predictions(fitted / "new.npz")
    by_hand = adjust_to_prior(
        calibrator.predict_proba(predictions.scores),
        prior=[0.9, 0.05, 0.05],
        source_prior=calibrator.fit_result_.profile.class_prior,
    )
    written = torch.from_numpy(np.load(fitted / "known.npz")["probs"])
    torch.testing.assert_close(written, by_hand, rtol=0, atol=1e-12)


def test_other_class_names_are_refused(run, tmp_path) -> None:
    """Columns are never taken for other classes: names in another order end in one sentence."""
    write(tmp_path / "plain.npz", [1 / 3] * 3, 200, 0)
    arrays = dict(np.load(tmp_path / "plain.npz"))
    np.savez(tmp_path / "named.npz", class_names=["cat", "dog", "cow"], **arrays)
    np.savez(tmp_path / "turned.npz", class_names=["dog", "cat", "cow"], **arrays)
    done = run("fit", "named.npz", "--method", "vector", "-o", "c.safetensors")
    assert done.returncode == 0, done.stderr
    for same in ("named.npz", "plain.npz"):
        assert run("apply", "c.safetensors", same, "-o", "out.npz", "--force").returncode == 0
    refused = run("apply", "c.safetensors", "turned.npz", "-o", "turned_out.npz")
    assert (refused.returncode, "dog, cat, cow" in refused.stderr) == (2, True)


def test_a_shift_that_cannot_be_seen_is_said() -> None:
    """A calibrator that does not tell what it was fitted on is applied, with a note."""
    fitted = TemperatureScaling().fit([4.0] * 10, [1] * 7 + [0] * 3)
    assert notes_on_shift(fitted, torch.tensor([4.0] * 10)) == ()
    fitted.fit_result_ = dataclasses.replace(fitted.fit_result_, profile=None)
    (note,) = notes_on_shift(fitted, torch.tensor([4.0]))
    assert (
        note
        == "The calibrator does not tell what it was fitted on, so whether these data differ is not known."
    )


def test_samples_of_the_fit_are_noted(run, over_confident) -> None:
    """After a fit on all rows they are no evidence; after one on the calibration split, half are new."""
    for options, noted in ((["--all"], True), ([], False)):
        done = run("fit", over_confident.name, *options, "--method", "temperature", "-fo", "c.safetensors")
        assert done.returncode == 0, done.stderr
        done = run("apply", "c.safetensors", over_confident.name, "-o", "out.npz", "--force")
        assert ("was fitted on these very samples" in done.stdout) == noted, done.stdout
