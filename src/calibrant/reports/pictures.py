"""The pictures of a report: figures composed for the page, each with words for those who cannot see it."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibrant.evaluation import quantities, result
from calibrant.metrics import RocCurve
from calibrant.reports import figures, tables, words
from calibrant.reports.svg import to_svg

MOST_PANELS = 24  # small diagrams of a multilabel report; each adds about 15 kB
MOST_OVERLAID = 8  # curves in one picture
MOST_SHIFTS = 14  # classes in one picture
WIDTH, HEIGHT = 2.55, 3.25  # inches of a diagram: two stand side by side on a phone, their letters legible

DETECTION = {
    "auroc": "AUROC",
    "aupr": "AUPR, out-of-distribution samples positive",
    "aupr_in": "AUPR, test samples positive",
    "fpr_at_95": "Test samples flagged at a threshold that flags 95% of the others",
    "fpr_at_95_in": "Out-of-distribution samples passed at a threshold that passes 95% of the test samples",
}


@dataclass(frozen=True)
class Picture:
    """A figure, its caption, and the numbers it was drawn from."""

    svg: Markup
    caption: str
    curve: result.Curve | None = None
    note: str = ""  # small print below the caption
    csv: str = ""  # the numbers it was drawn from, to download


@dataclass(frozen=True)
class Diagrams:
    """One curve's diagrams: those shown side by side at once, and further ones."""

    title: str
    first: tuple[Picture, ...]
    further: tuple[Picture, ...]


def drawn(
    size: tuple[float, float],
    draw: Callable[..., object],
    caption: str,
    *,
    label: str,
    name: str,
    note: str = "",
    csv: str = "",
) -> Picture:
    """A picture of one diagram, ``size`` inches wide and high; ``draw`` gets its axes as ``ax``."""
    figure = Figure(figsize=size, layout="constrained")
    draw(ax=figure.add_subplot())
    return Picture(to_svg(figure, label=label, name=name), caption, note=note, csv=csv)


def error_pictures(found: tables.Found) -> list[Picture]:
    """Calibration errors against noise, one picture for each error of equal-width bins."""
    parts, made = tables.parts(found), list[Picture]()
    for key in sorted({null.metric for part in parts for null in part.null}, key=quantities.display_order):
        described = words.metric(key, found.kind, tables.event_of(found))
        if not described.drawn:
            continue
        rows = [
            (part.title, part.metrics[key], next((n for n in part.null if n.metric == key), None))
            for part in parts
        ]
        spoken = "; ".join(f"{title}: {words.number(estimate.value)}" for title, estimate, _ in rows)
        cells = [
            (title, each.value, each.low, each.high, null and null.mean, null and null.upper)
            for title, each, null in rows
        ]
        numbers = csv_text("name,value,low,high,chance_mean,chance_upper", cells)

        def draw(ax: Axes, key: str = key, title: str = described.title) -> None:
            figures.error_intervals(parts, metric=key, ax=ax).set_xlabel(title)

        label = f"{described.title} against chance. {spoken}."
        size, name = (4.2, 0.5 + 0.36 * len(parts)), f"null-{key}"
        made.append(drawn(size, draw, described.title, label=label, name=name, csv=numbers))
    return made


def diagrams(found: tables.Found) -> list[Diagrams]:
    made: list[Diagrams] = []
    for position, curve in enumerate(tables.whole_curves(tables.parts(found)[0], found.kind)):
        each = tuple(
            _picture(part.title, part.curves[position], f"part{number}-{position}")
            for number, part in enumerate(tables.parts(found))
        )
        made.append(Diagrams(curve.name, each[:2], each[2:]))
    return made


