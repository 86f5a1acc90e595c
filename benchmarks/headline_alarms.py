"""How often the headline blames calibrated predictions, by kind of data.

Run ``python benchmarks/headline_alarms.py`` for half an hour; docs/decisions/0053 cites what it prints.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from calibrant import Predictions, evaluate

Vector = NDArray[np.float64]
Random = np.random.Generator
DRAWS = 400


def sigmoid(log_odds: Vector) -> Vector:
    """Probabilities of log-odds."""
    return 1 / (1 + np.exp(-log_odds))


def event(rng: Random, size: int, base: float = 0.0, spread: float = 1.5, **more: object) -> Predictions:
    """An event whose probabilities are true."""
    stated = sigmoid(rng.normal(base, spread, size))
    return Predictions(probs=stated, labels=rng.random(size) < stated, **more)


def weighted(rng: Random, size: int) -> Predictions:
    """Weights of which a fifth of the samples has most."""
    return event(rng, size, weights=rng.lognormal(0, 1, size))


def in_groups(rng: Random, size: int, base: float) -> Predictions:
    """Six groups of one size and rate."""
    return event(rng, size, base, groups=np.arange(size) % 6)


def in_clusters(rng: Random, number: int, base: float) -> Predictions:
    """Ten samples of one cluster have one probability, and half of them one outcome."""
    stated = np.repeat(sigmoid(rng.normal(base, 1.5, number)), 10)
    same = np.repeat(rng.random(number), 10)
    drawn = np.where(rng.random(10 * number) < 0.5, same, rng.random(10 * number))
    return Predictions(probs=stated, labels=drawn < stated, clusters=np.repeat(np.arange(number), 10))


def of_classes(rng: Random, size: int, number: int, **more: object) -> Predictions:
    """Classes whose probabilities are true."""
    logits = rng.normal(0, 1.5, (size, number))
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (probs.cumsum(1) < rng.random((size, 1))).sum(1).clip(max=number - 1)
    return Predictions(probs=probs, labels=labels, **more)


def of_labels(rng: Random, size: int, number: int) -> Predictions:
    """Several labels of a sample, the last of them rare."""
    stated = sigmoid(rng.normal(np.linspace(0, -4, number), 1.2, (size, number)))
    return Predictions(probs=stated, labels=(rng.random(stated.shape) < stated).astype(int))


def of_confidences(rng: Random, size: int) -> Predictions:
    """Confidences of answers."""
    stated = rng.beta(5, 1.5, size)
    return Predictions(confidence=stated, correct=rng.random(size) < stated)


WORLDS: dict[str, Callable[[Random], Predictions]] = {
    "event, half, 1000 samples": lambda rng: event(rng, 1000),
    "event, 3%, 2000 samples": lambda rng: event(rng, 2000, -3.6, 0.9),
    "event, 200 samples": lambda rng: event(rng, 200),
    "confidences, 1000 samples": lambda rng: of_confidences(rng, 1000),
    "weighted, 1000 samples": lambda rng: weighted(rng, 1000),
    "100 clusters of 10": lambda rng: in_clusters(rng, 100, 0.0),
    "100 clusters of 10, 5%": lambda rng: in_clusters(rng, 100, -3.6),
    "six groups of 200": lambda rng: in_groups(rng, 1200, 0.0),
    "six groups of 300, 3%": lambda rng: in_groups(rng, 1800, -4.3),
    "5 classes, 1000 samples": lambda rng: of_classes(rng, 1000, 5),
    "10 classes, 1000 samples": lambda rng: of_classes(rng, 1000, 10),
    "5 classes, four groups of 250": lambda rng: of_classes(rng, 1000, 5, groups=np.arange(1000) % 4),
    "8 labels, 500 samples": lambda rng: of_labels(rng, 500, 8),
}


def blamed(predictions: Predictions, seed: int) -> bool:
    """Whether any part of the verdict fails."""
    found = evaluate(predictions, calibrators=[], bootstrap=2, null_draws=DRAWS, seed=seed)
    return not all(part.holds for part in found.arms[0].parts)


def main() -> None:
    """Print the share of calibrated sets that are blamed, a row for each world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=400, help="Simulated sets of each world.")
    sets = parser.parse_args().sets
    print("| world | false alarms |\n|---|---:|")
    for world, draw in WORLDS.items():
        share = np.mean([blamed(draw(np.random.default_rng((1, seed))), seed) for seed in range(sets)])
        print(f"| {world} | {share:.3f} |", flush=True)


if __name__ == "__main__":
    main()
