"""The layouts of the papers' tables, held against the numbers that the papers print."""

import re
from collections import Counter

import pytest

from calibrant._math.errors import InputError
from calibrant_lab.sweep.published import FOLDER, PAPERS, facts
from calibrant_lab.tables import build_table, layout_named, layouts
from calibrant_lab.tables.layout import Layout
from calibrant_lab.tables.names import accepts, means, roster
from calibrant_lab.tables.words import notes
from results_by_hand import CIFAR, make_result

# Rows and columns as the papers print them, counted there.
PRINTED = {
    **{f"mukhoti-{table}": (10, 8) for table in (1, 2)},
    **{f"mukhoti-{table}": (10, 6) for table in (3, 4, 5)},
    "mukhoti-6": (2, 12),
    **{f"mukhoti-{table}": (10, 14) for table in (7, 8)},
    "mukhoti-9": (10, 7),
    **{f"mukhoti-{table}": (10, 10) for table in (10, 11, 12, 13)},
    "komisarenko-1": (18, 6),
    **{f"fcl-{table}": (12, 14) for table in (1, 3, 6, 7)},
    "fcl-2": (12, 7),
    "fcl-4": (8, 14),
    "fcl-5": (12, 2),
    "fcl-8": (16, 2),
    "fcl-9": (17, 4),
    "fcl-10": (4, 14),
}


def test_there_is_a_layout_for_every_table() -> None:
    assert {*layouts()} == {*PRINTED}
    of_paper = {(each.paper, each.table) for each in map(layout_named, layouts())}
    assert of_paper == {(paper, fact.table) for paper in PAPERS for fact in facts(paper)}


@pytest.mark.parametrize("name", PRINTED)
def test_a_layout_is_the_table_that_the_paper_prints(name) -> None:
    """As many rows and columns; each printed number stands in one cell, and each cell has one."""
    layout = layout_named(name)
    table = build_table(layout, [])
    assert (len(table.rows), len(table.columns)) == PRINTED[name]
    placed = Counter(table.cells["fact"])
    printed = [fact for fact in facts(layout.paper or "") if fact.table == layout.table]
    assert placed == Counter(printed)
    assert max(placed.values()) == 1


def test_cells_by_eye() -> None:
    table = build_table(layout_named("mukhoti-1"), [])
    found = {(cell.at, cell.quantity.title): cell.fact for cell in table.cells.itertuples()}
    fact = found["CIFAR-10, ResNet-50, FLSD-53", "post T"]
    assert (fact.value, fact.temperature) == ("0.95", "1.10")
    scanned = build_table(layout_named("komisarenko-1"), [])
    lost = {cell.at: cell.fact for cell in scanned.cells.itertuples() if cell.quantity.title == "NLL"}
    note = lost["CIFAR-10, ResNet-50, focal γ = 3, temperature"].note
    assert "probably focal(gamma=3)" in note or "probably gamma=3" in note


def test_what_is_not_comparable_says_why() -> None:
    for name in ("fcl-3", "fcl-4", "fcl-9", "fcl-10"):
        assert any(note.startswith("Not comparable") for note in notes(build_table(layout_named(name), [])))
    said = " ".join(layout_named("komisarenko-1").notes)
    assert "equal mass" in said
    assert {
        cell.name for cell in layout_named("komisarenko-1").cells if cell.published == ("ECE", "post")
    } == {"adaptive_ece"}


def test_every_name_of_a_paper_is_declared() -> None:
    """Data sets, networks and methods of all tables are names here, or known to be none."""
    known = roster()
    nowhere = {"unnamed-1", "unnamed-2", "wang-2017", "yao-2017", ""}
    for layout in map(layout_named, layouts()):
        for dataset, model in layout.networks:
            assert {*dataset.split("/")} <= {*known["datasets"]}
            assert model in {*known["models"]} | nowhere
        assert {*layout.methods} <= {*known["methods"]} | nowhere


