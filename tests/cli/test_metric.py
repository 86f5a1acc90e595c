"""Quantities that are asked for by name."""

from __future__ import annotations

import json

import numpy as np


def test_a_quantity_is_added_by_name(run, over_confident, tmp_path) -> None:
    """Terminal and JSON have it with its interval; other quantities that were not asked for stay away."""
    few = {name: array[:1000] for name, array in np.load(over_confident).items()}
    np.savez(tmp_path / "few.npz", **few)
    done = run("evaluate", "few.npz", "--metric", "smooth_ece", "--bootstrap", "20",
               "--method", "temperature", "--json", "found.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "smECE" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    first, repaired = found["arms"]
    estimate = first["metrics"]["smooth_ece"]
    assert estimate["low"] < estimate["value"] < estimate["high"]
    assert repaired["change"]["smooth_ece"]["high"] < 0
    assert "debiased_ece" not in first["metrics"]


def test_a_baseline_can_be_held_by_such_a_quantity(run, over_confident, tmp_path) -> None:
    """On the same samples; a model that is sharper still is worse beyond noise."""
    arrays = dict(np.load(over_confident))
    np.savez(tmp_path / "sharper.npz", **(arrays | {"logits": 2 * arrays["logits"]}))
    done = run("check", "sharper.npz", "--baseline", over_confident.name, "--baseline-metric", "smooth_ece",
               "--bootstrap", "50")  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert done.stdout.startswith("FAIL: The kernel-smoothed calibration error (smECE) is 0.")
