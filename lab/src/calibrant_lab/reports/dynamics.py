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
from calibrant.reports.sections import Section
from calibrant.reports.svg import to_svg

Quantity: TypeAlias = Literal["nll", "entropy", "p_true"]
Split: TypeAlias = Literal["train", "calibration", "test"]
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
_SPLITS: dict[Split, tuple[str, str, str]] = {
    "train": ("training", GREY, "--"),
    "calibration": ("calibration", BLUE, "-"),
    "test": ("test", BLUE, "-"),
}
_NORM = "last_layer_norm"  # of the network, and so of no split
_RECORDED: tuple[Split, ...] = ("train", "test")  # where the recipe asks for dynamics


def split_curves(rows: Rows, quantity: Quantity, split: Split, *, ax: Axes | None = None) -> Axes:
    """A quantity over the epochs, apart for the samples that the network got right and wrong.

    Epochs at which it was not recorded are left out.

    Example:
        >>> found = {"nll": 0.5, "nll_correct": 0.1, "nll_incorrect": 2.0}
        >>> ax = split_curves([{"epoch": 1, "dynamics": {"test": found}}], "nll", "test")
        >>> [line.get_label() for line in ax.get_lines()]
        ['all', 'right', 'wrong']
    """
    ax = new_axes(ax, width=4.2, height=3.0)
    for ending, (label, colour, dashes) in _GROUPS.items():
        _line(ax, rows, split, f"{quantity}{ending}", label, colour, dashes)
    return _finished(ax, _QUANTITIES[quantity])


def likelihood_curves(rows: Rows, *, ax: Axes | None = None) -> Axes:
    """NLL of the calibration samples over the epochs, and what temperature scaling would leave of it.

    The distance between the two is what one temperature repairs.

    Example:
        >>> row = {"epoch": 1, "calibration_nll": 0.5, "calibration_nll_after_temperature": 0.4}
        >>> ax = likelihood_curves([row])
        >>> [line.get_label() for line in ax.get_lines()]
        ['as trained', 'after temperature scaling']
    """
    ax = new_axes(ax, width=4.2, height=3.0)
    _line(ax, rows, "calibration", "nll", "as trained", BLUE, "-")
    _line(ax, rows, "calibration", "nll_after_temperature", "after temperature scaling", GREEN, "--")
    return _finished(ax, _QUANTITIES["nll"])


def error_curves(rows: Rows, *, split: Split = "test", ax: Axes | None = None) -> Axes:
    """Error on training samples and a held-out split over the epochs, and the split's calibration error."""
    ax = new_axes(ax, width=4.2, height=3.0)
    for each in ("train", split):
        label, colour, dashes = _SPLITS[each]
        _line(ax, rows, each, "error", f"error, {label} samples", colour, dashes)
    _line(ax, rows, split, "ece", f"ECE, {_SPLITS[split][0]} samples", VERMILLION, ":")
    return _finished(ax, "share")


def temperature_curve(rows: Rows, *, ax: Axes | None = None) -> Axes:
    """The temperature that suits the calibration samples best, over the epochs; above 1 is too sure."""
    ax = new_axes(ax, width=4.2, height=3.0)
    _line(ax, rows, "calibration", "temperature", "best temperature", BLUE, "-")
    ax.axhline(1, color=GREY, linewidth=0.8, linestyle="--")
    return _finished(ax, "best temperature", named=False)


def weight_norm_curve(rows: Rows, *, ax: Axes | None = None) -> Axes:
    """Norm of the last layer's weights over the epochs."""
    ax = new_axes(ax, width=4.2, height=3.0)
    _line(ax, rows, "train", _NORM, "last layer", BLUE, "-")
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
    """How one run learned, as sections of its report.

    The curves are those of training and test samples where the recipe asked for them, or else those of the
    calibration samples, which are measured after each epoch anyway.

    Args:
        rows: The epochs of the run.
        snapshots: What was recorded at chosen epochs, by epoch.

    Returns:
        None at all where there are fewer than two epochs and nothing was recorded in addition.
    """
    if len(rows) < 2 and not any("dynamics" in row for row in rows):
        return ()
    with drawing_style():
        return tuple(_sections(rows, snapshots))


