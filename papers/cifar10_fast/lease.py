"""``python -m papers.cifar10_fast.lease``: what a GPU that is lent for minutes can do of the sweep.

In order: steps are timed in as many processes as there will be runs side by side, captured ones are compared
with plain ones, and the images that networks are shown in the end are computed. The number of epochs follows
from the rule in ``registered.toml``. Then the grid is swept, all losses of a seed before the next seed, until
the time is over. The same command goes on where an earlier one ended; on another machine too, if ``--out`` is
brought along. Several processes share a GPU best after ``nvidia-cuda-mps-control -d``.
"""

import argparse
import copy
import json
import multiprocessing
import signal
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from calibrant._math.errors import EXPECTED, InputError, sentence_of
from calibrant._math.files import atomic_write, write_text
from calibrant_lab.data.fetch import cache_folder
from calibrant_lab.data.images.corruptions import CORRUPTIONS, CorruptedImages
from calibrant_lab.sweep.display import Estimates, SweepDisplay
from calibrant_lab.sweep.engines import build_engine
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.store.store import Store
from calibrant_lab.sweep.sweep import sweep
from calibrant_lab.sweep.tasks.task import Outcome, RunResult, Settings, Tell
from calibrant_lab.sweep.tasks.training import Training, data_of, recipe_of
from calibrant_lab.training import Listener, Recipe, train
from calibrant_lab.training.data import preparation, read_foreign
from calibrant_lab.training.learner import CapturedStep
from calibrant_lab.training.recipe_files import file_on_shelf, flat, nested, read_content
from calibrant_lab.training.run import Run, load_run
from papers.shift.run import evenly, logits_of

REGISTERED = tomllib.loads(Path(__file__).with_name("registered.toml").read_text(encoding="utf-8"))
GRIDS = {"1": "cifar10-fast", "1b": "cifar10-fast-more", "2": "cifar10-fast-resnet18"}
"""The grid of each tier."""
EPOCHS = 350
"""The authors' epochs, of which every schedule takes its share."""
CHOICES, STEPS = tuple(REGISTERED["epochs"]["choices"]), 200
SLOWER = 1.15
"""A run is taken to last so much longer than its steps, and ``START`` seconds for its begin and end."""
START = 5.0
AGREE = 0.02
"""Captured and plain steps may differ by so much of a value: in bfloat16 no two runs on a GPU are equal."""
COMPARED = ("train_loss", "gradient_norm", "last_layer_norm")
LOGITS, WEIGHTS = "logits.npz", "weights.pt"
IMAGES, SEVERITY = 1000, 3
"""So many test images are corrupted, this strongly, and as many of each out-of-distribution set are shown."""
OUT_OF_DISTRIBUTION = ("mnist", "notmnist_ood")
WITH_WEIGHTS = 2
"""The weights of so many seeds are kept, the first ones."""
EDGES = np.logspace(-6, 2, 81)
"""Edges of the histograms of gradient norms."""


class FastRun(Training):
    """A training that keeps the logits of further images, and the weights of the first seeds."""

    name: ClassVar[str] = "cifar10-fast"
    files: ClassVar[Mapping[str, str]] = {
        **Training.files,
        LOGITS: "float16 logits of training and further images; histograms of gradients",
        WEIGHTS: "weights in bfloat16, of the first seeds",
    }

    def run(self, settings: Settings, folder: Path, tell: Tell) -> Outcome:
        outcome = super().run(settings, folder, tell)
        recipe, run = recipe_of(settings), load_run(folder)
        model = run.model()
        if recipe.seed < WITH_WEIGHTS:
            state = copy.deepcopy(model).bfloat16().state_dict()  # whole numbers stay as they are
            with atomic_write(folder / WEIGHTS) as temporary:
                torch.save(state, temporary)
        kept = kept_of(model.to(self.device(settings)), recipe, run)
        with atomic_write(folder / LOGITS) as temporary:
            np.savez_compressed(temporary, allow_pickle=False, **kept)
        return outcome


