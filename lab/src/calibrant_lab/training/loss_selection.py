"""Select a loss on validation data."""

from __future__ import annotations

import itertools
import json
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from calibrant._math.errors import InputError
from calibrant._math.files import write_text
from calibrant.evaluation import compare
from calibrant.reports import write_report
from calibrant.reports.sections import Section, SectionTable
from calibrant.reports.words import number
from calibrant_lab.training.launch import train
from calibrant_lab.training.listener import Listener
from calibrant_lab.training.recipe import Recipe
from calibrant_lab.training.run import Run
from calibrant_lab.training.run_report import comparison_sections

By: TypeAlias = Literal["after", "before"]
KEYS: dict[By, str] = {"after": "calibration_nll_after_temperature", "before": "calibration_nll"}

_CALL = re.compile(r"\s*([^()]+?)\s*(?:\((.*)\))?\s*", flags=re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class TriedLoss:
    """One trial of a loss, with the held-out NLL of its final weights."""

    loss: str
    run: Run
    nll_before: float | None
    nll_after: float | None


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Trials of losses, and the selected one."""

    candidates: tuple[TriedLoss, ...]
    chosen: TriedLoss
    by: By


def alternatives(text: str) -> list[str]:
    """Expand ``|`` in a text into losses, between names and between values of a setting.

    Raises:
        InputError: If there is only one, or the text has another form.

    Example:
        >>> alternatives("focal(gamma=1|2)|cross-entropy")
        ['focal(gamma=1)', 'focal(gamma=2)', 'cross-entropy']
        >>> alternatives("focal-calibration(gamma=2|3, calibration_weight=0.5|1)")[1]
        'focal-calibration(gamma=2, calibration_weight=1)'
    """
    found: list[str] = []
    for each in _pieces(text, "|"):
        match = _CALL.fullmatch(each)
        if match is None:
            raise InputError(f"--select must look like focal(gamma=1|2|3) or mmce|brier; got {text!r}.")
        name, arguments = match.groups()
        choices = [_pieces(argument, "|") for argument in _pieces(arguments, ",")] if arguments else []
        heads = [choice[0].partition("=")[0].strip() for choice in choices]
        values = [[choice[0].partition("=")[2].strip(), *choice[1:]] for choice in choices]
        for chosen in itertools.product(*values):
            inside = ", ".join(f"{head}={value}" for head, value in zip(heads, chosen, strict=True))
            found.append(f"{name}({inside})" if inside else name)
    if len(set(found)) < 2:
        raise InputError(f"--select must name two losses or more, such as focal(gamma=1|2|3); got {text!r}.")
    return list(dict.fromkeys(found))


def select(
    recipe: Recipe,
    text: str,
    folder: str | os.PathLike[str],
    *,
    by: By = "after",
    listener: Listener | None = None,
    command: str | None = None,
    begin: Callable[[str], None] | None = None,
) -> Selection:
    """Train with every loss in ``text``; select by the NLL of the calibration split.

    Each has its own directory in ``folder``, so finished runs are not repeated. There ``selection.json``
    records the choice, and ``report.html`` compares all losses.

    Args:
        recipe: Settings of the training, apart from the loss.
        text: Losses in the form of :func:`alternatives`.
        folder: Directory for all of them.
        by: NLL ``"after"`` temperature scaling, or ``"before"``.
        listener: Observer of each training.
        command: The command line to record.
        begin: Called with the loss before each training.

    Returns:
        The losses in the order tried, and the chosen one.

    Raises:
        InputError: If a loss cannot be built, or a directory belongs to another recipe.

    Note:
        The samples that choose the loss also fit the temperature; the test split does neither.
    """
    found: list[TriedLoss] = []
    for loss in alternatives(text):
        if begin is not None:
            begin(loss)
        one = recipe.with_settings([f"loss={json.dumps(loss)}"])
        run = train(one, Path(folder) / file_name(loss), listener=listener, command=command)
        before, after = (run.kept_row[KEYS[when]] for when in ("before", "after"))
        found.append(TriedLoss(loss=loss, run=run, nll_before=before, nll_after=after))
    values = {each.loss: each.nll_after if by == "after" else each.nll_before for each in found}
    chosen = min(found, key=lambda each: math.inf if (nll := values[each.loss]) is None else nll)
    candidates = [
        {
            "loss": each.loss,
            "folder": each.run.folder.path.name,
            "nll_before_temperature": each.nll_before,
            "nll_after_temperature": each.nll_after,
        }
        for each in found
    ]
    said = f"validation NLL {by} temperature scaling"
    content = {"by": said, "chosen": chosen.loss, "candidates": candidates}
    selection = Selection(candidates=tuple(found), chosen=chosen, by=by)
    _write_report(selection, Path(folder) / "report.html", command=command)
    write_text(Path(folder) / "selection.json", json.dumps(content, indent=2) + "\n")
    return selection


def _write_report(selection: Selection, path: Path, *, command: str | None) -> None:
    recipe = selection.chosen.run.recipe
    runs = {each.loss: each.run for each in selection.candidates}
    found = compare(
        [(name, run.predictions) for name, run in runs.items()],
        num_bins=recipe.evaluation.num_bins,
        bootstrap=recipe.evaluation.bootstrap,
        seed=recipe.seed,
        command=command,
    )
    mark = {selection.chosen.loss: "chosen"}
    rows = tuple(
        (each.loss, number(each.nll_before), number(each.nll_after), mark.get(each.loss, ""))
        for each in selection.candidates
    )
    choice = Section(
        title="The choice",
        text=(
            f"{selection.chosen.loss} has the lowest validation NLL {selection.by} temperature scaling.",
            "The same samples fit the temperature; the test samples, used everywhere else here, had no part.",
        ),
        table=SectionTable(
            label="NLL on the calibration samples",
            columns=("Loss", "NLL", "after temperature scaling", ""),
            rows=rows,
        ),
    )
    write_report(found, path, before=(choice, *comparison_sections(runs)))


def file_name(loss: str) -> str:
    """Return a folder name for a loss."""
    return re.sub(r"[^\w.+-]+", "-", loss.replace("=", "")).strip("-.")


def _pieces(text: str, separator: str) -> list[str]:
    """Split outside brackets and quotes."""
    pieces, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        if letter == separator and depth == 0 and not quote:
            pieces.append("")
        else:
            pieces[-1] += letter
    return [piece.strip() for piece in pieces]
