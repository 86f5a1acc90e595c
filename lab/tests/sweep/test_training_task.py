"""Training as a task: the same numbers as ``calibrant train``, whatever interrupts it."""

import json
from pathlib import Path

import numpy as np
import pytest
from torch.nn import CrossEntropyLoss

from calibrant import metrics
from calibrant._math.errors import InputError
from calibrant.evaluation import evaluate
from calibrant.predictions import Predictions, load_predictions
from calibrant_lab.data.xray_sets import FINDINGS
from calibrant_lab.reports.curvature import numbers_of
from calibrant_lab.sweep.engines import Serial
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.store import Store
from calibrant_lab.sweep.sweep import sweep
from calibrant_lab.sweep.tasks.task import Item
from calibrant_lab.sweep.tasks.training import Training, recipe_of
from calibrant_lab.tables.layout import layout_named
from calibrant_lab.tables.pictures import draw_figure
from calibrant_lab.training import train
from calibrant_lab.training.curvature import Effort, Subject, measure_curvature
from calibrant_lab.training.data import data_of

SCHEMA = Path(__file__).parents[3] / "docs" / "reference" / "run-result.schema.json"
RECIPE = {
    "model": "mlp(widths=(8,))",
    "data": {"train": 100, "calibration": 80, "test": 120},
    "optimiser": {"name": "adam", "learning_rate": 1e-2},
    "training": {"epochs": 3, "batch_size": 32},
    "hardware": {"accelerator": "cpu", "threads": 1},
    "evaluation": {"calibrators": ["temperature"], "bootstrap": 10, "curvature": 20},
}


def item(**changes: object) -> Item:
    return Grid.read({"recipe": RECIPE, "axes": {"seed": [0], **changes}}).items()[0]


@pytest.fixture(scope="module")
def done(tmp_path_factory) -> Store:
    """A store with that run; not to be written to."""
    store = Store(tmp_path_factory.mktemp("store"))
    assert sweep([item()], store, Serial()).statuses == {"finished": 1}
    return store


def test_the_run_is_that_of_calibrant_train(done, tmp_path) -> None:
    (found,) = done.results()
    train(recipe_of(found.settings), tmp_path / "run", report=False)
    assert found.file("predictions.npz").read_bytes() == (tmp_path / "run" / "predictions.npz").read_bytes()
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == found.rows
    predictions = load_predictions(found.file("predictions.npz"))
    judged = evaluate(predictions, calibrators=["temperature"], bootstrap=2, null_draws=1)
    for arm in ("uncalibrated", "temperature"):
        for key, estimate in judged.arm(arm).metrics.items():
            assert found.value(key, arm) == pytest.approx(estimate.value, abs=1e-12), (arm, key)
        assert found.value("error", arm) == 1 - found.value("accuracy", arm)
    assert found.parameters["temperature"] == judged.arm("temperature").parameters


def test_the_run_can_be_drawn(done, tmp_path) -> None:
    """Its course, curvature and answers; the curvature is that of the network which was trained."""
    results = [*done.results()]
    with pytest.raises(InputError, match="a correlation needs 3 values of loss; the runs have 1"):
        draw_figure(["curvature"], results)
    assert "on calibration samples" in draw_figure(["dynamics"], results).said[0]
    axes = draw_figure(["images"], results).figure.axes
    answers = {text.get_text() for ax in axes for text in ax.texts}
    probs = load_predictions(results[0].file("predictions.npz")).test.probs
    stated = {f"{top:.1%} →" for top in probs.max(dim=1).values.tolist()}
    assert all(any(each in text for each in stated) for text in answers if "→" in text)
    run = train(recipe_of(results[0].settings), tmp_path / "run", report=False)
    own = {"recipe": run.recipe, "model": run.model(), "dataset": data_of(run)}
    effort = Effort(num_samples=20, density_probes=0)
    again = measure_curvature(Subject(title="", loss=CrossEntropyLoss(), **own), effort=effort)
    assert results[0].more["curvature"] == dict.fromkeys(("own", "cross_entropy"), numbers_of(again[0]))


