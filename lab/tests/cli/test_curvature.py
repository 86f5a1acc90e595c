"""``calibrant curvature``: of a finished run and of a network of one's own; mistakes are one sentence."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch
from torch import nn
from typer.testing import CliRunner, Result

from calibrant import losses
from calibrant._math.errors import InputError
from calibrant.cli.main import app
from calibrant.curvature import HessianOperator
from calibrant_lab import models
from calibrant_lab.training import Recipe, load_run, train
from calibrant_lab.training import curvature as core
from undrawn import drawing_no_diagrams

RECIPE = Recipe.read(
    {
        "model": "mlp(widths=(3,))",
        "loss": "focal(gamma=2)",
        "data": {"name": "digits", "train": 150, "calibration": 150, "downsample": 4, "augment": ["flip"]},
        "training": {"epochs": 2, "batch_size": 50},
        "hardware": {"accelerator": "cpu", "threads": 1},
        "evaluation": {"calibrators": ["temperature"], "bootstrap": 10},
    }
)
SMALL = ("--samples", "40", "--products", "30")
MLP, DIGITS, BRIER = "calibrant_lab.models:MLP", ("--data", "digits"), ("--loss", "brier")


@pytest.fixture(scope="module", autouse=True)
def without_diagrams() -> Iterator[None]:
    """Reports are whole but for the pictures of training and evaluation."""
    with drawing_no_diagrams():
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run with few enough parameters for a dense Hessian; not to be written to."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(RECIPE, folder)
    return folder


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["curvature", *(str(each) for each in arguments)])


def dense(folder: Path, split: str, loss: nn.Module) -> torch.Tensor:
    """The whole Hessian on all samples of a split, from the run alone."""
    run = load_run(folder)
    subject = core.subject_of_run(folder)
    part = subject.dataset.parts[split]
    pixels = subject.dataset.train.inputs.double()
    inputs = (part.inputs.double() - pixels.mean()) / pixels.std(correction=0)
    return HessianOperator(run.model().double(), loss, [(inputs, part.labels)]).dense()


def test_a_run_s_curvature_is_the_dense_hessian_s(folder) -> None:
    result = call(folder, "--samples", "0", "--products", "60", "--top", "2")
    assert result.exit_code == 0, result.exception
    found = json.loads((folder / "curvature.json").read_text(encoding="utf-8"))["measurements"]
    roles = {each["loss"]: each["role"] for each in found}
    assert roles == {"focal(gamma=2)": "training loss", "cross-entropy": "for comparison"}
    for each in found:
        matrix = dense(folder, "train", losses.build(each["loss"]))
        assert each["num_samples"] == each["of_samples"] == 150
        values = torch.linalg.eigvalsh(matrix)
        # float32 parameters: products are good to about 1e-6 of the largest eigenvalue
        assert each["eigenvalues"] == pytest.approx(values[-2:].flip(0).tolist(), rel=1e-4)
        assert each["trace_standard_error"] == 0  # as many products as parameters: exact
        assert each["trace"] == pytest.approx(float(matrix.trace()), rel=1e-4)
        density = each["density"]
        step = density["eigenvalues"][1] - density["eigenvalues"][0]
        assert sum(density["density"]) * step == pytest.approx(1, abs=0.02)
        assert f"{each['eigenvalues'][0]:.4g}" in result.output


@pytest.fixture(scope="module")
def measured(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, bytes]]:
    """The run's files before and after the command: on the training split, on it again, on the test split."""
    folder = tmp_path_factory.mktemp("measured") / "run"
    shutil.copytree(trained, folder)
    found = [{"report.html": (folder / "report.html").read_bytes()}]
    for split in ("train", "train", "test"):
        assert call(folder, "--split", split, *SMALL).exit_code == 0
        found.append({name: (folder / name).read_bytes() for name in ("curvature.json", "report.html")})
    assert load_run(folder).evaluation is not None
    return found


