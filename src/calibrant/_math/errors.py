"""What can go wrong, as types."""

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import contextmanager


class InputError(ValueError):
    """The caller's numbers, shapes or files are wrong; the message says which and what to do."""


class DerivativeError(InputError, RuntimeError):
    """A derivative was asked for that does not exist; torch says this by a RuntimeError."""


class LabelError(InputError, IndexError):
    """A label is that of no class; torch says this by an IndexError."""


class NotFittedError(ValueError, AttributeError):
    """A calibrator was used before ``fit``."""


class ConvergenceError(RuntimeError):
    """An iterative fit found no optimum that can be trusted."""


class CalibrantWarning(UserWarning):
    """A result stands, and something about it needs saying (an optimum on a bound, floored probabilities)."""


@contextmanager
def without_warnings() -> Generator[None]:
    """No :class:`CalibrantWarning` inside: where what they say is reported in another way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        yield
