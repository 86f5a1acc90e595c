"""``python -m papers.cifar10_fast.lease``: what a GPU that is lent for minutes can do of the sweep.

In order: steps are timed in as many processes as there will be runs side by side, captured ones are compared
with plain ones, and the images that networks are shown in the end are computed. The number of epochs follows
from the rule in ``registered.toml``. Runs are done and packed one by one, all losses of a seed before the
next seed. Before the time is over, those that are not finished are left, and as many weights as fit are
packed.

The same command goes on where an earlier one was killed, as long as ``--work`` is there. On another machine,
``--known`` names the ``lease.json`` of the last lease: its runs are not done again, and its epochs are kept.
"""

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibrant._math.errors import EXPECTED, InputError, sentence_of
from calibrant._math.files import atomic_write, write_text
from calibrant_lab.sweep.engines import Ended, build_engine
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.store.places import RESULT_FILE, RUNS
from calibrant_lab.sweep.store.store import Store
from calibrant_lab.sweep.sweep import Watcher, sweep
from calibrant_lab.sweep.tasks.task import Item, RunResult, Settings
from calibrant_lab.sweep.tasks.training import data_of, recipe_of
from calibrant_lab.training import Listener, Recipe, train
from calibrant_lab.training.learner import CapturedStep
from calibrant_lab.training.recipe_files import file_on_shelf, flat, nested, read_content
from papers.cifar10_fast.measure import LOGITS, WEIGHTS, elsewhere, predictions_of

REGISTERED = tomllib.loads(Path(__file__).with_name("registered.toml").read_text(encoding="utf-8"))
GRIDS = {"1": "cifar10-fast", "1b": "cifar10-fast-more", "2": "cifar10-fast-resnet18"}
"""The grid of each tier."""
EPOCHS = 350
"""The authors' epochs, of which every schedule takes its share."""
SLOWER = 1.15
"""A run is taken to last so much longer than its steps, and ``START`` seconds for its begin and end."""
START = 5.0
AGREE = 0.02
"""Captured and plain steps may differ by so much of a value: in bfloat16 no two runs on a GPU are equal."""
COMPARED = ("train_loss", "gradient_norm", "last_layer_norm")
MEBIBYTE = 2**20
KEPT = ("recipe.toml", "environment.json", LOGITS, RESULT_FILE)
"""What is packed of every run; the result comes last, because it says that the run is whole."""
_HEADER = 1024  # of a file in a tar file, with what fills its last block
_END = 20 * 512  # of a tar file


@dataclass(frozen=True)
class Scale:
    epochs: tuple[int, ...]
    steps: int
    changes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    axes: Mapping[str, Any] = field(default_factory=dict[str, Any])


FULL = Scale(epochs=tuple(REGISTERED["epochs"]["choices"]), steps=200)


def rehearsal(folder: Path) -> Scale:
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
    return Scale(epochs=(4, 3, 2), steps=10, changes=changes, axes=axes)


def grid_of(tier: str, epochs: int, scale: Scale = FULL) -> Grid:
    """The grid of a tier with all that names epochs at their share of the authors' 350."""
    file = file_on_shelf(Path(GRIDS[tier]), "grid")
    content = tomllib.loads(file.read_text(encoding="utf-8"))
    recipe = read_content(file.parent / content["recipe"])
    recipe.pop("small", None)
    changes = {
        "training.epochs": epochs,
        "schedule.milestones": shares((150, 250), epochs),
        "record.epochs": shares((10, 100, 200, EPOCHS), epochs),
    }
    named, own = (f"milestones={tuple(shares((100, 250), number))}" for number in (45, epochs))
    axes = {**content["axes"], **scale.axes}
    axes["loss"] = [each.replace(named, own) for each in axes["loss"]]
    content |= {"task": "papers.cifar10_fast.measure:FastRun", "axes": axes}
    content["recipe"] = nested({**flat(recipe), **changes, **scale.changes})
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


