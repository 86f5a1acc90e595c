"""Report sections on likelihood, entropy and calibration during training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibrant._math.means import mean_of
from calibrant.reports.figures import drawing
from calibrant.reports.figures.drawing import BLUE, GREEN, GREY, VERMILLION, drawing_style, open_frame, series
from calibrant.reports.pictures import Picture, legend
from calibrant.reports.sections import Section
from calibrant.reports.svg import to_svg

Split: TypeAlias = Literal["train", "calibration", "test"]
Rows = Sequence[Mapping[str, Any]]
Snapshot = Mapping[str, np.ndarray[Any, Any]]

_QUANTITIES = {
    "nll": "negative log-likelihood (nats)",
    "entropy": "entropy of the prediction (nats)",
    "p_true": "probability of the true class",
}
_GROUPS = {
    "": ("all", GREY, "-"),
    "_correct": ("right", GREEN, "--"),
    "_incorrect": ("wrong", VERMILLION, ":"),
}
_SPLITS: dict[Split, tuple[str, str, str]] = {
    "train": ("training", GREY, "--"),
    "calibration": ("calibration", BLUE, "-"),
    "test": ("test", BLUE, "-"),
}
NORM = "last_layer_norm"  # the network's, for no split
_RECORDED: tuple[Split, ...] = ("train", "test")  # where the recipe asks for dynamics
PANELS = {
    "nll": "NLL",
    "nll_correct": "NLL of right answers",
    "nll_incorrect": "NLL of wrong answers",
    "entropy_incorrect": "Entropy of wrong answers",
    "p_true_correct": "True class, right answers",
    "p_true_incorrect": "True class, wrong answers",
    "ece": "Calibration error (ECE)",
    NORM: "Norm of the last layer's weights",
}
"""Quantities of figure 3 of Mukhoti et al. (2020), in its order; the true class has its probability."""
_MARGIN = 0.15
_FEWEST = 3  # runs whose mean has an interval that is drawn


def dynamics_sections(rows: Rows, snapshots: Mapping[int, Snapshot]) -> tuple[Section, ...]:
    """Return report sections on one run's training, with test curves if recorded, else calibration ones."""
    if len(rows) < 2 and not any("dynamics" in row for row in rows):
        return ()
    with drawing_style():
        return tuple(_sections(rows, snapshots))


def compared_dynamics(runs: Mapping[str, Rows]) -> Section | None:
    """Return the dynamics of several runs in common plots, as in figure 3 of Mukhoti et al. (2020).

    They are of the test samples where all runs recorded them, or else of the calibration samples; None where
    fewer than two runs recorded any.
    """
    split, courses = courses_of({name: [rows] for name, rows in runs.items()})
    recorded = list(dict.fromkeys(courses["arm"]))
    if len(recorded) < 2 or len({*courses["epoch"]}) < 2:
        return None
    with drawing_style():
        pictures = tuple(
            _picture(title, f"compared-{place}", partial(_draw_panel, courses, name, recorded))
            for place, (name, title) in enumerate(PANELS.items())
        )
        key = tuple(legend(recorded))
    missing = [name for name in runs if name not in recorded]
    left_out = f" Not recorded: {', '.join(missing)}." if missing else ""
    return Section(
        title="While they learned",
        text=(f"What the networks said of the {split} samples, epoch by epoch.{left_out}",),
        key=key,
        pictures=pictures,
    )


def courses_of(runs: Mapping[str, Sequence[Rows]]) -> tuple[Split, pd.DataFrame]:
    """Return a row per ``arm``, run, quantity ``name`` and ``epoch``: its ``value``; and the split.

    It is the test split if all runs recorded dynamics, or else the calibration split.
    """
    everywhere = all(_has(rows, "test", "nll_correct") for arm in runs.values() for rows in arm)
    split: Split = "test" if everywhere else "calibration"
    found = [
        (arm, name, row["epoch"], value)
        for arm, each in runs.items()
        for rows in each
        if _has(rows, split, "nll_correct")
        for row in rows
        for name in PANELS
        if (value := _value(row, split, name)) is not None
    ]
    return split, pd.DataFrame(found, columns=["arm", "name", "epoch", "value"])


