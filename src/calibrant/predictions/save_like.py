"""Repaired predictions in the form of the file that they came from."""

from __future__ import annotations

import csv
import itertools
import json
import re
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.files import atomic_write
from calibrant.predictions.files import found_ending
from calibrant.predictions.formats import csv_file, json_file, lm_eval, parquet, parquet_files
from calibrant.predictions.formats.aliases import ColumnNames, canonical
from calibrant.predictions.formats.columns import layout_of
from calibrant.predictions.formats.known import space_of
from calibrant.predictions.formats.mark import MARK, mark_in
from calibrant.predictions.formats.roster import WRITERS, known_ending
from calibrant.predictions.scale import scale_before
from calibrant.predictions.table import Predictions


def save_in_form_of(
    source: Path,
    out: Path,
    predictions: Predictions,
    *,
    columns: ColumnNames | None = None,
    format: str | None = None,  # noqa: A002
    raw: bool = False,
) -> bool:
    """Write predictions as the table that they came from: all its columns, with these scores in place.

    Args:
        source: The table.
        out: Where to.
        predictions: With a row for each of the table's, in its order, and probabilities or confidences.
        columns: As of :func:`load_predictions`, where the table was read by such.
        format: As of :func:`load_predictions`.
        raw: Whether texts that a spreadsheet would run as formulas stay as they are; else ``'`` is put before
            them, with a warning.

    Returns:
        Whether columns were kept; where the source is not a table, or ``out`` is of another kind of file, the
        predictions alone are written (for samples of lm-evaluation-harness, with what says which each is).

    Raises:
        InputError: If the ending of ``out`` is unknown, or the table is no longer what was read.
    """
    new_ending, ending = known_ending(out, WRITERS), found_ending(source, format)
    with atomic_write(out) as temporary:
        kept = write_in_form_of(source, ending, temporary, new_ending, predictions, columns, raw=raw)
        if not kept and can_keep(ending, new_ending) and new_ending in {".json", ".jsonl", ".ndjson"}:
            add_samples(source, ending, temporary, new_ending)
    return kept


def write_in_form_of(
    source: Path,
    ending: str,
    out: Path,
    new_ending: str,
    predictions: Predictions,
    columns: ColumnNames | None = None,
    *,
    raw: bool = False,
) -> bool:
    """The same, where the endings are known and the paths need not have them."""
    if can_keep(ending, new_ending):
        scores = predictions.confidence if predictions.kind == "top_label" else predictions.probs
        table = scores.numpy().astype(np.float64).reshape(len(predictions), -1)
        low, high = scale_before(predictions.notes)
        table = low + (high - low) * table
        mark = mark_in(predictions.notes)
        text = None if mark is None else mark.text
        if write_like(source, ending, out, new_ending, table, columns, mark=text, raw=raw):
            return True
    WRITERS[new_ending](predictions._arrays(), out)  # pyright: ignore[reportPrivateUsage]
    return False


Scores: TypeAlias = NDArray[np.float64]  # (N, k)
_FORMULA = re.compile(r"\s*[=@]|\s*[+-](?!\s*[\d.,]+(e[+-]?\d+)?\s*%?\s*$)", flags=re.IGNORECASE)
"""Texts that a spreadsheet runs; numbers with a sign are none."""
_TEXT, _JSON, _PARQUET = "text", "json", "parquet"
_FAMILIES = {
    ".csv": _TEXT, ".csv.gz": _TEXT, ".tsv": _TEXT, ".tsv.gz": _TEXT,
    ".jsonl": _JSON, ".ndjson": _JSON, ".json": _JSON,
    ".parquet": _PARQUET, ".feather": _PARQUET, ".arrow": _PARQUET,
}  # fmt: skip


def can_keep(ending: str, new_ending: str) -> bool:
    """Whether a file of one ending is a table that one of the other can hold as it stands."""
    family = _FAMILIES.get(ending)
    return family is not None and family == _FAMILIES.get(new_ending)


