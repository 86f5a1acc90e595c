"""What the focal calibration map does to files of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calibrant import theory
from calibrant._math.convex_minimum import convex_minimum
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.means import rounded
from calibrant._math.shapes import Float
from calibrant.predictions import Predictions
from papers.prediction_files import prediction_files

GAMMAS = (1.0, 2.0, 3.0)
_IMPOSSIBLE = 1e150
_SURE = 700.0  # log-odds that are certain


def theory_on_files(folder: Path) -> list[dict[str, Any]]:
    """Every file of predictions that has all its probabilities."""
    return [_of_file(name, given) for name, given in prediction_files(folder) if given.kind != "top_label"]


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
