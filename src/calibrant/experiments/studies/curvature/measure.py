"""Does focal loss calibrate by lowering curvature? Small networks, measured along training, seed by seed.

The claim is that of Kimura and Naganuma (2025), whose setting is not known to us; ours is chosen here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from calibrant._math.threads import threads_for
from calibrant.curvature import SAM, CurvatureRegularizer
from calibrant.data import Part, RawData, load, split
from calibrant.data.prepare import Preparation, to_unit
from calibrant.experiments.records import Record, Records
from calibrant.experiments.studies.curvature.hessians import (
    Batch,
    Measured,
    RowLoss,
    along_the_way,
    at_the_end,
    focal,
)
from calibrant.experiments.studies.curvature.network import SmallNetwork
from calibrant.experiments.studies.curvature.settings import ARMS, FAMILIES, SETTINGS, Arm, Setting
from calibrant.training import seeds as training_seeds

RECORDS = "curvature-runs.jsonl"


def run_curvature_study(
    store: Path,
    *,
    seeds: Sequence[int],
    settings: Sequence[Setting] = SETTINGS,
    arms: Sequence[Arm] = ARMS,
    tell: Callable[[str], None] = print,
) -> list[Record]:
    """Train and measure each arm of each setting with each seed, unless the store has it.

    Family by family and seed by seed, so that a study cut short is of use.

    Args:
        store: The folder of ``curvature-runs.jsonl``, to which each finished run adds a line.
        seeds: Seeds of the samples, the weights and their order; all arms see the same ones.
        settings: Which settings.
        arms: Which arms.
        tell: Told of each run.

    Returns:
        One record for each run, old ones included.

    Raises:
        InputError: If a line of the file is no record, or the data are missing.
    """
    records = Records(store / RECORDS)
    found: list[Record] = []
    wanted = list(_order(settings, arms, seeds))
    with threads_for(0):
        for number, trial in enumerate(wanted, 1):
            setting, arm, seed = trial
            found.append(records.get(_key(*trial), lambda trial=trial: _run(*trial)))
            tell(f"curvature: {number}/{len(wanted)} {setting.key}, {arm.key}, seed {seed}")
    return found


def finished_runs(
    store: Path, *, seeds: Sequence[int], settings: Sequence[Setting] = SETTINGS, arms: Sequence[Arm] = ARMS
) -> list[Record]:
    """The records that the store has of these runs, made by the settings as they are now."""
    known = {record["key"]: record for record in Records(store / RECORDS).all()}
    wanted = (_key(*trial) for trial in _order(settings, arms, seeds))
    return [known[key] for key in wanted if key in known]


def _key(setting: Setting, arm: Arm, seed: int) -> str:
    chosen = replace(arm.changes(setting), title="", families=())  # which say nothing of the run
    return f"{arm.key}, seed {seed}, {chosen}"


def _order(
    settings: Sequence[Setting], arms: Sequence[Arm], seeds: Sequence[int]
) -> Iterator[tuple[Setting, Arm, int]]:
    for family in FAMILIES:
        for seed in seeds:
            for setting in settings:
                for arm in arms:
                    if arm.family == family and family in setting.families:
                        yield setting, arm, seed


def _run(setting: Setting, arm: Arm, seed: int) -> dict[str, Any]:
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
        "setting": setting.key,
        "arm": arm.key,
        "family": arm.family,
        "gamma": arm.gamma,
        "beta": arm.beta,
        "radius": arm.radius,
        "seed": seed,
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
