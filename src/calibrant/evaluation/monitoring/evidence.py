r"""E-processes: evidence that is valid at any time, with a known false-alarm probability.

On an event of probability p that occurs (y = 1) or not, a bet on another probability q pays

.. math:: \frac{q^y (1 - q)^{1 - y}}{p^y (1 - p)^{1 - y}} ,

one on average if p is true. The product of the bets on all samples so far is the wealth of a gambler who
began with one. By Ville's inequality it ever reaches :math:`1 / \alpha` with probability :math:`\alpha` at
most, whenever and however often one looks. Here the gamblers bet on :math:`\mathrm{logit}\, q = a\,
\mathrm{logit}\, p + b` for a grid of (a, b). Others bet on :math:`\mathrm{logit}\, p + c\, P_k(2u - 1)` with
a Legendre polynomial of the rank u of p among the predictions up to the end of the window. One gambler may
begin at each window, and the evidence is their mean wealth, weighted in advance.

The wealth of a gambler is a product over the labelled samples since the start, in any order. So a late label
counts in the window of its sample.

With a baseline, the hypothesis is that the true shares have not changed since. Their posterior distribution
has a Dirichlet(1/2) prior. The evidence is a Bayes factor with mean one over that posterior, so false alarms
are bounded on average over it.

References:
    Henzi and Ziegel, "Valid sequential inference on probability forecast performance", Biometrika 109, 2022.
    Arnold, Henzi and Ziegel, "Sequentially valid tests for forecast calibration", Annals of Applied
    Statistics 17, 2023.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaln, expit, gammaln, log_expit, logit, logsumexp

from calibrant.evaluation.resampling.events import Matrix, Vector
from calibrant.evaluation.resampling.resamples import block_bounds

Tensor3: TypeAlias = NDArray[np.float64]

SLOPES = (0.5, 0.7, 0.85, 1.0, 1.18, 1.4, 2.0)
SHIFTS = (-1.0, -0.3, -0.1, -0.03, 0.0, 0.03, 0.1, 0.3, 1.0)
GAMBLERS = np.array([each for each in itertools.product(SLOPES, SHIFTS) if each != (1.0, 0.0)])
SHIFTERS = np.array(
    [(1.0, shift) for shift in SHIFTS if shift]
)  # for the classes: more or less frequent than stated
WAVES = np.array([np.eye(5)[k] * size for k in range(5) for size in (-0.5, -0.2, 0.2, 0.5)])  # orders 2 to 6
BENDERS = np.block([[GAMBLERS, np.zeros((len(GAMBLERS), 5))], [np.tile([1.0, 0.0], (len(WAVES), 1)), WAVES]])

CERTAIN = 1e-6
_PIECE = 1 << 20
_CELLS = 2048  # of the scale of log-odds, in which ranks are counted


def log_wealth(
    probs: Vector,
    outcomes: Vector,
    windows: NDArray[np.int64],
    num_windows: int,
    gamblers: Matrix,
    clusters: NDArray[np.int64] | None = None,
) -> Matrix:
    """Log of each gambler's wealth factor in each window, ``(windows, gamblers)``.

    A row of ``gamblers`` holds slope, shift and the factors of m polynomials of the rank, ``(2 + m,)``.
    Probabilities within 1e-6 of 0 or 1 count as that far from it. Such a bet never gains if a nearly certain
    outcome occurs, so it pays one on average at most, whatever the probability.

    Samples of one of ``clusters`` (numbers from 0, each in a single window) share a stake equally. The mean
    of their bets is one on average, however the samples depend on each other.
    """
    found = np.zeros((num_windows, len(gamblers)))
    bends = _polynomials(probs, windows, num_windows, gamblers.shape[1] - 2)
    codes = np.arange(len(probs)) if clusters is None else clusters
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for first, last in block_bounds(len(starts), _PIECE // len(gamblers) * len(starts) // len(probs)):
        rows = order[starts[first] : starts[last] if last < len(starts) else None]
        bets = _log_bets(probs[rows], outcomes[rows], bends[rows], gamblers)
        own = starts[first:last] - starts[first]
        if clusters is not None:
            sizes = np.diff(own, append=len(rows))
            bets = np.logaddexp.reduceat(bets, own) - np.log(sizes)[:, None]
        np.add.at(found, windows[rows[own]], bets)
    return found


def _polynomials(probs: Vector, windows: NDArray[np.int64], num_windows: int, number: int) -> Matrix:
    """Legendre polynomials, from order 2, of the rank among the predictions until the window's end."""
    if not number:
        return np.zeros((len(probs), 0))
    stated = probs.clip(CERTAIN, 1 - CERTAIN)
    place = (np.log(stated) - np.log1p(-stated)) / -logit(CERTAIN)  # from -1 to 1
    cell = ((1 + place) / 2 * (_CELLS - 1)).round().astype(np.int64)
    counts = np.bincount(windows * _CELLS + cell, minlength=num_windows * _CELLS).reshape(num_windows, -1)
    until = np.cumsum(counts, axis=0)
    ranks = (np.cumsum(until, axis=1) - until / 2) / np.maximum(until.sum(axis=1, keepdims=True), 1)
    return np.polynomial.legendre.legvander(2 * ranks[windows, cell] - 1, 1 + number)[:, 2:]


