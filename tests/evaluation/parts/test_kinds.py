"""Tables of every kind, part by part: confidences, a positive class, and rows to fit on of another table."""

import pickle
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from calibrant import InputError, Predictions, evaluate, load_calibrator, load_predictions
from calibrant.cli.opening import opened_to_fit
from calibrant.cli.reading import Reading
from calibrant.evaluation import Evaluation, check, compare
from calibrant.evaluation.arguments import GROUPS_NOTE
from calibrant.evaluation.fitting.split import Split
from calibrant.evaluation.group_repairs import group_repairs
from calibrant.evaluation.parts import source
from calibrant.evaluation.parts.source import sample, sampled_by_group, sampled_to_fit, summed
from calibrant.evaluation.parts.sums import Deal
from calibrant.evaluation.source import samples_of
from calibrant.evaluation.spread import here
from calibrant.predictions import ColumnNames, partitioned
from calibrant.predictions.partitioned import NeedsWholeError, PartitionedPredictions
from command_line import call, one_line
from tables_as_files import as_parts

QUICK = {"bootstrap": 10, "null_draws": 10}
EXACT = ("ece", "event_ece", "l2_ece", "nll", "brier", "accuracy", "gap", "mean_probability")
ROWS, FITTED = 240, 15  # so few are fitted on that none is recommended


written = partial(as_parts, row_group_size=50)


