"""Predictions that are sent are judged and calibrated as the commands do it with the file."""

import base64
import hashlib
import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
import torch

from calibrant import evaluate, load_calibrator, load_predictions
from calibrant.calibrators import PlattScaling, TemperatureScaling
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


RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=300)
LABELS = (RNG.random(300) < 1 / (1 + np.exp(-LOGITS / 2))).astype(int)


def sent(client: Client, fitted: Path, name: str, content: bytes, **fields: str):
    files = {"file": (name, content), "calibrator": (fitted.name, fitted.read_bytes())}
    return client.post("/apply", files=files, data=fields)


@pytest.mark.parametrize(
    "ending", ["csv", "csv.gz", "tsv", "jsonl", "json", "parquet", "npz", "pt", "safetensors"]
)
def test_the_file_is_as_the_command_writes_it(client, tmp_path, ending) -> None:
    """In its own format, with the calibrated probabilities and the mark; labels are not needed."""
    platt = PlattScaling().fit(LOGITS, LABELS)
    platt.save(tmp_path / "c.safetensors")
    given = tmp_path / f"new.{ending}"
    Predictions(logits=LOGITS).save(given)
    answer = sent(client, tmp_path / "c.safetensors", f"new.{ending}", given.read_bytes())
    assert answer.status_code == 200, answer.text
    name = unquote(answer.headers["content-disposition"].split("''")[1])
    assert name == f"new-calibrated.{ending.removesuffix('.gz').replace('safetensors', 'npz')}"
    (tmp_path / name).write_bytes(answer.content)
    found = load_predictions(tmp_path / name)
    torch.testing.assert_close(found.probs, torch.as_tensor(platt.predict_proba(LOGITS)), rtol=1e-12, atol=0)
    digest = hashlib.sha256(given.read_bytes()).hexdigest()[:12]
    assert found.notes == (f"A calibrator was applied to these probabilities: platt of file {digest}.",)
    again = sent(client, tmp_path / "c.safetensors", name, answer.content)
    assert (again.status_code, "is calibrated already" in again.json()["error"]) == (422, True)


def test_columns_stay_and_notes_come(client, tmp_path) -> None:
    """Columns of other names are said in fields; what differs from the fit is in a header."""
    PlattScaling().fit(LOGITS, LABELS).save(tmp_path / "c.safetensors")
    rows = "\n".join(["id,risk,age", *(f"{k},0.999,{k}" for k in range(300))]).encode()
    answer = sent(client, tmp_path / "c.safetensors", "new.csv", rows, prob_columns="risk")
    assert answer.status_code == 200, answer.text
    assert answer.text.splitlines()[0] == "id,risk,age,calibrated_by"
    assert any("confidences differ from those in the fit" in each for each in notes_of(answer))
    wrong = sent(client, tmp_path / "c.safetensors", "new.csv", rows)
    assert (wrong.status_code, wrong.json()["columns"]) == (422, ["id", "risk", "age"])
    assert ("`prob_columns`" in wrong.json()["error"], "--" in wrong.json()["error"]) == (True, False)


def notes_of(answer) -> list[str]:
    return json.loads(answer.headers["calibrant-notes"])


def test_what_does_not_fit_is_one_sentence(client, tmp_path) -> None:
    logits = RNG.normal(size=(60, 3))
    TemperatureScaling().fit(logits, (logits + RNG.gumbel(size=(60, 3))).argmax(1)).save(
        tmp_path / "t.safetensors"
    )
    answer = sent(client, tmp_path / "t.safetensors", "new.csv", b"prob\n0.5\n0.25\n")
    assert (answer.status_code, answer.json()["error"].startswith("new.csv has 2 classes")) == (422, True)
    (tmp_path / "no.safetensors").write_bytes(b"none")
    answer = sent(client, tmp_path / "no.safetensors", "new.csv", b"prob\n0.5\n0.25\n")
    assert (answer.status_code, answer.json()["error"].startswith("no.safetensors")) == (422, True)
