"""Claims that a setting leaves open, as it departs from what the paper speaks of."""

from __future__ import annotations

from dataclasses import replace

from calibrant._math.means import Mean
from papers.claims import NOT_CLAIMED, OWN, PRACTICE, Claim, Departure
from papers.losses.settings import ARGUMENT, BY_DESIGN, CONTRAST, UNBALANCED


def by_design(claim: Claim) -> Claim:
    """A claim that cross-entropy is over-confident, asked of a setting that was chosen so."""
    if not claim.key.startswith("over-confident"):
        return claim
    return replace(claim, departures=(*claim.departures, BY_DESIGN))


def nearer_to_one(claim: Claim, proper: Mean) -> Claim:
    """A claim that focal loss needs a temperature nearer to 1 than the one that cross-entropy needs."""
    return _starting(claim, proper, "compares with", CONTRAST)


def about_one(claim: Claim, proper: Mean) -> Claim:
    """A claim that focal loss needs a temperature of about 1, which follows from what cross-entropy needs."""
    return _starting(claim, proper, "starts from", ARGUMENT)


def _starting(claim: Claim, proper: Mean, says: str, span: tuple[float, float]) -> Claim:
    """The claim, left open where cross-entropy's temperature is not in the span, beyond noise."""
    low, high = span
    if proper.high >= low and proper.low <= high:
        return claim
    other = Departure(
        verdict="depends on the gap",
        what=f"The paper {says} cross-entropy that needs a temperature of {low:g} to {high:g}; here it "
        f"needs {'less' if proper.high < low else 'more'}.",
    )
    return replace(claim, departures=(*claim.departures, other))


def of_long_tail(claim: Claim) -> Claim:
    """A claim asked of long-tailed images, of which no paper speaks."""
    if claim.source in {OWN, PRACTICE, NOT_CLAIMED}:
        return claim
    return replace(claim, departures=(*claim.departures, UNBALANCED))