def continued(known: Mapping[str, Any], tier: str, choices: Sequence[int]) -> dict[str, Any]:
    """What of an earlier lease holds for the next: runs and epochs, doubled once where the gate was closed.

    Example:
        >>> last = {"tier": "1", "epochs": 45, "known": ["a run"], "gate": {"open": False}}
        >>> continued(last, "1", (30, 45, 60)), continued(last, "2", (30, 45, 60))
        ({'epochs': 90}, {})
    """
    if not known or known["tier"] != tier:
        return {}
    closed = known["gate"] is not None and not known["gate"]["open"]
    if closed and known["epochs"] in choices:
        return {"epochs": 2 * known["epochs"]}
    return {name: known[name] for name in ("epochs", "known", "gate")}


class Pack:
    """Runs as ``runs-0.tar``, ``runs-1.tar`` and so on, each written as its run ends.

    What was packed in ``folder`` before is found, a file that was cut off is made anew. A file takes at most
    ``part`` bytes, all of them ``total``.
    """

    def __init__(self, folder: Path, *, part: int, total: int) -> None:
        self.folder, self._part, self._total = folder, part, total
        self.names = set[str]()
        for path in self.parts:
            try:
                with tarfile.open(path) as file:
                    self.names |= set(file.getnames())
            except tarfile.TarError:
                path.unlink()

    @property
    def parts(self) -> list[Path]:
        return sorted(self.folder.glob("runs-*.tar"))

    def add(self, run: Path, names: Sequence[str]) -> bool:
        """Add files of a run's folder; False where there is no room for them."""
        wanted = [name for name in names if f"{run.name}/{name}" not in self.names]
        needed = sum((run / name).stat().st_size + _HEADER for name in wanted)
        sizes = {path: path.stat().st_size for path in self.parts}
        if not wanted:
            return True
        if needed + _END > self._part or sum(sizes.values()) + needed + _END > self._total:
            return False
        new = [self.folder / f"runs-{number}.tar" for number in range(len(sizes) + 1)]
        fits = [path for path, size in sizes.items() if size + needed <= self._part]
        with tarfile.open([*fits, *(path for path in new if path not in sizes)][0], "a") as file:
            for name in wanted:
                file.add(run / name, f"{run.name}/{name}")
                self.names.add(f"{run.name}/{name}")
        return True


def pack_weights(pack: Pack, runs: Iterable[Path]) -> int:
    """Add weights as long as there is room, in this order; how many runs have theirs in the files."""
    return sum((run / WEIGHTS).is_file() and pack.add(run, [WEIGHTS]) for run in runs)


def merge(parts: Sequence[Path], folder: Path) -> int:
    """Put packed runs into a store, which is made where there is none; how many it then holds."""
    store = Store(folder)
    for path in parts:
        with tarfile.open(path) as file:
            file.extractall(folder / RUNS, filter="data")
    for run in (folder / RUNS).iterdir():
        if (run / LOGITS).is_file() and not (run / "predictions.npz").exists():
            predictions_of(run / LOGITS).save(run / "predictions.npz")
    return len(store.done())


class _Packing(Watcher):
    """Packs every run as it ends, and tells of it."""

    def __init__(self, store: Path, pack: Pack, items: Mapping[str, Item], tell: Any) -> None:
        self._store, self._pack, self._items, self._tell = store, pack, items, tell

    def ended(self, end: Ended) -> None:
        if end.state == "done":
            packed = self._pack.add(self._store / RUNS / end.run, KEPT)
            said = f"{'packed' if packed else 'no room for'}, {end.status} in {end.seconds:.0f} s"
        else:
            said = f"{end.state}: {end.reason or ''}"
        self._tell(f"{self._items[end.run].label}  {end.shown}  {said}")


