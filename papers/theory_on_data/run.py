"""Does the theory of focal loss hold on real predictions?

Komisarenko and Kull (2024) say that the focal calibration map always raises the top probability (proposition
5). They argue that focal loss needs a temperature of about 1, as its training temperature makes up for the
step to new data (section 4.1). The map is applied to files of predictions. Temperatures are those of the
study of losses, and those that Mukhoti et al. (2020) printed.
"""
# pyright: basic, reportGeneralTypeIssues=false, reportIndexIssue=false, reportAttributeAccessIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false, reportReturnType=false

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from calibrant._math.errors import InputError
from calibrant_lab.sweep.published import FOLDER
from papers.analysis import Frames, Tables, content, flat_runs, mean_ci, pivot
from papers.losses.run import key_of
from papers.theory_on_data.measure import GAMMAS, theory_on_files

PRINTED = FOLDER / "mukhoti-2020-focal-loss-calibration.csv"
CE = "cross-entropy"
LOSSES = {CE: CE, **{f"focal, γ = {gamma:g}": f"γ = {gamma:g}" for gamma in GAMMAS}}
SOURCES = {"balanced": "ours", "long-tailed": "ours, long-tailed"}
PAPER = "Mukhoti et al. 2020"
SPANS = {"about 1": (2.0, 2.5), "nearer to 1": (1.5, 3.0)}
"""Cross-entropy's temperatures from which section 4.1 argues, and with which section 2 compares."""


def measure(_folder: Path) -> dict[str, Any]:
    """What the map does to the files in the folder that CALIBRANT_DATA names."""
    data = os.environ.get("CALIBRANT_DATA")
    if not data:
        raise InputError("CALIBRANT_DATA must name the folder of the prediction files.")
    return {"files": theory_on_files(Path(data))}


def frames(results: Mapping[str, Any]) -> Frames:
    """``files`` by exponent; ``needed``, temperatures by loss; the frames of the two claims."""
    files = pd.DataFrame(
        {"file": file["name"], "classes": file["num_classes"], **at}
        for file in results["files"]
        for at in file["gammas"]
    )
    needed = pd.concat([_own(), _printed()], ignore_index=True)
    mean = needed.groupby(["source", "seed", "loss"], sort=False)["T"].mean().unstack()
    plain, focal = mean[CE], mean[[loss for loss in LOSSES.values() if loss != CE]]
    far = np.log(needed["T"]).abs().groupby([needed.source, needed.seed, needed.loss]).mean().unstack()
    nearer = far[focal.columns].mean(axis=1) - far[CE]
    frames = {
        "about 1": focal.stack().dropna().rename("value").reset_index(),
        "nearer to 1": nearer.rename("value").reset_index(),
    }
    for name, (low, high) in SPANS.items():
        ends = {source: mean_ci(of) for source, of in plain.groupby("source")}
        asked = [
            source
            for source, (centre, half) in ends.items()
            if source != SOURCES["long-tailed"] and centre + half >= low and centre - half <= high
        ]
        frames[name] = frames[name].assign(asked=frames[name].source.isin(asked))
    return {"files": files, "needed": needed, **frames}


def _own() -> pd.DataFrame:
    """Temperatures by likelihood in the study of losses."""
    rows = pd.DataFrame(
        {**key_of(run), "T": run["parameters"]["temperature"]} for run in flat_runs(content("losses"))
    )
    rows = rows[rows.loss.isin(list(LOSSES))]
    return rows.assign(source=rows.images.map(SOURCES), network="small CNN", loss=rows.loss.map(LOSSES))


def _printed() -> pd.DataFrame:
    """Temperatures that the paper printed, chosen by ECE to a tenth; networks on one data set count once."""
    rows = pd.read_csv(PRINTED).query("metric == 'ECE' and stage == 'post'").dropna(subset="temperature")
    names = {CE: CE, **{f"focal(gamma={gamma:g})": f"γ = {gamma:g}" for gamma in GAMMAS}}
    rows = rows[rows.method.isin(list(names))].drop_duplicates(["dataset", "model", "method"])
    return pd.DataFrame(
        {
            "source": PAPER,
            "seed": rows.dataset,
            "network": rows.model,
            "loss": rows.method.map(names),
            "T": rows.temperature,
        }
    )


def tables(found: Frames) -> Tables:
    """The map of γ = 1 on files of more than two classes on the page; the rest for whoever asks."""
    files = found["files"]
    whole = files.assign(file=files.file.str.split("/").str[-1].str.removesuffix(".npz"))
    whole = pd.DataFrame(
        {
            "file": whole.file,
            "γ": whole.gamma.map("{:g}".format),
            "classes": whole.classes,
            "lowered %": (100 * whole.lowered).map("{:.2f}".format),
            "by at most": whole.largest_fall.map("{:.4f}".format),
            "map is like T": whole.temperature.map("{:.3f}".format),
            "closest T": whole.closest.map("{:.3f}".format),
        }
    ).set_index("file")
    number = {"digits": 2, "scale": 1}
    needed = found["needed"]
    means = needed.groupby(["source", "seed", "loss"], sort=False)["T"].mean().reset_index()
    return {
        "short": whole[(whole["γ"] == "1") & (whole.classes > 2)].drop(columns="γ"),
        "files": whole,
        "temperatures": pivot(means, ["source"], ["loss"], "T", **number),
        "networks": pivot(needed, ["source", "seed", "network"], ["loss"], "T", **number),
    }
