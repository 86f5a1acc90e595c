"""The demo's two halves as sections of its page: words that follow from the numbers, pictures and tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from calibrant.experiments.means import Mean, mean_of, plus_minus
from calibrant.experiments.studies.demo.comparison import LOSSES, STATES, Half
from calibrant.reports.figures import BLUE, GREY, VERMILLION, series
from calibrant.reports.figures.drawing import drawing_style
from calibrant.reports.pictures import Picture
from calibrant.reports.run_sections import Opening, Section, Table
from calibrant.reports.svg import to_svg

TITLE = "What does the loss do to a network's confidence?"


def opening(num_seeds: int) -> Opening:
    """The top of the page."""
    return Opening(
        about="Demo · scikit-learn's 1797 handwritten digits",
        heading=TITLE,
        lead=(
            f"Ten losses, {num_seeds} seeds each, where little data make networks too sure and where not.",
            "Each is judged as trained, after temperature scaling and after focal temperature scaling.",
        ),
        verdict_title="One of these networks in full",
    )


def sections(few: Half, everything: Half) -> tuple[Section, ...]:
    """Both halves, and what to make of them."""
    with drawing_style():
        return (
            _half(few, title="1. Little data, much training", name="few", about=_about_few(few)),
            _half(
                everything, title="2. All the data, little training", name="all", about=_about_all(everything)
            ),
            _conclusions(few, everything),
        )


def _about_few(half: Half) -> str:
    setting = half.setting
    return (
        f"{setting.num_training} training images of {setting.side} × {setting.side} pixels (digits shrunk by "
        f"half), {setting.num_epochs} epochs. This setting was chosen because it shows the effect: with "
        "cross-entropy it makes networks over-confident."
    )


def _about_all(half: Half) -> str:
    setting = half.setting
    return (
        f"{setting.num_training} training images of {setting.side} × {setting.side} pixels, "
        f"{setting.num_epochs} epochs: the same kind of network, optimiser and losses where nothing needs "
        "mending. This too was chosen: trained for longer, cross-entropy becomes over-confident here as well."
    )


def direction(gap: Mean) -> str:
    """Over-confident, under-confident, or neither beyond the chance of the seeds."""
    if gap.low > 0:
        return "over-confident"
    return "under-confident" if gap.high < 0 else "neither"


def findings(half: Half) -> tuple[str, ...]:
    """What the numbers of a half say."""
    gaps = {loss: half.mean(loss, "gap", "trained") for loss in LOSSES}
    found = [_of_cross_entropy(half, gaps["cross-entropy"])]
    for kind, words in (
        ("over-confident", "Over-confident as trained"),
        ("neither", "Neither over- nor under-confident on average (the interval of the gap holds zero)"),
        ("under-confident", "Under-confident as trained"),
    ):
        names = [LOSSES[loss] for loss in LOSSES if loss != "cross-entropy" and direction(gaps[loss]) == kind]
        if names:
            found.append(f"{words}: {', '.join(names)}.")
    before, after = (
        [half.mean(loss, "ece", state).value for loss in LOSSES] for state in ("trained", "temperature")
    )
    found.append(
        f"ECE lies between {min(before):.3f} and {max(before):.3f} as trained, and between {min(after):.3f} "
        f"and {max(after):.3f} after temperature scaling; chance alone makes {half.chance:.3f}."
    )
    return (*found, _of_nll(half))


def _of_cross_entropy(half: Half, gap: Mean) -> str:
    ece = half.mean("cross-entropy", "ece", "trained")
    error = mean_of([each.error for each in half.networks["cross-entropy"]]).value
    sure, right = 100 * (1 - error + gap.value), 100 * (1 - error)
    words = {
        "over-confident": f"over-confident by {plus_minus(gap, 1, 100)} points",
        "under-confident": f"under-confident by {plus_minus(gap, 1, 100).removeprefix('-')} points",
        "neither": "neither over- nor under-confident beyond the chance of the seeds",
    }[direction(gap)]
    return (
        f"Cross-entropy is {sure:.1f} % sure on average and right {right:.1f} % of the time: {words}. Its "
        f"ECE is {plus_minus(ece)}; chance alone makes {half.chance:.3f}."
    )


def _of_nll(half: Half) -> str:
    """The losses whose change of NLL is beyond the chance of the seeds."""
    changes = {
        title: half.change(loss, "nll", "temperature")
        for loss, title in LOSSES.items()
        if loss != "cross-entropy"
    }
    lower = [title for title, change in changes.items() if change.high < 0]
    higher = [title for title, change in changes.items() if change.low > 0]
    told = [f"{word} for {', '.join(of)}" for word, of in (("lower", lower), ("higher", higher)) if of]
    if len(lower) + len(higher) < len(changes):
        told.append("for the others the seeds do not tell" if told else "the seeds do not tell for any loss")
    return f"NLL after temperature scaling, against cross-entropy with the same seed: {'; '.join(told)}."


def _half(half: Half, *, title: str, name: str, about: str) -> Section:
    return Section(
        title=title,
        text=(about,),
        points=findings(half),
        pictures=(_gaps(half, name), _errors(half, name)),
        table=_table(half),
        note=_note(half),
    )


def _note(half: Half) -> str:
    return (
        f"Means over n = {half.num_seeds} seeds ± half the width of their 95 % interval (Student's t). Each "
        "seed has its own cut of the images, initial weights and order of samples, the same for all losses; "
        f"the {half.num_test} test images of each come from one pool, so the intervals are somewhat too "
        "narrow. Gap: mean confidence minus accuracy; ▸ over-confident, ◂ under-confident, where its "
        "interval excludes zero. ECE: 15 bins of equal width. T: the temperature that fits best. Repairs are "
        f"fitted on {half.setting.num_calibration} calibration images, which also drive AdaFocal."
    )


def _table(half: Half) -> Table:
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
    return Table(
        label="Losses before and after repair",
        groups=(("", 3), ("ECE", len(STATES)), ("NLL", len(STATES)), ("", 1)),
        columns=("Loss", "Error,\u00a0%", "Gap", *STATES.values(), *STATES.values(), "T"),
        rows=tuple(rows),
    )


def _shown(mean: Mean, *, digits: int = 3) -> Markup:
    number, _, half = plus_minus(mean, digits).replace("-", "−").partition(" ± ")
    return Markup('{} <span class="plus">± {}</span>').format(number, half)


def _marked(gap: Mean) -> Markup:
    """The gap with its sign, and a colour and an arrow where it is more than chance."""
    kind = direction(gap)
    if kind == "neither":
        return _shown(gap)
    place, arrow = ("high", "▸") if kind == "over-confident" else ("low", "◂")
    return Markup('<span class="{}">{}</span> {}').format(place, arrow, _shown(gap))


def _gaps(half: Half, name: str) -> Picture:
    """Over- or under-confidence of every loss as trained."""
    figure, ax = _figure()
    ax.axvline(0, color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    for row, loss in enumerate(LOSSES):
        gap = half.mean(loss, "gap", "trained")
        colour = {"over-confident": VERMILLION, "under-confident": BLUE, "neither": GREY}[direction(gap)]
        shape = {"over-confident": ">", "under-confident": "<", "neither": "o"}[direction(gap)]
        ax.plot([gap.low, gap.high], [row, row], color=colour, linewidth=1.4)
        ax.plot([gap.value], [row], color=colour, marker=shape, markersize=6, linestyle="none")
    ax.locator_params(axis="x", nbins=5)
    ax.set_xlabel("under-confident   ←   gap   →   over-confident", fontsize=8)
    spoken = "; ".join(
        f"{title}: {half.mean(loss, 'gap', 'trained').value:+.3f}" for loss, title in LOSSES.items()
    )
    return Picture(to_svg(figure, label=f"Gap by loss. {spoken}.", name=f"gap-{name}"), "Gap, as trained")


def _errors(half: Half, name: str) -> Picture:
    """Calibration error of every loss in every state, against chance."""
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
    ax.set_xlabel("ECE; dashed: what chance alone makes", fontsize=8)
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


def _conclusions(few: Half, everything: Half) -> Section:
    helps = (
        "The loss moves confidence, and a strong focal loss moves it down: γ = 3 moves the gap by "
        f"{_moves(few)} points in the first half and by {_moves(everything)} in the second. That helps where "
        "cross-entropy is too sure; where it is not, the same loss leaves the network not sure enough."
    )
    look = (
        "So look before you choose. Which of the two cases a network is in can be seen from held-out "
        "samples; calibrant evaluate says so."
    )
    repaired = (
        "Much of what a loss does to confidence, one number fitted afterwards does as well: compare the "
        "losses in the columns after temperature scaling."
    )
    not_best = (
        "It does not follow which loss is best for other data or networks: these are small perceptrons on "
        "small images, and each half was set up to show one case. Nor does it follow that the amount of data "
        "makes the difference, for the halves also differ in the size of the images and in epochs."
    )
    chance = (
        "Differences within the intervals are none that this demo can see; and nine losses are held against "
        "cross-entropy without correction for looking nine times."
    )
    return Section(
        title="What follows from this, and what does not", points=(helps, look, repaired, not_best, chance)
    )


def _moves(half: Half) -> str:
    """How far the gap of the strongest plain focal loss lies from cross-entropy's."""
    change = half.change("focal(gamma=3)", "gap", "trained")
    return plus_minus(change, 1, 100, signed=True).replace("-", "−")


def summary(halves: Sequence[tuple[str, Half]]) -> str:
    """The findings as text for a terminal."""
    lines: list[str] = []
    for title, half in halves:
        lines += [title, *(f"  {each}" for each in findings(half)), ""]
    return "\n".join(lines)