def compared_dynamics(runs: Mapping[str, Rows]) -> Section | None:
    """The dynamics of several runs in the same pictures, as figure 3 of Mukhoti et al. (2020) has them.

    They are of the test samples where all runs recorded them, or else of the calibration samples.

    Args:
        runs: What each run shall be called, and its epochs.

    Returns:
        A section, or None where fewer than two of the runs have recorded any.

    References:
        Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020, figure 3.
    """
    split: Split = (
        "test" if all(_has(rows, "test", "nll_correct") for rows in runs.values()) else "calibration"
    )
    recorded = {name: rows for name, rows in runs.items() if _has(rows, split, "nll_correct")}
    if len(recorded) < 2 or max(map(len, recorded.values())) < 2:
        return None
    with drawing_style():
        pictures = tuple(
            _picture(
                title,
                f"compared-{place}",
                lambda ax, key=key, what=what: _overlay(ax, recorded, split, key, what),
            )
            for place, (title, key, what) in enumerate(_COMPARED)
        )
        key = tuple(legend(list(recorded)))
    missing = [name for name in runs if name not in recorded]
    left_out = f" Not recorded: {', '.join(missing)}." if missing else ""
    return Section(
        title="While they learned",
        text=(f"What the networks said of the {split} samples, epoch by epoch.{left_out}",),
        key=key,
        pictures=pictures,
    )


_COMPARED: tuple[tuple[str, str, str], ...] = (
    ("NLL", "nll", "nats"),
    ("NLL of right answers", "nll_correct", "nats"),
    ("NLL of wrong answers", "nll_incorrect", "nats"),
    ("Entropy of wrong answers", "entropy_incorrect", "nats"),
    ("Probability of the true class, right answers", "p_true_correct", "probability"),
    ("Probability of the true class, wrong answers", "p_true_incorrect", "probability"),
    ("Calibration error (ECE)", "ece", "ECE"),
    ("Norm of the last layer's weights", _NORM, "norm"),
)


def _overlay(ax: Axes, runs: Mapping[str, Rows], split: Split, key: str, what: str) -> Axes:
    """One quantity of every run; the key of the page says which line is whose."""
    for place, rows in enumerate(runs.values()):
        colour, _, dashes = series(place)
        _line(ax, rows, split, key, "", colour, dashes)
    return _finished(ax, what, named=False)


_QUESTION = "Does the calibration error still move where the error no longer does?"
_AS_LEARNED = " The training error is that of the batches as they were learned from."


def _sections(rows: Rows, snapshots: Mapping[int, Snapshot]) -> Iterator[Section]:
    splits = _RECORDED if _has(rows, "test", "nll") else ("calibration",)
    held_out: Split = splits[-1]
    drawn: list[tuple[str, Callable[[Axes], Axes]]] = [
        ("errors", lambda ax: error_curves(rows, split=held_out, ax=ax))
    ]
    if _has(rows, "calibration", "nll_after_temperature"):
        drawn.append(("likelihood of calibration samples", lambda ax: likelihood_curves(rows, ax=ax)))
    if _has(rows, "calibration", "temperature"):
        drawn.append(("temperature", lambda ax: temperature_curve(rows, ax=ax)))
    if _has(rows, "train", _NORM):
        drawn.append(("weights", lambda ax: weight_norm_curve(rows, ax=ax)))
    yield Section(
        title="While it learned: errors and weights",
        text=(f"{_QUESTION}{'' if splits == _RECORDED else _AS_LEARNED}",),
        pictures=tuple(
            _picture(caption, f"learned-{place}", draw) for place, (caption, draw) in enumerate(drawn)
        ),
    )
    names = [_SPLITS[each][0] for each in splits]
    if _has(rows, held_out, "nll_correct"):
        yield Section(
            title="While it learned: right and wrong answers",
            text=(
                f"What the network said of {' and '.join(names)} samples, epoch by epoch.",
                "If the NLL of wrong answers rises while their entropy falls, the network grows too sure.",
            ),
            pictures=tuple(
                _picture(
                    f"{_SPLITS[split][0]} samples: {text}",
                    f"{quantity}-{split}",
                    lambda ax, q=quantity, s=split: split_curves(rows, q, s, ax=ax),
                )
                for quantity, text in _QUANTITIES.items()
                for split in splits
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
                for split in _RECORDED
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


def _value(row: Mapping[str, Any], split: Split, key: str) -> float | None:
    """What a row has of a split, or of the network; None where it has nothing or is not finite."""
    recorded: Mapping[str, Any] = row.get("dynamics", {})
    if key == _NORM:
        return row.get(key, recorded.get(key))
    if split in _RECORDED and split in recorded:
        return recorded[split][key]
    if key == "error":  # of training samples as they were learned, augmented and with dropout
        return None if f"{split}_accuracy" not in row else 1 - row[f"{split}_accuracy"]
    return row.get(f"{split}_{key}")


def _has(rows: Rows, split: Split, key: str) -> bool:
    return any(_value(row, split, key) is not None for row in rows)


def _line(ax: Axes, rows: Rows, split: Split, key: str, label: str, colour: str, dashes: str) -> None:
    """One value of each row that has it."""
    found = [(row["epoch"], value) for row in rows if (value := _value(row, split, key)) is not None]
    epochs, values = [epoch for epoch, _ in found], [value for _, value in found]
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
