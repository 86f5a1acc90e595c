"""Settings of the study of focal calibration loss: exponents, weights, distances, boundaries."""

from __future__ import annotations

from collections.abc import Mapping

GAMMAS = (0, 1, 2, 3, 5)
WEIGHTS = (0.0, 0.5, 1.0, 2.0)
L1 = "l1"


def key_of(gamma: int, weight: float, norm: str = "") -> str:
    """The name of an arm in the results file.

    Example:
        >>> key_of(3, 0.5), key_of(3, 0.5, "l1")
        ('gamma-3-weight-0.5', 'gamma-3-weight-0.5-l1')
    """
    return f"gamma-{gamma}-weight-{weight:g}{'-' * bool(norm)}{norm}"


def loss_of(gamma: int, weight: float, norm: str = "") -> str:
    """A loss as the grid spells it."""
    if weight == 0:
        return "cross-entropy" if gamma == 0 else f"focal(gamma={gamma})"
    distance = f", norm='{norm}'" if norm else ""
    return f"focal-calibration(gamma={gamma}, calibration_weight={weight:g}{distance})"


def title_of(gamma: int, weight: float, norm: str = "") -> str:
    """What the page calls it."""
    focal = "focal calibration" if weight else "focal"
    name = "cross-entropy" if gamma == 0 else f"{focal}, γ = {gamma}"
    return name + (f", λ = {weight:g}" if weight else "") + (", L1" if norm == L1 else "")


_ARMS = [*((gamma, weight, "") for gamma in GAMMAS for weight in WEIGHTS), (3, 0.5, L1)]
LOSSES: Mapping[str, str] = {key_of(*arm): loss_of(*arm) for arm in _ARMS}
TITLES: Mapping[str, str] = {key_of(*arm): title_of(*arm) for arm in _ARMS}
PAPERS = 0.5
"""The weight that the paper finds best in most settings."""
PAPERS_GAMMA = 3
"""That of the paper's figure 3; which one it keeps fixed where it compares weights our copy does not say."""
NEAR = 1.05
"""An epoch is near the least held-out NLL of its training where its own is no more than this times it."""
BOUNDARIES: Mapping[str, tuple[float, float]] = {
    "cross-entropy": (0.0, 0.0),
    "focal": (10.0, 0.0),
    "focal-calibration": (10.0, 1.5),
}
"""Exponent and weight of the networks whose boundaries are measured: the paper's two, and neither."""
BOUNDARY_TITLES: Mapping[str, str] = {
    "cross-entropy": "cross-entropy",
    "focal": "focal, γ = 10",
    "focal-calibration": "FCL, γ = 10, λ = 1.5",
}
BOUNDARY_SEEDS = 10
CLASSES = 10
QUESTIONS: Mapping[str, str] = {
    "ece-before": "λ = 0.5 has a lower error of calibration than λ = 0, before temperature scaling:",
    "ece-after": "It does after temperature scaling:",
    "nll": "It has a lower NLL:",
    **{
        f"too-much-{weight:g}-{stage}": f"It has a lower error of calibration than λ = {weight:g}, {stage} "
        "temperature scaling:"
        for stage in ("before", "after")
        for weight in (1, 2)
    },
    "larger-nll": "It has a lower NLL than λ = 1 or 2:",
    "larger-error": "It has a lower error than λ = 1 or 2:",
    "gap": "It leaves less to temperature scaling:",
    "l2": "The squared distance better than L1:",
    "epochs": "Faster convergence, each by its own least NLL:",
    "early": "A lower NLL before the rate drops:",
    "boundary": "Shorter boundaries, and boundaries that turn less:",
}
"""What claims are about, by how their keys begin."""
