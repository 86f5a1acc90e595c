"""An evaluation of scores that stay in their file, or have very many classes, and the memory they take."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibrant import Predictions, evaluate
from calibrant.calibrators import TemperatureScaling
from calibrant.evaluation import Evaluation, arguments, pipeline
from calibrant.evaluation.fitting import split
from calibrant.evaluation.judging import class_table
from calibrant.predictions import open_predictions
from fresh_process import printed

FEW = {"bootstrap": 60, "null_draws": 60}
ONE = {**FEW, "calibrators": ["temperature"]}


def pair(folder: Path, predictions: Predictions) -> Predictions:
    """The same predictions, streamed from ``.npy`` files."""
    arrays = {"labels": predictions.labels, "split": predictions.split, "weights": predictions.weights}
    np.save(folder / f"{predictions.space}.npy", predictions.values.numpy())
    for name, array in arrays.items():
        if array is not None:
            np.save(folder / f"{name}.npy", array.numpy())
    return open_predictions(folder, stream=True)


def without_what_is_missing(found: Evaluation) -> list[dict[str, object]]:
    """Every number of every arm but those that pieces cannot give."""
    return [row for row in found.rows() if not str(row["metric"]).startswith(("auroc", "classwise_ece"))]


@pytest.mark.parametrize(
    ("more", "options"),
    [
        ({}, FEW),
        ({"split": np.arange(1500) % 3 > 0, "weights": np.arange(1500) % 4}, ONE),
    ],
)
def test_the_numbers_are_those_of_memory(made, tmp_path, more, options, monkeypatch) -> None:
    """Metrics, intervals, changes, nulls, diagrams, the choice: bit by bit, but for what is said missing."""
    monkeypatch.setattr("calibrant.evaluation.fitting.split.MOST_CROSS_FITTED", 1000)
    held = made(num_samples=1500, sharpness=2.0, **more)
    streamed = pair(tmp_path, held)
    assert streamed.streamed
    one, other = evaluate(streamed, **options), evaluate(held, **options)
    assert without_what_is_missing(one) == without_what_is_missing(other)
    for ours, theirs in zip(one.arms, other.arms, strict=True):
        drawn = tuple(null for null in theirs.null if null.metric != "classwise_ece")
        assert (ours.parameters, ours.null, ours.curves) == (theirs.parameters, drawn, theirs.curves)
        assert [part.name for part in ours.parts] == [part.name for part in theirs.parts]
        for part, held_part in zip(ours.parts, theirs.parts, strict=True):  # of classes only the distances
            assert part.p_value == held_part.p_value or part.name == "classes"
        assert ours.metrics["classwise_ece"].value == theirs.metrics["classwise_ece"].value
        assert ours.metrics["classwise_ece"].low is None
        assert ours.metrics["auroc"].value is None
        assert ours.metrics["auroc"].reason.startswith("not computed: the scores are read in pieces")
        mine, held_rows = (
            [replace(row, auroc=None, adjusted_p=None, noise_floor=None) for row in arm.classes]
            for arm in (ours, theirs)
        )
        assert mine == held_rows
    assert one.verdict.headline == other.verdict.headline
    assert one.verdict.recommended == other.verdict.recommended
    assert pipeline.IN_PIECES in one.notes


def test_calibrators_are_fitted_on_as_many_samples_as_fit(made, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(split, "MOST_FITTED", 4 * 400)
    streamed = pair(tmp_path, made(num_samples=3000, sharpness=2.0, split=np.arange(3000) % 2))
    found = evaluate(streamed, **ONE)
    assert (found.num_calibration, found.num_test) == (400, 1500)
    words = "400 drawn at random (seed 0) from the 1,500 samples marked as calibration split"
    assert found.settings.calibration == words
    assert f"Calibrators were fitted on {words}." in found.notes
    assert not any("draws were made, not" in note for note in found.notes)  # as many as asked for
    assert 1.6 < found.arm("temperature").parameters["temperature"] < 2.4


def test_progress_through_a_file_never_falls(made, tmp_path) -> None:
    told: list[float] = []
    streamed = pair(tmp_path, made(num_samples=300, split=np.arange(300) % 2))
    evaluate(
        streamed, calibrators=[], bootstrap=20, null_draws=20, progress=lambda _, share: told.append(share)
    )
    assert told == [0.0, 0.5, 0.75, 1.0, 1.0]  # choosing, judging: begun, read, done; everything done


def test_calibration_from_another_file(made, tmp_path) -> None:
    folders = [tmp_path / "a", tmp_path / "b"]
    held = [made(num_samples=1200, sharpness=2.0, seed=seed) for seed in (0, 1)]
    for folder in folders:
        folder.mkdir()
    test, calibration = (pair(folder, each) for folder, each in zip(folders, held, strict=True))
    one = evaluate(test, calibration=calibration, **ONE)
    other = evaluate(held[0], calibration=held[1], **ONE)
    assert without_what_is_missing(one) == without_what_is_missing(other)


def test_few_samples_are_judged_in_turn(made, tmp_path) -> None:
    held = made(num_samples=300)
    one, other = evaluate(pair(tmp_path, held), **ONE), evaluate(held, **ONE)
    assert one.rows() == other.rows()


def test_many_samples_have_fewer_resamples_and_it_is_said(made, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(pipeline, "MOST_DRAWN", 1500 * 40)
    monkeypatch.setattr(pipeline, "FEWEST_RESAMPLES", 10)
    held = made(num_samples=1500)
    others = made(seed=1)
    found = evaluate(pair(tmp_path, held), calibration=others, calibrators=[], **FEW)
    assert (found.settings.bootstrap, found.settings.null_draws) == (40, 40)
    assert "For 1,500 samples 40 resamples and draws were made, not 60." in found.notes
    assert evaluate(held, calibration=others, calibrators=[], **FEW).settings.bootstrap == 60


PROGRAM = """
import sys
from calibrant import evaluate
from calibrant.predictions import open_predictions

