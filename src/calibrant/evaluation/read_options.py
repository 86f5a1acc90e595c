"""Options for reading predictions, on the command line and on the page."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from calibrant.predictions import ColumnNames


def told(
    help: str,  # noqa: A002 (typer's name)
    default: Any = None,
    metavar: str | None = None,
    *names: str,
    **more: Any,
) -> Any:
    """A field with the command line's help text, metavar, names, and more (``min``, ``max``, ``parser``)."""
    return field(default=default, metadata={"help": help, "metavar": metavar, "names": names, **more})


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """Options by the names that they have on the command line and in forms."""

    APART: ClassVar[frozenset[str]] = frozenset()  # fields that are no options of reading

    label_column: str | None = told("Column of true classes.", metavar="NAME")
    prob_columns: tuple[str, ...] = told(
        "Columns of probabilities, one per class: no,yes. A single column is class 1.", (), "NAMES"
    )
    logit_columns: tuple[str, ...] = told("Columns of logits, one per class.", (), "NAMES")
    weight_column: str | None = told("Column of sample weights.", metavar="NAME")
    group_column: tuple[str, ...] = told(
        "Column of groups, or several: sex,site.", (), "NAMES", "--group-column", "--group-columns"
    )
    cluster: str | None = told(
        "Column of clusters, such as patients; rows in one are dependent.", metavar="COLUMN"
    )
    format: str | None = told(
        "Format of FILE: csv, jsonl, npz, ... (default: by its extension).", metavar="FORMAT"
    )

    sheet: str | None = told("Sheet of a workbook (.xlsx) that has several.", metavar="NAME")

    @property
    def clusters_are_groups(self) -> bool:
        """True if the clusters are the column of groups."""
        return self.cluster is not None and self.cluster in {",".join(self.group_column), "group", "groups"}

    @property
    def columns(self) -> ColumnNames | None:
        """The given column names; ``None`` without any."""
        from calibrant.predictions import ColumnNames

        names = ColumnNames(
            label=self.label_column,
            probs=self.prob_columns,
            logits=self.logit_columns,
            weight=self.weight_column,
            group=self.group_column or None,
            cluster=None if self.clusters_are_groups or self.cluster == "clusters" else self.cluster,
            sheet=self.sheet,
        )
        return names or None

    def words(self, *without: str) -> str:
        """The options as typed on the command line.

        Example:
            >>> ReadOptions(label_column="y", prob_columns=("no", "a b")).words()
            "--label-column y --prob-columns 'no,a b'"
        """
        words: list[str] = []
        for name in (each.name for each in fields(self) if each.name not in {*without, *self.APART}):
            if (value := getattr(self, name)) != getattr(type(self), name):
                words.append(f"--{name.replace('_', '-')}")
                if value is not True:
                    words.append(",".join(value) if isinstance(value, tuple) else str(value))
        return shlex.join(words)


HELP = {each.name: each.metadata["help"] for each in fields(ReadOptions)}