def kept_of(model: nn.Module, recipe: Recipe, run: Run) -> dict[str, Any]:
    """Logits in float16 by set, labels of the training images in bytes, and histograms of gradient norms."""
    dataset = data_of(recipe).dataset
    seen = evenly(len(dataset.train), recipe.record.samples)
    images: dict[str, Tensor] = {"train": dataset.train.inputs[seen], **_read(elsewhere(recipe))}
    device = next(model.parameters()).device.type
    with torch.autocast(device, torch.bfloat16, enabled=recipe.training.precision == "bf16-mixed"):
        prepared = preparation(recipe.data, dataset)
        logits = {name: logits_of(model, prepared, each).float() for name, each in images.items()}
    return {
        **{name: each.numpy().astype(np.float16) for name, each in logits.items()},
        "train_labels": dataset.train.labels[seen].numpy().astype(np.uint8),
        **{
            f"gradients-{epoch:04}": np.histogram(found["gradient_norms"], EDGES)[0]
            for epoch, found in run.snapshots.items()
        },
    }


def elsewhere(recipe: Recipe) -> Path:
    """A file of corrupted test images and out-of-distribution images, made once for all runs of a machine."""
    path = cache_folder() / f"cifar10-fast-{data_of(recipe).sha256[:16]}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        dataset = data_of(recipe).dataset
        test, rows = dataset.test.inputs, evenly(len(dataset.test), IMAGES)
        found = {name: CorruptedImages(test, name, severity=SEVERITY)[rows] for name in CORRUPTIONS}
        section = recipe.data.model_copy(update={"size": 32, "channels": 3})
        for name in OUT_OF_DISTRIBUTION:
            part = read_foreign(name, dataset, section)
            found[name] = part.inputs[evenly(len(part), IMAGES)]
        with atomic_write(path) as temporary:
            np.savez(temporary, allow_pickle=False, **{name: each.numpy() for name, each in found.items()})
    return path


@lru_cache(maxsize=1)
def _read(path: Path) -> dict[str, Tensor]:
    with np.load(path, allow_pickle=False) as found:
        return {name: torch.from_numpy(found[name]) for name in found.files}


def rehearsal(folder: Path) -> dict[str, Any]:
    """Ten steps an epoch, a narrow network, two losses and two seeds, on images that are drawn in a file."""
    file = folder.absolute() / "images.npz"
    if not file.exists():
        rng, arrays = np.random.default_rng(0), dict[str, Any]()
        means = rng.integers(60, 190, (10, 32, 32, 3))
        for name, size in {"train": 1280 + 300, "test": 300}.items():
            arrays[f"y_{name}"] = np.arange(size) % 10
            drawn = rng.normal(means[arrays[f"y_{name}"]], 60)
            arrays[f"x_{name}"] = np.clip(drawn, 0, 255).astype(np.uint8)
        with atomic_write(file) as temporary:
            np.savez(temporary, allow_pickle=False, **arrays)
    changes = {"data.name": str(file), "data.calibration": 300, "data.train": 1280, "record.samples": 200}
    axes = {"model": ["fast-resnet(widths=(4, 8))"], "seed": [0, 1], "loss": ["cross-entropy", "brier"]}
    return {"changes": changes, "axes": axes}


def grid_of(tier: str, epochs: int, small: Mapping[str, Any] | None = None) -> Grid:
    """The grid of a tier with all that names epochs at their share of the authors' 350."""
    file = file_on_shelf(Path(GRIDS[tier]), "grid")
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    recipe = read_content(file.parent / content["recipe"])
    recipe.pop("small", None)
    scaled = {
        "training.epochs": epochs,
        "schedule.milestones": shares((150, 250), epochs),
        "record.epochs": shares((10, 100, 200, EPOCHS), epochs),
    }
    named, own = (f"milestones={tuple(shares((100, 250), number))}" for number in (45, epochs))
    small = small or {"changes": {}, "axes": {}}
    axes = {**content["axes"], **small["axes"]}
    axes["loss"] = [each.replace(named, own) for each in axes["loss"]]
    content |= {"task": "papers.cifar10_fast.lease:FastRun", "axes": axes}
    content["recipe"] = nested({**flat(recipe), **scaled, **small["changes"]})
    return Grid.read(content, source=GRIDS[tier])


