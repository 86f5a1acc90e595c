"""Upper bound of the largest gap of any bin, from intervals of the bins.

They are exact where samples are independent and weigh alike.
"""

from __future__ import annotations

import numpy as np

from calibrant.evaluation.resampling.event_cells import Cells
from calibrant.evaluation.resampling.events import Vector


def widest_gaps(cells: Cells, level: float) -> Vector:
    """The largest gap of each bin ``(F,)`` that its samples do not exclude; 0 where it holds none.

    The mean outcome of a bin lies in Clopper and Pearson's interval at the stated level, for samples that
    differ too (Hoeffding 1956); with weights, or clusters, the samples count as fewer. The largest gap lies
    in one bin, whichever that is: an interval of every bin at the level of one is wide enough for it.

    References:
        Hoeffding, "On the distribution of the number of successes in independent trials", Annals of
        Mathematical Statistics 27, 1956.
    """
    from scipy.special import betaincinv  # scipy.stats takes half a second to import

    counts, stated = _counts(cells), cells.stated
    happened = np.clip(stated + cells.gaps, 0.0, 1.0) * counts
    tail = (1 - level) / 2
    held = counts > 0
    low, high = np.zeros_like(stated), np.ones_like(stated)
    some, not_all = held & (happened > 0), held & (happened < counts)
    low[some] = betaincinv(happened[some], (counts - happened)[some] + 1, tail)
    high[not_all] = betaincinv(happened[not_all] + 1, (counts - happened)[not_all], 1 - tail)
    widest = np.where(high - stated > stated - low, high - stated, low - stated)
    return np.where(held, widest, 0.0)


def _counts(cells: Cells) -> Vector:
    """So many independent samples tell as much as those in each bin."""
    mass = cells.bin_mass
    squares = np.bincount(cells.bin, cells.squares, cells.num_bins)
    counts = np.divide(mass**2, squares, out=np.zeros_like(mass), where=squares > 0)
    if cells.clustered is None:
        return counts
    gaps = cells.gaps
    alone, together = cells.independent_errors(gaps), cells.bin_errors(gaps)
    return counts * np.divide(alone, together, out=np.ones_like(alone), where=together > 0) ** 2
