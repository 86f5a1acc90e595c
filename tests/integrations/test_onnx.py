"""ONNX files: what onnxruntime makes of them, and what is refused."""

import functools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from calibrant import InputError, NotFittedError
from calibrant._math.errors import ConvergenceError
from calibrant.calibrators import CalibratedModel, TemperatureScaling, available, build, fit_groups
from calibrant.integrations import onnx as ours
from calibrant.integrations.onnx import export_onnx
from rosters_calibrators import EXPORTED_LIKE

onnxruntime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")

EVENTS = ("binary", "multilabel")
KINDS = ("binary", "multiclass", "multilabel")
NUM_SAMPLES = 24  # searching bins is unrolled: the more there are, the longer an export takes
LATE = dict.fromkeys(("platt", "beta", "quadratic"), ("multilabel",))
LATE |= dict.fromkeys(("vector", "bias-corrected-temperature"), KINDS)  # whose forward pass is that of matrix


@pytest.fixture(scope="module", autouse=True)
def one_registry() -> Iterator[None]:
    """Torch reads the sources of its operators for every export, half of its time; here it does so once."""
    pytest.importorskip("onnxscript")  # not where tests are collected: it takes seconds to load
    registry = pytest.importorskip("torch.onnx._internal.exporter._registration").ONNXRegistry
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "from_torchlib", staticmethod(functools.cache(registry.from_torchlib)))
        yield