for path in sys.argv[1:]:
    seen = []
    found = evaluate(
        open_predictions(path, stream=True), bootstrap=20, null_draws=20, calibrators=["temperature"],
        progress=lambda _, fraction: seen.append(fraction),
    )
    print(found.verdict.direction, peak())
assert len(seen) > 20 and seen == sorted(seen) and seen[-1] == 1
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
@pytest.mark.parametrize("ending", ["npy", "parquet"])
def test_many_scores_are_judged_in_little_memory(ending, tmp_path) -> None:
    """A table of 400 MB (200 000 × 500 in float32) takes 50 MB more than one of 40 MB (pyarrow 135)."""
    paths = [a_table(tmp_path / str(count), ending, num_samples=count) for count in (20_000, 200_000)]
    _, before, direction, megabytes = printed(PROGRAM, *paths)
    assert direction == "over-confident"
    assert int(megabytes) - int(before) < 220


def a_table(folder, ending, *, num_samples: int):
    """The path of `num_samples` rows of over-confident scores of 500 classes."""
    folder.mkdir()
    num_classes, block = 500, 10_000
    rng = np.random.default_rng(0)
    logits = [rng.normal(size=(block, num_classes)).astype(np.float32) for _ in range(2)]
    labels = np.concatenate([(each + rng.gumbel(size=each.shape)).argmax(axis=1) for each in logits])
    labels = np.tile(labels, num_samples // len(labels))
    if ending == "npy":
        with (folder / "logits.npy").open("wb") as file:
            header = {"descr": "<f4", "fortran_order": False, "shape": (num_samples, num_classes)}
            np.lib.format.write_array_header_1_0(file, header)
            for k in range(num_samples // block):
                (2 * logits[k % 2]).tofile(file)
        np.save(folder / "labels.npy", labels)
        path = folder / "logits.npy"
    else:
        import pyarrow
        from pyarrow import parquet

        path = folder / "p.parquet"
        writer = None
        for k in range(num_samples // block):
            columns = {"label": labels[k * block : (k + 1) * block]}
            columns |= {f"logit_{c}": 2 * logits[k % 2][:, c] for c in range(num_classes)}
            table = pyarrow.table(columns)
            writer = writer or parquet.ParquetWriter(path, table.schema, use_dictionary=False)
            writer.write_table(table)
        writer.close()
    return path


WHOLE = """
import numpy as np
import torch
from calibrant import Predictions, evaluate

generator = torch.Generator().manual_seed(0)
for num_samples in (200, 20_000):
    logits = torch.randn(num_samples, 1000, generator=generator)
    draws = [torch.multinomial(rows.exp(), 1, generator=generator) for rows in logits.split(1000)]
    labels = torch.cat(draws)[:, 0]
    predictions = Predictions(logits=2 * logits, labels=labels, split=np.arange(num_samples) % 2)
    del logits
    found = evaluate(predictions, bootstrap=60, null_draws=60)
    print(found.verdict.direction, peak())
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_no_table_of_a_thousand_classes_is_held_in_double_precision() -> None:
    """20,000 rows are 80 MB; all the work takes 245 more than 200 rows do, with the whole in double 405."""
    _, before, direction, megabytes = printed(WHOLE)
    assert direction == "over-confident"
    assert int(megabytes) - int(before) < 360


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
