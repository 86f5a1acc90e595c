"""The theory on real predictions as files: a page and the numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from calibrant._math.files import write_text
from calibrant.experiments.means import mean_of, rounded
from calibrant.experiments.pages import shown, table
from calibrant.experiments.studies.theory_on_data.measure import GAMMAS, FileNumbers, Needed
from calibrant.theory import closest_temperature, confidence_threshold

_MARGIN = 0.1  # of the paper's "about 1": what its tables call close to one is 0.9 to 1.1


def write_theory_on_data(
    files: Sequence[FileNumbers], without: int, needed: Sequence[Needed], folder: Path
) -> list[Path]:
    """Write ``theory-on-data.md`` and ``.json`` into a folder, made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    text, data = folder / "theory-on-data.md", folder / "theory-on-data.json"
    write_text(text, page(files, without, needed))
    write_text(data, json.dumps(as_json(files, needed), indent=1, allow_nan=False) + "\n")
    return [text, data]


def as_json(files: Sequence[FileNumbers], needed: Sequence[Needed]) -> dict[str, Any]:
    """Every number, to six digits."""
    return {
        "files": [
            {
                "name": each.name,
                "kind": each.kind,
                "num_samples": each.num_samples,
                "num_classes": each.num_classes,
                "gammas": [
                    {
                        "gamma": gamma,
                        "below_threshold": rounded(each.below[gamma]),
                        **{
                            name: rounded(value) if isinstance(value, float) else value
                            for name, value in asdict(each.change[gamma]).items()
                            if name != "num_samples"
                        },
                        "temperature": rounded(each.temperature[gamma]),
                    }
                    for gamma in GAMMAS
                ],
            }
            for each in files
        ],
        "temperatures": [
            asdict(each)
            | {
                "closest": rounded(each.closest),
                "binary": rounded(each.binary),
                "ratio": rounded(mean_of(ratios(each)).value),
            }
            for each in needed
        ],
    }


def ratios(each: Needed) -> list[float]:
    """What focal loss needs over what cross-entropy needs, run by run: the temperature of the training."""
    return [focal / proper for focal, proper in zip(each.needed, each.proper, strict=True)]


