"""Does the theory of focal loss hold on real predictions?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from calibrant import theory
from calibrant._math.convex_minimum import convex_minimum
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.means import rounded
from calibrant._math.shapes import Float
from calibrant.predictions import Predictions
from calibrant_lab.sweep.published import FOLDER
from papers.analysis import Frames, Tables, content, flat_runs, pivot, reaching
from papers.losses.run import key_of
from papers.prediction_files import data_folder, prediction_files

GAMMAS = (1.0, 2.0, 3.0)
_IMPOSSIBLE = 1e150
_SURE = 700.0  # log-odds that are certain
PRINTED = FOLDER / "mukhoti-2020-focal-loss-calibration.csv"
CE = "cross-entropy"
LOSSES = {CE: CE, **{f"focal, γ = {gamma:g}": f"γ = {gamma:g}" for gamma in GAMMAS}}
SOURCES = {"balanced": "ours", "long-tailed": "ours, long-tailed"}
PAPER = "Mukhoti et al. 2020"
SPANS = {"about 1": (2.0, 2.5), "nearer to 1": (1.5, 3.0)}
"""Cross-entropy's temperatures from which section 4.1 argues, and with which section 2 compares."""


def measure(_folder: Path) -> dict[str, Any]:
    """Every file of predictions that has all its probabilities."""
    files = prediction_files(data_folder())
    return {"files": [_of_file(name, given) for name, given in files if given.kind != "top_label"]}


def _of_file(name: str, predictions: Predictions) -> dict[str, Any]:
    """By exponent, what share the map lowers, by how much at most, and the temperature that is most like it.

    ``closest`` is the temperature closest to the map over all logits of as many classes.
    """
    scores = predictions.scores.double()
    if predictions.kind == "multilabel":
        scores = scores.reshape(-1)
    num_classes = 2 if scores.ndim == 1 else scores.shape[1]

    def at(gamma: float) -> dict[str, float | None]:
        change = theory.confidence_change(scores, gamma=gamma)
        found = {
            "gamma": gamma,
            "lowered": change.lowered,
            "largest_fall": change.largest_fall,
            "temperature": like_the_map(scores, gamma),
            "closest": theory.closest_temperature(gamma, num_classes).temperature,
        }
        return {key: rounded(value) for key, value in found.items()}

    return {
        "name": name,
        "num_samples": predictions.num_samples,
        "num_classes": num_classes,
        "gammas": [at(gamma) for gamma in GAMMAS],
    }


def like_the_map(scores: Float[Tensor, "N C"] | Float[Tensor, " N"], gamma: float) -> float:
    r"""The temperature whose probabilities have the least cross-entropy against the focal map's.

    .. math:: \operatorname*{arg\,min}_T \; -\sum_{n, i} \rho_\gamma(\mathrm{softmax}(z_n))_i
              \log \mathrm{softmax}(z_n / T)_i

    Scores are logits, or log-odds, and -inf for what is impossible. The loss is convex in 1 / T.

    Example:
        >>> round(like_the_map(torch.tensor([1.0, -2.0, 3.0]), 1), 3)  # two classes: 0.5615 at worst
        0.558
    """
    if scores.ndim == 1:
        odds = scores.double().clamp(-_SURE, _SURE)
        rows = torch.stack([torch.zeros_like(odds), odds], 1)
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


def frames(results: Mapping[str, Any]) -> Frames:
    """``files`` by exponent; ``needed``, temperatures by loss; the frames of the two claims."""
    files = pd.DataFrame(
        {"file": file["name"], "classes": file["num_classes"], **at}
        for file in results["files"]
        for at in file["gammas"]
    )
    needed = pd.concat([_own(), _printed()], ignore_index=True)
    mean = needed.groupby(["source", "seed", "loss"], sort=False)["T"].mean().unstack()
    focal = mean[[loss for loss in LOSSES.values() if loss != CE]]
    far = np.log(needed["T"]).abs().groupby([needed.source, needed.seed, needed.loss]).mean().unstack()
    nearer = far[focal.columns].mean(axis=1) - far[CE]
    frames = {"about 1": focal.stack().dropna(), "nearer to 1": nearer}
    for name, span in SPANS.items():
        asked = reaching(mean, "source", CE, span) | {SOURCES["long-tailed"]: False}
        found = frames[name].rename("value").reset_index()
        frames[name] = found.assign(asked=found.source.map(asked))
    return {"files": files, "needed": needed, **frames}


def _own() -> pd.DataFrame:
    runs = flat_runs(content("losses"))
    rows = pd.DataFrame({**key_of(run), "T": run["parameters"]["temperature"]} for run in runs)
    rows = rows[rows.loss.isin(list(LOSSES))]
    return rows.assign(source=rows.images.map(SOURCES), network="small CNN", loss=rows.loss.map(LOSSES))


def _printed() -> pd.DataFrame:
    """Temperatures that the paper printed, chosen by ECE to a tenth; networks on one data set count once."""
    rows = pd.read_csv(PRINTED).query("metric == 'ECE' and stage == 'post'").dropna(subset="temperature")
    names = {CE: CE, **{f"focal(gamma={gamma:g})": f"γ = {gamma:g}" for gamma in GAMMAS}}
    rows = rows[rows.method.isin(list(names))].drop_duplicates(["dataset", "model", "method"])
    titles = {"dataset": "seed", "model": "network", "method": "loss", "temperature": "T"}
    found = rows[list(titles)].rename(columns=titles)
    return found.assign(source=PAPER, loss=found.loss.map(names))


def tables(found: Frames) -> Tables:
    files = found["files"].query("gamma == 1 and classes > 2")
    short = pd.DataFrame(
        {
            "file": files.file.str.split("/").str[-1].str.removesuffix(".npz"),
            "classes": files.classes,
            "lowered %": (100 * files.lowered).map("{:.2f}".format),
            "by at most": files.largest_fall.map("{:.4f}".format),
            "map is like T": files.temperature.map("{:.3f}".format),
            "closest T": files.closest.map("{:.3f}".format),
        }
    ).set_index("file")
    means = found["needed"].groupby(["source", "seed", "loss"], sort=False)["T"].mean().reset_index()
    return {"short": short, "temperatures": pivot(means, ["source"], ["loss"], "T", scale=1)}
