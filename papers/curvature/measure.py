"""Does focal loss calibrate by lowering curvature? Small networks, measured along training, seed by seed.

The claim is that of Kimura and Naganuma (2025), whose setting is not known to us; ours is chosen here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import nn

from calibrant._math.threads import threads_for
from calibrant.curvature import SAM, CurvatureRegularizer
from calibrant_lab.data import Part, RawData, load, split
from calibrant_lab.data.prepare import Preparation, to_unit
from calibrant_lab.sweep.tasks.simulation import Simulation, completed
from calibrant_lab.sweep.tasks.task import Settings
from calibrant_lab.training import seeds as training_seeds
from papers.curvature.hessians import (
    Batch,
    Measured,
    RowLoss,
    along_the_way,
    at_the_end,
    focal,
)
from papers.curvature.network import SmallNetwork
from papers.curvature.settings import (
    ARMS,
    SETTINGS,
    Arm,
    Setting,
    arm_named,
    setting_named,
)


class Curvature(Simulation):
    """One arm of one setting, trained and measured; numbers of the setting may be changed."""

    name: ClassVar[str] = "curvature"
    version: ClassVar[int] = 1
    costly: ClassVar[tuple[str, ...]] = ("setting", "arm", "epochs", "measured")

    def complete(self, settings: Settings) -> Settings:
        """The setting's own numbers, and that there are such a setting and arm."""
        setting = setting_named(str(settings.get("setting", SETTINGS[0].key)))
        arm = arm_named(str(settings.get("arm", ARMS[0].key)))
        return completed(settings, {"seed": 0, "setting": setting.key, "arm": arm.key, **setting.numbers})

    def deciding(self, settings: Settings) -> Settings:
        """The arm's numbers too."""
        return {**settings, **vars(arm_named(settings["arm"]))}

    def simulate(self, settings: Settings) -> Mapping[str, Any]:
        """Train and measure."""
        with threads_for(0):
            return simulate(Setting.of(settings), arm_named(settings["arm"]), settings["seed"])


def simulate(setting: Setting, arm: Arm, seed: int) -> dict[str, Any]:
    """One training, measured at the checkpoints and at the end."""
    samples, training, num_classes = _samples(setting, seed)
    chosen = arm.changes(setting)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training_seeds.derived(seed, training_seeds.WEIGHTS))
        model = SmallNetwork(
            setting.kind, tuple(training[0].shape[1:]), num_classes, batch_norm=setting.batch_norm
        )
    path: list[dict[str, Any]] = []

    def look(epoch: int) -> None:
        if epoch in setting.checkpoints:
            path.append({"epoch": epoch, **along_the_way(model, arm.gamma, samples)})

    finite = _train(model, chosen, arm, training, seed=seed, look=look)
    return {
        "parameters": sum(each.numel() for each in model.parameters()),
        "finite": finite,
        "path": path,
        "end": at_the_end(model, arm.gamma, samples) if finite else None,
    }


def _train(
    model: nn.Module, setting: Setting, arm: Arm, training: Batch, *, seed: int, look: Callable[[int], None]
) -> bool:
    """Stochastic gradient descent; the rate falls to a tenth at half and at three quarters of the epochs.

    False if the loss stopped being finite.
    """
    optimiser = torch.optim.SGD(
        model.parameters(),
        lr=setting.learning_rate,
        momentum=setting.momentum,
        weight_decay=setting.weight_decay,
    )
    step = _stepper(model, optimiser, arm, seed)
    look(0)
    for epoch in range(1, setting.epochs + 1):
        rate = setting.rate(epoch)
        for group in optimiser.param_groups:
            group["lr"] = rate
        order = torch.randperm(
            len(training[1]), generator=training_seeds.generator(seed, training_seeds.ORDER, epoch)
        )
        total = 0.0
        for rows in order.split(setting.batch_size):
            total += step((training[0][rows], training[1][rows]))
        if not math.isfinite(total):
            return False
        look(epoch)
    return True


def _stepper(
    model: nn.Module, optimiser: torch.optim.Optimizer, arm: Arm, seed: int
) -> Callable[[Batch], float]:
    """One step of the arm's training on a batch; it returns the loss before it, without a penalty."""
    loss: RowLoss = focal(arm.gamma)
    sharp = SAM(model, optimiser, rho=arm.radius) if arm.radius else None
    penalty = CurvatureRegularizer(model, loss, weight=arm.beta, seed=seed) if arm.beta else None

    def step(batch: Batch) -> float:
        inputs, labels = batch
        if sharp is not None:
            return float(sharp.step(lambda: loss(model(inputs), labels)))
        optimiser.zero_grad()
        logits = model(inputs)
        if penalty is not None:
            found = penalty.penalised(logits, labels)
            value, total = found.loss, found.total
        else:
            value = total = loss(logits, labels)
        total.backward()
        optimiser.step()
        return float(value.detach())

    return step


@lru_cache(maxsize=2)
def _raw(name: str) -> RawData:
    return load(name)


def _samples(setting: Setting, seed: int) -> tuple[Measured, Batch, int]:
    """What to measure on, what to train on, and the number of classes."""
    data = split(
        _raw(setting.data),
        calibration=setting.calibration,
        test=setting.test,
        train=setting.train,
        downsample=setting.downsample,
        seed=seed,
    )
    prepare = Preparation.fitted(data.train.inputs)

    def batch(part: Part) -> Batch:
        return prepare(to_unit(part.inputs[:])), part.labels

    training, test = batch(data.train), batch(data.test)
    first = slice(setting.measured)
    samples = Measured(
        train=(training[0][first], training[1][first]),
        test=(test[0][first], test[1][first]),
        calibration=batch(data.calibration),
        all_test=test,
    )
    return samples, training, data.num_classes
