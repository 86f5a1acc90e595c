"""Does calibration to labels bring a network nearer to people's judgements?

The judgements are those of CIFAR-10H (Peterson et al. 2019).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from calibrant import metrics, theory
from calibrant._math.errors import InputError, without_warnings
from calibrant._math.means import rounded
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import Calibrator, build
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.evaluation.fitting.split import stratified_folds
from calibrant.predictions import Predictions, load_predictions
from papers.analysis import Frames, Tables, ordered, resampled
from papers.prediction_files import data_folder

JUDGEMENTS = "cifar10h_human_labels/cifar10h.npz"
NETWORKS: Mapping[str, tuple[str, str]] = {
    "vgg16": ("VGG-16", "logits_cifar10_vgg16_probs/cifar10_vgg16.npz"),
    "lenet5": ("LeNet-5", "logits_netcal_cifar/lenet-5-cifar-10.npz"),
}
"""Networks with outputs on the test images of CIFAR-10, in the order of the judgements: title and file."""
DIVISIONS = 5
"""Divisions of the images into halves; each half is judged by what was fitted on the other."""
REFITS = 100
"""Resamples of the images to which everything is fitted again."""
TOP = 0.01
"""The share of the images whose part in a difference is told: those that differ most."""
MEASURES = ("nll", "distance")
AS_TRAINED = "as-trained"
BY_LABELS = ("temperature", "focal-temperature", "ensemble-temperature", "vector")
BY_PEOPLE = {"temperature-people": "temperature", "focal-temperature-people": "focal-temperature"}


def focal_map(log_probs: Float[Tensor, "N C"], gamma: float) -> Float[Tensor, "N C"]:
    return theory.focal_calibration_map_logits(log_probs, gamma=gamma).log_softmax(1)


def focal_answer(log_probs: Float[Tensor, "N C"], gamma: float) -> Float[Tensor, "N C"]:
    """Log-probabilities of what focal loss asks for where these are the truth."""
    return theory.inverse_focal_calibration_map_logits(log_probs, gamma=gamma).log_softmax(1)


def fcl_answer(log_probs: Float[Tensor, "N C"], gamma: float) -> Float[Tensor, "N C"]:
    """The same of focal calibration loss, with a weight of one half."""
    return theory.focal_calibration_minimiser(log_probs.exp(), gamma=gamma, calibration_weight=0.5).log()


_ASKED = tuple(step / 4 for step in range(41))
MAPS: Mapping[str, tuple[Callable[[Tensor, float], Tensor], tuple[float, ...]]] = {
    "focal-map": (focal_map, tuple(step / 20 for step in range(-19, 61))),
    "focal-asked": (focal_answer, _ASKED),
    "fcl-asked": (fcl_answer, _ASKED),
}
"""Maps by name, with the exponents to try."""
IDEAL: Mapping[str, Callable[[Tensor], Tensor]] = {
    "ideal-focal": lambda log_probs: focal_answer(log_probs, 1.0),
    "ideal-fcl": lambda log_probs: fcl_answer(log_probs, 3.0),
}
"""What the two losses ask for where temperature scaling is right."""
REFITTED = (*BY_LABELS[:2], *BY_PEOPLE, *MAPS, *IDEAL)
PAIRS = (
    ("temperature", AS_TRAINED),
    ("focal-temperature", AS_TRAINED),
    ("focal-temperature", "temperature"),
    *((name, other) for name in MAPS for other in (AS_TRAINED, "temperature")),
    *((name, "temperature") for name in IDEAL),
    ("temperature-people", "temperature"),
    ("focal-temperature-people", "temperature-people"),
)
"""What is compared: the first is asked to be nearer to people than the second."""
Means: TypeAlias = dict[str, dict[str, float]]
"""Numbers by arm and measure."""


@dataclass(frozen=True)
class Judged:
    """Images, what a network says of them, their labels, and how many people chose each class."""

    log_probs: Float[Tensor, "N C"]
    labels: Int[Tensor, " N"]
    counts: Float[Tensor, "N C"]

    @cached_property
    def people(self) -> Float[Tensor, "N C"]:
        return self.counts / self.counts.sum(1, keepdim=True)

    @cached_property
    def noise(self) -> Float[Tensor, " N"]:
        """What the chance of who was asked adds to an image's squared distance, on average."""
        asked = self.counts.sum(1)
        return (self.people * (1 - self.people)).sum(1) / (asked - 1)

    def by_people(self, rows: Tensor | slice, weights: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
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
    """A map at every exponent of its grid: scores of each image."""

    def __init__(self, data: Judged, name: str) -> None:
        function, self.exponents = MAPS[name]
        found = [data.scores(function(data.log_probs, gamma)) for gamma in self.exponents]
        self.scores = {key: torch.stack([each[key] for each in found], 1) for key in found[0]}  # (N, E)

    def best(self, rows: Tensor, weights: Tensor | None = None) -> int:
        """The place of the exponent with the least NLL of the labels of these rows."""
        table = self.scores["label_nll"][rows]
        return int((table.sum(0) if weights is None else weights @ table).argmin())


def measure(_folder: Path) -> dict[str, Any]:
    source = data_folder()
    networks = [
        {"network": key, "title": title, "file": file, **measured(read(source, file), DIVISIONS, REFITS)}
        for key, (title, file) in NETWORKS.items()
    ]
    return {"divisions": DIVISIONS, "refits": REFITS, "networks": networks}


def read(folder: Path, file: str) -> Judged:
    return beside_people(folder, load_predictions(_there(folder / file)), name=str(folder / file))


def beside_people(folder: Path, predictions: Predictions, *, name: str = "the test split") -> Judged:
    """What a network says of the test images of CIFAR-10 beside people's judgements of them."""
    with np.load(_there(folder / JUDGEMENTS), allow_pickle=False) as archive:
        counts, labels = (torch.from_numpy(archive[key].astype(np.int64)) for key in ("counts", "labels"))
    if predictions.labels is None or not torch.equal(predictions.labels, labels):
        raise InputError(f"{name} is not in the order of the judgements.")
    return Judged(predictions.scores.double().log_softmax(1), labels, counts.double())


def _there(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path} is missing; the study needs it.")
    return path


def measured(data: Judged, divisions: int, refits: int) -> dict[str, Any]:
    """The numbers of one network: means over images, and errors of differences with their origin."""
    tried = {name: Tried(data, name) for name in MAPS}
    runs = [_Division(data, tried, seed) for seed in range(divisions)]
    ece = metrics.expected_calibration_error
    arms: Means = {}
    mean: dict[str, dict[str, Tensor]] = {}
    for arm in ARMS:
        each = [data.scores(run.said[arm]) for run in runs]
        mean[arm] = {name: torch.stack([one[name] for one in each]).mean(0) for name in each[0]}
        fitted, probs = [run.parameters(arm) for run in runs], [run.said[arm].exp() for run in runs]
        arms[arm] = {
            **{name: float(values.mean()) for name, values in mean[arm].items()},
            "ece": float(np.mean([float(ece(p / p.sum(1, keepdim=True), data.labels)) for p in probs])),
            **{name: float(np.mean([one[name] for one in fitted])) for name in fitted[0]},
        }
    again = runs[0].refitted(refits)
    return {
        "num_images": len(data.labels),
        "error": rounded(float((data.log_probs.argmax(1) != data.labels).double().mean())),
        "arms": {arm: {name: rounded(value) for name, value in of.items()} for arm, of in arms.items()},
        "pairs": [_pair(data, mean, again, first, second) for first, second in PAIRS],
        "temperatures": {name: rounded(value) for name, value in _temperatures(data, refits).items()},
        "people": {
            "entropy": rounded(float(torch.special.entr(data.people).sum(1).mean())),
            "unanimous": rounded(float((data.people.amax(1) == 1).double().mean())),
            "noise": rounded(float(data.noise.mean())),
        },
    }


def fitted_to(
    data: Judged, name: str, seen: Tensor | slice, weights: Tensor, like: Calibrator | None = None
) -> Calibrator:
    """Fit to the labels or to the people of these images, or fit one ``like`` this again."""
    rows, chosen, share = data.log_probs[seen], data.labels[seen], weights
    if name in BY_PEOPLE:
        rows, chosen, share = data.by_people(seen, weights)
    fitting = build(BY_PEOPLE.get(name, name)).fit if like is None else like.refit
    with without_warnings():
        return fitting(rows[share > 0], chosen[share > 0], weights=share[share > 0])


class _Division:
    """The images in two halves; each is judged by what was fitted on the other."""

    def __init__(self, data: Judged, tried: Mapping[str, Tried], seed: int) -> None:
        self._data, self._tried = data, tried
        divided = stratified_folds(Predictions(logits=data.log_probs, labels=data.labels), 2, seed)
        halves = torch.from_numpy(divided)
        self._halves = [(halves != half, halves == half) for half in (0, 1)]
        names = (*BY_LABELS, *BY_PEOPLE)
        once = torch.ones(len(divided), dtype=torch.float64)
        self._fits = {
            name: [fitted_to(data, name, seen, once[seen]) for seen, _ in self._halves] for name in names
        }
        self._exponents = {
            name: [each.exponents[each.best(seen)] for seen, _ in self._halves]
            for name, each in tried.items()
        }
        self.said = {AS_TRAINED: data.log_probs}
        self.said |= {name: self._on_others(fits) for name, fits in self._fits.items()}
        for name, exponents in self._exponents.items():
            self.said[name] = self._on_others([partial(MAPS[name][0], gamma=gamma) for gamma in exponents])
        self.said |= {name: answer(self.said["temperature"]) for name, answer in IDEAL.items()}

    def _on_others(self, fits: list[Any]) -> Tensor:
        """What was fitted on either half, applied to the other."""
        found = torch.empty_like(self._data.log_probs)
        for fitted, (_, judged) in zip(fits, self._halves, strict=True):
            found[judged] = fitted(self._data.log_probs[judged]).double()
        return found

    def parameters(self, arm: str) -> dict[str, float]:
        """Mean over the two fits of what was fitted, where it is one number each."""
        if arm in self._exponents:
            return {"gamma": float(np.mean(self._exponents[arm]))}
        each = [fit.fit_result_.parameters for fit in self._fits.get(arm, ())]
        names = [name for name, value in each[0].items() if isinstance(value, float)] if each else []
        return {name: float(np.mean([float(one[name]) for one in each])) for name in names}

    def refitted(self, number: int) -> list[Means]:
        """Means over resampled images, of arms that were fitted again to them."""
        size = len(self._data.labels)
        found: list[Means] = []
        fixed = self._data.scores(self._data.log_probs)
        for drawn in resampled(size, number):
            counts = torch.from_numpy(drawn).double()
            arms = {AS_TRAINED: fixed} | {name: self._scores_again(name, counts) for name in REFITTED}
            found.append({})
            for arm, scores in arms.items():
                found[-1][arm] = {name: float(counts @ scores[name]) / size for name in MEASURES}
        return found

    def _scores_again(self, name: str, counts: Tensor) -> dict[str, Tensor]:
        data = self._data
        if name in self._tried:
            tried = self._tried[name]
            found = {key: torch.empty(len(data.labels), dtype=torch.float64) for key in tried.scores}
            for seen, judged in self._halves:
                place = tried.best(seen, counts[seen])
                for key, table in tried.scores.items():
                    found[key][judged] = table[judged, place]
            return found
        fitted = "temperature" if name in IDEAL else name
        both = zip(self._halves, self._fits[fitted], strict=True)
        again = [fitted_to(data, fitted, seen, counts[seen], like) for (seen, _), like in both]
        said = self._on_others(again)
        return data.scores(IDEAL[name](said) if name in IDEAL else said)


def _pair(
    data: Judged, mean: dict[str, dict[str, Tensor]], again: list[Means], first: str, second: str
) -> dict[str, Any]:
    """Errors of a difference, and which images it comes from."""
    agreement = data.people.amax(1)
    parts = {
        "unanimous": agreement == 1,
        "nearly": (agreement < 1) & (agreement >= 0.9),
        "split": agreement < 0.9,
        "wrong": data.log_probs.argmax(1) != data.labels,
    }
    found: dict[str, Any] = {"first": first, "second": second}
    for name in MEASURES:
        gains = mean[second][name] - mean[first][name]  # above zero: the first is nearer to people
        rest = gains.abs().argsort(descending=True)[max(1, int(TOP * len(gains))) :]
        refits = [each[second][name] - each[first][name] for each in again]
        found[name] = {
            "error": rounded(float(gains.std()) / len(gains) ** 0.5),
            "refit_error": rounded(float(np.std(refits, ddof=1))),
            "nearer": rounded(float((gains > 0).double().mean())),
            "without_top": rounded(float(gains[rest].mean())),
            "parts": {key: rounded(float(gains[rows].sum()) / len(gains)) for key, rows in parts.items()},
        }
    return found


def _temperatures(data: Judged, refits: int) -> dict[str, float]:
    """The temperature that labels ask for and the one that people ask for, with the error of their ratio."""

    def fitted(counts: Tensor) -> tuple[float, ...]:
        fits = (fitted_to(data, name, slice(None), counts) for name in ("temperature", "temperature-people"))
        return tuple(fitted_number(fit.fit_result_, "temperature") for fit in fits)

    size = len(data.labels)
    labels, people = fitted(torch.ones(size, dtype=torch.float64))
    again = (fitted(torch.from_numpy(drawn).double()) for drawn in resampled(size, refits, seed=1))
    ratios = [np.log(two / one) for one, two in again]
    return {"labels": labels, "people": people, "error": float(np.std(ratios, ddof=1))}


ARMS = {
    "as-trained": "as trained",
    "temperature": "temperature",
    "focal-temperature": "focal temperature",
    "focal-map": "focal map",
    "focal-asked": "focal loss's answer, γ fitted",
    "fcl-asked": "FCL's answer, γ fitted",
    "ensemble-temperature": "ensemble temperature",
    "vector": "vector",
    "ideal-focal": "temperature, then focal loss's answer",
    "ideal-fcl": "temperature, then FCL's answer",
    "temperature-people": "temperature, fitted to people",
    "focal-temperature-people": "focal temperature, fitted to people",
}
COLUMNS = (("ECE", "ece", 100, 2), ("log loss", "nll", 1, 4))
"""Of each network: title, name, scale and digits."""


def frames(results: Mapping[str, Any]) -> Frames:
    """``arms`` and ``gains`` by network, and the ``temperatures`` that people and labels ask for."""
    arms, gains, temperatures = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for network in results["networks"]:
        key = {"network": network["title"]}
        arms += [{**key, "arm": ARMS[name], **of} for name, of in network["arms"].items()]
        for pair in network["pairs"]:
            first, second = pair["first"], pair["second"]
            for measured in MEASURES:
                of = pair[measured]
                value = network["arms"][second][measured] - network["arms"][first][measured]
                error = max(of["error"], of["refit_error"])
                row = {**key, "measure": measured, "first": first, "second": second}
                gains.append({**row, "value": value, "standard_error": error, "rest": of["without_top"]})
        of = network["temperatures"]
        ratio = {"value": math.log(of["people"] / of["labels"]), "standard_error": of["error"]}
        temperatures.append({**key, **ratio, "labels": of["labels"], "people": of["people"]})
    found = {"arms": arms, "gains": gains, "temperatures": temperatures}
    return {name: pd.DataFrame(rows) for name, rows in found.items()}


def tables(found: Frames) -> Tables:
    arms = ordered(found["arms"], "arm", {title: title for title in ARMS.values()})
    wide = arms.pivot(index="arm", columns="network")
    temperatures = found["temperatures"].set_index("network").filter(["labels", "people"])
    return {
        "short": pd.DataFrame(
            {
                f"{network}, {title}": (scale * wide[name, network]).map(f"{{:.{digits}f}}".format)
                for network in ("VGG-16", "LeNet-5")
                for title, name, scale, digits in COLUMNS
            }
        ),
        "temperatures": temperatures.map("{:.3f}".format),
    }
