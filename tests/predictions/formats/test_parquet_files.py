"""Folders of Parquet files as one table: what the names of folders say is a column."""

from __future__ import annotations

import numpy as np
import pytest

from calibrant import InputError, load_predictions
from calibrant.predictions import ColumnNames
from calibrant.predictions.over_time import load_timed
from calibrant.predictions.partitioned import PartitionedPredictions, Piece
from command_line import call

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SITES = ("north", "south & east")


def written(folder, form: str = "columns") -> None:
    """Ten rows for each of two sites and two days; the second day is to judge on. One file is empty."""
    rng = np.random.default_rng(0)
    for site in SITES:
        for day in (1, 2):
            logits = rng.normal(size=(10, 3)).astype(np.float32)
            held = {f"logit_{k}": logits[:, k] for k in range(3)}
            if form == "lists":
                held = {"logits": pyarrow.array(logits.tolist(), pyarrow.list_(pyarrow.float32()))}
            if form == "fixed":
                held = {"logits": pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(logits.ravel()), 3)}
            place = folder / f"split={'calibration' if day == 1 else 'test'}" / f"site={site}" / f"day={day}"
            place.mkdir(parents=True)
            table = pyarrow.table({"label": rng.integers(3, size=10), **held})
            parquet.write_table(table, place / "part-0.parquet")
            parquet.write_table(table.slice(0, 0), place / "part-1.parquet")


@pytest.mark.parametrize("form", ["columns", "lists", "fixed"])
def test_keys_and_lists_are_columns_in_memory_and_by_parts(form, tmp_path) -> None:
    """A split, groups and clusters may be keys, and scores lists; both ways of reading give the same rows."""
    written(tmp_path, form)
    memory = load_predictions(tmp_path, columns=ColumnNames(group="site", cluster="day"))
    assert set(memory.groups) == set(SITES)
    assert (memory.calibration.num_samples, memory.clusters) == (
        20,
        (("1",) * 10 + ("1",) * 10 + ("2",) * 20),
    )
    parts = PartitionedPredictions(tmp_path, columns=ColumnNames(cluster="day"))
    assert (parts.num_samples, parts.num_fit, len(parts.parts), parts.num_classes) == (40, 20, 4, 3)
    pieces = [piece for part in parts.parts for piece in parts.pieces(part)]
    assert np.concatenate([piece.scores for piece in pieces]).tolist() == memory.values.tolist()
    assert np.concatenate([piece.labels for piece in pieces]).tolist() == memory.labels.tolist()
    assert np.concatenate([piece.split for piece in pieces]).tolist() == memory.split.tolist()
    assert sum((piece.clusters for piece in pieces), ()) == memory.clusters
    assert parts.source.sha256 == memory.source.sha256
    timed = load_timed(tmp_path, time="day")
    assert timed.times.tolist() == [1.0] * 20 + [2.0] * 20
    assert timed.predictions.values.numpy() == pytest.approx(memory.values.numpy())


def test_what_sums_do_not_know_is_read_whole(tmp_path) -> None:
    """Confidences alone are judged in memory; with an engine the remedy is said."""
    (tmp_path / "a").mkdir()
    for name in "xy":
        table = pyarrow.table({"confidence": [0.9, 0.6] * 20, "correct": [1, 0] * 20})
        parquet.write_table(table, tmp_path / "a" / f"{name}.parquet")
    done = call("check", "a", "--max-ece", "0.9", "--bootstrap", "10", folder=tmp_path)
    assert (done.returncode, done.stderr, "part by part" in done.stdout) == (0, "", False)
    refused = call("check", "a", "--max-ece", "0.9", "--engine", "serial", folder=tmp_path)
    assert refused.returncode == 2
    assert "holds confidences alone" in refused.stderr
    assert "leave out --engine" in " ".join(refused.stderr.split())


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"label": [0, 1], "logits": [[0.0, 1.0, 2.0], [0.0, 1.0]]}, "must hold 3 numbers in every row"),
        ({"label": [0, 1], "probs": [[0.2, 0.3, 0.5]] * 2}, "`.*` is in one of them only"),
    ],
)
def test_lists_of_another_length_are_refused(second, said, tmp_path) -> None:
    """The message names the file, and the row that holds fewer."""
    first = {"label": [0, 1], "logits": [[0.0, 1.0, 2.0]] * 2}
    for name, held in (("a", first), ("b", second)):
        parquet.write_table(pyarrow.table(held), tmp_path / f"{name}.parquet")

    def rows() -> list[Piece]:
        table = PartitionedPredictions(tmp_path)
        return list(table.pieces(table.parts[1]))

    with pytest.raises(InputError, match=rf"b\.parquet.*{said}"):
        rows()
    with pytest.raises(InputError, match=rf"{tmp_path.name}"):
        load_predictions(tmp_path)
