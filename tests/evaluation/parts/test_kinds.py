"""Tables of every kind, part by part: confidences, a positive class, and rows to fit on of another table."""

from __future__ import annotations

import json

import numpy as np
import pytest

from calibrant import InputError, evaluate, load_calibrator, load_predictions
from calibrant.evaluation import Evaluation, check, compare
from calibrant.predictions import ColumnNames
from calibrant.predictions.partitioned import NeedsWholeError, PartitionedPredictions
from command_line import call

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

QUICK = {"bootstrap": 10, "null_draws": 10}


def written(path, columns) -> PartitionedPredictions:
    """One file with several row groups, opened."""
    parquet.write_table(pyarrow.table(columns), path, row_group_size=100)
    return PartitionedPredictions(path)


def answers(number: int = 600, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Confidences in one of three groups, of which some are below a half, and whether they were right."""
    rng = np.random.default_rng(seed)
    sure = rng.beta(3, 1.5, number).astype(np.float32)
    correct = rng.random(number) < sure**1.7
    group = rng.choice(["a", "b", "c"], number)
    return {"confidence": sure, "correct": correct, "group": group, "split": np.arange(number) % 3 > 0}


def two_classes(number: int = 600, *, seed: int = 0, scale: float = 1.5) -> dict[str, np.ndarray]:
    """Logits of cats and dogs, too large, and labels by name."""
    rng = np.random.default_rng(seed)
    odds = 2 * rng.normal(size=number) - 0.5
    labels = np.array(["cat", "dog"])[(odds + rng.logistic(size=number) > 0).astype(int)]
    columns = {"logit_cat": np.zeros(number), "logit_dog": scale * odds, "label": labels}
    return columns | {"split": np.arange(number) % 3 > 0}


def assert_alike(mine: Evaluation, theirs: Evaluation) -> None:
    """The values of all arms are those of the rows in memory; what has none has the same reason."""
    assert [each.name for each in mine.arms] == [each.name for each in theirs.arms]
    for one, other in zip(mine.arms, theirs.arms, strict=True):
        assert list(one.metrics) == list(other.metrics)
        for key, known in other.metrics.items():
            found = one.metrics[key]
            if known.value is None or found.value is None:
                assert found.reason == known.reason, key
                continue
            assert found.value == pytest.approx(known.value, rel=1e-6, abs=1e-7), key
        for name in ("classes", "groups"):
            rows = [[(each.name, each.count) for each in getattr(arm, name)] for arm in (one, other)]
            assert rows[0] == rows[1]
        for found, known in zip(one.groups, other.groups, strict=True):
            assert found.ece.value == pytest.approx(known.ece.value, rel=1e-6)


def test_confidences_are_judged_as_in_memory(tmp_path) -> None:
    """Values, groups and reasons are the same; calibrators are fitted on the log-odds of being right."""
    table = written(tmp_path / "a.parquet", answers())
    how = QUICK | {"calibrators": ["platt"]}
    mine, theirs = (evaluate(each, **how) for each in (table, load_predictions(tmp_path / "a.parquet")))
    assert mine.kind == theirs.kind == "top_label"
    assert mine.num_test == theirs.num_test == 400
    assert_alike(mine, theirs)
    assert len(mine.arms[0].groups) == 3


def test_confidences_pass_gates_are_compared_and_repaired(tmp_path) -> None:
    """A limit decides as in memory; two files are paired by their true classes, or else where hits tell."""
    given = answers()
    table = written(tmp_path / "a.parquet", given)
    memory = load_predictions(tmp_path / "a.parquet")
    mine, theirs = (check(each, {"ece": 0.02}, bootstrap=10) for each in (table, memory))
    assert [each.outcome for each in mine.checks] == [each.outcome for each in theirs.checks]
    assert mine.checks[0].value == pytest.approx(theirs.checks[0].value)
    better = given | {"confidence": given["confidence"] ** 1.7}
    other = written(tmp_path / "b.parquet", better)
    found = compare([("a", table), ("b", other)], **QUICK)
    assert (found.kind, found.paired) == ("top_label", True)
    assert found.models[1].difference["nll"].high < 0
    truth = np.array(["x", "y", "z"])[np.arange(600) % 3]
    named = [
        written(tmp_path / f"{k}.parquet", {"confidence": each["confidence"], "true_label": truth} | guess)
        for k, (each, guess) in enumerate(
            [(given, {"pred_label": np.roll(truth, 1)}), (better, {"pred_label": truth})]
        )
    ]
    assert compare([("a", named[0]), ("b", named[1])], **QUICK).paired
    assert not compare([("a", named[0]), ("b", other)], **QUICK).paired
    all_right = [
        written(tmp_path / f"r{k}.parquet", each | {"correct": np.ones(600, int)})
        for k, each in enumerate((given, better))
    ]
    assert not compare([("a", all_right[0]), ("b", all_right[1])], **QUICK).paired
    done = call(
        "fit", "a.parquet", "--method", "platt", "-o", "p.safetensors", "--engine", "serial", folder=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    call("fit", "a.parquet", "--method", "platt", "-o", "q.safetensors", folder=tmp_path)
    fitted, known = (load_calibrator(tmp_path / f"{name}.safetensors") for name in "pq")
    assert fitted.class_names_ == known.class_names_ == ("wrong", "right")
    assert fitted.fit_result_.after == pytest.approx(known.fit_result_.after, rel=1e-6)


@pytest.mark.parametrize("single", [False, True])
def test_either_of_two_classes_may_be_positive(single, tmp_path) -> None:
    """The class that is judged is chosen by name or number, of two columns or of one."""
    given = two_classes()
    if single:
        logits = {"logit": given.pop("logit_dog") - given.pop("logit_cat")}
        given |= logits | {"negative_class": ["cat"] * 600, "positive_class": ["dog"] * 600}
    table = written(tmp_path / "a.parquet", given)
    memory = load_predictions(tmp_path / "a.parquet")
    how = QUICK | {"calibrators": ["temperature"], "positive_class": "cat"}
    mine, theirs = (evaluate(each, **how) for each in (table, memory))
    assert_alike(mine, theirs)
    assert mine.class_names == theirs.class_names
    said = [[note for note in each.notes if "is positive" in note] for each in (mine, theirs)]
    assert said[0] == said[1]
    limits = ({"ece": 0.02}, {"bootstrap": 10, "positive_class": "cat"})
    one, other = (check(each, limits[0], **limits[1]) for each in (table, memory))
    assert one.checks[0].value == pytest.approx(other.checks[0].value)
    both = compare([("a", table), ("b", table)], positive_class=0, **QUICK)
    assert both.models[0].metrics["prevalence"].value == theirs.arms[0].metrics["prevalence"].value


def test_a_positive_class_must_be_one_of_two(tmp_path) -> None:
    """Three classes, a name that is none, and confidences are refused as in memory."""
    table = written(tmp_path / "a.parquet", two_classes())
    with pytest.raises(InputError, match="must be 0, 1, cat or dog; got 'cow'"):
        table.with_positive("cow")
    with pytest.raises(InputError, match="only of two classes can one be positive; got top-label"):
        check(written(tmp_path / "b.parquet", answers()), {"ece": 0.5}, positive_class=0)


def test_rows_to_fit_on_may_be_of_another_table(tmp_path) -> None:
    """All rows of the one are judged, with what was fitted on the split of the other, or on all of it."""
    table = written(tmp_path / "a.parquet", two_classes())
    fit = written(tmp_path / "b.parquet", two_classes(seed=1))
    plain = two_classes(seed=1)
    del plain["split"]
    unsplit = written(tmp_path / "c.parquet", plain)
    memory, held = (load_predictions(tmp_path / f"{name}.parquet") for name in "ab")
    how = QUICK | {"calibrators": ["temperature"]}
    theirs = evaluate(memory, calibration=held, positive_class="cat", **how)
    for judged, given in ((table, fit), (table, held), (memory, fit)):
        mine = evaluate(judged, calibration=given, positive_class="cat", **how)
        assert_alike(mine, theirs)
        assert mine.settings.calibration == theirs.settings.calibration
        unused = "The 200 samples marked as calibration split are not used"
        assert sum(unused in note for note in mine.notes) == 1
        assert [note for note in theirs.notes if note not in mine.notes] == []
    found = evaluate(table, calibration=unsplit, **how)
    assert found.settings.calibration == "all 600 samples of c.parquet"
    with pytest.raises(InputError, match="`calibration` must be other predictions"):
        evaluate(table, calibration=PartitionedPredictions(tmp_path / "a.parquet"), **how)
    arguments = ("evaluate", "a.parquet", "--calibration", "b.parquet", "--engine", "serial", "--json", "-")
    done = call(
        *arguments, "--method", "temperature", "--positive-class", "cat", "--bootstrap", "10", folder=tmp_path
    )
    assert (done.returncode, json.loads(done.stdout)["num_calibration"]) == (0, 200)


def largest(number: int = 600, *, seed: int = 0) -> dict[str, list[object]]:
    """The five largest of 40 log-probabilities of each sample, too sure of themselves."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(number, 40))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    log_probs = 1.5 * logits - np.logaddexp.reduce(1.5 * logits, axis=1, keepdims=True)
    order = np.argsort(-log_probs, axis=1)[:, :5]
    top = np.take_along_axis(log_probs, order, axis=1)
    columns = {"top_logprobs": list(top), "top_k_indices": list(order), "label": labels}
    return columns | {"num_classes": [40] * number, "split": np.arange(number) % 3 > 0}


def test_the_largest_logits_are_judged_as_in_memory(tmp_path) -> None:
    """Also where a temperature acts on whole rows, and where rows list tokens by name."""
    given = largest()
    table = written(tmp_path / "a.parquet", given)
    memory = load_predictions(tmp_path / "a.parquet")
    how = QUICK | {"calibrators": ["temperature", "platt"]}
    mine, theirs = (evaluate(each, **how) for each in (table, memory))
    assert_alike(mine, theirs)
    assert mine.arms[1].parameters["temperature"] == pytest.approx(theirs.arms[1].parameters["temperature"])
    tokens = [
        [{"token": f"t{k}", "logprob": value} for k, value in zip(*row, strict=True)][: 3 + place % 3]
        for place, row in enumerate(zip(given["top_k_indices"], given["top_logprobs"], strict=True))
    ]
    named = {"top_logprobs": tokens, "token": [f"t{k}" for k in given["label"]]}
    by_name = written(tmp_path / "b.parquet", named)
    assert (by_name.kind, by_name.has_labels) == ("top_label", True)
    known = load_predictions(tmp_path / "b.parquet")
    found, whole = (check(each, {"ece": 0.5, "accuracy": 0.1}, bootstrap=10) for each in (by_name, known))
    assert [each.value for each in found.checks] == pytest.approx([each.value for each in whole.checks])
    assert compare([("a", by_name), ("b", by_name)], **QUICK).paired
    for engine in ([], ["--engine", "serial"]):
        name = f"{len(engine)}.safetensors"
        done = call("fit", "a.parquet", "--method", "temperature", "-o", name, *engine, folder=tmp_path)
        assert done.returncode == 0
    one, other = (load_calibrator(tmp_path / f"{k}.safetensors") for k in (0, 2))
    assert float(one.temperature) == pytest.approx(float(other.temperature))


def test_bands_of_whole_numbers_are_groups(tmp_path) -> None:
    """Bands that say where they begin are judged as in memory; other bands need all samples."""
    given = two_classes()
    rng = np.random.default_rng(2)
    table = {name: given[name] for name in ("logit_cat", "logit_dog", "label")}
    table |= {"position": rng.integers(0, 900, 600), "depth": rng.random(600)}
    named = ColumnNames(bands=("position:0:128:512",))
    written(tmp_path / "a.parquet", table)
    parts = PartitionedPredictions(tmp_path / "a.parquet", columns=named)
    how = QUICK | {"calibrators": []}
    mine, theirs = (
        evaluate(each, **how) for each in (parts, load_predictions(tmp_path / "a.parquet", columns=named))
    )
    assert_alike(mine, theirs)
    assert [each.name for each in mine.arms[0].groups] == [
        f"position={each}" for each in ("0–127", "128–511", "512+")
    ]
    for bands, said in (("position", "do not say where they begin"), ("depth:0.5", "no whole numbers")):
        with pytest.raises(NeedsWholeError, match=said):
            PartitionedPredictions(tmp_path / "a.parquet", columns=ColumnNames(bands=(bands,)))
