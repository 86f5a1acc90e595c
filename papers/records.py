"""Results of a study, one line of JSON each: written as they come, and not computed again."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from calibrant._math.errors import InputError
from calibrant._math.files import write_text

Record: TypeAlias = Mapping[str, Any]


class Records:
    """A file of records, each known by its ``key``.

    Args:
        path: The file; made with its folder at the first record.

    Raises:
        InputError: If a line of the file is not a record, but for a last one that was cut off.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._records: dict[str, Record] = {}
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for number, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                self._records[record["key"]] = record
            except (ValueError, KeyError, TypeError) as error:
                if number < len(lines):
                    raise InputError(f"{path}, line {number}, is not a record of a study.") from error
                write_text(path, "".join(f"{kept}\n" for kept in lines[:-1]))

    def all(self) -> list[Record]:
        """Every record, in the order in which they were made."""
        return list(self._records.values())

    def get(self, key: str, compute: Callable[[], Mapping[str, Any]]) -> Record:
        """The record of that key, computed and written if there is none yet."""
        if key not in self._records:
            record = {"key": key, **compute()}
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, allow_nan=False) + "\n")
            self._records[key] = record
        return self._records[key]
