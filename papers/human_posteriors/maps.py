"""Maps with one exponent, fitted by trying a grid of exponents; and what people say of every image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from calibrant import theory
from calibrant._math.shapes import Float, Int
from papers.human_posteriors.settings import (
    ASKED,
    FCL_ASKED,
    FOCAL_ASKED,
    MAP,
    MAPPED,
    WEIGHT,
)


def focal_map(log_probs: Float[Tensor, "N C"], gamma: float) -> Float[Tensor, "N C"]:
    """Log-probabilities of the focal calibration map."""
    return theory.focal_calibration_map_logits(log_probs, gamma=gamma).log_softmax(1)


def focal_answer(log_probs: Float[Tensor, "N C"], gamma: float) -> Float[Tensor, "N C"]:
    """Log-probabilities of what focal loss asks for where these are the truth."""
    return theory.inverse_focal_calibration_map_logits(log_probs, gamma=gamma).log_softmax(1)


def fcl_answer(log_probs: Float[Tensor, "N C"], gamma: float) -> Float[Tensor, "N C"]:
    """Log-probabilities of what focal calibration loss asks for where these are the truth."""
    return theory.focal_calibration_minimiser(log_probs.exp(), gamma=gamma, calibration_weight=WEIGHT).log()


MAPS: Mapping[str, tuple[Callable[[Tensor, float], Tensor], tuple[float, ...]]] = {
    MAP: (focal_map, MAPPED),
    FOCAL_ASKED: (focal_answer, ASKED),
    FCL_ASKED: (fcl_answer, ASKED),
}
"""Maps by name, with the exponents to try."""


@dataclass(frozen=True)
class Judged:
    """Images, what a network says of them, their labels, and how many people chose each class."""

    log_probs: Float[Tensor, "N C"]
    labels: Int[Tensor, " N"]
    counts: Float[Tensor, "N C"]

    @cached_property
    def people(self) -> Float[Tensor, "N C"]:
        """The share of people who chose each class."""
        return self.counts / self.counts.sum(1, keepdim=True)

    @cached_property
    def noise(self) -> Float[Tensor, " N"]:
        """What the chance of who was asked adds to an image's squared distance, on average."""
        asked = self.counts.sum(1)
        return (self.people * (1 - self.people)).sum(1) / (asked - 1)

    def rows(self, index: Tensor) -> Judged:
        """The images at these rows."""
        return Judged(self.log_probs[index], self.labels[index], self.counts[index])

    def by_people(self, rows: Tensor, weights: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities, classes and weights to fit to people: a sample for each chosen class."""
        image, chosen = self.counts[rows].nonzero(as_tuple=True)
        share = self.people[rows][image, chosen]
        return self.log_probs[rows][image], chosen, share if weights is None else share * weights[image]

    def scores(self, log_probs: Float[Tensor, "N C"]) -> dict[str, Float[Tensor, " N"]]:
        """Measures of each image, of log-probabilities given for it.

        ``nll`` and ``distance`` are against people's shares, the latter less what chance adds; ``label_nll``
        against the label; ``excess`` is the confidence in the network's class less the share that chose it.

        Example:
            >>> said = torch.tensor([[0.5, 0.5]]).log()
            >>> one = Judged(said, torch.tensor([0]), torch.tensor([[30.0, 20.0]]))
            >>> found = one.scores(one.log_probs)
            >>> [round(found[name].item(), 4) for name in ("nll", "distance", "label_nll", "excess")]
            [0.6931, 0.0102, 0.6931, -0.1]
        """
        probs = log_probs.exp()
        top = probs.argmax(1, keepdim=True)
        return {
            "nll": -(self.people * log_probs.clamp(min=-1e4)).sum(1),
            "distance": (self.people - probs).square().sum(1) - self.noise,
            "label_nll": -log_probs.gather(1, self.labels[:, None]).squeeze(1),
            "excess": (probs.gather(1, top) - self.people.gather(1, top)).squeeze(1),
        }


class Tried:
    """A map at every exponent of its grid: scores of each image.

    Args:
        data: Images with a network's log-probabilities.
        name: Name of the map.
    """

    def __init__(self, data: Judged, name: str) -> None:
        self._map, self.exponents = MAPS[name]
        found = [data.scores(self._map(data.log_probs, gamma)) for gamma in self.exponents]
        self.scores = {key: torch.stack([each[key] for each in found], 1) for key in found[0]}  # (N, E)

    def best(self, rows: Tensor, weights: Tensor | None = None) -> int:
        """The place of the exponent with the least NLL of the labels of these rows."""
        table = self.scores["label_nll"][rows]
        total = table.sum(0) if weights is None else weights @ table
        return int(total.argmin())
