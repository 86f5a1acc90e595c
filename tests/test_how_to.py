"""The guides are run, their commands exist, and none is longer than a reader's patience."""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import create_autospec

import pytest
import sklearn.datasets
import torch
import typer
from torch import Tensor, nn

import stand_in_trainers
from calibrant.calibrators import load_calibrator
from calibrant.cli.main import app
from calibrant.integrations import onnx
from calibrant.predictions import load_predictions
from calibrant_lab.models import build as build_model
from pages import BLOCKS, DOCS, ROOT, run_blocks, shown_commands

PAGES = DOCS / "how-to"
GUIDES = sorted(path.name for path in PAGES.glob("*.md"))
RUN_BELOW = {"very-large-tables.md", "train-from-a-recipe.md", *BLOCKS.NEED_OTHERS}
MOST_WORDS = 600  # of prose


def text_of(name: str) -> str:
    return (PAGES / name).read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize("name", [name for name in GUIDES if name not in RUN_BELOW])
def test_guide_runs(name: str, tmp_path, monkeypatch) -> None:
    """Its blocks run in an empty folder; ``test_output_blocks`` compares what they print."""
    if name == "scikit-learn.md":  # fits some sixty models
        make = sklearn.datasets.make_classification
        few = {"n_samples": 250}
        monkeypatch.setattr(sklearn.datasets, "make_classification", lambda **given: make(**given | few))
    if name == "ship-a-calibrator.md":  # test_onnx exports such a model, in seconds
        made = SimpleNamespace(inputs=("logits",), output="probs", largest_difference=0.0)
        monkeypatch.setattr(onnx, "export_onnx", create_autospec(onnx.export_onnx, return_value=made))
    run_blocks(f"how-to/{name}", tmp_path, monkeypatch)


@pytest.mark.parametrize("name", GUIDES)
def test_guide_is_short_and_shows_output(name: str) -> None:
    """At most 600 words beside code and output, and something that it prints or makes."""
    prose = re.sub(r"^ *(```|<!-- python).*?^ *(```|-->)$", "", text_of(name), flags=re.DOTALL | re.MULTILINE)
    assert len(prose.split()) <= MOST_WORDS
    assert "```" in text_of(name)


COMMANDS = typer.main.get_command(app).commands  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("page", [path for path in sorted(DOCS.rglob("*.md")) if shown_commands(path)])
def test_shown_commands_exist(page: Path) -> None:
    """Commands that no test runs, since they download or serve, are spelled as the command line has them."""
    for name, *words in shown_commands(page):
        known = {option for each in COMMANDS[name].params for option in each.opts} | {"--quiet", "--verbose"}
        assert {word for word in words if word.startswith("-") and word != "-"} <= known, (name, words)


def test_very_large_tables(tmp_path, monkeypatch) -> None:
    """The largest log-probabilities give nearly the temperature of whole rows, 1.6."""
    run_blocks("how-to/very-large-tables.md", tmp_path, monkeypatch)
    part, whole = (
        load_calibrator(tmp_path / f"{name}.safetensors").fit_result_.parameters["temperature"]
        for name in ("temperature", "whole")
    )
    assert whole == pytest.approx(1.6, rel=0.05)
    assert part == pytest.approx(whole, rel=0.03)


def test_forms_of_logs_are_read(tmp_path) -> None:
    """Each line of JSON on the page on language models is one that calibrant reads."""
    lines = [line for line in text_of("language-models.md").splitlines() if line.startswith("{")]
    assert len(lines) == 3
    for number, line in enumerate(lines):
        json.loads(line)
        path = tmp_path / f"own{number}.jsonl"
        path.write_text(f"{line}\n{line}\n", encoding="utf-8")
        assert load_predictions(path).num_samples == 2


def test_the_numbers_of_efficientnet_are_those_of_its_evaluation() -> None:
    """The table comes from the file that was made by the command that the page shows."""
    made = runpy.run_path(str(ROOT / "examples" / "run_efficientnet.py"))
    page = text_of("predict.md")
    kept = json.loads((ROOT / "examples" / "efficientnet.json").read_text(encoding="utf-8"))
    assert made["table"](kept) in page
    assert made["commands_of"](page) == kept["commands"]
    first = next(iter(kept["arms"].values()))
    gap = round(100 * (first["mean_confidence"][0] - first["accuracy"][0]))
    assert f"overconfident by {gap} points" in page
    for number in (kept["num_test"], kept["num_calibration"], kept["settings"]["bootstrap"]):
        assert str(number) in page


