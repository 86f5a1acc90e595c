"""Runs on samples that come in groups: each label with intervals over patients."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from calibrant import metrics
from calibrant_lab.data.table import Part, RawData
from calibrant_lab.training import Recipe, train
from calibrant_lab.training.run_report import label_section, label_table

pytestmark = pytest.mark.usefixtures("short_reports")


@pytest.mark.parametrize("several", [True, False])
def test_a_run_judges_each_label_over_patients(tmp_path, rng, monkeypatch, several) -> None:
    """Patients are in one split each and stand in the file; the table is that of the test images."""
    features = torch.from_numpy(rng.normal(size=(180, 4))).float()
    labels = (features[:, :3] > 0).long() if several else features[:, :3].argmax(dim=1)
    part = Part(inputs=features, labels=labels, groups=torch.arange(180) // 3)
    raw = RawData(name="patients", train=part, class_names=("a", "b", "c"))
    monkeypatch.setattr("calibrant_lab.training.data.load", lambda _name, **_how: raw)
    recipe = Recipe.read(
        {
            "model": "mlp(widths=(4,))",
            "loss": "multilabel-focal" if several else "cross-entropy",
            "data": {"calibration": 60, "test": 60},
            "training": {"epochs": 1, "batch_size": 20},
            "hardware": {"accelerator": "cpu", "threads": 1},
            "evaluation": {"calibrators": ["temperature"], "bootstrap": 20},
        }
    )
    run = train(recipe, tmp_path / "run")
    held = run.predictions
    assert held.groups is not None
    assert set(held.calibration.groups).isdisjoint(held.test.groups)
    assert (run.labels["num_test"], run.labels["num_groups"]) == (60, 20)
    before, after = run.labels["states"].values()
    truth = held.test.labels if several else torch.nn.functional.one_hot(held.test.labels, 3)
    for place, row in enumerate(before):
        area = metrics.auroc(held.test.probs[:, place], truth[:, place])
        assert row["auroc"]["value"] == pytest.approx(float(area), rel=1e-12)
        assert row["num_positives"] == int(truth[:, place].sum())
    assert [row["num_positives"] for row in after] == [row["num_positives"] for row in before]
    assert run.evaluation.arms[0].groups == ()
    assert any("over images" in note for note in run.evaluation.notes)
    rows = label_section(run.labels).table.rows
    assert [row[:2] for row in rows] == [
        (n, str(int(t))) for n, t in zip("abc", truth.sum(dim=0), strict=True)
    ]


def test_without_groups_there_is_no_table(rng) -> None:
    """Nothing says that samples belong together, so all intervals are over samples."""
    from calibrant import Predictions

    given = Predictions(
        logits=rng.normal(size=(20, 2)), labels=rng.integers(0, 2, (20, 2)), split=np.arange(20) % 2
    )
    assert label_table(given, num_bins=15, num_resamples=10, seed=0) is None
