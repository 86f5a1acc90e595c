"""Every figure that one command draws: of prediction files, and from other distributions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from matplotlib.figure import Figure

from calibrant._math.errors import InputError
from calibrant._math.extensions import extensions
from calibrant._math.text_form import named, nearest
from calibrant.evaluation.judging.diagrams import decisions_of, flexible_of
from calibrant.evaluation.pipeline import judged_as_it_is
from calibrant.evaluation.quantities import AUROC
from calibrant.predictions import Predictions, load_predictions
from calibrant.reports import figures
from calibrant.reports.figures.drawing import legend_above
from calibrant.reports.words import misses, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibrant.evaluation.result import Arm, Curve, Shapes


Picked = TypeVar("Picked")


@dataclass(frozen=True, kw_only=True)
class FigureRequest:
    """Files by display name, and the options; each figure uses those it declares."""

    files: Mapping[str, Path]
    load: Callable[[Path], Predictions] = load_predictions
    positive_class: str | None = None
    label: str | None = None
    bins: int = 15
    level: float = 0.95
    objective: str | None = None
    every_row: bool = False
    resamples: int | None = None
    seed: int = 0
    width: float | None = None  # inches, for a figure that is laid out for its width
    tell: Callable[[str, float], None] = lambda _stage, _share: None


@dataclass(frozen=True)
class DrawnFigure:
    """A figure, a sentence on it, and notes on the files."""

    figure: Figure
    said: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class FileFigure:
    """A figure that one command draws from a file, or from several that are laid over one another."""

    name: str
    summary: str
    draw_files: Callable[[FigureRequest], DrawnFigure]
    several: bool = False  # whether it takes more than one file
    options: frozenset[str]  # fields of the request that it uses
    note: str = ""


WIDTH = 4.4  # inches
LEAST_HISTOGRAM = 1.0  # inches, for the words beside it
LEAST_TICKED = 1.5  # inches; below, six ticks would touch


def draw_reliability(request: FigureRequest) -> DrawnFigure:
    """Diagram with intervals and the noise band, and below it the histogram."""
    found = _judged(request)
    curves = _curves(found, request)
    width = request.width or WIDTH
    figure = Figure(figsize=(width, width))
    upper = figure.add_subplot(2, 1, 1)
    lower = figure.add_subplot(2, 1, 2, sharex=upper)
    if len(curves) == 1:
        (curve,) = curves.values()
        figures.reliability_diagram(curve, ax=upper)
        figures.confidence_histogram(curve, ax=lower)
    else:
        figures.reliability_comparison(curves, ax=upper, bands=True)
        figures.confidence_comparison(curves, ax=lower, legend=False)
    upper.set_xlabel("")
    upper.tick_params(axis="x", labelbottom=False)
    _place(figure, width, legend_above(upper, width))
    figure.align_ylabels([upper, lower])
    return DrawnFigure(figure, _said(found, curves), _notes(found))


def _place(figure: Figure, width: float, legend: float) -> None:
    """A square, below it a histogram as wide, above it the legend; in inches, as letters keep their size."""
    upper, lower = figure.axes
    left, bottom, gap = 0.75, 0.5, 0.28
    side = width - left - 0.17
    low = max(0.38 * side, LEAST_HISTOGRAM)
    height = bottom + low + gap + side + 0.12 + legend
    figure.set_size_inches(width, height)
    upper.set_position((left / width, (bottom + low + gap) / height, side / width, side / height))
    lower.set_position((left / width, bottom / height, side / width, low / height))
    if side < LEAST_TICKED:
        upper.set(xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))


def draw_confidence(request: FigureRequest) -> DrawnFigure:
    """Histogram of confidence; for a single file, of correct and wrong answers."""
    found = _judged(request)
    curves = _curves(found, request)
    if len(curves) > 1:
        return _drawn(figures.confidence_comparison(curves), found)
    return _drawn(figures.confidence_histogram(*curves.values()), found)


def draw_roc(request: FigureRequest) -> DrawnFigure:
    """ROC curves of an event: the positive class, or all labels together."""
    found = _judged(request)
    needs = (
        "the figure roc needs an event (of two classes, or several labels) that occurs in some samples only"
    )
    curves = {
        f"{name} (AUROC {number(found[name].arm.metrics[AUROC.key].value)})": curve
        for name, curve in _shapes(found, lambda shapes: shapes.roc, needs).items()
    }
    return _drawn(figures.roc_diagram(curves), found)


def draw_risk_coverage(request: FigureRequest) -> DrawnFigure:
    """The error rate among the answered samples, the most confident first."""
    found = _judged(request)
    needs = "the figure risk-coverage needs one decision per sample"
    selections = _shapes(found, lambda shapes: shapes.selection, needs)
    curves = {name: each.curve for name, each in selections.items()}
    alone = curves if len(curves) > 1 else next(iter(curves.values()))
    return _drawn(figures.risk_coverage_diagram(alone), found)


def _of_one_event(
    of: Callable[..., tuple[str, Any]], draw: Callable[..., Axes], request: FigureRequest
) -> DrawnFigure:
    """Curves over the probability of an event."""
    files = {name: request.load(path) for name, path in request.files.items()}
    found = {
        name: of(predictions, request.label or request.positive_class, level=request.level)
        for name, predictions in files.items()
    }
    notes = tuple(f"{name}: {note}" for name, predictions in files.items() for note in predictions.notes)
    event = next(iter(found.values()))[0]
    ax = draw({name: curve for name, (_, curve) in found.items()}, event)
    return DrawnFigure(cast("Figure", ax.get_figure(root=True)), notes=notes)


def _shapes(
    found: Mapping[str, _Judged], pick: Callable[[Shapes], Picked | None], needs: str
) -> dict[str, Picked]:
    """The first known picked shape of each file."""
    picked: dict[str, Picked] = {}
    for name, judged in found.items():
        known = [each for each in map(pick, judged.arm.shapes) if each is not None]
        if not known:
            raise InputError(f"{needs}; {name} is {judged.kind}.")
        picked[name] = known[0]
    return picked


def draw_classes(request: FigureRequest) -> DrawnFigure:
    """The classes with the largest calibration errors."""
    found = _judged(request)
    ((name, judged),) = found.items()
    rows = judged.arm.classes
    if not rows:
        raise InputError(f"the figure classes needs the scores of all classes; {name} holds confidences.")
    return _drawn(figures.class_errors(rows), found)


class _Judged(NamedTuple):
    """Evaluation of a file, on its test split if it has one."""

    kind: str
    num_samples: int
    arm: Arm
    notes: tuple[str, ...]


def _judged(request: FigureRequest) -> dict[str, _Judged]:
    found: dict[str, _Judged] = {}
    for place, (name, path) in enumerate(request.files.items()):
        request.tell(f"evaluating {name}", place / len(request.files))
        predictions = request.load(path)
        judged = judged_as_it_is(
            predictions,
            positive_class=request.positive_class,
            num_bins=request.bins,
            level=request.level,
            seed=request.seed,
        )
        found[name] = _Judged(*judged, tuple(f"{name}: {note}" for note in predictions.notes))
    kinds = {each.kind: name for name, each in found.items()}
    if len(kinds) > 1:
        said = " and ".join(f"{name} is {kind}" for kind, name in kinds.items())
        raise InputError(f"files of one figure must be of one kind; {said}.")
    return found


def _curves(found: dict[str, _Judged], request: FigureRequest) -> dict[str, Curve]:
    curves: dict[str, Curve] = {}
    for name, judged in found.items():
        known = {curve.name: curve for curve in judged.arm.curves}
        if request.label is not None and judged.kind != "multilabel":
            raise InputError(f"--label is for multilabel files; {name} is {judged.kind}.")
        wanted = request.label or next(iter(known))
        if wanted not in known:
            raise InputError(f"{name} has no label {wanted!r}{nearest(wanted, list(known)[1:])}")
        curves[name] = known[wanted]
    return curves


def _said(found: dict[str, _Judged], curves: dict[str, Curve]) -> str:
    """Number of samples of each curve, and of its bins outside the noise band."""
    lines: list[str] = []
    for name, curve in curves.items():
        above, below, within = figures.place(curve)
        too_much, too_little = misses(curve.name)
        lines.append(
            f"{name}: {found[name].num_samples:,} samples, {curve.name}; of {above + below + within} bins "
            f"{below} lie below the noise band ({too_much}) and {above} above it ({too_little})."
        )
    return "\n".join(lines)


def _notes(found: dict[str, _Judged]) -> tuple[str, ...]:
    return tuple(note for each in found.values() for note in each.notes)


def _drawn(ax: Axes, found: dict[str, _Judged]) -> DrawnFigure:
    return DrawnFigure(cast("Figure", ax.get_figure(root=True)), notes=_notes(found))


class OtherFigure(Protocol):
    """A figure of the theory, which another distribution adds."""

    name: str
    summary: str
    note: str  # limits of reproducing the published one; may be empty

    def draw(self) -> Figure: ...


_CLASS = {"positive_class"}
_EVENT = _CLASS | {"label", "level"}
_BINS = _EVENT | {"bins", "seed"}
_OF_FILES: dict[str, tuple[Callable[[FigureRequest], DrawnFigure], set[str], str]] = {
    "reliability": (
        draw_reliability,
        _BINS,
        "Predicted probability against actual rate in FILE, with intervals and noise band.",
    ),
    "confidence": (draw_confidence, _BINS, "Confidence of right and of wrong predictions in FILE."),
    "roc": (draw_roc, _CLASS, "ROC curve of the positive class in FILE, or of its labels together."),
    "risk-coverage": (
        draw_risk_coverage,
        _CLASS,
        "The error rate in FILE if only the most confident answers are given.",
    ),
    "decision-curve": (
        partial(_of_one_event, decisions_of, figures.decision_diagram),
        _EVENT,
        "Net benefit of treating above a threshold, against treating all or none.",
    ),
    "calibration-curve": (
        partial(_of_one_event, flexible_of, figures.flexible_diagram),
        _EVENT,
        "Smooth calibration curve of FILE with its band, where its samples are.",
    ),
    "classes": (
        draw_classes,
        _CLASS | {"bins"},
        "The classes or labels of FILE with the largest calibration errors.",
    ),
}
OF_FILES = tuple(
    FileFigure(name=name, summary=said, draw_files=draw, several=name != "classes", options=frozenset(used))
    for name, (draw, used, said) in _OF_FILES.items()
)


def all_figures() -> tuple[FileFigure | OtherFigure, ...]:
    return (*OF_FILES, *(figure for found in extensions("calibrant.figures") for figure in found.load()))


def figure_named(name: str) -> FileFigure | OtherFigure:
    """The figure of that name.

    Raises:
        InputError: If there is none.

    Example:
        >>> figure_named("focal-arrows").name
        'focal-arrows'
    """
    return named(
        name,
        {each.name: each for each in all_figures()},
        "figure",
        remedy=" `calibrant figure --list` lists them; calibrant-lab adds landscape and those of the theory.",
    )
