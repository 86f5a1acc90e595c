"""``calibrant fit --by-group`` and ``calibrant apply`` of what it saved."""

import numpy as np
import pytest

from calibrant import Predictions, fit
from calibrant._math.errors import InputError
from calibrant.calibrators import load_group_calibrator, load_multicalibrator


def test_calibrators_by_group(run, tmp_path) -> None:
    """Fitted and applied by the names in the file, with the pooled one for a name that is not known."""
    rng = np.random.default_rng(5)
    odds = 2 * rng.normal(size=600)
    labels = (rng.uniform(size=600) < 1 / (1 + np.exp(-odds))).astype(int)
    groups = np.array(["north", "south"])[np.arange(600) % 2]
    stated = odds * np.where(groups == "north", 3.0, 1.0)
    np.savez(tmp_path / "p.npz", logits=stated, labels=labels, groups=groups, split=np.arange(600) // 2 % 2)
    np.savez(tmp_path / "other.npz", logits=stated[:2], groups=["north", "east"])
    fitted = run("fit", "p.npz", "--method", "temperature", "--by-group", "-o", "c.safetensors", code=0)
    assert "temperature, fitted on 300 samples of 2 groups" in fitted.stdout
    assert "  north, 150 samples: temperature = " in fitted.stdout
    run("apply", "c.safetensors", "p.npz", "-o", "q.npz", code=0)
    probs = np.load(tmp_path / "q.npz")["probs"]
    by_hand = load_group_calibrator(tmp_path / "c.safetensors").predict_proba(stated, groups=groups)
    np.testing.assert_array_equal(probs, by_hand.numpy())
    run("apply", "c.safetensors", "other.npz", "--unknown-groups", "pooled", "-o", "r.npz", code=0)
    by_all = load_group_calibrator(tmp_path / "c.safetensors").pooled.predict_proba(stated[1:2])
    np.testing.assert_array_equal(np.load(tmp_path / "r.npz")["probs"][1:], by_all.numpy())
    usual = run("fit", "p.npz", "--by-group", "-o", "d.safetensors", code=0)
    assert usual.stdout.startswith("note: Platt scaling is the default for groups of two classes")
    assert "platt, fitted on 300 samples of 2 groups" in usual.stdout


def test_multicalibration_over_groups_that_overlap(run, tmp_path) -> None:
    rng = np.random.default_rng(5)
    sex, site = rng.choice(["f", "m"], 900), rng.choice(["north", "south"], 900)
    odds = rng.normal(size=900)
    true = odds + 1.5 * (sex == "f") - 1.5 * (site == "north")
    ill = (rng.random(900) < 1 / (1 + np.exp(-true))).astype(int)
    risk = 1 / (1 + np.exp(-odds))
    rows = zip(sex, ill, risk, site, strict=True)
    text = "".join(f"{a},{b},{c!r},{d}\n" for a, b, c, d in rows).replace("np.float64(", "").replace(")", "")
    (tmp_path / "p.csv").write_text(f"sex,ill,risk,site\n{text}")
    named = ("--label-column", "ill", "--prob-columns", "risk", "--group-columns", "sex,site")
    fit = ("fit", "p.csv", "--all", "--method", "multicalibration", "-o", "m.safetensors")
    fitted = run(*fit, *named, code=0)
    assert "multicalibration after platt, fitted on 900 samples of 4 groups" in fitted.stdout
    run("apply", "m.safetensors", "p.csv", "-o", "q.csv", *named, code=0)
    groups = [f"sex={a}; site={b}" for a, b in zip(sex, site, strict=True)]
    logits = np.log(risk) - np.log1p(-risk)
    by_hand = load_multicalibrator(tmp_path / "m.safetensors").predict_proba(logits, groups=groups).numpy()
    found = np.genfromtxt(tmp_path / "q.csv", delimiter=",", names=True)["risk"]
    np.testing.assert_allclose(found, by_hand, atol=1e-12)
    assert max(abs((by_hand - ill)[sex == name].mean()) for name in ("f", "m")) < 0.05


def test_ids_are_no_groups() -> None:
    def by(groups: list[str]) -> Predictions:
        return Predictions(logits=[2.0, -2.0] * len(groups), labels=[1, 0] * len(groups), groups=groups * 2)

    ids = by([str(number) for number in range(40)])
    with pytest.raises(
        InputError, match=r"`predictions` has 40 groups in 79 samples, which looks like an id"
    ):
        fit(ids.rows(range(79)), method="platt", every_row=True, by_group=True)
    few = fit(by(["a", "b", "c"]), method="temperature", every_row=True, by_group=True)
    assert [*few.by_group] == ["a", "b", "c"]


def test_of_many_groups_the_first_are_listed(run, tmp_path) -> None:
    groups = [str(k % 25) for k in range(100)]
    np.savez(tmp_path / "p.npz", logits=[2.0, -2.0, 1.0, -1.0] * 25, labels=[1, 0, 0, 1] * 25, groups=groups)
    done = run("fit", "p.npz", "--all", "--by-group", "--method", "temperature", "-o", "c.safetensors")
    said = done.stdout.splitlines()
    assert said[1].startswith("  all groups, 100 samples: temperature = ")
    assert [line for line in said if line.startswith("  ")][-1] == "  and 5 more"
    assert sum(", 4 samples: " in line for line in said) == 20
