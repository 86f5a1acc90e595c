"""Read predictions of files, whose ending chooses the format, and of data frames."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._math.errors import InputError, ShortOfMemoryError
from calibrant._math.files import said_of
from calibrant._math.text_form import kind_of, suggesting
from calibrant.predictions.checks import Kind, as_number, listing, shown
from calibrant.predictions.formats import inspect_log, json_file, roster, tables
from calibrant.predictions.formats.aliases import ColumnNames, as_named
from calibrant.predictions.formats.columns import LIBRARIES, Library
from calibrant.predictions.formats.contents import FileContents, lines_named
from calibrant.predictions.formats.lm_eval import LmScore
from calibrant.predictions.formats.mark import Source
from calibrant.predictions.formats.names import known_kind
from calibrant.predictions.formats.parquet_files import digest_of, is_address, is_partitioned
from calibrant.predictions.labels import event_names, missing_rows
from calibrant.predictions.scale import Scale, as_shares
from calibrant.predictions.table import Predictions
from calibrant.predictions.top_k import predictions_of_top_k

STREAM_ABOVE = 1 << 29  # bytes of scores

_MOST_NAMED = 3  # files of a folder
_OPTION = re.compile(r" \(--[^)]*\)")


@suggesting()
def load_predictions(
    path: str | os.PathLike[str],
    *,
    kind: Kind | None = None,
    columns: ColumnNames | None = None,
    percent: bool | None = None,
    scale: Scale | None = None,
    positive_class: str | None = None,
    lm_score: LmScore = "acc",
    format: str | None = None,  # noqa: A002
    name: str | None = None,
) -> Predictions:
    r"""Read predictions from a file and check them.

    The page *File formats* lists the endings. Nothing is unpickled. Arrays go by these names:

    - ``logits`` or ``probs``, and with it ``labels`` (may be absent), ``split``, ``class_names``,
      ``weights``, ``groups``, ``clusters``, all as in :class:`Predictions`;
    - ``logits_val, labels_val, logits_test, labels_test``, or the same with ``probs``: two splits (also
      ``weights_val`` and so on);
    - ``confidence`` with ``correct``, or with ``true_label`` and ``pred_label``: the predicted class only
      (``confidence`` alone is enough for a calibrator to be applied);
    - ``kind``: ``"multilabel"`` where there are no labels to say so;
    - ``top_logprobs``, or ``top_k_logits`` with ``log_rest``, and ``top_k_indices``: the largest of each
      sample only, see :func:`calibrant.predictions.predictions_of_top_k`.

    Such arrays may also be in separate ``.npy`` files: give the folder that holds ``logits.npy``,
    ``labels.npy`` and so on, or the file ``logits.npy``, next to which the others are looked for.

    Tables have one row per sample and the columns below. Text is UTF-8. Cells are separated by commas, or by
    semicolons, tabs or bars if these give the header more cells; then decimal commas are allowed.

    - ``logit_0, logit_1, …`` or ``prob_0, prob_1, …``, in any order, or named as ``prob_cat, prob_dog``;
      names become ``class_names``, and labels may then be names as well;
    - ``logit`` or ``prob`` alone (or ``logits``, ``probs``, with one number a row): log-odds or probability
      of class 1; ``negative_class`` and ``positive_class``, constant columns, name the two classes;
    - ``label`` (for a binary model also the words yes and no), or one column per class ``label_0,
      label_1, …`` (``label_cat, …``) of 0 and 1 for several labels at once. Numbered labels go with named
      scores in order. An empty label column means no labels;
    - ``confidence`` with ``correct``, or with ``true_label`` and ``pred_label``;
    - ``split``, ``weight``, ``group``, ``cluster``; the plurals of the last three and ``labels`` are also
      accepted.

    Where there are none of these, columns and arrays that many files have are taken for them, which ``notes``
    say: ``y_true``, ``y`` or ``target`` for ``label``; ``y_score``, ``y_prob``, ``proba`` or ``p`` for
    ``prob``; ``p_spam``, ``proba_1`` and such for ``prob_...``; ``sample_weight`` or ``exposure`` for
    ``weight``. ``.json`` holds arrays by name, or a list
    of records. Samples that lm-evaluation-harness logged (``samples_*.jsonl``) are read as they are:
    answers to choose from as logits, generated answers by the confidence that they state. So are logs of
    inspect-ai (``.eval``, ``.json``); ``columns`` names the scorer as ``label``, where it is not the first.

    Whatever is not used is named in ``notes``.

    Args:
        path: A file, an address that fsspec knows, or a folder of ``.eval``, ``.npy`` or ``.parquet`` files,
            whose folders (``day=1``) are also columns.
        kind: The kind that the file must hold; needed only for ``"multilabel"`` if neither labels nor the
            file say so.
        columns: Names of a table's columns that differ from the above.
        percent: Read probabilities as percentages; by default if all have a ``%`` sign, those of several
            classes sum to 100, or a column goes beyond 50 without values between 0 and 1.
        scale: Values for 0 and 1 in a column of another scale: ``(1, 5)`` for one to five stars.
        positive_class: The word whose score is given, if labels are two words with one score.
        lm_score: How answers are scored in samples of lm-evaluation-harness: ``"acc"`` for the softmax of
            their log-likelihoods, ``"acc_norm"`` for that of their log-likelihoods per character,
            ``"acc_bytes"`` per byte. Which confidence is read from logs of inspect-ai: ``"recorded"`` numbers
            of scorers, ``"logprobs"`` of options, ``"stated"`` in answers, ``"agreement"`` of repeats, by
            default the first of these.
        format: The ending of the format, such as ``"csv"``, if the path has another.
        name: Name of the predictions, by default the file's.

    Returns:
        Predictions with the file's name, SHA-256 and format in ``source``; the floats keep the file's dtype
        (``.csv``: float64).

    Raises:
        InputError: If the file is not such a file, its content is wrong or of another ``kind``; one sentence
            with the path.
        OSError: If it cannot be opened; one sentence with the path.

    Note:
        Peak memory is that of the arrays in use and at most one more copy of the largest.

    Example:
        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "pets.csv"
        ...     _ = path.write_text("label,prob_cat,prob_dog\ncat,0.9,0.1\ndog,0.4,0.6\n")
        ...     p = load_predictions(path)
        >>> p.class_names, p.labels.tolist()
        (('cat', 'dog'), [0, 1])
    """
    return open_predictions(
        path,
        stream=False,
        kind=kind,
        columns=columns,
        percent=percent,
        scale=scale,
        positive_class=positive_class,
        lm_score=lm_score,
        format=format,
        name=name,
    )


def open_predictions(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    stream: bool | None = None,
    kind: Kind | None = None,
    columns: ColumnNames | None = None,
    percent: bool | None = None,
    scale: Scale | None = None,
    positive_class: str | None = None,
    lm_score: LmScore = "acc",
    format: str | None = None,  # noqa: A002
    name: str | None = None,
) -> Predictions:
    """Read predictions; leave large scores in the file.

    Multiclass scores can be read in pieces from ``.npy`` (``logits.npy`` or ``probs.npy`` next to
    ``labels.npy``, or a folder of these; C order) and from ``.parquet``. Its row groups should be small:
    memory holds one at a time. Everything else is read whole, as by :func:`load_predictions`.

    Args:
        path: A file as for :func:`load_predictions`.
        labels: A ``.npy`` file of labels for scores in a ``.npy`` file, if there is none next to it.
        stream: Whether to read in pieces; by default where the scores take more than 512 MiB.
        kind: As of :func:`load_predictions`.
        columns: As of :func:`load_predictions`.
        percent: As of :func:`load_predictions`.
        scale: As of :func:`load_predictions`.
        positive_class: As of :func:`load_predictions`.
        lm_score: As of :func:`load_predictions`.
        format: As of :func:`load_predictions`.
        name: As of :func:`load_predictions`.

    Returns:
        Predictions; ``streamed`` says whether they are read in pieces.

    Raises:
        InputError: If something is wrong with the file, or ``stream`` is set for one that must be read whole.
        OSError: If it cannot be opened.

    Example:
        >>> import numpy as np, pathlib, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     np.save(pathlib.Path(folder) / "logits.npy", np.random.default_rng(0).normal(size=(9, 3)))
        ...     np.save(pathlib.Path(folder) / "labels.npy", np.arange(9) % 3)
        ...     p = open_predictions(pathlib.Path(folder) / "logits.npy", stream=True)
        ...     print(p.streamed, tuple(p.probs_of(slice(2, 5)).shape))
        True (3, 3)
    """
    if not isinstance(path, (str, os.PathLike)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"`path` must name a file; got {kind_of(path)}; give arrays as `Predictions(probs=probs, "
            "labels=labels)`, and frames to `predictions_from_frame` of `calibrant.predictions`."
        )
    path = Path(path)
    ending = found_ending(path, format)
    form = roster.format_at(path, ending)
    if columns and form.table is None:
        raise InputError(
            f"{' '.join(columns.options)} works only with tables (CSV, Parquet), and {path} holds arrays; "
            "name the arrays `labels`, `probs`, `logits`, `groups` or `clusters`."
        )
    if columns and columns.sheet is not None and ending not in roster.WORKBOOKS:
        raise InputError(
            f"`sheet` (--sheet) is for workbooks ({', '.join(roster.WORKBOOKS)}); {path} isn't one."
        )
    if labels is not None:
        if ending != ".npy":
            raise InputError(f"`labels` go with scores in a .npy file; {path} holds its own.")
        form = roster.npy_format(Path(labels))
    if stream and form.stream is None:
        raise InputError(f"{path} can only be read whole; .npy and .parquet files are read in pieces.")
    further: dict[str, Any] = {"columns": columns} if columns else {}
    if lm_score != "acc":
        if ending not in {".jsonl", ".ndjson", ".json", ".eval"}:
            raise InputError(f"`lm_score` (--lm-score) is for logs of language models; {path} isn't one.")
        further["lm_score"] = lm_score
    in_words_of_file = partial(as_named, columns=columns, names=lambda: form.names_in(path, columns))
    try:
        contents = _reader(form, path, stream, columns)(path, **further)
        with lines_named(contents.lines):
            fields = as_shares(contents.fields, scale, percent=percent)
        fields |= _event_named(fields, positive_class, fields.get("labels", ()))
        kind = _agreed_kind(fields.pop("kind", None), kind)
        source = Source(
            name=name or path.name,
            sha256=sha256_of(path, contents.paths),
            format=ending[1:],
            path=str(path) if name is None else None,
        )
        make = predictions_of_top_k if "top_k" in fields else partial(Predictions, kind=kind)
        with lines_named(contents.lines):
            return make(**fields, source=source)._named(in_words_of_file)  # pyright: ignore[reportPrivateUsage]
    except (InputError, TypeError) as error:  # TypeError: an array of texts, say, where numbers belong
        said = in_words_of_file(" ".join(str(error).split()))
        raise InputError(f"{name or path}: {said}") from error
    except MemoryError as error:
        remedy = "; save it as .npy or .parquet, which are read in pieces" if form.stream is None else ""
        raise ShortOfMemoryError(f"{name or path}: it needs more memory than there is{remedy}.") from error


def _event_named(fields: dict[str, Any], positive_class: str | None, labels: Any) -> dict[str, Any]:
    """Return the names of two classes, if labels are words and the one whose score is given is known."""
    if positive_class is None or "class_names" in fields:
        return {}
    event = np.ndim(fields.get("probs", fields.get("logits", ()))) == 1
    names = event_names(labels, positive_class) if event else None
    return {} if names is None else {"class_names": names}


def found_ending(path: Path, stated: str | None) -> str:
    """Return the ending of an existing file that is not empty; folders may hold .npy or .parquet files."""
    ending = ".parquet" if is_address(path) else None
    with said_of(path, "opened"):
        is_folder = ending is None and path.is_dir()
    if is_folder:
        kinds = {
            ".npy": any(path.glob("*.npy")),
            ".eval": inspect_log.logs_in(path),
            ".parquet": is_partitioned(path),
        }
        ending = next((each for each, found in kinds.items() if found), None)
        if ending is None:
            raise _no_file(path)
    typed = None if stated is None else f".{stated.lower().removeprefix('.')}"
    if ending is not None:
        if typed not in {None, ending}:
            raise InputError(f"{path} holds {ending} files; leave out `format` (--format), got {stated!r}.")
        return ending
    try:
        with said_of(path, "opened"), path.open("rb") as file:
            is_empty = not file.read(1)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: no such file.") from error
    if typed is not None and (typed not in roster.FORMATS or typed == ".npy"):
        known = ", ".join(each[1:] for each in roster.FORMATS if each != ".npy")
        raise InputError(f"`format` must be one of {known}; got {stated!r}.")
    try:
        ending = typed or roster.known_ending(path, roster.FORMATS)
    except InputError as error:
        said = str(error).removesuffix(".")
        raise InputError(f"{said}; give its format as `format` (--format).") from error
    if is_empty:
        raise InputError(f"{path}: the file is empty (0 bytes).")
    return ending


def _reader(
    form: roster.Format, path: Path, stream: bool | None, columns: ColumnNames | None
) -> Callable[..., FileContents]:
    if form.stream is None or stream is False:
        return form.read
    size = form.size_of_scores(path, columns) if columns else form.size_of_scores(path)
    if stream and size == 0:
        raise InputError("only the scores of several classes, with one label each, are read in pieces.")
    return form.stream if stream or size > STREAM_ABOVE else form.read


def _agreed_kind(stated: Any, asked: Kind | None) -> Any:
    if asked is not None and stated not in {None, known_kind(asked)}:
        raise InputError(f"it holds predictions of kind {stated}, not {asked}.")
    return asked or stated


def sha256_of(path: Path, paths: Sequence[Path] = ()) -> str:
    """Return the digest of a file, of several digests, or of many Parquet names and footers."""
    if is_partitioned(path):
        return digest_of(path)

    def digest(path: Path) -> Any:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256")

    if not paths:
        return digest(path).hexdigest()
    return hashlib.sha256(b"".join(digest(each).digest() for each in paths)).hexdigest()


def _no_file(folder: Path) -> IsADirectoryError:
    files = sorted(
        each for each in folder.iterdir() if any(each.name.lower().endswith(end) for end in roster.WRITERS)
    )
    named = [each for each in files if each.stem == "predictions"] or files
    shown = " or ".join(str(each) for each in named[:_MOST_NAMED])
    remedy = f"; name one in it: {shown}" + (", …" if len(named) > _MOST_NAMED else "") if named else ""
    return IsADirectoryError(f"{folder} is a directory, not a file of predictions{remedy}.")


def predictions_from_frame(
    frame: Any,
    *,
    columns: ColumnNames | None = None,
    kind: Kind | None = None,
    scale: Scale | None = None,
    positive_class: str | None = None,
) -> Predictions:
    """Read predictions from a pandas or polars data frame with one row per sample.

    The columns go by the names that they have in a ``.csv`` file (:func:`load_predictions`): ``label`` with
    ``prob_0, prob_1, …`` or ``logit_cat, logit_dog``, ``prob`` alone, or ``confidence`` with ``correct``;
    and ``split``, ``weight`` and ``group``. Common other names are understood, as ``y_true`` and ``p_spam``.

    Args:
        frame: The data frame; it is not changed.
        columns: Names of columns that differ from these.
        kind: See :func:`load_predictions`.
        scale: See :func:`load_predictions`.
        positive_class: See :func:`load_predictions`.

    Returns:
        Predictions of the same values.

    Raises:
        TypeError: If it is not a data frame.
        InputError: If columns are missing or have wrong content.

    Example:
        >>> import pandas
        >>> frame = pandas.DataFrame({"label": [0, 1, 1], "prob": [0.2, 0.7, 0.9]})
        >>> predictions_from_frame(frame).probs.tolist()
        [0.2, 0.7, 0.9]
    """
    kind_of_frame = type(frame)
    library = kind_of_frame.__module__.partition(".")[0]
    if kind_of_frame.__name__ != "DataFrame" or library not in LIBRARIES:
        raise TypeError(f"`frame` must be a pandas or polars DataFrame; got {type(frame).__name__}.")
    names = [str(name) for name in frame.columns]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"`frame` must have columns of different names; {repeated[0]!r} stands twice.")

    def in_words_of_frame(said: str) -> str:  # options of the command line are of another door
        return _OPTION.sub("", as_named(said, columns, lambda: names))

    try:
        cells = {name: _cells(frame[given]) for name, given in zip(names, frame.columns, strict=True)}
        fields = as_shares(tables.fields_of_table(tables.table_of_columns(cells), columns), scale)
        kind = kind or fields.pop("kind", None)
        found = Predictions(**fields, kind=kind, positive_class=positive_class)
        return found._named(in_words_of_frame)  # pyright: ignore[reportPrivateUsage]
    except (InputError, TypeError) as error:
        raise InputError(in_words_of_frame(str(error))) from error


def predictions_to_frame(predictions: Predictions, *, library: Library | None = None) -> Any:
    """Return predictions as a data frame that :func:`predictions_from_frame` reads back.

    Args:
        predictions: Any.
        library: ``"pandas"`` or ``"polars"``; by default the one that is installed, pandas first.

    Returns:
        The frame, one row per sample, with the columns of a ``.csv`` file.

    Raises:
        InputError: If the library is another, or a name of a class cannot be that of a column.
        ImportError: If the library is not installed.

    Example:
        >>> p = Predictions(probs=[0.2, 0.7], labels=[0, 1])
        >>> predictions_to_frame(p, library="pandas").columns.tolist()
        ['label', 'prob']
    """
    return predictions.to_frame(library=library)


def _cells(series: Any) -> Any:
    """Return numbers in float64 or as integers; others as lists, ``None`` where one is missing."""
    cells = series.to_numpy()
    if cells.dtype.kind not in "biuf" or cells.ndim != 1:
        rows = [each.tolist() if hasattr(each, "tolist") else each for each in series.to_list()]
        rows = [list(each) if isinstance(each, tuple) else each for each in rows]
        rows = [None if each is None or each != each else each for each in rows]
        if not rows or not all(isinstance(each, bool | int | float | np.number) for each in rows):
            return rows
        cells = np.asarray(rows)
    if cells.dtype.kind != "f":
        return cells
    cells = cells.astype(np.float64)
    return [None if each != each else each for each in cells.tolist()] if np.isnan(cells).any() else cells


@dataclass(frozen=True, kw_only=True)
class TimedPredictions:
    """Stream of predictions for :func:`calibrant.evaluation.monitor`."""

    predictions: Predictions
    times: NDArray[Any]
    """Dates in UTC, or numbers."""
    labelled: NDArray[np.bool_]
    """Mask of known labels; the others are placeholders."""


def load_timed(
    path: str | os.PathLike[str],
    *,
    time: str,
    columns: ColumnNames | None = None,
    percent: bool | None = None,
    scale: Scale | None = None,
    positive_class: str | None = None,
    format: str | None = None,  # noqa: A002
) -> TimedPredictions:
    """Read a table of predictions as they come, in which labels may be missing.

    ``time`` is a column of ISO 8601 dates (converted to UTC if they have an offset), or of numbers. Logs of
    inspect-ai have ``completed_at`` for each answer. Empty cells of the label (or of ``correct``), and NA,
    NaN, null etc., are labels that are not known yet; the column can be absent. Other arguments are those of
    :func:`load_predictions`.

    Raises:
        InputError: If the file is not a table, has no such column, or a time is none.
        OSError: If it cannot be opened.
    """
    path = Path(path)
    ending = found_ending(path, format)
    form = roster.format_at(path, ending)
    if form.table is None:
        raise InputError(f"{path} must be a table, such as .csv or .parquet, with a column of times.")
    in_words_of_file = partial(as_named, columns=columns, names=lambda: form.names_in(path, columns))
    try:
        if ending in {".eval", ".json"} and inspect_log.is_log(log := json_file.contents(path, whole=True)):
            found = load_predictions(path, columns=columns, format=ending[1:])
            samples = inspect_log.samples_read(log, found.notes, columns)
            table = tables.Table(
                names=[time], column=lambda name: tables.values_in(samples, name, "metadata")
            )
            known = np.full(len(samples), fill_value=True)
            return TimedPredictions(predictions=found, times=_times(table, time), labelled=known)
        table = form.table(path, columns)
        with lines_named(table.lines):
            times = _times(table, time)
            table, labelled = _filled(table.exchanged({time: {}}), columns, len(times))
            if columns is not None and not labelled.any():
                columns = replace(columns, label=None)
            fields = as_shares(tables.fields_of_table(table, columns), scale, percent=percent)
            fields |= _event_named(fields, positive_class, fields.get("labels", ()))
            source = Source(name=path.name, sha256=sha256_of(path), format=ending[1:], path=str(path))
            found = Predictions(**fields, source=source)._named(in_words_of_file)  # pyright: ignore[reportPrivateUsage]
            return TimedPredictions(predictions=found, times=times, labelled=labelled)
    except (InputError, TypeError) as error:
        said = in_words_of_file(" ".join(str(error).split()))
        raise InputError(f"{path}: {said}") from error


def _times(table: tables.Table, name: str) -> NDArray[Any]:
    if name not in table.names:
        raise InputError(f"it holds no column `{name}` (--time); it holds {listing(table.names)}.")
    values = table.column(name)
    if not len(values):
        raise InputError("it holds no rows.")
    try:
        return np.array([float(value) for value in values])
    except (TypeError, ValueError):
        dates = [_date(value) for value in values]
    if None not in dates:
        return np.array(dates, dtype="datetime64[s]")
    odd = [row for row, date in enumerate(dates) if date is None]
    row = next((row for row in odd if as_number(values[row]) is None), odd[0])
    said = "is empty" if values[row] in {None, ""} else f"holds {shown(str(values[row]))}"
    raise InputError(
        f"`{name}` must hold a date such as 2026-11-22T09:30:00 in every row, or a number; row {row} {said}."
    )


def _date(value: object) -> datetime | date | None:
    """Return the date of a cell, in UTC if it has an offset."""
    found = value
    if isinstance(value, str):
        try:
            found = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(found, datetime) and found.tzinfo is not None:
        return found.astimezone(UTC).replace(tzinfo=None)
    return found if isinstance(found, date) else None  # includes datetime


def _filled(
    table: tables.Table, columns: ColumnNames | None, num_samples: int
) -> tuple[tables.Table, NDArray[np.bool_]]:
    """Fill missing labels, or drop label columns without any; return the table and the known rows."""
    layout = tables.layout_of_table(tables.with_lists_spread(table, columns), columns)
    wanted = layout.labels or tuple(name for name in ("correct", "true_label") if name in layout.singles)
    told = {layout.given[name]: list(table.column(layout.given[name])) for name in wanted}
    labelled = np.full(num_samples, bool(told))
    for cells in told.values():
        texts = ["" if cell is None else str(cell).strip() for cell in cells]
        labelled[missing_rows(texts, layout.class_names or ())] = False
    if not labelled.any():
        return table.exchanged({name: {} for name in told}), labelled
    known = int(labelled.argmax())
    filled = {
        name: [cell if each else cells[known] for cell, each in zip(cells, labelled, strict=True)]
        for name, cells in told.items()
    }
    return table.exchanged({name: {name: cells} for name, cells in filled.items()}), labelled
