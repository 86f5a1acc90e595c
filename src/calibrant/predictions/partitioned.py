"""Tables in Parquet files of any number and size, read part by part, wherever the files lie."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant.predictions import checks
from calibrant.predictions.contents import Source
from calibrant.predictions.file_scores import PIECE
from calibrant.predictions.formats import parquet
from calibrant.predictions.formats.aliases import BANDS_OF, GROUP_OF, ColumnNames
from calibrant.predictions.formats.columns import Layout, fields_of_columns
from calibrant.predictions.formats.contents import damaged
from calibrant.predictions.formats.top_k import holds_top_k
from calibrant.predictions.kinds import check_scores

PART = 1 << 25
"""Scores of a part, at least; whole row groups of one file."""
_ADDRESS = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/+(?=[^/])")
_WHOLE = "give a single file, which is read whole without --engine"
_KINDS = "classes that exclude each other, or a single event"


@dataclass(frozen=True)
class Part:
    """Some consecutive rows: row groups of one file that are read and judged together."""

    number: int
    file: str
    row_groups: tuple[int, ...]
    first_row: int
    num_rows: int
    num_fit: int = 0
    """Rows that the split marks as calibration."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Checked rows in memory; an event has two columns."""

    first_row: int
    scores: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]
    split: NDArray[np.uint8] | None
    clusters: tuple[str, ...] | None
    repairs: tuple[str, ...]
    class_names: tuple[str, ...] | None


