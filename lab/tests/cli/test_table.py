"""``calibrant table``, and the export of runs."""

import csv
from pathlib import Path

import pytest

from calibrant_lab.sweep.store import Store
from calibrant_lab.tables import layouts
from command_line import call, one_line
from results_by_hand import CIFAR, make_result, sweep, write_store

LOSSES = {"cross-entropy": 0.06, "brier": 0.03, "focal(gamma=1)": 0.05, "focal(gamma=3)": 0.04}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store of four losses, three seeds each, and one run that diverged."""
    lost = make_result({"data.name": "digits", "loss": "brier", "seed": 9}, status="diverged")
    path = tmp_path_factory.mktemp("table")
    results = [*sweep(LOSSES, seeds=3, **{"data.name": "digits"}), lost]
    write_store(path / "store", results)
    return path


def test_what_is_printed_is_what_the_store_holds(folder) -> None:
    """The CSV's means are those of the store's results, the diverged run is counted, tests are made."""
    result = call("table", "store", "--out-format", "csv", "--against", "cross-entropy", folder=folder)
    rows = list(csv.DictReader(result.stdout.splitlines()))
    found = {row["loss"]: row for row in rows if row["quantity"] == "ECE"}
    values = [each.value("ece") or 0.0 for each in Store(folder / "store").results({"loss": "brier"})]
    assert float(found["brier"]["mean"]) == pytest.approx(100 * sum(values) / 3)
    assert (found["brier"]["n"], found["brier"]["diverged"]) == ("3", "1")
    assert float(found["brier"]["p_adjusted"]) > float(found["brier"]["p"]) > 0
    assert found["cross-entropy"]["p"] == ""


def test_the_list_names_every_layout(folder) -> None:
    lines = call("table", "--list", folder=folder).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [*layouts()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("table", "STORE is missing"),
        ("table nowhere", "nowhere is not a store"),
        ("table store --layout mukhoti-14", "there is no layout 'mukhoti-14'"),
        ("table store --out-format word", "there is no format 'word'"),
        ("table store -o table.docx", "must end in .txt or .md or .tex or .csv or .html"),
        ("table store --test z", "`--test` must be"),
        ("table store --where los=brier", "did you mean 'loss'"),
        ("table store --where loss=mdca", "--where leaves none of the 13 runs"),
        ("table store --against mdca", "--against: there is no 'mdca'"),
        ("table store --figure ece", "--figure must be dynamics, curvature, images, heat-maps, or go"),
        ("table store --figure dynamics", "no run recorded its dynamics"),
        ("table store --figure curvature", "no run measured its curvature; set evaluation.curvature"),
        ("table store --figure heat-maps", "no heat maps of common images; set evaluation.heat_maps"),
        ("table store --figure dynamics --figure ece", "goes with neither --x"),
        ("table store --figure images --boxes b.json", "--boxes goes with --figure heat-maps"),
        ("table store --figure dynamics --by data.name", "choose by --where, or leave out --by"),
        ("table store --figure ece --x loss.gamma --published MNIST", "no paper has these"),
        ("table store --figure ece --x los", "no run has a setting los"),
        ("table store --figure ece --x loss -o x.gif", "must end in .svg"),
        ("runs store --export tensorboard", "--export must be NAME:PLACE"),
        ("runs store --export excel:x", "there is no sink 'excel'"),
    ],
)
def test_mistakes_are_told(folder, arguments, message) -> None:
    result = call(*arguments.split(), folder=folder)
    assert result.returncode == 2
    assert message in one_line(result.stderr)


def test_published_numbers_stand_in_a_papers_layout(tmp_path) -> None:
    write_store(tmp_path / "store", sweep({"cross-entropy": 0.06, "brier": 0.03}, **CIFAR))
    result = call("table", "store", "--layout", "mukhoti-1", folder=tmp_path)
    assert "1.82: +0.85, 0.6×" in result.stdout
    assert "Mukhoti et al. (2020), Table 1" in result.stdout
