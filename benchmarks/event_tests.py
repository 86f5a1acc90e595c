"""Which test of a calibrated event finds what: power and false alarms at 5%, by planted error.

Run ``python benchmarks/event_tests.py``: it prints the table behind docs/decisions/0053 in about ten minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from calibrant.evaluation.resampling.calibration_test import calibration_test
from calibrant.evaluation.resampling.events import Events

Vector = NDArray[np.float64]
Truth = Callable[[Vector], Vector]
LEVEL, DRAWS, GROUPS = 0.05, 400, 256


def sigmoid(log_odds: Vector) -> Vector:
    """Probabilities of log-odds."""
    return 1 / (1 + np.exp(-log_odds))


def wave(size: float, frequency: float) -> Truth:
    """Log-odds that are too high and too low in turn."""
    return lambda z: z + size * np.sin(frequency * (z - z.mean()) / z.std())


WORLDS: dict[str, tuple[float, float, int, Truth]] = {
    "calibrated, half": (0, 1.5, 1000, lambda z: z),
    "calibrated, 3%": (-3.6, 0.9, 4000, lambda z: z),
    "calibrated, 3 to 5 events": (-3, 1, 60, lambda z: z),
    "calibrated, 150 samples": (-3, 1, 150, lambda z: z),
    "too high by 0.3": (0, 1.5, 1000, lambda z: z - 0.3),
    "slope 0.75": (0, 1.5, 1000, lambda z: 0.75 * z),
    "slope 1.3, 3%": (-3.6, 0.9, 8000, lambda z: 1.3 * (z - z.mean()) + z.mean()),
    "wave, 3%": (-3.6, 0.9, 8000, wave(0.5, 3.2)),
    "wave, half": (0, 1.5, 2000, wave(0.35, 3)),
    "top tail": (0, 1.5, 2000, lambda z: np.where(z > 1.8, z - 0.7, z)),
    "top 5% of a 3% event": (-3.6, 0.9, 8000, lambda z: np.where(z > np.quantile(z, 0.95), z - 0.5, z)),
    "bump in the middle": (0, 1.5, 2000, lambda z: z + 0.5 * np.exp(-(z**2) / 0.3)),
    "halves that cancel": (0, 1.5, 1000, lambda z: z + 0.3 * np.sign(z)),
}
"""Mean and spread of the log-odds, samples, and the true log-odds."""


def by_draws(stated: Vector, residuals: NDArray[np.float64]) -> dict[str, float]:
    """P-values of statistics of residuals ``(1 + R, n)``, of which the first row was found."""
    variance = stated * (1 - stated)
    log_odds = np.log(stated / (1 - stated))
    centred = log_odds - np.average(log_odds, weights=variance)
    line = residuals.sum(1) ** 2 / variance.sum() + (residuals @ centred) ** 2 / (variance @ centred**2)
    slope = (residuals @ centred) ** 2
    order = np.argsort(stated)
    bins = np.clip(np.ceil(stated * 15).astype(int) - 1, 0, 14)
    widths = np.stack([residuals[:, bins == k].sum(1) for k in range(15)], axis=1)
    paths = np.cumsum(residuals[:, order], axis=1)
    starts = np.arange(GROUPS) * len(stated) // GROUPS if len(stated) > GROUPS else np.arange(len(stated))
    sums = np.add.reduceat(residuals[:, order], starts, axis=1)
    at = np.add.reduceat(log_odds[order], starts) / np.diff(np.append(starts, len(stated)))
    kernel = np.exp(-np.abs(at[:, None] - at) / np.median(np.abs(at[:, None] - at)))
    found = {
        "Cox": line,
        "ECE, width": np.abs(widths).sum(1),
        "Kuiper": paths.max(1) - paths.min(1),
        "kernel": np.einsum("rg,gh,rh->r", sums, kernel, sums),
        "slope": slope,
    }
    return {name: float((each >= each[0] - 1e-12).mean()) for name, each in found.items()}


def p_values(stated: Vector, outcomes: Vector, seed: int) -> dict[str, float]:
    """The p-value of each test."""
    rng = np.random.default_rng((seed, 1))
    drawn = (rng.random((DRAWS, len(stated))) < stated).astype(float)
    found = by_draws(stated, np.vstack([outcomes, drawn]) - stated)
    groups = np.array_split(np.argsort(stated), 10)
    parts = [(outcomes[g].sum() - stated[g].sum()) ** 2 / (stated[g] * (1 - stated[g])).sum() for g in groups]
    found["Hosmer-Lemeshow"] = float(stats.chi2.sf(sum(parts), len(parts)))
    above = ((outcomes - stated) * (1 - 2 * stated)).sum()
    below = np.sqrt(((1 - 2 * stated) ** 2 * stated * (1 - stated)).sum())
    found["Spiegelhalter"] = float(2 * stats.norm.sf(abs(above / below)))
    found["before"] = min(1.0, 2 * min(found["ECE, width"], found.pop("slope")))
    found["now"] = calibration_test(Events(stated, outcomes), DRAWS, (seed,)).p_value
    return found


def main() -> None:
    """Print the share of sets in which each test finds an error, a row for each world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=200, help="Simulated sets of each world.")
    sets = parser.parse_args().sets
    names = ("now", "before", "Cox", "Hosmer-Lemeshow", "Spiegelhalter", "ECE, width", "Kuiper", "kernel")
    print("| world |" + "".join(f" {name} |" for name in names))
    print("|---|" + "---:|" * len(names))
    powers: list[Vector] = []
    for world, (base, spread, size, truth) in WORLDS.items():
        hits = np.zeros(len(names))
        for seed in range(sets):
            rng = np.random.default_rng(seed)
            log_odds = rng.normal(base, spread, size)
            outcomes = (rng.random(size) < sigmoid(truth(log_odds))).astype(float)
            found = p_values(sigmoid(log_odds), outcomes, seed)
            hits += [found[name] <= LEVEL for name in names]
        if not world.startswith("calibrated"):
            powers.append(hits / sets)
        print(f"| {world} |" + "".join(f" {share:.2f} |" for share in hits / sets), flush=True)
    print("| mean power |" + "".join(f" {share:.2f} |" for share in np.mean(powers, axis=0)))


if __name__ == "__main__":
    main()
