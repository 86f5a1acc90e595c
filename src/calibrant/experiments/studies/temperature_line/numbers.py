"""What the records of the temperature-line study show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from calibrant.experiments.means import mean_of
from calibrant.experiments.studies.temperature_line import settings
from calibrant.experiments.studies.temperature_line.curves import (
    Curve,
    arms,
    file_curves,
    files_with_labels,
    network_curves,
    range_name,
)
from calibrant.experiments.studies.temperature_line.straight_lines import Line


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
    return {
        "seeds": len({each["seed"] for each in numbers["networks"]}),
        "ranges": [range_name(between) for between in settings.RANGES],
        "divisions": settings.DIVISIONS,
        "worth": settings.WORTH,
        "curves": len(files) + len(networks),
        "down": sum(curve.bends_down for curve in (*files, *networks)),
        "at_start": sum(curve.is_farthest_at_the_start for curve in (*files, *networks)),
        "slopes": _slopes([*files, *networks]),
        "cost": _cost([*files, *networks]),
        "by_loss": _by_loss(networks),
        "file_rows": [_file_row(name, group) for name, group in files_with_labels(numbers).items()],
        "network_rows": [
            _network_row(f"{data}, {settings.LOSSES[loss]}", group)
            for (data, loss), group in arms(numbers).items()
        ],
    }


def _slopes(curves: Sequence[Curve]) -> dict[str, tuple[float, float]]:
    """The least and the largest slope, as a share of T at 0, for two classes and for more."""
    parted = {
        "two classes": [curve for curve in curves if curve.found["num_classes"] == 2],
        "more": [curve for curve in curves if curve.found["num_classes"] > 2],
    }
    slopes = {what: [curve.line().relative_slope for curve in group] for what, group in parted.items()}
    return {what: (min(each), max(each)) for what, each in slopes.items() if each}


def _cost(curves: Sequence[Curve]) -> dict[str, Any]:
    """What the search along the line loses."""
    lost = [curve.lost_by_line for curve in curves]
    paying = [curve for curve in curves if curve.gained > settings.WORTH]
    shares, coarse = (
        [curve.lost_by(search) / curve.gained for curve in paying] for search in ("line", "coarse")
    )
    return {
        "median": median(lost),
        "most": max(lost),
        "worst": max(curves, key=lambda curve: curve.lost_by_line).name,
        "shares": [median(shares), max(shares)] if shares else [],
        "coarse": [median(coarse), max(coarse)] if coarse else [],
        "paying": len(shares),
        "beyond": sum(curve.lost_by_range > settings.WORTH for curve in curves),
    }


def _by_loss(networks: Sequence[Curve]) -> list[dict[str, Any]]:
    groups = {
        name: [curve for curve in networks if curve.found["loss"] == loss]
        for loss, name in settings.LOSSES.items()
    }
    return [
        {
            "name": name,
            "off": fmean([curve.line().deviation for curve in group]),
            "slope": fmean([curve.line().relative_slope for curve in group]),
            "at_zero": fmean([curve.at_zero for curve in group]),
        }
        for name, group in groups.items()
        if group
    ]


def _file_row(name: str, group: Sequence[Curve]) -> dict[str, Any]:
    """A file, or several labels: the worst of the lines, and means of the rest."""
    by_ece = [line for curve in group if (line := curve.ece_line) is not None]
    reached = group[0].found["nll"]
    return {
        "name": name,
        "classes": group[0].found["num_classes"] if len(group) == 1 else f"{len(group)} labels",
        "at_zero": fmean([curve.at_zero for curve in group]),
        "slope": fmean([curve.line().relative_slope for curve in group]),
        "r_squared": min(curve.line().r_squared for curve in group),
        "inverse_r_squared": min(curve.inverse_line.r_squared for curve in group),
        "off": [
            *(largest([curve.line(between) for curve in group]) for between in settings.RANGES),
            largest([curve.anchored for curve in group]),
            largest([curve.inverse_line for curve in group]),
        ],
        "ece_r_squared": min((line.r_squared for line in by_ece), default=None),
        "ece_off": largest(by_ece) if by_ece else None,
        "best": [reached["gamma"], reached["gamma_on_line"]] if len(group) == 1 else [None, None],
        "nll": [
            fmean([curve.gained for curve in group]),
            fmean([curve.lost_by_line for curve in group]),
            fmean([curve.lost_by("coarse") for curve in group]),
            fmean([curve.lost_by_range for curve in group]),
        ],
        "held_out": [_falls(group, by, search) for by in settings.CRITERIA for search in ("line", "full")],
    }


def _falls(group: Sequence[Curve], by: settings.Criterion, search: str) -> float | None:
    """Mean fall below temperature scaling on held-out halves."""
    falls = [fall for curve in group if (fall := curve.held_out(by, search, "plain")) is not None]
    return fmean(falls) if falls else None


def _network_row(name: str, group: Sequence[Curve]) -> dict[str, Any]:
    best = [curve.found["nll"]["gamma"] for curve in group]
    return {
        "name": name,
        "error": mean_of([1 - curve.found["accuracy"] for curve in group]),
        "at_zero": mean_of([curve.at_zero for curve in group]),
        "slope": mean_of([curve.line().relative_slope for curve in group]),
        "r_squared": min(curve.line().r_squared for curve in group),
        "off": [largest([curve.line() for curve in group]), largest([curve.anchored for curve in group])],
        "best": [min(best), max(best)],
        "nll": [
            fmean([curve.gained for curve in group]),
            *(fmean([curve.lost_by(search) for curve in group]) for search in ("line", "coarse")),
        ],
    }


def largest(lines: Sequence[Line]) -> float:
    """The largest distance of temperatures from their lines, as a share."""
    return max(line.deviation for line in lines)
