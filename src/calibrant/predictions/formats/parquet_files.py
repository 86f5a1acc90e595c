"""Many Parquet files as one table, local or remote; folders such as ``day=1`` become columns."""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import unquote

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant.predictions.checks import as_number
from calibrant.predictions.formats import parquet
from calibrant.predictions.formats.aliases import ColumnNames
from calibrant.predictions.formats.contents import damaged
from calibrant.predictions.formats.tables import Table

Keys: TypeAlias = Mapping[str, int | str]
"""Keys and values in the names of a file's folders."""
_ADDRESS = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]+):/+(?=[^/])")
_WHOLE_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})")
_NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""Name that Hive and Spark give the folder of rows with a null key."""


def table(path: Path, columns: ColumnNames | None = None) -> Table:  # noqa: ARG001
    files = Files(path)
    return parquet.table_in(files.schema_arrow, files.column, files.keys)


def whole_table(path: Path, *, feather: bool = False) -> Any:
    """Return all columns of a file, or of many files and their keys."""
    return Files(path).whole if is_partitioned(path) else parquet.whole_table(path, feather=feather)


class Files:
    """Many files as one."""

    def __init__(self, path: str | Path) -> None:
        address = rooted(path)
        names = files_of(address)
        each_keys = keys_of(address, names)
        self.keys = tuple(dict.fromkeys(key for keys in each_keys for key in keys))
        self._files = list[tuple[str, Keys, Any]]()  # with the footer, which is read once
        number, schemas, columns = 0, list[Any](), None
        for name, keys in zip(names, each_keys, strict=True):
            with opened(name) as file:
                columns = columns_of_keys(name, file, keys, columns)
                self._files.append((name, keys, file.metadata))
                number += file.metadata.num_rows
                schemas.append(with_keys(file.schema_arrow.empty_table(), keys).schema)
            if differing := sorted({*schemas[0].names} ^ {*schemas[-1].names}):
                raise InputError(
                    f"{name} must have the columns of {names[0]}; `{differing[0]}` is in one of them only."
                )
        if not number:
            raise InputError("it holds no rows.")
        import pyarrow

        try:
            self.schema_arrow = pyarrow.unify_schemas(schemas, promote_options="permissive")
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise InputError(
                f"its files must agree in what they hold; {str(error).split('. ')[0]}."
            ) from error
        self.num_rows = number

    def column(self, name: str) -> Any:
        return self.whole.column(name)

    @cached_property
    def whole(self) -> Any:
        import pyarrow

        tables: list[Any] = []
        for name, keys, footer in self._files:
            with opened(name, footer) as file:
                try:
                    tables.append(with_keys(file.read(), keys))
                except DAMAGE as error:
                    raise InputError(f"{name}: {damaged('a .parquet file', error)}") from error
        return pyarrow.concat_tables(tables, promote_options="permissive")


def with_keys(rows: Any, keys: Keys) -> Any:
    """Add keys as columns to a table or batch, unless it has them."""
    import pyarrow

    new = {key: value for key, value in keys.items() if key not in rows.schema.names}
    columns = [
        pyarrow.array(
            [value] * rows.num_rows, pyarrow.int64() if isinstance(value, int) else pyarrow.string()
        )
        for value in new.values()
    ]
    return type(rows).from_arrays([*rows.columns, *columns], names=[*rows.schema.names, *new])


def keys_of(address: str, names: Sequence[str]) -> list[dict[str, int | str]]:
    """Return the keys from the folders of each file: numbers if all values of a key are.

    Example:
        >>> keys_of("/data", ["/data/day=1/a.parquet", "/data/day=2/a.parquet"])
        [{'day': 1}, {'day': 2}]
        >>> keys_of("s3://bucket/*/site=a b/*.parquet", ["s3://bucket/day=07/site=a%20b/a.parquet"])
        [{'day': '07', 'site': 'a b'}]
        >>> keys_of("/data", ["/data/day=1/a.parquet", "/data/day=02/a.parquet"])
        [{'day': '1'}, {'day': '02'}]
    """
    above = len(_folders(address.partition("*")[0].rpartition("/")[0] if "*" in address else address))
    texts: list[dict[str, str]] = []
    for name in names:
        pairs = [each.partition("=") for each in _folders(name)[above:-1]]
        texts.append({key: unquote(value) for key, mark, value in pairs if key and mark})
    said: dict[str, set[str]] = {}
    for each in texts:
        for key, value in each.items():
            said.setdefault(key, set()).add(value)
    numbers = {key for key, values in said.items() if all(map(_WHOLE_NUMBER.fullmatch, values))}
    return [
        {
            key: int(value) if key in numbers else "" if value == _NOTHING else value
            for key, value in each.items()
        }
        for each in texts
    ]


def _folders(address: str) -> list[str]:
    found = _ADDRESS.match(address)
    return [each for each in address[found.end() if found else 0 :].split("/") if each not in {"", "."}]


def columns_of_keys(name: str, file: Any, keys: Keys, before: frozenset[str] | None) -> frozenset[str]:
    """Return keys that are also columns; refuse contradictions, and columns that some files lack."""
    found = frozenset(key for key in keys if key in file.schema_arrow.names)
    if differing := sorted(found ^ (found if before is None else before)):
        raise InputError(
            f"`{differing[0]}` is also in the folders, so it must be a column of all files or none; {name} "
            f"{'has' if differing[0] in found else 'lacks'} it."
        )
    for key in sorted(found):
        for values, _ in parquet.values_of(file, key):
            other = next((each for each in values if not _is_said(each, keys[key])), None)
            if other is not None:
                raise InputError(
                    f"{name}: its column `{key}` must say what its folder does, {key}={keys[key]}; it holds "
                    f"{str(other)!r}."
                )
    return found


def _is_said(value: object, key: int | str) -> bool:
    if str(value).casefold() == str(key).casefold():
        return True
    number = None if isinstance(value, str) else as_number(str(value))
    return number is not None and number == as_number(key)


def digest_of(path: str | Path) -> str:
    """Return the SHA-256 of all names and footers."""
    digest, address = hashlib.sha256(), rooted(path)
    for name in files_of(address):
        with opened(name) as file:
            add_to_digest(digest, address, name, file)
    return digest.hexdigest()


def add_to_digest(digest: Any, address: str, name: str, file: Any) -> None:
    """Add a file's relative name and its footer, with sizes and extremes, to a digest."""
    digest.update(f"{name.removeprefix(address)} ".encode())
    footer = io.BytesIO()
    file.metadata.write_metadata_file(footer)
    digest.update(footer.getvalue())


