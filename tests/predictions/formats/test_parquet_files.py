"""Folders of Parquet files as one table: what the names of folders say is a column."""

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from calibrant import InputError, load_predictions
from calibrant.predictions import ColumnNames
from calibrant.predictions.files import load_timed
from calibrant.predictions.partitioned import PartitionedPredictions, Piece
from calibrant.repair import opening
from command_line import call

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


def test_what_sums_do_not_know_is_read_whole(tmp_path, monkeypatch) -> None:
    """Groups of several labels are judged in memory; an engine has nothing to do, or is refused."""
    (tmp_path / "a").mkdir()
    for name in "xy":
        given = {f"prob_{each}": [0.9, 0.6] * 20 for each in "ab"}
        given |= {f"label_{each}": [1, 0] * 20 for each in "ab"} | {"group": ["g", "h", "i", "j"] * 10}
        table = pyarrow.table(given)
        parquet.write_table(table, tmp_path / "a" / f"{name}.parquet")
    done = call("check", "a", "--max-ece", "0.9", "--bootstrap", "10", folder=tmp_path)
    assert (done.returncode, done.stderr, "part by part" in done.stdout) == (0, "", False)
    arguments = ("check", "a", "--max-ece", "0.9", "--bootstrap", "10", "--engine", "serial")
    done = call(*arguments, folder=tmp_path)
    assert (done.returncode, "part by part" in done.stdout) == (0, False)
    assert "with several labels for each sample in groups, all samples must be in memory:" in done.stderr
    assert "note: with --percent, all samples" in call(*arguments, "--percent", folder=tmp_path).stderr
    monkeypatch.setattr(opening, "MOST_HELD", 50)
    refused = call(*arguments, folder=tmp_path)
    said = " ".join(refused.stderr.split())
    assert (refused.returncode, "all 80 rows of a must be in memory. Leave out --engine" in said) == (2, True)


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({"label": [0, 1], "logits": [[0.0, 1.0, 2.0], [0.0, 1.0]]}, "must hold 3 numbers in every row"),
        ({"label": [0, 1], "probs": [[0.2, 0.3, 0.5]] * 2}, "`.*` is in one of them only"),
    ],
)
def test_lists_of_another_length_are_refused(second, said, tmp_path) -> None:
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


def folders(root, held) -> None:
    """Two rows in each folder, with other columns beside scores and labels."""
    scores = {"label": [0, 1], "logit_0": [0.5, 0.0], "logit_1": [0.0, 0.5], "logit_2": [0.1, 0.2]}
    for place, columns in held.items():
        (root / place).mkdir(parents=True)
        parquet.write_table(pyarrow.table(scores | columns), root / place / "a.parquet")


def both_ways(root) -> tuple[dict[str, list], dict[str, list]]:
    """Weights and groups as they are in memory, and by parts."""
    memory, parts = load_predictions(root), PartitionedPredictions(root)
    pieces = [piece for part in parts.parts for piece in parts.pieces(part)]
    found = {name: [getattr(piece, name) for piece in pieces] for name in ("weights", "groups")}
    kept = {name: getattr(memory, name) for name in found}
    mine = {name: None if each is None else list(map(str, each)) for name, each in kept.items()}
    if memory.weights is not None:
        mine["weights"] = [str(each) for each in memory.weights.tolist()]
    theirs = {
        name: None if each[0] is None else [str(value) for values in each for value in values]
        for name, each in found.items()
    }
    return mine, theirs


@pytest.mark.parametrize(
    ("key", "values", "known"),
    [
        ("weight", ("0.5", "2"), ["0.5", "0.5", "2.0", "2.0"]),
        ("weight", ("0.50", "01"), ["0.5", "0.5", "1.0", "1.0"]),
        ("group", ("0.5", "1"), ["0.5", "0.5", "1", "1"]),
        ("group", ("02", "1"), ["02", "02", "1", "1"]),
    ],
)
def test_keys_are_numbers_where_numbers_are_wanted(key, values, known, tmp_path) -> None:
    """Weights may be decimals in the names of folders; groups keep their names as they are written."""
    folders(tmp_path, {f"{key}={value}": {} for value in values})
    mine, theirs = both_ways(tmp_path)
    assert mine == theirs
    assert mine[f"{key}s"] == known


def test_a_column_may_say_what_its_folder_does(tmp_path) -> None:
    """As some writers keep the key in the files: numbers, texts and what has no value."""
    held = {"group=7/site=a b": {"group": [7, 7], "site": ["a b"] * 2}}
    held["group=8/site=__HIVE_DEFAULT_PARTITION__"] = {"group": [8, 8], "site": pyarrow.nulls(2, "string")}
    folders(tmp_path, held)
    mine, theirs = both_ways(tmp_path)
    assert mine == theirs
    assert mine["groups"] == ["7", "7", "8", "8"]


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ({"group=x": {"group": ["x", "y"]}}, "its column `group` must say what .* group=x; it holds 'y'"),
        ({"day=1": {"day": [2, 2]}}, "its column `day` must say what its folder does, day=1; it holds '2'"),
        ({"group=1": {"group": ["1"] * 2}, "group=2": {}}, r"of all files or none.*a\.parquet lacks it"),
        ({"group=1": {}, "group=2": {"group": [2, 2]}}, r"of all files or none.*a\.parquet has it"),
        ({"logit_3=1": {}}, "`logit_3` must not be what folders are named by"),
        ({"weight=some": {}}, "`weight` must hold a number in every row; row 0 holds 'some'"),
    ],
)
@pytest.mark.parametrize("read", [load_predictions, PartitionedPredictions])
def test_keys_that_cannot_be_columns_are_refused(read, held, said, tmp_path) -> None:
    """A key that its files deny, that only some files hold too, or that would be a score; alike both ways."""
    folders(tmp_path, held)
    with pytest.raises(InputError, match=said):
        read(tmp_path)


def test_folders_may_end_as_files_do(tmp_path) -> None:
    """Spark writes folders called x.parquet; the files in them are read, from a store too."""
    folders(tmp_path, {"day=1/x.parquet": {}, "day=2/x.parquet": {}})
    assert load_predictions(tmp_path).num_samples == PartitionedPredictions(tmp_path).num_samples == 4
    pytest.importorskip("fsspec")
    assert PartitionedPredictions(f"file://{tmp_path}/**/*.parquet").num_samples == 4