def shares(of: Sequence[int], epochs: int) -> list[int]:
    """The same shares of so many epochs, each at least 1.

    Example:
        >>> shares((150, 250), 45), shares((10, 100, 200, 350), 2)
        ([19, 32], [1, 2])
    """
    return sorted({max(1, round(each * epochs / EPOCHS)) for each in of})


def chosen(choices: Sequence[int], *, step: float, steps: int, runs: int, jobs: int, seconds: float) -> int:
    """The most epochs with which all runs end in time; the fewest, if none does. Times are in seconds.

    Example:
        >>> chosen((60, 45, 30), step=0.002, steps=352, runs=40, jobs=4, seconds=460)
        45
    """
    for epochs in sorted(choices, reverse=True):
        if (SLOWER * step * steps * epochs + START) * -(-runs // jobs) <= seconds:
            return epochs
    return min(choices)


def continued(known: Mapping[str, Any]) -> dict[str, Any]:
    """What an earlier lease settled for the next: its epochs, doubled once where the gate was closed.

    Example:
        >>> continued({"epochs": 30, "gate": {"open": False}})
        {'epochs': 60, 'gate': None, 'doubled': True}
    """
    closed = known.get("gate") is not None and not known["gate"]["open"]
    again = closed and not known.get("doubled", False)
    doubled = {"epochs": 2 * known["epochs"], "gate": None, "doubled": True} if again else {}
    return {**known, **doubled}


def carry_out(given: argparse.Namespace) -> None:
    """Plan, or go on with the plan of ``--out``; sweep until the time is over; and judge by the gate."""
    begun, file = time.monotonic(), given.out / f"lease-{given.tier}.json"

    def seconds_left() -> float:
        return given.time_limit - (time.monotonic() - begun)

    given.out.mkdir(parents=True, exist_ok=True)
    small = rehearsal(given.out) if given.rehearsal else None
    choices, steps = ((2, 3, 4), 10) if given.rehearsal else (CHOICES, STEPS)
    grid_with = partial(grid_of, given.tier, small=small)
    plan = continued(json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {})
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    if plan.get("device") != device:
        settings = grid_with(max(choices)).points[0].settings
        plan |= {"device": device, **measured(settings, steps=steps, jobs=given.jobs)}
    if "epochs" not in plan:
        per_epoch, runs = (10 if small else 352), len(grid_with(choices[0]).points)
        of_time = {"step": plan["step"], "steps": per_epoch, "seconds": seconds_left()}
        plan["epochs"] = chosen(choices, **of_time, runs=runs, jobs=given.jobs)
    write_text(file, json.dumps(plan, indent=1) + "\n")  # before there is any result
    store = Store(given.out / "store")
    grid = grid_with(plan["epochs"])
    items, display = grid.items(store.fingerprints()), SweepDisplay(Estimates(grid.task, store.results()))
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, seconds_left()))
    try:
        sweep(items, store, build_engine("pool", jobs=given.jobs), watcher=display)
    except KeyboardInterrupt:
        print("the time is over; what is not finished is left")  # noqa: T201
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    own, done = {item.run for item in items}, store.done()
    plan["gate"] = gate(result for result in store.results() if result.run in own)
    write_text(file, json.dumps(plan, indent=1) + "\n")
    print(f"{len(own & set(done))} of {len(own)} runs are done; gate: {plan['gate']}")  # noqa: T201


