"""The table of losses and what they elicit."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from calibrant import losses
from calibrant._math.text_form import parse_call
from papers.properness import PAGE
from papers.properness.measure import Row, every_loss, properness_table


@pytest.fixture(scope="module")
def rows() -> dict[str, Row]:
    """Some losses whose cells are known."""
    names = ["cross-entropy", "brier", "focal(gamma=1)", "label-smoothing", "multilabel-focal"]
    return {row.loss: row for row in properness_table(names, num_posteriors=2)}


def test_every_loss_has_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of the library's losses is left out, a planted one included; each can be built."""
    assert {parse_call(name)[0] for name in every_loss()} == set(losses.available())
    for name in every_loss():
        losses.build(name)
    monkeypatch.setattr(losses, "available", lambda: ("cross-entropy", "planted"))
    assert every_loss()[-1] == "planted"


def test_cells_are_the_known_ones(rows: dict[str, Row]) -> None:
    """Proper, convex in the probabilities, convex in the logits, at the optimum."""
    cells = {
        name: (row.proper, row.convex_in_probs, row.convex_in_logits, row.confidence)
        for name, row in rows.items()
    }
    assert cells == {
        "cross-entropy": (True, True, True, "calibrated"),
        "brier": (True, True, False, "calibrated"),
        "focal(gamma=1)": (False, True, False, "under"),
        "label-smoothing": (False, True, True, "under"),
        "multilabel-focal": (False, True, False, "under"),
    }
    assert all(row.keeps_class for row in rows.values())
    assert rows["focal(gamma=1)"].minimiser == pytest.approx((0.314169, 0.685831), abs=1e-6)


def test_focal_loss_is_over_confident_with_thirty_classes(rows: dict[str, Row]) -> None:
    """The second column of confidences; one label of many has none."""
    assert rows["focal(gamma=1)"].confidence_many in {"over", "both"}
    assert rows["label-smoothing"].confidence_many == "under"
    assert rows["multilabel-focal"].confidence_many is None


def test_files(rows: dict[str, Row], tmp_path: Path) -> None:
    """The page has a line for each row, the numbers are in the other file."""
    page, numbers = PAGE.write([asdict(row) for row in rows.values()], tmp_path)
    text = page.read_text(encoding="utf-8")
    assert text.count("\n| `") == len(rows)
    assert "no: (0.2, 0.8) elicits (0.3142, 0.6858)" in text
    assert [row["loss"] for row in json.loads(numbers.read_text(encoding="utf-8"))] == list(rows)
