"""Likelihood, entropy and calibration of a network in the course of training: figures and report sections.

Each figure is drawn into ``ax`` or a new one, and its axes are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibrant.reports.figures.drawing import (
    BLUE,
    GREEN,
    GREY,
    VERMILLION,
    diagonal,
    drawing_style,
    new_axes,
    open_frame,
    series,
)
from calibrant.reports.pictures import Picture, legend
from calibrant.reports.run_sections import Section
from calibrant.reports.svg import to_svg

Quantity: TypeAlias = Literal["nll", "entropy", "p_true"]
Split: TypeAlias = Literal["train", "test"]
Rows = Sequence[Mapping[str, Any]]
Snapshot = Mapping[str, np.ndarray[Any, Any]]

_QUANTITIES: dict[Quantity, str] = {
    "nll": "negative log-likelihood (nats)",
    "entropy": "entropy of the prediction (nats)",
    "p_true": "probability of the true class",
}
_GROUPS = {
    "": ("all", GREY, "-"),
    "_correct": ("right", GREEN, "--"),
    "_incorrect": ("wrong", VERMILLION, ":"),
}
_SPLITS: dict[Split, tuple[str, str, str]] = {"train": ("training", GREY, "--"), "test": ("test", BLUE, "-")}


def split_curves(rows: Rows, quantity: Quantity, split: Split, *, ax: Axes | None = None) -> Axes:
    """A quantity over the epochs, apart for the samples that the network got right and wrong.

    Epochs without dynamics are left out.

    Example:
        >>> found = {"nll": 0.5, "nll_correct": 0.1, "nll_incorrect": 2.0}
        >>> ax = split_curves([{"epoch": 1, "dynamics": {"test": found}}], "nll", "test")
        >>> [line.get_label() for line in ax.get_lines()]
        ['all', 'right', 'wrong']
    """
    ax = new_axes(ax, width=4.2, height=3.0)
    for ending, (label, colour, dashes) in _GROUPS.items():
        _line(ax, rows, (split, f"{quantity}{ending}"), label, colour, dashes)
    return _finished(ax, _QUANTITIES[quantity])


def error_curves(rows: Rows, *, ax: Axes | None = None) -> Axes:
    """Error on the training and test samples, and the test samples' calibration error, over the epochs."""
    ax = new_axes(ax, width=4.2, height=3.0)
    for split, (label, colour, dashes) in _SPLITS.items():
        _line(ax, rows, (split, "error"), f"{label} error", colour, dashes)
    _line(ax, rows, ("test", "ece"), "test ECE", VERMILLION, ":")
    return _finished(ax, "share")


def weight_norm_curve(rows: Rows, *, ax: Axes | None = None) -> Axes:
    """Norm of the last layer's weights over the epochs."""
    ax = new_axes(ax, width=4.2, height=3.0)
    _line(ax, rows, ("last_layer_norm",), "last layer", BLUE, "-")
    return _finished(ax, "norm of the last layer's weights")


def snapshot_reliability(snapshot: Snapshot, split: Split, *, ax: Axes | None = None) -> Axes:
    """Stated and found confidence in bins at one epoch, above the share of the samples in each bin."""
    ax = new_axes(ax, width=4.2, height=3.0)
    counts = snapshot[f"{split}_counts"]
    edges = np.linspace(0, 1, len(counts) + 1)
    ax.stairs(
        counts / max(counts.sum(), 1), edges, fill=True, color=GREY, alpha=0.3, label="share of samples"
    )
    diagonal(ax)
    confidence, accuracy = snapshot[f"{split}_confidence"], snapshot[f"{split}_accuracy"]
    known = ~np.isnan(confidence)
    ax.plot(confidence[known], accuracy[known], color=BLUE, marker="o", markersize=3, label="share right")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence")
    open_frame(ax)
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    return ax


def gradient_histogram(snapshots: Mapping[int, Snapshot], *, ax: Axes | None = None) -> Axes:
    """Norms of the samples' gradients by the last layer, one histogram for each epoch recorded."""
    ax = new_axes(ax, width=4.2, height=3.0)
    norms = {epoch: each["gradient_norms"] for epoch, each in snapshots.items() if "gradient_norms" in each}
    highest = max((float(values.max()) for values in norms.values()), default=0) or 1.0
    edges = np.linspace(0, highest, 41)
    for position, (epoch, values) in enumerate(norms.items()):
        shares = np.histogram(values, edges)[0] / len(values)
        colour, _, dashes = series(position)
        ax.stairs(shares, edges, color=colour, linestyle=dashes, label=f"epoch {epoch}")
    ax.set_yscale("log")
    ax.set(xlabel="norm of a sample's gradient", ylabel="share of samples")
    open_frame(ax)
    if norms:
        ax.legend(frameon=False, fontsize="small")
    return ax


def dynamics_sections(rows: Rows, snapshots: Mapping[int, Snapshot]) -> tuple[Section, ...]:
    """The dynamics of one run, as sections of its report.

    Args:
        rows: The epochs of the run.
        snapshots: What was recorded at chosen epochs, by epoch.

    Returns:
        None at all where no epoch has dynamics.
    """
    if not any("dynamics" in row for row in rows):
        return ()
    with drawing_style():
        return tuple(_sections(rows, snapshots))


