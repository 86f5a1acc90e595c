"""Tables in any number of Parquet files, read part by part, local or remote."""

from __future__ import annotations

import copy
import hashlib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from calibrant._math.checks import check_weights
from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant._math.top_k import TopK
from calibrant.predictions import checks
from calibrant.predictions import labels as labels_of
from calibrant.predictions.bands import named_bands
from calibrant.predictions.checks import Kind
from calibrant.predictions.formats import parquet, parquet_files
from calibrant.predictions.formats.aliases import BANDS_OF, ColumnNames, as_named
from calibrant.predictions.formats.columns import Column, Layout, fields_of_cells
from calibrant.predictions.formats.contents import damaged
from calibrant.predictions.formats.mark import Source
from calibrant.predictions.formats.tables import layout_of_table, lists_of_scores, with_lists_spread
from calibrant.predictions.formats.top_k import fields_of_top_k, holds_top_k, layout_of_top_k
from calibrant.predictions.kinds import classes_of
from calibrant.predictions.labels import positive_number
from calibrant.predictions.oddities import are_one_hot
from calibrant.predictions.scale import holds_percentages
from calibrant.predictions.stores import PIECE
from calibrant.predictions.table import Predictions

MOST_LABELS = 200
"""Most labels of a sample; the sums of more would not fit into memory."""
PART = 1 << 25
"""Scores of a part, at least; whole row groups of one file."""


@dataclass(frozen=True)
class Part:
    """Consecutive rows: row groups of one file that are read and evaluated together."""

    number: int
    file: str
    row_groups: tuple[int, ...]
    first_row: int
    num_rows: int
    num_fit: int = 0
    """Rows that the split marks as calibration."""
    keys: tuple[tuple[str, int | str], ...] = ()
    """Keys and values in the names of the file's folders."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Checked rows in memory; an event or a confidence has two columns."""

    first_row: int
    scores: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]
    """True classes ``(n,)``, or several labels ``(n, L)``; of confidences, whether they are right."""
    truth: NDArray[np.int64]
    """Labels, or the true classes if labels only tell right from wrong; they identify samples."""
    split: NDArray[np.uint8] | None = None
    clusters: tuple[str, ...] | None = None
    weights: NDArray[np.float64] | None = None
    groups: tuple[str, ...] | None = None
    repairs: tuple[str, ...] = ()
    class_names: tuple[str, ...] | None
    top_k: TopK | None = None
    """Largest logits behind the confidences, if any."""
    notes: tuple[str, ...] = ()
    """Notes for readers on the whole table."""

    def at(self, temperature: float) -> Piece:
        if self.top_k is None:
            raise InputError("the largest logits of each sample must be known.")
        return replace(self, scores=_two_columns(self.top_k.at(temperature).confidence))

    def label(self, place: int, *, logits: bool) -> Piece:
        stated = torch.from_numpy(self.scores[:, place])
        scores = columns_of_odds(stated).numpy() if logits else _two_columns(stated)
        return replace(self, scores=scores, labels=self.labels[:, place], truth=self.truth[:, place])

    def turned(self) -> Piece:
        names = ("0", "1") if self.class_names is None else self.class_names
        return replace(
            self,
            scores=self.scores[:, ::-1].copy(),
            labels=1 - self.labels,
            truth=1 - self.truth,
            class_names=(names[1], names[0]),
        )


def columns_of_odds(log_odds: Tensor) -> Tensor:
    """Return logits of two classes; for certain events, log-probabilities."""
    sure = log_odds.isposinf()
    zero = torch.zeros_like(log_odds)
    return torch.stack([zero.masked_fill(sure, -torch.inf), log_odds.masked_fill(sure, 0.0)], dim=1)


