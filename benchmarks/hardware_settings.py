"""Whether bfloat16, channels-last and ``torch.compile`` change calibration by more than the seed does.

Run: ``CALIBRANT_DATA=FOLDER python benchmarks/hardware_settings.py``; what is there is not done again. One
recipe, ``fashion-mnist`` on a small budget, is trained with each setting and several seeds. A seed fixes
initial weights, order and augmentation, so runs of one seed are pairs: each setting is compared with a run
without it by the mean difference over the seeds, with Student's 95 % interval, beside the standard deviation
that the seed alone gives. All numbers are of the test split, as trained. Runs that compile leave out
the smaller last batch of an epoch, and so do those that they are compared with.

A setting changes how sums are rounded, and a training that is near a cliff may fall from it by that alone.
``--nudged SEED`` tells whether one is: it trains with this seed's initial weights, each changed by about a
millionth, in both layouts of memory, and counts what collapses.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from environment import environment, write
from scipy.stats import t as student
from torch import nn

from calibrant import metrics
from calibrant.calibrators import TemperatureScaling
from calibrant_lab.models import build as build_model
from calibrant_lab.training import at_budget, load_recipe, train
from calibrant_lab.training.data import read_training_data

RECIPES = Path(__file__).parents[1] / "recipes"
WHOLE = "training.drop_last=true"
SETTINGS = {
    "plain": [],
    "bfloat16": ["training.precision=bf16-mixed"],
    "channels-last": ["hardware.channels_last=true"],
    "whole batches": [WHOLE],
    "compile, whole batches": [WHOLE, "hardware.compile=true"],
}
AGAINST = {
    "bfloat16": "plain",
    "channels-last": "plain",
    "compile, whole batches": "whole batches",
}
NUDGES, NUDGE = 6, 1e-6
LOST = 0.5
"""Test error above which a training has collapsed: it is 0.9 for a guess, 0.2 for those that have not."""
MEASURES = ("error", "nll", "ece", "smce", "temperature")


def nudged(input_shape: tuple[int, ...], num_classes: int, width: int, nudge: int) -> nn.Module:
    """The recipe's network with initial weights that are slightly others; a ``module:factory``."""
    model = build_model(f"cnn(width={width})", input_shape=input_shape, num_classes=num_classes)
    source = torch.Generator().manual_seed(nudge)
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(1 + NUDGE * torch.randn(weights.shape, generator=source))
    return model


def measured(run: Any) -> dict[str, float]:
    """Numbers of the finished network on the test split, and its temperature by the calibration split."""
    test, held_out = run.predictions.test, run.predictions.calibration
    probs = test.scores.double().softmax(dim=1)
    fit = TemperatureScaling().fit(held_out.scores, held_out.labels).fit_result_
    return {
        "error": 1 - float(metrics.accuracy(probs, test.labels)),
        "nll": float(metrics.negative_log_likelihood(probs, test.labels)),
        "ece": float(metrics.expected_calibration_error(probs, test.labels)),
        "smce": float(metrics.smooth_calibration_error(probs, test.labels)),
        "temperature": float(fit.parameters["temperature"]),
    }


def compared(runs: dict[str, dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Each setting against runs of the same seeds without it, of those seeds with which neither collapsed."""
    found: dict[str, Any] = {}
    for name, other in AGAINST.items():
        pairs = set(runs.get(name, {})) & set(runs.get(other, {}))
        lost = {seed for one in (name, other) for seed in pairs if runs[one][seed]["error"] > LOST}
        seeds = sorted(pairs - lost, key=int)
        if len(seeds) < 2:
            continue
        found[name] = {"against": other, "seeds": len(seeds)}
        for measure in MEASURES:
            without = np.array([runs[other][seed][measure] for seed in seeds])
            each = np.array([runs[name][seed][measure] for seed in seeds]) - without
            half = float(student.ppf(0.975, len(seeds) - 1) * each.std(ddof=1) / np.sqrt(len(seeds)))
            found[name][measure] = {
                "mean_without": float(without.mean()),
                "sd_over_seeds_without": float(without.std(ddof=1)),
                "mean_difference": float(each.mean()),
                "interval": [float(each.mean()) - half, float(each.mean()) + half],
            }
    return found


def collapsed(runs: dict[str, dict[str, dict[str, float]]]) -> dict[str, dict[str, int]]:
    """How many runs collapsed, of how many, by setting; nudged ones by layout."""
    found: dict[str, Counter[str]] = {}
    for name, each in runs.items():
        one = found.setdefault(re.sub(r"nudged \d+", "nudged", name), Counter(collapsed=0, of=0))
        one.update(of=len(each), collapsed=sum(run["error"] > LOST for run in each.values()))
    return {name: dict(one) for name, one in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--only", nargs="*", choices=SETTINGS, default=list(SETTINGS))
    parser.add_argument(
        "--nudged", type=int, metavar="SEED", help="train with this seed, nudged, and no other"
    )
    asked = parser.parse_args()
    path = Path(__file__).parent / "results" / "hardware_settings.json"
    runs = json.loads(path.read_text(encoding="utf-8"))["runs"] if path.exists() else {}
    base = at_budget(load_recipe(RECIPES / "fashion-mnist.toml"), "small")
    base = base.with_settings(["hardware.threads=1", "hardware.accelerator=cpu"])
    data = read_training_data(base)
    alike = {
        f"nudged {k}, {name}": [f"model=hardware_settings:nudged(width=8, nudge={k})", *SETTINGS[name]]
        for k in range(NUDGES)
        for name in ("plain", "channels-last")
    }
    tried = {name: SETTINGS[name] for name in asked.only} if asked.nudged is None else alike
    for seed in range(asked.seeds) if asked.nudged is None else [asked.nudged]:
        for name, settings in tried.items():
            if str(seed) in runs.setdefault(name, {}):
                continue
            recipe = base.with_settings([f"seed={seed}", *settings])
            began = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                run = train(recipe, folder, data=data, report=False)
                took = time.process_time() - began
                runs[name][str(seed)] = measured(run) | {"cpu_seconds": took}
            content = {
                "environment": environment("torch"),
                "recipe": "fashion-mnist, small budget",
                "model": base.model,
                "train_samples": len(data.dataset.train),
                "test_samples": len(data.dataset.test),
                "epochs": base.training.epochs,
                "settings": SETTINGS,
                "differences": compared(runs),
                "collapsed": collapsed(runs),
                "runs": runs,
            }
            write("hardware_settings", content)
            print(name, seed, runs[name][str(seed)], flush=True)


if __name__ == "__main__":
    main()