def draw_courses(
    courses: pd.DataFrame, *, panels: Mapping[str, str] = PANELS, drops: Iterable[int] = (), columns: int = 4
) -> Figure:
    """Draw each quantity by epoch, one curve per arm, as in figure 3 of Mukhoti et al. (2020).

    ``courses`` is from :func:`courses_of`; a vertical line follows each epoch of ``drops``.
    """
    rows, arms = -(-len(panels) // columns), list(dict.fromkeys(courses["arm"]))
    with drawing_style():
        figure = Figure(figsize=(2.6 * columns, 2.3 * rows + 0.4), layout="constrained")
        axes = figure.subplots(rows, columns, sharex=True)
        for ax, (name, title) in zip(axes.flat, panels.items(), strict=True):
            _draw_panel(courses, name, arms, ax)
            for drop in drops:
                ax.axvline(drop + 0.5, color=GREY, linewidth=0.8)
            ax.set_title(title, fontsize="medium")
        for ax in axes[:-1].flat:
            ax.set_xlabel("")
        lines = axes.flat[0].get_lines()[: len(arms)]
        drawing.named_legend(
            figure, [*zip(arms, lines, strict=True)], loc="outside lower center", ncols=columns
        )
    return figure


def draw_course(ax: Axes, position: int, course: pd.DataFrame, label: str | None = None) -> None:
    """Draw the mean over runs by epoch; at least three runs have its 95% interval as a band."""
    means = course.groupby("epoch")["value"].apply(lambda values: mean_of([*values]))
    middle = np.array([mean.value for mean in means])
    half = drawing.floats(mean.half_width if mean.n >= _FEWEST else None for mean in means)
    style = {"marker": series(position)[1], "markersize": 3, "markevery": max(1, len(means) // 6)}
    drawing.add_curve(ax, position, means.index, middle, label, band=(middle - half, middle + half), **style)


def _draw_panel(courses: pd.DataFrame, name: str, arms: Sequence[str], ax: Axes) -> None:
    of_panel: Any = courses[courses["name"] == name]
    for place, arm in enumerate(arms):
        draw_course(ax, place, of_panel[of_panel["arm"] == arm])
    known = [value for line in ax.get_lines() for value in np.ravel(line.get_ydata())]
    if known:  # wide bands, as of the first epochs, may leave the picture
        margin = _MARGIN * (np.ptp(known) or 1)
        ax.set_ylim(min(known) - margin, max(known) + margin)
    _by_epoch(ax)


def _by_epoch(ax: Axes, what: str = "") -> None:
    ax.set(xlabel="epoch", ylabel=what)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    open_frame(ax)


def _sections(rows: Rows, snapshots: Mapping[int, Snapshot]) -> Iterator[Section]:
    splits: tuple[Split, ...] = _RECORDED if _has(rows, "test", "nll") else ("calibration",)
    question = "Does the calibration error still move where the error no longer does?"
    if splits != _RECORDED:
        question += " The training error is that of the batches as they were learned from."
    yield Section(
        title="While it learned: errors and weights",
        text=(question,),
        pictures=tuple(_errors_and_weights(rows, splits[-1])),
    )
    if _has(rows, splits[-1], "nll_correct"):
        names = " and ".join(_SPLITS[each][0] for each in splits)
        yield Section(
            title="While it learned: right and wrong answers",
            text=(
                f"What the network said of {names} samples, epoch by epoch.",
                "If the NLL of wrong answers rises while their entropy falls, the network grows too sure.",
            ),
            pictures=tuple(_by_answer(rows, quantity, split) for quantity in _QUANTITIES for split in splits),
        )
    if snapshots:
        yield Section(
            title="While it learned: stated and found",
            text=("25 bins of equal width at chosen epochs.",),
            pictures=tuple(
                _reliability(snapshot, split, epoch)
                for split in _RECORDED
                for epoch, snapshot in snapshots.items()
            ),
        )
    norms = {epoch: each["gradient_norms"] for epoch, each in snapshots.items() if "gradient_norms" in each}
    if norms:
        yield Section(
            title="While it learned: gradients",
            text=(
                "Norm of each training sample's gradient of the loss by the last layer's weights and bias.",
            ),
            pictures=(_picture("gradients", "gradients", partial(_draw_gradients, norms)),),
        )


Line: TypeAlias = tuple[Split, str, str, str, str]  # split, name of the quantity, label, colour, dashes


def _errors_and_weights(rows: Rows, split: Split) -> Iterator[Picture]:
    """Yield plots of errors on training and held-out samples, and of calibration-split measures."""
    found: list[tuple[str, str, list[Line]]] = []
    lines: list[Line] = [
        (each, "error", f"error, {_SPLITS[each][0]} samples", *_SPLITS[each][1:]) for each in ("train", split)
    ]
    lines.append((split, "ece", f"ECE, {_SPLITS[split][0]} samples", VERMILLION, ":"))
    found.append(("errors", "share", lines))
    if _has(rows, "calibration", "nll_after_temperature"):
        lines = [("calibration", "nll", "as trained", BLUE, "-")]
        lines.append(("calibration", "nll_after_temperature", "after temperature scaling", GREEN, "--"))
        found.append(("likelihood of calibration samples", _QUANTITIES["nll"], lines))
    for caption, key, label in (
        ("temperature", "temperature", "best temperature"),
        ("weights", NORM, "norm of the last layer's weights"),
    ):
        if _has(rows, "calibration", key):
            found.append((caption, label, [("calibration", key, label, BLUE, "-")]))
    for place, (caption, what, lines) in enumerate(found):
        yield _curves(rows, caption, f"learned-{place}", what, lines)


def _by_answer(rows: Rows, quantity: str, split: Split) -> Picture:
    text, caption = _QUANTITIES[quantity], f"{_SPLITS[split][0]} samples: {_QUANTITIES[quantity]}"
    lines: list[Line] = [(split, f"{quantity}{end}", *look) for end, look in _GROUPS.items()]
    return _curves(rows, caption, f"{quantity}-{split}", text, lines)


def _curves(rows: Rows, caption: str, name: str, what: str, lines: Iterable[Line]) -> Picture:
    def draw(ax: Axes) -> None:
        for split, key, label, colour, dashes in lines:
            values = [(row["epoch"], _value(row, split, key)) for row in rows]
            known = [(epoch, value) for epoch, value in values if value is not None]
            epochs, values = [epoch for epoch, _ in known], [value for _, value in known]
            marker = "." if len(known) < 3 else ""
            ax.plot(epochs, values, color=colour, linestyle=dashes, label=label, marker=marker)
            if key == "temperature":  # above 1 the network is too sure
                ax.axhline(1, color=GREY, linewidth=0.8, linestyle="--")
        _by_epoch(ax, what)
        if len(ax.get_legend_handles_labels()[0]) > 1:
            ax.legend(frameon=False, fontsize="small")

    return _picture(caption, name, draw)


def _reliability(snapshot: Snapshot, split: Split, epoch: int) -> Picture:
    def draw(ax: Axes) -> None:
        counts = snapshot[f"{split}_counts"]
        edges = np.linspace(0, 1, len(counts) + 1)
        shares = counts / max(counts.sum(), 1)
        ax.stairs(shares, edges, fill=True, color=GREY, alpha=0.3, label="share of samples")
        drawing.diagonal(ax)
        confidence, accuracy = snapshot[f"{split}_confidence"], snapshot[f"{split}_accuracy"]
        known = ~np.isnan(confidence)
        ax.plot(confidence[known], accuracy[known], color=BLUE, marker="o", markersize=3, label="share right")
        ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence")
        open_frame(ax)
        ax.legend(frameon=False, fontsize="small", loc="upper left")

    return _picture(f"{split}, epoch {epoch}", f"reliability-{split}-{epoch}", draw)


def _draw_gradients(norms: Mapping[int, np.ndarray[Any, Any]], ax: Axes) -> None:
    highest = max(float(values.max()) for values in norms.values()) or 1.0
    edges = np.linspace(0, highest, 41)
    for position, (epoch, values) in enumerate(norms.items()):
        shares = np.histogram(values, edges)[0] / len(values)
        colour, _, dashes = series(position)
        ax.stairs(shares, edges, color=colour, linestyle=dashes, label=f"epoch {epoch}")
    ax.set_yscale("log")
    ax.set(xlabel="norm of a sample's gradient", ylabel="share of samples")
    open_frame(ax)
    ax.legend(frameon=False, fontsize="small")


def _picture(caption: str, name: str, draw: Callable[[Axes], None]) -> Picture:
    figure = Figure(figsize=(3.6, 2.6), layout="constrained")
    draw(figure.add_subplot())
    return Picture(to_svg(figure, label=caption, name=name), caption)


def _value(row: Mapping[str, Any], split: Split, key: str) -> float | None:
    """Return a row's value for a split, or for the network; None if missing or not finite."""
    recorded: Mapping[str, Any] = row.get("dynamics", {})
    if key == NORM:
        return row.get(key, recorded.get(key))
    if split in _RECORDED and split in recorded:
        return recorded[split][key]
    if key == "error":  # on training samples as learned, augmented and with dropout
        return None if f"{split}_accuracy" not in row else 1 - row[f"{split}_accuracy"]
    return row.get(f"{split}_{key}")


def _has(rows: Rows, split: Split, key: str) -> bool:
    return any(_value(row, split, key) is not None for row in rows)
