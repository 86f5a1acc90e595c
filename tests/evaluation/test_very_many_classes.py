"""Evaluations of more classes than a reader can look at."""

import numpy as np
import pytest

from calibrant import Predictions, evaluate
from calibrant.calibrators import TemperatureScaling
from calibrant.evaluation import arguments, pipeline
from calibrant.evaluation.fitting import split
from calibrant.evaluation.judging import class_table

_DRAWS = np.random.default_rng(0)
PROBS = _DRAWS.dirichlet(0.5 / np.arange(1, 31), 300)
LABELS = (PROBS.cumsum(1) < _DRAWS.random((300, 1))).sum(1).clip(max=29)
DOCUMENTS = _DRAWS.integers(0, 30, 300)
GIVEN = Predictions(
    logits=1.8 * np.log(PROBS + 1e-9), labels=LABELS, weights=_DRAWS.random(300), clusters=DOCUMENTS
)


@pytest.fixture
def few_are_many(monkeypatch) -> None:
    """Ten classes count as very many, three are listed, and blocks hold two rows."""
    for module in (arguments, pipeline):
        monkeypatch.setattr(module, "WIDE", 10)
    monkeypatch.setattr(pipeline, "MOST_LISTED", 3)
    monkeypatch.setattr(class_table, "WIDE_BLOCK", 64)


def judged(**given: object):
    return evaluate(GIVEN, **{"calibrators": [], "bootstrap": 20, "null_draws": 40} | given)


def test_one_pass_gives_the_same_numbers(few_are_many, monkeypatch) -> None:
    """All but the AUROC and the interval of the class-wise error, each with its reason; clusters too."""
    wide = judged()
    monkeypatch.undo()
    plain = judged()
    before, after = plain.arm("uncalibrated"), wide.arm("uncalibrated")
    for key, estimate in before.metrics.items():
        if key not in {"auroc", "classwise_ece"}:
            assert after.metrics[key] == estimate, key
    assert after.metrics["classwise_ece"].value == pytest.approx(before.metrics["classwise_ece"].value)
    assert "more than" in (after.metrics["auroc"].reason or "")
    rows = {row.name: row for row in before.classes}
    assert len(after.classes) == 3
    for row in after.classes:
        assert row.count == rows[row.name].count
        assert (row.mean_probability, row.prevalence, row.ece) == pytest.approx(
            (rows[row.name].mean_probability, rows[row.name].prevalence, rows[row.name].ece)
        )
    assert any(note.startswith("Of 30 classes the 3 are listed") for note in wide.notes)


def test_variance_by_cluster_is_that_of_all_cells(few_are_many) -> None:
    from calibrant.evaluation.judging.class_table import ClassClusters, variance_by_cluster

    table = class_table.LabelledProbs(GIVEN)
    codes = np.unique(DOCUMENTS, return_inverse=True)[1]
    cells = ClassClusters.of(table, codes, np.ones((30, 1), bool))
    found = variance_by_cluster(table, codes)
    np.testing.assert_allclose(found, cells.class_variance(np.arange(30)), atol=1e-12)


def test_calibrators_are_fitted_in_pieces(few_are_many, monkeypatch) -> None:
    monkeypatch.setattr(split, "FEWEST_HELD", 40)
    monkeypatch.setattr(split, "MOST_FITTED", 1)
    marked = GIVEN.with_split(np.arange(300) % 2)
    found_on = marked.calibration
    found = evaluate(marked, calibrators=["temperature"], bootstrap=20, null_draws=40)
    assert found.num_calibration == 150
    assert "on 40 of these" in found.settings.calibration
    whole = TemperatureScaling().fit(found_on.scores, found_on.labels, weights=found_on.weights)
    assert found.arm("temperature").parameters == pytest.approx(whole.fit_result_.parameters, rel=1e-6)
