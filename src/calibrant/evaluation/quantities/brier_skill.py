"""Brier skill score against the base rate."""

from __future__ import annotations

from typing import TYPE_CHECKING

from calibrant.evaluation.quantities.quantity import EVENT, OneEventInfluence, Quantity

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Events, Vector


def brier_skill(events: Events) -> tuple[float, Vector] | str:
    r"""One minus the Brier score over that of the base rate, :math:`1 - B / V`, and the influences.

    With the rate :math:`\pi` and :math:`V = \pi (1 - \pi)`, sample i moves B by :math:`(p_i - y_i)^2 - B` and
    V by :math:`(1 - 2 \pi)(y_i - \pi)`.
    """
    import numpy as np

    stated, outcomes = events.confidences, events.outcomes
    mass = np.ones(len(outcomes)) if events.weights is None else events.weights
    share = mass / mass.sum()
    rate = float(share @ outcomes)
    spread = rate * (1 - rate)
    if spread <= 0:
        return "undefined: all outcomes are alike"
    squares = (stated - outcomes) ** 2
    score = float(share @ squares)
    moved = (1 - 2 * rate) * (outcomes - rate)
    return 1 - score / spread, -((squares - score) / spread - score * moved / spread**2)


BRIER_SKILL = Quantity(
    key="brier_skill",
    title="Brier skill",
    meaning="How much of the Brier score of always predicting the base rate the model saves: 1 is perfect, "
    "0 no better than the base rate, below 0 worse.",
    section="Proper scores",
    better="higher",
    bounds=(float("-inf"), 1.0),
    computed=OneEventInfluence(brier_skill),
    kinds=("binary",),
    undefined="undefined: all outcomes are alike",
    prefix=EVENT,
)
