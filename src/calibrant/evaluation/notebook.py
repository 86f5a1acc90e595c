"""An evaluation as a small page for notebooks: verdict, diagrams and a table, drawn without matplotlib."""

from __future__ import annotations

from html import escape
from typing import Any

from calibrant._math.decimals import decimals

SIZE = 180  # of a diagram, in pixels
EDGE = 22
RARE = 0.5  # where no point lies higher, the diagram ends a little above the highest


TITLES = {
    "event_ece": "ECE, positive class",
    "ece": "ECE",
    "nll": "Log loss",
    "accuracy": "Accuracy",
    "brier": "Brier score",
    "mean_confidence": "Average confidence",
}  # what the table shows, under the titles that the quantities have (those of a binary top label say so)


def notebook_html(evaluation: Any) -> str:
    """The page of an ``Evaluation``, whose type lies above."""
    first, verdict = evaluation.arms[0], evaluation.verdict
    arms = [first, *(arm for arm in evaluation.arms[1:] if arm.name == verdict.recommended)]
    head = "".join(_cell("th", text) for text in ("", *(arm.title for arm in arms)))
    body = "".join(
        "<tr>"
        + _cell("th", title, "left")
        + "".join(_cell("td", _value(arm.metrics[key])) for arm in arms)
        + "</tr>"
        for key, title in TITLES.items()
        if key in first.metrics
    )
    place = int(evaluation.kind == "binary" and verdict.about in {"ece", "slope"} and len(first.curves) > 1)
    pictures = "".join(
        f'<div style="margin-right:12px">{_svg(arm.title, arm.curves[place])}</div>'
        for arm in arms
        if arm.curves
    )
    level = f"{100 * evaluation.settings.level:g}% intervals."
    return (
        '<div style="font-family:sans-serif">'
        f'<p style="margin:4px 0;font-size:1.15em"><b>{escape(verdict.short or verdict.headline)}</b></p>'
        f'<p style="margin:4px 0">{escape(verdict.line)}</p>'
        f'<div style="display:flex;flex-wrap:wrap;align-items:flex-start">{pictures}'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f'<p style="margin:4px 0;font-size:.85em">{level}</p></div>'
    )


def _cell(tag: str, text: str, align: str = "right") -> str:
    return f'<{tag} style="text-align:{align};padding:2px 10px">{escape(text)}</{tag}>'


def _value(estimate: Any) -> str:
    if estimate.value is None:
        return "–"
    span = "" if estimate.low is None else f" [{decimals(estimate.low, 4)}, {decimals(estimate.high, 4)}]"
    return f"{decimals(estimate.value, 4)}{span}"


def _svg(title: str, curve: Any) -> str:
    """A small reliability diagram: noise band, diagonal, and a point per bin, sized by samples."""
    shown = [each for each in (*curve.confidence, *curve.accuracy) if each is not None]
    highest = max(shown, default=1.0)
    top = 1.2 * highest if 0 < highest <= RARE else 1.0

    def x(value: float) -> float:
        return EDGE + min(value, top) / top * SIZE

    def y(value: float) -> float:
        return 18 + (1 - min(value, top) / top) * SIZE

    most = max(*curve.counts, 1)
    bands, points = "", ""
    for place, count in enumerate(curve.counts):
        stated, found = curve.confidence[place], curve.accuracy[place]
        low, high = curve.expected_low[place], curve.expected_high[place]
        if found is None:
            continue
        left, right = curve.edges[place], curve.edges[place + 1]
        bands += (
            f'<rect x="{x(left):.1f}" y="{y(high):.1f}" width="{x(right) - x(left):.1f}" '
            f'height="{y(low) - y(high):.1f}" fill="#808080" fill-opacity="0.3"/>'
        )
        colour = "#d55e00" if found < low else "#0072b2" if found > high else "currentColor"
        points += (
            f'<circle cx="{x(stated):.1f}" cy="{y(found):.1f}" r="{2 + 3 * (count / most) ** 0.5:.1f}" '
            f'fill="{colour}"/>'
        )
    words = "".join(
        f'<text x="{across:.0f}" y="{down:.0f}" text-anchor="{anchor}" font-size="10" fill="currentColor">'
        f"{escape(text)}</text>"
        for across, down, anchor, text in (
            (EDGE, 11, "start", title),
            (EDGE - 4, y(top) + 4, "end", f"{top:.2g}"),
            (EDGE - 4, y(0) + 2, "end", "0"),
            (x(top), y(0) + 13, "end", "predicted → (actual ↑)"),
        )
    )
    return (
        f'<svg width="{SIZE + EDGE + 8}" height="{SIZE + 38}" role="img" '
        f'aria-label="Reliability diagram: {escape(title)}">{bands}'
        f'<path d="M{x(0)} {y(0)}L{x(1)} {y(1)}" stroke="#808080" stroke-dasharray="4 3"/>'
        f'<path d="M{x(0)} {y(1)}V{y(0)}H{x(1)}" stroke="currentColor" fill="none"/>{points}{words}</svg>'
    )