def _picture(title: str, curve: result.Curve, name: str) -> Picture:
    # Fixed places, so that pictures side by side line up whatever their ticks say.
    figure = Figure(figsize=(WIDTH, HEIGHT))
    upper = figure.add_axes((0.225, 0.372, 0.745, 0.745 * WIDTH / HEIGHT))
    lower = figure.add_axes((0.225, 0.12, 0.745, 0.225), sharex=upper)
    figures.reliability_diagram(curve, ax=upper, legend=False)
    figures.confidence_histogram(curve, ax=lower)
    upper.set_xlabel("")
    upper.tick_params(axis="x", labelbottom=False)
    for ax in (upper, lower):
        ax.yaxis.set_label_coords(-0.225, 0.5)
    right, wrong = (
        words.count(sum(counts)) for counts in (curve.histogram_correct, curve.histogram_incorrect)
    )
    label = f"{_spoken(title, curve)} Below, histograms of {right} right and {wrong} wrong samples."
    return Picture(to_svg(figure, label=label, name=name), title, curve, csv=curves_csv({title: curve}))


def _spoken(title: str, curve: result.Curve) -> str:
    above, below, within = figures.place(curve)
    bins, (too_much, too_little) = words.plural(above + below + within, "bin"), words.misses(curve.name)
    return (
        f"Reliability diagram, {curve.name}, {title}: of {bins} with samples, {within} within the band of a "
        f"calibrated model, {below} below it ({too_much}), {above} above it ({too_little})."
    )


def class_shifts(evaluation: result.Evaluation) -> Picture | None:
    """Average probability against actual rate of the classes furthest off; ``None`` if noise is unknown."""
    pairs = [pair for pair in tables.furthest_pairs(evaluation) if pair.before.noise_floor]
    if evaluation.kind == "binary" or not pairs:
        return None
    shown = pairs[:MOST_SHIFTS]
    after = tables.recommended(evaluation)
    arms = {"before": [pair.before for pair in shown]}
    if after is not None:
        arms["after"] = [pair.after for pair in shown if pair.after is not None]
    named_rows = [(name, row) for name, rows in arms.items() for row in rows]
    spoken = [
        f"{name}: {row.name} {words.percent(row.mean_probability)} predicted, "
        f"{words.percent(row.prevalence)} actual"
        for name, row in named_rows
    ]
    numbers = [
        (name, row.name, row.count, row.mean_probability, row.prevalence, row.noise_floor)
        for name, row in named_rows
    ]
    noun, nouns = ("label", "labels") if evaluation.kind == "multilabel" else ("class", "classes")
    caption = f"Is each {noun} predicted as often as it occurs?"
    if len(shown) < len(pairs):
        caption += f" The {len(shown)} of {len(pairs)} {nouns} furthest off"
    return drawn(
        (4.2, 0.55 + 0.2 * len(shown)),
        partial(figures.class_shifts, *arms.values()),
        caption,
        label=f"{caption} Predicted minus actual rate. {'; '.join(spoken)}.",
        name="shifts",
        csv=csv_text("predictions,class,samples,predicted,actual,noise_floor", numbers),
    )


def confidence_overlay(evaluation: result.Evaluation) -> Picture | None:
    """The reliability diagrams before and after the recommended repair in one picture."""
    arms = dict(zip(("before", "after"), tables.before_and_after(evaluation), strict=False))
    curves = {name: tables.whole_curves(arm, evaluation.kind)[:1] for name, arm in arms.items()}
    if not all(curves.values()):
        return None
    of = {name: curve for name, (curve,) in curves.items()}
    return drawn(
        (WIDTH, WIDTH),
        partial(figures.repair_diagram, *of.values()),
        question(of["before"].name).capitalize(),
        label=" ".join(_spoken(name, curve) for name, curve in of.items()),
        name="overlay",
        csv=curves_csv(of),
    )


def question(curve_name: str) -> str:
    return "is 90% confidence 90% right?" if curve_name == "top label" else "is 10% predicted 10% actual?"


def label_panels(evaluation: result.Evaluation) -> list[Picture]:
    """Small diagrams of the labels, before and after in one, the largest error first."""
    arms = tables.ordered_arms(evaluation)[:2]
    labels = [list(zip(tables.label_curves(arm, evaluation.kind), arm.classes, strict=True)) for arm in arms]
    by_label = sorted(zip(*labels, strict=True), key=lambda arms_of_label: -arms_of_label[0][1].ece)
    panels: list[Picture] = []
    for position, label in enumerate(by_label[:MOST_PANELS]):
        curves = {arm.title: curve for arm, (curve, _) in zip(arms, label, strict=True)}
        caption = " → ".join(words.number(row.ece) for _, row in label)
        panel = _overlaid(curves, caption, name=f"label{position}", size=1.9, small=True)
        panels.append(replace(panel, curve=label[0][0]))
    return panels


