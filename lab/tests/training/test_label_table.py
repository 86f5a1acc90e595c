"""Samples that come in groups: a run and each label are judged with intervals over patients."""

import numpy as np
import pytest
import torch

from calibrant import evaluate, metrics
from calibrant_lab.data.table import Part, RawData
from calibrant_lab.training import train
from calibrant_lab.training.run_report import label_rows, label_values
from refusals import refused

pytestmark = pytest.mark.usefixtures("short_reports")


@pytest.mark.parametrize("several", [True, False])
def test_a_run_is_judged_over_patients(quick, tmp_path, rng, monkeypatch, several) -> None:
    """Patients are in one split each and stand in the file; intervals take them as the units."""
    features = torch.from_numpy(rng.normal(size=(180, 4))).float()
    labels = (features[:, :3] > 0).long() if several else features[:, :3].argmax(dim=1)
    part = Part(inputs=features, labels=labels, groups=torch.arange(180) // 3)
    raw = RawData(name="patients", train=part, class_names=("a", "b", "c"))
    monkeypatch.setattr("calibrant_lab.training.data.load", lambda _name, **_how: raw)
    loss = "multilabel-focal" if several else "cross-entropy"
    small = ["model=mlp(widths=(4,))", f"loss={loss}", "data.calibration=60", "data.test=60"]
    run = train(quick.with_settings([*small, "evaluation.bootstrap=20"]), tmp_path / "run")
    held = run.predictions
    assert held.clusters is not None
    assert set(held.calibration.clusters).isdisjoint(held.test.clusters)
    assert run.evaluation.arms[0].groups == ()
    assert any("the 20 clusters of 3 samples as" in note for note in run.evaluation.notes)
    settings = run.recipe.evaluation
    again = evaluate(held, calibrators=settings.calibrators, bootstrap=20, seed=run.recipe.seed)
    mine, theirs = (each.arms[0].metrics for each in (run.evaluation, again))
    assert mine["nll"] == theirs["nll"]


@pytest.fixture
def told(rng) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities with many ties of three labels of 120 samples, and what came true."""
    probs = np.round(rng.random((120, 3)), 1)
    return probs, rng.random((120, 3)) < probs**2


def test_values_are_those_of_the_metrics_with_weights(told, rng) -> None:
    """AUROC with ties, ECE of bins closed on the right, and the gap; for weights as a resample has them."""
    probs, outcomes = told
    weights = rng.integers(0, 4, 120).astype(float)
    area, error, gap = label_values(probs[:, 0], outcomes[:, 0], weights, 7)
    labels = outcomes[:, 0].astype(int)
    assert area == pytest.approx(float(metrics.auroc(probs[:, 0], labels, weights=weights)), rel=1e-12)
    expected = metrics.expected_calibration_error(probs[:, 0], labels, num_bins=7, weights=weights)
    assert error == pytest.approx(float(expected), rel=1e-12)
    assert gap == pytest.approx(np.average(probs[:, 0] - labels, weights=weights), rel=1e-12)
    # .28 is the edge of a bin of 25, though 25 times .28 exceeds 7 by rounding.
    edge, came = np.array([0.27, 0.28]), np.array([True, False])
    expected = metrics.expected_calibration_error(edge, came.astype(int), num_bins=25)
    assert label_values(edge, came, np.ones(2), 25)[1] == pytest.approx(float(expected), rel=1e-12)


def test_copies_of_a_sample_in_its_group_tell_nothing_new(told) -> None:
    """Four copies in one group leave value and interval alone; as samples of their own they narrow it."""
    probs, outcomes = told
    groups = np.arange(120).astype(str)
    alone = label_rows(probs, outcomes, groups, "abc", num_resamples=200)
    four = [np.repeat(each, 4, axis=0) for each in (probs, outcomes, groups)]
    copied = label_rows(*four, "abc", num_resamples=200)
    apart = label_rows(*four[:2], np.arange(480).astype(str), "abc", num_resamples=200)
    for one, several, narrow in zip(alone, copied, apart, strict=True):
        for key in ("auroc", "ece", "gap"):
            a, b, c = (getattr(row, key) for row in (one, several, narrow))
            assert (b.value, b.low, b.high) == pytest.approx((a.value, a.low, a.high), abs=1e-12)
            assert c.high - c.low < 0.7 * (a.high - a.low)


def test_a_label_with_one_answer_has_no_auroc(told) -> None:
    """Its calibration is judged all the same, and a reason stands there; one group cannot be resampled."""
    probs, outcomes = told
    outcomes[:, 1] = False
    rows = label_rows(probs, outcomes, np.arange(120) // 3, "abc", num_resamples=50)
    assert rows[1].num_positives == 0
    assert rows[1].auroc.value is None
    assert rows[1].auroc.reason is not None
    assert rows[1].gap.value == pytest.approx(probs[:, 1].mean())
    assert rows[0].auroc.low < rows[0].auroc.value < rows[0].auroc.high
    refused("at least two groups", label_rows, probs, outcomes, ["a"] * 120, "abc")