def write_like(
    source: Path,
    ending: str,
    out: Path,
    new_ending: str,
    scores: Scores,
    columns: ColumnNames | None,
    *,
    mark: str | None = None,
    raw: bool = False,
) -> bool:
    """Write a table anew, with these scores in place of its own, and perhaps a mark.

    Columns of logits are called ``prob...`` then, as they hold probabilities; all other names stay. In CSV,
    texts that a spreadsheet would run as formulas get a ``'`` before them unless ``raw``.

    Returns:
        False, and nothing is written, where the source has no columns of scores, as an object of arrays.

    Raises:
        InputError: If the source is no longer what was read.
    """
    text = partial(_write_text, raw=raw)
    write = {_TEXT: text, _JSON: _write_json, _PARQUET: _write_parquet}[_FAMILIES[ending]]
    prepared = write(source, ending, new_ending, scores, columns, mark)
    if prepared is None:
        return False
    prepared(out)
    return True


_Write: TypeAlias = Callable[[Path], None]


def add_samples(source: Path, ending: str, out: Path, new_ending: str) -> bool:
    """Beside the rows of ``out``, say of which sample of lm-evaluation-harness each is.

    Returns:
        False, and nothing is changed, where the source holds no such samples.
    """
    found = json_file.contents(source, whole=ending == ".json")
    if isinstance(found, dict) or not lm_eval.are_samples(found[0]):
        return False
    samples = lm_eval.samples_read(found[0])
    rows, _ = json_file.records_of(out, whole=new_ending == ".json")
    kept = [
        name
        for name in lm_eval.WHICH_SAMPLE
        if all(isinstance(each.get(name), str | int | float) for each in samples)
    ]
    pairs = zip(samples, rows, strict=True)
    changed = [{name: each[name] for name in kept} | row for each, row in pairs]
    with atomic_write(out) as temporary:
        _json_writer(changed, whole=new_ending == ".json")(temporary)
    return True


def _places(given: Sequence[str], columns: ColumnNames | None) -> dict[int, str]:
    """The places of the columns of scores, in the order of the classes, and their new names."""
    header = canonical(given, columns)
    found: dict[int, str] = {}
    for name in layout_of(header).scores:
        place = header.names.index(name)
        title = given[place]
        if name.startswith("logit"):
            title = f"prob{name.removeprefix('logit')}"
            while title in given:
                title = f"repaired_{title}"
        found[place] = title
    return found


def _probs(lists: str) -> str:
    """The name of a column of lists, which hold probabilities then."""
    return lists if space_of(lists) == "probs" else "probs"


def _check_rows(count: int, scores: Scores) -> None:
    if count != len(scores):
        raise InputError(f"the file had {len(scores)} rows when it was read and now has {count}.")


def _write_text(
    source: Path,
    ending: str,
    new_ending: str,
    scores: Scores,
    columns: ColumnNames | None,
    mark: str | None,
    *,
    raw: bool,
) -> _Write:
    with csv_file.open_text(source) as file:
        start, delimiter = csv_file.beginning(file)
        rows = [cells for _, cells in csv_file.lines(itertools.chain(start, file), delimiter)]
    header = [name.strip() for name in rows[0]]
    places = _places(header, columns)
    _check_rows(len(rows) - 1, scores)
    old = [row[place] for row in rows[1:] for place in places]
    commas = any("," in cell for cell in old)
    sign = "%" if any(cell.strip().endswith("%") for cell in old) else ""
    for row, values in zip(rows[1:], scores.tolist(), strict=True):
        for place, value in zip(places, values, strict=True):
            text = repr(value)
            row[place] = (text.replace(".", ",") if commas else text) + sign
    for place, title in places.items():
        rows[0][place] = title
    if mark is not None:
        _mark_rows(rows, header, mark)
    if not raw:
        _escape_formulas(rows)
    if ending != new_ending and ".tsv" in ending + new_ending:
        delimiter = "\t" if ".tsv" in new_ending else ","

    def write(path: Path) -> None:
        with csv_file.open_text(path, "w") as file:
            csv.writer(file, lineterminator="\n", delimiter=delimiter).writerows(rows)

    return write