def compared_dynamics(runs: Mapping[str, Rows]) -> Section | None:
    """The dynamics of several runs in the same pictures, as figure 3 of Mukhoti et al. (2020) has them.

    Args:
        runs: What each run shall be called, and its epochs.

    Returns:
        A section, or None where fewer than two of the runs recorded dynamics.

    References:
        Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020, figure 3.
    """
    recorded = {name: rows for name, rows in runs.items() if any("dynamics" in row for row in rows)}
    if len(recorded) < 2:
        return None
    with drawing_style():
        pictures = tuple(
            _picture(
                title,
                f"compared-{place}",
                lambda ax, keys=keys, what=what: _overlay(ax, recorded, keys, what),
            )
            for place, (title, keys, what) in enumerate(_COMPARED)
        )
        key = tuple(legend(list(recorded)))
    missing = [name for name in runs if name not in recorded]
    left_out = f" Without dynamics: {', '.join(missing)}." if missing else ""
    return Section(
        title="While they learned",
        text=(f"What the networks said of the test samples, epoch by epoch.{left_out}",),
        key=key,
        pictures=pictures,
    )


_COMPARED: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("NLL", ("test", "nll"), "nats"),
    ("NLL of right answers", ("test", "nll_correct"), "nats"),
    ("NLL of wrong answers", ("test", "nll_incorrect"), "nats"),
    ("Entropy of wrong answers", ("test", "entropy_incorrect"), "nats"),
    ("Probability of the true class, right answers", ("test", "p_true_correct"), "probability"),
    ("Probability of the true class, wrong answers", ("test", "p_true_incorrect"), "probability"),
    ("Calibration error (ECE)", ("test", "ece"), "ECE"),
    ("Norm of the last layer's weights", ("last_layer_norm",), "norm"),
)


def _overlay(ax: Axes, runs: Mapping[str, Rows], keys: Sequence[str], what: str) -> Axes:
    """One quantity of every run; the key of the page says which line is whose."""
    for place, rows in enumerate(runs.values()):
        colour, _, dashes = series(place)
        _line(ax, rows, keys, "", colour, dashes)
    return _finished(ax, what, named=False)


def _sections(rows: Rows, snapshots: Mapping[int, Snapshot]) -> Iterator[Section]:
    over_time = tuple(
        _picture(
            f"{split}: {text}",
            f"{quantity}-{split}",
            lambda ax, q=quantity, s=split: split_curves(rows, q, s, ax=ax),
        )
        for quantity, text in _QUANTITIES.items()
        for split in _SPLITS
    )
    yield Section(
        title="While it learned: right and wrong answers",
        text=(
            "What the network said of its training and test samples, epoch by epoch.",
            "Where wrong answers become less likely while their entropy falls, the network grows too sure.",
        ),
        pictures=over_time,
    )
    yield Section(
        title="While it learned: errors and weights",
        text=("Does the calibration error still move where the error no longer does?",),
        pictures=(
            _picture("errors", "errors", lambda ax: error_curves(rows, ax=ax)),
            _picture("weights", "weights", lambda ax: weight_norm_curve(rows, ax=ax)),
        ),
    )
    if snapshots:
        yield Section(
            title="While it learned: stated and found",
            text=("25 bins of equal width at chosen epochs.",),
            pictures=tuple(
                _picture(
                    f"{split}, epoch {epoch}",
                    f"reliability-{split}-{epoch}",
                    lambda ax, e=epoch, s=split: snapshot_reliability(snapshots[e], s, ax=ax),
                )
                for split in _SPLITS
                for epoch in snapshots
            ),
        )
    if any("gradient_norms" in snapshot for snapshot in snapshots.values()):
        norms = _picture("gradients", "gradients", lambda ax: gradient_histogram(snapshots, ax=ax))
        yield Section(
            title="While it learned: gradients",
            text=(
                "Norm of each training sample's gradient of the loss by the last layer's weights and bias.",
            ),
            pictures=(norms,),
        )


def _picture(caption: str, name: str, draw: Callable[[Axes], Axes]) -> Picture:
    figure = Figure(figsize=(3.6, 2.6), layout="constrained")
    draw(figure.add_subplot())
    return Picture(to_svg(figure, label=caption, name=name), caption)


def _line(ax: Axes, rows: Rows, keys: Sequence[str], label: str, colour: str, dashes: str) -> None:
    """One value of each row that has dynamics; what is None is left out."""
    epochs: list[int] = []
    values: list[float] = []
    for row in rows:
        if "dynamics" not in row:
            continue
        value: Any = row["dynamics"]
        for key in keys:
            value = value[key]
        epochs.append(row["epoch"])
        values.append(np.nan if value is None else value)
    ax.plot(
        epochs, values, color=colour, linestyle=dashes, label=label, marker="." if len(epochs) < 3 else ""
    )


def _finished(ax: Axes, what: str, *, named: bool = True) -> Axes:
    ax.set(xlabel="epoch", ylabel=what)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    open_frame(ax)
    if named and len(ax.get_lines()) > 1:
        ax.legend(frameon=False, fontsize="small")
    return ax
