"""Workbooks of spreadsheets: one sheet is read as the same table in CSV would be."""

import sys
import zipfile
from pathlib import Path

import pytest

from calibrant import InputError, Predictions, load_predictions
from calibrant.predictions import ColumnNames
from calibrant.predictions.save_like import save_in_form_of

SHEET: list[list[object]] = [
    ["", "", ""],
    ["patient", "label", "prob"],
    [7.0, 0.0, 0.25],
    ["", "", ""],
    ["7b", 1.0, 1.0],
]


def write_workbook(path: Path, sheets: dict[str, list[list[object]]]) -> Path:
    """A workbook in the least form that spreadsheets read."""
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    main, package = "spreadsheetml/2006/main", "package/2006"
    names, links, types = [], [], []
    with zipfile.ZipFile(path, "w") as archive:
        for number, (name, rows) in enumerate(sheets.items(), 1):
            cells = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
            archive.writestr(
                f"xl/worksheets/{number}.xml", _xml("worksheet", main, f"<sheetData>{cells}</sheetData>")
            )
            names.append(f'<sheet name="{name}" sheetId="{number}" r:id="r{number}" xmlns:r="{kind}"/>')
            links.append(
                f'<Relationship Id="r{number}" Type="{kind}/worksheet" Target="worksheets/{number}.xml"/>'
            )
            types.append(f'<Override PartName="/xl/worksheets/{number}.xml" ContentType="a/b"/>')
        archive.writestr("xl/workbook.xml", _xml("workbook", main, f"<sheets>{''.join(names)}</sheets>"))
        archive.writestr(
            "xl/_rels/workbook.xml.rels", _xml("Relationships", f"{package}/relationships", "".join(links))
        )
        root = f'<Relationship Id="r" Type="{kind}/officeDocument" Target="xl/workbook.xml"/>'
        archive.writestr("_rels/.rels", _xml("Relationships", f"{package}/relationships", root))
        archive.writestr("[Content_Types].xml", _xml("Types", f"{package}/content-types", "".join(types)))
    return path


def _xml(name: str, namespace: str, content: str) -> str:
    return f'<?xml version="1.0"?><{name} xmlns="http://schemas.openxmlformats.org/{namespace}">{content}</{name}>'


def _cell(value: object) -> str:
    if isinstance(value, float):
        return f"<c><v>{value}</v></c>"
    return f'<c t="inlineStr"><is><t>{value}</t></is></c>' if value else "<c/>"


@pytest.fixture
def workbook(tmp_path: Path) -> Path:
    """One sheet of rows, some of them blank."""
    return write_workbook(tmp_path / "one.xlsx", {"test set": SHEET})


def test_the_only_sheet_is_read_without_blank_rows(workbook: Path) -> None:
    found = load_predictions(workbook, columns=ColumnNames(cluster="patient"))
    assert (found.probs.tolist(), found.labels.tolist()) == ([0.25, 1.0], [0, 1])
    assert found.clusters == ("7", "7b")
    assert found.source.format == "xlsx"


def test_one_of_several_sheets_must_be_named(workbook: Path) -> None:
    several = write_workbook(workbook.with_name("both.xlsx"), {"notes": [["old"]], "test set": SHEET})
    with pytest.raises(InputError, match="it has 2 sheets; name one by --sheet: notes, test set"):
        load_predictions(several)
    with pytest.raises(InputError, match="there is no sheet 'test'"):
        load_predictions(several, columns=ColumnNames(sheet="test"))
    read = load_predictions(several, columns=ColumnNames(sheet="test set"))
    assert (len(read), read.notes) == (2, ("Not used: `patient`.",))
    words = [*SHEET[:2], ["7", "ill", 0.25], ["7b", "well", 1.0], ["8", "odd", 1.0]]
    write_workbook(several, {"notes": [["old"]], "test set": words})
    with pytest.raises(InputError, match="`label` must be whole numbers; line 3 holds 'ill'"):
        load_predictions(several, columns=ColumnNames(sheet="test set"))
    table = several.with_suffix(".csv")
    table.write_text("label,prob\n0,0.5\n1,0.5\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"`sheet` \(--sheet\) is for workbooks"):
        load_predictions(table, columns=ColumnNames(sheet="a"))


def test_repaired_predictions_keep_the_columns_as_text(workbook: Path, tmp_path: Path) -> None:
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
    workbook.write_bytes(workbook.read_bytes()[:300])
    with pytest.raises(InputError, match="cannot be read as a workbook"):
        load_predictions(workbook)
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(InputError, match=r"pip install 'calibrant\[excel\]', or save the sheet as CSV"):
        load_predictions(workbook)
