"""What can go wrong, as types."""

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
    """A derivative that does not exist; torch raises a RuntimeError for this."""


class LabelError(InputError, IndexError):
    """A label is that of no class; torch says this by an IndexError."""


class ShortOfMemoryError(InputError, MemoryError):
    """Memory does not suffice for the caller's input."""


class NotFittedError(ValueError, AttributeError):
    """A calibrator was used before ``fit``."""


class ConvergenceError(RuntimeError):
    """An iterative fit found no reliable optimum."""


class CalibrantWarning(UserWarning):
    """A valid result with a caveat (an optimum on a bound, floored probabilities)."""


EXPECTED = (InputError, NotFittedError, ConvergenceError, OSError)
"""What ends a command with one sentence."""


def sentence_of(error: Exception) -> str:
    """What the system says about a file, without the error number; other errors are sentences already."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    name = str(error.filename)[:200]
    return f"{error.strerror}." if error.filename is None else f"{name}: {error.strerror}."


def in_lines(sentence: str) -> str:
    """What is wrong, and below it what to do.

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
    """No :class:`CalibrantWarning` inside: where what they say is reported in another way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        yield


def clause(error: Exception) -> str:
    """What went wrong in a user's code, and in which line, as one clause."""
    said = str(error).strip().splitlines() or ["no details"]
    last = users_frame(error) or traceback.extract_tb(error.__traceback__)[-1]
    place = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (last.filename, last.lineno)
    what = error.msg if isinstance(error, SyntaxError) else said[0].rstrip(".")
    return f"{type(error).__name__}: {what} ({Path(place[0] or '?').name}, line {place[1]})"


def users_frame(error: Exception) -> traceback.FrameSummary | None:
    """The line of a user's code in which an error arose; None where calibrant's own code was the last."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _PACKAGE in Path(frame.filename).parents:
            return None
        if not frame.filename.startswith("<") and not _LIBRARIES & {*Path(frame.filename).parents}:
            return frame
    return None


_PACKAGE = Path(__file__).parents[1]
_LIBRARIES = {Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib", "platlib")}
