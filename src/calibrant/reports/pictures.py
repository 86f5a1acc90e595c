"""The pictures of a report: figures composed for the page, each with words for those who cannot see it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup
from matplotlib.figure import Figure

from calibrant.evaluation import quantities
from calibrant.evaluation.result import Arm, ComparedModel, Comparison, Curve, Evaluation
from calibrant.reports import figures, tables, words
from calibrant.reports.figure_data import classes_csv, curves_csv, errors_csv
from calibrant.reports.svg import to_svg

MOST_PANELS = 24  # small diagrams of a multilabel report; each adds about 15 kB
MOST_OVERLAID = 8  # curves in one picture
MOST_SHIFTS = 14  # classes in one picture
WIDTH, HEIGHT = 2.55, 3.25  # inches of a diagram: two stand side by side on a phone, their letters legible


@dataclass(frozen=True)
class Picture:
    """A figure, its caption, and the numbers it was drawn from."""

    svg: Markup
    caption: str
    curve: Curve | None = None
    note: str = ""
    """Small print below the caption."""
    csv: str = ""
    """The numbers that it was drawn from, to be downloaded."""


@dataclass(frozen=True)
class Diagrams:
    """One curve's diagrams: those that stand side by side at once, and the further ones."""

    title: str
    first: tuple[Picture, ...]
    further: tuple[Picture, ...]


def error_pictures(parts: Sequence[Arm | ComparedModel], found: Evaluation | Comparison) -> list[Picture]:
    """Calibration errors against chance, one picture for each error of equal-width bins."""
    made: list[Picture] = []
    for key in sorted({null.metric for part in parts for null in part.null}, key=quantities.display_order):
        described = words.metric(key, found.kind)
        if not described.drawn:
            continue
        title = described.title
        figure = Figure(figsize=(4.2, 0.5 + 0.36 * len(parts)), layout="constrained")
        figures.error_intervals(parts, metric=key, ax=figure.add_subplot()).set_xlabel(title)
        spoken = "; ".join(
            f"{part.title}: {words.number(part.metrics[key].value)}" for part in tables.columns(found)
        )
        label = f"{title} against chance. {spoken}."
        data = errors_csv(
            [
                (column.title, part.metrics[key], next((n for n in part.null if n.metric == key), None))
                for column, part in zip(tables.columns(found), parts, strict=True)
            ]
        )
        made.append(Picture(to_svg(figure, label=label, name=f"null-{key}"), title, csv=data))
    return made


def shown_arms(evaluation: Evaluation) -> list[Arm]:
    """The predictions as they came and, if there is one, the arm that is shown next to them."""
    return [arm for arm in (evaluation.arms[0], tables.shown_second(evaluation)) if arm is not None]


def diagrams(evaluation: Evaluation) -> Iterator[Diagrams]:
    """For each curve of the whole: before, next to it after, and below them what else was tried."""
    shown = shown_arms(evaluation)
    others = [arm for arm in tables.ordered_arms(evaluation) if arm not in shown]
    for position, curve in enumerate(tables.whole_curves(shown[0], evaluation.kind)):
        yield Diagrams(
            curve.name,
            tuple(
                _picture(arm.title, arm.curves[position], f"arm{number}-{position}")
                for number, arm in enumerate(shown)
            ),
            tuple(
                _picture(arm.title, arm.curves[position], f"other{number}-{position}")
                for number, arm in enumerate(others)
            ),
        )


def model_diagrams(comparison: Comparison) -> Iterator[Diagrams]:
    """For each curve of the whole: the first two models side by side, and the others."""
    for position, curve in enumerate(tables.whole_curves(comparison.models[0], comparison.kind)):
        pictures = tuple(
            _picture(model.name, model.curves[position], f"model{number}-{position}")
            for number, model in enumerate(comparison.models)
        )
        yield Diagrams(curve.name, pictures[:2], pictures[2:])


def _picture(title: str, curve: Curve, name: str) -> Picture:
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


def _spoken(title: str, curve: Curve) -> str:
    above, below, within = figures.place(curve)
    bins, (too_much, too_little) = words.plural(above + below + within, "bin"), words.misses(curve.name)
    return (
        f"Reliability diagram, {curve.name}, {title}: of {bins} with samples, {within} within the band of a "
        f"calibrated model, {below} below it ({too_much}), {above} above it ({too_little})."
    )


