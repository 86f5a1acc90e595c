"""What the training loop costs beside a plain loop in torch: same network, same data, same batches.

Run: ``CALIBRANT_DATA=FOLDER python benchmarks/training.py``, about twenty minutes on a quiet machine; names
of recipes measure only those, and recipes whose data are not in the folder are passed over. Our loop and the
plain one take blocks of batches in turn, on one core, in process time; likewise, less often, the ends of
epochs, where both look at the calibration split. An epoch is its batches and one end. The slowdown is the
median over the turns, with a 95 % interval from resampled turns. Peak memory is that of a fresh process for
each loop, as Linux tells it.

The plain loop is what one writes by hand: it adds up the loss and the right answers on the way, and after an
epoch computes accuracy and loss on the calibration split. It records no dynamics, fits no temperature, saves
nothing and cannot be resumed. What these cost is the same for every network, so a perceptron whose batches
take a millisecond (``digits``) shows it and has no bar.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from environment import environment, write
from lightning_fabric import Fabric
from memory import resident
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant_lab.data import build_augmentation
from calibrant_lab.models import build as build_model
from calibrant_lab.training import at_budget, load_recipe, seeds
from calibrant_lab.training.data import Job, preparation, read_training_data
from calibrant_lab.training.engine import Engine
from calibrant_lab.training.listener import Listener
from calibrant_lab.training.loss import build_loss, labels_of_parts
from calibrant_lab.training.processes import Interruption
from calibrant_lab.training.run import RunFolder
from calibrant_lab.training.samples import middle, network_shape
from calibrant_lab.training.schedule import build_optimiser

RECIPES = Path(__file__).parents[1] / "recipes"
MOST = 1.03
"""The bar: our epoch in multiples of the plain loop's."""
SECONDS = 1.0
"""Aimed at for a block."""
TURNS_PER_END = 3
"""Ends of epochs take longer than blocks and vary less."""
JPEG = ("data.name=cifar10_jpeg",)


@dataclass(frozen=True)
class Work:
    """A recipe, and what is changed in it so that it can be measured here."""

    recipe: str
    budget: str = "full"
    settings: tuple[str, ...] = ()
    bar: bool = True
    """Whether it is held against the bar."""


WORK = (
    Work("digits", bar=False),
    Work("fashion-mnist"),
    Work("cifar10-resnet50", "small", JPEG),
    Work("cifar10-resnet110", "small", JPEG),
    Work("cifar10-densenet121", "small", JPEG),
    Work("cifar10-wide-resnet-26-10", "small", JPEG),
    Work("tiny-imagenet-resnet50", "small", ("data.train=8000",)),  # a tenth of the images
    Work("chest-xray-covid", "small"),
    Work("pneumoniamnist", "small"),
    Work("sst-tree-lstm"),
    Work("20ng-gpcnn"),
    Work("20ng-gpcnn", settings=("training.precision=bf16-mixed",)),
    Work("ag-news"),
)