def piece_of(fields: Mapping[str, Any], kind: Kind, first_row: int) -> Piece:
    """Check the arguments of ``Predictions``; refuse bad scores or labels, and rows without labels."""
    top_k: TopK | None = fields.get("top_k")
    true, names, words = fields.get("labels"), None, ()
    if kind == "top_label" and top_k is None:
        if fields.get("correct") is None:
            raise InputError("`correct` must be given to tell which predictions are correct; got none.")
        values = torch.from_numpy(np.ascontiguousarray(fields["confidence"]))
        values, repairs = checks.repair_events(values, name="confidence")
        scores = _two_columns(values)
        labels = labels_of.as_correct(fields["correct"], len(values)).numpy().astype(np.int64)
        truth = labels if true is None else _true_numbers(true)
    elif true is None:
        raise InputError("`labels` must be given to evaluate predictions; got none.")
    elif top_k is not None:  # each piece numbers text classes anew, so the truth is that of the table
        top_k, repairs = replace(top_k, label_logits=top_k.logits_of(true)), tuple(fields["repairs"])
        scores, truth = _two_columns(top_k.confidence), _true_numbers(fields["truth"])
        labels = (top_k.predicted == true).numpy().astype(np.int64)
    else:
        space = "logits" if "logits" in fields else "probs"
        values = torch.from_numpy(np.ascontiguousarray(fields[space]))
        several = "multilabel" if kind == "multilabel" else None
        given = (values, true, fields.get("class_names"), None, several)
        checked, names, words, repairs = classes_of(space, *given)
        found = checked.scores
        if found.ndim == 1:
            found = columns_of_odds(found) if space == "logits" else torch.from_numpy(_two_columns(found))
        scores = found.numpy()
        labels = truth = cast("Tensor", checked.labels).numpy()
    split, clusters, groups = (fields.get(each) for each in ("split", "clusters", "groups"))
    return Piece(
        first_row=first_row,
        scores=scores,
        labels=labels,
        truth=truth,
        split=None if split is None else checks.as_split(split, len(labels)).numpy(),
        clusters=checks.as_groups(clusters, len(labels), name="clusters"),
        weights=fields.get("weights"),
        groups=checks.as_groups(groups, len(labels)),
        repairs=repairs,
        class_names=names,
        top_k=top_k,
        notes=(*fields.get("notes", ()), *words),
    )


def _two_columns(probs: Tensor) -> NDArray[np.float64]:
    found = probs.to(torch.float64).numpy()
    return np.stack([1 - found, found], axis=1)


def _true_numbers(true: Any) -> NDArray[np.int64]:
    """Return true classes as numbers that are equal in every piece."""
    texts = checks.as_texts(true)
    if texts is None:
        return labels_of.as_true_classes(true, len(true)).numpy()
    numbers = [labels_of.whole_number(text) for text in texts]
    named = zip(numbers, texts, strict=True)
    return np.array([zlib.crc32(text.encode()) if each is None else each for each, text in named], np.int64)


