"""``calibrant fit --by-group`` and ``calibrant apply`` of what it saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from calibrant.calibrators import load_group_calibrator


def test_calibrators_by_group(run: Any, tmp_path: Path) -> None:
    """Fitted and applied by the names in the file; no groups, and an unknown one, are refused."""
    rng = np.random.default_rng(5)
    odds = 2 * rng.normal(size=600)
    labels = (rng.uniform(size=600) < 1 / (1 + np.exp(-odds))).astype(int)
    groups = np.array(["north", "south"])[np.arange(600) % 2]
    stated = odds * np.where(groups == "north", 3.0, 1.0)
    np.savez(tmp_path / "p.npz", logits=stated, labels=labels, groups=groups, split=np.arange(600) // 2 % 2)
    np.savez(tmp_path / "bare.npz", logits=stated, labels=labels)
    np.savez(tmp_path / "other.npz", logits=stated[:2], groups=["north", "east"])
    fitted = run("fit", "p.npz", "--method", "temperature", "--by-group", "-o", "c.safetensors")
    assert fitted.returncode == 0, fitted.stderr
    assert "temperature, fitted on 300 samples of 2 groups" in fitted.stdout
    assert "  north, 150 samples: temperature = " in fitted.stdout
    applied = run("apply", "c.safetensors", "p.npz", "-o", "q.npz")
    assert applied.returncode == 0, applied.stderr
    probs = np.load(tmp_path / "q.npz")["probs"]
    by_hand = load_group_calibrator(tmp_path / "c.safetensors").predict_proba(stated, groups=groups)
    np.testing.assert_array_equal(probs, by_hand.numpy())
    for arguments, message in (
        (("apply", "c.safetensors", "bare.npz", "-o", "r.npz"), "bare.npz must have `groups`"),
        (("apply", "c.safetensors", "other.npz", "-o", "r.npz"), "row 1 is of group 'east'"),
        (
            ("fit", "bare.npz", "--all", "--by-group", "-o", "d.safetensors"),
            "--by-group needs `groups` in bare.npz",
        ),
    ):
        refused = run(*arguments)
        assert refused.returncode == 2
        assert message in refused.stderr
    pooled = run("apply", "c.safetensors", "other.npz", "--unknown-groups", "pooled", "-o", "r.npz")
    assert pooled.returncode == 0, pooled.stderr
    by_all = load_group_calibrator(tmp_path / "c.safetensors").pooled.predict_proba(stated[1:2])
    np.testing.assert_array_equal(np.load(tmp_path / "r.npz")["probs"][1:], by_all.numpy())
    assert run("fit", "p.npz", "--method", "platt", "--by-group", "-o", "d.safetensors").returncode == 0
