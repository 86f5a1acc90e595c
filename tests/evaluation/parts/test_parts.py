"""Tables in many Parquet files: the numbers of the same rows in memory, whoever reads which part."""

import json
import re

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from calibrant import InputError, Predictions, evaluate, load_calibrator
from calibrant.calibrators import FocalTemperatureScaling, TemperatureScaling
from calibrant.evaluation import Evaluation, check, compare
from calibrant.evaluation.parts.source import summed
from calibrant.evaluation.parts.sums import Deal
from calibrant.predictions import partitioned
from calibrant.predictions.formats.parquet_files import is_partitioned, restored
from calibrant.predictions.partitioned import PartitionedPredictions
from command_line import call

ROWS = 240  # in each of four files
QUICK = {"bootstrap": 20, "null_draws": 20, "seed": 1}


def table(num_classes: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Logits 1.6 times too large, in float32, and a split."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(4 * ROWS, num_classes)).astype(np.float32) * 2
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    return {"logits": np.float32(1.6) * logits, "labels": labels, "split": np.arange(4 * ROWS) % 3 > 0}


def written(given: dict[str, np.ndarray], folder) -> None:
    """Four files in two folders, as a partitioned table has them."""
    for k in range(4):
        rows = slice(k * ROWS, (k + 1) * ROWS)
        place = folder / f"day={k // 2}"
        place.mkdir(exist_ok=True, parents=True)
        part = {name: values[rows] for name, values in given.items()}
        Predictions(**part).save(place / f"part{k}.parquet")


@pytest.fixture(scope="module", params=[3, 2], ids=["classes", "event"])
def both(request, tmp_path_factory):
    """Three classes, and two: the rows in memory, and the table."""
    folder = tmp_path_factory.mktemp("table")
    given = table(request.param)
    written(given, folder)
    return Predictions(**given), PartitionedPredictions(folder)


@pytest.fixture(scope="module")
def judged(both) -> Evaluation:
    return evaluate(both[1], calibrators=["temperature"], **QUICK)


def test_values_are_those_of_the_rows_in_memory(both, judged) -> None:
    """As they came and calibrated; the calibrator is fitted on the same rows, in another order."""
    memory, mine = both[0], judged
    theirs = evaluate(memory, calibrators=["temperature"], **QUICK)
    fitted, wanted = (each.arms[1].parameters["temperature"] for each in (mine, theirs))
    assert fitted == pytest.approx(wanted, rel=0.1)  # drawn at random, about as many as there are
    assert mine.num_test == theirs.num_test == 640
    assert list(mine.arms[0].metrics) == list(theirs.arms[0].metrics)
    for key, found in mine.arms[0].metrics.items():
        assert found.value == pytest.approx(theirs.arms[0].metrics[key].value, rel=1e-12, abs=1e-12), key
    for one, other in zip(mine.arms[0].classes, theirs.arms[0].classes, strict=True):
        assert one.auroc == pytest.approx(other.auroc, rel=1e-12)
    for key, rel in (("nll", 0.6), ("auroc", 0.25)):  # of 20 resamples, and of 256 batches
        width, expected = (each.arms[0].metrics[key] for each in (mine, theirs))
        assert width.high - width.low == pytest.approx(expected.high - expected.low, rel=rel)
    assert any("split into 256 batches" in note for note in mine.notes)
    assert json.loads(mine.to_json())["settings"]["clusters"] == 250  # the others hold rows to fit on only


def test_whoever_is_ready_first_the_bits_are_the_same(both, judged) -> None:
    """Parts worked on backwards, and given back in their order, change no bit of the answer."""
    _, parts = both

    def backwards(task, items):
        found = {item: task(item) for item in reversed(items)}
        return (found[item] for item in items)

    again = evaluate(parts, calibrators=["temperature"], spread=backwards, **QUICK)
    assert again.to_json() == judged.to_json()


def test_batches_mix_what_is_sorted_and_keep_clusters_whole(tmp_path) -> None:
    given = table(3)
    del given["split"]
    order = np.argsort(given["labels"], kind="stable")
    given = {name: values[order] for name, values in given.items()}
    written(given, tmp_path / "sorted")
    found = PartitionedPredictions(tmp_path / "sorted")
    deal = Deal.of(found, 15, fits=False)
    assert summed(found, deal, 15, (None,))[0][0].filled.tolist() == list(range(256))
    written(
        given | {"clusters": np.char.add("patient", (np.arange(4 * ROWS) % 50).astype(str))}, tmp_path / "by"
    )
    found = PartitionedPredictions(tmp_path / "by")
    seen: dict[str, set[int]] = {}
    for part in found.parts:
        for piece in found.pieces(part):
            for name, batch in zip(piece.clusters or (), deal.batches(piece).tolist(), strict=True):
                seen.setdefault(name, set()).add(batch)
    assert len(seen) == 50
    assert all(len(batches) == 1 for batches in seen.values())
    assert any("A cluster is in one batch" in note for note in evaluate(found, calibrators=[], **QUICK).notes)


def test_gates_and_comparisons_read_parts(both, tmp_path) -> None:
    """A model and its repair are compared on the same samples."""
    memory, parts = both
    better = {
        "logits": memory.values.numpy() / 1.6,
        "labels": memory.labels.numpy(),
        "split": memory.split.numpy(),
    }
    written(better, tmp_path)
    found = compare([("as it is", parts), ("better", PartitionedPredictions(tmp_path))], **QUICK)
    assert found.paired
    assert found.models[1].difference["nll"].high < 0
    against = check(parts, baseline=PartitionedPredictions(tmp_path), bootstrap=20)
    assert (against.paired, against.passed) == (True, False)
    assert not compare([("parts", parts), ("memory", memory)], **QUICK).paired


def test_the_command_line_fits_by_sums_over_all_rows(both, tmp_path, monkeypatch) -> None:
    """Passes over the parts end where the fit in memory does; the file is a calibrator's."""
    memory, parts = both
    monkeypatch.setattr(partitioned, "PART", 1)
    done = call("fit", parts.address, "--method", "temperature", "-o", "t.safetensors", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    known = memory.calibration
    scores = known.scores if known.kind == "multiclass" else known.as_binary().scores
    if scores.ndim == 2 and scores.shape[1] == 2:
        scores = scores[:, 1] - scores[:, 0]
    wanted = TemperatureScaling().fit(scores, known.labels)
    fitted = load_calibrator(tmp_path / "t.safetensors")
    assert float(fitted.temperature) == pytest.approx(float(wanted.temperature), rel=1e-9)
    assert fitted.fit_result_.num_samples == known.num_samples == 320
    assert fitted.fit_result_.before == pytest.approx(wanted.fit_result_.before, rel=1e-9)
    said = r"note: (1 pass|2 passes) over the table, after 320 random rows to begin with"
    assert re.search(said, done.stdout)
    if memory.num_classes == 3:
        call("fit", parts.address, "--method", "focal-temperature", "-o", "f.safetensors", folder=tmp_path)
        focal = load_calibrator(tmp_path / "f.safetensors")
        wanted = FocalTemperatureScaling().fit(scores, known.labels)
        assert focal.fit_result_.parameters == pytest.approx(wanted.fit_result_.parameters, rel=1e-6)
        assert focal.fit_result_.steps <= 8
    again = call("fit", parts.address, "--method", "vector", "--all", "-o", "v.safetensors", folder=tmp_path)
    if memory.num_classes == 3:
        assert re.search(r"fitted on 9\d\d random rows of 960", again.stdout)


def test_addresses_are_read_through_fsspec(monkeypatch) -> None:
    fsspec = pytest.importorskip("fsspec")

    probs = {f"prob_{name}": [share] * 9 for name, share in zip("abc", (0.2, 0.5, 0.3), strict=True)}
    for k in range(2):
        with fsspec.open(f"memory://bucket/day={k}/a.parquet", "wb") as file:
            parquet.write_table(pyarrow.table({"label": [0, 1, 2] * 3, **probs}), file)
    whole = PartitionedPredictions(restored("memory:/bucket"))
    assert (whole.num_samples, whole.class_names, len(whole.parts)) == (18, ("a", "b", "c"), 2)
    assert PartitionedPredictions("memory://bucket/day=1/*.parquet").num_samples == 9
    assert is_partitioned("memory:/bucket")
    with pytest.raises(InputError, match="no Parquet file at memory://bucket/day=7"):
        PartitionedPredictions("memory://bucket/day=7")
    with pytest.raises(InputError, match="nosuchstore://x cannot be opened: Protocol not known"):
        PartitionedPredictions("nosuchstore://x")

    def refused(*_: object) -> None:
        raise RuntimeError("no credentials were found")

    monkeypatch.setattr(fsspec.implementations.memory.MemoryFileSystem, "isdir", refused)
    with pytest.raises(InputError, match="memory://bucket cannot be opened: no credentials were found"):
        PartitionedPredictions("memory://bucket")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"label": [0, 1], "prob_a": [0.5, 0.5], "prob_b": [0.5, 0.9]},
            "rows 0 to 1 of all.*row 1 sums to 1.4",
        ),
        ({"label": [0, 3], "logit_a": [0.5, 0.5], "logit_b": [0.5, 0.9]}, "`label` must be 0 or 1; row 1"),
        ({"prob_a": [0.5, 0.5], "prob_b": [0.5, 0.5]}, "`labels` must be given"),
        ({"label": [0, 1], "prob": [0.5, 0.5], "weight": [1.0, -2.0]}, "not negative; row 1 holds -2"),
        ({"label": [0, 1], "prob": [0.5, 0.5], "weight": [1.0, None]}, "`weight` must hold a number"),
        ({"y_true": [0, 1], "p": [0.5, 1.5]}, "`p` must be between"),
        ({"label": [0, 1], "p": [0.5, 0.5], "w": [1.0, None]}, "`w` must hold a number"),
        ({"confidence": [0.5, 0.5]}, "`correct` must be given"),
        ({"confidence": [0.5, 1.5], "correct": [0, 1]}, "`confidence` must be between"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_row(columns, said, tmp_path) -> None:
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=rf"(?s){re.escape(str(tmp_path))}.*{said}"):
        PartitionedPredictions(tmp_path)


def test_engines_are_for_tables_of_parquet(tmp_path) -> None:
    """Another file is refused with the remedy; one Parquet file is read in parts where an engine is named."""
    given = table(3)
    Predictions(**given).save(tmp_path / "p.npz")
    Predictions(**given).save(tmp_path / "p.parquet")
    refused = call("check", "p.npz", "--max-ece", "0.5", "--engine", "serial", folder=tmp_path)
    said = " ".join(refused.stderr.split())
    assert (refused.returncode, "load_predictions('p.npz').save('FILE.parquet')" in said) == (2, True)
    done = call("check p.parquet --max-ece 0.5 --engine serial --json -", folder=tmp_path, code=0)
    assert "read part by part" in json.loads(done.stdout)["notes"][0]
    wrong = call("check", "p.parquet", "--max-ece", "0.5", "--engine", "submitit", folder=tmp_path)
    assert "Choose 'serial', 'pool' or 'ray'" in wrong.stderr