def _mark_rows(rows: list[list[str]], header: list[str], mark: str) -> None:
    """Write the mark into its column, which may be new."""
    place = header.index(MARK) if MARK in header else len(header)
    for row, cell in zip(rows, itertools.chain([MARK], itertools.repeat(mark)), strict=False):
        row[place : place + 1] = [cell]


def _escape_formulas(rows: list[list[str]]) -> None:
    """Put a ``'`` before what a spreadsheet would run, and warn."""
    found = 0
    for row in rows:
        for place, text in enumerate(row):
            if _FORMULA.match(text):
                row[place], found = f"'{text}", found + 1
    if found:
        warnings.warn(
            f"{found} text{'s' * (found > 1)} that a spreadsheet would run as formulas got a ' before them; "
            "--raw keeps such texts as they are.",
            CalibrantWarning,
            stacklevel=2,
        )


def _write_json(
    source: Path,
    ending: str,
    new_ending: str,
    scores: Scores,
    columns: ColumnNames | None,
    mark: str | None,
) -> _Write | None:
    found = json_file.contents(source, whole=ending == ".json")
    if isinstance(found, dict) or lm_eval.are_samples(found[0]):
        return None
    records, _ = found
    _check_rows(len(records), scores)
    marked = {} if mark is None else {MARK: mark}
    changed = [each | marked for each in _records(records, scores.tolist(), columns)]
    return _json_writer(changed, whole=new_ending == ".json")


def _json_writer(records: Sequence[json_file.Record], *, whole: bool) -> _Write:
    def write(path: Path) -> None:
        texts = [json.dumps(record, ensure_ascii=False) for record in records]
        text = "[" + ",\n".join(texts) + "]\n" if whole else "".join(f"{line}\n" for line in texts)
        path.write_text(text, encoding="utf-8")

    return write


def _records(
    records: Sequence[json_file.Record], scores: list[list[float]], columns: ColumnNames | None
) -> list[dict[str, Any]]:
    form, name = json_file.form_of(records, columns)
    pairs = zip(records, scores, strict=True)
    if form == "pipelines":
        classes = json_file.pipeline_classes(str(each["label"]) for each in records[0][name])
        return [
            {
                **record,
                name: [{**each, "score": values[classes.index(str(each["label"]))]} for each in record[name]],
            }
            for record, values in pairs
        ]
    if form == "lists":
        title = _probs(name)
        return [
            {title if key == name else key: values if key == name else cell for key, cell in each.items()}
            for each, values in pairs
        ]
    names = json_file.names_of(records)
    titles = {names[place]: (title, k) for k, (place, title) in enumerate(_places(names, columns).items())}
    return [
        {
            titles[key][0] if key in titles else key: values[titles[key][1]] if key in titles else value
            for key, value in each.items()
        }
        for each, values in pairs
    ]


def _write_parquet(
    source: Path,
    ending: str,
    new_ending: str,
    scores: Scores,
    columns: ColumnNames | None,
    mark: str | None,
) -> _Write:
    table = (parquet_files.whole_table if ending == ".parquet" else parquet.whole_feather)(source)
    write = parquet.write_table if new_ending == ".parquet" else parquet.write_feather_table
    _check_rows(table.num_rows, scores)
    if mark is not None:
        table = table.drop_columns([MARK] if MARK in table.column_names else [])
        table = table.append_column(MARK, [[mark] * len(scores)])
    if (lists := parquet.lists_in(table.schema, columns)) is not None:
        table = table.set_column(table.column_names.index(lists), _probs(lists), [list(scores)])
        return lambda path: write(table, path)
    for column, (place, title) in enumerate(_places(table.column_names, columns).items()):
        table = table.set_column(place, title, [scores[:, column]])
    return lambda path: write(table, path)
