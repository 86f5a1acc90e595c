"""What the runs of the temperature-line study show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from calibrant._math.means import mean_of, plus_minus
from papers.grouping import grouped
from papers.losses.settings import CONTRAST
from papers.pages import table
from papers.temperature_line import settings
from papers.temperature_line.curves import (
    Curve,
    arms,
    file_curves,
    network_curves,
)
from papers.temperature_line.straight_lines import Line

_RANGES = [f"{low:g} to {high:g}" for low, high in settings.RANGES]
_NLL = ("γ gains", "line loses", "in steps of 0.1")
_SHAPES = (
    "file", "C", "T(0)", "slope", "R² of T", "R² of 1/T", *(f"off, γ {each}" for each in _RANGES),
    "off, 0 and 1", "1/T off", "by ECE: R²", "off",
)  # fmt: skip
_LOST = (
    "file", "best γ", "on the line", *_NLL, "range loses", "held out, NLL: line", "full",
    "held out, ECE: line", "full",
)  # fmt: skip
_NETWORKS = ("networks", "error", "T(0)", "slope", "R² of T", "off", "off, 0 and 1", "best γ", *_NLL)


def kept_of(arm: Mapping[str, Any]) -> dict[str, Any]:
    """What the results file keeps of a file, label or network; of halves held out the means."""
    return {
        **{name: arm[name] for name in ("name", "num_samples", "num_classes", "accuracy", "temperatures")},
        "nll": arm["reached"],
        "held_out": {
            by: {name: fmean(half[name] for half in halves) for name in halves[0]}
            for by, halves in arm["held_out"].items()
        },
    }


def numbers_of(runs: Sequence[Mapping[str, Any]], _also: Mapping[str, Any]) -> dict[str, Any]:
    """Files and networks, from settings and findings of every run."""
    arms = [(run["subject"], run["seed"], arm) for run in runs for arm in run["arms"]]
    networks = [each for each in arms if each[2]["name"] in settings.LOSSES]
    worlds = list(dict.fromkeys(world for world, *_ in networks))
    losses = list(settings.LOSSES)
    networks.sort(key=lambda each: (worlds.index(each[0]), losses.index(each[2]["name"]), each[1]))
    return {
        "gammas": list(settings.GAMMAS),
        "files": {arm["name"]: arm for *_, arm in arms if arm["name"] not in settings.LOSSES},
        "networks": [
            {"data": world, "loss": arm["name"], "seed": seed, **arm} for world, seed, arm in networks
        ],
    }


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    files, networks = file_curves(numbers), network_curves(numbers)
    every, by_file = [*files, *networks], grouped(files, lambda curve: curve.stem)
    return {
        "seeds": len({each["seed"] for each in numbers["networks"]}),
        "ranges": _RANGES,
        "divisions": settings.DIVISIONS,
        "worth": settings.WORTH,
        "contrast": CONTRAST,
        "curves": len(every),
        "down": sum(of[len(of) // 2] > (of[0] + of[-1]) / 2 for of in (curve.likeliest for curve in every)),
        "at_start": sum(line.distances[0] == line.deviation for line in map(Curve.line, every)),
        "slopes": _slopes(every),
        "cost": _cost(every),
        "by_loss": [
            {
                "name": settings.LOSSES[loss],
                "off": fmean(curve.line().deviation for curve in group),
                "slope": fmean(curve.line().relative_slope for curve in group),
                "at_zero": fmean(curve.at_zero for curve in group),
            }
            for loss, group in grouped(networks, lambda curve: curve.found["loss"]).items()
        ],
        "shapes": files and table(_SHAPES, [_shape(name, group) for name, group in by_file.items()]),
        "losses": files and table(_LOST, [_lost(name, group) for name, group in by_file.items()]),
        "networks": table(
            _NETWORKS,
            [
                _network(f"{data}, {settings.LOSSES[loss]}", group)
                for (data, loss), group in arms(numbers).items()
            ],
        ),
    }


def _slopes(curves: Sequence[Curve]) -> dict[str, tuple[float, float]]:
    """The least and the largest slope, as a share of T at 0, for two classes and for more."""
    slopes: dict[str, list[float]] = {"two classes": [], "more": []}
    for curve in curves:
        slopes["two classes" if curve.found["num_classes"] == 2 else "more"].append(
            curve.line().relative_slope
        )
    return {what: (min(each), max(each)) for what, each in slopes.items() if each}


def _cost(curves: Sequence[Curve]) -> dict[str, Any]:
    """What the search along the line loses."""
    worst = max(curves, key=Curve.lost_by)
    paying = [curve for curve in curves if curve.fall_from("plain") > settings.WORTH]
    shares, coarse = (
        [curve.lost_by(search) / curve.fall_from("plain") for curve in paying]
        for search in ("line", "coarse")
    )
    return {
        "median": median(map(Curve.lost_by, curves)),
        "most": worst.lost_by(),
        "worst": worst.name,
        "shares": [median(shares), max(shares)] if shares else [],
        "coarse": [median(coarse), max(coarse)] if coarse else [],
        "paying": len(shares),
        "beyond": sum(curve.fall_from("range") > settings.WORTH for curve in curves),
    }


def _off(lines: Sequence[Line]) -> str:
    """The largest distance of temperatures from their lines; a dash without lines."""
    return f"{100 * max(line.deviation for line in lines):.1f} %" if lines else "–"


def _fit(lines: Sequence[Line]) -> str:
    """The least R²."""
    return f"{min(line.r_squared for line in lines):.4f}" if lines else "–"


def _shape(name: str, group: Sequence[Curve]) -> list[str]:
    """A file, or several labels: the worst of the lines, and means of the rest."""
    lines, inverse = [curve.line() for curve in group], [curve.inverse_line for curve in group]
    by_ece = [line for curve in group if (line := curve.ece_line) is not None]
    return [
        f"`{name}`",
        str(group[0].found["num_classes"]) if len(group) == 1 else f"{len(group)} labels",
        f"{fmean(curve.at_zero for curve in group):.3f}",
        f"{fmean(line.relative_slope for line in lines):.2f}",
        *(_fit(lines), _fit(inverse)),
        *(_off([curve.line(between) for curve in group]) for between in settings.RANGES),
        *(_off([curve.anchored for curve in group]), _off(inverse)),
        *(_fit(by_ece), _off(by_ece)),
    ]


def _lost(name: str, group: Sequence[Curve]) -> list[str]:
    """The best exponents, what is gained and lost, and on halves held out the fall below one temperature."""
    reached, beyond = group[0].found["nll"], fmean(curve.fall_from("range") for curve in group)
    best = [f"{reached[each]:.2f}" if len(group) == 1 else "–" for each in ("gamma", "gamma_on_line")]
    cells = [f"`{name}`", *best, *_worth(group), f"{beyond:.5f}"]
    for by in settings.CRITERIA:
        for search in ("line", "full"):
            falls = [fall for curve in group if (fall := curve.held_out(by, search, "plain")) is not None]
            cells.append(f"{fmean(falls):+.5f}" if falls else "–")
    return cells


def _worth(group: Sequence[Curve]) -> list[str]:
    """What the exponent gains, and what of it the line loses in steps of either size."""
    found = [[curve.fall_from("plain") for curve in group]]
    found += [[curve.lost_by(search) for curve in group] for search in ("line", "coarse")]
    return [f"{fmean(each):.5f}" for each in found]


def _network(name: str, group: Sequence[Curve]) -> list[str]:
    lines, best = [curve.line() for curve in group], [curve.found["nll"]["gamma"] for curve in group]
    return [
        name,
        plus_minus(mean_of([1 - curve.found["accuracy"] for curve in group])),
        plus_minus(mean_of([curve.at_zero for curve in group])),
        plus_minus(mean_of([line.relative_slope for line in lines]), 2),
        *(_fit(lines), _off(lines), _off([curve.anchored for curve in group])),
        f"{min(best):.2f} to {max(best):.2f}",
        *_worth(group),
    ]
