"""Fitting calibrators against the peers: time and the objective that was reached.

Run in the environment of ``benchmarks/peers.txt``: ``peers/bin/python benchmarks/calibrators.py``.

Fits are taken in turn in one process, at one thread; medians and ratios are kept beside the negative
log-likelihood, or calibration error, that each fit reached on its own data: faster but worse does not count.
The naive loop computes the objective at every point of the published grid, as the authors' code does.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from environment import environment, write

PACKAGES = ("calibrant", "torch", "numpy", "scikit-learn", "netcal", "probmetrics")
GAMMAS = (-0.5, -0.25, 0.05, 0.25, 0.37, 0.5, 0.75, 1.0, 5.0)
# Fits, which is timed, and says what gives the objective that was reached, which is not.
Fit = Callable[[], Callable[[], float]]
TASKS: dict[str, dict[str, Any]] = {
    "temperature, NLL, N = 5000, C = 100": {
        "size": (5_000, 100),
        "bar": {"times_faster_than": {"probmetrics": 1.8}, "no_worse_by": 1e-9},
    },
    "temperature, NLL, N = 5000, C = 10": {"size": (5_000, 10), "bar": {"milliseconds": 5}},
    "temperature, NLL, N = 50 000, C = 1000": {
        "size": (50_000, 1000),
        "bar": {"times_faster_than": {"scikit-learn": 3}, "no_worse_by": 1e-9},
    },
    "focal temperature, ECE, N = 5000, C = 100": {
        "size": (5_000, 100),
        "objective": "ece",
        "bar": {"grid_times_faster_than": {"naive loop": 50}, "no_worse_by": 0},
    },
    "focal temperature, adaptive ECE, N = 5000, C = 100": {
        "size": (5_000, 100),
        "objective": "adaptive_ece",
        "bar": {"grid_times_faster_than": {"naive loop": 20}, "no_worse_by": 0},
    },
}


def data(size: tuple[int, int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Over-confident logits, float32, and labels."""
    rng = np.random.default_rng(0)
    logits = rng.standard_normal(size, dtype=np.float32) * 2
    labels = (logits + rng.gumbel(size=size).astype(np.float32)).argmax(axis=1)
    return torch.from_numpy(1.8 * logits), torch.from_numpy(labels)


def log_loss(logits: torch.Tensor, labels: torch.Tensor, temperature: float) -> float:
    """Mean negative log-likelihood at a temperature, in float64."""
    return torch.nn.functional.cross_entropy(logits.double() / temperature, labels).item()


def fits(task: str) -> dict[str, Fit]:
    """Ours first, then the peers', each as its documentation says."""
    logits, labels = data(TASKS[task]["size"])
    if "objective" in TASKS[task]:
        return focal_fits(logits, labels, TASKS[task]["objective"])

    from calibrant.calibrators import TemperatureScaling

    def ours() -> Callable[[], float]:
        fitted = TemperatureScaling().fit(logits, labels)
        return lambda: log_loss(logits, labels, float(fitted.temperature))

    return {"calibrant": ours} | temperature_peers(logits, labels)


def temperature_peers(logits: torch.Tensor, labels: torch.Tensor) -> dict[str, Fit]:
    """Temperature scaling of scikit-learn, netcal and probmetrics."""
    from netcal.scaling import TemperatureScaling as NetcalTemperature
    from probmetrics.calibrators import TemperatureScalingCalibrator
    from probmetrics.distributions import CategoricalLogits
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.frozen import FrozenEstimator

    class Network(ClassifierMixin, BaseEstimator):
        """Its features are the logits."""

        classes_ = np.arange(logits.shape[1])

        def fit(self, *_: Any) -> Network:
            return self

        def predict(self, features: Any) -> Any:
            return features.argmax(axis=1)

        def decision_function(self, features: Any) -> Any:
            return features

        def __sklearn_is_fitted__(self) -> bool:
            return True

    arrays = logits.numpy(), labels.numpy()
    probs = torch.softmax(logits, dim=1).numpy()

    def by_sklearn() -> Callable[[], float]:
        fitted = CalibratedClassifierCV(FrozenEstimator(Network()), method="temperature").fit(*arrays)
        calibrator = fitted.calibrated_classifiers_[0].calibrators[0]
        return lambda: log_loss(logits, labels, 1 / calibrator.beta_)

    def by_netcal() -> Callable[[], float]:
        fitted = NetcalTemperature()
        fitted.fit(probs, arrays[1])

        def reached() -> float:
            found = fitted.transform(probs)[np.arange(len(probs)), arrays[1]]
            return float(-np.log(found.clip(1e-300)).mean())

        return reached

    def by_probmetrics() -> Callable[[], float]:
        fitted = TemperatureScalingCalibrator()
        fitted.fit_torch(CategoricalLogits(logits), labels)

        return lambda: log_loss(logits, labels, 1 / fitted.invtemp_)

    return {"scikit-learn": by_sklearn, "netcal": by_netcal, "probmetrics": by_probmetrics}


