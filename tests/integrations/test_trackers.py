"""One call logs an evaluation to a tracker: to stand-ins, and to the real libraries that are installed."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from calibrant import InputError, load_calibrator
from calibrant.calibrators import TemperatureScaling
from calibrant.evaluation.result import Evaluation
from calibrant.integrations import log_evaluation, trackers
from fixtures_reports import make_evaluation

FILES = {
    *("calibrator.safetensors", "evaluation.json", "report.html", "summary.md"),
    *("reliability-top-label-after.png", "reliability-top-label-before.png"),
}


@pytest.fixture(scope="module")
def found() -> Evaluation:
    return make_evaluation()


@pytest.fixture(scope="module")
def calibrator() -> TemperatureScaling:
    return TemperatureScaling().fit(np.array([4.0] * 10), [1] * 7 + [0] * 3)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        trackers, "write_report", lambda _found, path: path.write_text("<html><head></head></html>")
    )


pytestmark = pytest.mark.usefixtures("quick")


class Kept:
    """Notes every call; files as the names and contents that they have at that moment."""

    def __init__(self, *names: str, **values: Any) -> None:
        self.calls: dict[str, list[Any]] = {name: [] for name in names}
        vars(self).update(values)

    def __getattr__(self, name: str) -> Callable[..., None]:
        if name == "calls" or name not in self.calls:
            raise AttributeError(name)
        return lambda *given, **named: self.calls[name].append((given, named))


def test_numbers_have_names_and_intervals(found: Evaluation, calibrator: TemperatureScaling) -> None:
    """A mapping takes numbers, the verdict and the bytes of files; what is not a number is left out."""
    run: dict[str, Any] = {}
    log_evaluation(found, run, calibrator=calibrator, prefix="test")
    for when, arm in (("before", found.arms[0]), ("after", found.arm(found.verdict.recommended))):
        ece = arm.metrics["ece"]
        kept = [run[f"test/{when}/ece{end}"] for end in ("", "_low", "_high")]
        assert kept == [ece.value, ece.low, ece.high]
        assert run[f"test/{when}/ece_noise_floor"] == arm.null[0].upper
    assert found.arms[0].metrics["nll"].value is None
    assert "test/before/nll" not in run
    assert run["test/verdict"] == found.verdict.short
    assert {name.removeprefix("test/") for name, value in run.items() if isinstance(value, bytes)} == FILES
    assert run["test/summary.md"].startswith(b"<!-- calibrant summary -->")
    assert run["test/reliability-top-label-after.png"].startswith(b"\x89PNG")
    only: dict[str, Any] = {}
    log_evaluation(found, only, files=False)
    assert not any(isinstance(value, bytes) for value in only.values())


class Fields(dict[str, Any]):
    """A run of Neptune: asking for a name gives a field, which appends and uploads."""

    def __getitem__(self, name: str) -> Any:
        return self.setdefault(name, Kept("append", "upload"))


def test_neptune(found: Evaluation) -> None:
    """Without a step numbers are assigned, with one they become a series; files are there until uploaded."""
    run = Fields()
    log_evaluation(found, run, step=3)
    (((value,), named),) = run["calibration/before/ece"].calls["append"]
    assert (value, named) == (found.arms[0].metrics["ece"].value, {"step": 3})
    (((path,), named),) = run["calibration/report.html"].calls["upload"]
    assert Path(path).name == "report.html"
    assert named == {"wait": True}
    log_evaluation(found, run, files=False)
    assert run["calibration/before/ece"] == value


def test_mlflow_as_a_module(found: Evaluation) -> None:
    module = Kept("log_metrics", "set_tag", "log_artifacts")
    log_evaluation(found, module, step=2)
    ((metrics,), named) = module.calls["log_metrics"][0]
    assert metrics["calibration/after/ece"] == found.arm(found.verdict.recommended).metrics["ece"].value
    assert named == {"step": 2}
    assert module.calls["set_tag"] == [(("calibration/verdict", found.verdict.short), {})]
    assert module.calls["log_artifacts"][0][1] == {"artifact_path": "calibration"}


def test_wandb_run(
    found: Evaluation, calibrator: TemperatureScaling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files lie in the run's folder, from which they are uploaded; pictures and report are shown."""
    module = SimpleNamespace(Image=lambda path: ("image", Path(path).name), Html=lambda text: text[:6])
    monkeypatch.setitem(sys.modules, "wandb", module)
    run = Kept("log", "save", summary={}, dir=str(tmp_path))
    log_evaluation(found, run, calibrator=calibrator)
    ((values,), named) = run.calls["log"][0]
    assert named == {"step": None}
    assert values["calibration/report.html"] == "<html>"
    assert values["calibration/reliability-top-label-before.png"][0] == "image"
    assert {path.name for path in (tmp_path / "calibration").iterdir()} == FILES
    assert run.summary == {"calibration/verdict": found.verdict.short}  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(run=None))
    with pytest.raises(InputError, match=r"no active run; start one with `wandb\.init\(\)`"):
        log_evaluation(found, "wandb")


