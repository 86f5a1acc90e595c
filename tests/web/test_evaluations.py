"""Predictions that are sent are judged as ``calibrant evaluate`` judges the file."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant import evaluate, load_calibrator, load_predictions
from calibrant.predictions import Predictions
from calibrant.web.app import LINES
from calibrant.web.forms import EXAMPLE_CSV
from web_client import Client

QUICK = {"bootstrap": "2", "method": "temperature"}


def lines(client: Client, path: str, files: Any, **fields: str) -> list[dict[str, Any]]:
    answer = client.post(path, files=files, data=QUICK | fields, headers={"accept": LINES})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.fixture(scope="module")
def over_confident(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Predictions with both splits that temperature scaling repairs."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(400, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    path = tmp_path_factory.mktemp("web") / "model.npz"
    Predictions(logits=5 * logits, labels=labels, split=np.arange(400) % 2, class_names=["a", "b", "c"]).save(
        path
    )
    return path


def test_the_evaluation_is_that_of_the_file(client, over_confident, tmp_path) -> None:
    """Line by line: progress, the JSON of ``evaluate``, the report, and the calibrator of the commands."""
    file = (over_confident.name, over_confident.read_bytes())
    *progress, last = lines(client, "/evaluate", {"file": file}, bins="7", seed="3")
    p = load_predictions(over_confident)
    expected = json.loads(evaluate(p, calibrators=["temperature"], bootstrap=2, num_bins=7, seed=3).to_json())
    found = json.loads(last["json"])
    assert found["arms"] == expected["arms"]
    assert found["source"] == expected["source"] | {"path": None}
    assert [each["share"] for each in progress] == sorted(each["share"] for each in progress)
    assert len(progress) > 3
    assert last["report"].startswith("<!DOCTYPE html>")
    path = tmp_path / last["calibrator_name"]
    path.write_bytes(base64.b64decode(last["calibrator"]))
    fitted = load_calibrator(path)
    assert fitted.fit_result_ == type(fitted)().fit(p.calibration.scores, p.calibration.labels).fit_result_
    assert fitted.class_names_ == ("a", "b", "c")


def test_two_files_are_compared(client) -> None:
    """``/compare`` puts the files side by side, under their names."""
    files = [("file", (f"{name}.csv", EXAMPLE_CSV)) for name in ("first", "second")]
    answer = client.post("/compare", files=files, data={"bootstrap": "2"})
    assert [model["name"] for model in answer.json()["models"]] == ["first", "second"]
    assert client.post("/compare", files=files[:1]).json() == {
        "error": "`file` must hold two files or more; got 1."
    }


def test_calibrators_are_fitted_on_the_other_file(client, over_confident) -> None:
    """The field ``calibration`` names the predictions to fit on."""
    files = {  # of another kind, which is refused
        "file": ("new.csv", EXAMPLE_CSV),
        "calibration": (over_confident.name, over_confident.read_bytes()),
    }
    answer = client.post("/evaluate", files=files, data=QUICK)
    assert answer.status_code == 422
    assert "calibration" in answer.json()["error"]