def focal_fits(logits: torch.Tensor, labels: torch.Tensor, objective: Any) -> dict[str, Fit]:
    """Our search, and the loop over 9 exponents and 500 temperatures."""
    from calibrant.calibrators import FocalTemperatureScaling

    binning: Any = "width" if objective == "ece" else "mass"

    def ours(search: Any) -> Callable[[], float]:
        fitted = FocalTemperatureScaling(objective=objective, search=search).fit(logits, labels)
        return lambda: fitted.fit_result_.after

    def naive() -> Callable[[], float]:
        best = float("inf")
        for gamma in GAMMAS:
            for temperature in np.arange(1, 501) / 100:
                scaled = logits / float(temperature)
                probs = torch.softmax(scaled, dim=1)
                miss = (1 - probs).clamp(min=1e-12)
                weights = probs / (
                    miss**gamma - gamma * miss ** (gamma - 1) * probs * probs.clamp(1e-12).log()
                )
                mapped = weights / weights.sum(dim=1, keepdim=True)
                confidences, predictions = mapped.max(dim=1)
                error = simple_error(confidences.double().numpy(), (predictions == labels).numpy(), binning)
                best = min(best, error)
        return lambda: best

    return {
        "calibrant": lambda: ours("full"),
        "calibrant, the same grid": lambda: ours("grid"),
        "naive loop": naive,
    }


def simple_error(stated: np.ndarray, correct: np.ndarray, binning: str) -> float:
    """Calibration error over 15 bins in a few lines."""
    if binning == "width":
        bins = np.maximum(np.searchsorted(np.arange(16) / 15, stated, side="left") - 1, 0)
        return float(np.abs(np.bincount(bins, correct - stated, 15)).sum() / len(stated))
    order = np.argsort(stated, kind="stable")
    return float(sum(abs((correct - stated)[part].sum()) for part in np.array_split(order, 15)) / len(stated))


def timed(task: str, repeats: int) -> dict[str, dict[str, float]]:
    """Median milliseconds and the objective of every fit, in turn; what takes seconds is repeated less."""
    found = fits(task)
    objectives: dict[str, float] = {}
    first: dict[str, float] = {}
    for name, fit in found.items():
        start = time.perf_counter()
        reached = fit()
        first[name] = time.perf_counter() - start
        objectives[name] = reached()
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for turn in range(repeats):
        for name, fit in found.items():
            if turn >= max(1, round(10 / first[name])):
                continue
            start = time.perf_counter()
            fit()
            seconds[name].append(time.perf_counter() - start)
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    return {
        name: {
            "milliseconds": 1e3 * medians[name],
            "times_ours": medians[name] / medians["calibrant"],
            "objective": objectives[name],
            "repeats": len(seconds[name]),
        }
        for name in found
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=9)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    results: dict[str, Any] = {}
    for task, given in TASKS.items():
        results[task] = {"bar": given["bar"], "fits": timed(task, repeats)}
        print(task, results[task], flush=True)
    print("written:", write("calibrators", {"environment": environment(*PACKAGES), "tasks": results}))


if __name__ == "__main__":
    main()
