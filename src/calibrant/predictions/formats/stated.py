"""Fields of records that the caller names, also those of a record within the record: ``doc.subject``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from calibrant._math.errors import InputError
from calibrant.predictions.bands import named_bands
from calibrant.predictions.checks import listing
from calibrant.predictions.formats.aliases import BANDS_OF, GROUP_OF, ColumnNames
from calibrant.predictions.formats.columns import groups_of

Records: TypeAlias = Sequence[Mapping[str, Any]]

_MOST_LISTED = 12


def names_stated(columns: ColumnNames | None) -> list[str]:
    """What the caller says labels, weights, clusters, groups and bands are called.

    Example:
        >>> names_stated(ColumnNames(label="who", bands=("place:0:9",)))
        ['who', 'place']
    """
    if columns is None:
        return []
    bands = (name for name, _ in map(named_bands, columns.bands))
    named = (columns.label, columns.weight, columns.cluster, *columns.groups, *bands)
    return [each for each in named if each is not None]


def stated_fields(records: Records, columns: ColumnNames | None, *, within: str = "") -> dict[str, Any]:
    """Labels, weights, groups and clusters, as far as the caller says what they are called.

    Args:
        records: The records.
        columns: What fields are called.
        within: A record within each record, whose fields can be named without it.

    Raises:
        InputError: If no record has such a field, or one holds a list.

    Example:
        >>> stated_fields([{"doc": {"subject": "law"}}], ColumnNames(group="subject"), within="doc")
        {'groups': ['law']}
    """
    if columns is None:
        return {}
    found: dict[str, Any] = {}
    if columns.label is not None:
        found["labels"] = _values(records, columns.label, within)
    if columns.weight is not None:
        found["weights"] = _values(records, columns.weight, within)
    groups = {GROUP_OF + name: _texts(_values(records, name, within)) for name in columns.groups}
    bands = {BANDS_OF + each: _values(records, named_bands(each)[0], within) for each in columns.bands}
    if len(groups) == 1 and not bands:
        found["groups"] = next(iter(groups.values()))
    elif groups or bands:
        found["groups"] = groups_of({**groups, **bands})
    if columns.cluster is not None:
        found["clusters"] = _texts(_values(records, columns.cluster, within))
    return found


def with_nested(records: Records, columns: ColumnNames | None) -> list[dict[str, Any]]:
    """The records, with fields of their own for those within others that the caller names.

    Example:
        >>> with_nested([{"meta": {"site": "a"}}], ColumnNames(group="meta.site"))
        [{'meta': {'site': 'a'}, 'meta.site': 'a'}]
    """
    if columns is None:
        return [dict(each) for each in records]
    named = [*names_stated(columns), *columns.probs, *columns.logits]
    nested = [name for name in named if "." in name and not any(name in each for each in records)]
    found = {name: _values(records, name, "") for name in nested}
    return [
        {**each, **{name: values[row] for name, values in found.items()}} for row, each in enumerate(records)
    ]


def _values(records: Records, name: str, within: str) -> list[Any]:
    """The field of every record; ``None`` where it has none."""
    paths = [(name,), tuple(name.split("."))]
    paths += [(within, *path) for path in paths] if within else []
    for path in paths:
        found = [_at(record, path) for record in records]
        if any(each is not None for each in found):
            for row, each in enumerate(found):
                if isinstance(each, list | Mapping):
                    raise InputError(
                        f"`{name}` must hold a text or a number in every row; row {row} does not."
                    )
            return found
    names = list(dict.fromkeys(_names(records[0])))
    raise InputError(f"it holds no field `{name}`; it holds {listing(names[:_MOST_LISTED])}.")


def _at(record: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = record
    for part in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def _names(record: Mapping[str, Any], before: str = "") -> Iterator[str]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _names(value, f"{before}{name}.")
        elif not isinstance(value, list):
            yield f"{before}{name}"


def _texts(values: Sequence[Any]) -> list[str]:
    return ["" if each is None else str(each) for each in values]
