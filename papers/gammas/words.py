"""The tables of the page on exponents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from calibrant._math.means import Mean, mean_of, plus_minus
from papers.arms import ArmRuns
from papers.gammas.claims import (
    CE,
    COMPENSATION,
    ERROR,
    GAP,
    PARTS,
    chosen,
    claims,
    relative_gain,
    separated,
    shares,
    side,
)
from papers.gammas.numbers import of_size, rows_of
from papers.gammas.settings import (
    FOCAL,
    LOSSES,
    OBJECTIVES,
    QUESTIONS,
    ROWS_SIZE,
    SIZES,
    TITLES,
)
from papers.losses.settings import ARGUMENT, CONTRAST
from papers.pages import listed, table
from papers.paired import usual_words
from papers.sum_or_mean.settings import RESNET_HOURS

RESNET_RUNS = 24
"""How many `grids/cifar10-gammas.toml` has."""


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    rows = rows_of(numbers)
    sizes = {size: arms for size in SIZES if (arms := of_size(numbers, size))}
    asked = claims(numbers)
    return {
        **usual_words(numbers, numbers["done"], asked, QUESTIONS),
        "rows": {title: rows_table(rows, objective) for objective, title in OBJECTIVES.items()},
        "sizes": {f"{size:,}": size_table(arms) for size, arms in sizes.items()},
        "missing": [f"{size:,}" for size in SIZES if size not in sizes],
        "absent": [title for key, title in TITLES.items() if key not in rows],
        "perfect": [
            f"{arm.title} with {size:,}"
            for size, arms in sizes.items()
            for arm in arms.values()
            if separated(arm)
        ],
        "epochs": listed(f"{row['epochs']}" for row in numbers["sizes"]),
        "of_sizes": listed(f"{int(row['size']):,}" for row in numbers["sizes"]),
        "gains": gains(rows),
        "premise": premise(sizes),
        "argument": ARGUMENT,
        "contrast": CONTRAST,
        "map_table": map_table(numbers["closest"], sizes),
        "of_map": of_map(numbers["closest"], sizes),
        "size": f"{ROWS_SIZE:,}",
        "losses": len(LOSSES),
        "resnet_hours": RESNET_RUNS * RESNET_HOURS,
        "protocol": protocol(),
    }


def protocol() -> str:
    """What is searched, and what the last column of the tables means."""
    from calibrant.calibrators.fitting.focal_searches import PAPER_GAMMAS  # which loads torch

    first, *_, last = tried = [f"{gamma:g}" for gamma in PAPER_GAMMAS]
    return (
        f"temperatures 0.01, 0.02, …, 5.00 and the paper's {len(tried)} exponents, {listed(tried)} (0 is not "
        "among them), chosen by the criterion in the heading. *focal:* is focal temperature scaling; its "
        f"exponents are given seed by seed. Where one is {first} or {last}, the grid ends there: a better "
        "one may lie beyond. The paper prints one exponent a row for its five seeds; the results file keeps "
        "of each seed only the best, so it does not say which one would be chosen for all seeds together."
    )


def gains(arms: Mapping[str, ArmRuns]) -> dict[str, str]:
    """By how many per cent choosing a temperature by what is judged lowers it, mean over losses."""
    found = {title: relative_gain(objective, arms) for objective, title in OBJECTIVES.items()}
    return {title: plus_minus(each, 1, 100) for title, each in found.items() if each is not None}


def premise(sizes: Mapping[int, Mapping[str, ArmRuns]]) -> str:
    """What cross-entropy's temperature on new images is with each number of training images."""
    told = [
        f"{side('new', 'temperature').cell(plain)} with {size:,}"
        for size, arms in sizes.items()
        if (plain := arms.get(CE)) is not None
    ]
    return listed(told)


def rows_table(arms: Mapping[str, ArmRuns], objective: str) -> str:
    """A row for each loss: as trained, with a temperature, with an exponent beside it."""
    columns = {
        "error %": ERROR,
        "T": chosen("temperature", objective, "T"),
        "NLL": chosen("temperature", objective, "nll"),
        "AdaECE %": chosen("temperature", objective, "adaptive_ece"),
        "focal: T": chosen("focal", objective, "T"),
        "focal: NLL": chosen("focal", objective, "nll"),
        "focal: AdaECE %": chosen("focal", objective, "adaptive_ece"),
    }
    heads = ["loss", "n", *columns, "focal: γ by seed"]
    rows = [
        [
            arm.title,
            str(len(arm.runs)),
            *(each.cell(arm) for each in columns.values()),
            _exponents(arm, objective),
        ]
        for arm in arms.values()
    ]
    return table(heads, rows)


