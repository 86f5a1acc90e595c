"""The shell commands that carry out what a verdict recommends."""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace

from calibrant.evaluation.result import Evaluation, Repair
from calibrant.predictions.formats.roster import WRITERS


def mark_of_files(files: Sequence[str | os.PathLike[str]]) -> str:
    """What a report carries to tell which files it was made from, without their paths."""
    paths = "\0".join(os.path.realpath(each) for each in files)
    return hashlib.sha256(paths.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def with_commands(evaluation: Evaluation, *, reading: str = "", applying: str | None = None) -> Evaluation:
    """The evaluation with the commands of its repair, and the sentence that names them as the last one.

    An evaluation that has them, or that recommends no repair, is returned as it is. ``reading`` are the
    options by which the file was read, which the commands need as well; ``applying`` are those for new
    predictions, where they differ.
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
    """What fits the calibrator, and what applies it to new predictions; in Python if there is no file.

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
    if repair.format == "npy":  # whose names say what they hold, and which are not written
        return f"NEW_{repair.space}.npy --out REPAIRED.npz"
    ending = repair.format if f".{repair.format}" in WRITERS else "npz"
    return f"NEW.{ending} --out REPAIRED.{ending}"