def overlay(comparison: result.Comparison, curve_name: str, name: str, *, small: bool) -> Picture:
    """One curve of every model in one picture."""
    curves = {
        model.name: next(curve for curve in model.curves if curve.name == curve_name)
        for model in comparison.models[:MOST_OVERLAID]
    }
    return _overlaid(curves, curve_name, name=name, size=1.9 if small else 3.2, small=small)


def _overlaid(
    curves: dict[str, result.Curve], caption: str, *, name: str, size: float, small: bool = False
) -> Picture:
    def draw(ax: Axes) -> None:
        figures.reliability_comparison(curves, ax=ax, legend=False)
        if small:
            ax.set(xlabel="", ylabel="", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])

    spoken = " ".join(_spoken(title, curve) for title, curve in curves.items())
    return drawn((size, size), draw, caption, label=spoken, name=name, csv=curves_csv(curves))


def legend(names: Sequence[str]) -> list[tuple[str, Markup]]:
    """Names of the curves of :func:`reliability_comparison`, and their lines."""
    made: list[tuple[str, Markup]] = []
    for position, name in enumerate(names):
        colour, shape, dashes = figures.series(position)
        figure = Figure(figsize=(0.4, 0.16))
        ax = figure.add_axes((0, 0, 1, 1))
        ax.set_axis_off()
        style: Any = {"color": colour, "linestyle": dashes, "marker": shape, "markersize": 4.5}
        ax.plot([0, 1, 2], [0, 0, 0], markevery=[1], **style)
        made.append((name, to_svg(figure, label="", name=f"swatch{position}")))
    return made


def shape_groups(evaluation: result.Evaluation) -> list[tuple[str, list[Picture]]]:
    """Pictures without bins by kind of event, before calibration and for the next arm."""
    arms = tables.ordered_arms(evaluation)[:2]
    groups: list[tuple[str, list[Picture]]] = []
    for place, shapes in enumerate(evaluation.arms[0].shapes):
        of = {arm.title: arm.shapes[place] for arm in arms if len(arm.shapes) > place}
        made: list[Picture | None] = []
        for number, (title, each) in enumerate(of.items()):
            made += [draw(title, each, f"{place}-{number}") for draw in (_corp, _witness)]
        made += [_risk(of, f"risk{place}"), _roc(of, f"roc{place}")]
        groups.append((shapes.name, [picture for picture in made if picture is not None]))
    return groups


def _corp(title: str, shapes: result.Shapes, name: str) -> Picture:
    curve, band, values = shapes.corp, shapes.band, shapes.corp.values
    steps = zip(curve.lower, curve.upper, values, curve.counts, strict=True)
    rows: list[Sequence[Cell]] = [
        *(("step", low, high, value, None, None, count) for low, high, value, count in steps),
        *(
            ("band", at, at, None, *ends, None)
            for at, *ends in zip(band.positions, band.low, band.high, strict=True)
        ),
    ]
    return drawn(
        (3.5, 3.4),
        partial(figures.corp_diagram, curve, band=band, legend=False),
        f"{title}: CORP",
        label=f"CORP reliability diagram, {shapes.name}, {title}: an isotonic curve of {len(values)} steps "
        f"from {words.number(values[0])} to {words.number(values[-1])}, the band of a calibrated model, and "
        "grey bars for the samples in each step.",
        name=f"corp{name}",
        csv=csv_text("part,stated_low,stated_high,found,calibrated_low,calibrated_high,samples", rows),
    )


def _witness(title: str, shapes: result.Shapes, name: str) -> Picture:
    witness, (too_much, too_little) = shapes.witness, words.misses(shapes.name)
    return drawn(
        (3.5, 3.4),
        partial(figures.witness_diagram, witness, legend=False),
        f"{title}: local errors",
        label=f"Witness of the smooth calibration error, {shapes.name}, {title}: the error is "
        f"{words.number(witness.value)}; above zero the model is {too_little}, below {too_much}.",
        name=f"witness{name}",
        csv=lines_csv("stated", "witness", {title: (witness.points, witness.values)}),
    )


