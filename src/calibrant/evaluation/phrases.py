"""Numbers in sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping

from calibrant._math.text_form import decimals
from calibrant.evaluation.result import Estimate, NullError, Part

SYMBOLS = {"temperature": "T", "gamma": "γ"}
SMALLEST_P = 0.0001  # of a normal distribution, whose tails are not to be trusted further
_MOST_DECIMALS = 6


def percent(share: float) -> str:
    """``82.9%``, with more digits if it would round to 0 or 100.

    Example:
        >>> percent(0.829), percent(1.0), percent(0.99991), percent(0.0002), percent(1e-16)
        ('82.9%', '100%', '99.99%', '0.02%', '0%')
    """
    value = 100 * share
    digits = 1
    while digits < 6 and round(value, digits) in {0.0, 100.0}:
        digits += 1
    if round(value, digits) in {0.0, 100.0}:
        return f"{value:.0f}%"
    return f"{value:.{digits}f}%"


def points(share: float) -> str:
    """``0.5 points``: a difference of shares, in percentage points.

    Example:
        >>> points(0.005), points(0.01), points(0.00038)
        ('0.5 points', '1 point', '0.038 points')
    """
    value = f"{100 * share:.2g}"
    return f"{value} point{'' if value == '1' else 's'}"


def number(value: float, digits: int | None = None, *, table: bool = False, signed: bool = False) -> str:
    """Three significant digits, two below 0.01, or the requested decimals; in a table four decimals.

    A zero has no decimals in a sentence, and no sign in a table. From ten million on, numbers have an
    exponent.

    Example:
        >>> number(0.07512), number(0.00123), number(-0.0751), number(0.0), number(12.345)
        ('0.0751', '0.0012', '−0.0751', '0', '12.3')
        >>> number(0.0751, table=True), number(0.02, table=True, signed=True), number(-0.00001, table=True)
        ('0.0751', '+0.0200', '0.0000')
        >>> number(-3.5e299), number(3.5e299, table=True)
        ('−3.500e+299', '3.500e+299')
    """
    if table:
        digits = 4
    elif value == 0:
        return "0"
    text = decimals(abs(value), _digits(value) if digits is None else digits)
    if float(text) == 0:
        return text if table else "0"
    return ("−" if value < 0 else "+" if signed else "") + text


def _digits(value: float) -> int:
    if value == 0:
        return 3
    size = math.floor(math.log10(abs(value)))
    return max(0, min(2 - size, max(4, 1 - size), _MOST_DECIMALS))


def decimals_apart(first: float, second: float) -> int | None:
    """Decimals needed to tell two numbers apart; ``None`` if the usual ones do, or if they are equal.

    Example:
        >>> decimals_apart(0.0521, 0.0534), decimals_apart(0.05211, 0.05214), decimals_apart(0.1, 0.1)
        (None, 5, None)
    """
    if round(first, _digits(first)) != round(second, _digits(second)):
        return None
    enough = (n for n in range(4, _MOST_DECIMALS + 1) if round(first, n) != round(second, n))
    return next(enough, None)


def with_interval(estimate: Estimate) -> str:
    """``0.0751 [0.0672, 0.0813]``: the value and the interval of the true one, which may leave it out.

    Example:
        >>> with_interval(Estimate(value=0.027, low=0.0, high=0.02))
        '0.0270 [0, 0.0200]'
    """
    if estimate.value is None:
        return "undefined"
    found = span(estimate)
    return f"{number(estimate.value)} {found}" if found else number(estimate.value)


def span(estimate: Estimate) -> str:
    """``[0.0672, 0.0834]``, with the decimals of the value; nothing without an interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    digits = None if estimate.value is None else _digits(estimate.value)
    return f"[{number(estimate.low, digits)}, {number(estimate.high, digits)}]"


def p_value(null: NullError) -> str:
    """``p = 0.031``, or ``p ≤ 0.001``."""
    return f"p {'' if is_bound(null) else '= '}{p_number(null)}"


def p_number(null: NullError) -> str:
    """``0.031``; ``≤ 0.001`` if no draw reached the error, so that more draws could lower it."""
    return f"{'≤ ' if is_bound(null) else ''}{null.p_value:.2g}"


def is_bound(found: NullError | Part) -> bool:
    """True if no draw was as far off."""
    return found.num_draws is not None and found.p_value <= 1 / (1 + found.num_draws)


def part_p_value(part: Part) -> str:
    """``p = 0.031``, adjusted; ``p ≤ 0.003`` if no draw was as far off."""
    value = f"{part.adjusted_p:.2g}" if part.adjusted_p >= SMALLEST_P else f"{SMALLEST_P:g}"
    return f"p {'≤' if is_bound(part) else '<' if part.adjusted_p < SMALLEST_P else '='} {value}"


def settings(parameters: Mapping[str, float | tuple[float, ...]]) -> str:
    """``(T = 1.31, γ = 0.25)``, or a note on one set per label.

    Example:
        >>> settings({"temperature": 1.3071, "gamma": 0.25})
        '(T = 1.31, γ = 0.25)'
        >>> settings({"temperature": (1.2, 0.8)})
        '(one T per label)'
        >>> settings({"slope": 0.899, "intercept": -4.06})
        '(logit × 0.899 − 4.06)'
        >>> settings({"original": 0.02})
        '(2.0% of the original probabilities mixed in)'
        >>> settings({"original": 4e-5})
        ''
    """
    numbers = {SYMBOLS.get(name, name): value for name, value in parameters.items() if name != "original"}
    if any(isinstance(value, tuple) for value in numbers.values()):
        return f"(one {', '.join(numbers)} per label)"
    said = [f"{name} = {value:.3g}".replace("-", "−") for name, value in numbers.items()]
    if list(numbers) == ["slope", "intercept"]:
        slope, intercept = (float(value) for value in numbers.values() if not isinstance(value, tuple))
        sign = "−" if intercept < 0 else "+"
        said = [f"logit × {slope:.3g} {sign} {abs(intercept):.3g}".replace("-", "−")]
    share = parameters.get("original")
    if isinstance(share, float | int) and share >= 0.01:
        said.append(
            "which changes nothing"
            if share == 1
            else f"{percent(share)} of the original probabilities mixed in"
        )
    return f"({', '.join(said)})" if said else ""


def clearly(found: Estimate, than: float = 0.0) -> int:
    """−1 or 1 if the interval, such as that of a change, lies below or above a value, else 0."""
    if found.low is None or found.high is None:
        return 0
    return -1 if found.high < than else 1 if found.low > than else 0