def measured(settings: Settings, *, steps: int, jobs: int) -> dict[str, Any]:
    """Seconds of a step, side by side and alone, and how far captured steps are from plain ones."""
    with ProcessPoolExecutor(jobs + 1, mp_context=multiprocessing.get_context("spawn")) as pool:
        times = pool.map(partial(seconds_of_a_step, steps=steps), [settings] * jobs)
        images = pool.submit(elsewhere, recipe_of(settings))
        found = {"step": max(times), "apart": pool.submit(disagreement, settings).result()}
        images.result()
        if not found["apart"] <= AGREE:
            raise InputError(
                f"captured steps differ from plain ones by {found['apart']:.3g}; nothing was run."
            )
        for name, capturing in (("captured_alone", True), ("plain_alone", False)):
            alone = pool.submit(seconds_of_a_step, settings, steps=steps, capturing=capturing)
            found[name] = alone.result()
    return found


def gate(results: Iterable[RunResult]) -> dict[str, Any] | None:
    """Of cross-entropy's first seed: accuracy on training images, temperature, and whether they suffice."""
    for result in results:
        if (result.settings["loss"], result.settings["seed"]) == ("cross-entropy", 0):
            accuracy = 1 - result.rows[-1]["dynamics"]["train"]["error"]
            temperature, asked = result.parameters["temperature"]["temperature"], REGISTERED["gate"]
            is_open = accuracy >= asked["train_accuracy"] and temperature >= asked["temperature"]
            return {"train_accuracy": accuracy, "temperature": temperature, "open": is_open}
    return None


class _Clock(Listener):
    def __init__(self) -> None:
        self.ends: list[float] = []

    def epoch(self, row: Mapping[str, Any]) -> None:
        _ = row
        self.ends.append(time.perf_counter())


def seconds_of_a_step(settings: Settings, *, steps: int, capturing: bool = True) -> float:
    """Of the last of three epochs of so many steps, with all that an epoch ends with."""
    clock = _Clock()
    _rows(_short(settings, steps=steps, epochs=3), clock, capturing=capturing)
    return (clock.ends[-1] - clock.ends[-2]) / steps


def disagreement(settings: Settings, *, steps: int = 20, epochs: int = 5) -> float:
    """The largest relative difference between epochs of captured and of plain steps on the same draws.

    The learning rate falls on the way, so that a step is captured twice. On a CPU nothing is captured, and
    the difference is 0.
    """
    recipe = _short(settings, steps=steps // epochs, epochs=epochs)
    both = zip(_rows(recipe, Listener()), _rows(recipe, Listener(), capturing=False), strict=True)
    return max(abs(one[name] / other[name] - 1) for one, other in both for name in COMPARED)


def _short(settings: Settings, *, steps: int, epochs: int) -> Recipe:
    recipe = recipe_of(settings)
    return recipe.with_settings(
        [
            f"data.train={steps * recipe.training.batch_size}",
            f"training.epochs={epochs}",
            f"schedule.milestones=[{epochs - 2}]",
            "record.dynamics=false",
        ]
    )


def _rows(recipe: Recipe, listener: Listener, *, capturing: bool = True) -> Sequence[Mapping[str, Any]]:
    CapturedStep.capturing = capturing
    try:
        with tempfile.TemporaryDirectory() as folder:
            run = train(recipe, Path(folder) / "run", listener=listener, data=data_of(recipe), report=False)
            return run.rows
    finally:
        CapturedStep.capturing = True


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m papers.cifar10_fast.lease", description=__doc__)
    parser.add_argument("--time-limit", type=float, default=495, help="seconds after which runs are left")
    parser.add_argument("--out", type=Path, required=True, help="folder for the plan and the store of runs")
    parser.add_argument("--tier", choices=GRIDS, default="1")
    parser.add_argument("--jobs", type=int, default=4, help="runs side by side")
    parser.add_argument("--rehearsal", action="store_true", help="everything small, for a CPU")
    return parser


if __name__ == "__main__":
    try:
        carry_out(arguments().parse_args())
    except EXPECTED as error:
        sys.exit(f"lease: {sentence_of(error)}")
