"""The sentences of a gate: what was decided, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from calibrant.evaluation.gate.power import UndetectedError
from calibrant.evaluation.gate.question import GatedQuantity
from calibrant.evaluation.gate.result import Outcome
from calibrant.evaluation.phrases import decimals_apart, number
from calibrant.evaluation.resampling.at_limit import AtLimit
from calibrant.evaluation.resampling.null import ROUNDING


@dataclass(frozen=True)
class Decision:
    """What was decided on one value."""

    asked: GatedQuantity
    kind: Literal["limit", "baseline"]
    value: float | None
    """None: infinite."""
    against: float | None
    """The limit, or the baseline's value."""
    outcome: Outcome
    threshold: float | None = None
    """The bound of the value, or of the difference, that decided."""
    drawn: bool = False
    """Whether draws from a model at the limit decide."""
    at_limit: AtLimit | None = None
    """The draws that decided."""
    missed: UndetectedError | None = None
    """A much worse model that would pass as well."""
    paired: bool = False


@dataclass(frozen=True, kw_only=True)
class Sentences:
    """Puts decisions into words."""

    num_samples: int
    num_draws: int
    confidence: float
    strict: bool
    reasons: Mapping[str, str]
    """Why a quantity has no value."""

    def sentence(self, found: Decision) -> str:
        """The decision, and a caveat if a much worse model would pass as well."""
        said = self._limit(found) if found.kind == "limit" else self._baseline(found)
        if found.missed is None or (self.strict and found.outcome != "pass"):
            return said
        return f"{said} {self._caveat(found, found.missed)}"

    def _limit(self, found: Decision) -> str:
        asked, value, limit = found.asked, found.value, found.against or 0.0
        sign = asked.form.sign
        if value is None:
            allowed = f"at {'most' if sign > 0 else 'least'} {limit:g}"
            return f"The {asked.named} is {self.reasons[asked.form.key]}; {allowed} is allowed."
        facts = f"The {asked.named} is {number(value, decimals_apart(value, limit))}"
        if found.outcome == "pass":
            return f"{facts}, within the limit of {limit:g}."
        side = "above" if sign > 0 else "below"
        return f"{facts}, {side} the limit of {limit:g}. {self._why(found, 'it')}."

    def _baseline(self, found: Decision) -> str:
        value, base = found.value, found.against
        digits = None if value is None or base is None else decimals_apart(value, base)
        shown = ["infinity" if each is None else number(each, digits) for each in (value, base)]
        facts = f"The {found.asked.named} is {shown[0]}"
        other = f"the baseline's {shown[1]} ({'same samples' if found.paired else 'unpaired'})"
        if found.outcome == "pass":
            return f"{facts}, no worse than {other}."
        if value is None:
            return f"{facts}, worse than {other}."
        return f"{facts}, worse than {other}. {self._why(found, 'the difference')}."

    def _why(self, found: Decision, what: str) -> str:
        judgement = "This is more than noise"
        if found.outcome != "fail":
            judgement = "This could be noise, " + (
                "but the gate is strict" if self.strict else "so it passes"
            )
        confidence = f"{100 * self.confidence:g}%"
        if found.at_limit is not None:
            drawn = found.at_limit
            sign = "≤" if drawn.p_value <= 1 / (1 + drawn.num_draws) else "="
            return (
                f"{judgement}: a model with a true error of {found.against:.4g} stays below "
                f"{number(drawn.upper)} on {self.num_samples:,} samples in {confidence} of cases "
                f"(p {sign} {drawn.p_value:.2g})"
            )
        if found.threshold is None:
            return f"{judgement}: no interval can be computed"
        side = "least" if found.asked.form.sign > 0 else "most"
        return f"{judgement}: {what} is at {side} {number(found.threshold)} with {confidence} confidence"

    def _caveat(self, found: Decision, missed: UndetectedError) -> str:
        asked, limit = found.asked, found.against or 0.0
        told = f"{self.num_samples:,} samples are too few"
        if found.drawn:
            if (1 + self.num_draws) * (1 - self.confidence) < 1 - ROUNDING:
                told = f"{self.num_draws} draws are too few"
            elif missed.value <= limit + ROUNDING:
                told = f"With these probabilities no error can exceed {missed.value:.2g}"
        elif found.kind == "limit" and asked.form.share and limit == 0:
            told = f"No {asked.gate.name} is less than 0"
        what = "error" if asked.is_error else asked.metric
        worse = f"a model with a true {what} of {missed.value:.2g}"
        passes = "any model would pass" if missed.always else f"{worse} would pass more often than not"
        strict = ", so the strict gate fails: otherwise" if self.strict else ":"
        return f"{told}{strict} {passes}."
