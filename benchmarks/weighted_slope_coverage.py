"""How often the intervals of a weighted calibration slope and intercept contain the truth.

Run ``python benchmarks/weighted_slope_coverage.py``: calibrated and over-confident models, five patterns of
weights, in about a minute. Sets whose effective size is too small have no interval; their share is shown.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from calibrant.metrics import calibration_slope

Vector = NDArray[np.float64]


def one_large(rng: np.random.Generator, scores: Vector) -> Vector:
    """Weights of 1, and one that is half of the total."""
    weights = np.ones(len(scores))
    weights[rng.integers(len(scores))] = len(scores)
    return weights


PATTERNS: dict[str, Callable[[np.random.Generator, Vector], Vector]] = {
    "equal": lambda _, scores: np.ones(len(scores)),
    "log-normal (1)": lambda rng, scores: rng.lognormal(0, 1, len(scores)),
    "1 / Beta(0.5, 2)": lambda rng, scores: 1 / rng.beta(0.5, 2, len(scores)),
    "by the score": lambda _, scores: np.exp(np.abs(scores)),
    "one of half the total": one_large,
}
QUANTITIES = ("slope", "intercept", "in_the_large")


def main() -> None:
    """Print a row for each pattern, size and scale of the log-odds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=1000, help="Simulated sets of each row.")
    sets = parser.parse_args().sets
    print("| weights | samples | true slope | no interval | slope | intercept | in the large |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, pattern in PATTERNS.items():
        for size in (200, 500, 2000):
            for slope in (1.0, 0.7):
                rng = np.random.default_rng(0)
                hits: dict[str, list[bool]] = {quantity: [] for quantity in QUANTITIES}
                none = 0
                for _ in range(sets):
                    scores = rng.normal(0, 2, size)
                    labels = (rng.random(size) < 1 / (1 + np.exp(-slope * scores))).astype(int)
                    probs = 1 / (1 + np.exp(-scores))
                    found = calibration_slope(probs, labels, weights=pattern(rng, scores))
                    none += found.slope.low is None
                    # in the large the truth is 0 by symmetry, of any true slope
                    for quantity, truth in zip(QUANTITIES, (slope, 0.0, 0.0), strict=True):
                        part = getattr(found, quantity)
                        if part.low is not None:
                            hits[quantity].append(part.low <= truth <= part.high)
                shares = " | ".join(f"{np.mean(each):.3f}" if each else "–" for each in hits.values())
                print(f"| {name} | {size} | {slope} | {none / sets:.3f} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
