"""The notebooks run, what their text claims is so, and their conversion loses nothing."""

from __future__ import annotations

import ast
import functools
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from matplotlib import pyplot

import calibrant
from calibrant import metrics
from pages import DOCS, tool

TOOL = tool("notebooks")


def log_loss(probs: Any, labels: Any) -> float:
    return float(metrics.negative_log_likelihood(probs, labels))


def better_after(found: dict[str, Any]) -> bool:
    """Both classifiers are, by the proper score."""
    return all(
        log_loss(found["repaired"][name].predict_proba(found["X_test"]), found["y_test"])
        < log_loss(model.predict_proba(found["X_test"]), found["y_test"])
        for name, model in found["models"].items()
    )


def helps_above_30_percent(found: dict[str, Any]) -> bool:
    """The repaired model, while the other does harm."""
    made = {
        name: metrics.decision_curve(found[name].probs, found[name].labels, thresholds=[0.2, 0.35])
        for name in ("test", "repaired")
    }
    plain, repaired = (made[name].net_benefit for name in ("test", "repaired"))
    return bool(plain[1] < 0 <= repaired[1]) and bool(plain[0] < repaired[0])


CLAIMS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "clinical_risk": helps_above_30_percent,
    "hugging_face_text": lambda found: (
        found["log"][-1]["eval_calibration/temperature"] > 1.5
        and log_loss(*(found["stages"]["with its temperature"], found["found"].label_ids))
        < log_loss(*(found["stages"]["as trained"], found["found"].label_ids))
    ),
    "language_model_log": lambda found: (
        found["repair"].by_group["law"].temperature > found["repair"].by_group["biology"].temperature
    ),
    "pytorch": lambda found: found["calibrators"]["cross-entropy"].temperature > 1.5,
    "scikit_learn": better_after,
}
NEEDS = {"hugging_face_text": ("transformers", "accelerate")}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("script", TOOL.SCRIPTS, ids=lambda path: path.stem)
def test_notebook_runs(script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cells in a row, with few resamples; its pictures are drawn, and its main claim is true."""
    for name in NEEDS.get(script.stem, ()):
        pytest.importorskip(name)
    quick = functools.partial(calibrant.evaluate, bootstrap=10, null_draws=20)
    monkeypatch.setattr(calibrant, "evaluate", quick)
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    found = runpy.run_path(str(script))
    assert all(ax.has_data() for ax in pyplot.gcf().axes)
    pyplot.close("all")
    assert CLAIMS[script.stem](found)


@pytest.mark.parametrize("script", TOOL.SCRIPTS, ids=lambda path: path.stem)
def test_notebook_has_all_of_its_script(script: Path) -> None:
    """Code cells are the program, text begins with the title, and the page offers notebook and picture."""
    text = script.read_text(encoding="utf-8")
    made = json.loads(TOOL.notebook(text))
    code = "".join("".join(cell["source"]) + "\n" for cell in made["cells"] if cell["cell_type"] == "code")
    assert ast.dump(ast.parse(code)) == ast.dump(ast.parse(text))
    assert made["cells"][0]["source"][0].startswith("# ")
    assert len({cell["id"] for cell in made["cells"]}) == len(made["cells"])
    page = (DOCS / "start" / "notebooks.md").read_text(encoding="utf-8")
    assert f"(../notebooks/{TOOL.address(script)})" in page
    assert (DOCS / "images" / "notebooks" / TOOL.address(script)).with_suffix(".png").exists()
