"""What the loop does with a recipe's settings, and the weights that it begins with."""

import json
import math
import sys
from unittest.mock import Mock

import pytest
import torch
from torch import nn

import calibrant
import calibrant_lab
from calibrant import losses
from calibrant._math.errors import CalibrantWarning, ConvergenceError, InputError
from calibrant_lab.models import build
from calibrant_lab.sweep.tasks.task import Fingerprints
from calibrant_lab.sweep.tasks.training import Training
from calibrant_lab.training import Listener, Recipe, load_recipe, load_run, seeds, train
from calibrant_lab.training.data import read_data
from calibrant_lab.training.loss import build_loss, warn_of_dying_gradients
from calibrant_lab.training.recipe import ScheduleSection
from calibrant_lab.training.run import RunFolder
from calibrant_lab.training.schedule import learning_rate
from refusals import refused

pytestmark = pytest.mark.usefixtures("short_reports")

QUICK = ["optimiser.name=adam", "optimiser.learning_rate=0.02", "training.epochs=3"]
"""A network this small learns something in 15 steps."""
CAREFUL = ["optimiser.learning_rate=0.003", "data.train=600"]
"""Where large steps would kill rectified units."""


class Following(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.epochs, self.seen = [], []

    def step(self, epoch: int) -> None:
        self.epochs.append(epoch)

    def update(self, confidences, correct) -> None:
        self.seen.append((confidences, correct))

    def forward(self, logits, labels):
        return nn.functional.cross_entropy(logits, labels)


def test_a_run_leaves_everything_behind(recipe, tmp_path) -> None:
    heard = Mock(spec=Listener)
    run = train(recipe, tmp_path / "run", listener=heard, command="calibrant train x")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines == [call.args[0] for call in heard.epoch.call_args_list] == list(run.rows)
    assert [row["epoch"] for row in lines] == [1, 2, 3, 4]
    told = heard.start.call_args.kwargs
    assert (told["epoch"], told["epochs"]) == (0, 4)
    assert "averaged over batches of 48" in told["facts"]["loss"]
    assert "clipped at 2" in told["facts"]["optimiser"]
    assert heard.stop.called
    assert all(call.args[0] for call in heard.stage.call_args_list), "there is always a word to it"
    assert heard.stage.call_args.args[1] == 1
    predictions = calibrant.load_predictions(tmp_path / "run" / "predictions.npz")
    assert predictions.calibration.num_samples == 150
    assert run.evaluation == calibrant.Evaluation.from_json(
        (tmp_path / "run" / "evaluation.json").read_text()
    )
    assert run.evaluation.command == "calibrant train x"
    assert (tmp_path / "run" / "report.html").exists()
    last, calibration = lines[-1], predictions.calibration
    assert last["calibration_accuracy"] > 0.3  # by guessing, 0.1
    assert last["calibration_nll"] == pytest.approx(
        calibrant.metrics.negative_log_likelihood(calibration.probs, calibration.labels).item(), rel=1e-12
    )
    assert last["calibration_ece"] == pytest.approx(
        calibrant.metrics.expected_calibration_error(calibration.probs, calibration.labels).item(), rel=1e-12
    )


def test_losses_that_follow_are_told(recipe, tmp_path, monkeypatch) -> None:
    loss = Following()
    monkeypatch.setattr("calibrant_lab.training.launch.build_loss", lambda _recipe, _data: loss)
    train(recipe.with_settings(["data.policy=60"]), tmp_path / "run", report=False)
    assert loss.epochs == [0, 1, 2, 3]
    assert [len(confidences) for confidences, _ in loss.seen] == [60] * 4
    confidences, correct = loss.seen[-1]
    assert confidences.dtype == torch.float64
    assert confidences.min() >= 0.1
    assert correct.float().mean() > 0.3  # by guessing, 0.1


def test_adafocal_moves_its_exponents(recipe, tmp_path) -> None:
    mine = recipe.with_settings(["loss=adafocal(num_bins=5)", "data.policy=100"])
    rows = train(mine, tmp_path / "run", report=False).rows
    assert len(rows[-1]["gammas"]) == 5
    assert rows[-1]["gammas"] != rows[0]["gammas"]


@pytest.mark.parametrize(
    ("by", "key", "better"),
    [
        ("nll", "nll_after_temperature", min),
        ("nll-as-trained", "nll", min),
        ("loss", "loss", min),
        ("accuracy", "accuracy", max),
    ],
)
def test_patience_stops_and_the_first_best_epoch_is_judged(recipe, tmp_path, by, key, better) -> None:
    """With a rate that spoils the network later: the kept weights have the numbers of their epoch."""
    settings = ["training.epochs=40", "training.patience=3", "training.keep=best", f"training.keep_by={by}"]
    settings += ["schedule.name=constant", "schedule.milestones=[]", "loss=focal(gamma=3)"]
    run = train(recipe.with_settings(settings), tmp_path / "run", report=False)
    values = [row[f"calibration_{key}"] for row in run.rows]
    best = values.index(better(values))
    assert len(values) == best + 1 + 3 < 40
    assert run.kept_row["epoch"] == best + 1
    kept, metrics = run.predictions.calibration, calibrant.metrics
    loss = losses.focal_loss(kept.scores, kept.labels, gamma=3)
    nll, accuracy = (
        of(kept.probs, kept.labels) for of in (metrics.negative_log_likelihood, metrics.accuracy)
    )
    for name, value in {"nll": nll, "accuracy": accuracy, **({"loss": loss} if by == "loss" else {})}.items():
        assert run.rows[best][f"calibration_{name}"] == pytest.approx(float(value), rel=1e-6)
    assert float(nll) != pytest.approx(run.rows[-1]["calibration_nll"], rel=1e-6)


def test_balanced_class_weights_reach_the_loss(recipe) -> None:
    imbalanced = recipe.with_settings(["data.imbalance=10", "data.train=0"])
    mine = imbalanced.with_settings(["training.class_weights=balanced"])
    dataset = read_data(mine.data)
    counts = torch.bincount(dataset.train.labels, minlength=10)
    assert counts[0] > 5 * counts[9]
    weight = build_loss(mine, dataset).weight
    torch.testing.assert_close(weight * counts, torch.full((10,), len(dataset.train) / 10))
    assert build_loss(imbalanced, dataset).weight is None


@pytest.mark.parametrize("name", [name for name in losses.available() if "multilabel" not in name])
def test_every_loss_trains(recipe, tmp_path, name) -> None:
    # With its own weight of 2 the penalty of MMCE rules the first epochs.
    loss = "mmce(penalty=0.1)" if name == "mmce" else name
    rows = train(recipe.with_settings([*QUICK, f"loss={loss}"]), tmp_path / "run", report=False).rows
    assert rows[-1]["calibration_accuracy"] > 0.2  # by guessing, 0.1


@pytest.mark.parametrize(
    "settings",
    [
        ["training.precision=bf16-mixed"],
        ["training.precision=64-true"],
        ["optimiser.name=adamw", "optimiser.learning_rate=0.01", "optimiser.weight_decay=0.1"],
        ["optimiser.name=sgd", "optimiser.nesterov=true", "optimiser.learning_rate=0.1", "reduction=sum"],
        ["model=resnet(blocks=(1,), width=8)", "hardware.channels_last=true", "hardware.resident=false"],
        ["model=cnn(width=8, hidden=32)", "data.augment=['crop(padding=1)', 'flip']", *CAREFUL],
        ["loss=adafocal(num_bins=5)", "data.policy=100"],
        ["curvature.weight=0.01"],
        ["curvature.estimator=gauss-newton", "curvature.weight=0.01", "curvature.num_probes=2"],
        ["curvature.estimator=last-layer", "curvature.weight=0.01", "curvature.every=3"],
        ["sam.rho=0.05"],
    ],
    ids=lambda settings: settings[0],
)
def test_every_way_of_training_learns_and_resumes(recipe, tmp_path, same_numbers, cut, settings) -> None:
    """A kill, and then Ctrl-C, change no bit of what an undisturbed run writes."""
    mine = recipe.with_settings([*QUICK, *settings])
    whole = train(mine, tmp_path / "whole", report=False)
    assert whole.rows[-1]["calibration_accuracy"] > 0.2  # by guessing, 0.1
    cut(mine, 7, killed=True, report=False)
    again = train(mine, cut(mine, 6, report=False).path, report=False)
    same_numbers(whole.folder.path, again.folder.path)
    one, other = ({each.name for each in run.folder.path.iterdir()} for run in (whole, again))
    assert one == other


def test_divergence_is_said(recipe, tmp_path) -> None:
    mine = recipe.with_settings(["optimiser.learning_rate=1e30", "optimiser.clip_norm=0", "reduction=sum"])
    with pytest.raises(ConvergenceError, match=r"diverged in epoch 1: .* lower optimiser.learning_rate"):
        train(mine, tmp_path / "run")


def test_large_exponents_are_warned_of(recipe, tmp_path) -> None:
    """From gamma 7 on gradients die around one half, wherever it is set; warnings are errors here."""
    for loss in ("focal(gamma=6.9)", "sample-focal", "torch.nn:CrossEntropyLoss()", "brier"):
        warn_of_dying_gradients(loss)
    scheduled = "scheduled-focal(gammas=(9, 3), milestones=(2,))"
    for loss in (
        "focal-calibration(gamma=8)",
        scheduled,
        "sample-focal(gammas=(7, 3))",
        "adafocal(initial_gamma=7)",
    ):
        with pytest.warns(CalibrantWarning, match="gradients die"):
            warn_of_dying_gradients(loss)
    with pytest.warns(CalibrantWarning, match="gradients die"):
        train(
            recipe.with_settings(["loss=focal(gamma=7)", "training.epochs=1"]), tmp_path / "run", report=False
        )


def test_top_level_names_are_the_trainers() -> None:
    assert calibrant_lab.train is train
    assert calibrant_lab.load_run is load_run
    assert calibrant_lab.load_recipe is load_recipe
    with pytest.raises(AttributeError, match=r"is now calibrant_lab.train: pip install"):
        _ = calibrant.train  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("loss=focl", "focal"),
        ("loss=multilabel-focal", "each sample of digits has one label; got multilabel-focal"),
        ("loss=math:sqrt(x=1)", "cannot be called with these settings"),
        ("loss=fractions:Fraction(numerator=1)", "must give a torch.nn.Module"),
        ("model=mpl", "mlp"),
        ("data.name=nonsense", "no data set 'nonsense'"),
        ("data.normalise=given", "one number for each"),
        ("data.augment=['flop']", "no augmentation 'flop'"),
        ("hardware.accelerator=mps", "this machine cannot do"),
        ("initial.weights=nothing.pt", "initial.weights must name a file of weights.*no nothing.pt"),
        ("curvature={weight=0.1, parameters=['heads']}", "`parameters` must name parameters of the model"),
    ],
)
def test_what_cannot_be_done_leaves_nothing_behind(recipe, tmp_path, setting, words) -> None:
    """Mistakes that only the data or the machine show are found before anything is written."""
    refused(words, train, recipe.with_settings([setting]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_the_extra_and_the_reader_of_recipes_are_named(recipe, tmp_path, monkeypatch) -> None:
    with pytest.raises(TypeError, match="got str: read a file with"):
        train("recipe.toml", tmp_path / "run")
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    refused(r"pip install 'calibrant\[train\]'", train, recipe, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_folders_without_a_run_or_of_another_process_are_refused(recipe, tmp_path) -> None:
    refused("holds no run", load_run, tmp_path)
    with RunFolder(tmp_path).locked(), pytest.raises(InputError, match="another process is training there"):
        train(recipe, tmp_path)


def test_a_collapsed_training_is_called_one(recipe, tmp_path) -> None:
    steep = ["optimiser.learning_rate=100.0", "optimiser.clip_norm=0.0", "data.augment=[]"]
    run = train(recipe.with_settings([*steep, "training.epochs=2"]), tmp_path / "run")
    assert run.evaluation.notes[0].startswith("The training diverged or collapsed: the network is no better")
    assert run.evaluation.verdict.recommended == "uncalibrated"


def test_a_lazy_training_is_the_same(images, lazy, tmp_path) -> None:
    one, other = train(images, tmp_path / "one", report=False), train(lazy, tmp_path / "other", report=False)
    assert torch.equal(one.predictions.scores, other.predictions.scores)
    assert one.data_sha256 != other.data_sha256


def test_a_training_begins_with_the_weights_of_a_file(recipe, short_reports, tmp_path) -> None:
    """At a learning rate of next to nothing they are also what it ends with, but for the layer left out."""
    model = build("mlp(widths=(16,), dropout=0.2)", input_shape=(1, 8, 8), num_classes=3)
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    still = ["optimiser.learning_rate=1e-12", "optimiser.momentum=0", "schedule.milestones=[1]"]
    given = [f"initial.weights={tmp_path / 'weights.pt'}", "initial.skip=['layers.4']"]
    begun = recipe.with_settings(["training.epochs=1", *still, *given])
    run = train(begun, tmp_path / "run")
    trained = run.model().state_dict()
    for name in ("layers.1.weight", "layers.1.bias"):
        torch.testing.assert_close(trained[name], model.state_dict()[name])
    with torch.random.fork_rng():
        torch.manual_seed(seeds.derived(recipe.seed, seeds.WEIGHTS))
        drawn = build(recipe.model, input_shape=(1, 8, 8), num_classes=10).state_dict()
    torch.testing.assert_close(trained["layers.4.weight"], drawn["layers.4.weight"])
    (tmp_path / "weights.pt").unlink()
    assert train(begun, tmp_path / "run").evaluation is not None  # what it began with is no longer needed


def test_the_file_s_content_decides_which_run_it_is(tmp_path) -> None:
    content = {"data": {"name": "digits"}, "initial": {"weights": str(tmp_path / "weights.pt")}}
    settings = Recipe.read(content).settings()
    found: list[str] = []
    for value in (b"one", b"two"):
        (tmp_path / "weights.pt").write_bytes(value)
        found.append(Training().inputs(settings, Fingerprints())["initial weights"])
    assert len(set(found)) == 2


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [1, 1, 1, 1]),
        ({"name": "steps", "milestones": (1, 3), "factor": 0.5}, [1, 0.5, 0.5, 0.25]),
        ({"name": "cosine"}, [1, (1 + math.sqrt(0.5)) / 2, 0.5, (1 - math.sqrt(0.5)) / 2]),
        ({"name": "cosine", "floor": 0.5, "warmup": 2}, [1 / 3, 2 / 3, 1, 0.75]),
    ],
)
def test_learning_rates_follow_the_schedule(settings, expected) -> None:
    schedule = ScheduleSection(**settings)
    rates = [learning_rate(schedule, base=1.0, epoch=epoch, epochs=4) for epoch in range(4)]
    assert rates == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("patience", [0, 2])