def rooted(path: str | Path) -> str:
    """Return an address as typed, or a path that other processes can resolve."""
    address = restored(str(path))
    return address if is_address(address) else str(Path(address).absolute())


def restored(text: str) -> str:
    """Return an address as typed: of ``s3:/bucket`` for ``s3://bucket``, as paths drop one of two slashes."""
    found = _ADDRESS.match(text)
    if found is None:
        return text
    rest = text[found.end() :]
    return f"{found[1]}://{'/' if found[1] == 'file' else ''}{rest}"


def is_address(path: str | Path) -> bool:
    """Return True if fsspec handles the address, which is no local path."""
    return _ADDRESS.match(str(path)) is not None


def is_partitioned(path: str | Path) -> bool:
    """Return True for an address, or for a folder with Parquet files."""
    if is_address(path):
        return True
    folder = Path(path)
    try:
        return folder.is_dir() and any(each.is_file() for each in folder.rglob("*.parquet"))
    except OSError:  # said by who opens it
        return False


def files_of(address: str) -> list[str]:
    """Return all files by name; refuse an address that has none or cannot be opened."""
    if not is_address(address):
        path = Path(address)
        if not path.exists():
            raise FileNotFoundError(f"{path}: no such file.")
        found = [path]
        if path.is_dir():  # Spark writes folders of that name
            found = [each for each in path.rglob("*.parquet") if each.is_file()]
        found = [str(each) for each in found]
    else:
        with _said_of(address):
            found = _far_files(*_place(address))
    if not found:
        raise InputError(f"there is no Parquet file at {address}.")
    return sorted(found)


def _far_files(system: Any, place: str) -> list[str]:
    if "*" in place:
        about: Mapping[str, Any] = system.glob(place, detail=True)
        names = [each for each, said in about.items() if said["type"] != "directory"]
    elif system.isdir(place):
        names = [each for each in system.find(place) if each.endswith(".parquet")]
    else:
        names = [place] if system.exists(place) else []
    return [str(system.unstrip_protocol(each)) for each in names]


@contextmanager
def _said_of(address: str) -> Generator[None]:
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
def opened(name: str, footer: Any = None) -> Generator[Any]:
    if not is_address(name):
        with parquet.opened(Path(name), parquet.BUFFER, footer=footer) as file:
            yield file
        return
    system, place = _place(name)
    with _said_of(name):
        found = system.open(place, "rb")
    with found as stream, parquet.opened(stream, parquet.BUFFER, footer=footer) as file:
        yield file