class Subject:
    """A recipe with its data, ready to be trained by either loop."""

    def __init__(self, work: Work, folder: str) -> None:
        recipe = at_budget(load_recipe(RECIPES / f"{work.recipe}.toml"), work.budget)
        alone = ["hardware.threads=1", "hardware.accelerator=cpu", "foreign.name=", "shift.corruption=[]"]
        self.recipe = recipe.with_settings([*alone, *work.settings])
        self.data = read_training_data(self.recipe)
        dataset = self.data.dataset
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seeds.derived(self.recipe.seed, seeds.WEIGHTS))
            self.model = build_model(
                self.recipe.model,
                input_shape=network_shape(self.recipe, dataset),
                num_classes=dataset.num_classes,
                vectors=dataset.vectors,
            )
        self.folder = RunFolder(folder)
        self.steps = max(1, len(dataset.train) // self.recipe.training.batch_size)

    def ours(self) -> Ours:
        """Our loop, with a network of its own."""
        return Ours(self)

    def plain(self) -> Plain:
        """The plain loop, likewise."""
        return Plain(self)


class Ours:
    """Blocks of the engine that ``calibrant train`` runs."""

    def __init__(self, subject: Subject) -> None:
        recipe = subject.recipe
        job = Job(
            recipe=recipe,
            dataset=subject.data.dataset,
            foreign=None,
            sha256="",
            model=copy.deepcopy(subject.model),
            loss=build_loss(recipe, subject.data.dataset),
            folder=subject.folder,
            listener=Listener(),
            command=None,
            report=False,
        )
        fabric = Fabric(accelerator="cpu", devices=1, precision=recipe.training.precision)
        self.engine = Engine(fabric, job)

    def block(self, batches: Sequence[Tensor]) -> None:
        """Learn from some batches."""
        engine: Any = self.engine
        engine.batches = lambda _epoch: list(batches)
        engine.state.batch = 0
        with Interruption() as interruption:
            engine._epoch(interruption)  # an epoch without its end

    def end(self) -> None:
        """The end of an epoch: what is measured, and the checkpoint."""
        engine: Any = self.engine
        engine._close_epoch()  # an epoch's end without its batches


class Plain:
    """The loop that one writes by hand."""

    def __init__(self, subject: Subject) -> None:
        recipe, dataset = subject.recipe, subject.data.dataset
        self.recipe, self.dataset = recipe, dataset
        self.model = copy.deepcopy(subject.model)
        self.loss = build_loss(recipe, dataset)
        self.optimiser = build_optimiser(recipe.optimiser, self.model)
        self.prepare = preparation(recipe.data, dataset)
        self.augmentations = build_augmentation(
            recipe.data.augment, dataset.input_shape, side=recipe.data.crop
        )
        self.half = recipe.training.precision == "bf16-mixed"
        self.source = torch.Generator().manual_seed(0)

    def _inputs(self, part: Any, rows: Tensor, *, learning: bool) -> Tensor:
        inputs = part.inputs[rows]
        if inputs.dtype == torch.uint8:
            inputs = inputs.float() / 255
        for augmentation in self.augmentations if learning else ():
            inputs = augmentation.apply(inputs, augmentation.draw(len(rows), self.source))
        return self.prepare(inputs)

    def block(self, batches: Sequence[Tensor]) -> None:
        """Learn from some batches."""
        part, model, clip = self.dataset.train, self.model, self.recipe.optimiser.clip_norm
        model.train()
        total, right, count = 0.0, 0.0, 0
        for rows in batches:
            inputs, labels = self._inputs(part, rows, learning=True), part.labels[rows]
            targets = labels_of_parts(model, inputs, labels)
            with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
                logits = model(inputs)
            loss = self.loss(logits.float(), targets)
            scale = {"sum": len(targets), "per-sample": len(targets) / len(labels), "mean": 1}
            (loss * scale[self.recipe.reduction]).backward()
            if clip:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            self.optimiser.step()
            self.optimiser.zero_grad()
            total += loss.item() * len(targets)
            right += float(self._right(logits, targets))
            count += len(targets)
        if not math.isfinite(total / count):
            raise SystemExit("the plain loop diverged")

    def _right(self, logits: Tensor, labels: Tensor) -> Tensor:
        if labels.ndim == 2:
            return ((logits > 0) == (labels == 1)).sum()
        return (logits.argmax(1) == labels).sum()

    @torch.no_grad()
    def end(self) -> None:
        """Accuracy and loss on the calibration split."""
        part, size = self.dataset.calibration, self.recipe.evaluation.batch_size
        self.model.eval()
        found: list[Tensor] = []
        for rows in torch.arange(len(part)).split(size):
            inputs = middle(self._inputs(part, rows, learning=False), self.recipe.data.crop)
            with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
                found.append(self.model(inputs).float())
        logits = torch.cat(found)
        labels = part.labels
        several = labels.ndim == 2
        compared = (logits, labels.float()) if several else (logits, labels)
        loss = nn.functional.binary_cross_entropy_with_logits if several else nn.functional.cross_entropy
        _ = float(loss(*compared)), float(self._right(logits, labels)) / labels.numel()


def spent(work: Any, *given: Any) -> float:
    """Process seconds."""
    began = time.process_time()
    work(*given)
    return time.process_time() - began


def measured(work: Work, repeats: int) -> dict[str, Any]:
    """Seconds of blocks and of ends by both loops, in turn."""
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(work, folder)
        loops = {"ours": subject.ours(), "plain": subject.plain()}
        size = subject.recipe.training.batch_size
        order = torch.randperm(len(subject.data.dataset.train), generator=torch.Generator().manual_seed(0))
        batches = [rows for rows in order.split(size) if len(rows) == size] or [order]
        for loop in loops.values():  # the first step allocates
            loop.block(batches[:1])
            loop.end()
        once = min(spent(loops["plain"].block, batches[:1]) for _ in range(3))
        several = min(len(batches), max(1, round(SECONDS / once)))
        blocks: dict[str, list[float]] = {name: [] for name in loops}
        ends: dict[str, list[float]] = {name: [] for name in loops}
        for turn in range(repeats):
            start = turn * several % max(1, len(batches) - several + 1)
            for name in (*loops,) if turn % 2 else tuple(reversed(loops)):
                blocks[name].append(spent(loops[name].block, batches[start : start + several]) / several)
                if turn % TURNS_PER_END == 0:
                    ends[name].append(spent(loops[name].end))
    steps = subject.steps
    epochs = {
        name: np.array(blocks[name]) * steps + np.repeat(ends[name], TURNS_PER_END)[:repeats]
        for name in loops
    }
    ratios = epochs["ours"] / epochs["plain"]
    draws = np.random.default_rng(0).integers(0, repeats, (2000, repeats))
    low, high = np.quantile(np.median(ratios[draws], axis=1), [0.025, 0.975])
    return {
        "budget": work.budget,
        "settings": list(work.settings),
        "model": subject.recipe.model,
        "data": subject.recipe.data.name,
        "train_samples": len(subject.data.dataset.train),
        "calibration_samples": len(subject.data.dataset.calibration),
        "batch_size": size,
        "batches_per_epoch": steps,
        "batches_per_block": several,
        "repeats": repeats,
        "epoch_cpu_seconds": {name: float(np.median(values)) for name, values in epochs.items()},
        "epochs_per_cpu_hour": {name: float(3600 / np.median(values)) for name, values in epochs.items()},
        "batch_cpu_milliseconds": {name: float(1000 * np.median(each)) for name, each in blocks.items()},
        "end_cpu_milliseconds": {name: float(1000 * np.median(each)) for name, each in ends.items()},
        "held": work.bar,
        "times_plain": float(np.median(ratios)),
        "times_plain_interval": [float(low), float(high)],
        "peak_megabytes": {name: peak(work, name) for name in loops},
    }


def peak(work: Work, loop: str) -> float:
    """Peak memory of a fresh process that reads the data, learns from three batches and ends an epoch."""
    command = [sys.executable, __file__, "--peak", loop, str(WORK.index(work))]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(told.stdout.splitlines()[-1]))