def test_the_report_gets_a_section_and_keeps_the_rest(measured) -> None:
    """Both splits stand in one section; all else is as training wrote it, and twice the same."""
    _, first, again, _ = measured
    assert first == again
    before, page = (each["report.html"].decode() for each in (measured[0], measured[-1]))
    assert len(re.findall(r"<h2[^>]*>Curvature</h2>", page)) == 1
    assert page.count('aria-label="Spectrum on ') == 2
    said = json.loads(measured[-1]["curvature.json"])["measurements"]
    assert [each["split"] for each in said] == ["train", "train", "test", "test"]
    kept = set(before.splitlines()) - set(page.splitlines())
    assert len(kept) <= 3, kept  # the order of the contents may name the new section


def test_a_network_of_one_s_own(trained, tmp_path) -> None:
    """A factory with weights and data gives what a run with them gives; nothing else is written."""
    weights, found = tmp_path / "weights.pt", tmp_path / "found.json"
    torch.save(load_run(trained).model().state_dict(), weights)
    settings = [f"--set=data.{each}" for each in ("train=150", "calibration=150", "downsample=4")]
    result = call(
        "calibrant_lab.models:MLP(widths=(3,))", "--weights", weights, *DIGITS, *settings, "--samples", 0,
        "--loss", "focal(gamma=2)", "--json", found, "--figure", tmp_path / "spectrum.svg",
    )  # fmt: skip
    assert result.exit_code == 0, result.exception
    own = json.loads(found.read_text(encoding="utf-8"))["measurements"]
    matrix = dense(trained, "train", losses.build("cross-entropy"))
    assert own[1]["trace"] == pytest.approx(float(matrix.trace()), rel=1e-4)
    assert "<svg" in (tmp_path / "spectrum.svg").read_text(encoding="utf-8")
    assert {path.name for path in tmp_path.iterdir()} == {"weights.pt", "found.json", "spectrum.svg"}


def test_a_figure_is_replaced_by_an_equal_one(measured, tmp_path, monkeypatch) -> None:
    found = json.loads(measured[1]["curvature.json"])["measurements"]
    monkeypatch.setattr(core, "measure_curvature", lambda *_given, **_settings: found)
    subject = SimpleNamespace(run=None, title="a network")
    monkeypatch.setattr("calibrant_lab.cli.curvature._subject", lambda *_given: subject)
    monkeypatch.setattr(
        "calibrant_lab.cli.curvature._draw", lambda _, path: path.write_text("<svg>drawn</svg>")
    )
    again = ("module:factory", "--figure", tmp_path / "a.svg")
    assert [call(*again).exit_code for _ in range(2)] == [0, 0]
    (tmp_path / "a.svg").write_text("<svg>mine</svg>", encoding="utf-8")
    assert "has other content; use --force to overwrite it" in str(call(*again).exception)
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == "<svg>mine</svg>"
    assert call(*again, "--force").exit_code == 0


def test_squares_that_are_cut_out_are_measured_as_they_are_judged(tmp_path) -> None:
    """A network that sees squares is measured on those in the middle, prepared as in training."""
    model = models.build("mlp(widths=(3,))", input_shape=(1, 4, 4), num_classes=10)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    subject = core.subject_of_factory(
        "mlp(widths=(3,))", tmp_path / "weights.pt", "digits", loss="brier", settings=["data.crop=4"]
    )
    effort = core.Effort(num_samples=0, density_probes=0, trace_products=6)
    found, _ = core.measure_curvature(subject, split="test", effort=effort)
    test = subject.dataset.test
    pixels = subject.dataset.train.inputs
    inputs = (test.inputs[:, :, 2:6, 2:6] - pixels.mean()) / pixels.std(correction=0)
    value = losses.brier_loss(subject.model(inputs.to(torch.float32)), test.labels)
    assert found["value"] == pytest.approx(float(value.detach()), rel=1e-5)