def test_what_cannot_be_logged_to_is_told(found: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is close is suggested; an object is named by its type; a library must be installed."""
    with pytest.raises(InputError, match=r"no tracker 'mlfow'; .*'mlflow'"):
        log_evaluation(found, "mlfow")
    with pytest.raises(TypeError, match="a SummaryWriter, or a name; got int"):
        log_evaluation(found, 3)
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match="mlflow"):
        log_evaluation(found, "mlflow")


REAL = pytest.mark.filterwarnings("ignore")  # of the libraries


@REAL
def test_real_tensorboard(
    found: Evaluation, calibrator: TemperatureScaling, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own reader finds scalars, pictures and the summary; the calibrator beside them can be loaded."""
    accumulator: Any = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    monkeypatch.chdir(tmp_path)
    log_evaluation(found, "tensorboard", calibrator=calibrator, step=5)
    (folder,) = (tmp_path / "runs").iterdir()
    events = accumulator.EventAccumulator(str(folder)).Reload()
    (scalar,) = events.Scalars("calibration/after/ece_high")
    assert scalar.step == 5
    assert scalar.value == pytest.approx(found.arm(found.verdict.recommended).metrics["ece"].high)
    assert events.Tags()["images"] == [
        f"calibration/reliability-top-label-{when}.png" for when in ("after", "before")
    ]
    assert load_calibrator(folder / "calibration" / "calibrator.safetensors")
    assert {path.name for path in (folder / "calibration").iterdir()} == FILES


@REAL
def test_real_mlflow(found: Evaluation, calibrator: TemperatureScaling, tmp_path: Path) -> None:
    mlflow: Any = pytest.importorskip("mlflow")
    pytest.importorskip("sqlalchemy")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    experiment = mlflow.create_experiment("calibration", artifact_location=(tmp_path / "kept").as_uri())
    with mlflow.start_run(experiment_id=experiment) as run:
        log_evaluation(found, "mlflow", calibrator=calibrator)
    kept = mlflow.get_run(run.info.run_id).data
    assert kept.metrics["calibration/before/ece"] == found.arms[0].metrics["ece"].value
    assert kept.tags["calibration/verdict"] == found.verdict.short
    folder = tmp_path / "kept" / run.info.run_id / "artifacts" / "calibration"
    assert {path.name for path in folder.iterdir()} == FILES


@REAL
def test_real_wandb(found: Evaluation, calibrator: TemperatureScaling, tmp_path: Path) -> None:
    wandb: Any = pytest.importorskip("wandb")
    settings = wandb.Settings(silent=True, disable_git=True)
    run = wandb.init(project="calibrant", dir=str(tmp_path), mode="offline", settings=settings)
    log_evaluation(found, "wandb", calibrator=calibrator)
    assert run.summary["calibration/before/ece"] == found.arms[0].metrics["ece"].value
    folder = Path(run.dir) / "calibration"
    assert {path.name for path in folder.iterdir()} == FILES
    assert any(Path(run.dir).glob("media/images/calibration/reliability-top-label-after*.png"))
    run.finish()
