"""Does the theory of focal loss survive 200 classes?

From four classes on the focal calibration map can lower the top probability, against proposition 5 of
Komisarenko and Kull (2024), and focal calibration loss can be further from the truth than focal loss, against
theorem 4.1 of its paper. Linear heads are trained for Tiny-ImageNet on features of EfficientNet-Lite0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from calibrant.theory import closest_temperature
from papers.analysis import Frames, Tables, beside, means_only, ordered, pivot, relative
from papers.many_classes.measure import CLASSES, GAMMA, LOSSES, OWN
from papers.many_classes.measure import measure as measure

CE, FOCAL = "cross-entropy", "focal, γ = 3"
ROWS = {**LOSSES, OWN: "none: its own head"}
WAYS = {8: "8 epochs", 24: "24 epochs", 0: "ImageNet"}
METRICS = {"error": "error", "nll": "NLL", "ece": "ECE", "classwise_ece": "classwise ECE", "smce": "smCE"}
PARTS = {"share": "images", "top": "top probability", "right": "accuracy", "mapped": "mapped"}
"""Means over the images whose top probability the map lowers, or raises."""


def frames(results: Mapping[str, Any]) -> Frames:
    """``errors`` by stage and metric, one row for each of the ``heads``, and ``parts`` of the images."""
    errors, parts, heads = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for run in results["runs"]:
        key = {"way": run["epochs"], "loss": run["loss"], "seed": run["seed"]}
        errors += [
            {**key, "stage": stage, "metric": title, "value": of[name]}
            for stage, of in run["stages"].items()
            for name, title in METRICS.items()
        ]
        parts += [
            {**key, "part": part, **of, "gap": of["top"] - of["right"]} for part, of in run["map"].items()
        ]
        lowered, fitted = run["map"]["lowered"]["share"], run["with T"]
        heads.append({**key, **run["theorem"], "lowered": lowered, "T": fitted, "error": run["train_error"]})
    found = {"errors": errors, "parts": parts, "heads": heads}
    tidy = {
        name: ordered(ordered(pd.DataFrame(rows), "loss", ROWS), "way", WAYS) for name, rows in found.items()
    }
    heads = tidy["heads"]
    closest = closest_temperature(GAMMA, CLASSES).temperature
    base = beside(heads, heads[heads.loss == CE], ["way", "seed"])["T"]
    trained = tidy["errors"].query("stage == 'as trained' and metric == 'error' and way != 'ImageNet'")
    return {
        **tidy,
        "heads": heads.assign(
            from_one=np.log(heads["T"]).abs(),
            factor=heads["T"] / (base * closest) - 1,
            nearer=heads.fcl - heads.focal,
        ),
        "relative": relative(trained, ["way", "seed"]),
    }


def tables(of: Frames) -> Tables:
    rows = ["way", "loss"]
    errors = of["errors"].query("stage in ['as trained', 'with T'] and way != 'ImageNet'")
    errors = errors[errors.metric.isin(["error", "ECE"]) & errors.loss.ne("FLSD-53")]
    wide = pivot(errors, rows, ["metric", "stage"], "value").drop(columns=[("error", "with T")])
    short = wide.set_axis(["error", "ECE as trained", "ECE with T"], axis=1)
    fitted = pivot(of["heads"], rows, [], "T", scale=1)
    parts = of["parts"][of["parts"].loss == FOCAL].melt(["way", "part", "seed"], list(PARTS), "what")
    return {
        "short": means_only(short.join(fitted), "ECE as trained"),
        "parts": means_only(
            pivot(ordered(parts, "what", PARTS), ["way", "part"], ["what"], "value", digits=1), "accuracy"
        ),
    }
