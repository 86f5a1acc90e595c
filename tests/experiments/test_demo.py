"""The demo, end to end."""

from __future__ import annotations

import torch

import calibrant
from calibrant.experiments.studies.demo import run_demo, small_digits, train_on_digits


def test_demo_is_over_confident_and_gets_repaired(tmp_path) -> None:
    """The setting shows what it was chosen for, the repair lowers NLL, and every file can be read back."""
    result = run_demo(tmp_path / "demo")
    evaluation = result.evaluation
    assert evaluation.verdict.direction == "over-confident"
    after = evaluation.arm(evaluation.verdict.recommended)
    assert after.name != "uncalibrated"
    assert after.change["nll"].value < 0
    assert calibrant.load_predictions(result.predictions).num_samples == 1397
    assert calibrant.load_calibrator(result.calibrator).name == "focal-temperature"
    assert calibrant.Evaluation.from_json(result.json.read_text(encoding="utf-8")) == evaluation
    assert result.report.stat().st_size < 2_000_000


def test_training_is_deterministic_and_touches_no_global_state() -> None:
    """The same seed gives the same logits; torch's own generator is left alone."""
    state = torch.random.get_rng_state()
    first, second = train_on_digits(seed=3), train_on_digits(seed=3)
    assert torch.equal(first.scores, second.scores)
    assert torch.equal(state, torch.random.get_rng_state())
    assert not torch.equal(first.scores, train_on_digits(seed=4).scores)


def test_digits_are_shrunk_by_averaging() -> None:
    """Each of the 16 features is the mean of four pixels, in [0, 1]."""
    images, labels = small_digits()
    assert images.shape == (1797, 16)
    assert images.min() >= 0
    assert images.max() <= 1
    assert labels.unique().tolist() == list(range(10))
