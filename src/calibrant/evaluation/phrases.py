"""Numbers in sentences."""

from __future__ import annotations

from collections.abc import Mapping

from calibrant.evaluation.result import Estimate, NullError

SYMBOLS = {"temperature": "T", "gamma": "γ"}


def percent(share: float) -> str:
    """``82.9 %``; more digits where few would say 0 or 100.

    Example:
        >>> percent(0.829), percent(1.0), percent(0.99991), percent(0.0002)
        ('82.9 %', '100 %', '99.99 %', '0.02 %')
    """
    value = 100 * share
    if value in {0.0, 100.0}:
        return f"{value:.0f} %"
    digits = 1
    while digits < 6 and round(value, digits) in {0.0, 100.0}:
        digits += 1
    return f"{value:.{digits}f} %"


def number(value: float) -> str:
    """Three decimals, four where the number is small.

    Example:
        >>> number(0.0751), number(0.00123), number(-0.0751), number(0.0)
        ('0.075', '0.0012', '−0.075', '0')
    """
    if value == 0:
        return "0"
    text = f"{abs(value):.{_digits(value)}f}"
    return f"−{text}" if value < 0 else text


def _digits(value: float) -> int:
    return 3 if value == 0 or abs(value) >= 0.01 else 4


def with_margin(estimate: Estimate) -> str:
    """``0.075 ± 0.008``: the value and half the length of its interval."""
    if estimate.value is None:
        return "undefined"
    if estimate.low is None or estimate.high is None:
        return number(estimate.value)
    digits = _digits(estimate.value)
    return f"{estimate.value:.{digits}f} ± {(estimate.high - estimate.low) / 2:.{digits}f}".replace("-", "−")


def span(estimate: Estimate) -> str:
    """``0.067 to 0.083``."""
    if estimate.low is None or estimate.high is None:
        return "no interval"
    return f"{number(estimate.low)} to {number(estimate.high)}"


def p_value(null: NullError) -> str:
    """``p = 0.031``, or ``p ≤ 0.001``."""
    value = p_number(null)
    return f"p {value}" if value.startswith("≤") else f"p = {value}"


def p_number(null: NullError) -> str:
    """``0.031``; ``≤ 0.001`` where no draw reached the error, so that more draws could lower it."""
    bound = "≤ " if null.p_value <= 1 / (1 + null.num_draws) else ""
    return f"{bound}{null.p_value:.2g}"


def settings(parameters: Mapping[str, float | tuple[float, ...]]) -> str:
    """``(T = 1.31, γ = 0.25)``, or that there is one set for each label.

    Example:
        >>> settings({"temperature": 1.3071, "gamma": 0.25})
        '(T = 1.31, γ = 0.25)'
        >>> settings({"temperature": (1.2, 0.8)})
        '(one T for each label)'
    """
    names = [SYMBOLS.get(name, name) for name in parameters]
    if any(isinstance(value, tuple) for value in parameters.values()):
        return f"(one {' and '.join(names)} for each label)"
    said = ", ".join(f"{name} = {value:.3g}" for name, value in zip(names, parameters.values(), strict=True))
    return f"({said})".replace("-", "−") if said else ""


def clearly(change: Estimate) -> int:
    """−1 or 1 where the interval of a change lies below or above zero, else 0."""
    if change.low is None or change.high is None:
        return 0
    return -1 if change.high < 0 else 1 if change.low > 0 else 0