def test_the_rate_on_a_plateau_is_torchs(patience) -> None:
    """After every epoch of a loss that falls, stands, wavers and falls by too little."""
    losses = [3.0, 2.0, 2.0, 2.0, 2.5, 1.9, 1.8999, 1.89985, 1.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau
    theirs = plateau(optimiser, factor=0.1, patience=patience, eps=0)  # eps stops it below 1e-8
    settings = ScheduleSection(name="plateau", patience=patience, factor=0.1)
    for epoch in range(len(losses) + 1):
        mine = learning_rate(settings, base=0.5, epoch=epoch, epochs=20, losses=losses[:epoch])
        assert mine == pytest.approx(optimiser.param_groups[0]["lr"], rel=1e-12, abs=0)
        if epoch < len(losses):
            theirs.step(losses[epoch])
    assert mine < 0.5 * 0.1**2 * 1.01


def test_the_rate_falls_in_a_training_that_learns_nothing(recipe, tmp_path) -> None:
    """It sees the calibration NLL of the epochs before; a resumed training sees the same."""
    settings = ["schedule.name=plateau", "schedule.milestones=[]", "schedule.patience=0"]
    slow = recipe.with_settings([*settings, "optimiser.learning_rate=1e-9", "training.epochs=4"])
    run = train(slow, tmp_path / "run", report=False)
    assert [row["learning_rate"] for row in run.rows] == pytest.approx([1e-9, 1e-9, 1e-10, 1e-11])
