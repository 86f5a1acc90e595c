"""Exception and warning types."""

from __future__ import annotations

import re
import sysconfig
import traceback
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class InputError(ValueError):
    """The caller's numbers, shapes or files are wrong; the message gives cause and remedy."""


class DerivativeError(InputError, RuntimeError):
    """A derivative does not exist; torch raises a RuntimeError for this."""


class LabelError(InputError, IndexError):
    """A label is outside the classes; torch raises an IndexError for this."""


class ShortOfMemoryError(InputError, MemoryError):
    """Memory does not suffice for the caller's input."""


class NotFittedError(ValueError, AttributeError):
    """A calibrator was used before ``fit``."""


class ConvergenceError(RuntimeError):
    """An iterative fit found no reliable optimum."""


class CalibrantWarning(UserWarning):
    """A valid result with a caveat (an optimum on a bound, floored probabilities)."""


EXPECTED = (InputError, NotFittedError, ConvergenceError, OSError)
"""Errors that end a command with one sentence."""


def sentence_of(error: Exception) -> str:
    """System message about a file without the error number; other errors are sentences already."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    name = str(error.filename)[:200]
    return f"{error.strerror}." if error.filename is None else f"{name}: {error.strerror}."


def in_lines(sentence: str) -> str:
    """Split a message into the problem and, below it, the remedy.

    Example:
        >>> print(in_lines("--bins must be at least 1; got 0; leave it out."))
        --bins must be at least 1; got 0.
        Leave it out.
    """
    wrong, *remedies = _REMEDY.split(sentence)
    return ".\n".join([wrong, *(remedy[0].upper() + remedy[1:] for remedy in remedies)])


_REMEDY = re.compile(
    r"(?:; |\. )(?=`calibrant|--[a-z]|(?:add|bring|call|choose|create|delete|did|divide|evaluate|export|"
    r"fetch|fit|get|give|keep|leave|lower|mark|name|pass|put|read|remove|rename|reorder|replace|resume|"
    r"restore|save|see|set|start|store|take|try|upgrade|use|wait|write|if (?:they|rounded|that|-1)|"
    r"for several)\b)"
)
"""Before an instruction, or a command to run."""


@contextmanager
def without_warnings() -> Generator[None]:
    """Silence :class:`CalibrantWarning` inside; the caller reports its content otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        yield


def clause(error: Exception) -> str:
    """Error in a user's code with its file and line, as one clause."""
    said = str(error).strip().splitlines() or ["no details"]
    last = users_frame(error) or traceback.extract_tb(error.__traceback__)[-1]
    place = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
    what = error.msg if isinstance(error, SyntaxError) else said[0].rstrip(".")
    return f"{type(error).__name__}: {what} ({Path(place[0] or '?').name}, line {place[1]})"


def users_frame(error: Exception) -> traceback.FrameSummary | None:
    """Line of a user's code that raised an error; None if calibrant's own code was last."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _PACKAGE in Path(frame.filename).parents:
            return None
        if not frame.filename.startswith("<") and not _LIBRARIES & {*Path(frame.filename).parents}:
            return frame
    return None


_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = {Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")}
