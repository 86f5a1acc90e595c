"""Sections of the demo's page: pictures and tables; the text is in ``words.j2``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibrant._math.means import Mean, mean_of, plus_minus, side
from calibrant.demo.comparison import LOSSES, STATES, Half
from calibrant.reports.figures import BLUE, GREY, VERMILLION, series
from calibrant.reports.figures.drawing import drawing_style
from calibrant.reports.pictures import Picture
from calibrant.reports.sections import Section, SectionTable
from calibrant.reports.svg import to_svg

TITLE = "Demo: a small network on handwritten digits"
TITLES = ("Ten losses: little data, much training", "Ten losses: more data, little training")


def _said(macro: str, *of: object) -> tuple[str, ...]:
    template = Path(__file__).with_name("words.j2")
    others = {loss: title for loss, title in LOSSES.items() if loss != "cross-entropy"}
    environment = Environment(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    filters: dict[str, Any] = environment.filters
    filters |= {"mean": plus_minus, "number": format, "side": side}
    found: Any = environment.from_string(template.read_text(encoding="utf-8")).make_module(
        {"losses": LOSSES, "others": others, "direction": direction, "mean_of": mean_of}
    )
    return tuple(line for line in getattr(found, macro)(*of).splitlines() if line.strip())


def sections(few: Half, everything: Half) -> tuple[Section, ...]:
    points = _said("conclusions", few, everything)
    with drawing_style():
        return (
            _half(few, title=TITLES[0], name="few"),
            _half(everything, title=TITLES[1], name="all"),
            Section(title="What the ten losses show", points=points),
        )


def direction(gap: Mean) -> str:
    """Return overconfident, underconfident, or neither if the noise between seeds covers the gap."""
    if gap.low > 0:
        return "overconfident"
    return "underconfident" if gap.high < 0 else "neither"


def _half(half: Half, *, title: str, name: str) -> Section:
    return Section(
        title=title,
        text=_said(name, half.setting, half.num_seeds),
        points=_said("findings", half),
        pictures=(_gaps(half, name), _errors(half, name)),
        table=_table(half),
        note="".join(_said("note", half)),
    )


def _table(half: Half) -> SectionTable:
    rows: list[tuple[str | Markup, ...]] = []
    for loss, title in LOSSES.items():
        gap, networks = half.mean(loss, "gap", "trained"), half.networks[loss]
        rows.append(
            (
                title,
                _shown(mean_of([100 * each.error for each in networks]), digits=1),
                _marked(gap),
                *(_shown(half.mean(loss, "ece", state)) for state in STATES),
                *(_shown(half.mean(loss, "nll", state)) for state in STATES),
                _shown(mean_of([each.temperature for each in networks]), digits=2),
            )
        )
    return SectionTable(
        label="Losses before and after repair",
        groups=(("", 3), ("ECE", len(STATES)), ("Log loss", len(STATES)), ("", 1)),
        columns=("Loss", "Error,\u00a0%", "Gap", *STATES.values(), *STATES.values(), "T"),
        rows=tuple(rows),
    )


def _shown(mean: Mean, *, digits: int = 3) -> Markup:
    number, _, half = plus_minus(mean, digits).replace("-", "−").partition(" ± ")
    return Markup('{} <span class="plus">± {}</span>').format(number, half)


def _marked(gap: Mean) -> Markup:
    """Format the gap with its sign, and a colour and an arrow if it exceeds noise."""
    kind = direction(gap)
    if kind == "neither":
        return _shown(gap)
    place, arrow = ("high", "▸") if kind == "overconfident" else ("low", "◂")
    return Markup('<span class="{}">{}</span> {}').format(place, arrow, _shown(gap))


def _gaps(half: Half, name: str) -> Picture:
    figure, ax = _figure()
    ax.axvline(0, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    for row, loss in enumerate(LOSSES):
        gap = half.mean(loss, "gap", "trained")
        marks = {"overconfident": (VERMILLION, ">"), "underconfident": (BLUE, "<"), "neither": (GREY, "o")}
        colour, shape = marks[direction(gap)]
        ax.plot([gap.low, gap.high], [row, row], color=colour, linewidth=1.4)
        ax.plot([gap.value], [row], color=colour, marker=shape, markersize=6, linestyle="none")
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("underconfident   ←   gap   →   overconfident", fontsize=8)
    spoken = "; ".join(
        f"{title}: {half.mean(loss, 'gap', 'trained').value:+.3f}" for loss, title in LOSSES.items()
    )
    return Picture(to_svg(figure, label=f"Gap by loss. {spoken}.", name=f"gap-{name}"), "Gap before repair")


def _errors(half: Half, name: str) -> Picture:
    figure, ax = _figure()
    ax.axvline(half.chance, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    for place, (state, title) in enumerate(STATES.items()):
        rows = np.arange(len(LOSSES)) + 0.25 * (place - 1)
        means = [half.mean(loss, "ece", state) for loss in LOSSES]
        colour, shape, _ = series(place)
        for row, mean in zip(rows, means, strict=True):
            ax.plot([mean.low, mean.high], [row, row], color=colour, linewidth=1, alpha=0.6)
        values = [mean.value for mean in means]
        ax.plot(values, rows, color=colour, marker=shape, markersize=4.5, linestyle="none", label=title)
    ax.set_xlim(left=0)
    ax.set_xlabel("ECE (dashed: noise floor)", fontsize=8)
    ax.legend(frameon=False, fontsize="small", loc="upper center", bbox_to_anchor=(0.4, 1.12), ncols=3)
    spoken = "; ".join(
        f"{title}: "
        + ", ".join(f"{half.mean(loss, 'ece', state).value:.3f} {said}" for state, said in STATES.items())
        for loss, title in LOSSES.items()
    )
    return Picture(
        to_svg(figure, label=f"Calibration error by loss. {spoken}.", name=f"ece-{name}"),
        "Calibration error before and after repair",
    )


def _figure() -> tuple[Figure, Axes]:
    figure = Figure(figsize=(4.2, 3.6), layout="constrained")
    ax = figure.add_subplot()
    ax.set_yticks(range(len(LOSSES)), list(LOSSES.values()))
    ax.invert_yaxis()
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return figure, ax


def summary(*halves: Half) -> str:
    return "\n\n".join(
        "\n".join((title, *(f"  {each}" for each in _said("findings", half))))
        for title, half in zip(TITLES, halves, strict=True)
    )
