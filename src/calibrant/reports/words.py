"""Names and meanings of metrics, and formats of numbers, for the report and the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from calibrant._math.text_form import plural as plural
from calibrant.evaluation import phrases, quantities
from calibrant.evaluation.quantity import Better, Section
from calibrant.evaluation.result import Direction, Estimate, Kind
from calibrant.predictions.labels import POSITIVE_CLASS, the_event

MISSING = "–"
AS_TRAINED = "as trained"  # a network before it is calibrated, in the tables of a run
MARK_OF: dict[Direction, str] = {
    "over-confident": "▼",  # as in the diagrams: the points lie below the band
    "under-confident": "▲",
    "over-predicting": "▼",
    "under-predicting": "▲",
    "miscalibrated": "◐",
    "calibrated in part": "◐",
    "calibrated": "●",
    "undecided": "?",
}


SECTIONS: tuple[Section, ...] = get_args(Section)
_AIMS = {"near zero": 0.0, "near one": 1.0}


@dataclass(frozen=True)
class Metric:
    """A metric in words; ``better`` is ``None`` if neither end of the scale is good."""

    title: str
    section: Section
    better: Better | None
    meaning: str
    in_short: bool = False  # whether the terminal shows it
    rank: int | None = None  # its place in the terminal's table of models
    drawn: bool = False  # whether a report draws it against noise


def metric(key: str, kind: Kind, event: str = POSITIVE_CLASS) -> Metric:
    """The words for a metric's key; in the binary case both the top label and the event are named.

    Example:
        >>> metric("ece", "multiclass").title, metric("ece", "binary").title
        ('ECE', 'ECE, top label')
        >>> metric("event_ece", "binary").title
        'ECE, positive class'
        >>> metric("mean_probability", "binary", "sepsis").meaning
        'Average predicted probability of sepsis; equals the actual rate if calibrated.'
    """
    known = quantities.find(key, kind)
    if known is None:
        return Metric(key.replace("_", " "), SECTIONS[-1], None, "")
    shown = known.shown
    asked = None if known.default else quantities.ECE.shown.comparison  # beside the ECE
    return Metric(
        title=known.title.replace(POSITIVE_CLASS, event),
        section=known.section,
        better=known.better,
        meaning=known.meaning.replace(the_event(POSITIVE_CLASS), the_event(event)),
        in_short=shown.terminal or not known.default,
        rank=asked if shown.comparison is None else shown.comparison,
        drawn=shown.drawn,
    )


def mark_of_change(
    key: str, kind: Kind, estimate: Estimate, change: Estimate | None
) -> Literal["better", "worse"] | None:
    """Mark of a paired change that is clearly better or worse: its interval excludes zero.

    Values that look equal when shown get no mark.
    """
    better = metric(key, kind).better
    if better is None or change is None or change.value is None or estimate.value is None:
        return None
    if not phrases.clearly(change):
        return None
    before = estimate.value - change.value
    if number(estimate.value) == number(before):
        return None
    if better in _AIMS:
        nearer = abs(estimate.value - _AIMS[better]) < abs(before - _AIMS[better])
        return "better" if nearer else "worse"
    return "better" if (change.value < 0) == (better == "lower") else "worse"


def goodness(key: str, kind: Kind, value: float) -> float | None:
    """A number that is larger for better values, or ``None`` if no value is better than another."""
    better = metric(key, kind).better
    if better is None:
        return None
    return value if better == "higher" else -abs(value - _AIMS.get(better, 0.0))


def number(value: float | None, *, signed: bool = False) -> str:
    """Four decimals everywhere.

    Example:
        >>> number(0.05194), number(-0.02), number(0.02, signed=True), number(-0.00001), number(None)
        ('0.0519', '−0.0200', '+0.0200', '0.0000', '–')
    """
    return MISSING if value is None else phrases.number(value, table=True, signed=signed)


def interval(estimate: Estimate, *, signed: bool = False) -> str:
    if estimate.low is None or estimate.high is None:
        return ""
    return f"[{number(estimate.low, signed=signed)}, {number(estimate.high, signed=signed)}]"


_AVERAGES = (quantities.MEAN_CONFIDENCE, quantities.MEAN_PROBABILITY, quantities.PREVALENCE)
SHARES = frozenset(each.key for each in (quantities.ACCURACY, *_AVERAGES))


def brief(estimate: Estimate | None, key: str = "") -> tuple[str, str]:
    """Value and interval with three significant digits; shares as percentages.

    Example:
        >>> brief(Estimate(value=0.18003, low=0.1589, high=0.2035))
        ('0.180', '[0.159, 0.203]')
        >>> brief(Estimate(value=0.9428, low=0.9356, high=0.9506), "accuracy")
        ('94.3%', '[93.6, 95.1]')
    """
    if estimate is None or estimate.value is None:
        return MISSING, ""
    if key not in SHARES:
        return phrases.number(estimate.value), phrases.span(estimate)
    ends = [phrases.percent(end)[:-1] for end in (estimate.low, estimate.high) if end is not None]
    return phrases.percent(estimate.value), f"[{', '.join(ends)}]" if ends else ""


def with_interval(estimate: Estimate, *, signed: bool = False) -> str:
    """The value, followed by its interval in brackets if it has one."""
    shown = number(estimate.value, signed=signed)
    return shown if estimate.low is None else f"{shown} {interval(estimate, signed=signed)}"


def count(value: int) -> str:
    return f"{value:,}"


def percent(level: float) -> str:
    return f"{100 * level:.6g}%"


def parameter(value: float | tuple[float, ...], *, most: int = 6) -> str:
    """A number of any size with four significant digits; long lists are cut and show their length.

    Example:
        >>> parameter(-0.00012345), parameter(1234.5)
        ('−0.0001234', '1234')
    """
    if not isinstance(value, tuple):
        return f"{value:.4g}".replace("-", "−")
    shown = ", ".join(parameter(entry) for entry in value[:most])
    return f"[{shown}]" if len(value) <= most else f"[{shown}, … {count(len(value))} values]"


def parameter_name(name: str) -> str:
    return {"original": "share of the original probabilities"}.get(name, name)


def shortened(name: str, *, most: int = 28) -> str:
    """A name that is too long, cut in the middle so that both ends stay."""
    if len(name) <= most:
        return name
    return f"{name[: most // 2]}…{name[len(name) - (most - most // 2 - 1) :]}"


def of_event(what: str, event: str) -> str:
    """Add the name of the event to a quantity, if it has its own name.

    Example:
        >>> of_event("actual rate", "sepsis"), of_event("actual rate", "positive class")
        ('actual rate of sepsis', 'actual rate')
    """
    if event in {"", POSITIVE_CLASS, "top label", "all labels"}:
        return what
    return f"{what} of {f'class {event}' if event.isdecimal() else shortened(event)}"


def halves(curve_name: str) -> tuple[str, str]:
    """Words for the upper and the lower half of a histogram.

    Example:
        >>> halves("top label"), halves("positive class"), halves("sepsis")
        (('correct', 'wrong'), ('positive', 'negative'), ('sepsis', 'not sepsis'))
    """
    if curve_name == "top label":
        return "correct", "wrong"
    if not of_event("", curve_name):
        return "positive", "negative"
    name = of_event("", curve_name).removeprefix(" of ")
    return name, f"not {name}"


def misses(curve_name: str) -> tuple[str, str]:
    """Words for bins below and above the diagonal, of the top label or of an event.

    Example:
        >>> misses("top label"), misses("positive class")
        (('overconfident', 'underconfident'), ('too high', 'too low'))
    """
    return ("overconfident", "underconfident") if curve_name == "top label" else ("too high", "too low")