@dataclass
class Lease:
    given: argparse.Namespace
    begun: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.store, self.plan_file = self.given.work / "store", self.given.work / "plan.json"
        self.given.work.mkdir(parents=True, exist_ok=True)
        self.given.out.mkdir(parents=True, exist_ok=True)
        self.scale = rehearsal(self.given.work) if self.given.rehearsal else FULL

    @property
    def seconds_left(self) -> float:
        """Until runs must be left, so that there is time to end well."""
        return self.given.time_limit - self.given.reserve - (time.monotonic() - self.begun)

    def tell(self, text: str) -> None:
        print(f"{time.monotonic() - self.begun:6.1f} s  {text}", flush=True)  # noqa: T201

    def carry_out(self) -> None:
        plan = self.plan()
        known = set(plan["known"])
        grid = grid_of(self.given.tier, plan["epochs"], self.scale)
        store = Store(self.store)
        items = {item.run: item for item in grid.items(store.fingerprints()) if item.run not in known}
        pack = Pack(self.given.out, part=self.given.part * MEBIBYTE, total=self.given.total * MEBIBYTE)
        done = [run for run in items if run in store.done()]
        for run in done:  # of an earlier command that was killed
            pack.add(self.store / RUNS / run, KEPT)
        self.tell(f"{len(items)} runs of {plan['epochs']} epochs, {len(done)} of them done before")
        stopped = self._sweep(list(items.values()), store, _Packing(self.store, pack, items, self.tell))
        finished = [run for run in items if run in store.done()]
        weights = pack_weights(pack, [self.store / RUNS / run for run in finished])
        of_gate = gate(store.results()) or plan["gate"]
        said = plan | {"known": sorted({*known, *finished}), "gate": of_gate, "ended": not stopped}
        write_text(self.given.out / "lease.json", json.dumps(said, indent=1) + "\n")
        self.tell(f"{len(finished)} of {len(items)} runs are done, {weights} with weights; gate: {of_gate}")

    def plan(self) -> dict[str, Any]:
        """Epochs, and what was measured to choose them; made once, before there is any result."""
        if self.plan_file.is_file():
            return json.loads(self.plan_file.read_text(encoding="utf-8"))
        known = json.loads(self.given.known.read_text(encoding="utf-8")) if self.given.known else {}
        known = continued(known, self.given.tier, self.scale.epochs)
        measured = self._measured()
        epochs = known.get("epochs") or chosen(
            self.scale.epochs,
            step=measured["step"],
            steps=self.scale.changes.get("data.train", 45_000) // 128 + 1,
            runs=len(grid_of(self.given.tier, min(self.scale.epochs), self.scale).points),
            jobs=self.given.jobs,
            seconds=self.seconds_left,
        )
        before = {"known": known.get("known", []), "gate": known.get("gate")}
        plan = {"tier": self.given.tier, "epochs": epochs, **measured, **before}
        write_text(self.plan_file, json.dumps(plan) + "\n")
        return plan

    def _measured(self) -> dict[str, Any]:
        """Seconds of a step in each of the processes, and how far captured steps are from plain ones."""
        words = [sys.executable, "-m", "papers.cifar10_fast.lease", *self.given.words, "--probe"]
        count, given = self.given.jobs + 1, {"stdout": subprocess.PIPE, "text": True}
        processes = [subprocess.Popen([*words, str(number)], **given) for number in range(count)]
        said = [each.communicate()[0].splitlines()[-1:] for each in processes]
        if not all(said):
            raise InputError("a step could not be timed; what is wrong is above.")
        found = [json.loads(line) for (line,) in said[: self.given.jobs]]
        apart = max(each["apart"] for each in found)
        if not apart <= AGREE:
            raise InputError(f"captured steps differ from plain ones by {apart:.3g}; nothing was run.")
        step = max(each["step"] for each in found)
        self.tell(f"a step takes {1e3 * step:.2f} ms beside {len(found) - 1} others; apart: {apart:.2g}")
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
        return {"step": step, "apart": apart, "jobs": len(found), "device": device}

    def _sweep(self, items: list[Item], store: Store, watcher: Watcher) -> bool:
        """Do runs until the time is over; whether it was before all were done."""

        def over(*_: object) -> None:
            raise KeyboardInterrupt

        if self.seconds_left <= 0:
            return True
        signal.signal(signal.SIGALRM, over)
        signal.setitimer(signal.ITIMER_REAL, self.seconds_left)
        try:
            sweep(items, store, build_engine("pool", jobs=self.given.jobs), watcher=watcher)
        except KeyboardInterrupt:
            self.tell("the time is over; what is not finished is left")
            return True
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        return False


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


