"""What the records of the curvature study say: rank correlations and differences, with intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from calibrant.experiments.means import Mean, mean_of
from calibrant.experiments.records import Record

if TYPE_CHECKING:
    from jaxtyping import Float, Int
    from numpy import ndarray

RESAMPLES = 2000
LEVEL = 0.95
LOSSES = ("own", "cross_entropy")
_WHOSE = {"own": "own loss", "cross_entropy": "cross-entropy"}
Pick: TypeAlias = Callable[[Record], "float | None"]


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """A number of each run."""

    key: str
    title: str
    pick: Pick


@dataclass(frozen=True, kw_only=True)
class Rank:
    """A rank correlation over runs, with its bootstrap interval."""

    value: float
    low: float
    high: float
    n: int

    @property
    def sign(self) -> int:
        """1 or -1 where the interval lies on one side of zero, else 0."""
        return (self.low > 0) - (self.high < 0)


def _curvature(title: str, split: str, loss: str, name: str) -> Quantity:
    whose = {"own": "own loss", "cross_entropy": "cross-entropy"}[loss]
    return Quantity(
        key=f"{split}.{loss}.{name}",
        title=f"{title}, {whose}, {split}",
        pick=lambda run: run["path"][-1][split][loss][name],
    )


BASIC = tuple(
    _curvature(title, split, loss, name)
    for split in ("train", "test")
    for loss in ("own", "cross_entropy")
    for name, title in (("lambda_max", "λ_max"), ("trace", "trace"))
)
"""Largest eigenvalue and trace at the end, of both losses, on both splits."""


def _scaled(loss: str) -> Quantity:
    return Quantity(
        key=f"scaled.{loss}",
        title=f"trace in units of each layer's norm, {_WHOSE[loss]}",
        pick=lambda run: run["end"]["scaled"][loss]["value"],
    )


def _relative(loss: str, name: str, title: str) -> Quantity:
    def pick(run: Record) -> float | None:
        found = run["path"][-1]["train"][loss]
        return found[name] / found["loss"] if found["loss"] > 0 else None

    return Quantity(key=f"relative.{loss}.{name}", title=f"{title} / loss, {_WHOSE[loss]}", pick=pick)


def _against_noise(loss: str) -> Quantity:
    def pick(run: Record) -> float | None:
        noise = run["end"]["noise"][loss]
        spread = noise["per_sample"] - noise["mean_gradient"]
        return run["path"][-1]["train"][loss]["trace"] / spread if spread > 0 else None

    return Quantity(key=f"against-noise.{loss}", title=f"trace / gradient noise, {_WHOSE[loss]}", pick=pick)


def _region(loss: str, region: str, split: str) -> Quantity:
    names = {"confident": "confidence above 0.9", "others": "the others"}
    return Quantity(
        key=f"region.{split}.{loss}.{region}",
        title=f"trace over {split} samples, {names[region]}, {_WHOSE[loss]}",
        pick=lambda run: run["end"]["parts"][split][loss][region]["trace"],
    )


def _batch_statistics(loss: str, name: str, title: str) -> Quantity:
    def pick(run: Record) -> float | None:
        found = run["end"]["batch_statistics"]
        return None if found is None else found[loss][name]

    return Quantity(
        key=f"batch-statistics.{loss}.{name}", title=f"{title} in train mode, {_WHOSE[loss]}", pick=pick
    )


NORMALISED = (
    *(
        _relative(loss, name, title)
        for loss in LOSSES
        for name, title in (("lambda_max", "λ_max"), ("trace", "trace"))
    ),
    *(_scaled(loss) for loss in LOSSES),
    *(_against_noise(loss) for loss in LOSSES),
    *(
        _region(loss, region, split)
        for split in ("train", "test")
        for loss in LOSSES
        for region in ("confident", "others")
    ),
    *(
        _batch_statistics(loss, name, title)
        for loss in LOSSES
        for name, title in (("lambda_max", "λ_max"), ("trace", "trace"))
    ),
)
"""Other units and parts of the curvature, on training samples unless said otherwise."""
FACTORS = (
    *(
        Quantity(
            key=f"bend.{loss}",
            title=f"curvature by the logits, {_WHOSE[loss]}",
            pick=lambda run, loss=loss: run["end"]["parts"]["train"][loss]["bend"],
        )
        for loss in LOSSES
    ),
    Quantity(
        key="jacobian",
        title="squared Jacobian of the logits",
        pick=lambda run: run["end"]["jacobian"]["value"],
    ),
    Quantity(key="norm", title="norm of the parameters", pick=lambda run: run["path"][-1]["norm"]),
)
"""What the curvature is made of."""


def _judged(stage: str, name: str, title: str) -> Quantity:
    when = {"before": "as stated", "after": "after temperature scaling"}[stage]
    return Quantity(
        key=f"{stage}.{name}",
        title=f"{title} {when}",
        pick=lambda run: run["end"]["calibration"][stage][name],
    )


OUTCOMES = (
    _judged("before", "ece", "ECE"),
    _judged("after", "ece", "ECE"),
    _judged("before", "smce", "smCE"),
    _judged("after", "smce", "smCE"),
    _judged("before", "nll", "NLL"),
    _judged("after", "nll", "NLL"),
    _judged("before", "overconfidence", "over-confidence"),
)
"""Calibration on the test samples."""
TEMPERATURE = Quantity(
    key="temperature", title="temperature", pick=lambda run: run["end"]["calibration"]["temperature"]
)
ERROR = _judged("before", "error", "error")
GAMMA = Quantity(key="gamma", title="γ", pick=lambda run: run["gamma"])
BY_KEY: Mapping[str, Quantity] = {
    each.key: each for each in (*BASIC, *NORMALISED, *FACTORS, *OUTCOMES, TEMPERATURE, ERROR, GAMMA)
}


def at_epoch(place: int, loss: str, name: str) -> Pick:
    """A number of the training samples' Hessian at one of the checkpoints."""
    return lambda run: run["path"][place]["train"][loss][name]