def class_shifts(evaluation: Evaluation) -> Picture | None:
    """Average probability against actual rate of the classes furthest off; ``None`` if noise is unknown."""
    pairs = [pair for pair in tables.class_pairs(evaluation) if pair.before.noise_floor]
    if evaluation.kind == "binary" or not pairs:
        return None
    shown = sorted(pairs, key=lambda pair: -tables.shift(pair.before))[:MOST_SHIFTS]
    after = tables.recommended(evaluation)
    arms = {"before": [pair.before for pair in shown]}
    if after is not None:
        arms["after"] = [pair.after for pair in shown if pair.after is not None]
    figure = Figure(figsize=(4.2, 0.55 + 0.2 * len(shown)), layout="constrained")
    figures.class_shifts(*arms.values(), ax=figure.add_subplot())
    spoken = [
        f"{name}: {row.name} {words.percent(row.mean_probability)} predicted, "
        f"{words.percent(row.prevalence)} actual"
        for name, rows in arms.items()
        for row in rows
    ]
    noun = "label" if evaluation.kind == "multilabel" else "class"
    nouns = words.plural(len(shown), noun, f"{noun}s" if noun == "label" else "classes")
    caption = nouns if len(shown) == len(pairs) else f"{len(shown)} of {len(pairs)} {nouns.split()[1]}"
    label = f"Predicted minus actual rate of {caption}. {'; '.join(spoken)}."
    return Picture(to_svg(figure, label=label, name="shifts"), caption, csv=classes_csv(arms))


def confidence_overlay(evaluation: Evaluation) -> Picture | None:
    """The reliability diagrams before and after the recommended repair in one."""
    curves = {
        name: tables.whole_curves(arm, evaluation.kind)
        for name, arm in zip(("before", "after"), tables.before_and_after(evaluation), strict=False)
    }
    if not all(curves.values()):
        return None
    first = {name: each[0] for name, each in curves.items()}
    figure = Figure(figsize=(WIDTH, WIDTH), layout="constrained")
    figures.reliability_comparison(first, ax=figure.add_subplot(), legend=False)
    spoken = " ".join(_spoken(name, curve) for name, curve in first.items())
    return Picture(to_svg(figure, label=spoken, name="overlay"), "Confidence", csv=curves_csv(first))


def label_panels(evaluation: Evaluation) -> list[Picture]:
    """Small diagrams of the labels, before and after in one, the largest error first."""
    arms = shown_arms(evaluation)
    labels = [list(zip(tables.label_curves(arm, evaluation.kind), arm.classes, strict=True)) for arm in arms]
    by_label = sorted(zip(*labels, strict=True), key=lambda arms_of_label: -arms_of_label[0][1].ece)
    panels: list[Picture] = []
    for position, label in enumerate(by_label[:MOST_PANELS]):
        curves = {arm.title: curve for arm, (curve, _) in zip(arms, label, strict=True)}
        spoken = " ".join(_spoken(title, curve) for title, curve in curves.items())
        caption = " → ".join(words.number(row.ece) for _, row in label)
        svg = to_svg(_panel(curves), label=spoken, name=f"label{position}")
        panels.append(Picture(svg, caption, label[0][0], csv=curves_csv(curves)))
    return panels


def _panel(curves: dict[str, Curve]) -> Figure:
    figure = Figure(figsize=(1.9, 1.9), layout="constrained")
    ax = figures.reliability_comparison(curves, ax=figure.add_subplot(), legend=False)
    ax.set(xlabel="", ylabel="", xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    return figure


def overlay(comparison: Comparison, curve_name: str, name: str, *, small: bool) -> Picture:
    """One curve of every model in one picture."""
    curves = {
        model.name: next(curve for curve in model.curves if curve.name == curve_name)
        for model in comparison.models[:MOST_OVERLAID]
    }
    if small:
        figure = _panel(curves)
    else:
        figure = Figure(figsize=(3.2, 3.2), layout="constrained")
        figures.reliability_comparison(curves, ax=figure.add_subplot(), legend=False)
    spoken = " ".join(_spoken(model, curve) for model, curve in curves.items())
    return Picture(to_svg(figure, label=spoken, name=name), curve_name, csv=curves_csv(curves))


def legend(names: Sequence[str], *, of: str = "swatch") -> list[tuple[str, Markup]]:
    """Names of the curves of :func:`reliability_comparison`, and their lines; ``of`` starts their ids."""
    return [(name, _swatch(position, f"{of}{position}")) for position, name in enumerate(names)]


def _swatch(position: int, identifier: str) -> Markup:
    colour, shape, dashes = figures.series(position)
    figure = Figure(figsize=(0.4, 0.16))
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set_axis_off()
    ax.plot([0, 1, 2], [0, 0, 0], color=colour, marker=shape, markersize=4.5, linestyle=dashes, markevery=[1])
    return to_svg(figure, label="", name=identifier)
