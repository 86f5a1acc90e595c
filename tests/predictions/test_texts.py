"""Tables as people write them: how columns are called, cells parted and numbers written."""

import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from calibrant.predictions import ColumnNames, load_predictions

TEXTS = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
STATED: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "one of two labels": (
        "y_true,target,prob\n1,0,0.5\n0,1,0.5\n",
        {"columns": ColumnNames(label="target")},
        {"labels": [0, 1]},
    ),
    "percentages below 1": (
        "label,prob\n1,0.7\n0,0.5\n",
        {"percent": True},
        {"probs": [pytest.approx(0.007), 0.005]},
    ),
    "another order": (
        "label_a,label_b,prob_a,prob_b\n1,0,0.9,0.8\n1,1,0.5,0.5\n",
        {"columns": ColumnNames(probs=("prob_b", "prob_a"))},
        {"class_names": ["b", "a"], "labels": [[0, 1], [1, 1]]},
    ),
}


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
    assert read(wanted.pop("text"), tmp_path / "p.csv", wanted) == wanted


@pytest.mark.parametrize("name", STATED)
def test_a_text_is_read_as_stated(name, tmp_path) -> None:
    text, options, wanted = STATED[name]
    assert read(text, tmp_path / "p.csv", wanted, **options) == wanted