class NeedsWholeError(InputError):
    """The table must be evaluated whole: sums of parts are not enough."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(
            f"{place}: with {what}, all samples must be in memory; `load_predictions` reads them."
        )
        self.what = what


class PartitionedPredictions:
    """Predictions in one or many Parquet files, held in memory piece by piece.

    The parts are whole row groups and depend on the files alone, so whatever is summed part by part, in their
    order, is the same to the last bit wherever the parts are read. Row groups should be small: memory holds
    a piece of one at a time, but an engine distributes whole row groups.

    Args:
        address: A Parquet file, a folder of them (also of folders; those named as ``day=1`` are a column,
            ``day``), or any address that fsspec knows, with ``*`` where it is meant:
            ``s3://bucket/predictions/*.parquet``.
        columns: Names of columns that differ from those of :func:`load_predictions`.
        clusters_are_groups: Treat the samples of a group as a cluster.

    Raises:
        InputError: If there is no such file, files differ in their columns, labels are missing, or the table
            cannot be evaluated by sums of parts.

    Note:
        ``source.sha256`` is a hash of the files' names and footers, which hold the sizes, least and greatest
        values of every column; the content itself would take a pass of its own.

    Example:
        >>> import pathlib, tempfile
        >>> from calibrant import Predictions
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for day in ("1", "2"):
        ...         (pathlib.Path(folder) / f"day={day}").mkdir()
        ...         p = Predictions(logits=[[2.0, 0.0, 1.0], [0.0, 1.0, 0.0]], labels=[0, 1])
        ...         p.save(pathlib.Path(folder) / f"day={day}" / "a.parquet")
        ...     found = PartitionedPredictions(folder)
        >>> found.num_samples, found.num_classes, len(found.parts)
        (4, 3, 2)
    """

    def __init__(
        self, address: str | Path, *, columns: ColumnNames | None = None, clusters_are_groups: bool = False
    ) -> None:
        self.address = parquet_files.restored(str(address))
        self._footer: tuple[str, Any] = ("", None)  # the last file and its footer
        self._turned = False  # whether class 0 is judged as class 1
        root = parquet_files.rooted(self.address)
        files = parquet_files.files_of(root)
        digest = hashlib.sha256()
        parts: list[Part] = []
        first: _FileColumns | None = None
        of_keys: frozenset[str] | None = None
        start = 0
        for name, keys in zip(files, parquet_files.keys_of(root, files), strict=True):
            with parquet_files.opened(name) as file:
                parquet_files.add_to_digest(digest, root, name, file)
                if not file.metadata.num_rows:
                    continue
                found = _FileColumns.of(name, file, columns, keys)
                of_keys = parquet_files.columns_of_keys(name, file, keys, of_keys)
                found.refuse_bands(name, file)
                if first is not None and (differing := sorted(first.read ^ found.read)):
                    said = f"`{differing[0]}` is in one of them only"
                    raise InputError(f"{name} must have the columns of {files[0]}; {said}.")
                wider = found.dtype if first is None else np.result_type(first.dtype, found.dtype)
                first = replace(first or found, dtype=wider)
                counts = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
                marked = found.marked(name, file, keys)
            for groups in _together(counts, first.width):
                rows, to_fit_on = (sum(each[k] for k in groups) for each in (counts, marked))
                parts.append(Part(len(parts), name, groups, start, rows, to_fit_on, tuple(keys.items())))
                start += rows
        if first is None or not start:
            raise InputError(f"{self.address}: it holds no rows.")
        self._layout, self._lists = first.layout, first.lists
        self._dtype, self.width = first.dtype, first.width
        self.has_groups = any(name.startswith(("group", BANDS_OF)) for name in self._layout.singles)
        self._refuse_other_kinds()
        self.parts: tuple[Part, ...] = tuple(parts)
        self.num_samples = start
        self.space: Literal["logits", "probs"] = "logits" if self._layout.space == "logits" else "probs"
        self._stated = columns or ColumnNames()
        self.num_classes = 2 if self._layout.space == "confidence" else max(2, len(self._layout.scores))
        self.num_fit = sum(part.num_fit for part in parts)
        self.has_split = 0 < self.num_fit < start  # some rows to fit on, and some to judge
        self._clusters_are_groups = clusters_are_groups and self.has_groups
        named = any(name in {"cluster", "clusters"} for name in self._layout.singles)
        self.has_clusters = named or self._clusters_are_groups
        first_piece = next(iter(self.pieces(self.parts[0])))
        self.class_names = first_piece.class_names
        self.notes = first_piece.notes
        """Notes for readers on the columns."""
        self.source = Source(
            name=Path(self.address.rstrip("/*")).name,
            sha256=digest.hexdigest(),
            format="parquet",
            path=self.address,
        )

    @property
    def kind(self) -> Kind:
        """Kind; two classes are evaluated as one event, and confidences have the columns wrong and right."""
        if self._layout.space == "confidence":
            return "top_label"
        if len(self._layout.labels) > 1:
            return "multilabel"
        return "binary" if self.num_classes == 2 else "multiclass"

    def with_positive(self, positive_class: int | str | None) -> PartitionedPredictions:
        """Return the table with one of its two classes, by number or name, as class 1.

        Raises:
            InputError: If there are not two classes, or the positive one is none of them.
        """
        if positive_class is None:
            return self
        if positive_number(self.kind, self.num_classes, self.class_names, positive_class) == 1:
            return self
        other = copy.copy(self)
        other._turned = not self._turned
        other.class_names = next(iter(other.pieces(self.parts[0]))).class_names
        return other

    def predictions(
        self,
        scores: NDArray[np.floating[Any]],
        labels: NDArray[np.int64],
        *,
        weights: NDArray[np.float64] | None = None,
        clusters: Sequence[str] | None = None,
        groups: Sequence[str] | None = None,
        top_k: TopK | None = None,
    ) -> Predictions:
        places = torch.from_numpy(labels)
        values: dict[str, Any] = {self.space: scores, "labels": places}
        if self.kind == "top_label":
            values = {"confidence": scores[:, 1], "correct": places, "top_k": top_k}
        elif len(self._layout.scores) == 1:
            odds = scores[:, 1] - scores[:, 0] if self.space == "logits" else scores[:, 1]
            values = {self.space: odds, "labels": places}
        found = Predictions(
            **values,
            class_names=self.class_names,
            clusters=clusters,
            groups=groups,
            weights=weights,
            source=self.source,
        )
        vars(found)["event_column"] = self.event_column
        return found

    @property
    def event_column(self) -> int:
        """Column of the event, as in :class:`Predictions`."""
        return 0 if self._turned else 1

    @property
    def has_labels(self) -> bool:
        """True if true classes are known, which is optional for confidences."""
        return bool(self._layout.labels) or "true_label" in self._layout.singles

    @property
    def has_weights(self) -> bool:
        """True if there is a column of weights."""
        return bool(self._layout.weights)

    def pieces(self, part: Part) -> Iterator[Piece]:
        """Yield the rows of a part in pieces.

        Raises:
            InputError: If a score or label is wrong; it names file and rows.
        """
        used = (*self._layout.scores, *self._layout.others, *self._layout.weights)
        given = {self._layout.given[each] for each in used}
        size, at = max(1, PIECE // self.width), part.first_row
        name, footer = self._footer
        with parquet_files.opened(part.file, footer if name == part.file else None) as file:
            self._footer = part.file, file.metadata
            names = [each for each in file.schema_arrow.names if each in given or each == self._lists]
            try:
                for batch in file.iter_batches(size, row_groups=list(part.row_groups), columns=names):
                    try:
                        piece = self._piece(parquet_files.with_keys(batch, dict(part.keys)), at)
                    except NeedsWholeError:
                        raise
                    except InputError as error:
                        rows = f"in rows {at:,} to {at + batch.num_rows - 1:,} of all, counted from {at:,}"
                        said = as_named(str(error), self._stated, lambda: [*self._layout.given.values()])
                        raise InputError(f"{part.file}: {rows}: {said}") from error
                    at += batch.num_rows
                    yield piece
            except DAMAGE as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"{part.file}: {damaged('a .parquet file', error)}") from error

    def _piece(self, batch: Any, first_row: int) -> Piece:
        table = parquet.table_in(batch.schema, batch.column)
        if holds_top_k(self._layout.given):
            names = [*self._layout.given.values()]
            fields = fields_of_top_k(names, table.column, self._stated, piece=True)
            fields["notes"] = (*self._layout.notes, *fields["notes"])
        else:
            if self._lists is not None:
                table = with_lists_spread(table, self._stated, len(self._layout.scores))
            fields = fields_of_cells(self._layout, table.column)
            fields[self._layout.space] = fields[self._layout.space].astype(self._dtype, copy=False)
        if "weights" in fields:
            fields["weights"] = _weights(fields["weights"])
        if not first_row and holds_percentages(fields):
            raise NeedsWholeError(self.address, "percentages")
        probs, labels = fields.get("probs"), fields.get("labels")
        tables = probs is not None and isinstance(labels, np.ndarray) and labels.ndim == 2
        if tables and not first_row and are_one_hot("probs", *map(torch.as_tensor, (probs, labels))):
            raise NeedsWholeError(self.address, "one-hot labels")
        piece = piece_of(fields, self.kind, first_row)
        if self._clusters_are_groups:
            piece = replace(piece, clusters=piece.groups)
        return piece.turned() if self._turned else piece

    def _refuse_other_kinds(self) -> None:
        layout = self._layout
        if len(layout.labels) > MOST_LABELS:
            raise NeedsWholeError(self.address, f"more than {MOST_LABELS} labels for each sample")
        if len(layout.labels) > 1 and self.has_groups:
            raise NeedsWholeError(self.address, "several labels for each sample in groups")
        if not layout.labels and layout.space != "confidence":
            raise InputError(f"{self.address}: `labels` must be given; there is no such column.")

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_footer": ("", None)}  # workers read their own

    def __repr__(self) -> str:
        what = f"{self.num_classes} classes, {self.space}"
        what = "confidences" if self.kind == "top_label" else what
        return f"PartitionedPredictions({self.num_samples:,} samples, {what}, {len(self.parts)} parts)"


@dataclass(frozen=True)
class _FileColumns:
    """Roles of a file's columns, before any row is read."""

    layout: Layout
    lists: str | None  # the one whose cells are lists of scores, if there is one
    width: int  # how many numbers a row has
    dtype: np.dtype[Any]  # of the scores

    @classmethod
    def of(cls, name: str, file: Any, columns: ColumnNames | None, keys: parquet_files.Keys) -> _FileColumns:
        schema = file.schema_arrow
        try:
            table = parquet.table_in(
                schema, lambda column: next(file.iter_batches(1, columns=[column])).column(column)
            )
            if holds_top_k(schema.names):
                layout = layout_of_top_k([*schema.names, *keys], columns or ColumnNames())
                listed = len(table.column(layout.scores[0])[0])
                return cls(layout, None, max(2, 2 * listed), np.dtype(np.float64))
            lists = next(iter(lists_of_scores(table, columns)), None)
            names = [each for each in keys if each not in schema.names]
            table = with_lists_spread(table, columns)
            table = replace(table, names=[*table.names, *names], keys=[*keys])
            layout = layout_of_table(table, columns)
            scores = [layout.given[each] for each in layout.scores] if lists is None else [lists]
            return cls(layout, lists, max(2, len(layout.scores)), parquet.dtype_of(scores, schema))
        except InputError as error:
            raise InputError(f"{name}: {error}") from error

    @property
    def read(self) -> set[str]:
        return {
            self.layout.given[each]
            for each in (*self.layout.scores, *self.layout.labels, *self.layout.singles)
        }

    def refuse_bands(self, name: str, file: Any) -> None:
        """Refuse bands without starts, and bands with names, which a piece cannot know."""
        for column in self.layout.singles:
            if column.startswith(BANDS_OF):
                stated, starts = named_bands(column.removeprefix(BANDS_OF))
                if not starts:
                    raise NeedsWholeError(name, f"bands of `{stated}` that do not say where they begin")
                if not parquet.is_whole(file.schema_arrow, self.layout.given[column]):
                    raise NeedsWholeError(name, f"bands of `{stated}`, which are no whole numbers")

    def marked(self, name: str, file: Any, keys: parquet_files.Keys) -> list[int]:
        if "split" not in self.layout.singles:
            return [0] * file.metadata.num_row_groups
        split = self.layout.given["split"]
        try:
            if split not in file.schema_arrow.names:
                fits = int(checks.as_split([keys[split]], 1)[0]) == 0
                groups = range(file.metadata.num_row_groups)
                return [file.metadata.row_group(k).num_rows if fits else 0 for k in groups]
            return [
                int((checks.as_split(values, len(values)).numpy() == 0) @ counts)
                for values, counts in parquet.values_of(file, split)
            ]
        except InputError as error:
            raise InputError(f"{name}: {str(error).partition('; row')[0]}.") from error


def _together(counts: Sequence[int], num_classes: int) -> Iterator[tuple[int, ...]]:
    groups: list[int] = []
    rows = 0
    for number, count in enumerate(counts):
        groups.append(number)
        rows += count
        if rows * num_classes >= PART:
            yield tuple(groups)
            groups, rows = [], 0
    if rows:
        yield tuple(groups)


def _weights(given: Column) -> NDArray[np.float64]:
    found = np.asarray(given, np.float64)
    return check_weights(found, len(found)).numpy() if found.any() else found
