"""The how-to pages are run: their Python blocks, one after the other, in an empty folder."""

from __future__ import annotations

import functools
import importlib.util
import io
import json
import re
import runpy
import shlex
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from calibrant.calibrators import load_calibrator
from calibrant.evaluation import Evaluation, evaluate
from calibrant.predictions import ColumnNames, Predictions, load_predictions
from calibrant_lab.data.table import RawData, RawPart
from calibrant_lab.models import build as build_model
from command_line import call

PAGES = Path(__file__).parents[1] / "docs" / "how-to"
PETS = ColumnNames(label="who", probs=("cat", "dog"))
FOUND = evaluate(
    Predictions(confidence=[0.9, 0.6] * 30, correct=[1, 0] * 30), calibrators=[], bootstrap=20, null_draws=40
)


def run_page(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Run the Python blocks of a page in a folder; what they defined."""
    text = (PAGES / name).read_text(encoding="utf-8")
    # Blank lines in place of prose, so that a traceback names the line of the page.
    parts = re.split(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    code = "".join(
        part if number % 2 else re.sub(r"[^\n]+", "", part) + "\n" for number, part in enumerate(parts)
    )
    monkeypatch.chdir(folder)
    defined: dict[str, Any] = {"__name__": "page"}
    exec(compile(code, str(PAGES / name), "exec"), defined)
    return defined


def test_ship_a_calibrator(tmp_path, monkeypatch, capsys) -> None:
    """Everything that the page writes is there; the same data look alike, sharpened ones do not."""
    pytest.importorskip("onnxscript")
    pytest.importorskip("onnxruntime")
    page = run_page("ship-a-calibrator.md", tmp_path, monkeypatch)
    written = {path.name for path in tmp_path.iterdir()}
    by_group = {"by-site.safetensors", "north.onnx"}
    alone = {"calibrator.safetensors", "model.pt", "model.pt2", "calibrator.onnx", "model.onnx"}
    assert written == alone | by_group
    assert torch.equal(
        page["loaded"].predict_proba(page["logits"]), page["calibrator"].predict_proba(page["logits"])
    )
    probs = np.random.default_rng(0).dirichlet(
        np.full(4, 0.02), 200
    )  # exact zeros among them, and far below 1e-12
    assert (probs == 0).any()
    assert ((probs > 0) & (probs < 1e-30)).any()
    np.savez(tmp_path / "tiny.npz", probs=probs)
    done = call("apply", "calibrator.safetensors", "tiny.npz", "-o", "repaired.npz", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    log_probs = page["LogProbs"](nn.Identity())(torch.from_numpy(probs))
    with np.load(tmp_path / "repaired.npz") as repaired:
        assert repaired["probs"] == pytest.approx(page["loaded"].predict_proba(log_probs).numpy(), abs=1e-12)
    printed = capsys.readouterr().out
    assert "2000 samples look like those of the fit (distance 0.000" in printed
    assert "The model's confidences differ" in printed


def test_training_loop(tmp_path, monkeypatch, capsys) -> None:
    """A temperature lowers the loss of every exponent; the figure has the size and the names asked for."""
    quick = functools.partial(evaluate, bootstrap=20, null_draws=40)
    monkeypatch.setattr("calibrant.evaluate", quick)
    monkeypatch.setenv("MPLBACKEND", "agg")
    page = run_page("training-loop.md", tmp_path, monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    for line in lines:
        before, after = map(float, re.findall(r"\d\.\d{3}", line))
        assert after <= before
    assert (tmp_path / "reliability.pdf").exists()
    assert page["figure"].get_size_inches().tolist() == [3.3, 3.3]
    named = [text.get_text() for text in page["ax"].get_legend().get_texts()]
    assert all(any(name in text for text in named) for name in page["curves"])
    page["ax"].get_legend().set_loc("upper left")
    assert [curve.name for curve in page["curves"].values()] == ["top label"] * 2


def test_scikit_learn(tmp_path, monkeypatch, capsys) -> None:
    """The page's own numbers: calibration lowers the log-loss."""
    run_page("scikit-learn.md", tmp_path, monkeypatch)
    before, after = map(float, capsys.readouterr().out.splitlines()[0].split())
    assert after < before
    assert (tmp_path / "calibrator.safetensors").exists()


def test_lower_curvature(tmp_path, monkeypatch, capsys) -> None:
    """The page's penalty halves the trace that it prints."""
    run_page("lower-curvature.md", tmp_path, monkeypatch)
    plain, flat = (float(line.split()[0]) for line in capsys.readouterr().out.splitlines())
    assert flat < plain / 2


def test_sweep(tmp_path, monkeypatch, capsys) -> None:
    """The page's files and commands give its four runs, which its code reads."""
    text = (PAGES / "sweep.md").read_text(encoding="utf-8")
    for name, content in re.findall(r"^```toml\n# (\S+)\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        (tmp_path / name).write_text(content, encoding="utf-8")
    printed = []
    for line in re.findall(r"^\$ calibrant (.*)$", text, flags=re.MULTILINE):
        more = ["--engine", "serial"] if line.startswith("sweep") else []
        done = call(*shlex.split(line), *more, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        printed.append(done.stdout)
    assert printed[0].startswith("4 runs\nfinished: 0\n")
    assert len(printed[3].splitlines()) == 2
    run_page("sweep.md", tmp_path, monkeypatch)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("focal(gamma=3), seed ") for line in lines)


class Words:
    """Stands for a tokenizer: counts of two words."""

    @classmethod
    def from_pretrained(cls, _: str) -> Words:
        """No download."""
        return cls()

    def __call__(self, texts: list[str], **_: Any) -> dict[str, Tensor]:
        """A batch."""
        counts = [[text.count("good"), text.count("bad"), text.count("not")] for text in texts]
        return {"input_ids": torch.tensor(counts), "attention_mask": torch.ones(len(texts), 3)}


class Sentiment(nn.Module):
    """Stands for a transformer: sure of itself."""

    config = SimpleNamespace(id2label={0: "NEGATIVE", 1: "POSITIVE"})

    @classmethod
    def from_pretrained(cls, _: str) -> Sentiment:
        """No download."""
        return cls()

    def forward(self, *, input_ids: Tensor, attention_mask: Tensor) -> Any:
        """Logits in an object."""
        good, bad, negated = (input_ids * attention_mask).double().T
        score = 6 * (good - bad) * (1 - 2 * negated)
        return SimpleNamespace(logits=torch.stack([-score / 2, score / 2], dim=1), loss=None)


def test_stated_confidences(tmp_path, monkeypatch, capsys) -> None:
    """The commands do what the page says; afterwards what is said and what is right agree."""
    page = run_page("stated-confidences.md", tmp_path, monkeypatch)
    text = (PAGES / "stated-confidences.md").read_text(encoding="utf-8")
    for line in re.findall(r"^\$ calibrant (.*)$", text, flags=re.MULTILINE):
        more = ["--bootstrap", "40"] if line.startswith("evaluate") else []
        done = call(*shlex.split(line), *more, folder=tmp_path)
        assert done.returncode == 0, done.stderr
    maths, code = page["calibrant"].load_predictions(tmp_path / "mended.csv").confidence.tolist()
    assert maths < code < 0.95
    said, right = (float(number) for number in re.findall(r"0\.\d+", capsys.readouterr().out)[:2])
    assert abs(said - right) < 0.03


def test_hugging_face(tmp_path, monkeypatch, capsys) -> None:
    """With a stand-in for the download: eight in ten are right, and that is what is said afterwards."""
    stand_in = ModuleType("transformers")
    stand_in.AutoTokenizer, stand_in.AutoModelForSequenceClassification = Words, Sentiment
    monkeypatch.setitem(sys.modules, "transformers", stand_in)
    page = run_page("hugging-face.md", tmp_path, monkeypatch)
    for answer, label in zip(page["pipe"](["good", "not good"]), ("POSITIVE", "NEGATIVE"), strict=True):
        assert answer["label"] == label
        assert answer["score"] == pytest.approx(0.8, abs=0.02)
    assert "Choice: use temperature" in capsys.readouterr().out


class Elsewhere(nn.Module):
    """Stands for an image classifier of transformers: logits in an object."""

    def __init__(self, num_labels: int) -> None:
        super().__init__()
        self.num_labels = num_labels

    @classmethod
    def from_pretrained(cls, _: str, *, num_labels: int, ignore_mismatched_sizes: bool) -> Elsewhere:
        """No download."""
        assert ignore_mismatched_sizes
        return cls(num_labels)

    def forward(self, *, pixel_values: Tensor) -> Any:
        """Zeros."""
        return SimpleNamespace(logits=pixel_values.new_zeros(len(pixel_values), self.num_labels))


def taking_anything(**settings: Any) -> nn.Module:
    """Stands for a factory of torchvision or timm; the layer remembers what it was given."""
    layer = nn.Linear(1, settings["num_classes"])
    layer.settings = settings  # pyright: ignore[reportArgumentType]
    return layer


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_your_own_model(tmp_path, monkeypatch) -> None:
    """The page's commands train its network; factories of other packages are called as its table says."""
    page = run_page("your-own-model.md", tmp_path, monkeypatch)
    body = "features.denseblock1.denselayer1.conv1.weight"
    assert torch.equal(page["network"].get_parameter(body), page["pretrained"].get_parameter(body))
    text = (PAGES / "your-own-model.md").read_text(encoding="utf-8")
    # What a report says is no business of this page, and most of the time.
    monkeypatch.setattr("calibrant_lab.training.results.evaluate", functools.partial(evaluate, null_draws=2))
    monkeypatch.setattr("calibrant.reports.html.report_text", lambda *_given, **_sections: "<!doctype html>")
    few = ["evaluation.bootstrap=2", "evaluation.calibrators=['temperature']", "training.epochs=1"]
    for line in re.findall(r"^\$ calibrant (.*)$", text, flags=re.MULTILINE):
        more = [word for setting in few for word in ("--set", setting)]
        done = call(*shlex.split(line), *more, folder=tmp_path)
        assert done.returncode == 0, done.stderr
    for package, names in (
        ("torchvision.models", {"resnet18": taking_anything, "vit_b_16": taking_anything}),
        ("timm", {"create_model": taking_anything}),
        ("transformers", {"AutoModelForImageClassification": Elsewhere}),
    ):
        stand_in = ModuleType(package)
        vars(stand_in).update(names)
        monkeypatch.setitem(sys.modules, package, stand_in)
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    rows = re.findall(r"^\| t\w+.*? \| `(.*)` \|$", text, flags=re.MULTILINE)
    built = [build_model(row, input_shape=(3, 32, 32), num_classes=7) for row in rows]
    assert [each.settings for each in built] == [
        {"num_classes": 7},
        {"num_classes": 7, "image_size": 32, "dropout": 0.1},
        {"num_classes": 7, "model_name": "resnet18", "in_chans": 1},
    ]
    monkeypatch.syspath_prepend(tmp_path)
    hub = build_model("hub_models:pretrained", input_shape=(3, 8, 8), num_classes=4)
    assert hub(torch.zeros(2, 3, 8, 8)).shape == (2, 4)


class Trainer:
    """Stands for Lightning's: the loops that the page relies on."""

    def __init__(self, *, max_epochs: int, **_: Any) -> None:
        self.max_epochs = max_epochs

    def fit(self, module: Any, train: Any, validation: Any) -> None:
        """Train and validate."""
        optimizer = module.configure_optimizers()
        for _ in range(self.max_epochs):
            for number, batch in enumerate(train):
                optimizer.zero_grad()
                module.training_step(batch, number).backward()
                optimizer.step()
            with torch.no_grad():
                for number, batch in enumerate(validation):
                    module.validation_step(batch, number)
            module.logged = {name: float(metric.compute()) for name, metric in module.logged.items()}


class LightningModule(nn.Module):
    """Stands for Lightning's: keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.logged: dict[str, Any] = {}

    def log(self, name: str, value: Any) -> None:
        """Remember a metric."""
        self.logged[name] = value


@pytest.fixture
def lightning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package, or what stands for it."""
    if importlib.util.find_spec("lightning") is None:
        stand_in = ModuleType("lightning")
        stand_in.LightningModule, stand_in.Trainer = LightningModule, Trainer
        monkeypatch.setitem(sys.modules, "lightning", stand_in)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::calibrant.CalibrantWarning")
def test_lightning(lightning, tmp_path, monkeypatch) -> None:
    """The calibrated module has a lower log-loss than the network, which focal loss left under-confident."""
    torch.manual_seed(0)
    page = run_page("lightning.md", tmp_path, monkeypatch)
    result = page["calibrator"].fit_result_
    assert result.after < result.before
    assert page["model"](page["inputs"][:5]).shape == (5, 3)
    if hasattr(page["module"], "logged"):
        assert 0 < page["module"].logged["val_ece"] < 0.5


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_predict(tmp_path, monkeypatch) -> None:
    """The commands of the first part run, and repair: confidence comes nearer to accuracy."""
    monkeypatch.syspath_prepend(str(tmp_path))
    run_page("predict.md", tmp_path, monkeypatch)
    try:
        first = (
            (PAGES / "predict.md").read_text(encoding="utf-8").partition("## What the images go through")[0]
        )
        for line in re.findall(r"^\$ calibrant (.*)$", first, flags=re.MULTILINE):
            more = ["--bootstrap", "40"] if line.startswith("evaluate") else []
            done = call(*shlex.split(line), *more, folder=tmp_path)
            assert done.returncode == 0, done.stderr
    finally:
        sys.modules.pop("my_network", None)
    gaps: list[float] = []
    for name in ("predictions.npz", "calibrated.npz"):
        test = load_predictions(tmp_path / name).test
        probs = test.probs
        right = (probs.argmax(dim=1) == test.labels).double().mean()
        gaps.append(float(probs.double().amax(dim=1).mean() - right))
    assert gaps[0] > 0.03
    assert abs(gaps[1]) < gaps[0] / 2


def test_the_numbers_of_efficientnet_are_those_of_its_evaluation() -> None:
    """The table comes from the file beside it, which was made by the command that the page shows."""
    made = runpy.run_path(str(PAGES / "run_efficientnet.py"))
    page = (PAGES / "predict.md").read_text(encoding="utf-8")
    kept = json.loads((PAGES / "efficientnet.json").read_text(encoding="utf-8"))
    assert made["table"](kept) in page
    assert made["commands_of"](page) == kept["commands"]
    first = next(iter(kept["arms"].values()))
    gap = round(100 * (first["mean_confidence"][0] - first["accuracy"][0]))
    assert f"overconfident by {gap} points" in page
    for number in (kept["num_test"], kept["num_calibration"], kept["settings"]["bootstrap"]):
        assert str(number) in page


def test_serve(tmp_path, monkeypatch) -> None:
    """The network of the page is loaded by the options of its command, and answers about an image."""
    pytest.importorskip("fastapi")
    from calibrant.web.settings import ModelSettings
    from calibrant_lab.web.model import load_classifier

    monkeypatch.syspath_prepend(str(tmp_path))
    try:
        run_page("serve.md", tmp_path, monkeypatch)
        (line,) = re.findall(
            r"^\$ calibrant serve (--model my_images.*)$",
            (PAGES / "serve.md").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        names, values = shlex.split(line)[::2], shlex.split(line)[1::2]
        given = {name.removeprefix("--"): value for name, value in zip(names, values, strict=True)}
        found = load_classifier(
            ModelSettings(
                model=given["model"],
                weights=Path(given["weights"]),
                predictions=Path(given["predictions"]),
                size=int(given["size"]),
                resamples=20,
            )
        )
    finally:
        sys.modules.pop("my_images", None)
    assert found.class_names == ("cat", "dog", "owl")
    assert found.refits is not None


def test_monitor(tmp_path, monkeypatch, capsys) -> None:
    """The change is found by script and commands, whose exit codes are those that the page states."""
    page = run_page("monitor.md", tmp_path, monkeypatch)
    assert 8 <= page["test"].alarm <= 12
    assert capsys.readouterr().out.startswith(page["found"].windows[page["test"].alarm].start)
    commands = re.findall(
        r"^\$ calibrant (.*)$", (PAGES / "monitor.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    for command in commands:
        done = call(*shlex.split(command, comments=True), "--bootstrap", "5", folder=tmp_path)
        assert done.returncode == int("exits with 1" in command), command
    assert {"found.json", "calibrant.prom"} < {path.name for path in tmp_path.iterdir()}


def test_segmentation_and_detection(tmp_path, monkeypatch, capsys) -> None:
    """The page's claims hold: visits are not blamed, images are judged, cars on the left are repaired."""
    monkeypatch.setattr("calibrant.reports.write_report", lambda _, path, **__: path.write_text("page"))
    page = run_page("segmentation-and-detection.md", tmp_path, monkeypatch)
    assert capsys.readouterr().out.startswith("over-confident 3360 ")
    assert page["maps"].shape == (2, 5, 16, 16)
    assert page["by_place"].low > 0.1
    assert page["repaired"].value < page["by_place"].value / 2
    text = (PAGES / "segmentation-and-detection.md").read_text(encoding="utf-8")
    for command in re.findall(r"^\$ calibrant (.*)$", text, re.MULTILINE):
        more = [] if command.startswith(("fit", "apply")) else ["--bootstrap", "40"]
        if command.startswith("evaluate"):
            more += ["--method", "temperature" if "streets" in command else "platt"]
        done = call(*shlex.split(command, comments=True), *more, folder=tmp_path)
        assert done.returncode == int("exits with 1" in command), (command, done.stderr)


def test_language_model_tokens(tmp_path, monkeypatch, capsys) -> None:
    """Commands end well; the largest log-probabilities give nearly the temperature of whole rows, 1.6."""
    run_page("language-model-tokens.md", tmp_path, monkeypatch)
    text = (PAGES / "language-model-tokens.md").read_text(encoding="utf-8")
    monkeypatch.setattr("calibrant.evaluation.evaluate", lambda *_, **__: FOUND)
    for command in re.findall(r"^\$ calibrant (.*)$", text, re.MULTILINE):
        done = call(*shlex.split(command), folder=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
    part, whole = (
        load_calibrator(tmp_path / f"{name}.safetensors").fit_result_.parameters["temperature"]
        for name in ("temperature", "whole")
    )
    assert whole == pytest.approx(1.6, rel=0.05)
    assert part == pytest.approx(whole, rel=0.03)


def test_every_page_is_run() -> None:
    """No page escapes; gate, tables and formats are run by other tests."""
    run = set(re.findall(r'run_page\("(.*?)"', Path(__file__).read_text(encoding="utf-8")))
    run |= {"command-line.md", "language-models.md", "conformal-prediction.md"}  # below
    elsewhere = {"gate-in-ci.md", "tables.md", "file-formats.md"}
    assert {path.name for path in PAGES.glob("*.md")} == run | elsewhere


def test_train_on_texts(tmp_path, monkeypatch, capsys) -> None:
    """The page's texts are learned from, and its two conventions differ by the neutral fifth."""
    monkeypatch.setattr("calibrant_lab.training.results.evaluate", functools.partial(evaluate, null_draws=2))
    monkeypatch.setattr("calibrant.reports.html.report_text", lambda *_given, **_sections: "<!doctype html>")
    page = run_page("train-on-texts.md", tmp_path, monkeypatch)
    assert (page["struck"] / page["renormalised"]).tolist()[0] == pytest.approx([0.8, 0.8], abs=1e-6)
    assert page["run"].predictions.class_names == ("calm", "loud")
    assert capsys.readouterr().out.splitlines()[-1] == "24"


def test_chest_x_rays(tmp_path, monkeypatch, capsys) -> None:
    """Thumbnails of images that differ in brightness alone tell them apart; COVID-19 is left out."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(240) % 3
    bright = torch.where(labels == 2, 140, 110)[:, None, None, None]
    pixels = (bright + 25 * torch.randn(240, 1, 16, 16, generator=generator)).clamp(0, 255).byte()
    part = RawPart(inputs=pixels, labels=labels, groups=torch.arange(240) // 2)
    raw = RawData(name="chest_xray_covid", train=part, class_names=("Covid-19", "No_findings", "Pneumonia"))
    monkeypatch.setattr("calibrant_lab.data.load", lambda name: {"chest_xray_covid": raw}[name])
    page = run_page("chest-x-rays.md", tmp_path, monkeypatch)
    assert page["row"].num_positives == int((page["data"].test.labels == 2).sum())
    assert page["row"].auroc.value > 0.9
    assert capsys.readouterr().out.startswith(f"{page['row'].auroc.value:.2f} (")


def written_for(folder: Path) -> None:
    """The files that the pages on the command line and on language models speak of."""
    rng = np.random.default_rng(0)
    lines = ["y_true,p_spam"] + [f"{'spam' if rng.random() < p / 100 else 'ham'},{p}" for p in range(1, 100)]
    (folder / "mail.csv").write_text("\n".join(lines))
    rows = [f"{'dog' if rng.random() < p else 'cat'},{1 - p},{p}" for p in rng.random(60).round(3)]
    (folder / "pets.csv").write_text("\n".join(["who,cat,dog", *rows]))
    load_predictions(folder / "pets.csv", columns=PETS).save(folder / "pets.npz")
    patients = [f"{'nm'[k % 2]},{'fm'[k // 2 % 2]},{(k % 9 + 0.5) / 9:.3f},{k // 3 % 2}" for k in range(80)]
    marks = [(k % 5 + 1, int(k * 7 % 10 < 2 * (k % 5))) for k in range(400)]
    for name in ("judge.csv", "judge-new.csv"):
        rows = [f"{score},{right}" for score, right in marks]
        (folder / name).write_text("\n".join(["score,correct", *rows]))
    for name in ("patients.csv", "new.csv"):
        (folder / name).write_text("\n".join(["site,sex,prob,label", *patients]))
    choices, answers = [], []
    for doc in range(60):
        found = rng.normal(size=3) * 3 - 9
        right = int(rng.choice(3, p=np.exp(found / 3) / np.exp(found / 3).sum()))
        requests = {f"gen_args_{k}": {"arg_0": "Q:", "arg_1": " " + "x" * (k + 1)} for k in range(3)}
        marks = {"filter": "none", "acc": float(found.argmax() == right)}
        sample = {
            "doc_id": doc,
            "doc": {"subject": "ab"[doc % 2]},
            "target": str(right),
            "arguments": requests,
            "filtered_resps": None,
        } | marks
        choices.append(json.dumps(sample | {"filtered_resps": [[str(each), "False"] for each in found]}))
        stated = int(rng.integers(5, 10)) * 10
        text = f"Paris. Confidence: {stated}%"
        marks = {"exact_match": float(rng.random() < stated / 120)}
        answers.append(json.dumps({"doc_id": doc, "target": "Paris", "resps": [[text]]} | marks))
    (folder / "samples_arc_easy.jsonl").write_text("\n".join(choices))
    (folder / "samples_trivia.jsonl").write_text("\n".join(answers))


@pytest.mark.parametrize("page", ["command-line.md", "language-models.md"])
def test_commands_of_a_page_are_carried_out(page, tmp_path, monkeypatch) -> None:
    """Each command of the page reads its file and ends well, and its JSON can be read."""
    written_for(tmp_path)
    seen = []

    def answered(predictions: Predictions, **_: Any) -> Evaluation:
        seen.append(predictions)  # a verdict takes a second; tests of the command have it
        return FOUND

    monkeypatch.setattr("calibrant.evaluation.evaluate", answered)
    monkeypatch.setattr("calibrant.reports.write_report", lambda _, path, **__: path.write_text("page"))
    text = (PAGES / page).read_text(encoding="utf-8")
    commands = re.findall(r"^\$ (.*)$", text, flags=re.MULTILINE)
    for command in commands:
        line = command.partition("#")[0].partition(">")[0]
        before, _, rest = line.rpartition("calibrant ")
        if "cat " in before:
            piped = io.BytesIO((tmp_path / before.split()[1]).read_bytes())
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(piped))
        more = ["--bootstrap", "20"] if rest.startswith("check") else []
        done = call(*shlex.split(rest), *more, folder=tmp_path)
        assert done.returncode == 0, (command, done.stderr)
    assert len(seen) == sum("evaluate" in command for command in commands)
    for each in re.findall(r"^```json\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE):
        whole = "references" in each
        path = tmp_path / f"own.{'json' if whole else 'jsonl'}"
        path.write_text(each if whole else each * 2)
        assert load_predictions(path).num_samples == (3 if whole else 2)


def test_conformal_prediction(tmp_path, monkeypatch, capsys) -> None:
    """Sets hold the true class about as often as they promise; the interval is one of probabilities."""
    text = (PAGES / "conformal-prediction.md").read_text(encoding="utf-8")
    absent = [name for name in ("mapie", "torchcp") if importlib.util.find_spec(name) is None]
    blocks = re.findall(r"^```python\n(.*?)^```$", text, flags=re.DOTALL | re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    defined: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        if not any(f"from {name}" in block for name in absent):
            exec(compile(block, "conformal-prediction.md", "exec"), defined)
    printed = capsys.readouterr().out
    assert all(abs(float(share) - 0.9) < 0.04 for share in re.findall(r": (0\.\d+) of the sets", printed))
    low, high = map(float, re.findall(r"0\.\d+", printed.splitlines()[-1]))
    assert 0 < low < high < 1