class PartitionedPredictions:
    """Predictions in one Parquet file or many, of which only pieces are ever in memory.

    The parts are whole row groups and depend on the files alone, so whatever is summed part by part, in their
    order, is the same to the last bit wherever the parts are read. Row groups should be small: memory holds
    a piece of one at a time, but what is shared out is at least a row group.

    Args:
        address: A Parquet file, a folder of them (also of folders, as ``day=1/``), or any address that
            fsspec knows, with ``*`` where it is meant: ``s3://bucket/predictions/*.parquet``.
        columns: What the columns are called, where they have names of their own.

    Raises:
        InputError: If there is no such file, files differ in their columns, labels are missing, or samples
            have several labels, weights or confidences alone.

    Note:
        ``source.sha256`` is a hash of the files' names and footers, which hold the sizes, least and greatest
        values of every column; the content itself would take a pass of its own. Groups are not read.

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

    def __init__(self, address: str | Path, *, columns: ColumnNames | None = None) -> None:
        self.address = restored(str(address))
        self._footer: tuple[str, Any] = ("", None)  # of the file that was read last
        files = _files(self.address)
        digest = hashlib.sha256()
        parts: list[Part] = []
        first: tuple[Layout, dict[str, str]] | None = None
        groups_found: dict[str, None] = {}
        start = 0
        for name in files:
            with _opened(name) as file:
                if holds_top_k(file.schema_arrow.names):
                    raise InputError(f"{name} holds the largest logits of each sample only; {_WHOLE}.")
                layout, given = parquet.layout_in(file, columns)
                groups_found |= dict.fromkeys(filter(_names_groups, layout.singles))
                layout = _without_groups(layout)
                dtype = parquet.dtype_of([given[each] for each in layout.scores], file)
                if first is None:
                    first, self._dtype = (layout, given), dtype
                elif differing := sorted(_read(*first) ^ _read(layout, given)):
                    said = f"`{differing[0]}` is in one of them only"
                    raise InputError(f"{name} must have the columns of {files[0]}; {said}.")
                self._dtype = np.result_type(self._dtype, dtype)
                counts = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
                marked = (
                    _marked(name, file, given["split"]) if "split" in layout.singles else [0] * len(counts)
                )
                digest.update(f"{name.removeprefix(self.address)} ".encode())
                digest.update(parquet.footer_of(file))
            width = max(2, len(layout.scores))
            for groups in _together(counts, width):
                rows, to_fit_on = (sum(each[k] for k in groups) for each in (counts, marked))
                parts.append(Part(len(parts), name, groups, start, rows, to_fit_on))
                start += rows
        if first is None or not start:
            raise InputError(f"{self.address}: it holds no rows.")
        self._layout, self._given = first
        self._groups = tuple(name.removeprefix(GROUP_OF).removeprefix(BANDS_OF) for name in groups_found)
        self._refuse_other_kinds()
        self.parts: tuple[Part, ...] = tuple(parts)
        self.num_samples = start
        self.space: Literal["logits", "probs"] = "logits" if self._layout.space == "logits" else "probs"
        self.num_classes = max(2, len(self._layout.scores))
        self.num_fit = sum(part.num_fit for part in parts)
        self.has_split = 0 < self.num_fit < start  # some rows to fit on, and some to judge
        self.has_clusters = any(name in {"cluster", "clusters"} for name in self._layout.singles)
        self.class_names = next(iter(self.pieces(self.parts[0]))).class_names
        self.source = Source(
            name=Path(self.address.rstrip("/*")).name,
            sha256=digest.hexdigest(),
            format="parquet",
            path=self.address,
        )

    @property
    def kind(self) -> Literal["binary", "multiclass"]:
        """Two classes are judged as one event."""
        return "binary" if self.num_classes == 2 else "multiclass"

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader must know of the columns."""
        said = f"Groups ({', '.join(self._groups)}) are not judged where a table is read part by part."
        return (*self._layout.notes, *((said,) if self._groups else ()))

    @property
    def has_groups(self) -> bool:
        """Whether there are columns of groups, which are not read."""
        return bool(self._groups)

    def pieces(self, part: Part) -> Iterator[Piece]:
        """The rows of a part, some at a time.

        Raises:
            InputError: If a score or label is wrong; it names file and rows.
        """
        names = [self._given[each] for each in (*self._layout.scores, *self._layout.others)]
        size, at = max(1, PIECE // self.num_classes), part.first_row
        name, footer = self._footer
        with _opened(part.file, footer if name == part.file else None) as file:
            self._footer = part.file, file.metadata
            try:
                for batch in file.iter_batches(size, row_groups=list(part.row_groups), columns=names):
                    try:
                        piece = self._piece(batch, at)
                    except InputError as error:
                        rows = f"in rows {at:,} to {at + batch.num_rows - 1:,} of all, counted from {at:,}"
                        raise InputError(f"{part.file}: {rows}: {error}") from error
                    at += batch.num_rows
                    yield piece
            except DAMAGE as error:
                if isinstance(error, InputError):
                    raise
                raise InputError(f"{part.file}: {damaged('a .parquet file', error)}") from error

    def _piece(self, batch: Any, first_row: int) -> Piece:
        scores = [self._given[each] for each in self._layout.scores]
        table = parquet.rows_of(batch, scores, self._dtype)
        others = {each: parquet.column_of(batch.column(self._given[each])) for each in self._layout.others}
        fields = fields_of_columns(self._layout, table, others)
        given = fields.get("class_names")
        names = None if given is None else checks.as_names(given, name="class_names")
        event = len(scores) == 1
        if fields.get("labels") is None:
            raise InputError("`labels` must be given to judge predictions; got none.")
        if event and names is None:
            names = checks.yes_and_no(fields["labels"])
        labels = checks.as_labels(fields["labels"], names, binary=event)
        values = torch.from_numpy(np.ascontiguousarray(fields[self.space]))
        checked, repairs = check_scores(self.space, values, labels, None, None)
        found = checked.scores.numpy()
        if event:
            found = np.stack([1 - found if self.space == "probs" else np.zeros_like(found), found], axis=1)
        split, clusters = fields.get("split"), fields.get("clusters")
        return Piece(
            first_row=first_row,
            scores=found,
            labels=labels.numpy(),
            split=None if split is None else checks.as_split(split, len(labels)).numpy(),
            clusters=checks.as_clusters(clusters, len(labels)),
            repairs=repairs,
            class_names=None if names is None else checks.check_class_names(names, self.num_classes),
        )

    def _refuse_other_kinds(self) -> None:
        layout = self._layout
        refused = {
            "weights": layout.weights,
            "several labels for each sample": layout.labels[1:],
            "confidences alone": () if layout.space in {"logits", "probs"} else layout.scores,
        }
        for what, found in refused.items():
            if found:
                raise InputError(
                    f"{self.address}: it holds {what} (`{found[0]}`); read part by part are {_KINDS}, "
                    f"unweighted; {_WHOLE}."
                )
        if not layout.labels:
            raise InputError(f"{self.address}: `labels` must be given; there is no such column.")

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_footer": ("", None)}  # workers read their own

    def __repr__(self) -> str:
        return (
            f"PartitionedPredictions({self.num_samples:,} samples, {self.num_classes} classes, {self.space}, "
            f"{len(self.parts)} parts)"
        )


def restored(text: str) -> str:
    """An address as it was typed: paths take one of two slashes from it.

    Example:
        >>> restored("s3:/bucket/day=1"), restored("/tmp/a.parquet")
        ('s3://bucket/day=1', '/tmp/a.parquet')
    """
    found = _ADDRESS.match(text)
    if found is None:
        return text
    rest = text[found.end() :]
    return f"{found[1]}://{'/' if found[1] == 'file' else ''}{rest}"


def is_address(path: str | Path) -> bool:
    """Whether it names a place that fsspec knows, not a path of this machine."""
    return _ADDRESS.match(str(path)) is not None


def is_partitioned(path: str | Path) -> bool:
    """Whether it is such an address, or a folder with Parquet files in it."""
    if is_address(path):
        return True
    folder = Path(path)
    try:
        return folder.is_dir() and next(folder.rglob("*.parquet"), None) is not None
    except OSError:  # said by who opens it
        return False


def _files(address: str) -> list[str]:
    """All files, in the order of their names."""
    if not is_address(address):
        path = Path(address)
        if not path.exists():
            raise FileNotFoundError(f"there is no file {path}.")
        found = [str(each) for each in path.rglob("*.parquet")] if path.is_dir() else [str(path)]
    else:
        with _said_of(address):
            found = _far_files(*_place(address))
    if not found:
        raise InputError(f"there is no Parquet file at {address}.")
    return sorted(found)


def _far_files(system: Any, place: str) -> list[str]:
    if "*" in place:
        names: Sequence[str] = system.glob(place)
    elif system.isdir(place):
        names = [each for each in system.find(place) if each.endswith(".parquet")]
    else:
        names = [place] if system.exists(place) else []
    return [str(system.unstrip_protocol(each)) for each in names]


@contextmanager
def _said_of(address: str) -> Generator[None]:
    """What a store raises, which is of its own package, in a sentence."""
    try:
        yield
    except (InputError, OSError):
        raise
    except Exception as error:
        said = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{address} cannot be opened: {said.rstrip('.')}.") from error


def _place(address: str) -> tuple[Any, str]:
    try:
        import fsspec
    except ImportError as error:
        raise InputError(f"{address} needs fsspec: pip install 'calibrant[store]'.") from error
    try:
        return fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:  # the package of a protocol is missing, or there is none such
        raise InputError(f"{address} cannot be opened: {' '.join(str(error).split())}.") from error


@contextmanager
def _opened(name: str, footer: Any = None) -> Generator[Any]:
    if not is_address(name):
        with parquet.opened(Path(name), parquet.BUFFER, footer=footer) as file:
            yield file
        return
    system, place = _place(name)
    with _said_of(name):
        opened = system.open(place, "rb")
    with opened as stream, parquet.opened(stream, parquet.BUFFER, footer=footer) as file:
        yield file


def _together(counts: Sequence[int], num_classes: int) -> Iterator[tuple[int, ...]]:
    """Neighbouring row groups that make parts."""
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


def _names_groups(name: str) -> bool:
    return name in {"group", "groups"} or name.startswith((GROUP_OF, BANDS_OF))


def _without_groups(layout: Layout) -> Layout:
    return replace(layout, singles=tuple(name for name in layout.singles if not _names_groups(name)))


def _read(layout: Layout, given: dict[str, str]) -> set[str]:
    """The columns that are read, as the file calls them."""
    return {given[name] for name in (*layout.scores, *layout.labels, *layout.singles)}


def _marked(name: str, file: Any, split: str) -> list[int]:
    """How many rows of each row group are marked to be fitted on."""
    try:
        return [
            int((checks.as_split(values, len(values)).numpy() == 0) @ counts)
            for values, counts in parquet.values_of(file, split)
        ]
    except InputError as error:
        raise InputError(f"{name}: {str(error).partition('; row')[0]}.") from error