def test_a_loss_that_follows_the_epochs_is_taken_as_it_ended(tmp_path) -> None:
    scheduled = RECIPE.with_settings(['loss="scheduled-focal(gammas=(5.0, 1.0), milestones=(1,))"'])
    train(scheduled, tmp_path / "run")
    subject = core.subject_of_run(tmp_path / "run")
    logits, labels = torch.tensor([[0.3, -0.2, 1.0]]), torch.tensor([0])
    wanted = losses.focal_loss(logits, labels, gamma=1.0)
    assert torch.equal(subject.loss(logits, labels), wanted)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("absent",), "there is no run absent"),
        (("run/recipe.toml",), "is a file"),
        (("empty",), "holds no run"),
        (("begun",), "begun is not finished; `calibrant train begun` resumes it"),
        (("run", "--loss", "brier"), "--loss goes with module:factory"),
        ((MLP,), "needs --weights"),
        ((MLP, "--weights", "no.pt", *DIGITS), "needs --loss"),
        ((MLP, "--weights", "no.pt", *DIGITS, *BRIER), "there is no file of weights no.pt"),
        ((f"{MLP[:-1]}B", "--weights", "no.pt", *DIGITS, *BRIER), "no function 'MLB'; did you mean 'MLP'"),
        ((MLP, "--weights", "other.pt", *DIGITS, *BRIER), "other.pt must hold the weights of this MLP"),
        (("run", "--figure", "x.svg", "--no-density"), "--no-density leaves out"),
        (("run", "--json", "x.txt"), "must end in .json"),
        (("run", "--device", "abacus"), "the device 'abacus' cannot be used"),
        (("run", "--top", "1000"), "`k` must be in"),
    ],
)
def test_mistakes_are_one_sentence_and_leave_nothing(
    trained, tmp_path, monkeypatch, arguments, words
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(trained, tmp_path / "run")
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    for name in ("recipe.toml", "environment.json"):
        shutil.copy(trained / name, tmp_path / "begun" / name)
    torch.save({"weight": torch.zeros(2)}, tmp_path / "other.pt")
    present = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    result = call(*arguments)
    assert isinstance(result.exception, InputError)
    assert words in str(result.exception)
    assert "\n" not in str(result.exception)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == present


def test_other_data_and_files_of_others_are_refused(folder, monkeypatch) -> None:
    """The curvature of other samples is not passed off as the run's; a foreign file is left alone."""
    (folder / "curvature.json").write_text("[]", encoding="utf-8")
    result = call(folder, *SMALL, "--no-density")
    assert isinstance(result.exception, InputError)
    assert "was not written by this version" in str(result.exception)
    assert (folder / "curvature.json").read_text(encoding="utf-8") == "[]"
    other = core.read_data(RECIPE.data.model_copy(update={"seed": 1}))
    monkeypatch.setattr("calibrant_lab.training.data.read_data", lambda _settings: other)
    result = call(folder)
    assert isinstance(result.exception, InputError)
    assert "was trained on other data" in str(result.exception)


def test_interrupted_it_leaves_nothing(folder, monkeypatch) -> None:
    monkeypatch.setattr(core, "hessian_trace", Mock(side_effect=KeyboardInterrupt))
    before = (folder / "report.html").read_bytes()
    assert call(folder, *SMALL).exit_code != 0
    assert not (folder / "curvature.json").exists()
    assert (folder / "report.html").read_bytes() == before


def test_progress_goes_from_start_to_end(trained) -> None:
    told = Mock()
    effort = core.Effort(num_samples=40, trace_products=12, density_steps=5, density_probes=1)
    core.measure_curvature(core.subject_of_run(trained), effort=effort, progress=told)
    shares = [call_.args[1] for call_ in told.call_args_list]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    steps, losses_ = ("largest eigenvalue", "trace", "density"), ("focal(gamma=2)", "cross-entropy")
    assert {call_.args[0] for call_ in told.call_args_list} == {f"{a}, {b}" for a in steps for b in losses_}


def test_cross_entropy_is_measured_once(tmp_path) -> None:
    plain = RECIPE.with_settings(['loss="cross-entropy"'])
    train(plain, tmp_path / "plain")
    train(plain.with_settings(["training.class_weights=balanced"]), tmp_path / "weighted")
    assert call(tmp_path / "plain", *SMALL, "--no-density").exit_code == 0
    found = json.loads((tmp_path / "plain" / "curvature.json").read_text(encoding="utf-8"))["measurements"]
    assert [(each["loss"], each["density"]) for each in found] == [("cross-entropy", None)]
    subject = core.subject_of_run(tmp_path / "weighted")
    both = core.measure_curvature(subject, effort=core.Effort(num_samples=40, density_probes=0))
    assert len(both) == 2
