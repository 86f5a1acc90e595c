"""Evaluate EfficientNet-Lite0 on part of Tiny-ImageNet, and write the table of ``docs/how-to/predict.md``.

``CALIBRANT_DATA=data python examples/run_efficientnet.py FOLDER`` works in FOLDER on the first validation
images of each class; ``efficientnet_lite0.py`` names the packages that must be installed. The numbers go to
``efficientnet.json``, and from there into the page's table.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
PAGE, NUMBERS = HERE.parent / "docs" / "how-to" / "predict.md", HERE / "efficientnet.json"
EACH = 20  # images of a class
SETTINGS = ("bootstrap", "null_draws", "level", "seed")
ROWS = {"accuracy": "accuracy", "mean_confidence": "mean confidence", "ece": "ECE, 15 bins", "nll": "NLL"}


def main(folder: Path) -> None:
    """The subset, the page's network and commands, the numbers, the table."""
    folder.mkdir(parents=True, exist_ok=True)
    subset(Path(os.environ["CALIBRANT_DATA"]), folder / "data")
    page = PAGE.read_text(encoding="utf-8")
    shutil.copy(HERE / "efficientnet_lite0.py", folder)
    commands = commands_of(page)
    for command in commands:
        start = [sys.executable, "-m", *shlex.split(command)]
        subprocess.run(
            start, cwd=folder, check=True, env=os.environ | {"CALIBRANT_DATA": str(folder / "data")}
        )
    kept = numbers(json.loads((folder / "evaluation.json").read_text(encoding="utf-8")), commands)
    NUMBERS.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    PAGE.write_text(with_table(page, kept), encoding="utf-8")


def commands_of(page: str) -> list[str]:
    """The page's own, with few draws."""
    predict = re.search(r"^(calibrant predict efficientnet.*\\\n.*)$", page, flags=re.MULTILINE)
    if predict is None:
        raise ValueError(f"{PAGE} must show how EfficientNet predicts")
    one_line = re.sub(r"\s*\\\n\s*", " ", predict.group(1))
    return [one_line, "calibrant evaluate predictions.npz --bootstrap 200 --json evaluation.json"]


def subset(source: Path, target: Path) -> None:
    """The first validation images of each class, in the form in which the whole set is stored."""
    with np.load(source / "tiny_imagenet" / "tiny_imagenet.npz") as whole:
        content, offsets, labels = (whole[f"{key}_val"] for key in ("jpeg", "offset", "y"))
        names = whole["class_names"]
    rows = np.sort(np.concatenate([np.flatnonzero(labels == label)[:EACH] for label in range(len(names))]))
    pieces = [content[offsets[row] : offsets[row + 1]] for row in rows]
    ends = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
    part = {"jpeg": np.concatenate(pieces), "offset": ends, "y": labels[rows]}
    first = {"jpeg": part["jpeg"][: ends[2]], "offset": ends[:3], "y": labels[rows][:2]}  # is not looked at
    splits = {"val": part, "train": first}
    arrays = {f"{key}_{split}": each for split, found in splits.items() for key, each in found.items()}
    (target / "tiny_imagenet").mkdir(parents=True, exist_ok=True)
    np.savez(target / "tiny_imagenet" / "tiny_imagenet.npz", allow_pickle=False, class_names=names, **arrays)


def numbers(evaluation: dict[str, Any], commands: list[str]) -> dict[str, Any]:
    """What the page shows of an evaluation, and how it was made."""
    arms = {
        arm["title"]: {
            key: [arm["metrics"][key][which] for which in ("value", "low", "high")] for key in ROWS
        }
        for arm in evaluation["arms"]
    }
    return {
        "images": f"the first {EACH} validation images of each class of Tiny-ImageNet, as JPEG",
        "commands": commands,
        "num_calibration": evaluation["num_calibration"],
        "num_test": evaluation["num_test"],
        "settings": {
            key: evaluation["settings"][key] for key in ("bootstrap", "null_draws", "level", "seed")
        },
        "versions": evaluation["versions"],
        "arms": arms,
    }


def table(kept: dict[str, Any]) -> str:
    """Values with their intervals, a column for each arm."""
    titles = ["uncalibrated", *(title[:1].lower() + title[1:] for title in list(kept["arms"])[1:])]
    rows = [[f"n = {kept['num_test']} images", *titles], ["---"] * (1 + len(titles))]
    for key, name in ROWS.items():
        values = [arm[key] for arm in kept["arms"].values()]
        rows.append([name, *(f"{value:.3f} [{low:.3f}, {high:.3f}]" for value, low, high in values)])
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def with_table(page: str, kept: dict[str, Any]) -> str:
    """The page with these numbers in its last table."""
    return re.sub(r"^\| n = (?:.*\n)(?:\|.*\n)*", table(kept), page, flags=re.MULTILINE)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