def show_peak(loop: str, work: Work) -> None:
    """What :func:`peak` asks for, on the standard output."""
    with tempfile.TemporaryDirectory() as folder:
        subject = Subject(work, folder)
        made = subject.ours() if loop == "ours" else subject.plain()
        order = torch.arange(len(subject.data.dataset.train))
        made.block(list(order.split(subject.recipe.training.batch_size))[:3])
        made.end()
    print(resident("VmHWM") / 1024)


def name_of(work: Work) -> str:
    """A recipe with what was changed in it."""
    return " ".join([work.recipe, *([] if work.budget == "full" else ["(small)"]), *work.settings])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", nargs="*", help="measure only these; the others keep their numbers")
    parser.add_argument("--repeats", type=int, default=21, help="turns")
    parser.add_argument("--peak", nargs=2, metavar=("LOOP", "PLACE"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    if asked.peak:
        show_peak(asked.peak[0], WORK[int(asked.peak[1])])
        return
    path = Path(__file__).parent / "results" / "training.json"
    known = json.loads(path.read_text(encoding="utf-8"))["recipes"] if path.exists() else {}
    for work in WORK:
        if asked.recipes and work.recipe not in asked.recipes:
            continue
        name = name_of(work)
        try:
            known[name] = one = measured(work, asked.repeats)
        except InputError as error:
            print(f"{name}: not measured: {error}", flush=True)
            continue
        took, (low, high) = one["epoch_cpu_seconds"]["ours"], one["times_plain_interval"]
        print(
            f"{name}: {took:.2f} CPU s an epoch, {one['times_plain']:.3f} × plain ({low:.3f} to {high:.3f})",
            flush=True,
        )
        content = {
            "environment": environment("torch", "lightning-fabric"),
            "load_after": os.getloadavg()[0],
            "bar": {"times_plain": MOST},
            "recipes": {each: known[each] for each in map(name_of, WORK) if each in known},
        }
        write("training", content)


if __name__ == "__main__":
    main()