def _exponents(arm: ArmRuns, objective: str) -> str:
    """Seed by seed: a mean of points of a coarse grid says little."""
    return ", ".join(f"{run[f'focal-{objective}']['gamma']:g}" for run in arm.runs.values())


def size_table(arms: Mapping[str, ArmRuns]) -> str:
    """A row for each loss: its training images, and new ones."""
    columns = {
        "training accuracy %": side("train", "accuracy"),
        "error %": side("new", "error"),
        "excess %, training": side("train", "gap"),
        "excess %, new": side("new", "gap"),
        "difference": GAP,
        "ECE %, training": side("train", "ece"),
        "ECE %, new": side("new", "ece"),
        "T, new": side("new", "temperature"),
    }
    heads = ["loss", "n", *columns, "T, training", "log ratio"]
    rows = [
        [
            arm.title,
            str(len(arm.runs)),
            *(each.cell(arm) for each in columns.values()),
            _no_errors(arm) if separated(arm) else side("train", "temperature").cell(arm),
            "–" if separated(arm) else COMPENSATION.cell(arm),
        ]
        for arm in arms.values()
    ]
    return table(heads, rows)


def _no_errors(arm: ArmRuns) -> str:
    """That no temperature is likeliest on training images, and in how many seeds, if not in all."""
    seeds = sum(separated(replace(arm, runs={seed: run})) for seed, run in arm.runs.items())
    return "none: no errors" + ("" if seeds == len(arm.runs) else f" in {seeds} of {len(arm.runs)} seeds")


def map_table(closest: Mapping[str, float], sizes: Mapping[int, Mapping[str, ArmRuns]]) -> str:
    """How far focal loss lowers the temperatures, beside the temperature that is closest to its map."""
    rows: list[list[str]] = []
    for size, arm, plain in _beside_cross_entropy(sizes):
        ratios = [
            (_no_errors(arm) if separated(arm) else f"{_no_errors(plain)} of cross-entropy")
            if part == "train" and (separated(arm) or separated(plain))
            else plus_minus(mean_of(shares(arm, plain, side(part, "temperature").pick)))
            for part in PARTS
        ]
        seeds = str(len(arm.runs.keys() & plain.runs.keys()))
        rows.append([arm.title, f"{size:,}", seeds, f"{closest[str(FOCAL[arm.key])]:.3f}", *ratios])
    return table(["loss", "images", "n", "closest", "T, training", "T, new"], rows) if rows else ""


def _beside_cross_entropy(
    sizes: Mapping[int, Mapping[str, ArmRuns]],
) -> Iterator[tuple[int, ArmRuns, ArmRuns]]:
    """Each focal loss of each size with cross-entropy, where they share seeds."""
    for size, arms in sizes.items():
        plain = arms.get(CE)
        for key, arm in arms.items():
            if key in FOCAL and plain is not None and arm.runs.keys() & plain.runs.keys():
                yield size, arm, plain


def of_map(closest: Mapping[str, float], sizes: Mapping[int, Mapping[str, ArmRuns]]) -> dict[str, Any]:
    """In how many cells of that table the ratio is beyond noise below the closest temperature, or above."""
    found: dict[str, list[Mean]] = {images: [] for images in PARTS.values()}
    for _, arm, plain in _beside_cross_entropy(sizes):
        for part, images in PARTS.items():
            if part == "new" or not (separated(arm) or separated(plain)):
                ratios = shares(arm, plain, side(part, "temperature").pick)
                found[images].append(mean_of([each / closest[str(FOCAL[arm.key])] for each in ratios]))
    every = [each for cells in found.values() for each in cells]
    return {
        "cells": len(every),
        "below": sum(each.high < 1 for each in every),
        "above": sum(each.low > 1 for each in every),
        "spans": {
            images: f"{min(each.value for each in cells):.2f} to {max(each.value for each in cells):.2f}"
            for images, cells in found.items()
            if cells
        },
    }