def runs_of(records: Sequence[Record], setting: str, family: str) -> list[Record]:
    """The runs of a family whose training stayed finite."""
    return [
        each for each in records if each["setting"] == setting and each["family"] == family and each["finite"]
    ]


def arms_of(runs: Sequence[Record]) -> dict[str, list[Record]]:
    """The runs by arm."""
    found: dict[str, list[Record]] = {}
    for run in runs:
        found.setdefault(run["arm"], []).append(run)
    return found


def correlation(runs: Sequence[Record], first: Pick, second: Pick, *, within: bool = False) -> Rank | None:
    """Rank correlation of two numbers over runs; ``within`` arms, only what sets runs of one arm apart.

    Returns:
        None where there are fewer than four runs with both numbers, or one of them is the same in all.
    """
    known = [
        (run["arm"], one, other)
        for run in runs
        if (one := first(run)) is not None and (other := second(run)) is not None
    ]
    if len(known) < 4:
        return None
    names = sorted({arm for arm, _, _ in known})
    arms = np.array([names.index(arm) for arm, _, _ in known])
    return rank_correlation(
        np.array([one for _, one, _ in known]),
        np.array([other for _, _, other in known]),
        arms,
        within=within,
    )


def rank_correlation(
    first: Float[ndarray, " n"],
    second: Float[ndarray, " n"],
    groups: Int[ndarray, " n"],
    *,
    within: bool = False,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Rank | None:
    """Spearman's rank correlation and its percentile interval; runs are drawn anew within each group.

    The interval is widened where need be to hold the value itself.

    ``within``: ranks are taken within each group and centred there, so that what the groups differ in does
    not count.

    Example:
        >>> found = rank_correlation(np.arange(8.0), np.arange(8.0) ** 2, np.zeros(8, dtype=int))
        >>> found.value, found.low, found.n
        (1.0, 1.0, 8)
    """
    value = float(_spearman(first[None], second[None], groups[None], within=within)[0])
    if np.isnan(value):
        return None
    rng = np.random.default_rng(seed)
    places = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    drawn = np.concatenate(
        [place[rng.integers(len(place), size=(resamples, len(place)))] for place in places], axis=1
    )
    values = _spearman(first[drawn], second[drawn], groups[drawn], within=within)
    known = values[~np.isnan(values)]
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(known, [tail, 100 - tail]) if len(known) else (-1.0, 1.0)
    # Runs drawn twice are tied, which draws separate groups further apart: the value may lie outside.
    return Rank(value=value, low=min(float(low), value), high=max(float(high), value), n=len(first))


def _spearman(
    first: Float[ndarray, "B n"],
    second: Float[ndarray, "B n"],
    groups: Int[ndarray, "B n"],
    *,
    within: bool,
) -> Float[ndarray, " B"]:
    """Of each row; NaN where one of the numbers is the same throughout."""
    pieces = [groups[0] == group for group in np.unique(groups[0])] if within else [slice(None)]
    one = np.concatenate([_centred_ranks(first[:, piece]) for piece in pieces], axis=1)
    other = np.concatenate([_centred_ranks(second[:, piece]) for piece in pieces], axis=1)
    length = np.sqrt((one**2).sum(axis=1) * (other**2).sum(axis=1))
    product = (one * other).sum(axis=1)
    return np.divide(product, length, out=np.full(len(length), np.nan), where=length > 1e-12)


def _centred_ranks(values: Float[ndarray, "B n"]) -> Float[ndarray, "B n"]:
    from scipy.stats import rankdata

    ranks = rankdata(values, axis=1)
    return ranks - ranks.mean(axis=1, keepdims=True)


def difference(
    runs: Sequence[Record], baseline: Sequence[Record], pick: Pick, *, ratio: bool = False
) -> Mean | None:
    """Mean of a number less that of the same seed's baseline, or of the logarithm of their ratio."""
    base = {run["seed"]: pick(run) for run in baseline}
    found: list[float] = []
    for run in runs:
        here, there = pick(run), base.get(run["seed"])
        if here is None or there is None or (ratio and not (here > 0 and there > 0)):
            continue
        found.append(float(np.log(here / there)) if ratio else here - there)
    return mean_of(found) if found else None


def values_of(runs: Sequence[Record], pick: Pick) -> list[float]:
    """A number of every run that has it."""
    return [value for run in runs if (value := pick(run)) is not None]


def as_rank(found: Rank | None) -> list[float] | None:
    """Value, ends of the interval and number of runs, for the file of numbers."""
    if found is None:
        return None
    return [round(found.value, 3), round(found.low, 3), round(found.high, 3), found.n]
