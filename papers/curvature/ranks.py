"""Rank correlations over the runs of the curvature study, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from calibrant._math.shapes import Float, Int
from papers.curvature.numbers import Pick, Run

if TYPE_CHECKING:
    from numpy import ndarray

RESAMPLES = 2000
LEVEL = 0.95


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


def correlation(runs: Sequence[Run], first: Pick, second: Pick, *, within: bool = False) -> Rank | None:
    """Rank correlation of two numbers over runs; ``within`` arms, only what sets runs of one arm apart.

    Returns:
        None where there are fewer than four runs with both numbers, or one of them is the same in all.
    """
    import numpy as np

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
        >>> import numpy as np
        >>> found = rank_correlation(np.arange(8.0), np.arange(8.0) ** 2, np.zeros(8, dtype=int))
        >>> round(found.value, 12), round(found.low, 12), found.n
        (1.0, 1.0, 8)
    """
    values = tuple(first.tolist()), tuple(second.tolist())
    return _rank_correlation(*values, _Draws(tuple(groups.tolist()), within, resamples, seed))


class _Draws(NamedTuple):
    """How runs are drawn anew; no resamples: each run once."""

    groups: tuple[int, ...]
    within: bool
    resamples: int
    seed: int

    @property
    def pieces(self) -> list[Int[ndarray, " m"]]:
        """The runs that are ranked together."""
        import numpy as np

        groups = np.array(self.groups)
        return (
            [np.flatnonzero(groups == each) for each in np.unique(groups)]
            if self.within
            else [np.arange(len(groups))]
        )

    @property
    def counts(self) -> Float[ndarray, "B n"]:
        """How often each resample holds each run."""
        import numpy as np

        return (
            _drawn(self.groups, self.resamples, self.seed)
            if self.resamples
            else np.ones((1, len(self.groups)))
        )


@lru_cache(maxsize=4096)  # pages show the same correlations in several tables
def _rank_correlation(first: tuple[float, ...], second: tuple[float, ...], draws: _Draws) -> Rank | None:
    import numpy as np

    value = float(_spearman(first, second, draws._replace(resamples=0))[0])
    if np.isnan(value):
        return None
    values = _spearman(first, second, draws)
    known = values[~np.isnan(values)]
    tail = 50 * (1 - LEVEL)
    low, high = np.percentile(known, [tail, 100 - tail]) if len(known) else (-1.0, 1.0)
    # Runs drawn twice are tied, which draws separate groups further apart: the value may lie outside.
    return Rank(value=value, low=min(float(low), value), high=max(float(high), value), n=len(first))


@lru_cache(maxsize=16)
def _drawn(groups: tuple[int, ...], resamples: int, seed: int) -> Float[ndarray, "B n"]:
    """How often each resample holds each run; as many are drawn from each group as it has."""
    import numpy as np

    rng = np.random.default_rng(seed)
    counts = np.zeros((resamples, len(groups)))
    for group in sorted(set(groups)):
        piece = np.flatnonzero(np.array(groups) == group)
        drawn = piece[rng.integers(len(piece), size=(resamples, len(piece)))]
        np.add.at(counts, (np.arange(resamples)[:, None], drawn), 1)
    return counts


def _spearman(first: tuple[float, ...], second: tuple[float, ...], draws: _Draws) -> Float[ndarray, " B"]:
    """The correlation in each resample, which holds each run so many times, ranked within each piece.

    NaN where one of the numbers is the same throughout.
    """
    import numpy as np

    one, other = _centred_ranks(first, draws), _centred_ranks(second, draws)
    times = draws.counts[:, np.concatenate(draws.pieces)]
    length = np.sqrt((times * one**2).sum(axis=1) * (times * other**2).sum(axis=1))
    product = (times * one * other).sum(axis=1)
    return np.divide(product, length, out=np.full(len(length), np.nan), where=length > 1e-12)


@lru_cache(maxsize=32)  # one number is held against several
def _centred_ranks(values: tuple[float, ...], draws: _Draws) -> Float[ndarray, "B n"]:
    """Ranks less their mean, piece by piece, where each value stands so many times."""
    import numpy as np

    every, counts = np.array(values), draws.counts
    return np.concatenate([_ranks(every[piece], counts[:, piece]) for piece in draws.pieces], axis=1)


def _ranks(values: Float[ndarray, " m"], counts: Float[ndarray, "B m"]) -> Float[ndarray, "B m"]:
    """Ranks less their mean; equal values share theirs."""
    import numpy as np

    distinct, place = np.unique(values, return_inverse=True)
    alike = counts @ np.eye(len(distinct))[place]  # (B, m) -> (B, distinct)
    ranks = alike.cumsum(axis=1) - (alike - 1) / 2
    return ranks[:, place] - (counts.sum(axis=1, keepdims=True) + 1) / 2
