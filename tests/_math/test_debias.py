"""Sums over pairs against loops over pairs, and what is independent of them."""

import math
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from calibrant._math.binning import pair_sums

Members = list[tuple[float, float]]  # weight in the bin, residual


def width_members(c: list[float], y: list[int], w: list[float], num_bins: int) -> list[Members]:
    bins: list[Members] = [[] for _ in range(num_bins)]
    for confidence, outcome, weight in zip(c, y, w, strict=True):
        index = next(i for i in range(num_bins) if confidence <= (i + 1) / num_bins)
        bins[index].append((weight, confidence - outcome))
    return bins


def mass_members(c: list[float], y: list[int], w: list[float], num_bins: int) -> list[Members]:
    """Each bin takes of every tie the share that lies between its ends."""
    rows = sorted(zip(c, w, y, strict=True))
    total = math.fsum(w)
    ends = [0]
    for j in range(1, num_bins):
        reached = [math.fsum(r[1] for r in rows[: n + 1]) for n in range(len(rows))]
        ends.append(next(n for n, u in enumerate(reached) if u >= j * total / num_bins - 1e-9) + 1)
    ends.append(len(rows))
    bins: list[Members] = []
    for low, high in pairwise(ends):
        members: Members = []
        for value in sorted({r[0] for r in rows}):
            tie = [r for r in rows if r[0] == value]
            inside = math.fsum(r[1] for r in rows[low:high] if r[0] == value)
            fraction = inside / math.fsum(r[1] for r in tie)
            members += [(fraction * weight, value - outcome) for _, weight, outcome in tie if fraction > 0]
        bins.append(members)
    return bins


def by_pairs(bins: list[Members], norm: str) -> float:
    """Debiased error from every ordered pair of different samples."""
    total = math.fsum(w for members in bins for w, _ in members)
    found = []
    for members in bins:
        if len(members) < 2:
            continue
        mass = math.fsum(w for w, _ in members)
        pairs = list(permutations(members, 2))
        unbiased = math.fsum(a * b * r * s for (a, r), (b, s) in pairs) / math.fsum(
            a * b for (a, _), (b, _) in pairs
        )
        gap = abs(math.fsum(w * r for w, r in members) / mass)
        if norm == "l2":
            found.append(mass * unbiased)
            continue
        noise = math.sqrt(max(0.0, gap**2 - unbiased))
        folded = gap
        if noise > 0:
            density = math.exp(-((gap / noise) ** 2) / 2) / math.sqrt(2 * math.pi)
            below = 0.5 * (1 + math.erf(-gap / noise / math.sqrt(2)))
            folded = 2 * noise * density + gap * (1 - 2 * below)
        found.append(mass * (2 * gap - folded))
    return math.fsum(found) / total


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("digits", [1, 2, 15])
@pytest.mark.parametrize(("num_samples", "num_bins"), [(60, 5), (23, 15), (9, 1), (3, 4)])
def test_equals_the_sum_over_pairs(
    rng: np.random.Generator, num_samples: int, num_bins: int, digits: int, binning: str, weighted: bool
) -> None:
    """Both errors to 1e-10 of loops over pairs: ties, empty bins, bins of one sample, weights."""
    c = np.round(rng.random(num_samples), digits)
    y = rng.integers(0, 2, num_samples)
    w = rng.integers(1, 5, num_samples) / 4 if weighted else np.ones(num_samples)
    members = (width_members if binning == "width" else mass_members)(
        c.tolist(), y.tolist(), w.tolist(), num_bins
    )
    sums = pair_sums(
        torch.from_numpy(c),
        torch.from_numpy(y),
        num_bins=num_bins,
        binning=binning,
        weights=torch.from_numpy(w) if weighted else None,
    )
    # Squares of a bin are differences of two sums of about its weight squared.
    assert sums.squared_error().item() == pytest.approx(by_pairs(members, "l2"), abs=1e-10)
    assert sums.absolute_error().item() == pytest.approx(by_pairs(members, "l1"), abs=1e-10)


@pytest.mark.parametrize("scale", [0.1, 0.2, 0.3])
def test_an_error_of_zero_is_exactly_zero(scale: float) -> None:
    """Residuals of s, s and -s / 2 cancel in pairs; what rounding leaves of it does not become an error."""
    c = torch.tensor([scale, scale, 1 - scale / 2], dtype=torch.float64)
    sums = pair_sums(c, torch.tensor([0, 0, 1]), num_bins=1, binning="width")
    assert (sums.residuals.square() - sums.squared_residuals).item() != 0
    assert sums.squared_error().item() == 0
