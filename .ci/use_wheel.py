"""Use an installed calibrant from outside its sources: every file it needs must have come with the wheel."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import calibrant


def calibrant_command(*arguments: str, folder: Path) -> str:
    """What ``calibrant ARGUMENTS`` prints."""
    command = [str(Path(sys.executable).with_name("calibrant")), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


def main() -> None:
    """Import, evaluate, fit, apply, write a report, list studies and recipes, run the demo."""
    installed = Path(calibrant.__file__).parent
    if not installed.is_relative_to(sys.prefix):
        sys.exit(f"calibrant was imported from {installed}, not from the wheel")
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(600, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "p.npz", logits=3 * logits, labels=labels, split=np.arange(600) % 2)
        arguments = ("evaluate", "p.npz", "--report", "r.html", "--bootstrap", "50")
        said = calibrant_command(*arguments, folder=folder)
        calibrant_command("fit", "p.npz", "--method", "temperature", "-o", "c.safetensors", folder=folder)
        calibrant_command("apply", "c.safetensors", "p.npz", "-o", "q.npz", folder=folder)
        if "Over-confident" not in said or "<svg" not in (folder / "r.html").read_text(encoding="utf-8"):
            sys.exit(f"the evaluation of over-confident predictions said\n{said}")
        calibrant_command("study", "--list", folder=folder)
        if "digits" not in calibrant_command("train", "--list", folder=folder).split():
            sys.exit("the recipes did not come with the wheel")
        if "60 runs" not in calibrant_command("sweep", "digits-losses", "--dry-run", folder=folder):
            sys.exit("the grids did not come with the wheel")
        calibrant_command("demo", "--out", "demo", folder=folder)
    sys.stdout.write(f"calibrant {version('calibrant')} works from {installed}.\n")


if __name__ == "__main__":
    main()