def _log_bets(probs: Vector, outcomes: Vector, bends: Matrix, gamblers: Matrix) -> Matrix:
    stated = probs.clip(CERTAIN, 1 - CERTAIN)
    log_odds = np.log(stated) - np.log1p(-stated)
    bet = expit(gamblers[:, 0] * log_odds[:, None] + gamblers[:, 1] + bends @ gamblers[:, 2:].T)
    occurs = outcomes.astype(bool)[:, None]
    pays = np.where(occurs, np.log(bet / stated[:, None]), np.log((1 - bet) / (1 - stated[:, None])))
    expected = (occurs & (probs > 1 - CERTAIN)[:, None]) | (~occurs & (probs < CERTAIN)[:, None])
    return np.where(expected, np.minimum(pays, 0), pays)


def log_mean_wealth(bets: Matrix) -> Matrix:
    """Log mean wealth ``log E[begun, ended]`` of ``(windows, gamblers)``; -inf before the start."""
    return _since(bets, lambda since: np.asarray(logsumexp(since, axis=1)) - np.log(bets.shape[1]))


def log_change(counts: Matrix, baseline: Vector) -> Matrix:
    r"""Evidence that the shares of some cells differ from the baseline's: ``log E[begun, ended]``.

    With the counts n ``(windows, cells)`` of samples, :math:`n_0` ``(cells,)`` of the baseline, and
    :math:`M(n \mid \alpha)` the mean likelihood of a sequence whose shares have a Dirichlet distribution,

    .. math:: E = M(n \mid 1/2) \, / \, M(n \mid n_0 + 1/2) ,

    which has mean one if the shares follow the baseline's posterior.
    """
    prior = np.full_like(baseline, 0.5)
    return _since(
        counts[:, None],
        lambda since: _log_mean(since[:, 0], prior) - _log_mean(since[:, 0], baseline + prior),
    )


def log_tilted(counts: Tensor3, baseline: Matrix) -> Matrix:
    """Evidence like :func:`log_change`, for bins of absent and present outcomes ``(windows, bins, 2)``.

    Gamblers bet that in every bin the log-odds are ``a`` times those of the baseline, plus ``b``.
    """
    posterior = baseline + 0.5
    log_odds = np.log(posterior[:, 1] / posterior[:, 0])
    bets = GAMBLERS[:, 0] * log_odds[:, None] + GAMBLERS[:, 1]
    tilted = np.stack([log_expit(-bets), log_expit(bets)], 1)  # (bins, 2, gamblers)

    def evidence(since: Tensor3) -> Vector:
        wealth = np.einsum("wbo,bog->wg", since, tilted)
        as_before = sum(_log_mean(since[:, each], posterior[each]) for each in range(len(baseline)))
        return np.asarray(logsumexp(wealth, axis=1)) - np.log(len(GAMBLERS)) - as_before

    return _since(counts, evidence)


def _since(counts: Tensor3, evidence: Callable[[Tensor3], Vector]) -> Matrix:
    """Evidence ``log E[begun, ended]`` of the counts between all pairs of windows."""
    total = np.cumsum(counts, 0)
    before = np.concatenate([np.zeros_like(total[:1]), total[:-1]])
    found = np.full((len(counts), len(counts)), -np.inf)
    for begun in range(len(counts)):
        found[begun, begun:] = evidence(total[begun:] - before[begun])
    return found


def _log_mean(counts: Matrix, prior: Vector) -> Vector:
    """Logarithm of the mean likelihood of a sequence with these counts."""
    if len(prior) == 2:
        return betaln(counts[:, 0] + prior[0], counts[:, 1] + prior[1]) - betaln(*prior)
    each = (gammaln(counts + prior) - gammaln(prior)).sum(1)
    return each + gammaln(prior.sum()) - gammaln(counts.sum(1) + prior.sum())


def mean_of(evidence: list[Matrix], weights: list[float]) -> Matrix:
    """Log of the weighted mean of several ``E[begun, ended]``."""
    shares = np.log(weights)[:, None, None]
    return np.asarray(logsumexp(np.stack(evidence) + shares, axis=0))


def over_starts(evidence: Matrix) -> Vector:
    """Log evidence at the end of each window; the share 1 / (j (j + 1)) of the stake begins at window j."""
    num_windows = len(evidence)
    begun = np.arange(1, num_windows + 1)
    shares = -np.log(begun * (begun + 1.0))
    pocket = -np.log(begun + 1.0)
    return np.logaddexp(np.asarray(logsumexp(evidence + shares[:, None], axis=0)), pocket)
