"""The study of chest X-rays measures what its page says."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from calibrant.predictions import Predictions
from papers.chest_x_rays import measure
from papers.chest_x_rays.words import words


def test_a_network_is_judged_on_whole_patients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers are those of the test images, and pneumonia is told from no finding; all have intervals."""
    monkeypatch.setattr(measure, "RESAMPLES", 20)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(120, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    split, patients = np.arange(120) % 2, np.arange(120) // 4
    found = measure.judged(Predictions(logits=3 * logits, labels=labels, split=split, clusters=patients))
    test, chosen = split == 1, (split == 1) & (labels > 0)
    assert (found["num_test"], found["num_calibration"], found["num_patients"]) == (60, 60, 30)
    assert found["before"]["accuracy"][0] == (logits.argmax(1) == labels)[test].mean()
    assert found["before"]["nll"][0] > found["after"]["nll"][0]
    value, low, high = found["pair"]["auroc"]
    assert value == pytest.approx(roc_auc_score(labels[chosen] == 2, (logits[:, 2] - logits[:, 1])[chosen]))
    assert low < value < high
    assert found["pair"]["num"] == chosen.sum()


def test_labels_are_repaired_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Platt scaling lowers the error of each label, and each has a row beside the paper's numbers."""
    monkeypatch.setattr(measure, "RESAMPLES", 20)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(800, 2))
    labels = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(int)
    given = Predictions(
        logits=logits + 2,
        labels=labels,
        split=np.arange(800) % 2,
        class_names=["Hernia", "Pleural_Thickening"],
    )
    found = measure.labels_of(given)
    assert (found["num"], found["num_test"]) == (800, 400)
    assert [each["positives"] for each in found["labels"]] == labels.sum(0).tolist()
    assert all(each["after"][0] < each["before"][0] / 2 for each in found["labels"])
    run = {"loss": "cross-entropy", "seed": 0, "temperature": 1.0, "cpu_seconds": 60.0}
    run |= {
        stage: {key: [0.5, None, None] for key in ("accuracy", "nll", "ece", "smce")}
        for stage in ("before", "after")
    }
    run |= {"pair": {"auroc": [0.5, 0.4, 0.6], "num": 3}}
    table = words({"runs": [run], "fourteen": found})["labels"].splitlines()
    assert table[2].startswith("| Hernia | 0.9164 | 0.9370 |")  # as the paper prints them
    assert table[3].startswith("| Pleural Thickening | 0.8062 | 0.7958 |")
    assert table[4].startswith("| mean | 0.8440 | 0.8527 |")
