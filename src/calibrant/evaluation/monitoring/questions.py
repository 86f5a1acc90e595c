"""Tests of a monitored stream and their growing evidence."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import takewhile
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibrant._math.drawing import cluster_codes
from calibrant._math.errors import InputError
from calibrant.evaluation.arguments import names_of
from calibrant.evaluation.monitoring.evidence import (
    BENDERS,
    SHIFTERS,
    log_change,
    log_mean_wealth,
    log_tilted,
    log_wealth,
    mean_of,
    over_starts,
)
from calibrant.evaluation.monitoring.result import SequentialTest, TestKey
from calibrant.evaluation.resampling.events import Indices, Matrix, Vector
from calibrant.predictions import Predictions
from calibrant.predictions.labels import event_title


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


CLUSTERS_NOTE = (
    "Samples of a cluster can depend on each other, so bets on them share one stake. A cluster counts with "
    "its samples in the window where it began. The tests against the baseline use one of these samples, "
    "picked by a hash of the cluster's name. The probability of a false alarm holds for checks at the end of "
    "a window, because clusters can still grow in a window that isn't over or waits for labels."
)
_BINS, _LEAST_OF_BIN = 10, 30
_POWER = 4  # digits from which evidence is written as a power of ten


@dataclass(frozen=True)
class Watched:
    """A stream and its labelled samples."""

    stream: Predictions
    told: Predictions  # all of it, if none has
    windows: Windows
    index: Indices  # the window of each labelled sample
    false_alarms: float
    clusters: Indices | None = None  # of each labelled sample; one is in the window where it began


class Evidence(NamedTuple):
    """Evidence ``log E[begun, ended]`` from one event or bin."""

    name: str
    share: float  # of the stake
    evidence: Matrix


_WORDS: dict[TestKey, tuple[str, str, str]] = {
    "calibration": (
        "Predicted probabilities against outcomes",
        "Outcomes do not match the predicted probabilities",
        "No evidence against the predicted probabilities",
    ),
    "change": (
        "Outcomes as in the baseline, at the same predicted probability",
        "At the same predicted probability, outcomes differ from the baseline",
        "No evidence that, at the same predicted probability, outcomes differ from the baseline",
    ),
    "confidence": (
        "Predicted probabilities as in the baseline",
        "The distribution of the predicted probabilities differs from the baseline",
        "No evidence that the distribution of the predicted probabilities differs from the baseline",
    ),
    "stated-classes": (
        "Classes predicted as in the baseline",
        "The shares of the predicted classes differ from the baseline",
        "No evidence that the shares of the predicted classes differ from the baseline",
    ),
    "true-classes": (
        "True classes as in the baseline",
        "The shares of the true classes differ from the baseline",
        "No evidence that the shares of the true classes differ from the baseline",
    ),
}  # title, sentence after an alarm, sentence without one


def calibration_test(watched: Watched, *, decides: bool) -> SequentialTest:
    def wealth(event: Event) -> Matrix:
        known = event.probs, event.outcomes, watched.index, len(watched.windows)
        return log_mean_wealth(log_wealth(*known, event.gamblers, watched.clusters))

    parts = (Evidence(each.name, each.share, wealth(each)) for each in events_of(watched.told))
    return _answer("calibration", parts, watched, watched.false_alarms, decides=decides)


def change_test(watched: Watched, baseline: Predictions, *, decides: bool) -> SequentialTest:
    return _answer("change", _changed(watched, baseline), watched, watched.false_alarms, decides=decides)


def drift_tests(
    watched: Watched, baseline: Predictions, *, labelled: bool, decides: bool
) -> Iterator[SequentialTest]:
    """Tests of the inputs against the baseline; those that only add notes share the false-alarm rate."""
    drifts: dict[TestKey, list[Evidence]] = {
        "confidence": _moved(watched, baseline),
        "stated-classes": _other_classes(watched, baseline, stated=True),
        "true-classes": _other_classes(watched, baseline, stated=False) if labelled else [],
    }
    asked: dict[TestKey, list[Evidence]] = {key: parts for key, parts in drifts.items() if parts}
    for key, parts in asked.items():
        decisive = decides and key == "confidence"
        level = watched.false_alarms / (1 if decisive else len(asked))
        yield _answer(key, parts, watched, level, decides=decisive)


def _changed(watched: Watched, baseline: Predictions) -> Iterator[Evidence]:
    """Evidence of changed outcome rates: half on single bins, half on all bins; for classes only on all."""
    several = watched.told.kind == "multilabel"
    pairs = zip(events_of(watched.told), events_of(baseline), strict=True)
    for place, (told, before) in enumerate(pairs):
        edges = _edges(before.probs)
        old = _counts(before, edges)[0]
        new = _counts(told, edges, watched.index, len(watched.windows))
        if place and not several:  # a class
            yield Evidence(told.name, told.share, log_tilted(new, old))
            continue
        evidence = [log_change(new[:, number], old[number]) for number in range(len(edges) + 1)]
        prefix = "" if told.share == 1 else f"{told.name}, "
        ends = [0.0, *edges, 1.0]
        yield Evidence(told.name if prefix else "", told.share / 2, log_tilted(new, old))
        for number, each in enumerate(evidence):
            where = f"probabilities {ends[number]:.3g} to {ends[number + 1]:.3g}"
            yield Evidence(prefix + where, told.share / 2 / len(evidence), each)


def _moved(watched: Watched, baseline: Predictions) -> list[Evidence]:
    found: list[Evidence] = []
    pairs = list(zip(stated_probs(watched.stream), stated_probs(baseline), strict=True))
    for now, before in pairs:
        edges = _edges(before.probs)
        old, new = (np.searchsorted(edges, each.probs) for each in (before, now))
        table = _table(watched.windows.index, new, len(watched.windows), len(edges) + 1)
        change = log_change(table, _table(0, old, 1, len(edges) + 1)[0])
        found.append(Evidence(now.name, 1 / len(pairs), change))
    return found


def _other_classes(watched: Watched, baseline: Predictions, *, stated: bool) -> list[Evidence]:
    stream, index = (watched.stream, watched.windows.index) if stated else (watched.told, watched.index)
    if stream.kind == "top_label" or (stated and stream.kind == "multilabel"):
        return []
    several = stream.kind == "multilabel"
    names, cells = (names_of(stream), 2) if several else (("classes",), stream.num_classes or 2)

    def columns(each: Predictions) -> Indices:
        given = each.labels
        if stated:
            given = each.probs > 0.5 if each.kind == "binary" else each.values.argmax(1)
        return np.asarray(given).astype(np.int64).reshape(each.num_samples, -1).T

    found: list[Evidence] = []
    for name, now, before in zip(names, columns(stream), columns(baseline), strict=True):
        counts = _table(index, now, len(watched.windows), cells), _table(0, before, 1, cells)[0]
        found.append(Evidence(name, 1 / len(names), log_change(*counts)))
    return found


def _edges(probs: Vector) -> Vector:
    """Edges of bins with equal numbers of baseline samples."""
    bins = int(np.clip(len(probs) // _LEAST_OF_BIN, 1, _BINS))
    return np.unique(np.quantile(probs, np.arange(1, bins) / bins))


def _counts(event: Event, edges: Vector, index: Indices | int = 0, num_windows: int = 1) -> Matrix:
    """Number of absent and present outcomes in each bin: ``(windows, bins, 2)``."""
    cells = 2 * np.searchsorted(edges, event.probs) + event.outcomes.astype(np.int64)
    return _table(index, cells, num_windows, 2 * (len(edges) + 1)).reshape(num_windows, -1, 2)


def _table(rows: Indices | int, cells: Indices, num_rows: int, num_cells: int) -> Matrix:
    counted = np.bincount(rows * num_cells + cells, minlength=num_rows * num_cells)
    return counted.reshape(num_rows, num_cells).astype(np.float64)


def _answer(
    key: TestKey, parts: Iterable[Evidence], watched: Watched, false_alarms: float, *, decides: bool
) -> SequentialTest:
    """Test from the evidence of all parts; after an alarm, also its likely start and clearest part."""
    kept, (title, found, quiet) = list(parts), _WORDS[key]
    together = mean_of([each.evidence for each in kept], [each.share for each in kept])
    evidence = over_starts(together)
    threshold = -math.log(false_alarms)
    reached = np.flatnonzero(evidence >= threshold)
    alarm = int(reached[0]) if len(reached) else None
    since = about = None
    ended, needed = float(evidence[-1]) / math.log(10), threshold / math.log(10)
    sentence = f"{quiet} (evidence {said_times(ended)}; threshold {said_times(needed)})."
    if alarm is not None:
        since = int(together[: alarm + 1, alarm].argmax())
        loudest = max(kept, key=lambda each: float(each.evidence[since, alarm]) + math.log(each.share))
        about = (loudest.name if len(kept) > 1 else "") or None
        start, end = watched.windows.edges[since], watched.windows.edges[alarm + 1]
        reached_by = said_times(float(evidence[alarm]) / math.log(10))
        clearest = f", clearest for {about}" if about else ""
        sentence = (
            f"{found}, most likely since {start}{clearest} "
            f"(alarm {when(end)}: evidence {reached_by}, threshold {said_times(needed)})."
        )
    return SequentialTest(
        key=key,
        title=title,
        decides=decides,
        log10_evidence=tuple(float(each) for each in evidence / math.log(10)),
        log10_threshold=needed,
        alarm=alarm,
        since=since,
        about=about,
        sentence=sentence,
    )


def said_times(log10_evidence: float) -> str:
    """Evidence as a factor, from its decimal logarithm.

    Example:
        >>> [said_times(each) for each in (-7.2, -0.3, 1.30103, 3.1, 12.4)]
        ['10^-7', '0.501', '20', '1,259', '10^12']
    """
    if abs(log10_evidence) >= _POWER:
        return f"10^{log10_evidence:.0f}"
    factor = 10**log10_evidence
    return f"{factor:,.0f}" if factor >= 100 else f"{factor:.3g}"


def whole_clusters(watched: Watched) -> Watched:
    codes = cluster_codes(watched.told.clusters or ())
    first = np.flatnonzero(_in_first_window(codes, watched.index))
    return replace(watched, told=watched.told.rows(first), index=watched.index[first], clusters=codes[first])


def one_per_cluster(watched: Watched, seed: int) -> Watched:
    """The stream with one sample per cluster, from the window where it began."""
    stream, every = sample_per_cluster(watched.stream, watched.windows.index, seed)
    told, index = sample_per_cluster(watched.told, watched.index, seed)
    windows = replace(watched.windows, index=every)
    return replace(watched, stream=stream, told=told, windows=windows, index=index)


def sample_per_cluster(predictions: Predictions, index: Indices, seed: int) -> tuple[Predictions, Indices]:
    """One sample per cluster from its first window, and its window; a hash picks it whatever follows."""
    names = np.asarray(predictions.clusters)
    codes = cluster_codes(names)
    rows = np.flatnonzero(_in_first_window(codes, index))
    rows = rows[np.argsort(codes[rows], kind="stable")]  # cluster by cluster, in their order
    sizes = np.bincount(codes[rows])
    digests = (blake2b(f"{seed} {name}".encode(), digest_size=8).digest() for name in np.unique(names))
    picked = np.array([int.from_bytes(each, "little") for each in digests], dtype=np.uint64)
    place = (picked % sizes.astype(np.uint64)).astype(np.int64)
    rows = np.sort(rows[np.cumsum(sizes) - sizes + place])
    return predictions.rows(rows), index[rows]


def _in_first_window(codes: Indices, index: Indices) -> NDArray[np.bool_]:
    """Mask of the samples in the window where their cluster began."""
    began = np.full(codes.max() + 1, np.iinfo(np.int64).max)
    np.minimum.at(began, codes, index)
    return index == began[codes]
