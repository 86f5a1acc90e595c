"""Two statements of the theory on real predictions: on raised confidence, and on products of temperatures.

Every file of predictions gives the share of its samples whose top probability the focal calibration map
lowers, and the temperature that the map is most like on the file's own logits. Stored runs, ours and
published ones, give the temperatures that networks trained with focal loss need, against those foretold.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calibrant import theory
from calibrant._math.convex_minimum import convex_minimum
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.means import mean_of, rounded
from calibrant._math.shapes import Float
from calibrant.predictions import Predictions
from calibrant_lab.sweep.kept_runs import KeptRun, read_runs
from calibrant_lab.sweep.matching import matches
from papers.losses.settings import Setting, setting_named
from papers.prediction_files import prediction_files
from papers.theory_on_data.settings import (
    ASKED,
    GAMMAS,
    MAP_CLASSES,
    PUBLISHED,
    STORED,
)

_CLASSES = {"CIFAR-10": 10, "CIFAR-100": 100, "20-Newsgroups": 20, "SST-Binary": 2}
_STORED_CLASSES = 10
_IMPOSSIBLE = 1e150
_SURE = 700.0  # log-odds that are certain


Row = dict[str, Any]
"""A file or a network, as it stands in the results file."""


def theory_on_files(
    folder: Path, *, progress: Callable[[str, float], None] | None = None
) -> tuple[list[Row], int]:
    """Every file of predictions that has all its probabilities; and how many hold the top one alone."""
    tell = progress or (lambda _stage, _fraction: None)
    found: list[Row] = []
    without = 0
    for name, predictions in prediction_files(folder, tell=tell):
        if predictions.kind == "top_label":
            without += 1
        else:
            found.append(_of_file(name, predictions))
    return found, without


def _of_file(name: str, predictions: Predictions) -> Row:
    """What the focal map does to a file, by exponent.

    ``below_threshold`` is the share of the samples whose top probability the map is not sure to raise,
    ``temperature`` that which is most like the map here, ``binary`` and ``closest`` those that are closest to
    the map over all logits, of two classes and of as many as the file has.
    """
    scores = predictions.scores.double()
    if predictions.kind == "multilabel":
        scores = scores.reshape(-1)
    rows = _of_two(scores) if scores.ndim == 1 else scores
    top, num_classes = rows.softmax(1).amax(1), rows.shape[1]

    def at(gamma: float) -> dict[str, float | None]:
        change = asdict(theory.confidence_change(scores, gamma=gamma))
        threshold = theory.confidence_threshold(gamma).above
        found = {
            "gamma": gamma,
            "below_threshold": float((top < threshold).double().mean()),
            **{name: value for name, value in change.items() if name != "num_samples"},
            "temperature": like_the_map(scores, gamma),
            "binary": theory.closest_temperature(gamma).temperature,
            "closest": theory.closest_temperature(gamma, num_classes).temperature,
        }
        return {name: rounded(value) for name, value in found.items()}

    return {
        "name": name,
        "kind": predictions.kind,
        "num_samples": predictions.num_samples,
        "num_classes": num_classes,
        "gammas": [at(gamma) for gamma in GAMMAS],
    }


def like_the_map(scores: Float[Tensor, "N C"] | Float[Tensor, " N"], gamma: float) -> float:
    r"""The temperature whose probabilities have the least cross-entropy against the focal map's.

    .. math:: \operatorname*{arg\,min}_T \; -\sum_{n, i} \rho_\gamma(\mathrm{softmax}(z_n))_i
              \log \mathrm{softmax}(z_n / T)_i

    Args:
        scores: Logits, or log-odds; -inf for what is impossible.
        gamma: Exponent of the map, greater than -1.

    Returns:
        T; convex in 1 / T, so there is one minimum.

    Example:
        >>> round(like_the_map(torch.tensor([1.0, -2.0, 3.0]), 1), 3)  # two classes: 0.5615 at worst
        0.558
    """
    if scores.ndim == 1:
        rows = _of_two(scores.double())
        mapped = focal_map_log_odds(scores.double(), gamma)
        probs = torch.stack([(-mapped).sigmoid(), mapped.sigmoid()], 1)
    else:
        rows = scores.double().log_softmax(1)
        probs = focal_map_logits(rows, gamma).exp()
    rows = rows.clamp(min=-_IMPOSSIBLE)  # finite, and still impossible at every temperature
    target = (probs * rows).sum(1)

    def slopes(inverse: float) -> tuple[float, float]:
        scaled = (inverse * rows).softmax(1)
        mean = (scaled * rows).sum(1)
        spread = (scaled * rows.square()).sum(1) - mean.square()
        return float((mean - target).mean()), float(spread.mean())

    return 1 / convex_minimum(slopes, 1e-3, 1e3)


def _of_two(log_odds: Float[Tensor, " N"]) -> Float[Tensor, "N 2"]:
    return torch.stack([torch.zeros_like(log_odds), log_odds.clamp(-_SURE, _SURE)], 1)


def stored_temperatures(folder: Path) -> list[Row]:
    """From the results of the loss study in a folder: cross-entropy and focal loss, seed by seed."""
    found: list[Row] = []
    for stem, source in STORED.items():
        path = folder / f"{stem}.json"
        if not path.is_file():
            continue
        arms = _by_arm(read_runs(path), setting_named(stem))
        proper = arms["cross-entropy"]
        for gamma in GAMMAS:
            if f"focal-{gamma:g}" not in arms:
                continue
            fitted = arms[f"focal-{gamma:g}"]
            by_seed = {seed: (proper[seed], fitted[seed]) for seed in sorted(proper.keys() & fitted.keys())}
            if by_seed:
                found.append(_needed(source, "Fashion-MNIST", _STORED_CLASSES, gamma, by_seed))
    return found


def published_temperatures(folder: Path) -> list[Row]:
    """From the table of Mukhoti et al. (2020) in a folder: one run each, chosen by ECE to a tenth."""
    path = folder / PUBLISHED
    if not path.is_file():
        return []
    printed: dict[tuple[str, str, str], float] = {}
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if row["metric"] == "ECE" and row["stage"] == "post" and row["temperature"]:
                printed[row["dataset"], row["model"], row["method"]] = float(row["temperature"])
    return [
        _needed(
            "Mukhoti et al. (2020)",
            f"{model}, {dataset}",
            _CLASSES[dataset],
            gamma,
            {
                0: (
                    printed[dataset, model, "cross-entropy"],
                    printed[dataset, model, f"focal(gamma={gamma:g})"],
                )
            },
        )
        for dataset, model in dict.fromkeys((dataset, model) for dataset, model, _ in printed)
        for gamma in GAMMAS
    ]


def _by_arm(runs: Sequence[KeptRun], setting: Setting) -> dict[str, dict[int, float]]:
    """The temperatures of every arm that has runs, by seed."""
    of_arm = {arm.key: [run for run in runs if matches(run.settings, arm.where)] for arm in setting.arms}
    return {
        key: {run.settings["seed"]: run.found["parameters"]["temperature"] for run in own}
        for key, own in of_arm.items()
        if own
    }


def _needed(
    source: str,
    network: str,
    num_classes: int,
    gamma: float,
    by_seed: Mapping[int, tuple[float, float]],
) -> Row:
    """Cross-entropy's temperatures and a focal network's, of the same seeds."""
    proper, needed = zip(*by_seed.values(), strict=True)
    return {
        "source": source,
        "network": network,
        "num_classes": num_classes,
        "gamma": gamma,
        "seeds": [*by_seed],
        "proper": list(proper),
        "needed": list(needed),
        "closest": rounded(theory.closest_temperature(gamma, num_classes).temperature),
        "binary": rounded(theory.closest_temperature(gamma).temperature),
        "ratio": rounded(mean_of([one / two for one, two in zip(needed, proper, strict=True)]).value),
    }


def results(files: Sequence[Row], left_out: int, temperatures: Sequence[Row]) -> dict[str, Any]:
    """The numbers of the study; ``left_out`` files hold the top probability alone."""
    thresholds = {f"{gamma:g}": rounded(theory.confidence_threshold(gamma).above) for gamma in GAMMAS}
    maps = {
        f"{gamma:g}": [rounded(theory.closest_temperature(gamma, each).temperature) for each in MAP_CLASSES]
        for gamma in ASKED
    }
    return {
        "thresholds": thresholds,
        "maps": maps,
        "left_out": left_out,
        "files": list(files),
        "temperatures": list(temperatures),
    }
