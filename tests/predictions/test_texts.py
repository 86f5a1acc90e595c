"""Tables as people write them: how columns are called, cells parted and numbers written."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from calibrant.predictions import ColumnNames, load_predictions

TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))


def read(text: str, path: Path, names: Iterable[str], **options: Any) -> dict[str, Any]:
    """Attributes of the predictions in a text; lists in place of tuples, as the file of texts has them."""
    path.write_bytes(text.encode())
    predictions = load_predictions(path, **options)
    found = {name: getattr(predictions, name) for name in names}
    return {name: _plain(each) for name, each in found.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [*value]
    return "none" if value is None else value.tolist() if hasattr(value, "tolist") else value


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_is_read(name, tmp_path) -> None:
    wanted = {**TEXTS[name]}
    options = wanted.pop("options", {})
    if "columns" in options:
        options = options | {"columns": ColumnNames(**options["columns"])}
    assert read(wanted.pop("text"), tmp_path / "p.csv", wanted, **options) == wanted
