"""The report of a monitor: alarm, evidence and the numbers of each window."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibrant.evaluation.monitoring.hanging_together import CLUSTERS_NOTE
from calibrant.evaluation.monitoring.questions import said_times
from calibrant.evaluation.monitoring.result import Monitoring
from calibrant.evaluation.quantities import ECE
from calibrant.reports.figures.over_time import evidence_diagram, window_diagram
from calibrant.reports.over_time import deciding, means_of, titles, window_cells
from calibrant.reports.pictures import Picture
from calibrant.reports.sections import Section, SectionTable
from calibrant.reports.svg import to_svg
from calibrant.reports.words import count

SIZE = (4.2, 2.6)  # inches


def headline(found: Monitoring) -> str:
    """Alarm or no alarm, in a sentence."""
    test = deciding(found)
    if test.alarm is None:
        return "No alarm: no evidence against the model so far."
    about = f", clearest for {test.about}" if test.about else ""
    end, start = found.windows[test.alarm].end, found.windows[test.since or 0].start
    return f"Alarm at {end}, most likely since {start}{about}."


def context(found: Monitoring) -> dict[str, object]:
    """Everything the template shows."""
    return {
        "found": found,
        "headline": headline(found),
        "clustered": CLUSTERS_NOTE in found.notes,
        "sections": list(_sections(found)),
    }


def _sections(found: Monitoring) -> Iterator[Section]:
    yield Section(
        title="Tests and evidence",
        points=tuple(
            f"{'Decides' if test.decides else 'Noted only'}: {test.sentence}"
            for test in sorted(found.tests, key=lambda test: not test.decides)
        ),
        pictures=(
            _picture(
                "evidence",
                "Evidence at the end of each window (dashed: alarm level)",
                deciding(found).sentence,
                lambda ax: evidence_diagram(found, ax=ax),
            ),
            _picture(
                "error",
                "Calibration error of each window, with its interval",
                _spoken(found),
                lambda ax: window_diagram(found, [(ECE.key, "ECE")], ax=ax).set_ylabel("ECE"),
            ),
            _picture(
                "means",
                "Predicted and actual rates",
                _spoken(found),
                lambda ax: window_diagram(found, means_of(found), ax=ax).set_ylabel("mean"),
            ),
        ),
        note="The evidence stays valid however often you check. Each interval is for one window only: a "
        "calibrated model falls outside it in about 5 of 100 windows.",
    )
    yield Section(title="Windows", table=_table(found))


def _picture(name: str, caption: str, label: str, draw: Callable[[Axes], object]) -> Picture:
    figure = Figure(figsize=SIZE, layout="constrained")
    draw(figure.add_subplot())
    return Picture(to_svg(figure, label=label, name=f"monitor-{name}"), caption)


def _spoken(found: Monitoring) -> str:
    """The last window in words, for those who cannot see the picture."""
    last = found.windows[-1]
    cells = zip(titles(found)[2:], window_cells(last, found), strict=True)
    return f"In the last window, from {last.start}: " + ", ".join(f"{title} {cell}" for title, cell in cells)


def _table(found: Monitoring) -> SectionTable:
    evidence = deciding(found).log10_evidence
    return SectionTable(
        label="Numbers of each window",
        columns=(*titles(found), "evidence"),
        rows=tuple(
            (
                window.start,
                f"{count(window.num_labelled)}/{count(window.num_samples)}",
                *window_cells(window, found),
                said_times(each),
            )
            for window, each in zip(found.windows, evidence, strict=True)
        ),
    )
