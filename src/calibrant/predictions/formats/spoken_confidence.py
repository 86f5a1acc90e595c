"""The confidence that a generated answer states in words: a small grammar, read from left to right.

.. code-block:: text

    statement = word [scale] separator value | value "sure"
    word      = "confidence" | "probability" | "certainty" ["level" | "score" | ...]
    scale     = "(0-100)" | "[1-10]" | "(between 0 and 1)" | "(in %)" | ...
    separator = ":" | "=" | "is" | a dash with blanks about it | nothing
    value     = number "%" | number "/" number | number "out of" number | number

A scale that is stated decides how its number is read: as a share of the scale's upper end. Without one a
number has a unit or lies between 0 and 1. Anything else (a range, a bound, a negation, a doubt, a number
beyond its scale) is found and not read: a guess would count as the model's own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_NUMBER = r"(?:\d+(?:[.,]\d+)?|\.\d+)(?:e[+-]?\d+)?"
_PERCENT = r"\\?(?:%|percent\b|pct\b)"
_GAP = r"[^\S\n]*"  # blanks within a line
_ENDS = r"(?!\w)(?![.,:]\d)"  # nor does "85" end within "850" or "8.5"

_HEAD = re.compile(
    r"(?P<answer>answer\s*(?:and|&)\s*)?(?<![a-z])(?<!</)(?:confidence|probability|certainty)"
    r"(?:[\s_-]*(?:level|score|rating|estimate|value))?(?:\s+in\s+(?:my|this|the)\s+answer)?(?![a-z])",
    re.IGNORECASE,
)
_SPAN = (
    r"(?:(?:on|a|the|scale|range|number|between|from|of|:)\s*){0,6}"
    rf"(?P<low>{_NUMBER})\s*%?\s*(?:-|–|—|to|and|\.\.+|,)\s*(?P<high>{_NUMBER})\s*%?(?:\s*scale)?"
)
_SCALE = (
    rf"(?:{_SPAN}|(?:out\s+of|max\.?|/)\s*(?P<top>{_NUMBER})\s*%?|(?:in|as)?\s*(?:an?\s+)?"
    r"(?P<percent>%|percentage|percent\b|pct\b))"
)
_SCALE_BEFORE = re.compile(
    rf"[\s*_\"'`]*(?:[(\[]\s*{_SCALE}\s*[)\]]|{_SCALE.replace('?P<', '?P<bare_')}(?=[\s*_\"'`]*[:=]))",
    re.IGNORECASE,
)
_SCALE_AFTER = re.compile(
    rf"{_GAP}(?:[(\[]\s*{_SCALE}\s*[)\]]|,?{_GAP}(?=(?:on|between|from|in|as)\b)"
    rf"{_SCALE.replace('?P<', '?P<bare_')})",
    re.IGNORECASE,
)
_FILLER = (
    r"(?:[\s*_\"'`$()\[\]{}~≈]|\\text|\b(?:of|is|was|are|about|around|approximately|approx\.?|roughly|very|"
    r"quite|fairly|extremely|high|medium|moderate|low)\b){0,24}"
)
_SEPARATOR = re.compile(rf"{_FILLER}(?:(?P<formal>[:=→|]|->)|[-–—](?=\s))?{_FILLER}", re.IGNORECASE)
_OF_ANSWER = re.compile(r"[^\n]*[,;][^\S\n]+|[^,;\n]*[,;]")  # "B, " before the confidence
_VALUE = re.compile(
    rf"(?P<number>{_NUMBER}){_ENDS}{_GAP}(?P<percent>{_PERCENT})?"
    rf"(?:{_GAP}(?:/|[(\[]?{_GAP}out\s+of){_GAP}(?P<top>{_NUMBER}){_ENDS}{_GAP}(?:{_PERCENT})?(?!{_GAP}/))?",
    re.IGNORECASE,
)
_SURE = re.compile(
    rf"{_GAP}(?:confident|confidence(?!\s+(?:interval|region|limit|band|bound))|sure|certain(?:ty)?)\b",
    re.IGNORECASE,
)
_SPOILED_AFTER = re.compile(
    rf"{_GAP}[)\]]?{_GAP}(?:(?:[-–—−/+±]|\+/-|\\pm|(?:to|or|and|plus|minus|less)\b){_GAP}\$?{_NUMBER}|\+|not\b|"
    r"or\s+(?:more|less|higher|lower|above|below)\b|[^.,;:\n]{0,20}?\b(?:un(?:sure|certain|confident)|doubt))|"
    r"\s*[)\]]\s*[:=]",
    re.IGNORECASE,
)
_SPOILED_BEFORE = re.compile(
    r"(?:(?:\b(?:not|never|hardly|nor|cannot)|n['’]t)(?:[^\S\n]+[\w'’]+){0,3}|"
    r"\b(?:than|at\s+least|at\s+most|over|under|above|below|up\s+to)|"
    r"\d\s*%?\s*(?:-|–|—|−|to|or|and|/)|[-–—−+±<>≤≥])[^\S\n\w]*$",
    re.IGNORECASE,
)
_NOT_BEFORE = re.compile(r"\b(?:not?|non|lack\s+of|without)[\s-]*$", re.IGNORECASE)
_MENTIONED = re.compile(
    r"(?:confidence(?!\s+interval)|probability|certainty)[^.\n]{0,40}?\d|"
    r"\d\s*(?:%|percent)[^.\n]{0,20}?(?:confident|sure\b|certain|doubt)",
    re.IGNORECASE,
)
_LONGEST = 60  # characters of an example


@dataclass(frozen=True)
class Spoken:
    """Stated confidence in a text."""

    share: float | None
    """The confidence as a fraction; None where it is not understood."""
    words: str
    """The form of the statement."""


def spoken_confidence(text: str) -> Spoken | None:
    r"""Return the last confidence that a text states, or None.

    Example:
        >>> spoken_confidence("Paris.\nConfidence (1-10): 8")
        Spoken(share=0.8, words='Confidence (1-10): 8')
        >>> spoken_confidence("I am not 85% sure.")
        Spoken(share=None, words='I am not 85% sure.')
        >>> spoken_confidence("Paris.")
    """
    found = max((*_after_a_word(text), *_before_sure(text)), default=None)
    if found is not None:
        place, misunderstood, share = found
        return Spoken(None if misunderstood else share, _line(text, place))
    mention = _MENTIONED.search(text)
    return None if mention is None else Spoken(None, _line(text, mention.start()))


def _after_a_word(text: str) -> Iterator[tuple[int, bool, float]]:
    """Yield place, doubt and share for statements such as ``Confidence: 85%``."""
    for head in _HEAD.finditer(text):
        scale = _SCALE_BEFORE.match(text, head.end())
        start = head.end() if scale is None else scale.end()
        tag = text[head.start() - 1 : head.start()] == "<" and text[start : start + 1] == ">"
        separator = _SEPARATOR.match(text, start + tag)
        if separator is None:  # (it may be empty)
            continue
        place = separator.end()
        value = _VALUE.match(text, place)
        if head["answer"]:
            answer = _OF_ANSWER.match(text, place)
            place = place if answer is None else answer.end()
            value = answer and _VALUE.match(text, place)
        if value is not None:
            share = _share_of(text, value, scale)
            told = head["answer"] and text[value.end() :].partition("\n")[0].strip(" \t\r*_.\"')]}$")
            opened = separator[0].rstrip("\"'`$*_ ")[-1:] in {"(", "["}
            unclosed = opened and not re.match(rf"{_GAP}[^\w\n]*[)\]]", text[value.end() :])
            denied = _NOT_BEFORE.search(text[: head.start()])
            yield place, bool(share is None or told or unclosed or denied), share or 0.0
        elif tag or separator["formal"]:
            yield place, True, 0.0


def _before_sure(text: str) -> Iterator[tuple[int, bool, float]]:
    """Yield place, doubt and share for statements such as ``85 % sure``."""
    for value in _VALUE.finditer(text):
        if (value["percent"] or value["top"]) and _SURE.match(text, value.end()):
            share = _share_of(text, value, None)
            denied = _SPOILED_BEFORE.search(text[: value.start()])
            yield value.start(), bool(share is None or denied), share or 0.0


def _share_of(text: str, value: re.Match[str], scale: re.Match[str] | None) -> float | None:
    end = value.end()
    if scale is None and not value["percent"] and not value["top"]:
        scale = _SCALE_AFTER.match(text, end)
        end = end if scale is None else scale.end()
    if _SPOILED_AFTER.match(text, end):
        return None
    if re.fullmatch(r"[1-9]\d*,\d{3}", value["number"]):  # a thousand, or one
        return None
    number, top = _float(value["number"]), value["top"] and _float(value["top"])
    low, high = _ends_of(scale)
    if top:
        upper = 100.0 if value["percent"] else top
        if top != upper or (high or top) != top:  # two scales
            return None
    elif value["percent"]:
        upper = 100.0
        if high is not None and high != upper and number <= high:  # "(0-1): 0.85%" says two things
            return None
    elif high is None:
        upper = 1.0
    else:
        upper = high
        whole = high in {1.0, 100.0}
        if number < low or not (low in {0.0, 1.0} or whole) or (high == 100 and 0 < number < 1):
            return None
    return number / upper if upper > 0 and number <= upper else None


def _ends_of(scale: re.Match[str] | None) -> tuple[float, float | None]:
    if scale is None:
        return 0.0, None
    stated = {name.removeprefix("bare_"): text for name, text in scale.groupdict().items() if text}
    if "percent" in stated:
        return 0.0, 100.0
    return _float(stated.get("low", "0")), _float(stated.get("high", stated.get("top", "")))


def _float(text: str) -> float:
    return float(text.replace(",", "."))


def _line(text: str, place: int) -> str:
    start = text.rfind("\n", 0, max(place, 1) - 1) + 1
    stop = text.find("\n", place)
    line = " ".join(text[start : len(text) if stop < 0 else stop].split())
    if len(line) <= _LONGEST:
        return line
    first = max(0, min(place - start - _LONGEST // 2, len(line) - _LONGEST))
    return f"{'… ' if first else ''}{line[first : first + _LONGEST].strip()} …"
