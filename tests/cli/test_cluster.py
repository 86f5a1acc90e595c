"""``--cluster COLUMN``: samples of one patient, document or image hang together."""

from __future__ import annotations

import json

import numpy as np
import pytest


@pytest.fixture
def visits(tmp_path) -> None:
    """Forty patients of ten visits each, in a table; some patients are to fit on, the others to judge on."""
    rng = np.random.default_rng(0)
    p = np.repeat(rng.random(40), 10)
    label = np.repeat(rng.random(40) < p[::10], 10).astype(int)
    split = np.repeat(np.arange(40) % 2, 10)
    lines = [f"{q},{y},p{k // 10},{s}" for k, (q, y, s) in enumerate(zip(p, label, split, strict=True))]
    (tmp_path / "visits.csv").write_text("\n".join(["prob,label,patient,split", *lines]) + "\n")


def test_every_command_takes_the_column(run, visits, tmp_path) -> None:
    """evaluate, check, compare and fit resample patients, and say so."""
    done = run("evaluate", "visits.csv", "--cluster", "patient", "--bootstrap", "20", "--method", "platt",
               "--json", "found.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))
    assert found["settings"]["clusters"] == 20
    assert "20 clusters of 10 samples" in done.stdout
    plain = run("check", "visits.csv", "--max-ece", "0.05", "--bootstrap", "99")
    whole = run("check", "visits.csv", "--max-ece", "0.05", "--bootstrap", "99", "--cluster", "patient")
    assert (plain.returncode, whole.returncode) == (1, 0)
    (tmp_path / "other.csv").write_text((tmp_path / "visits.csv").read_text())
    both = run("compare", "visits.csv", "other.csv", "--group-column", "patient", "--cluster", "patient",
               "--bootstrap", "40")  # fmt: skip
    assert both.returncode == 0, both.stderr
    assert "all models: Samples count as dependent within 20 clusters" in " ".join(both.stdout.split())
    fitted = run("fit", "visits.csv", "--cluster", "patient", "--out", "c.safetensors")
    assert fitted.returncode == 0, fitted.stderr


def test_the_groups_may_be_the_clusters(run, visits, tmp_path) -> None:
    """A column may be both."""
    done = run("evaluate", "visits.csv", "--group-column", "patient", "--cluster", "patient",
               "--bootstrap", "20", "--method", "temperature")  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "20 clusters" in done.stdout
