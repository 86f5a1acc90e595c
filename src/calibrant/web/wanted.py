"""What the fields of a request ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from calibrant.web.limits import Refusal
from calibrant.web.uploads import Form
from calibrant.web.work import Wanted

_Number = TypeVar("_Number", int, float)

MOST_BINS, MOST_RESAMPLES, MOST_METHODS = 200, 5000, 8
FIELDS = ("method", "positive_class", "bins", "bootstrap", "level", "seed")


def wanted_of(form: Form, *, report: bool) -> Wanted:
    """The options of an evaluation.

    Raises:
        Refusal: If a field is unknown, no number, or out of range.
    """
    unknown = sorted(set(form.fields) - set(FIELDS))
    if unknown:
        raise Refusal(422, f"there is no field {unknown[0][:50]!r}; there are {', '.join(FIELDS)}.")
    methods = tuple(each.strip() for each in form.fields.get("method", []) if each.strip())
    if len(methods) > MOST_METHODS:
        raise Refusal(422, f"`method` may be given {MOST_METHODS} times; got {len(methods)}.")
    return Wanted(
        calibrators=methods or None,
        positive_class=form.text("positive_class"),
        num_bins=_number(form, "bins", int, Wanted.num_bins, 1, MOST_BINS),
        bootstrap=_number(form, "bootstrap", int, Wanted.bootstrap, 2, MOST_RESAMPLES),
        level=_number(form, "level", float, Wanted.level, 0.5, 0.9999),
        seed=_number(form, "seed", int, Wanted.seed, 0, 2**31),
        report=report,
    )


def _number(
    form: Form, name: str, kind: Callable[[str], _Number], default: _Number, low: _Number, high: _Number
) -> _Number:
    text = form.text(name)
    if text is None:
        return default
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not low <= value <= high:
        what = "an integer" if kind is int else "a number"
        raise Refusal(422, f"`{name}` must be {what} from {low} to {high}; got {text[:50]!r}.")
    return value