def test_every_label_is_measured_by_itself(rng) -> None:
    odds = rng.normal(size=(300, 2))
    came = (rng.random(odds.shape) < 1 / (1 + np.exp(-odds / 2))).astype(int)
    came[150:, 1] = 0  # in the test split nobody has the second one
    names = ["Mass", "Hernia"]
    given = Predictions(
        logits=odds, labels=came, split=np.arange(300) // 150, class_names=names, kind="multilabel"
    )
    found = Training().measured(given, recipe_of(item().settings), ["platt"]).more["labels"]
    assert list(found) == ["uncalibrated", "platt"]
    column = given.test.probs[:, 0], came[150:, 0]
    assert found["uncalibrated"]["Mass"] == pytest.approx(
        {
            "auroc": metrics.auroc(*column).item(),
            "ece": metrics.expected_calibration_error(*column).item(),
            "mce": metrics.maximum_calibration_error(*column).item(),
            "brier": metrics.brier_score(*column).item(),
        }
    )
    assert found["platt"]["Mass"]["ece"] < found["uncalibrated"]["Mass"]["ece"]
    assert found["uncalibrated"]["Hernia"]["auroc"] is None
    wanted = {cell.name for cell in layout_named("fcl-9").cells if cell.source == "more"}
    assert wanted == {f"labels.uncalibrated.{finding}.auroc" for finding in FINDINGS}


def test_the_result_is_as_documented(done) -> None:
    """The schema has the keys of the file, no more and no fewer, and their types."""
    (found,) = done.results()
    content = json.loads(found.file("result.json").read_text(encoding="utf-8"))
    properties = json.loads(SCHEMA.read_text(encoding="utf-8"))["properties"]
    assert list(content) == list(properties)
    assert properties["format"]["const"] == content["format"]
    kinds = {"string": str, "integer": int, "number": (int, float), "object": dict, "array": list}
    for name, declared in properties.items():
        if isinstance(declared.get("type"), str):
            assert isinstance(content[name], kinds[declared["type"]]), name
    assert content["status"] in properties["status"]["enum"]


def test_the_folder_holds_what_its_readme_names(done) -> None:
    (found,) = done.results()
    folder = found.file("README.txt").parent
    names = {path.name for path in folder.iterdir()}
    known = {"README.txt", "recipe.toml", "environment.json", "predictions.npz", "result.json"}
    assert names == known | {"curvature.json"}
    text = (folder / "README.txt").read_text(encoding="utf-8")
    assert all(name in text for name in names - {"README.txt"})


def test_further_calibrators_are_measured_without_training(tmp_path, monkeypatch) -> None:
    """The stored predictions are enough; what was measured before stays; without them it is trained again."""
    store = Store(tmp_path)
    asked = [["temperature"], ["vector", 'temperature(objective="ece", search="grid")']]
    before, after = (item(**{"evaluation.calibrators": [names]}) for names in asked)
    sweep([before], store, Serial())
    with monkeypatch.context() as patch:
        patch.delattr("calibrant_lab.sweep.tasks.training.train")
        assert sweep([after], store, Serial()).done_here == 1
        assert sweep([before, after][:1], store, Serial()).done_here == 0
    (found,) = store.results()
    assert set(found.metrics) == {"uncalibrated", "temperature", *asked[1]}
    monkeypatch.setattr(Training, "measures", 2)
    store.remove_file(found.run, "predictions.npz")
    assert sweep([after], store, Serial()).done_here == 1
    (found,) = store.results()
    assert (found.measures, found.file("predictions.npz").is_file()) == (2, True)


def test_a_training_that_diverges_is_a_result(tmp_path) -> None:
    store = Store(tmp_path)
    report = sweep([item(**{"optimiser.name": ["sgd"], "optimiser.learning_rate": [1e30]})], store, Serial())
    assert (report.statuses, report.failed) == ({"diverged": 1}, 0)
    assert "lower optimiser.learning_rate" in str(store.result(store.done().pop()).reason)


def test_a_gpu_that_is_not_there_is_refused_before_anything_is_kept(tmp_path, monkeypatch) -> None:
    """A store would know the run as failed, also for a recipe that a CPU can do."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    store = Store(tmp_path)
    with pytest.raises(InputError, match=r"no GPU for hardware\.accelerator = 'cuda'; auto takes one"):
        sweep([item(**{"hardware.accelerator": ["cuda"]})], store, Serial())
    assert not [*store.results(status=None)]
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert not Training().lacking(item(**{"hardware.accelerator": ["cuda"]}).settings)


def test_a_network_is_asked_where_it_was_trained(monkeypatch) -> None:
    task = Training()
    settings = [task.complete({"hardware.accelerator": each}) for each in ("cpu", "auto")]
    for there, device in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr("torch.cuda.is_available", lambda there=there: there)
        assert [task.device(each) for each in settings] == ["cpu", device]
