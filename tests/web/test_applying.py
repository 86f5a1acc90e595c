"""A calibrator applied to new predictions that are sent."""

import hashlib
import json
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pytest
import torch

from calibrant.calibrators import PlattScaling, TemperatureScaling
from calibrant.predictions import Predictions, load_predictions
from web_client import Client

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
