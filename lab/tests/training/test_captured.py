"""Captured steps, on a CPU by a twin that calls the step where a GPU replays its graph; compiled networks."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from calibrant_lab import models
from calibrant_lab.training import Recipe, train
from calibrant_lab.training import learner as learner_module
from calibrant_lab.training.data import Job, read_training_data
from calibrant_lab.training.learner import CapturedStep, Learner, check_compiled, is_capturable, undone
from calibrant_lab.training.listener import Listener
from calibrant_lab.training.loss import build_loss
from calibrant_lab.training.processes import Processes
from calibrant_lab.training.run import RunFolder
from calibrant_lab.training.samples import Samples
from refusals import refused

SCHEDULED = "scheduled-focal(gammas=(5, 3, 1), milestones=(1, 3))"
LOSSES = (
    "cross-entropy",
    "focal(gamma=3)",
    "sample-focal",
    "brier",
    "mmce(penalty=2)",
    "focal-calibration(gamma=4, calibration_weight=1.5)",
    SCHEDULED,
    "label-smoothing(smoothing=0.05)",
    "dual-focal(gamma=5)",
    "adafocal",
)


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps are captured on the CPU, and repeated by calling them; gives the size of each captured batch."""
    sizes: list[int] = []

    def warm_up(step: Callable[..., Tensor], given: Sequence[Tensor]) -> None:
        for _ in range(3):
            step(*given)

    def capture(step: Any, given: Sequence[Tensor]) -> tuple[Callable[[], object], Tensor]:
        sizes.append(len(given[0]))
        with undone(step.__self__._changed, given[0].device):
            result = step(*given)
        return lambda: result.copy_(step(*given)), result

    monkeypatch.setattr(learner_module, "is_capturable", lambda *_args, **_settings: True)
    monkeypatch.setattr(learner_module, "warm_up", warm_up)
    monkeypatch.setattr(learner_module, "capture", capture)
    return sizes


@pytest.mark.parametrize("loss", ["cross-entropy", SCHEDULED, "adafocal"])
def test_a_captured_training_has_the_bits_of_a_plain_one(
    recipe, tmp_path, same_numbers, monkeypatch, twin, loss
) -> None:
    """Warm-ups leave no trace; a new rate or exponent is captured anew; AdaFocal's exponents are tensors."""
    mine = recipe.with_settings(["data.augment=[]", f'loss="{loss}"'])
    train(mine, tmp_path / "captured", report=False)
    assert twin == [48, 8] * (4 if loss == SCHEDULED else 2)
    monkeypatch.undo()
    train(mine, tmp_path / "plain", report=False)
    same_numbers(tmp_path / "plain", tmp_path / "captured")


@pytest.mark.usefixtures("twin")
def test_a_captured_training_resumes_and_draws_as_a_plain_one(
    recipe, tmp_path, same_numbers, cut, monkeypatch
) -> None:
    """Augmentations are drawn for a whole epoch at once; the check before a sweep compares both ways."""
    whole = train(recipe, tmp_path / "whole", report=False).folder.path
    folder = cut(recipe, 8, killed=True, report=False).path
    same_numbers(whole, train(recipe, folder, report=False).folder.path)
    monkeypatch.setattr(CapturedStep, "capturing", False)
    same_numbers(whole, train(recipe, tmp_path / "plain", report=False).folder.path)


class ReadsNothing(TorchDispatchMode):
    """Refuses operations that no graph can hold: they read values, or copy a number from the CPU."""

    REFUSED = ("_local_scalar_dense", "nonzero", "masked_select", "lift_fresh", "unique", "equal.default")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = str(func)
        masks = name == "aten.index.Tensor" and any(
            each is not None and each.dtype == torch.bool for each in args[1]
        )
        assert not masks, f"{name} by a mask"
        assert not any(each in name for each in self.REFUSED), name
        return func(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def small_images(tmp_path_factory: pytest.TempPathFactory) -> Recipe:
    """A recipe as the sweep on CIFAR-10 has it, for random images."""
    rng, path = np.random.default_rng(0), tmp_path_factory.mktemp("data") / "images.npz"
    images, labels = rng.integers(0, 256, (60, 16, 16, 3), dtype=np.uint8), np.arange(60) % 4
    np.savez(path, x_train=images, y_train=labels)
    return Recipe.read(
        {
            "model": "fast-resnet(widths=(4, 6))",
            "reduction": "sum",
            "data": {"name": str(path), "calibration": 12, "test": 12, "normalise": "given",
                     "mean": [0.5] * 3, "std": [0.2] * 3, "augment": ["crop(padding=4)", "flip"]},
            "optimiser": {"momentum": 0.9, "weight_decay": 5e-4, "clip_norm": 2.0, "learning_rate": 0.01},
            "training": {"epochs": 3, "batch_size": 16, "precision": "bf16-mixed"},
            "schedule": {"name": "steps", "milestones": [2]},
            "hardware": {"channels_last": True},
            "evaluation": {"calibrators": ["temperature"]},
        }
    )  # fmt: skip


def job_of(recipe: Recipe, folder: Path) -> Job:
    """What a training of the recipe has to do, with a network that holds no numbers."""
    data = read_training_data(recipe)
    with torch.device("meta"):
        model = models.build(recipe.model, input_shape=data.dataset.input_shape, num_classes=4)
    rest = {"folder": RunFolder(folder), "listener": Listener(), "command": None, "report": False}
    return Job(**vars(data), recipe=recipe, model=model, loss=build_loss(recipe, data.dataset), **rest)


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        *(("fast-resnet(widths=(4, 6))", loss) for loss in LOSSES),
        ("cifar-resnet(depth=18, width=4)", "brier"),
    ],
)
def test_a_step_reads_no_number(small_images, tmp_path, model, loss) -> None:
    """Two float32 steps on a device without numbers: what a graph cannot hold fails there or is refused."""
    mine = small_images.with_settings([f'loss="{loss}"', f'model="{model}"'])
    from lightning_fabric import Fabric  # not where tests are collected: it takes seconds to load

    fabric = Fabric(accelerator="cpu", devices=1, precision="32-true")
    fabric.setup = partial(fabric.setup, move_to_device=False)  # it stays on the device that holds no numbers
    processes = Processes(fabric)
    processes.device = torch.device("meta")
    job = job_of(mine, tmp_path)
    learner = Learner(fabric, job, processes=processes, samples=Samples(job, processes.device))
    rows = torch.zeros(16, dtype=torch.int64, device="meta")
    drawn = [torch.zeros(16, width, dtype=torch.int64, device="meta") for width in (2, 1)]
    for _ in range(2):
        with ReadsNothing():
            sums = learner._step(rows, *drawn)
    assert (sums.device.type, sums.shape, sums.dtype) == ("meta", (5,), torch.float64)


