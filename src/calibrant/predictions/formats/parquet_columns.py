"""Which columns of a Parquet file hold what, before any row is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from calibrant._math.errors import InputError
from calibrant.predictions import checks
from calibrant.predictions.bands import named_bands
from calibrant.predictions.formats import parquet
from calibrant.predictions.formats.aliases import BANDS_OF, ColumnNames
from calibrant.predictions.formats.columns import Layout
from calibrant.predictions.formats.parquet_files import Keys, key_column
from calibrant.predictions.formats.top_k import columns_of_top_k, holds_top_k


class NeedsWholeError(InputError):
    """A table can only be judged whole: sums of parts do not know what it holds."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(
            f"{place}: with {what}, all samples must be in memory; `load_predictions` reads them."
        )
        self.what = what


@dataclass(frozen=True)
class FileColumns:
    """The columns of a file.

    Attributes:
        layout: What they hold.
        given: What the file calls them.
        lists: The one whose cells are lists of scores, if there is one.
        width: How many numbers a row has.
        dtype: Of the scores.
    """

    layout: Layout
    given: dict[str, str]
    lists: str | None
    width: int
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, name: str, file: Any, columns: ColumnNames | None, keys: Keys) -> FileColumns:
        """Those of an open file of that name.

        Raises:
            InputError: If it has none that are known, or not all that it must have.
        """
        schema = file.schema_arrow
        try:
            if holds_top_k(schema.names):
                layout, given = columns_of_top_k([*schema.names, *keys], columns or ColumnNames())
                listed = parquet.length_of_lists(file, layout.scores[0])
                return cls(layout, given, None, max(2, 2 * listed), np.dtype(np.float64))
            lists = parquet.lists_in(schema, columns)
            layout, given = parquet.layout_in(file, columns, keys)
            scores = [given[each] for each in layout.scores] if lists is None else [lists]
            return cls(layout, given, lists, max(2, len(layout.scores)), parquet.dtype_of(scores, file))
        except InputError as error:
            raise InputError(f"{name}: {error}") from error

    @property
    def read(self) -> set[str]:
        """Those that are read, as the file calls them."""
        return {self.given[each] for each in (*self.layout.scores, *self.layout.labels, *self.layout.singles)}

    def refuse_bands(self, name: str, file: Any) -> None:
        """Refuse bands of which a piece does not know where they begin, or how they are called.

        Raises:
            NeedsWholeError: If there are such bands.
        """
        for column in self.layout.singles:
            if column.startswith(BANDS_OF):
                stated, starts = named_bands(column.removeprefix(BANDS_OF))
                if not starts:
                    raise NeedsWholeError(name, f"bands of `{stated}` that do not say where they begin")
                if not parquet.is_whole(file, self.given[column]):
                    raise NeedsWholeError(name, f"bands of `{stated}`, which are no whole numbers")

    def marked(self, name: str, file: Any, keys: Keys) -> list[int]:
        """How many rows of each row group are marked to be fitted on.

        Raises:
            InputError: If the split says something else.
        """
        if "split" not in self.layout.singles:
            return [0] * file.metadata.num_row_groups
        split = self.given["split"]
        try:
            if split not in file.schema_arrow.names:
                fits = int(checks.as_split(key_column(keys[split], 1), 1)[0]) == 0
                groups = range(file.metadata.num_row_groups)
                return [file.metadata.row_group(k).num_rows if fits else 0 for k in groups]
            return [
                int((checks.as_split(values, len(values)).numpy() == 0) @ counts)
                for values, counts in parquet.values_of(file, split)
            ]
        except InputError as error:
            raise InputError(f"{name}: {str(error).partition('; row')[0]}.") from error
