"""How a network's likelihood, entropy and calibration went in training: figures, and one HTML page."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant.reports.figures import BLUE, GREEN, GREY, VERMILLION, series
from calibrant.reports.pictures import Picture
from calibrant.reports.svg import drawing_style, to_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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

    Args:
        rows: The epochs of a run, those without dynamics are left out.
        quantity: ``"nll"``, ``"entropy"`` or ``"p_true"``.
        split: ``"train"`` or ``"test"``.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into.

    Example:
        >>> found = {"nll": 0.5, "nll_correct": 0.1, "nll_incorrect": 2.0}
        >>> ax = split_curves([{"epoch": 1, "dynamics": {"test": found}}], "nll", "test")
        >>> [line.get_label() for line in ax.get_lines()]
        ['all', 'right', 'wrong']
    """
    ax = _axes(ax)
    for ending, (label, colour, dashes) in _GROUPS.items():
        _line(ax, rows, (split, f"{quantity}{ending}"), label, colour, dashes)
    return _finished(ax, _QUANTITIES[quantity])


def error_curves(rows: Rows, *, ax: Axes | None = None) -> Axes:
    """Error on the training and test samples, and the test samples' calibration error, over the epochs.

    Args:
        rows: The epochs of a run.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into.
    """
    ax = _axes(ax)
    for split, (label, colour, dashes) in _SPLITS.items():
        _line(ax, rows, (split, "error"), f"{label} error", colour, dashes)
    _line(ax, rows, ("test", "ece"), "test ECE", VERMILLION, ":")
    return _finished(ax, "share")


def weight_norm_curve(rows: Rows, *, ax: Axes | None = None) -> Axes:
    """Norm of the last layer's weights over the epochs.

    Args:
        rows: The epochs of a run.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into.
    """
    ax = _axes(ax)
    _line(ax, rows, ("last_layer_norm",), "last layer", BLUE, "-")
    return _finished(ax, "norm of the last layer's weights")


def snapshot_reliability(snapshot: Snapshot, split: Split, *, ax: Axes | None = None) -> Axes:
    """Stated and found confidence in bins at one epoch, above the share of the samples in each bin.

    Args:
        snapshot: What was recorded at the epoch.
        split: ``"train"`` or ``"test"``.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into, both running from 0 to 1.
    """
    ax = _axes(ax)
    counts = snapshot[f"{split}_counts"]
    edges = np.linspace(0, 1, len(counts) + 1)
    ax.stairs(
        counts / max(counts.sum(), 1), edges, fill=True, color=GREY, alpha=0.3, label="share of samples"
    )
    ax.plot([0, 1], [0, 1], color=GREY, linestyle=(0, (4, 3)), linewidth=1)
    confidence, accuracy = snapshot[f"{split}_confidence"], snapshot[f"{split}_accuracy"]
    known = ~np.isnan(confidence)
    ax.plot(confidence[known], accuracy[known], color=BLUE, marker="o", markersize=3, label="share right")
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence")
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize="small", loc="upper left")
    return ax


def gradient_histogram(snapshots: Mapping[int, Snapshot], *, ax: Axes | None = None) -> Axes:
    """Norms of the samples' gradients by the last layer, one histogram for each epoch recorded.

    Args:
        snapshots: What was recorded, by epoch.
        ax: Where to draw; a new figure if ``None``.

    Returns:
        The axes drawn into.
    """
    ax = _axes(ax)
    norms = {epoch: each["gradient_norms"] for epoch, each in snapshots.items() if "gradient_norms" in each}
    highest = max((float(values.max()) for values in norms.values()), default=0) or 1.0
    edges = np.linspace(0, highest, 41)
    for position, (epoch, values) in enumerate(norms.items()):
        shares = np.histogram(values, edges)[0] / len(values)
        colour, _, dashes = series(position)
        ax.stairs(shares, edges, color=colour, linestyle=dashes, label=f"epoch {epoch}")
    ax.set_yscale("log")
    ax.set(xlabel="norm of a sample's gradient", ylabel="share of samples")
    ax.spines[["top", "right"]].set_visible(False)
    if norms:
        ax.legend(frameon=False, fontsize="small")
    return ax


@dataclass(frozen=True)
class _Section:
    title: str
    text: str
    pictures: list[Picture]


def write_dynamics_report(
    rows: Rows, snapshots: Mapping[int, Snapshot], path: str | os.PathLike[str], *, title: str
) -> None:
    """Write one HTML page, without links to anything outside it, of the dynamics of a run.

    Args:
        rows: The epochs of the run.
        snapshots: What was recorded at chosen epochs, by epoch.
        path: A file name that ends in ``.html``.
        title: What was trained on what.

    Raises:
        InputError: If the name ends otherwise, or no epoch has dynamics.
        OSError: If the folder is missing or may not be written to.
    """
    if Path(path).suffix.lower() != ".html":
        raise InputError(f"`path` must end in .html; got {Path(path).name!r}.")
    if not any("dynamics" in row for row in rows):
        raise InputError("`rows` must hold dynamics; set record.dynamics = true in the recipe.")
    environment = Environment(
        loader=PackageLoader("calibrant.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    with drawing_style():
        sections = _sections(rows, snapshots)
    text = environment.get_template("dynamics.html").render(title=title, sections=sections)
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def _sections(rows: Rows, snapshots: Mapping[int, Snapshot]) -> list[_Section]:
    over_time = [
        _picture(
            f"{split}: {text}",
            f"{quantity}-{split}",
            lambda ax, q=quantity, s=split: split_curves(rows, q, s, ax=ax),
        )
        for quantity, text in _QUANTITIES.items()
        for split in _SPLITS
    ]
    whole = [
        _picture("errors", "errors", lambda ax: error_curves(rows, ax=ax)),
        _picture("weights", "weights", lambda ax: weight_norm_curve(rows, ax=ax)),
    ]
    found = [
        _Section(
            "Right and wrong answers",
            "Where wrong answers become less likely while their entropy falls, the network grows too sure.",
            over_time,
        ),
        _Section(
            "Errors and weights",
            "Does the calibration error still move where the error no longer does?",
            whole,
        ),
    ]
    if snapshots:
        stated = [
            _picture(
                f"{split}, epoch {epoch}",
                f"reliability-{split}-{epoch}",
                lambda ax, e=epoch, s=split: snapshot_reliability(snapshots[e], s, ax=ax),
            )
            for split in _SPLITS
            for epoch in snapshots
        ]
        found.append(_Section("Stated and found", "25 bins of equal width at chosen epochs.", stated))
    if any("gradient_norms" in snapshot for snapshot in snapshots.values()):
        text = (
            "Norm of each training sample's gradient of the loss by the weights and bias of the last layer."
        )
        norms = _picture("gradients", "gradients", lambda ax: gradient_histogram(snapshots, ax=ax))
        found.append(_Section("Gradients", text, [norms]))
    return found


def _picture(caption: str, name: str, draw: Callable[[Axes], Axes]) -> Picture:
    figure = Figure(figsize=(3.6, 2.6), layout="constrained")
    draw(figure.add_subplot())
    return Picture(to_svg(figure, label=caption, name=name), caption)


def _axes(ax: Axes | None) -> Axes:
    return Figure(figsize=(4.2, 3.0), layout="constrained").add_subplot() if ax is None else ax


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


def _finished(ax: Axes, what: str) -> Axes:
    ax.set(xlabel="epoch", ylabel=what)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.spines[["top", "right"]].set_visible(False)
    if len(ax.get_lines()) > 1:
        ax.legend(frameon=False, fontsize="small")
    return ax