def draw(kind: str, num_samples: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = {"binary": (num_samples,), "multiclass": (num_samples, 4), "multilabel": (num_samples, 2)}[kind]
    scores = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "multiclass":
        return 3 * scores, torch.multinomial(scores.softmax(dim=1), 1, generator=generator)[:, 0]
    return 3 * scores, torch.bernoulli(scores.sigmoid(), generator=generator).long()


def axes(path: Path) -> list[list[str | int]]:
    """The axes of the first input and output."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return [each.shape for each in (*session.get_inputs(), *session.get_outputs())]


def late(name: str) -> tuple[str, ...]:
    """The kinds that are exported by slow tests only."""
    return KINDS if name in EXPORTED_LIKE else LATE.get(name, EVENTS)


def run(path: Path, **feed: Tensor) -> Tensor:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {name: each.numpy() for name, each in feed.items()})
    return torch.from_numpy(found)


def hard(scores: Tensor) -> Tensor:
    """The same, huge ones, ties, and probabilities of zero."""
    new = torch.cat([scores, 40 * scores[:20], 0 * scores[:2]])
    new[:5] = torch.where(new[:5] < new[:5].median(), -math.inf, new[:5])
    return new


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        # One kind by default, the others among the slow tests: an export takes seconds. One label and several
        # go through the same lines, with one parameter or a row of them, so few are exported for both.
        pytest.param(name, kind, marks=[pytest.mark.slow] if kind in late(name) else [])
        for name in available()
        for kind in build(name).kinds
        if kind != "binary" or name in (*LATE, "temperature", "isotonic", "histogram")
    ],
)
def test_onnxruntime_agrees(name: str, kind: str, tmp_path: Path) -> None:
    """Probabilities are those of ``predict_proba`` to 1e-6, of any number of samples, hard ones included."""
    scores, labels = draw(kind, NUM_SAMPLES)
    calibrator = build(name).fit(scores, labels)
    exported = export_onnx(calibrator, tmp_path / "c.onnx")
    assert exported.inputs == ("logits",)
    assert exported.largest_difference is not None
    assert exported.largest_difference < 1e-6
    new = hard(scores).float()
    found = run(tmp_path / "c.onnx", logits=new)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), calibrator.predict_proba(new), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "kind", "output"),
    [("focal-temperature", "multiclass", "log_probs"), ("isotonic", "binary", "log_odds")],
)
def test_doubles_and_scores(name: str, kind: str, output: str, tmp_path: Path) -> None:
    """float64 in is float64 out; log-probabilities, or log-odds, are those of the forward pass."""
    scores, labels = draw(kind, NUM_SAMPLES)
    calibrator = build(name).fit(scores, labels)
    exported = export_onnx(calibrator, tmp_path / "c.onnx", output="scores", dtype=torch.float64)
    assert exported.output == output
    found = run(tmp_path / "c.onnx", logits=hard(scores))
    # ONNX holds constants in float32: the floor of log 1e-12 is off by 4e-7.
    torch.testing.assert_close(found, calibrator(hard(scores)), rtol=1e-7, atol=1e-8)


def test_models_with_their_calibrator(tmp_path: Path) -> None:
    """A network and its calibrator are one file, which says what it is; a binary head keeps its column."""
    onnx = pytest.importorskip("onnx")
    network = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 1)).eval()
    inputs = torch.randn(30, 5, generator=torch.Generator().manual_seed(0))
    log_odds = network(inputs)[:, 0].detach()
    calibrator = build("platt").fit(log_odds, torch.arange(30) % 2)
    calibrator.class_names_ = ("well", "ill")
    model = CalibratedModel(network, calibrator)
    exported = export_onnx(model, tmp_path / "m.onnx", example=inputs[:4])
    assert exported.inputs == ("inputs",)
    assert axes(tmp_path / "m.onnx") == [["batch", 5], ["batch", 1]]
    found = run(tmp_path / "m.onnx", inputs=inputs)
    assert found.shape == (30, 1)
    torch.testing.assert_close(found.double(), model.predict_proba(inputs), rtol=0, atol=1e-6)
    (entry,) = (each for each in onnx.load(tmp_path / "m.onnx").metadata_props if each.key == "calibrant")
    told = json.loads(entry.value)
    assert (told["name"], told["kind"], told["class_names"]) == ("platt", "binary", ["well", "ill"])


class Sorting(nn.Module):
    """What no graph can hold: a loop that depends on values."""

    def forward(self, inputs: Tensor) -> Tensor:
        while float(inputs.sum()) > 0:
            inputs = inputs - 1
        return inputs


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wrong names and missing parts are said, and nothing is left behind, nor what was there replaced."""
    calibrator = TemperatureScaling().fit(*draw("multiclass", 50))
    path = tmp_path / "c.onnx"
    path.write_bytes(b"before")
    model = CalibratedModel(nn.Linear(3, 4), calibrator)
    groups = fit_groups("temperature", [4.0] * 20, ([1] * 7 + [0] * 3) * 2, groups=["a"] * 10 + ["b"] * 10)
    with pytest.raises(InputError, match=r"must end in \.onnx"):
        export_onnx(calibrator, tmp_path / "c.pt")
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (model, {}, "`example` must be given for a model"),
        (model, {"example": torch.zeros(1, 3)}, "at least two samples"),
        (model, {"example": np.zeros((2, 3))}, "`example` must be a torch"),
        (calibrator, {"output": "logits"}, "`output` must be one of"),
        (
            calibrator,
            {"dtype": torch.float16},
            r"must be torch\.float32 or torch\.float64; got torch\.float16",
        ),
        (TemperatureScaling(), {}, "call fit"),
        (
            CalibratedModel(Sorting(), calibrator),
            {"example": torch.zeros(3, 4)},
            "torch cannot express the model in",
        ),
        (groups, {}, "need a file for each: export `by_group"),
    ]
    for given, options, said in cases:
        with pytest.raises((InputError, TypeError, NotFittedError), match=said):
            export_onnx(given, path, **options)
    monkeypatch.setattr(ours, "_difference", lambda *_: np.nan)
    with pytest.raises(ConvergenceError, match="was not written: onnxruntime's output differs"):
        export_onnx(calibrator, path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibrator = TemperatureScaling().fit(*draw("multiclass", 50))
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    with pytest.raises(ImportError, match=r"onnx and onnxscript must be installed: pip install"):
        export_onnx(calibrator, tmp_path / "c.onnx")
