"""Runs sent to trackers, by the trackers' own libraries; skipped where these are not installed."""

import sys
from typing import Any

import pytest

from calibrant._math.errors import InputError
from calibrant_lab.sweep.sinks import SINKS, curves, export, finals
from calibrant_lab.sweep.tasks.task import RunResult
from results_by_hand import make_result

METRICS = {"uncalibrated": {"ece": 0.25, "auroc": None}, 'temperature(objective="ece")': {"ece": 0.125}}


def some() -> list[RunResult]:
    """A finished run of two epochs, and one that diverged."""
    rows = [{"epoch": 1, "train_loss": 2.0}, {"epoch": 2, "train_loss": 1.0, "dynamics": {"norm": 3.0}}]
    first = make_result(
        {"loss": "brier", "seed": 0},
        METRICS,
        parameters={"temperature": {"temperature": 1.5}},
        _rows=lambda: rows,
    )
    return [first, make_result({"loss": "mdca", "seed": 1}, status="diverged")]


def test_what_trackers_are_told() -> None:
    """Curves by epoch, finals by stage; no number that is not finite, no odd characters in names."""
    result = some()[0]
    assert [(step, {*values}) for step, values in curves(result)] == [
        (1, {"epoch", "train_loss"}),
        (2, {"epoch", "train_loss", "dynamics/norm"}),
    ]
    found = finals(result)
    assert found["test/uncalibrated/ece"] == 0.25
    assert found["test/temperature-objective-ece/ece"] == 0.125
    assert found["fitted/temperature/temperature"] == 1.5
    assert not any("auroc" in name for name in found)


def test_tensorboard(tmp_path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert export(f"tensorboard:{tmp_path}", some()) == 2
    assert export(f"tensorboard:{tmp_path}", some()) == 0
    events: Any = EventAccumulator(str(tmp_path / some()[0].run))
    events.Reload()
    assert [(each.step, each.value) for each in events.Scalars("train_loss")] == [(1, 2.0), (2, 1.0)]
    assert [each.value for each in events.Scalars("test/uncalibrated/ece")] == [0.25]


@pytest.mark.filterwarnings("ignore")  # MLflow uses what SQLAlchemy means to remove
def test_mlflow(tmp_path) -> None:
    tracking = pytest.importorskip("mlflow.tracking")
    pytest.importorskip("sqlalchemy")
    address = f"sqlite:///{tmp_path}/runs.db"
    assert export(f"mlflow:{address}", some()) == 2
    assert export(f"mlflow:{address}", some()) == 0
    client: Any = tracking.MlflowClient(tracking_uri=address)
    experiment = client.get_experiment_by_name("calibrant").experiment_id
    runs = {each.data.params["loss"]: each for each in client.search_runs([experiment])}
    assert (runs["brier"].info.status, runs["mdca"].info.status) == ("FINISHED", "FAILED")
    history = client.get_metric_history(runs["brier"].info.run_id, "train_loss")
    assert [(each.step, each.value) for each in history] == [(1, 2.0), (2, 1.0)]
    assert runs["brier"].data.metrics["test/uncalibrated/ece"] == 0.25


def test_wandb(tmp_path) -> None:
    """An offline run lies in the folder, with its id; a second export writes nothing."""
    pytest.importorskip("wandb")
    assert export(f"wandb:{tmp_path}", some()[:1]) == 1
    assert export(f"wandb:{tmp_path}", some()[:1]) == 0
    (folder,) = tmp_path.glob(f"wandb/offline-run-*-{some()[0].run}")
    assert next(folder.glob("*.wandb")).stat().st_size > 0


@pytest.mark.parametrize("name", SINKS)
def test_a_library_that_is_not_there_is_told(name, monkeypatch) -> None:
    for module in ("torch.utils.tensorboard.writer", "mlflow.entities", "wandb"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"{name} is not installed; pip install 'calibrant\[{name}\]'"):
        export(f"{name}:somewhere", [])
