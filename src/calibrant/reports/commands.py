"""The shell commands that carry out a verdict's recommendation."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace

from calibrant.evaluation.result import Evaluation, Repair
from calibrant.predictions.formats.roster import WRITERS


def mark_of_files(files: Sequence[str | os.PathLike[str]]) -> str:
    """Hash of the paths of a report's files, to recognise the report without naming them."""
    paths = "\0".join(os.path.realpath(each) for each in files)
    return hashlib.sha256(paths.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def with_commands(evaluation: Evaluation, *, reading: str = "", applying: str | None = None) -> Evaluation:
    """Add the commands of the repair, and a last sentence that names them.

    An evaluation with commands, or without a repair, is returned unchanged. ``reading`` are the options that
    the file was read with, which the commands need as well; ``applying`` are those for new predictions, if
    they differ.
    """
    verdict = evaluation.verdict
    if verdict.repair is None or verdict.commands:
        return evaluation
    fit, apply = repair_commands(verdict.repair)
    fit = f"{fit} {reading}".rstrip()
    apply = f"{apply} {reading if applying is None else applying}".rstrip()
    when = f"Next, {verdict.condition}" if verdict.condition else "Next"
    said = f"{when}: `{fit}`, then `{apply}` for new predictions."
    spelled = replace(verdict, commands=(fit, apply), sentences=(*verdict.sentences, said))
    return replace(evaluation, verdict=spelled)


def repair_commands(repair: Repair) -> tuple[str, str]:
    """Commands that fit the calibrator and apply it to new predictions; Python code without a file.

    Example:
        >>> repair = Repair(method="temperature", file="p.csv", all_rows=True, format="csv", space="probs")
        >>> repair_commands(repair)[0]
        'calibrant fit p.csv --all --method temperature --out temperature.safetensors'
        >>> repair_commands(repair)[1]
        'calibrant apply temperature.safetensors NEW.csv --out REPAIRED.csv'
    """
    if repair.file is None and not repair.by_group:  # from arrays
        return (
            f"calibrator = evaluation.arm({repair.method!r}).calibrator",
            "repaired = calibrant.apply(calibrator, new_predictions)",
        )
    name = repair.method.partition("(")[0]
    saved = f"{name}-by-group.safetensors" if repair.by_group else f"{name}.safetensors"
    method = shlex.quote(repair.method) + (" --by-group" if repair.by_group else "")
    file = repair.file or "FILE"
    file = f"./{file}" if file.startswith("-") else file  # it would count as an option
    rows = " --all" if repair.all_rows else ""
    return (
        f"calibrant fit {shlex.quote(file)}{rows} --method {method} --out {saved}",
        f"calibrant apply {saved} {_new_files(repair)}",
    )


def _new_files(repair: Repair) -> str:
    if repair.format == "dense":  # images of scores
        return "NEW_FOLDER --out REPAIRED_FOLDER"
    if repair.format == "npy":  # named by their content, and never written
        return f"NEW_{repair.space}.npy --out REPAIRED.npz"
    ending = repair.format if f".{repair.format}" in WRITERS else "npz"
    return f"NEW.{ending} --out REPAIRED.{ending}"