def _risk(of: dict[str, result.Shapes], name: str) -> Picture | None:
    found = {title: each.selection for title, each in of.items() if each.selection is not None}
    if not found:
        return None
    curves = {title: each.curve for title, each in found.items()}
    spoken = "; ".join(
        f"{title}: area {words.with_interval(each.area)}, {words.with_interval(each.excess_area)} beyond the "
        "best order"
        for title, each in found.items()
    )
    lines = {title: (each.coverage, each.risk) for title, each in curves.items()}
    return drawn(
        (3.5, 3.0),
        partial(figures.risk_coverage_diagram, curves if len(curves) > 1 else next(iter(curves.values()))),
        "Risk against coverage",
        label=f"Risk against coverage. {spoken}.",
        name=name,
        note=f"{spoken}.",
        csv=lines_csv("coverage", "risk", lines),
    )


def _roc(of: dict[str, result.Shapes], name: str) -> Picture | None:
    curves = {title: each.roc for title, each in of.items() if each.roc is not None}
    if not curves:
        return None
    draw = partial(figures.roc_diagram, curves)
    return drawn((3.5, 3.5), draw, "ROC", label="ROC curves.", name=name, csv=_roc_csv(curves))


def _roc_csv(curves: dict[str, RocCurve]) -> str:
    points = {title: (each.false_positive_rate, each.true_positive_rate) for title, each in curves.items()}
    return lines_csv("false_positive_rate", "true_positive_rate", points)


def detection_picture(evaluation: result.Evaluation) -> Picture | None:
    found = evaluation.out_of_distribution
    if found is None:
        return None
    curves = {arm.title: arm.roc for arm in found.arms[:MOST_OVERLAID]}

    def draw(ax: Axes) -> None:
        figures.roc_diagram(curves, ax=ax)
        ax.set(xlabel="test samples flagged", ylabel="out-of-distribution samples flagged")

    caption = "Out-of-distribution against test samples"
    return drawn((3.5, 3.5), draw, caption, label=found.sentence, name="detection", csv=_roc_csv(curves))


def detection_rows(
    evaluation: result.Evaluation,
) -> list[tuple[str, list[tuple[result.Detection, result.Estimate, result.Estimate | None]]]]:
    """The title of each number, and its value for every arm."""
    found = evaluation.out_of_distribution
    if found is None:
        return []
    return [
        (title, [(arm, arm.metrics[key], arm.change.get(key)) for arm in found.arms])
        for key, title in DETECTION.items()
    ]


# The numbers behind a picture as CSV, for whoever draws it anew.

Cell = str | float | None


def csv_text(head: str, rows: Sequence[Sequence[Cell]]) -> str:
    r"""A header and rows; six significant digits, nothing for missing values.

    Example:
        >>> csv_text("bin,share", [["0 to 1", 0.12345678], ["empty", None]])
        'bin,share\n0 to 1,0.123457\nempty,\n'
    """
    text = io.StringIO()
    text.write(f"{head}\n")
    writer = csv.writer(text, lineterminator="\n")
    for row in rows:
        writer.writerow(f"{cell:.6g}" if isinstance(cell, float) else cell for cell in row)
    return text.getvalue()


_OF_BINS = ("counts", "confidence", "accuracy", "low", "high", "expected_low", "expected_high")


def curves_csv(curves: Mapping[str, result.Curve]) -> str:
    """Reliability diagrams: one row for each bin of each curve."""
    rows = [
        (name, *values)
        for name, curve in curves.items()
        for values in zip(
            curve.edges[:-1], curve.edges[1:], *(getattr(curve, each) for each in _OF_BINS), strict=True
        )
    ]
    return csv_text(
        "curve,bin_low,bin_high,samples,stated,found,interval_low,interval_high,calibrated_low,"
        "calibrated_high",
        rows,
    )


def lines_csv(across: str, up: str, lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> str:
    """Lines by name, point by point."""
    rows = [(name, x, y) for name, (xs, ys) in lines.items() for x, y in zip(xs, ys, strict=True)]
    return csv_text(f"curve,{across},{up}", rows)
