"""The directory of a run: paths, ownership and reading."""

from __future__ import annotations

import errno
import json
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, atomic_write, write_text
from calibrant._math.machine import environment
from calibrant.evaluation import Evaluation
from calibrant.predictions import Predictions, load_predictions
from calibrant_lab.models import build as build_model
from calibrant_lab.training.recipe import Recipe, load_recipe


class RunFolder:
    """Paths inside a run's directory; files there are written whole or not at all."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.recipe = self.path / "recipe.toml"
        self.environment = self.path / "environment.json"
        self.metrics = self.path / "metrics.jsonl"
        self.checkpoint = self.path / "checkpoint.pt"
        self.predictions = self.path / "predictions.npz"
        self.evaluation = self.path / "evaluation.json"
        self.report = self.path / "report.html"
        self.dynamics = self.path / "dynamics"
        self.heat_maps = self.path / HEAT_MAPS
        self.foreign_predictions = self.path / "out_of_distribution.npz"
        self.detection = self.path / "out_of_distribution.json"
        self.cost = self.path / "cost.json"
        self.curvature = self.path / "curvature.json"
        self.shift = self.path / "shift"
        self.shift_numbers = self.path / "shift.json"
        self.conventions = self.path / "conventions.json"

    @property
    def holds_run(self) -> bool:
        """Return True if a run was begun here, not just a recipe stored."""
        if not self.recipe.is_file():
            return False
        others = (entry for entry in self.path.iterdir() if entry != self.recipe)
        return self.environment.is_file() or all(_is_left_over(entry) for entry in others)

    @contextmanager
    def locked(self) -> Generator[None]:
        """Lock out other processes; a killed process releases its lock."""
        from filelock import FileLock, Timeout

        self.path.mkdir(parents=True, exist_ok=True)
        try:
            lock = FileLock(self.path / ".calibrant-lock", timeout=0).acquire()
        except Timeout:
            raise InputError(
                f"{self.path} is in use: another process is training there; wait for it, or choose another "
                "--out."
            ) from None
        with lock:
            yield

    def check(self, recipe: Recipe) -> None:
        """Refuse a directory of anything but a run of this recipe; its evaluation may differ."""
        if self.holds_run:
            before = load_recipe(self.recipe)
            differences = recipe.differences(before)
            if [each.partition(":")[0] for each in differences] == ["training.epochs"]:
                raise InputError(
                    f"{self.path} has training.epochs = {before.training.epochs}, and a run keeps that: its "
                    f"learning rate may depend on it. Train {self.recipe} with --epochs "
                    f"{recipe.training.epochs} and another --out."
                )
            if differences:
                more = f" and {len(differences) - 1} more" if len(differences) > 1 else ""
                raise InputError(
                    f"{self.path} was made by another recipe ({differences[0]}{more}); choose another --out."
                )
        elif self.path.is_file():
            raise InputError(f"{self.path} is a file; choose another --out, which is to be a directory.")
        elif self.path.is_dir() and any(not _is_left_over(entry) for entry in self.path.iterdir()):
            raise InputError(f"{self.path} is not empty and holds no run; choose another --out.")

    def claim(self, recipe: Recipe) -> None:
        """Create the directory, or take over a run of this recipe; remove results of another evaluation."""
        self.path.mkdir(parents=True, exist_ok=True)
        if self.holds_run and recipe.judges_otherwise(load_recipe(self.recipe)):
            self.remove_evaluation()
        write_text(self.recipe, recipe.to_toml())

    def remove_evaluation(self) -> None:
        """Remove what is written once the training is done; the next training writes it anew."""
        shown = (self.evaluation, self.report, self.detection, self.shift_numbers, self.conventions)
        for path in (*shown, self.predictions, self.foreign_predictions):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.shift, ignore_errors=True)

    def remove_results(self) -> None:
        """Remove all that is of the network."""
        self.remove_evaluation()
        for path in (self.cost, self.curvature):
            path.unlink(missing_ok=True)
        for folder in (self.dynamics, self.heat_maps):
            shutil.rmtree(folder, ignore_errors=True)

    def write_json(self, path: Path, content: Mapping[str, Any]) -> None:
        write_text(path, json.dumps(content, indent=2) + "\n")

    def write_rows(self, rows: Sequence[Mapping[str, Any]]) -> None:
        write_text(self.metrics, "".join(_json_line(row) for row in rows))

    def append_row(self, row: Mapping[str, Any]) -> None:
        """Add a line to ``metrics.jsonl``; if cut off, the checkpoint has it whole."""
        with self.metrics.open("a", encoding="utf-8") as file:
            file.write(_json_line(row))

    def write_snapshot(
        self, epoch: int, tables: Mapping[str, Mapping[str, Tensor]], gradient_norms: Tensor | None
    ) -> None:
        """Write ``dynamics/epoch-0001.npz``: bins of each split, norms of training gradients."""
        arrays = {
            f"{name}_{key}": value.numpy() for name, table in tables.items() for key, value in table.items()
        }
        if gradient_norms is not None:
            arrays["gradient_norms"] = gradient_norms.numpy()
        self.dynamics.mkdir(exist_ok=True)
        with atomic_write(self.dynamics / f"epoch-{epoch:04}.npz") as temporary:
            np.savez(temporary, allow_pickle=False, **arrays)

    @property
    def sessions(self) -> list[dict[str, Any]]:
        content = json_of(self.environment)
        sessions = content.get("sessions") if isinstance(content, dict) else None
        if not isinstance(sessions, list) or not sessions:
            raise InputError(f"{self.environment} is missing or damaged; restore it or train anew.")
        return sessions

    def note_session(self, *, command: str | None, device: str, processes: int, data_sha256: str) -> None:
        sessions = self.sessions if self.environment.is_file() else []
        here = environment()
        rounding = {name: here.pop(name) for name in ("instructions", "processor")}
        about = {
            "command": command or shlex.join(sys.argv),
            "versions": here,
            "platform": platform.platform(),
        }
        used = {"device": device, "processes": processes, "threads": torch.get_num_threads()}
        session = about | rounding | used | {"data_sha256": data_sha256}
        self.write_json(self.environment, {"sessions": [*sessions, session]})

    def load_checkpoint(self) -> dict[str, Any] | None:
        if not self.checkpoint.is_file():
            return None
        try:
            state = torch.load(self.checkpoint, map_location="cpu", weights_only=True)
        except DAMAGE as error:
            if isinstance(error, OSError) and error.errno not in {None, errno.EINVAL}:
                raise
            raise InputError(
                f"{self.checkpoint} cannot be read: it is damaged or was cut short; remove it, and the same "
                "command trains from the beginning."
            ) from error
        if not isinstance(state, dict) or state.get("format") != CHECKPOINT_FORMAT:
            raise InputError(
                f"{self.checkpoint} is not a checkpoint that this version of calibrant can read."
            )
        return state


HEAT_MAPS = "heat-maps"
CHECKPOINT_FORMAT = 1
BEST = {
    "nll": ("calibration_nll_after_temperature", 1),
    "nll-as-trained": ("calibration_nll", 1),
    "loss": ("calibration_loss", 1),
    "accuracy": ("calibration_accuracy", -1),
}
"""Criteria of the best epoch: an entry of its row, and 1 if lower is better."""


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run, read from its directory."""

    folder: RunFolder
    recipe: Recipe
    rows: tuple[Mapping[str, Any], ...]
    """One per epoch, as in ``metrics.jsonl``."""
    evaluation: Evaluation | None
    """None until the run is finished."""

    @property
    def data_sha256(self) -> str:
        """Fingerprint of the data for training and evaluation."""
        return str(self.folder.sessions[-1]["data_sha256"])

    @property
    def predictions(self) -> Predictions:
        """Logits of the finished network on the calibration and test split."""
        return load_predictions(self.folder.predictions)

    @property
    def snapshots(self) -> dict[int, dict[str, np.ndarray[Any, Any]]]:
        """Recordings of selected epochs: bins of each split, and ``gradient_norms``."""
        found: dict[int, dict[str, np.ndarray[Any, Any]]] = {}
        for path in sorted(self.folder.dynamics.glob("epoch-*.npz")):
            with np.load(path, allow_pickle=False) as archive:
                found[int(path.stem.removeprefix("epoch-"))] = {name: archive[name] for name in archive.files}
        return found

    @property
    def cost(self) -> Mapping[str, Any] | None:
        """Step time against plain cross-entropy; None if the recipe adds nothing."""
        return json_of(self.folder.cost)

    @property
    def conventions(self) -> Mapping[str, Any] | None:
        """Error and ECE with a neutral class struck out or renormalised; None without such a class."""
        return json_of(self.folder.conventions)

    @property
    def kept_row(self) -> Mapping[str, Any]:
        """Row of the evaluated epoch: the last, or the best if the recipe keeps that.

        Raises:
            InputError: If no epoch is done yet.
        """
        if not self.rows:
            raise InputError(f"{self.folder.path} has no finished epoch yet.")
        if self.recipe.training.keep == "last":
            return self.rows[-1]
        key, sign = BEST[self.recipe.training.keep_by]
        known = [row for row in self.rows if row[key] is not None]
        return min(known or self.rows[-1:], key=lambda row: sign * (row[key] or 0))

    def model(self) -> nn.Module:
        """Trained network, in evaluation mode, on the CPU.

        Raises:
            InputError: If nothing was saved yet.
        """
        state = self.folder.load_checkpoint()
        if state is None:
            raise InputError(f"{self.folder.path} has no checkpoint yet.")
        shape, classes = tuple(state["input_shape"]), int(state["num_classes"])
        known = state.get("vectors_shape")
        vectors = None if known is None else torch.zeros(known)  # the saved weights have the real ones
        with torch.random.fork_rng(devices=[]):
            model = build_model(self.recipe.model, input_shape=shape, num_classes=classes, vectors=vectors)
        best = state["best"]
        model.load_state_dict(best["model"] if best is not None and "model" in best else state["model"])
        return model.eval()


def load_run(path: str | os.PathLike[str]) -> Run:
    """Read the directory of a run, finished or not.

    Raises:
        InputError: If there is no run in it.
    """
    folder = RunFolder(path)
    if not folder.holds_run:
        raise InputError(f"{path} holds no run; one has recipe.toml and environment.json.")
    state = folder.load_checkpoint()
    evaluation = None
    if folder.evaluation.is_file():
        evaluation = Evaluation.from_json(folder.evaluation.read_text(encoding="utf-8"))
    return Run(
        folder=folder,
        recipe=load_recipe(folder.recipe),
        rows=() if state is None else tuple(state["history"]),
        evaluation=evaluation,
    )


def json_of(path: Path) -> dict[str, Any] | None:
    if not path.is_file():
        return None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged: it is not JSON; restore it or train anew.") from error


def _json_line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, allow_nan=False) + "\n"


def _is_left_over(entry: Path) -> bool:
    """Return True for a temporary file of a killed process."""
    return entry.name.startswith(".calibrant-")
