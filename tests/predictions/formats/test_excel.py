"""Workbooks of spreadsheets: one sheet is read as the same table in CSV would be."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from calibrant import InputError, Predictions, load_predictions
from calibrant.predictions import ColumnNames
from calibrant.predictions.save_like import save_in_form_of

SHEET = [
    ["", "", ""],
    ["patient", "label", "prob"],
    [7.0, 0.0, 0.25],
    ["", "", ""],
    ["7b", 1.0, 1.0],
]


@pytest.fixture
def workbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that python-calamine is made to read as one sheet of rows, or several."""
    rows = {"notes": [["old"]], "test set": SHEET}

    def load(path: str) -> SimpleNamespace:
        if Path(path).read_bytes() == b"damaged":
            raise ValueError("no zip archive")
        names = [*rows][1:] if Path(path).name == "one.xlsx" else [*rows]
        return SimpleNamespace(
            sheet_names=names,
            get_sheet_by_name=lambda name: SimpleNamespace(to_python=lambda **_: rows[name]),
        )

    fake = SimpleNamespace(load_workbook=load, CalamineError=ValueError)
    monkeypatch.setitem(sys.modules, "python_calamine", fake)
    path = tmp_path / "one.xlsx"
    path.write_bytes(b"-")
    return path


def test_the_only_sheet_is_read_without_blank_rows(workbook: Path) -> None:
    """Whole numbers have no decimals as texts; columns keep their names."""
    found = load_predictions(workbook, columns=ColumnNames(cluster="patient"))
    assert (found.probs.tolist(), found.labels.tolist()) == ([0.25, 1.0], [0, 1])
    assert found.clusters == ("7", "7b")
    assert found.source.format == "xlsx"


def test_one_of_several_sheets_must_be_named(workbook: Path) -> None:
    """By `sheet`, which other files do not take."""
    several = workbook.rename(workbook.with_name("both.xlsx"))
    with pytest.raises(InputError, match="it has 2 sheets; name one by --sheet: notes, test set"):
        load_predictions(several)
    with pytest.raises(InputError, match="there is no sheet 'test'"):
        load_predictions(several, columns=ColumnNames(sheet="test"))
    assert len(load_predictions(several, columns=ColumnNames(sheet="test set"))) == 2
    table = several.with_suffix(".csv")
    table.write_text("label,prob\n0,0.5\n1,0.5\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"`sheet` \(--sheet\) is for workbooks"):
        load_predictions(table, columns=ColumnNames(sheet="a"))


def test_repaired_predictions_keep_the_columns_as_text(workbook: Path, tmp_path: Path) -> None:
    """With further columns; a file of arrays has no place for these."""
    repaired = Predictions(probs=[0.5, 0.75])
    out, added = tmp_path / "out.csv", {"lower": [0.25, 0.5]}
    assert save_in_form_of(workbook, out, repaired, added=added)
    assert out.read_text(encoding="utf-8") == "patient,label,prob,lower\n7,0,0.5,0.25\n7b,1,0.75,0.5\n"
    with pytest.raises(InputError, match="columns can only be added to a table"):
        save_in_form_of(workbook, tmp_path / "out.npz", repaired, added=added)
    with pytest.raises(InputError, match="has a column `label` already"):
        save_in_form_of(workbook, out, repaired, added={"label": [0.0, 0.0]})


def test_a_damaged_file_and_a_missing_package_have_one_sentence(
    workbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which says what to do."""
    workbook.write_bytes(b"damaged")
    with pytest.raises(InputError, match="cannot be read as a workbook"):
        load_predictions(workbook)
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(InputError, match=r"pip install 'calibrant\[excel\]', or save the sheet as CSV"):
        load_predictions(workbook)