@pytest.mark.parametrize("kind", ["models", "methods"])
def test_names_are_of_things_that_can_be_built(kind) -> None:
    """What stands for a paper's network or method is a network or loss here, with settings that it has."""
    level = kind.removesuffix("s")
    for name, calls in roster()[kind].items():
        for call in calls:
            assert means(call, call, level), f"{name}: {call}"


@pytest.mark.parametrize(
    ("method", "loss", "is_it"),
    [
        ("focal(gamma=3)", "focal", True),
        ("focal(gamma=3)", "focal(gamma=3.0)", True),
        ("focal(gamma=3)", "focal(gamma=2)", False),
        ("focal-sample(53)", "sample-focal", True),
        ("focal-sample(532)", "sample-focal", False),
        ("focal-sample(532)", "sample-focal(thresholds=(0.2, 0.5, 1.0), gammas=[5, 3, 2])", True),
        ("focal-scheduled(531)", "scheduled-focal(gammas=(5.0, 3.0, 1.0), milestones=(14, 35))", True),
        ("weight-decay", "cross-entropy", True),
        ("mmce", "mmce(as_published=False)", False),
        ("focal-calibration", "focal-calibration(gamma=2)", True),
        ("focal-calibration(L1)", "focal-calibration(gamma=2)", False),
        ("brier", "mypackage.losses:Brier()", False),
    ],
)
def test_methods_are_found_by_their_settings(method, loss, is_it) -> None:
    assert accepts("method", method, {"loss": loss}) is is_it


def test_data_that_stand_in_are_named() -> None:
    settings = {**CIFAR, "data.name": "/data/cifar10_jpeg", "loss": "brier"}
    result = make_result(settings, {"uncalibrated": {"ece": 0.02}})
    table = build_table(layout_named("mukhoti-1"), [result])
    assert "CIFAR-10 is /data/cifar10_jpeg here." in notes(table)
    exact = make_result({**settings, "data.name": "cifar10"}, {"uncalibrated": {"ece": 0.02}})
    assert not any(" here" in note for note in notes(build_table(layout_named("mukhoti-1"), [exact])))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"rows": ["loss"]}, "write [[cells]]"),
        ({"rows": ["loss"], "cells": [{"metrik": "ece"}]}, "did you mean 'metric'"),
        ({"rows": ["loss"], "cells": [{"metric": "ece", "parameter": "T"}]}, "must have one of metric"),
        ({"rows": [], "cells": [{"metric": "ece"}]}, "`rows` must name settings"),
        ({"rows": "loss", "cells": [{"metric": "ece"}]}, "`rows` must be a list of texts"),
        ({"rows": ["loss"], "cells": [{"metric": "ece", "better": "more"}]}, "`better` must be lower"),
        ({"rows": ["loss"], "compare": ["model"], "cells": [{"metric": "ece"}]}, "`compare` must name rows"),
        ({"rows": ["loss"], "paper": "mukhoti-2020", "cells": [{"metric": "ece"}]}, "rows and columns are"),
        ({"rows": ["method"], "paper": "mukhoti", "cells": [{"metric": "ece"}]}, "there is no paper"),
        ({"rows": ["loss"], "cells": [{"spent": "gpu"}]}, "`spent` must be wall or cpu; got 'gpu'"),
        ({"rows": ["loss"], "quantities": "above", "cells": [{"metric": "e"}]}, "must be rows or columns"),
    ],
)
def test_wrong_layouts_are_refused(content, message) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        Layout.read(content)


def test_facts_have_the_form_that_their_readme_states() -> None:
    """Numbers can be read as numbers; what lacks one says so; the files are all that is there."""
    assert {path.name for path in FOLDER.glob("*.csv")} == {paper.file for paper in PAPERS.values()}
    for paper in PAPERS:
        for fact in facts(paper):
            numbers = [float(each) for each in (fact.value, fact.sd, fact.temperature) if each]
            assert all(number >= 0 for number in numbers)
            assert fact.value or fact.note
