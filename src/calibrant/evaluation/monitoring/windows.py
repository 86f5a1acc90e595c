"""Windows of time, and the events that are monitored."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibrant._math.errors import InputError
from calibrant.evaluation.monitoring.evidence import BENDERS, SHIFTERS
from calibrant.evaluation.resampling.events import Matrix, Vector
from calibrant.predictions import Predictions
from calibrant.predictions.two_classes import event_title


@dataclass(frozen=True)
class Event:
    """Predicted probabilities and outcomes of one event."""

    name: str
    probs: Vector
    outcomes: Vector
    gamblers: Matrix
    share: float  # of the stake


def events_of(predictions: Predictions) -> Iterator[Event]:
    """Each event in turn; of several classes half of the stake goes to the top label."""
    if predictions.kind == "top_label":
        yield _top_label(predictions, 1.0)
    elif predictions.kind == "binary":
        outcomes = np.asarray(predictions.labels, dtype=np.float64)
        yield Event(event_title(predictions.class_names), predictions.probs.numpy(), outcomes, BENDERS, 1.0)
    else:
        several = predictions.kind == "multilabel"
        if not several:
            yield _top_label(predictions, 0.5)
        probs, labels = predictions.probs.numpy(), np.asarray(predictions.labels)
        names = predictions.class_names or tuple(str(each) for each in range(probs.shape[1]))
        for column, name in enumerate(names):
            outcomes = (labels[:, column] if several else labels == column).astype(np.float64)
            share = 1.0 if several else 0.5
            gamblers = BENDERS if several else SHIFTERS
            yield Event(name, probs[:, column], outcomes, gamblers, share / len(names))


def stated_probs(predictions: Predictions) -> list[tuple[str, Vector]]:
    """Stated probabilities of the top label, the positive class, or each label; no labels are needed."""
    if predictions.kind in {"top_label", "multiclass"}:
        return [("top label", predictions.confidence.numpy())]
    probs = predictions.probs.numpy()
    if predictions.kind == "binary":
        return [(event_title(predictions.class_names), probs)]
    names = predictions.class_names or tuple(str(each) for each in range(probs.shape[1]))
    return list(zip(names, probs.T, strict=True))


def _top_label(predictions: Predictions, share: float) -> Event:
    outcomes = predictions.correct.numpy().astype(np.float64)
    return Event("top label", predictions.confidence.numpy(), outcomes, BENDERS, share)


def stated_classes(predictions: Predictions) -> np.ndarray[tuple[int], np.dtype[np.int64]] | None:
    """Predicted class of each sample; ``None`` for top-label and multilabel predictions."""
    if predictions.kind == "multiclass":
        return predictions.values.argmax(1).numpy()
    if predictions.kind == "binary":
        return (predictions.probs > 0.5).numpy().astype(np.int64)
    return None


MOST = 2000
_UNITS = {"s": "s", "min": "m", "h": "h", "d": "D", "w": "W"}
_SPAN = re.compile(r"(\d+)\s*(s|min|h|d|w)")


@dataclass(frozen=True)
class Windows:
    """Windows of equal length without gaps, and the one of each sample."""

    index: NDArray[np.int64]  # of each sample
    edges: tuple[str, ...]  # one more than there are windows
    seconds: tuple[float, ...] | None = None  # the edges of dates, since 1970, UTC

    def __len__(self) -> int:
        return len(self.edges) - 1


def when(edge: str) -> str:
    """``on 2026-11-10``, ``at 2026-11-10T12:00:00`` or ``at 400``."""
    return f"{'on' if re.fullmatch(r'[0-9]{4}-[0-9]{2}-[0-9]{2}', edge) else 'at'} {edge}"


def windows_of(times: NDArray[np.generic], window: str | float) -> Windows:
    """Split times into windows, of a span such as ``"12h"`` for dates, else of a number."""
    if np.issubdtype(times.dtype, np.datetime64):
        dates = times.astype("datetime64[s]")
        if np.isnat(dates).any():
            raise InputError(
                f"`times` must be known of every sample; row {int(np.isnat(dates).argmax())} has none."
            )
        seconds = dates.astype(np.int64)
        length = _seconds(window)
        # Weeks begin on Mondays; the first of January 1970 was a Thursday.
        origin = -3 * 86400 if length % (7 * 86400) == 0 else 0
        first, index = _indices(seconds, length, origin)
        starts = origin + length * np.arange(first, first + index.max() + 2)
        edges = tuple(str(each).removesuffix("T00:00:00") for each in starts.astype("datetime64[s]"))
        return Windows(index, edges, tuple(float(each) for each in starts))
    numbers = times.astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int((~np.isfinite(numbers)).argmax())
        raise InputError(f"`times` must be finite; got {numbers[row]} in row {row}.")
    if isinstance(window, str) or not 0 < window < math.inf:
        raise InputError(f"`window` must be a positive number where times are numbers; got {window!r}.")
    first, index = _indices(numbers, window, 0)
    starts = window * np.arange(first, first + index.max() + 2)
    return Windows(index, tuple(_in_full(float(each)) for each in starts))


def ripe(times: NDArray[np.generic], windows: Windows, delay: str | float) -> NDArray[np.bool_]:
    """The samples ``(N,)`` of windows that were over ``delay`` before the latest sample."""
    if np.issubdtype(times.dtype, np.datetime64):
        numbers, length = times.astype("datetime64[s]").astype(np.int64), _seconds(delay, "label_delay")
    elif isinstance(delay, str) or not 0 <= delay < math.inf:
        raise InputError(f"`label_delay` must be a number where times are numbers; got {delay!r}.")
    else:
        numbers, length = times.astype(np.float64), delay
    young = numbers > numbers.max() - length
    return windows.index < windows.index[young].min(initial=len(windows))


def _indices(
    times: NDArray[np.int64] | NDArray[np.float64], length: float, origin: float
) -> tuple[int, NDArray[np.int64]]:
    """Number of the first window, and each sample's window counted from it."""
    numbers = np.floor((times - origin) / length).astype(np.int64)
    first, last = int(numbers.min()), int(numbers.max())
    if last - first >= MOST:
        raise InputError(
            f"`window` must be longer: the times span {last - first + 1:,} windows, and {MOST:,} is the most."
        )
    return first, numbers - first


def _seconds(window: object, name: str = "window") -> int:
    match = _SPAN.fullmatch(window.strip().lower()) if isinstance(window, str) else None
    if match is None or int(match[1]) == 0:
        raise InputError(
            f"`{name}` must be a span such as '1d', '12h', '30min' or '1w' where times are dates; "
            f"got {window!r}."
        )
    return int(match[1]) * int(np.timedelta64(1, _UNITS[match[2]]) / np.timedelta64(1, "s"))


def _in_full(number: float) -> str:
    return f"{number:.0f}" if number.is_integer() and abs(number) < 1e19 else f"{number:.15g}"
