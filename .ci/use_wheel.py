"""Use installed wheels from outside their sources: every file they need must have come with them.

``use_wheel.py`` tries calibrant alone, ``use_wheel.py lab`` also the commands of calibrant-lab.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import numpy as np

import calibrant


def run(*arguments: str, folder: Path, code: int = 0) -> str:
    """What ``calibrant ARGUMENTS`` prints."""
    command = [str(Path(sys.executable).with_name("calibrant")), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(arguments)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def instrument(folder: Path) -> None:
    """Evaluate, check, fit, apply, draw, run the demo; the laboratory is offered where it is missing."""
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(600, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    np.savez(folder / "p.npz", logits=3 * logits, labels=labels, split=np.arange(600) % 2)
    said = run("evaluate", "p.npz", "--report", "r.html", "--bootstrap", "50", folder=folder)
    if "Overconfident" not in said or "<svg" not in (folder / "r.html").read_text(encoding="utf-8"):
        sys.exit(f"the evaluation of overconfident predictions said\n{said}")
    run("check", "p.npz", "--max-ece", "0.01", "--bootstrap", "50", folder=folder, code=1)
    run("fit", "p.npz", "--method", "temperature", "-o", "c.safetensors", folder=folder)
    run("apply", "c.safetensors", "p.npz", "-o", "q.npz", folder=folder)
    run("figure", "reliability", "p.npz", folder=folder)
    run("demo", "--out", "demo", folder=folder)


def laboratory(folder: Path) -> None:
    """List recipes, plan a sweep, train two small networks and tabulate them, draw a figure of the theory."""
    if "digits" not in run("train", "--list", folder=folder).split():
        sys.exit("the recipes did not come with the wheel")
    if "60 runs" not in run("sweep", "digits-losses", "--dry-run", folder=folder):
        sys.exit("the grids did not come with the wheel")
    run("figure", "gradient-factor", folder=folder)
    axes = 'loss = ["cross-entropy", "focal(gamma=3)"]\n"training.epochs" = [1]\n'
    (folder / "grid.toml").write_text(f'recipe = "digits"\n\n[axes]\n{axes}', encoding="utf-8")
    run("sweep", "grid.toml", "--store", "store", folder=folder)
    if "focal(gamma=3)" not in run("table", "store", folder=folder):
        sys.exit("the table of the sweep has no row for focal loss")


def main() -> None:
    """Try what is installed."""
    installed = Path(calibrant.__file__).parent
    if not installed.is_relative_to(sys.prefix):
        sys.exit(f"calibrant was imported from {installed}, not from the wheel")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        instrument(folder)
        if "lab" in sys.argv:
            laboratory(folder)
        elif "pip install 'calibrant[lab]'" not in run("train", "digits", folder=folder, code=2):
            sys.exit("`calibrant train` does not say what to install")
    if importlib.util.find_spec("lightning") and "lab" not in sys.argv:
        sys.exit("the wheel brought Fabric, which only the laboratory needs")
    sys.stdout.write(f"calibrant {version('calibrant')} works from {installed}.\n")


if __name__ == "__main__":
    main()