def seconds_of_a_step(settings: Settings, *, steps: int) -> float:
    """Of the last of three epochs of so many steps, with all that an epoch ends with."""
    clock = _Clock()
    _rows(_short(settings, steps=steps, epochs=3), clock)
    return (clock.ends[-1] - clock.ends[-2]) / steps


def disagreement(settings: Settings, *, steps: int = 20, epochs: int = 5) -> float:
    """The largest relative difference between epochs of captured and of plain steps on the same draws.

    The learning rate falls on the way, so that a step is captured twice. On a CPU nothing is captured, and
    the difference is 0.
    """
    recipe = _short(settings, steps=steps // epochs, epochs=epochs)
    captured = _rows(recipe, Listener())
    CapturedStep.capturing = False
    try:
        both = zip(captured, _rows(recipe, Listener()), strict=True)
    finally:
        CapturedStep.capturing = True
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


def _rows(recipe: Recipe, listener: Listener) -> Sequence[Mapping[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        return train(recipe, Path(folder) / "run", listener=listener, data=data_of(recipe), report=False).rows


def probe(number: int, given: argparse.Namespace) -> dict[str, float]:
    """What one process measures; the first compares steps too, the last computes the images for the end."""
    scale = rehearsal(given.work) if given.rehearsal else FULL
    settings = grid_of(given.tier, max(scale.epochs), scale).points[0].settings
    if number == given.jobs:
        return {"images": sum(map(len, elsewhere(recipe_of(settings)).values()))}
    step = seconds_of_a_step({**settings, "seed": number}, steps=scale.steps)
    return {"step": step, "apart": 0.0 if number else disagreement(settings)}


def _serve_several() -> None:
    """Have several processes share the GPU, where the driver brings what that takes and it works."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None or not torch.cuda.is_available():
        return
    subprocess.run([control, "-d"], check=False)
    trial = [sys.executable, "-c", "import torch; torch.zeros(1, device='cuda')"]
    try:
        subprocess.run(trial, check=True, timeout=40)
    except subprocess.SubprocessError:
        subprocess.run([control], input="quit\n", text=True, check=False, timeout=20)


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m papers.cifar10_fast.lease", description=__doc__)
    parser.add_argument("--time-limit", type=float, default=540, help="seconds of the whole command")
    parser.add_argument("--reserve", type=float, default=45, help="seconds of them in which to end")
    parser.add_argument("--out", type=Path, required=True, help="folder for the files that are taken along")
    parser.add_argument("--work", type=Path, default=Path("study/cifar10-fast"), help="folder for the runs")
    parser.add_argument("--known", type=Path, help="lease.json of the last lease of this tier")
    parser.add_argument("--tier", choices=GRIDS, default="1")
    parser.add_argument("--jobs", type=int, default=4, help="runs side by side")
    parser.add_argument("--part", type=int, default=15, help="largest size of a file in MiB")
    parser.add_argument("--total", type=int, default=60, help="largest size of all files in MiB")
    parser.add_argument("--rehearsal", action="store_true", help="everything small, for a CPU")
    parser.add_argument("--probe", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    given.words = list(words)
    return given


def main(words: Sequence[str]) -> None:
    given = arguments(words)
    if given.probe is not None:
        print(json.dumps(probe(given.probe, given)))  # noqa: T201
        return
    _serve_several()
    Lease(given).carry_out()


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except EXPECTED as error:
        sys.exit(f"lease: {sentence_of(error)}")