def page(files: Sequence[FileNumbers], without: int, needed: Sequence[Needed]) -> str:
    """The page in Markdown."""
    thresholds = ", ".join(f"{confidence_threshold(gamma).above:.3f}" for gamma in GAMMAS)
    parts = [
        "# The theory of focal loss on real predictions",
        (
            "Made by `calibrant study theory-on-data`; every number is in `theory-on-data.json`. Two "
            "statements of Komisarenko and Kull (2024): that the focal calibration map always raises the top "
            "probability (proposition 5), and that training temperature times generalisation temperature is "
            "about 1 (section 4.1)."
        ),
        "## Is confidence always raised?",
        (
            "*Lowered* is the share of samples whose top probability the map lowers, *most* by how much at "
            f"most; *below p0* the share whose top probability is below the root of g = 1 ({thresholds} for "
            "γ = 1, 2, 3), above which theory says that it rises. Of two classes none can be lowered, so "
            f"binary and multilabel files are left out of this table, and {without} files that hold the top "
            "probability alone."
        ),
        _lowered(files),
        _on_lowered(files),
        "## Which temperature is the map like, on these files?",
        (
            "The temperature whose probabilities have the least cross-entropy against the mapped ones, over "
            "the file's own logits; multilabel files label by label. Beside it the one that is closest at "
            "worst over all logits (`closest_temperature`), for two classes and for as many as the file has."
        ),
        _like(files),
        _on_like(files),
        "## Training temperature times generalisation temperature",
        *_composition(needed),
        "## How to repeat it",
        (
            "```console\n$ calibrant study theory-on-data --table docs/results\n```\n\n`CALIBRANT_DATA`, or "
            "`--data`, names the folder of prediction files; the stored runs are those of the loss study in "
            "the folder that `--table` names, the published ones appear if `--published` names a folder of "
            "such tables. A minute."
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _many(files: Sequence[FileNumbers]) -> list[FileNumbers]:
    return [each for each in files if each.num_classes > 2]


def _lowered(files: Sequence[FileNumbers]) -> str:
    heads = ["file", "N", "C"]
    for gamma in GAMMAS:
        heads += [f"γ = {gamma:g}: below p0 %", "lowered %", "most"]
    rows: list[list[str]] = []
    for each in _many(files):
        cells = [f"`{each.name}`", f"{each.num_samples:,}", str(each.num_classes)]
        for gamma in GAMMAS:
            change = each.change[gamma]
            most = "–" if change.lowered == 0 else f"{change.largest_fall:.4f}"
            cells += [f"{100 * each.below[gamma]:.2f}", f"{100 * change.lowered:.2f}", most]
        rows.append(cells)
    return table(heads, rows)


def _on_lowered(files: Sequence[FileNumbers]) -> str:
    many = _many(files)
    touched = [each for each in many if any(each.change[gamma].lowered > 0 for gamma in GAMMAS)]
    if not touched:
        return "No sample of these files is lowered."
    worst = max(touched, key=lambda each: max(each.change[gamma].lowered for gamma in GAMMAS))
    gamma = max(GAMMAS, key=lambda each: worst.change[each].lowered)
    fall = max(each.change[gamma].largest_fall for each in touched for gamma in GAMMAS)
    return (
        f"Lowered samples occur in {len(touched)} of {len(many)} files with more than two classes, most in "
        f"`{worst.name}` ({100 * worst.change[gamma].lowered:.1f} % at γ = {gamma:g}); a top probability "
        f"falls by {fall:.3f} at most. The proposition is false on real predictions too; it matters little "
        "unless classes are many and the network unsure."
    )


def _like(files: Sequence[FileNumbers]) -> str:
    heads = ["file", "kind", "C"]
    for gamma in GAMMAS:
        heads += [f"γ = {gamma:g}: T here", "closest, 2", "closest, C"]
    rows: list[list[str]] = []
    for each in files:
        cells = [f"`{each.name}`", each.kind, str(each.num_classes)]
        for gamma in GAMMAS:
            cells += [
                f"{each.temperature[gamma]:.3f}",
                f"{closest_temperature(gamma).temperature:.3f}",
                f"{closest_temperature(gamma, each.num_classes).temperature:.3f}",
            ]
        rows.append(cells)
    return table(heads, rows)


def _on_like(files: Sequence[FileNumbers]) -> str:
    ends = [
        (closest_temperature(gamma).temperature, each.temperature[gamma])
        for each in _many(files)
        for gamma in GAMMAS
    ]
    above = sum(here > binary * (1 + 1e-6) for binary, here in ends)
    spread = max(here / binary for binary, here in ends) if ends else math.nan
    return (
        f"With more than two classes the map is a milder temperature than with two in {above} of {len(ends)} "
        f"cases, up to {spread:.2f} times as large: it gains most where two classes share the probability, "
        "and less where many do. There is no one temperature that an exponent stands for; it depends on the "
        "data."
    )


def _composition(needed: Sequence[Needed]) -> list[str]:
    if not needed:
        return ["No stored runs were found."]
    about = (
        "A network trained with focal loss needs on new data, so the argument, the temperature of the map "
        "times the one that cross-entropy needs. *Foretold* are these products, with the temperature closest "
        "to the map of two classes and of as many as there are; *needs* is what was fitted. *Needs / "
        "cross-entropy* is the training temperature that would have made the argument exact. Of this "
        "library's runs temperatures are fitted by likelihood, mean ± half the width of the 95 % interval "
        "over seeds; the published ones are single runs, chosen by ECE to a tenth."
    )
    heads = [
        "network",
        "γ",
        "cross-entropy needs",
        "foretold, 2 classes",
        "foretold, all classes",
        "focal loss needs",
        "needs / cross-entropy",
    ]
    parts = [about]
    for source in dict.fromkeys(each.source for each in needed):
        of_it = [each for each in needed if each.source == source]
        parts += [f"Runs of {source}:", table(heads, [_row(each) for each in of_it]), _on_composition(of_it)]
    return parts


def _row(each: Needed) -> list[str]:
    return [
        f"{each.network} (C = {each.num_classes})",
        f"{each.gamma:g}",
        shown(each.proper, 2),
        shown([each.binary * proper for proper in each.proper], 2),
        shown([each.closest * proper for proper in each.proper], 2),
        shown(each.needed, 2),
        shown(ratios(each), 2),
    ]


def _on_composition(needed: Sequence[Needed]) -> str:
    count = len(needed)
    means = [
        (mean_of(each.needed).value, each.binary * mean_of(each.proper).value, each.closest, each)
        for each in needed
    ]
    between = sum(
        binary <= fitted <= closest * mean_of(each.proper).value for fitted, binary, closest, each in means
    )
    above = sum(fitted > closest * mean_of(each.proper).value for fitted, _, closest, each in means)
    below = count - between - above
    one = sum(abs(fitted - 1) <= _MARGIN + 1e-9 for fitted, _, _, _ in means)
    nearer = sum(
        abs(math.log(fitted)) < abs(math.log(mean_of(each.proper).value)) for fitted, _, _, each in means
    )
    return (
        f"What focal loss needs lies between the two products in {between} of {count} cases, above both in "
        f"{above}, below both in {below}. It is within {_MARGIN:g} of 1 in {one} of {count}, and nearer to 1 "
        f"than cross-entropy's in {nearer} of {count}."
    )
