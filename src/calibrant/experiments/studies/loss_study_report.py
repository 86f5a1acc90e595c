"""The loss study as files: one page and one figure per setting, and the numbers behind them as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write
from calibrant.experiments.means import Mean
from calibrant.experiments.studies.loss_study import SETTINGS, Setting
from calibrant.experiments.studies.loss_study_claims import Claim, claims
from calibrant.experiments.studies.loss_study_figures import write_figures
from calibrant.experiments.studies.loss_study_numbers import (
    METRICS,
    STAGES,
    ArmNumbers,
    collect,
    training_counts,
)
from calibrant.experiments.studies.loss_study_pages import Page, page
from calibrant.experiments.studies.loss_study_published import Quote, quotes

_PARAMETERS = ("temperature", "ece_temperature", "focal_temperature", "gamma")


def write_results(
    store: Path,
    folder: Path,
    *,
    settings: Sequence[Setting] = SETTINGS,
    seeds: Sequence[int] = (0, 1, 2),
    published: Path | None = None,
) -> list[Path]:
    """Write what the finished runs of a store show: ``NAME.md``, ``NAME.json`` and figures per setting.

    Args:
        store: The folder of the runs.
        folder: Where to; made if need be.
        settings: Which settings; one without finished runs is left out.
        seeds: Which seeds count.
        published: A folder of published tables, to be quoted; without it none are.

    Returns:
        The files written.

    Raises:
        InputError: If no run is finished.
    """
    numbers = {setting.key: collect(store, setting, seeds) for setting in settings}
    if not any(numbers.values()):
        raise InputError(f"{store} holds no finished run of this study; train some first.")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for setting in settings:
        found = numbers[setting.key]
        if not found:
            continue
        content = Page(
            setting=setting,
            numbers=found,
            counts=training_counts(setting),
            claims=claims(found),
            quotes=[] if published is None else quotes(published, found),
            figures=write_figures(found, folder, setting),
            wanted=len(seeds),
        )
        text, data = folder / f"{setting.key}.md", folder / f"{setting.key}.json"
        with atomic_write(text) as temporary:
            temporary.write_text(page(content), encoding="utf-8")
        with atomic_write(data) as temporary:
            temporary.write_text(_json(as_json(content)), encoding="utf-8")
        written += [text, data, *(folder / name for name, _ in content.figures)]
    return written


def _json(content: Mapping[str, Any]) -> str:
    """JSON in which a list of numbers takes one line."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    return re.sub(r"\[[-\d.e,\s]+\]", lambda numbers: " ".join(numbers[0].split()), text) + "\n"


def as_json(content: Page) -> dict[str, Any]:
    """Everything on the page, and every run's own numbers, as plain data."""
    return {
        "setting": content.setting.key,
        "recipe": content.setting.base.model_dump(mode="json"),
        "training_counts": content.counts,
        "seeds_wanted": content.wanted,
        "arms": [_arm(each) for each in content.numbers],
        "claims": [_claim(each) for each in content.claims],
        "published": [_quote(each) for each in content.quotes],
    }


def _arm(found: ArmNumbers) -> dict[str, Any]:
    return {
        "arm": found.arm.key,
        "title": found.arm.title,
        "changes": list(found.arm.changes),
        "n": len(found.runs),
        "test": {stage: {name: _mean(found.metric(stage, name)) for name in METRICS} for stage in STAGES},
        "parameters": {name: _mean(found.parameter(name)) for name in _PARAMETERS},
        "runs": [_run(run) for run in found.runs.values()],
    }


def _run(run: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _rounded(value) for key, value in run.items() if key != "format"}


def _rounded(value: Any) -> Any:
    """Six digits, which is more than the test images can tell apart."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, list) else value


def _mean(found: Mean) -> dict[str, float | int | None]:
    return {"mean": _rounded(found.value), "half_width": _rounded(found.half_width), "n": found.n}


def _claim(found: Claim) -> dict[str, Any]:
    return asdict(found)


def _quote(found: Quote) -> dict[str, Any]:
    return asdict(found)
