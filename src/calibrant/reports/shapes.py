"""Figures without bins and of out-of-distribution detection, composed for the page."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.figure import Figure

from calibrant.evaluation.result import Detection, Estimate, Evaluation, Shapes
from calibrant.metrics import RocCurve
from calibrant.reports import words
from calibrant.reports.figure_data import corp_csv, lines_csv
from calibrant.reports.figures import corp_diagram, risk_coverage_diagram, roc_diagram, witness_diagram
from calibrant.reports.pictures import MOST_OVERLAID, Picture, shown_arms
from calibrant.reports.svg import to_svg

DETECTION = {
    "auroc": "AUROC",
    "aupr": "AUPR, out-of-distribution samples positive",
    "aupr_in": "AUPR, test samples positive",
    "fpr_at_95": "Test samples flagged at a threshold that flags 95% of the others",
    "fpr_at_95_in": "Out-of-distribution samples passed at a threshold that passes 95% of the test samples",
}


@dataclass(frozen=True)
class ShapeGroup:
    """The pictures of one kind of event: for each arm shown, and of all arms shown together."""

    title: str
    apart: tuple[Picture, ...]
    together: tuple[Picture, ...]


def shape_groups(evaluation: Evaluation) -> list[ShapeGroup]:
    """The pictures of the predictions as they came and of the arm shown next to them."""
    arms = shown_arms(evaluation)
    groups: list[ShapeGroup] = []
    for place, shapes in enumerate(evaluation.arms[0].shapes):
        of = {arm.title: arm.shapes[place] for arm in arms if len(arm.shapes) > place}
        apart = [
            picture
            for number, (title, each) in enumerate(of.items())
            for picture in (
                _corp(title, each, f"corp{place}-{number}"),
                _witness(title, each, f"witness{place}-{number}"),
            )
        ]
        together = [_risk(of, f"risk{place}"), _roc(of, f"roc{place}")]
        groups.append(
            ShapeGroup(shapes.name, tuple(apart), tuple(each for each in together if each is not None))
        )
    return groups


def _corp(title: str, shapes: Shapes, name: str) -> Picture:
    figure = Figure(figsize=(3.5, 3.4), layout="constrained")
    corp_diagram(shapes.corp, band=shapes.band, ax=figure.add_subplot(), legend=False)
    label = (
        f"CORP reliability diagram, {shapes.name}, {title}: an isotonic curve of {len(shapes.corp.values)} "
        f"steps from {words.number(shapes.corp.values[0])} to {words.number(shapes.corp.values[-1])}, the "
        "band of a calibrated model, and grey bars for the samples in each step."
    )
    data = corp_csv(shapes.corp, shapes.band)
    return Picture(to_svg(figure, label=label, name=name), f"{title}: CORP", csv=data)


def _witness(title: str, shapes: Shapes, name: str) -> Picture:
    figure = Figure(figsize=(3.5, 3.4), layout="constrained")
    witness_diagram(shapes.witness, ax=figure.add_subplot(), legend=False)
    too_much, too_little = words.misses(shapes.name)
    label = (
        f"Witness of the smooth calibration error, {shapes.name}, {title}: the error is "
        f"{words.number(shapes.witness.value)}; above zero the model is {too_little}, below {too_much}."
    )
    data = lines_csv("stated", "witness", {title: (shapes.witness.points, shapes.witness.values)})
    return Picture(to_svg(figure, label=label, name=name), f"{title}: local errors", csv=data)


def _risk(of: dict[str, Shapes], name: str) -> Picture | None:
    found = {title: each.selection for title, each in of.items() if each.selection is not None}
    if not found:
        return None
    figure = Figure(figsize=(3.5, 3.0), layout="constrained")
    ax = figure.add_subplot()
    curves = {title: each.curve for title, each in found.items()}
    risk_coverage_diagram(curves if len(curves) > 1 else next(iter(curves.values())), ax=ax)
    spoken = "; ".join(
        f"{title}: area {_with_interval(each.area)}, {_with_interval(each.excess_area)} beyond the best order"
        for title, each in found.items()
    )
    return Picture(
        to_svg(figure, label=f"Risk against coverage. {spoken}.", name=name),
        "Risk against coverage",
        note=f"{spoken}.",
        csv=lines_csv(
            "coverage", "risk", {title: (each.coverage, each.risk) for title, each in curves.items()}
        ),
    )


def _roc(of: dict[str, Shapes], name: str) -> Picture | None:
    curves = {title: each.roc for title, each in of.items() if each.roc is not None}
    if not curves:
        return None
    figure = Figure(figsize=(3.5, 3.5), layout="constrained")
    roc_diagram(curves, ax=figure.add_subplot())
    return Picture(to_svg(figure, label="ROC curves.", name=name), "ROC", csv=_roc_csv(curves))


def _roc_csv(curves: dict[str, RocCurve]) -> str:
    points = {title: (each.false_positive_rate, each.true_positive_rate) for title, each in curves.items()}
    return lines_csv("false_positive_rate", "true_positive_rate", points)


def _with_interval(estimate: Estimate) -> str:
    between = words.interval(estimate)
    return words.number(estimate.value) + (f" {between}" if between else "")


def detection_picture(evaluation: Evaluation) -> Picture | None:
    """ROC curves of out-of-distribution detection, for every arm."""
    found = evaluation.out_of_distribution
    if found is None:
        return None
    figure = Figure(figsize=(3.5, 3.5), layout="constrained")
    curves = {arm.title: arm.roc for arm in found.arms[:MOST_OVERLAID]}
    ax = roc_diagram(curves, ax=figure.add_subplot())
    ax.set_xlabel("test samples flagged")
    ax.set_ylabel("out-of-distribution samples flagged")
    svg = to_svg(figure, label=found.sentence, name="detection")
    return Picture(svg, "Out-of-distribution against test samples", csv=_roc_csv(curves))


def detection_rows(
    evaluation: Evaluation,
) -> list[tuple[str, list[tuple[Detection, Estimate, Estimate | None]]]]:
    """The title of each number, and its value for every arm."""
    found = evaluation.out_of_distribution
    if found is None:
        return []
    return [
        (title, [(arm, arm.metrics[key], arm.change.get(key)) for arm in found.arms])
        for key, title in DETECTION.items()
    ]
