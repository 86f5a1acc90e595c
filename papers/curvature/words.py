"""The tables of the curvature study's page, and what its sentences depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant._math.means import mean_of
from papers.curvature import tables
from papers.curvature.directions import (
    ECE,
    Runs,
    Settings,
    arrows,
    company_table,
    direction_table,
    signs,
)
from papers.curvature.numbers import (
    BASIC,
    BY_KEY,
    FACTORS,
    GAMMA,
    LOSSES,
    NORMALISED,
    Pick,
    runs_of,
    settings_from,
)
from papers.curvature.settings import EIGEN_TOLERANCE, TRACE_PRODUCTS

VARIANTS = {"focal-no-decay": "Without weight decay", "focal-low-rate": "At a fifth of the learning rate"}


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    every, settings = numbers["runs"], settings_from(numbers)
    others = (*NORMALISED, *FACTORS)
    return {
        "settings": settings,
        "first": settings[0],
        "seeds": len({run["seed"] for run in every}),
        "lost": sum(not run["finite"] for run in every),
        "eigen_tolerance": EIGEN_TOLERANCE,
        "trace_products": TRACE_PRODUCTS,
        **_accuracy(every),
        "directions": direction_table(every, settings),
        "company": company_table(every, settings),
        **_remarks(every, settings),
        "paths": [tables.path_table(every, setting, "focal") for setting in settings],
        "arms": _arms(every, settings, "focal"),
        "by_gamma": tables.correlation_table(every, settings, "focal", BASIC, GAMMA.key),
        "judged": [tables.judged_table(every, setting, "focal") for setting in settings],
        "same_gamma": tables.correlation_table(
            every, settings, "focal", tables.TRAIN, "before.ece", within=True
        ),
        "units_by_gamma": tables.correlation_table(every, settings, "focal", others, GAMMA.key),
        "units_by_ece": tables.correlation_table(every, settings, "focal", others, "before.ece"),
        "variants": [
            {
                "title": title,
                "settings": "; ".join(setting.title for setting in having),
                "falls": ", ".join(
                    f"{each.title.removesuffix(', train')} "
                    + arrows(signs(every, having, each.pick, family=family))
                    for each in tables.TRAIN
                ),
                "goes": arrows(signs(every, having, tables.TRAIN[1].pick, ECE, family=family)),
                "arms": _arms(every, having, family),
                "by_gamma": tables.correlation_table(every, having, family, BASIC, GAMMA.key),
                "by_ece": tables.correlation_table(every, having, family, BASIC, "before.ece"),
            }
            for family, title in VARIANTS.items()
            if (having := [setting for setting in settings if runs_of(every, setting.key, family)])
        ],
        "stability": tables.stability_table(every, settings),
        "penalties": [
            tables.penalty_table(every, setting)
            for setting in settings
            if any(runs_of(every, setting.key, family) for family in ("trace", "sam"))
        ],
    }


def _remarks(every: Runs, settings: Settings) -> dict[str, Any]:
    """Units in which curvature goes one way everywhere, what it is made of, and the learning rate."""
    units = (*BASIC, *NORMALISED)

    def everywhere(other: Pick, sign: int) -> list[str]:
        found = {each.title: signs(every, settings, each.pick, other) for each in units}
        return [title for title, of in found.items() if of and {*of} == {sign}]

    return {
        "num_units": len(units),
        "falling": everywhere(GAMMA.pick, -1),
        "rising": everywhere(GAMMA.pick, 1),
        "going": everywhere(ECE, 1),
        "made_of": {
            key.replace(".", "_"): arrows(signs(every, settings, BY_KEY[key].pick))
            for key in ("bend.own", "bend.cross_entropy", "jacobian", "norm")
        },
        "shares": [
            f"{setting.title} {mean_of([tables.stability(run, setting) for run in runs]).value:.2f}"
            for setting in settings
            if (runs := [run for run in runs_of(every, setting.key, "focal") if run["gamma"] == 0])
        ],
    }


def _arms(every: Runs, settings: Settings, family: str) -> dict[str, str]:
    return {
        setting.title: tables.arms_table(every, setting, family)
        for setting in settings
        if runs_of(every, setting.key, family)
    }


def _accuracy(every: Runs) -> dict[str, float]:
    """How well eigenvalues and traces were found after epoch 0."""
    found: Sequence[Mapping[str, float]] = [
        point[split][loss]
        for run in every
        if run["finite"]
        for point in run["path"][1:]
        for split in ("train", "test")
        for loss in LOSSES
    ]
    errors = sorted(abs(each["trace_error"] / each["trace"]) for each in found if each["trace"])
    return {
        "residual": max(each["residual"] / max(abs(each["lambda_max"]), 1e-12) for each in found),
        "trace_error": errors[len(errors) // 2],
    }
