"""Finished runs of a store in a few tar files of limited size, and a store made of such files."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from calibrant_lab.sweep.store.places import RESULT_FILE, RUNS
from calibrant_lab.sweep.store.store import Store
from papers.cifar10_fast.measure import LOGITS, WEIGHTS, predictions_of

MEBIBYTE = 2**20
KEPT = ("recipe.toml", "environment.json", LOGITS, RESULT_FILE)
"""What is packed of every run; the result comes last, because it says that the run is whole."""
_HEADER = 1024  # of a file in a tar file, with what fills its last block
_END = 20 * 512  # of a tar file


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
        sizes = [path.stat().st_size for path in self.parts]
        if not wanted:
            return True
        if needed + _END > self._part or sum(sizes) + needed + _END > self._total:
            return False
        fits = [path for path, size in zip(self.parts, sizes, strict=True) if size + needed <= self._part]
        with tarfile.open(fits[0] if fits else self._next(), "a") as file:
            for name in wanted:
                file.add(run / name, f"{run.name}/{name}")
                self.names.add(f"{run.name}/{name}")
        return True

    def _next(self) -> Path:
        taken = {path.name for path in self.parts}
        return self.folder / next(name for n in range(1000) if (name := f"runs-{n}.tar") not in taken)


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
