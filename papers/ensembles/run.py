"""What does the mean of five networks add to a temperature, and to focal loss?"""

import math
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from calibrant import metrics
from calibrant.calibrators import build
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import load_predictions
from calibrant_lab.sweep.kept_runs import kept_results
from papers.analysis import Frames, Tables, resampled
from papers.refinement.run import LOSSES
from papers.studies import grid_of

Halves: TypeAlias = tuple[Labelled, Labelled]
Arm: TypeAlias = tuple[str, str, str]
Images: TypeAlias = Mapping[str, NDArray[np.float64]]
KEY, SINGLE, ENSEMBLE = ("loss", "networks", "repair"), "one", "five"
REPAIRS = {"as trained": "", "temperature": "temperature", "focal temperature": "focal-temperature"}
FORMS = {"error": (100, 2), "NLL": (1, 3), "ECE": (100, 2)}
"""What is measured: scale and digits in the table."""
NETWORKS, RESAMPLES = 5, 500


def measure(_folder: Path, store: str = "study/refinement") -> dict[str, Any]:
    """Errors of single networks and of their mean, and differences with standard errors over test images."""
    members: dict[str, list[Halves]] = {}
    for result in kept_results(grid_of("refinement"), Path(store)):
        if result.settings["training.keep"] == "last" and result.settings["seed"] < NETWORKS:
            predictions = load_predictions(result.file("predictions.npz"))
            halves = (Labelled.of(predictions.calibration), Labelled.of(predictions.test))
            members.setdefault(LOSSES[result.settings["loss"]], []).append(halves)
    images: dict[Arm, list[Images]] = {}
    for loss, halves in members.items():
        pooled = [(_pooled([each[0] for each in halves]), _pooled([each[1] for each in halves]))]
        for repair, name in REPAIRS.items():
            images[loss, SINGLE, repair] = [_images(*each, name) for each in halves]
            images[loss, ENSEMBLE, repair] = [_images(*each, name) for each in pooled]
    size = len(next(iter(images.values()))[0]["wrong"])
    found = {arm: _measured(each, np.ones(size)) for arm, each in images.items()}
    resamples = [
        {arm: _measured(each, counts) for arm, each in images.items()}
        for counts in resampled(size, RESAMPLES)
    ]
    gains = []
    for (first, second), (place, name) in product(_pairs(list(members)), enumerate(FORMS)):
        error = float(np.std([of[first][place] - of[second][place] for of in resamples], ddof=1))
        key = {"first": ", ".join(first), "second": ", ".join(second), "measure": name}
        value = float(found[first][place] - found[second][place])
        gains.append({**key, "value": value, "standard_error": error})
    return {
        "num_test": size,
        "arms": [dict(zip((*KEY, *FORMS), (*arm, *values), strict=True)) for arm, values in found.items()],
        "gains": gains,
    }


def _pairs(losses: list[str]) -> list[tuple[Arm, Arm]]:
    """The mean against single networks, by repair; then the mean of cross-entropy's against other ways."""
    found = [((loss, ENSEMBLE, repair), (loss, SINGLE, repair)) for loss in losses for repair in REPAIRS]
    for repair in REPAIRS:
        found.append((("cross-entropy", ENSEMBLE, "as trained"), ("cross-entropy", SINGLE, repair)))
        found.append((("cross-entropy", ENSEMBLE, repair), ("FLSD-53", SINGLE, repair)))
    return list(dict.fromkeys(found))


def _pooled(members: list[Labelled]) -> Labelled:
    logs = torch.stack([each.scores.double().log_softmax(dim=1) for each in members])
    return Labelled(logs.logsumexp(dim=0) - math.log(len(members)), members[0].labels, None)


def _images(held_out: Labelled, test: Labelled, name: str) -> Images:
    """By test image, after a calibrator: whether it is wrong, its NLL, its confidence."""
    probs = test.scores.double().softmax(dim=1)
    if name:
        probs = fit_quietly(build(name), held_out).predict_proba(test.scores).double()
    confidence, predicted = probs.max(dim=1)
    nll = -probs.gather(1, test.labels[:, None])[:, 0].log()
    wrong = (predicted != test.labels).double().numpy()
    return {"wrong": wrong, "nll": nll.numpy(), "sure": confidence.numpy()}


def _measured(several: list[Images], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Error, NLL and ECE of images that count so often: the mean over networks."""
    columns = [[np.average(of[name], weights=counts) for of in several] for name in ("wrong", "nll")]
    ece = metrics.expected_calibration_error
    columns.append([float(ece(of["sure"], 1 - of["wrong"], weights=counts)) for of in several])
    return np.mean(columns, axis=1)


def frames(results: Mapping[str, Any]) -> Frames:
    """``arms`` by loss, networks and repair; ``gains`` of pairs, ``same`` but for the number."""
    gains = pd.DataFrame(results["gains"])
    ends = [gains[of].str.rsplit(", ", n=2, expand=True) for of in ("first", "second")]
    same = (ends[0][0] == ends[1][0]) & (ends[0][2] == ends[1][2])
    gains = gains.assign(loss=ends[0][0], repair=ends[0][2], same=same)
    return {"arms": pd.DataFrame(results["arms"]), "gains": gains}


def tables(of: Frames) -> Tables:
    arms = of["arms"].query("repair != 'focal temperature' and loss != 'FLSD-53'").copy()
    for name, (scale, digits) in FORMS.items():
        arms[name] = [f"{scale * value:.{digits}f}" for value in arms[name]]
    return {"short": arms.set_index(list(KEY))[list(FORMS)]}
