"""The report of a monitor: alarm, evidence and the numbers of each window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes

from calibrant.evaluation.monitoring.questions import CLUSTERS_NOTE, said_times, when
from calibrant.evaluation.monitoring.result import Monitoring
from calibrant.reports.figures import drawing
from calibrant.reports.pictures import drawn
from calibrant.reports.sections import Section, SectionTable
from calibrant.reports.tables import deciding, error_of, means_of, window_cells, window_start, window_titles

SIZE = (4.2, 2.6)  # inches


def headline(found: Monitoring) -> str:
    test = deciding(found)
    if test.alarm is None:
        return "No alarm: no evidence against the model so far."
    about = f", clearest for {test.about}" if test.about else ""
    end, start = found.windows[test.alarm].end, found.windows[test.since or 0].start
    return f"Alarm {when(end)}, most likely since {start}{about}."


def context(found: Monitoring) -> dict[str, object]:
    return {
        "found": found,
        "headline": headline(found),
        "clustered": CLUSTERS_NOTE in found.notes,
        "sections": list(_sections(found)),
    }


def _sections(found: Monitoring) -> Iterator[Section]:
    test, spoken = deciding(found), _spoken(found)
    error, means = ([(error_of(found), "ECE")], "ECE"), (means_of(found), "mean")
    evidence = "Evidence at the end of each window (dashed: alarm level)"
    captions = "Calibration error of each window, with its interval", "Predicted and actual rates"
    pictures = (
        ("evidence", partial(evidence_diagram, found), evidence, test.sentence),
        ("error", partial(window_diagram, found, *error), captions[0], spoken),
        ("means", partial(window_diagram, found, *means), captions[1], spoken),
    )
    yield Section(
        title="Tests and evidence",
        points=tuple(
            f"{'Decides' if each.decides else 'Noted only'}: {each.sentence}"
            for each in sorted(found.tests, key=lambda each: not each.decides)
        ),
        pictures=tuple(
            drawn(SIZE, draw, caption, label=label, name=f"monitor-{name}")
            for name, draw, caption, label in pictures
        ),
        note="The evidence stays valid however often you check. Each interval is for one window only: a "
        "calibrated model falls outside it in about 5 of 100 windows.",
    )
    rows = tuple(
        (*window_start(window), *window_cells(window, found), said_times(each))
        for window, each in zip(found.windows, test.log10_evidence, strict=True)
    )
    columns = (*window_titles(found), "evidence")
    yield Section(
        title="Windows", table=SectionTable(label="Numbers of each window", columns=columns, rows=rows)
    )


def _spoken(found: Monitoring) -> str:
    """The last window in words, for those who cannot see the picture."""
    last = found.windows[-1]
    cells = zip(window_titles(found)[2:], window_cells(last, found), strict=True)
    return f"In the last window, from {last.start}: " + ", ".join(f"{title} {cell}" for title, cell in cells)


MOST_MARKED = 6  # windows named below the axis


def evidence_diagram(found: Monitoring, ax: Axes) -> Axes:
    """Evidence of the deciding test at the end of each window, and the alarm threshold."""
    test = deciding(found)
    ax.plot(np.arange(len(test.log10_evidence)), test.log10_evidence, color=drawing.BLUE, marker=".", lw=1)
    ax.axhline(test.log10_threshold, color=drawing.GREY, linestyle=drawing.DASHED, lw=0.8)
    if test.alarm is not None:
        ax.plot([test.alarm], [test.log10_evidence[test.alarm]], "D", color=drawing.VERMILLION)
    ax.set_ylabel("evidence, power of ten")
    return _named(found, ax)


def window_diagram(found: Monitoring, keys: Sequence[tuple[str, str]], up: str, ax: Axes) -> Axes:
    """Numbers of each window by key and title, with intervals of the window alone."""
    for position, (key, name) in enumerate(keys):
        color, shape, dashes = drawing.series(position)
        rows = [
            (place, each.value, *(each.value if end is None else end for end in (each.low, each.high)))
            for place, window in enumerate(found.windows)
            if (each := window.metrics.get(key)) is not None and each.value is not None
        ]
        places, values, low, high = np.array(rows, dtype=np.float64).reshape(-1, 4).T
        ax.plot(places, values, color=color, marker=shape, ms=3, linestyle=dashes, lw=1, label=name)
        ax.vlines(places, low, high, color=color, lw=0.8, alpha=0.7)
    if len(keys) > 1:
        ax.legend(frameon=False)
    ax.set_ylabel(up)
    return _named(found, ax)


def _named(found: Monitoring, ax: Axes) -> Axes:
    step = -(-len(found.windows) // MOST_MARKED)
    starts = [window.start for window in found.windows[::step]]
    ax.set_xticks(np.arange(0, len(found.windows), step), starts, rotation=30, ha="right")
    ax.set_xlabel("window")
    return ax