def answers(number: int = ROWS, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Confidences in one of three groups, of which some are below a half, and whether they were right."""
    rng = np.random.default_rng(seed)
    sure = rng.beta(3, 1.5, number).astype(np.float32)
    correct = rng.random(number) < sure**1.7
    group = rng.choice(["a", "b", "c"], number)
    split = np.arange(number) % (ROWS // FITTED) > 0
    return {"confidence": sure, "correct": correct, "group": group, "split": split}


def two_classes(number: int = ROWS, *, seed: int = 0, scale: float = 1.5) -> dict[str, np.ndarray]:
    """Logits of cats and dogs, too large, and labels by name."""
    rng = np.random.default_rng(seed)
    odds = 2 * rng.normal(size=number) - 0.5
    labels = np.array(["cat", "dog"])[(odds + rng.logistic(size=number) > 0).astype(int)]
    columns = {"logit_cat": np.zeros(number), "logit_dog": scale * odds, "label": labels}
    return columns | {"split": np.arange(number) % (ROWS // FITTED) > 0}


def largest(number: int = ROWS, *, seed: int = 0) -> dict[str, list[object]]:
    """The five largest of 40 log-probabilities of each sample, too sure of themselves."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(number, 40))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    log_probs = 1.5 * logits - np.logaddexp.reduce(1.5 * logits, axis=1, keepdims=True)
    order = np.argsort(-log_probs, axis=1)[:, :5]
    top = np.take_along_axis(log_probs, order, axis=1)
    columns = {"top_logprobs": list(top), "top_k_indices": list(order), "label": labels}
    return columns | {"num_classes": [40] * number, "split": np.arange(number) % (ROWS // FITTED) > 0}


def several(number: int = ROWS, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Probabilities of three labels, too sure of themselves, and which hold; some weights are zero."""
    rng = np.random.default_rng(seed)
    odds = 1.5 * rng.normal(size=(number, 3)) - [0, 1, 2]
    holds = odds + rng.logistic(size=odds.shape) > 0
    columns = {f"prob_{name}": 1 / (1 + np.exp(-1.7 * odds[:, k])) for k, name in enumerate("abc")}
    columns |= {f"label_{name}": holds[:, k].astype(int) for k, name in enumerate("abc")}
    return columns | {"weight": rng.integers(0, 3, number), "split": np.arange(number) % (ROWS // FITTED) > 0}


def one_column() -> dict[str, np.ndarray]:
    given = two_classes()
    given["logit"] = given.pop("logit_dog") - given.pop("logit_cat")
    return given | {"negative_class": ["cat"] * ROWS, "positive_class": ["dog"] * ROWS}


def weighted() -> dict[str, np.ndarray]:
    """Two columns of groups, and weights of which some are zero."""
    rng = np.random.default_rng(0)
    given = two_classes(1200) | {"weight": rng.integers(0, 4, 1200), "split": np.arange(1200) % 2}
    return given | {"group": rng.choice(["north", "south"], 1200), "site": rng.choice(["x", "y"], 1200)}


def are_paired(one: PartitionedPredictions, other: PartitionedPredictions) -> bool:
    """Whether differences between the two are of the same samples."""
    first, second = (samples_of(each, 15) for each in (one, other))
    return first.same_as(second)


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
            within = {"rel": 1e-9} if key in EXACT else {"rel": 1e-6, "abs": 1e-7}
            assert found.value == pytest.approx(known.value, **within), key
        for name in ("classes", "groups"):
            rows = [[(each.name, each.count) for each in getattr(arm, name)] for arm in (one, other)]
            assert rows[0] == rows[1]
        for found, known in zip(one.groups, other.groups, strict=True):
            for key in ("actual", "predicted", "gap", "ece"):
                assert getattr(found, key).value == pytest.approx(getattr(known, key).value, rel=1e-9), key
            assert found.gap.high - found.gap.low == pytest.approx(known.gap.high - known.gap.low, rel=0.5)
        for found, known in zip(one.classes, other.classes, strict=True):
            for key in ("mean_probability", "prevalence", "ece", "accuracy"):
                assert getattr(found, key) == pytest.approx(getattr(known, key), rel=1e-9), key


PLATT, TEMPERATURE = {"calibrators": ["platt"]}, {"calibrators": ["temperature"]}
CAT = {"calibrators": [], "positive_class": "cat"}


@pytest.mark.parametrize(
    ("given", "kind", "how", "widths"),
    [
        (answers, "top_label", PLATT, {}),
        (two_classes, "binary", CAT, {}),
        (one_column, "binary", CAT, {}),
        (several, "multilabel", PLATT, dict.fromkeys(("slope", "intercept", "auroc"), 0.25)),
        (largest, "top_label", TEMPERATURE, {}),
        (weighted, "binary", TEMPERATURE, {}),
    ],
)
def test_a_table_is_judged_as_in_memory(given, kind, how, widths, tmp_path) -> None:
    """Values, groups, classes, reasons, fits, gates and notes; intervals are about as wide."""
    columns = given()
    named = ColumnNames(group=("group", "site")) if "site" in columns else None
    table = written(tmp_path / "a.parquet", columns, named=named)
    memory = load_predictions(tmp_path / "a.parquet", columns=named)
    mine, theirs = (evaluate(each, **QUICK | how) for each in (table, memory))
    assert_alike(mine, theirs)
    assert mine.kind == theirs.kind == kind
    assert (mine.num_test, mine.class_names) == (theirs.num_test, theirs.class_names)
    assert len(mine.arms[0].groups) == {answers: 3, weighted: 4}.get(given, 0)
    for one, other in zip(mine.arms, theirs.arms, strict=True):
        assert list(one.parameters) == list(other.parameters)
        for key, known in other.parameters.items():
            assert one.parameters[key] == pytest.approx(known), key
    for key, rel in widths.items():  # which are not resampled
        one, other = (each.arms[0].metrics[key] for each in (mine, theirs))
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=rel), key
    said = [
        [note for note in each.notes if "is positive" in note or note == GROUPS_NOTE]
        for each in (mine, theirs)
    ]
    assert said[0] == said[1]
    limits = {"bootstrap": 10, "groups": "none", "positive_class": how.get("positive_class")}
    one, other = (check(each, {"ece": 0.02}, **limits) for each in (table, memory))
    assert [each.outcome for each in one.checks] == [each.outcome for each in other.checks]
    assert one.checks[0].value == pytest.approx(other.checks[0].value)


def test_other_labels_are_other_samples(tmp_path) -> None:
    table = written(tmp_path / "a.parquet", several())
    assert are_paired(table, written(tmp_path / "b.parquet", several() | {"prob_a": several()["prob_b"]}))
    assert not are_paired(table, written(tmp_path / "c.parquet", several(seed=1)))


def test_confidences_are_compared_and_repaired(tmp_path) -> None:
    """Two files are paired by their true classes, or else where hits tell."""
    given = answers()
    table = written(tmp_path / "a.parquet", given)
    better = given | {"confidence": given["confidence"] ** 1.7}
    other = written(tmp_path / "b.parquet", better)
    found = compare([("a", table), ("b", other)], **QUICK)
    assert (found.kind, found.paired) == ("top_label", True)
    assert found.models[1].difference["nll"].value < 0
    truth = np.array(["x", "y", "z"])[np.arange(ROWS) % 3]
    named = [
        written(tmp_path / f"{k}.parquet", {"confidence": each["confidence"], "true_label": truth} | guess)
        for k, (each, guess) in enumerate(
            [(given, {"pred_label": np.roll(truth, 1)}), (better, {"pred_label": truth})]
        )
    ]
    assert are_paired(*named)
    assert not are_paired(named[0], other)
    all_right = [
        written(tmp_path / f"r{k}.parquet", each | {"correct": np.ones(ROWS, int)})
        for k, each in enumerate((given, better))
    ]
    assert not are_paired(*all_right)
    done = call("fit a.parquet --method platt -o p.safetensors --engine serial", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    call("fit", "a.parquet", "--method", "platt", "-o", "q.safetensors", folder=tmp_path)
    fitted, known = (load_calibrator(tmp_path / f"{name}.safetensors") for name in "pq")
    assert fitted.class_names_ == known.class_names_ == ("wrong", "right")
    assert fitted.fit_result_.after == pytest.approx(known.fit_result_.after, rel=1e-6)


def test_a_positive_class_must_be_one_of_two(tmp_path) -> None:
    table = written(tmp_path / "a.parquet", two_classes())
    turned = table.with_positive(0)
    assert (turned.class_names, turned.with_positive("dog").class_names) == (("dog", "cat"), ("cat", "dog"))
    with pytest.raises(InputError, match="must be 0, 1, cat or dog; got 'cow'"):
        table.with_positive("cow")
    with pytest.raises(InputError, match="needs two classes, and there are top-label"):
        check(written(tmp_path / "b.parquet", answers()), {"ece": 0.5}, positive_class=0)


def test_rows_to_fit_on_may_be_of_another_table(tmp_path, monkeypatch) -> None:
    """All rows of the one are judged, with what was fitted on the split of the other, or on all of it."""
    table = written(tmp_path / "a.parquet", two_classes())
    fit = written(tmp_path / "b.parquet", two_classes(seed=1))
    plain = two_classes(seed=1)
    del plain["split"]
    unsplit = written(tmp_path / "c.parquet", plain)
    memory, held = (load_predictions(tmp_path / f"{name}.parquet") for name in "ab")
    how = QUICK | {"calibrators": ["temperature"]}
    theirs = evaluate(memory, calibration=held, positive_class="cat", **how)
    for judged, given in ((table, fit), (memory, fit)):
        mine = evaluate(judged, calibration=given, positive_class="cat", **how)
        assert_alike(mine, theirs)
        assert mine.settings.calibration == theirs.settings.calibration
        unused = f"The {FITTED} samples marked as calibration split are not used"
        assert sum(unused in note for note in mine.notes) == 1
        assert [note for note in theirs.notes if note not in mine.notes] == []
    rows, in_words = sampled_to_fit(unsplit, memory.source, 0, spread=here)
    split = in_words(Split(rows, memory, ""))
    assert (split.words, split.marked) == ("all 240 samples of c.parquet", False)
    monkeypatch.chdir(tmp_path)
    same = [
        PartitionedPredictions("a.parquet"),
        PartitionedPredictions(Path("..", tmp_path.name, "a.parquet")),
    ]
    copied = written(tmp_path / "copy" / "a.parquet", two_classes())
    for given, judged in ((table, memory), *((each, memory) for each in same), (copied, table)):
        with pytest.raises(InputError, match="`calibration` must be other predictions"):
            sampled_to_fit(given, judged.source, 0, spread=here)
    memory.save(tmp_path / "a.npz")
    opened = [opened_to_fit(tmp_path / name, Reading(), "serial") for name in ("a.parquet", "a.npz")]
    assert [type(each) for each in opened] == [PartitionedPredictions, Predictions]


def test_foreign_samples_are_told_apart_as_in_memory(tmp_path, monkeypatch) -> None:
    """All samples to judge are scored, or of a large table random ones, which is noted."""
    table = written(tmp_path / "a.parquet", two_classes())
    memory = load_predictions(tmp_path / "a.parquet")
    rng = np.random.default_rng(1)
    foreign = Predictions(logits=rng.normal(size=(60, 2)), class_names=["cat", "dog"])
    how = QUICK | {"calibrators": ["temperature"], "ood": foreign}
    for more in ({}, {"ood_score": "energy"}, {"positive_class": "cat"}):
        mine, theirs = (evaluate(each, **how, **more).out_of_distribution for each in (table, memory))
        assert (mine.num_in, mine.sentence) == (ROWS - FITTED, theirs.sentence)
        for one, other in zip(mine.arms, theirs.arms, strict=True):
            assert one.metrics["auroc"].value == pytest.approx(other.metrics["auroc"].value, rel=1e-9)
    monkeypatch.setattr(source, "MOST_FAMILIAR", 50)
    found = evaluate(table, **how)
    assert 20 < found.out_of_distribution.num_in < 90
    assert sum("random samples of the table" in note for note in found.notes) == 1


def test_the_largest_logits_may_list_tokens_by_name(tmp_path) -> None:
    given = largest()
    written(tmp_path / "a.parquet", given)
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
    assert are_paired(by_name, by_name)
    for engine in ([], ["--engine", "serial"]):
        name = f"{len(engine)}.safetensors"
        call("fit", "a.parquet", "--method", "temperature", "-o", name, *engine, folder=tmp_path, code=0)
    one, other = (load_calibrator(tmp_path / f"{k}.safetensors") for k in (0, 2))
    assert float(one.temperature) == pytest.approx(float(other.temperature))


def test_bands_of_whole_numbers_are_groups(tmp_path) -> None:
    """Bands that say where they begin are judged as in memory; other bands need all samples."""
    given = two_classes()
    rng = np.random.default_rng(2)
    table = {name: given[name] for name in ("logit_cat", "logit_dog", "label")}
    table |= {"position": rng.integers(0, 900, ROWS), "depth": rng.random(ROWS)}
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


@pytest.mark.parametrize("given", [answers, several, largest])
def test_parts_may_be_worked_on_anywhere_in_any_order(given, tmp_path, monkeypatch) -> None:
    """Tasks and sums that travel, and parts that are done backwards, change no bit of sums or samples."""
    monkeypatch.setattr(partitioned, "PART", 1)
    table = written(tmp_path / "a.parquet", given())
    deal = Deal.of(table, 15, fits=True)
    assert len(table.parts) == 5

    def backwards(task, items):
        found = [pickle.dumps(pickle.loads(pickle.dumps(task))(item)) for item in reversed(items)]
        return map(pickle.loads, reversed(found))

    sums = [summed(table, deal, 15, (None,), spread=spread)[0][0] for spread in (here, backwards)]
    drawn = [sample(table, deal, "fit", 10, seed=0, spread=spread) for spread in (here, backwards)]
    assert sums[0].fingerprint == sums[1].fingerprint
    values = [each.reduced(tuple("abc"), ()).values for each in sums]
    assert values[0] == values[1]
    assert drawn[0].values.tolist() == drawn[1].values.tolist()


def test_groups_are_repaired_by_random_rows_of_a_table(tmp_path, monkeypatch) -> None:
    """All rows, where they are few, and their groups; of a large table some, which is noted."""
    given = answers() | {"split": np.arange(ROWS) % 2}
    table = written(tmp_path / "a.parquet", given)
    rows, said = sampled_by_group(table, 0, spread=here)
    assert (rows.kind, set(rows.groups), said) == ("top_label", {"a", "b", "c"}, ())
    mine, theirs = (
        group_repairs(each, method="platt") for each in (rows, load_predictions(tmp_path / "a.parquet"))
    )
    assert [each.count for each in mine] == [each.count for each in theirs]
    for one, other in zip(mine, theirs, strict=True):
        for found, known in zip((*one.gaps, *one.losses), (*other.gaps, *other.losses), strict=True):
            assert found.value == pytest.approx(known.value, rel=1e-6)
    monkeypatch.setattr(source, "MOST_FITTED", 100)
    _, said = sampled_by_group(table, 0, spread=here)
    assert "fitted on" in said[0]
    arguments = ("evaluate", "a.parquet", "--engine", "serial", "--bootstrap", "10", "--method", "platt")
    done = call(*arguments, "--by-group", "--group-column", "group", folder=tmp_path)
    assert (done.returncode, "One per group" in done.stdout) == (0, True)
    written(tmp_path / "b.parquet", several())
    refused = call("evaluate", "b.parquet", "--engine", "serial", "--by-group", folder=tmp_path)
    assert "--by-group needs `groups` in b.parquet" in one_line(refused.stderr)
