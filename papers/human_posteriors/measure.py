"""How near a network's probabilities come to people's, before and after repairs that never saw the image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant import metrics
from calibrant._math.errors import InputError, without_warnings
from calibrant._math.means import rounded
from calibrant.calibrators import Calibrator, build
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.evaluation.fitting.split import stratified_folds
from calibrant.predictions import Predictions, load_predictions
from papers.human_posteriors import settings
from papers.human_posteriors.maps import MAPS, Judged, Tried, fcl_answer, focal_answer
from papers.human_posteriors.settings import (
    AS_TRAINED,
    BY_PEOPLE,
    FOCAL,
    FOCAL_BY_PEOPLE,
    IDEAL_FCL,
    IDEAL_FOCAL,
    PAIRS,
    TEMPERATURE,
)

FITTED = (TEMPERATURE, FOCAL, "ensemble-temperature", "vector")
TO_PEOPLE = {BY_PEOPLE: TEMPERATURE, FOCAL_BY_PEOPLE: FOCAL}
IDEAL: Mapping[str, Callable[[Tensor], Tensor]] = {
    IDEAL_FOCAL: lambda log_probs: focal_answer(log_probs, 1.0),
    IDEAL_FCL: lambda log_probs: fcl_answer(log_probs, 3.0),
}
"""What the two losses ask for where temperature scaling is right."""
REFITTED = (TEMPERATURE, FOCAL, *TO_PEOPLE, *MAPS, *IDEAL)
TOP = 0.01
"""The share of the images whose part in a difference is told: those that differ most."""

Scores = dict[str, dict[str, Tensor]]
"""Scores of every image by arm and measure."""


def read(folder: Path, file: str) -> Judged:
    """A network's log-probabilities beside people's judgements of the same images.

    Raises:
        InputError: If the two are not of the same images.
    """
    return beside_people(folder, load_predictions(_there(folder / file)), name=str(folder / file))


def beside_people(folder: Path, predictions: Predictions, *, name: str = "the test split") -> Judged:
    """What a network says of the test images of CIFAR-10 beside people's judgements of them.

    Raises:
        InputError: If the two are not of the same images.
    """
    with np.load(_there(folder / settings.JUDGEMENTS), allow_pickle=False) as archive:
        counts, labels = (torch.from_numpy(archive[key].astype(np.int64)) for key in ("counts", "labels"))
    if predictions.labels is None or not torch.equal(predictions.labels, labels):
        raise InputError(f"{name} is not in the order of the judgements.")
    return Judged(predictions.scores.double().log_softmax(1), labels, counts.double())


def _there(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path} is missing; the study needs it.")
    return path


def measured(data: Judged, *, divisions: int, refits: int) -> dict[str, Any]:
    """The numbers of one network: means over images, and errors of differences with their origin."""
    tried = {name: Tried(data, name) for name in MAPS}
    runs = [_Division(data, tried, seed) for seed in range(divisions)]
    found = [run.scores() for run in runs]
    mean = {
        arm: {name: torch.stack([each[arm][name] for each in found]).mean(0) for name in found[0][arm]}
        for arm in found[0]
    }
    eces = {arm: np.mean([run.ece(arm) for run in runs]) for arm in mean}
    again = runs[0].refitted(refits)
    return {
        "num_images": len(data.labels),
        "error": rounded(float((data.log_probs.argmax(1) != data.labels).double().mean())),
        "arms": {
            arm: {
                **{name: rounded(float(values.mean())) for name, values in scores.items()},
                "ece": rounded(float(eces[arm])),
                **{name: rounded(value) for name, value in _mean_of(runs, arm).items()},
            }
            for arm, scores in mean.items()
        },
        "pairs": [_pair(data, mean, again, first, second) for first, second in PAIRS],
        "temperatures": {name: rounded(value) for name, value in _temperatures(data, refits).items()},
        "people": {
            "entropy": rounded(float(torch.special.entr(data.people).sum(1).mean())),
            "unanimous": rounded(float((data.people.amax(1) == 1).double().mean())),
            "noise": rounded(float(data.noise.mean())),
        },
    }


class _Division:
    """The images in two halves; each is judged by what was fitted on the other."""

    def __init__(self, data: Judged, tried: Mapping[str, Tried], seed: int) -> None:
        self._data, self._tried = data, tried
        divided = stratified_folds(Predictions(logits=data.log_probs, labels=data.labels), 2, seed)
        halves = torch.from_numpy(divided)
        self._kept: dict[str, Tensor] = {}
        self.halves = [(halves != half, halves == half) for half in (0, 1)]
        self.fits: dict[str, list[Calibrator]] = {
            name: [self._fit(name, seen, None) for seen, _ in self.halves] for name in (*FITTED, *TO_PEOPLE)
        }
        self.places = {
            name: [each.best(seen) for seen, _ in self.halves] for name, each in self._tried.items()
        }

    def _fit(
        self, name: str, seen: Tensor, weights: Tensor | None, like: Calibrator | None = None
    ) -> Calibrator:
        data = self._data
        fitting = build(TO_PEOPLE.get(name, name)).fit if like is None else like.refit
        with without_warnings():
            if name in TO_PEOPLE:
                rows, chosen, share = data.by_people(seen, weights)
                return fitting(rows[share > 0], chosen[share > 0], weights=share[share > 0])
            if weights is None:
                return fitting(data.log_probs[seen], data.labels[seen])
            drawn = weights > 0
            return fitting(data.log_probs[seen][drawn], data.labels[seen][drawn], weights=weights[drawn])

    def _said(self, fits: list[Calibrator]) -> Tensor:
        found = torch.empty_like(self._data.log_probs)
        for calibrator, (_, judged) in zip(fits, self.halves, strict=True):
            found[judged] = calibrator(self._data.log_probs[judged]).double()
        return found

    def log_probs(self, arm: str) -> Tensor:
        """What an arm says of every image."""
        if arm not in self._kept:
            self._kept[arm] = self._log_probs(arm)
        return self._kept[arm]

    def _log_probs(self, arm: str) -> Tensor:
        if arm == AS_TRAINED:
            return self._data.log_probs
        if arm in self.fits:
            return self._said(self.fits[arm])
        if arm in IDEAL:
            return IDEAL[arm](self._said(self.fits[TEMPERATURE]))
        function, exponents = MAPS[arm]
        found = torch.empty_like(self._data.log_probs)
        for place, (_, judged) in zip(self.places[arm], self.halves, strict=True):
            found[judged] = function(self._data.log_probs[judged], exponents[place])
        return found

    def scores(self) -> Scores:
        """The scores of every arm."""
        return {arm.key: self._data.scores(self.log_probs(arm.key)) for arm in settings.ARMS}

    def ece(self, arm: str) -> float:
        """The ECE against the labels: top class, 15 bins."""
        probs = self.log_probs(arm).exp()
        return float(
            metrics.expected_calibration_error(probs / probs.sum(1, keepdim=True), self._data.labels)
        )

    def parameters(self, arm: str) -> dict[str, float]:
        """Mean over the two fits of what was fitted, where it is one number each."""
        if arm in self.places:
            return {"gamma": float(np.mean([MAPS[arm][1][place] for place in self.places[arm]]))}
        if arm not in self.fits:
            return {}
        each = [fit.fit_result_.parameters for fit in self.fits[arm]]
        names = [name for name, value in each[0].items() if isinstance(value, float)]
        return {name: float(np.mean([one[name] for one in each])) for name in names}  # pyright: ignore[reportArgumentType, reportCallIssue]

    def refitted(self, number: int) -> list[dict[str, dict[str, float]]]:
        """Means over resampled images, of arms that were fitted again to them."""
        rng = np.random.default_rng(0)
        size = len(self._data.labels)
        found: list[dict[str, dict[str, float]]] = []
        fixed = self._data.scores(self._data.log_probs)
        for _ in range(number):
            counts = torch.from_numpy(np.bincount(rng.integers(size, size=size), minlength=size)).double()
            arms = {AS_TRAINED: fixed}
            for name in REFITTED:
                arms[name] = self._scores_again(name, counts)
            found.append(
                {
                    arm: {name: float(counts @ scores[name]) / size for name in settings.MEASURES}
                    for arm, scores in arms.items()
                }
            )
        return found

    def _scores_again(self, name: str, counts: Tensor) -> dict[str, Tensor]:
        data = self._data
        if name in self._tried:
            tried = self._tried[name]
            found = {key: torch.empty(len(data.labels), dtype=torch.float64) for key in tried.scores}
            for seen, judged in self.halves:
                place = tried.best(seen, counts[seen])
                for key, table in tried.scores.items():
                    found[key][judged] = table[judged, place]
            return found
        fitted = TEMPERATURE if name in IDEAL else name
        fits = [
            self._fit(fitted, seen, counts[seen], like)
            for (seen, _), like in zip(self.halves, self.fits[fitted], strict=True)
        ]
        said = self._said(fits)
        return data.scores(IDEAL[name](said) if name in IDEAL else said)


def _mean_of(runs: list[_Division], arm: str) -> dict[str, float]:
    each = [run.parameters(arm) for run in runs]
    return {name: float(np.mean([one[name] for one in each])) for name in each[0]}


def _pair(
    data: Judged, mean: Scores, again: list[dict[str, dict[str, float]]], first: str, second: str
) -> dict[str, Any]:
    """Errors of a difference, and which images it comes from."""
    found: dict[str, Any] = {"first": first, "second": second}
    wrong = data.log_probs.argmax(1) != data.labels
    agreement = data.people.amax(1)
    parts = {
        "unanimous": agreement == 1,
        "nearly": (agreement < 1) & (agreement >= 0.9),
        "split": agreement < 0.9,
        "wrong": wrong,
    }
    for name in settings.MEASURES:
        gains = mean[second][name] - mean[first][name]  # above zero: the first is nearer to people
        order = gains.abs().argsort(descending=True)
        top = order[: max(1, int(TOP * len(order)))]
        rest = order[len(top) :]
        refits = [
            each[second][name] - each[first][name] for each in again if first in each and second in each
        ]
        found[name] = {
            "error": rounded(float(gains.std()) / len(gains) ** 0.5),
            "refit_error": rounded(float(np.std(refits, ddof=1))) if refits else None,
            "nearer": rounded(float((gains > 0).double().mean())),
            "without_top": rounded(float(gains[rest].mean())),
            "parts": {key: rounded(float(gains[rows].sum()) / len(gains)) for key, rows in parts.items()},
        }
    return found


def _temperatures(data: Judged, refits: int) -> dict[str, float]:
    """The temperature that labels ask for and the one that people ask for, with the error of their ratio."""

    def fitted(counts: Tensor) -> tuple[float, float]:
        every = torch.arange(len(data.labels))[counts > 0]
        weights = counts[every]
        with without_warnings():
            one = build(TEMPERATURE).fit(data.log_probs[every], data.labels[every], weights=weights)
            rows, chosen, share = data.by_people(every, weights)
            two = build(TEMPERATURE).fit(rows, chosen, weights=share)
        return fitted_number(one.fit_result_, "temperature"), fitted_number(two.fit_result_, "temperature")

    size = len(data.labels)
    rng = np.random.default_rng(1)
    labels, people = fitted(torch.ones(size, dtype=torch.float64))
    drawn = (np.bincount(rng.integers(size, size=size), minlength=size) for _ in range(refits))
    ratios = [np.log(two / one) for one, two in (fitted(torch.from_numpy(each).double()) for each in drawn)]
    return {"labels": labels, "people": people, "error": float(np.std(ratios, ddof=1))}


def results(folder: Path, *, tell: Callable[[str, float], None]) -> dict[str, Any]:
    """The results file."""
    divisions, refits = settings.DIVISIONS, settings.REFITS
    networks: list[dict[str, Any]] = []
    for place, (key, (title, file)) in enumerate(settings.NETWORKS.items()):
        tell(title, place / len(settings.NETWORKS))
        found = measured(read(folder, file), divisions=divisions, refits=refits)
        networks.append({"network": key, "title": title, "file": file, **found})
    return {"divisions": divisions, "refits": refits, "networks": networks}
