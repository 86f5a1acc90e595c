"""Windows of time, and the events that are monitored."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibrant._math.errors import InputError
from calibrant.evaluation.arguments import names_of
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
    """Each event in turn, with no outcomes if there are no labels.

    With several classes half of the stake goes to the top label.
    """
    kind, known = predictions.kind, predictions.has_labels
    nothing, labels = np.empty(0), np.asarray(predictions.labels)
    if kind in {"top_label", "multiclass"}:
        correct = predictions.correct.numpy().astype(np.float64) if known else nothing
        share = 1.0 if kind == "top_label" else 0.5
        yield Event("top label", predictions.confidence.numpy(), correct, BENDERS, share)
    if kind == "top_label":
        return
    share, gamblers = (0.5, SHIFTERS) if kind == "multiclass" else (1.0, BENDERS)
    probs = predictions.probs.numpy().reshape(predictions.num_samples, -1)
    names = (event_title(predictions.class_names),) if kind == "binary" else names_of(predictions)
    for column, name in enumerate(names):
        occurs = labels[:, column] if labels.ndim == 2 else labels == (1 if kind == "binary" else column)
        outcomes = occurs.astype(np.float64) if known else nothing
        yield Event(name, probs[:, column], outcomes, gamblers, share / len(names))


def stated_probs(predictions: Predictions) -> list[Event]:
    """The top label, the positive class, or each label; no labels are needed."""
    return list(takewhile(lambda event: event.gamblers is BENDERS, events_of(predictions)))


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
    numbers, length = _in_seconds(times, window, "window")
    dated = numbers.dtype == np.int64
    # Weeks begin on Mondays; the first of January 1970 was a Thursday.
    origin = -3 * 86400 if dated and length % (7 * 86400) == 0 else 0
    index = np.floor((numbers - origin) / length).astype(np.int64)
    first, last = int(index.min()), int(index.max())
    if last - first >= MOST:
        raise InputError(
            f"`window` must be longer: the times span {last - first + 1:,} windows, and {MOST:,} is the most."
        )
    starts = origin + length * np.arange(first, last + 2)
    if not dated:
        return Windows(index - first, tuple(_in_full(float(each)) for each in starts))
    edges = tuple(str(each).removesuffix("T00:00:00") for each in starts.astype("datetime64[s]"))
    return Windows(index - first, edges, tuple(float(each) for each in starts))


def ripe(times: NDArray[np.generic], windows: Windows, delay: str | float) -> NDArray[np.bool_]:
    """The samples ``(N,)`` of windows that were over ``delay`` before the latest sample."""
    numbers, length = _in_seconds(times, delay, "label_delay")
    young = numbers > numbers.max() - length
    return windows.index < windows.index[young].min(initial=len(windows))


def _in_seconds(
    times: NDArray[np.generic], span: str | float, name: Literal["window", "label_delay"]
) -> tuple[NDArray[np.int64] | NDArray[np.float64], float]:
    """Dates and a span in seconds, or numbers as they are."""
    if np.issubdtype(times.dtype, np.datetime64):
        dates = times.astype("datetime64[s]")
        if np.isnat(dates).any():
            raise InputError(
                f"`times` must be known of every sample; row {int(np.isnat(dates).argmax())} has none."
            )
        match = _SPAN.fullmatch(span.strip().lower()) if isinstance(span, str) else None
        if match is None or int(match[1]) == 0:
            raise InputError(
                f"`{name}` must be a span such as '1d', '12h', '30min' or '1w' where times are dates; "
                f"got {span!r}."
            )
        unit = int(np.timedelta64(1, _UNITS[match[2]]) / np.timedelta64(1, "s"))
        return dates.astype(np.int64), int(match[1]) * unit
    numbers = times.astype(np.float64)
    if not np.isfinite(numbers).all():
        row = int((~np.isfinite(numbers)).argmax())
        raise InputError(f"`times` must be finite; got {numbers[row]} in row {row}.")
    if isinstance(span, str) or not 0 <= span < math.inf or (name == "window" and span == 0):
        positive = "positive " if name == "window" else ""
        raise InputError(f"`{name}` must be a {positive}number where times are numbers; got {span!r}.")
    return numbers, span


def _in_full(number: float) -> str:
    return f"{number:.0f}" if number.is_integer() and abs(number) < 1e19 else f"{number:.15g}"
