"""Numbers in sentences and tables: digits, and nouns in singular and plural."""

from __future__ import annotations

TOO_WIDE = 1e7  # larger numbers get an exponent: all their digits would not fit a table


def decimals(value: float, digits: int) -> str:
    """A number with ``digits`` decimals, or with an exponent if it is very large.

    Example:
        >>> decimals(0.25, 4), decimals(-1234567.0, 1), decimals(1e300, 4)
        ('0.2500', '-1234567.0', '1.000e+300')
    """
    return f"{value:.{digits}f}" if abs(value) < TOO_WIDE else f"{value:.3e}"


def plural(value: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun.

    Example:
        >>> plural(1, "sample"), plural(2341, "sample"), plural(1, "class", "classes")
        ('1 sample', '2,341 samples', '1 class')
    """
    return f"{value:,} {noun if value == 1 else nouns or noun + 's'}"
