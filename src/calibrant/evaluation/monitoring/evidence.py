r"""E-processes: evidence that may be looked at at any time, with a known chance of a false alarm.

Of an event of probability p that occurs (y = 1) or not, a bet on another probability q pays

.. math:: \frac{q^y (1 - q)^{1 - y}}{p^y (1 - p)^{1 - y}} ,

one on average if p is true. The product of the bets on all samples so far is the wealth of a gambler who
began with one; by Ville's inequality it ever reaches :math:`1 / \alpha` with probability :math:`\alpha`
at most, whenever and however often one looks. Here the gamblers bet on :math:`\mathrm{logit}\, q = a\,
\mathrm{logit}\, p + b` for a grid of (a, b), one may begin at each window, and the evidence is their mean
wealth, weighted in advance.

The wealth of each gambler is a product over the labelled samples since the gambler began, in any order.
So a label that arrives late enters where its sample stands, and the sum over what is known now is what it
would have been if samples were told in the order of their labels.

References:
    Henzi and Ziegel, "Valid sequential inference on probability forecast performance", Biometrika 109,
    2022. Arnold, Henzi and Ziegel, "Sequentially valid tests for forecast calibration", Annals of Applied
    Statistics 17, 2023. Wasserman, Ramdas and Balakrishnan, "Universal inference", PNAS 117, 2020 (two
    samples).
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, gammaln, logsumexp, xlogy

from calibrant.evaluation.resampling.events import Matrix, Vector

SLOPES = (0.5, 0.7, 0.85, 1.0, 1.18, 1.4, 2.0)
SHIFTS = (-1.0, -0.3, -0.1, -0.03, 0.0, 0.03, 0.1, 0.3, 1.0)
GAMBLERS = np.array([each for each in itertools.product(SLOPES, SHIFTS) if each != (1.0, 0.0)])
SHIFTERS = np.array([(1.0, shift) for shift in SHIFTS if shift])
"""For the classes, of which there may be many: more or less frequent than stated."""

CERTAIN = 1e-6
_PIECE = 1 << 20


def log_wealth(
    probs: Vector, outcomes: Vector, windows: NDArray[np.int64], num_windows: int, gamblers: Matrix
) -> Matrix:
    """Logarithm of what each gambler's bets in each window multiply to, ``(windows, gamblers)``.

    Probabilities within 1e-6 of 0 or 1 are bet on as if they were that far from it, and such a bet never
    gains where what is nearly certain occurs: it then pays one on average at most, whatever the
    probability.
    """
    found = np.zeros((num_windows, len(gamblers)))
    rows = max(1, _PIECE // len(gamblers))
    for start in range(0, len(probs), rows):
        part = slice(start, start + rows)
        bets = _log_bets(probs[part], outcomes[part], gamblers)
        np.add.at(found, windows[part], bets)
    return found


def _log_bets(probs: Vector, outcomes: Vector, gamblers: Matrix) -> Matrix:
    stated = probs.clip(CERTAIN, 1 - CERTAIN)
    log_odds = np.log(stated) - np.log1p(-stated)
    bet = expit(gamblers[:, 0] * log_odds[:, None] + gamblers[:, 1])
    occurs = outcomes.astype(bool)[:, None]
    pays = np.where(occurs, np.log(bet / stated[:, None]), np.log((1 - bet) / (1 - stated[:, None])))
    expected = (occurs & (probs > 1 - CERTAIN)[:, None]) | (~occurs & (probs < CERTAIN)[:, None])
    return np.where(expected, np.minimum(pays, 0), pays)


def log_mean_wealth(bets: Matrix) -> Matrix:
    """Mean wealth of gamblers who begin at a window, at the end of another: ``log E[begun, ended]``.

    Args:
        bets: Logarithms of what the bets of each window multiply to, ``(windows, gamblers)``.

    Returns:
        Square; minus infinity where a window ends before the gambler begins.
    """
    total = np.cumsum(bets, 0)
    before = np.vstack([np.zeros_like(total[:1]), total[:-1]])
    found = np.full((len(bets), len(bets)), -np.inf)
    for begun in range(len(bets)):
        found[begun, begun:] = logsumexp(total[begun:] - before[begun], axis=1) - np.log(bets.shape[1])
    return found


def log_change(counts: Matrix, baseline: Vector) -> Matrix:
    r"""Evidence that the shares of some cells are not the baseline's: ``log E[begun, ended]``.

    With the counts n of a window's samples in the cells, :math:`n_0` of the baseline's, and KT the mean
    likelihood of a sequence under a Dirichlet(1/2) prior,

    .. math:: E = \frac{\mathrm{KT}(n) \, \mathrm{KT}(n_0)}{\max_\theta L(n + n_0; \theta)} ,

    which is one at most on average over baseline and stream where both have the same shares.

    Args:
        counts: Samples of each window in each cell, ``(windows, cells)``.
        baseline: Those of the baseline, ``(cells,)``.
    """
    total = np.cumsum(counts, 0)
    before = np.vstack([np.zeros_like(total[:1]), total[:-1]])
    found = np.full((len(counts), len(counts)), -np.inf)
    for begun in range(len(counts)):
        since = total[begun:] - before[begun]
        joint = since + baseline
        most = xlogy(joint, joint).sum(1) - xlogy(joint.sum(1), joint.sum(1))
        found[begun, begun:] = _log_kt(since) + _log_kt(baseline[None]) - most
    return found


def _log_kt(counts: Matrix) -> Vector:
    """Logarithm of the mean likelihood of a sequence with these counts."""
    cells = counts.shape[1]
    if cells == 2:
        return betaln(counts[:, 0] + 0.5, counts[:, 1] + 0.5) - betaln(0.5, 0.5)
    total = counts.sum(1)
    each = (gammaln(counts + 0.5) - gammaln(0.5)).sum(1)
    return each + gammaln(cells / 2) - gammaln(total + cells / 2)


def mean_of(evidence: list[Matrix], weights: list[float]) -> Matrix:
    """Weighted mean of several ``log E[begun, ended]``; itself one."""
    shares = np.log(weights)[:, None, None]
    return np.asarray(logsumexp(np.stack(evidence) + shares, axis=0))


def over_starts(evidence: Matrix) -> Vector:
    """The evidence at the end of each window, of whoever began by then, in logarithms.

    The share 1 / (j (j + 1)) of the first stake begins at window j = 1, 2, ...; what has not begun is still
    in the pocket.
    """
    num_windows = len(evidence)
    begun = np.arange(1, num_windows + 1)
    shares = -np.log(begun * (begun + 1.0))
    pocket = -np.log(begun + 1.0)
    return np.logaddexp(np.asarray(logsumexp(evidence + shares[:, None], axis=0)), pocket)


def likeliest_start(evidence: Matrix, ended: int) -> int:
    """The window from which what happened until ``ended`` speaks loudest."""
    return int(np.argmax(evidence[: ended + 1, ended]))