def test_what_needs_numbers_on_the_way_is_not_captured(small_images, tmp_path) -> None:
    """Only plain trainings on one GPU are; all else goes step by step, as before."""
    job, gpu = job_of(small_images, tmp_path), torch.device("cuda")
    assert is_capturable(job, gpu, processes=1)
    assert not is_capturable(job, gpu, processes=2)
    assert not is_capturable(job, torch.device("cpu"), processes=1)
    for setting in (
        "optimiser.name=adam",
        "optimiser.plain=['head']",
        "training.precision=16-mixed",
        "curvature.weight=0.1",
        "sam.rho=0.1",
        "hardware.compile=true",
        "hardware.resident=false",
        "loss=torch.nn:CrossEntropyLoss",
        "data.crop=8",
    ):
        precision = "training.precision=32-true"
        other = replace(job, recipe=small_images.with_settings([precision, setting]))
        assert not is_capturable(other, gpu, processes=1), setting


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize("loss", LOSSES)
def test_on_a_gpu_captured_steps_learn_as_plain_ones_do(small_images, tmp_path, monkeypatch, loss) -> None:
    """The same draws, with and without graphs: losses and lengths of gradients agree but for rounding."""
    mine = small_images.with_settings([f'loss="{loss}"', "hardware.accelerator=cuda"])
    replayed = train(mine, tmp_path / "captured", report=False).rows
    monkeypatch.setattr(CapturedStep, "capturing", False)
    plain = train(mine, tmp_path / "plain", report=False).rows
    for one, other in zip(replayed, plain, strict=True):
        for name in ("train_loss", "gradient_norm", "last_layer_norm"):
            assert one[name] == pytest.approx(other[name], rel=0.02), name


@pytest.fixture
def network() -> nn.Sequential:
    """With buffers that change in training, and dropout."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))


@pytest.mark.parametrize(
    ("slip", "words"), [(0.02, None), (1.0, "0.weight is off by 100 % for a batch of 8;")]
)
def test_wrong_gradients_are_refused(network, slip, words) -> None:
    """Rounding passes, a gradient that is missing does not; buffers and random numbers stay as they were."""
    inputs, begun = torch.randn(8, 3), [each.clone() for each in network.buffers()]
    state = torch.get_rng_state()

    def loss(share: float) -> torch.Tensor:
        hidden = network[0](inputs)
        hidden = share * hidden.detach() + (1 - share) * hidden
        return network[1:](hidden).square().sum()

    if words is None:
        check_compiled(network, lambda: loss(0.0), lambda: loss(slip), batch_size=8)
    else:
        refused(words, check_compiled, network, lambda: loss(0.0), lambda: loss(slip), batch_size=8)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(one, other) for one, other in zip(network.buffers(), begun, strict=True))


@pytest.mark.usefixtures("short_reports")
def test_a_training_checks_each_size_of_batch_once(recipe, tmp_path, monkeypatch) -> None:
    """Two hundred samples in batches of 48 leave one of eight; the numbers are those without compiling."""
    sizes: list[int] = []
    check = Learner._check_compiled

    def counted(self, inputs, labels) -> None:
        sizes.append(len(inputs))
        check(self, inputs, labels)

    monkeypatch.setattr(Learner, "_check_compiled", counted)
    monkeypatch.setattr(torch, "compile", lambda model, **_options: model)
    one = train(recipe.with_settings(["hardware.compile=true"]), tmp_path / "one", report=False)
    assert sizes == [48, 8]
    other = train(recipe, tmp_path / "other", report=False)
    assert torch.equal(one.predictions.scores, other.predictions.scores)


def test_a_run_prints_no_advice_of_libraries(small_images, tmp_path, monkeypatch) -> None:
    """A sweep's progress would drown in it."""
    logger, records = logging.getLogger("lightning_fabric"), list[logging.LogRecord]()
    logger.setLevel(logging.INFO)
    monkeypatch.setattr(logger, "callHandlers", records.append)
    monkeypatch.setattr(
        logging.getLogger("lightning_fabric.utilities.rank_zero"), "callHandlers", records.append
    )
    train(small_images.with_settings(["training.precision=bf16-mixed"]), tmp_path / "run", report=False)
    assert [record.getMessage() for record in records] == []
