"""How often intervals of a change under cross-fitting contain the change of the final calibrator.

Run ``python benchmarks/cross_fitted_changes.py``: Platt scaling in three worlds, with the interval of
``calibrant.evaluation.pipeline`` and without its widening, in about five minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from calibrant import Predictions, evaluate
from calibrant.calibrators import PlattScaling
from calibrant.evaluation import pipeline

Vector = NDArray[np.float64]
WORLDS: dict[str, Callable[[Vector], Vector]] = {
    "calibrated": lambda z: z,
    "slope 0.7": lambda z: 0.7 * z,
    "too high by 0.4": lambda z: z - 0.4,
}


def sigmoid(log_odds: Vector) -> Vector:
    """Probabilities of log-odds."""
    return 1 / (1 + np.exp(-log_odds))


def loss(log_odds: Vector, true: Vector) -> float:
    """Mean log-loss where the true probabilities are known."""
    return float(np.mean(np.logaddexp(0, log_odds) - true * log_odds))


def covered(truth: Callable[[Vector], Vector], size: int, seed: int, *, widen: bool) -> bool:
    """Whether the interval of a set contains the change of the log-loss by the final calibrator."""
    rng = np.random.default_rng(seed)
    log_odds = rng.normal(0, 1.5, size)
    labels = (rng.random(size) < sigmoid(truth(log_odds))).astype(int)
    many = np.random.default_rng(10**6).normal(0, 1.5, 100_000)
    fitted = PlattScaling().fit(log_odds, labels).predict_proba(many).numpy()
    true = sigmoid(truth(many))
    change = loss(np.log(fitted / (1 - fitted)), true) - loss(many, true)
    pipeline.OF_OPTIMISM = 2.0 if widen else 0.0
    given = Predictions(logits=log_odds, labels=labels)
    found = evaluate(given, calibrators=["platt"], bootstrap=400, null_draws=2).arms[1].change["nll"]
    return found.low is not None and found.high is not None and found.low <= change <= found.high


def main() -> None:
    """Print a row for each world and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200, help="Simulated sets of each world.")
    sets = parser.parse_args().sets
    print("| world | samples | plain | widened |\n|---|---:|---:|---:|")
    for world, truth in WORLDS.items():
        for size in (300, 1000):
            shares = [
                np.mean([covered(truth, size, seed, widen=widen) for seed in range(sets)])
                for widen in (False, True)
            ]
            print(f"| {world} | {size} | {shares[0]:.3f} | {shares[1]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
