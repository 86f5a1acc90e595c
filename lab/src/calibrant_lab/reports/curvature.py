"""Curvature of a loss: a diagram of the Hessian's spectrum, and a section of a run's report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from calibrant._math.errors import InputError
from calibrant._math.files import said_of
from calibrant.reports.figures.drawing import drawing_style, new_axes, open_frame, series
from calibrant.reports.pictures import Picture
from calibrant.reports.sections import Section, SectionTable
from calibrant.reports.svg import to_svg
from calibrant.reports.words import parameter as number

FORMAT = 1
Measurement = Mapping[str, Any]  # measurement by `calibrant curvature`, of one loss on one split
_WIDE, _MOST_TICKS = 3, 6
_FLOOR = 1e-6  # densities below this share of the highest are left out
_SPLITS = {"train": "training", "test": "test"}


def read_curvature(path: Path) -> list[dict[str, Any]]:
    """Read ``curvature.json`` of a run; return an empty list without such a file."""
    if not path.is_file():
        return []
    try:
        with said_of(path, "read"):
            content = json.loads(path.read_text(encoding="utf-8"))
        known, found = content["format"] == FORMAT, list(content["measurements"])
    except (ValueError, KeyError, TypeError):
        known, found = False, []
    if not known:
        raise InputError(f"{path} was not written by this version of `calibrant curvature`.")
    return found


def numbers_of(found: Measurement) -> dict[str, float]:
    """Return the numbers of a measurement that a sweep keeps."""
    return {"lambda_max": found["eigenvalues"][0], "trace": found["trace"]}


def spectrum_diagram(found: Sequence[Measurement], *, ax: Axes | None = None) -> Axes:
    """Draw the density of the Hessian's eigenvalues, log scale, one curve per loss."""
    ax = new_axes(ax, width=4.2, height=3.0)
    highest = max(max(each["density"]["density"]) for each in found)
    for place, each in enumerate(found):
        colour, shape, dashes = series(place)
        at, density = (np.array(each["density"][name]) for name in ("eigenvalues", "density"))
        shown = np.where(density > _FLOOR * highest, density, np.nan)
        ax.plot(at, shown, color=colour, linestyle=dashes, label=each["loss"])
        tops = each["eigenvalues"]
        ax.plot(tops, [0.02] * len(tops), shape, color=colour, transform=ax.get_xaxis_transform(), ms=5)
    ax.set_yscale("log")
    ax.set_ylim(_FLOOR * highest, 3 * highest)
    ax.set(xlabel="eigenvalue", ylabel="density")
    open_frame(ax)
    legend = ax.legend(frameon=False, fontsize="small")
    for text in legend.get_texts():
        text.set_parse_math(False)
    return ax


def scatter(ax: Axes, groups: Mapping[str, tuple[Sequence[float], Sequence[float]]]) -> None:
    """Draw points (x, y) by group; x has a logarithmic scale where it is positive and its range is wide."""
    for place, (name, (x, y)) in enumerate(groups.items()):
        colour, mark, _ = series(place)
        ax.plot(x, y, mark, color=colour, markersize=4, label=name)
    every = np.concatenate([np.asarray(line.get_xdata(), float) for line in ax.get_lines()])
    if every.min() > 0 and every.max() > _WIDE * every.min():
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=_MOST_TICKS))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.minorticks_off()
    open_frame(ax)


def curvature_section(found: Sequence[Measurement]) -> Section:
    """Report eigenvalues, traces and spectra from ``calibrant curvature``."""
    shown = [each for each in found if each["density"] is not None]
    drawn = {split: [each for each in shown if each["split"] == split] for split in _SPLITS}
    with drawing_style():
        pictures = tuple(_picture(each, split) for split, each in drawn.items() if each)
    rows = tuple((each["loss"], samples_of(each), *map(number, _row(each))) for each in found)
    unsettled = "" if all(each["converged"] for each in found) else " Not every eigenvalue has converged."
    return Section(
        title="Curvature",
        text=("How sharply each loss bends with the network's parameters where training ended.",),
        table=SectionTable(
            label="Curvature by loss and split",
            columns=("Loss", "Samples", "Mean loss", "Largest eigenvalue", "± residual", "Trace", "± error"),
            rows=rows,
        ),
        pictures=pictures,
        note="Second derivatives of the mean loss by "
        f"{found[0]['num_parameters']:,} parameters, in evaluation mode, without augmentation and without "
        "penalties on weights. Within the residual of the eigenvalue stated lies one of the Hessian's; the "
        "error of the trace is its standard error. In the pictures a mark at the bottom is the largest "
        f"eigenvalue; the density is smoothed.{unsettled}",
    )


def _row(each: Measurement) -> tuple[float, ...]:
    largest = each["eigenvalues"][0], each["residuals"][0]
    return each["value"], *largest, each["trace"], each["trace_standard_error"]


def samples_of(each: Measurement) -> str:
    """Return the number and split of the samples."""
    return f"{each['num_samples']} of {each['of_samples']} {_SPLITS[each['split']]} samples"


def _picture(found: Sequence[Measurement], split: str) -> Picture:
    caption = f"Spectrum on {_SPLITS[split]} samples"
    spoken = "; ".join(f"{each['loss']}: up to {number(each['eigenvalues'][0])}" for each in found)
    figure = Figure(figsize=(3.6, 2.6), layout="constrained")
    spectrum_diagram(found, ax=figure.add_subplot())
    return Picture(to_svg(figure, label=f"{caption}. {spoken}.", name=f"spectrum-{split}"), caption)