def taking_anything(**settings: Any) -> nn.Module:
    """Stands for a factory of torchvision or timm; the layer remembers what it was given."""
    layer = nn.Linear(1, settings["num_classes"])
    layer.settings = settings  # pyright: ignore[reportArgumentType]
    return layer


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_train_from_a_recipe(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("calibrant.reports.html.report_text", lambda *_given, **_sections: "<!doctype html>")
    run_blocks("how-to/train-from-a-recipe.md", tmp_path, monkeypatch)
    factories = {"torchvision": "unused", "torchvision.models": "vit_b_16", "timm": "create_model"}
    for package, name in factories.items():
        stand_in = ModuleType(package)
        setattr(stand_in, name, taking_anything)
        monkeypatch.setitem(sys.modules, package, stand_in)
    rows = re.findall(r"^\| t\w+ \| `(.*)` \|$", text_of("train-from-a-recipe.md"), flags=re.MULTILINE)
    built = [build_model(row, input_shape=(3, 32, 32), num_classes=7) for row in rows]
    assert [each.settings for each in built] == [
        {"num_classes": 7, "image_size": 32, "dropout": 0.1},
        {"num_classes": 7, "model_name": "resnet18", "in_chans": 1},
    ]


class Words:
    """Stands for a tokenizer: counts of two words."""

    @classmethod
    def from_pretrained(cls, _: str) -> Words:
        return cls()

    def __call__(self, texts: list[str], **_: Any) -> dict[str, Tensor]:
        counts = [[text.count("good"), text.count("bad"), text.count("not")] for text in texts]
        return {"input_ids": torch.tensor(counts), "attention_mask": torch.ones(len(texts), 3)}


class Sentiment(nn.Module):
    """Stands for a transformer: sure of itself."""

    config = SimpleNamespace(id2label={0: "NEGATIVE", 1: "POSITIVE"})

    @classmethod
    def from_pretrained(cls, _: str) -> Sentiment:
        return cls()

    def forward(self, *, input_ids: Tensor, attention_mask: Tensor) -> Any:
        good, bad, negated = (input_ids * attention_mask).double().T
        score = 6 * (good - bad) * (1 - 2 * negated)
        return SimpleNamespace(logits=torch.stack([-score / 2, score / 2], dim=1), loss=None)


def test_hugging_face(tmp_path, monkeypatch, capsys) -> None:
    """With a stand-in for the download: eight in ten are right, and that is the confidence afterwards."""
    stand_in = ModuleType("transformers")
    stand_in.AutoTokenizer, stand_in.AutoModelForSequenceClassification = Words, Sentiment
    stand_in.Trainer = stand_in_trainers.TransformersTrainer
    stand_in.TrainingArguments = stand_in_trainers.training_arguments
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    page = run_blocks("how-to/hugging-face.md", tmp_path, monkeypatch)
    for answer, label in zip(page["pipe"](["good", "not good"]), ("POSITIVE", "NEGATIVE"), strict=True):
        assert answer["label"] == label
        assert answer["score"] == pytest.approx(0.8, abs=0.02)
    assert page["calibrator"].temperature == page["calibration"].calibrator.temperature
    assert "Choice: temperature" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore")  # of the library
def test_lightning(tmp_path, monkeypatch, capsys) -> None:
    """The calibrated module has the log loss that the page shows, lower than the network's."""
    if importlib.util.find_spec("lightning") is None:
        monkeypatch.setitem(sys.modules, "lightning", stand_in_trainers.lightning())
    page = run_blocks("how-to/lightning.md", tmp_path, monkeypatch)
    (shown,) = re.findall(r"^log loss .* after$", text_of("lightning.md"), flags=re.MULTILINE)
    assert BLOCKS._same(shown, capsys.readouterr().out.splitlines()[-1])
    assert page["model"](page["inputs"][:5]).shape == (5, 3)
    assert page["calibrator"].temperature == page["calibration"].calibrator.temperature


def test_conformal_prediction(tmp_path, monkeypatch, capsys) -> None:
    """Sets hold the true class about as often as they promise; the interval is one of probabilities."""
    text = text_of("conformal-prediction.md")
    absent = importlib.util.find_spec("mapie") is None
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    defined: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        if not (absent and "from mapie" in block):
            exec(compile(block, "conformal-prediction.md", "exec"), defined)
    printed = capsys.readouterr().out
    shares = re.findall(r": (0\.\d+) of the sets contain", printed)
    assert all(abs(float(share) - 0.9) < 0.04 for share in shares)
    low, high = map(float, re.findall(r"0\.\d+", printed.splitlines()[-1]))
    assert 0 < low < high < 1
