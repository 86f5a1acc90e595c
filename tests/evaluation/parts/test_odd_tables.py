"""Tables as they come: a split by files, groups, few clusters, columns that differ, and what is said."""

import json

import numpy as np
import pytest

from calibrant import InputError, Predictions, evaluate, fit, load_predictions
from calibrant.cli.opening import opened_alike, opened_large
from calibrant.cli.reading import Reading
from calibrant.evaluation import check, compare
from calibrant.evaluation.parts import sums
from calibrant.evaluation.parts.source import sample, shares_to_draw, summed
from calibrant.evaluation.parts.sums import Deal
from calibrant.evaluation.source import source_of
from calibrant.predictions import ColumnNames, partitioned
from calibrant.predictions.partitioned import NeedsWholeError, PartitionedPredictions
from calibrant.repair import opening
from command_line import call
from tables_as_files import as_parts

QUICK = {"bootstrap": 10, "null_draws": 10, "calibrators": []}


def columns(number: int, *, seed: int = 0) -> dict[str, np.ndarray]:
    """Logits of two classes and labels drawn from them."""
    rng = np.random.default_rng(seed)
    log_odds = 2 * rng.normal(size=number)
    labels = (log_odds + rng.logistic(size=number) > 0).astype(int)
    return {"label": labels, "logit_0": np.zeros(number), "logit_1": log_odds}


@pytest.mark.parametrize("marked", ["calibration", "test"])
def test_a_split_is_found_in_whichever_part_it_is(marked, tmp_path, monkeypatch) -> None:
    """Of forty parts one alone holds the rows of a half: these are drawn, and no other is fitted on."""
    monkeypatch.setattr(partitioned, "PART", 1)
    other = {"calibration": "test", "test": "calibration"}[marked]
    split = np.where(np.arange(160) // 4 == 1, marked, other)
    found = as_parts(tmp_path / "a.parquet", columns(160) | {"split": split}, row_group_size=4)
    assert (len(found.parts), found.num_fit) == (40, 4 if marked == "calibration" else 156)
    split = source_of(found, 15, name="predictions", fits=True).split()
    assert (split.num_calibration, split.test.num_samples) == (found.num_fit, 160 - found.num_fit)
    fitted = fit(found)
    assert fitted.fit_result_.num_samples == found.num_fit


def test_a_split_of_one_part_only_is_none(tmp_path) -> None:
    """Rows that are all marked for testing are halved where something is fitted, as in memory."""
    found = as_parts(tmp_path / "a.parquet", columns(200) | {"split": np.ones(200, int)})
    assert [Deal.of(found, 15, fits=fits).rule for fits in (True, False)] == ["halves", "all"]
    with pytest.raises(InputError, match="no calibration split"):
        fit(found)


def test_a_fit_counts_weights_as_in_memory(tmp_path) -> None:
    given = columns(1200) | {"weight": np.random.default_rng(0).integers(0, 4, 1200)}
    found = as_parts(tmp_path / "a.parquet", given | {"split": np.arange(1200) % 2}, row_group_size=50)
    known = fit(load_predictions(tmp_path / "a.parquet"), method="temperature")
    assert float(fit(found).temperature) == pytest.approx(float(known.temperature), rel=1e-6)


@pytest.mark.parametrize("few", [True, False])
def test_batches_are_random_samples_of_the_rows(few, tmp_path, monkeypatch) -> None:
    """Of a sorted table they vary as chance does; of one that alternates either half holds both classes."""
    if not few:
        monkeypatch.setattr(sums, "FEW", 0)
    given = columns(4000)
    found = as_parts(tmp_path / "a.parquet", given | {"label": np.arange(4000) // 2000}, row_group_size=700)
    deal = Deal.of(found, 15, fits=True)
    pieces = [piece for part in found.parts for piece in found.pieces(part)]
    batches = np.concatenate([deal.batches(piece) for piece in pieces])
    counts, hits = np.bincount(batches), np.bincount(batches, np.arange(4000) // 2000)
    assert np.sum((hits - counts / 2) ** 2) == pytest.approx(1000, rel=0.4)  # by turns it is 24
    assert (counts.min() >= 15) == few
    for half in ("fit", "test"):
        rows = np.concatenate([piece.first_row + deal.rows(piece, half)[0] for piece in pieces])
        assert float((rows % 2).mean()) == pytest.approx(0.5, abs=0.05)
        assert len(rows) == pytest.approx(2000, abs=150)


def test_few_rows_are_batches_of_their_own(tmp_path) -> None:
    for number in (3, 255):
        found = as_parts(tmp_path / f"{number}.parquet", columns(number))
        batches = [Deal.of(found, 15, fits=False).batches(piece) for piece in found.pieces(found.parts[0])]
        assert sorted(np.concatenate(batches).tolist()) == list(range(number))


def test_every_row_of_a_half_is_as_likely_to_be_drawn(tmp_path, monkeypatch) -> None:
    """Parts give as many rows as they hold of the half; of many parts those under windows give them."""
    monkeypatch.setattr(partitioned, "PART", 1)
    given = columns(4000) | {"label": np.arange(4000) // 2000}
    split = np.where((given["label"] == 0) | (np.arange(4000) % 20 == 0), 0, 1)
    found = as_parts(tmp_path / "a.parquet", given | {"split": split}, row_group_size=2000)
    drawn = sample(found, Deal.of(found, 15, fits=True), "fit", 1000, seed=0)
    assert float(drawn.labels.double().mean()) == pytest.approx(100 / 2100, abs=0.02)
    assert drawn.num_samples == pytest.approx(1000, abs=100)
    held = np.random.default_rng(0).integers(0, 50, 400).astype(float)
    shares = shares_to_draw(held, 700)
    assert float(shares @ held) == pytest.approx(700)
    assert shares.max() <= 1
    assert (shares > 0).sum() < 150
    assert (shares_to_draw(held, 10**6) == (held > 0)).all()


def test_the_noise_knows_the_squares_of_weights(tmp_path) -> None:
    """Sums of squared weights, which set how large chance is: of each group, and of the classes."""
    rng = np.random.default_rng(0)
    weights, groups = rng.exponential(size=300), rng.choice(["a", "b"], 300)
    weights[::7] = 0
    given = {f"logit_{k}": rng.normal(size=300) for k in range(3)} | {"label": rng.integers(3, size=300)}
    found = as_parts(tmp_path / "a.parquet", given | {"weight": weights, "group": groups})
    sums = summed(found, Deal.of(found, 15, fits=False), 15, (None,))[0][0]
    for name in "ab":
        mine = weights[groups == name]
        kept = sums.groups[name].sum(axis=(0, 1, 2))
        assert kept[[0, 2, 3]] == pytest.approx([mine.sum(), len(mine), (mine**2).sum()])
    cells = sums.reduced(("x", "y", "z"), ()).class_null(2, (0,), 0.95).cells
    share = (weights**2).sum() / weights.sum()
    assert cells.total_squares * weights.sum() == pytest.approx(share)
    assert cells.squares.sum() * weights.sum() == pytest.approx(3 * share)


def test_groups_to_fit_on_leave_the_table_by_group(tmp_path) -> None:
    """However many groups there are among the samples to fit on, those to judge are in the table."""
    names = [f"c{k}" if k % 2 == 0 else "ab"[k % 4 // 2] for k in range(600)]
    given = columns(600) | {"split": np.arange(600) % 2, "group": names}
    judged = evaluate(as_parts(tmp_path / "a.parquet", given), **QUICK)
    assert [(each.name, each.count) for each in judged.arms[0].groups] == [("a", 150), ("b", 150)]
    assert not any("more than 200" in note for note in judged.notes)


def test_too_many_groups_are_said_and_groups_may_be_clusters(tmp_path) -> None:
    """Names of persons make no table, which is noted; a caller may say that groups are clusters."""
    given = columns(300) | {"group": [f"g{k % 60}" for k in range(300)]}
    found = as_parts(tmp_path / "a.parquet", given)
    many = as_parts(tmp_path / "b.parquet", given | {"group": [f"g{k}" for k in range(300)]})
    judged = evaluate(many, **QUICK)
    assert (judged.arms[0].groups, sum("more than 200" in note for note in judged.notes)) == ((), 1)
    assert found.has_groups
    assert PartitionedPredictions(tmp_path / "a.parquet", columns=ColumnNames(cluster="group")).has_clusters
    line = "check a.parquet --max-ece 0.9 --cluster group --engine serial --json -"
    done = call(line, folder=tmp_path)
    assert "A cluster is in one batch" in json.loads(done.stdout)["notes"][0]


def test_tables_dealt_out_differently_are_not_paired(tmp_path) -> None:
    """The same rows with and without clusters: no batch of the one is one of the other, which is said."""
    given = columns(400)
    plain = as_parts(tmp_path / "a.parquet", given)
    apart = as_parts(tmp_path / "b.parquet", given | {"cluster": [f"c{k // 2}" for k in range(400)]})
    found = compare([("a", plain), ("b", apart)], bootstrap=10, null_draws=10)
    assert not found.paired
    assert any("split into other batches" in note for note in found.notes)
    against = check(plain, baseline=apart, bootstrap=10)
    assert (against.paired, sum("split into other" in note for note in against.notes)) == (False, 1)


def test_other_weights_are_other_samples(tmp_path) -> None:
    given, heavy = columns(60), np.arange(60) % 3 + 1.0
    seen = []
    for more in ({}, {"weight": heavy}, {"weight": heavy + 1}, {"weight": heavy}):
        found = as_parts(tmp_path / "a.parquet", given | more)
        seen.append(summed(found, Deal.of(found, 15, fits=False), 15, (None,))[0][0].fingerprint)
    assert seen[1] == seen[3]
    assert len(set(seen)) == 3
    # Files of one name and size, with other scores, are other predictions.
    hashes: set[str] = set()
    for seed in (0, 1, 1):
        as_parts(tmp_path / "a.parquet", columns(50, seed=seed))
        hashes.add(PartitionedPredictions(tmp_path).source.sha256)
    assert len(hashes) == 2


def test_few_clusters_are_said_and_one_is_refused(tmp_path) -> None:
    given = columns(400)
    four = as_parts(tmp_path / "a.parquet", given | {"cluster": [f"c{k % 4}" for k in range(400)]})
    for notes in (evaluate(four, **QUICK).notes, check(four, {"ece": 0.5}, bootstrap=10).notes):
        assert sum("4 are few: below about 20" in note for note in notes) == 1
    one = as_parts(tmp_path / "b.parquet", given | {"cluster": ["c"] * 400})
    with pytest.raises(InputError, match="one cluster cannot be resampled"):
        evaluate(one, **QUICK)
    with pytest.raises(InputError, match="so few clusters that one half holds none"):
        source_of(one, 15, name="predictions", fits=True).split()
    with pytest.raises(InputError, match="one cluster cannot be resampled"):
        check(one, {"ece": 0.5}, bootstrap=10)


def test_all_files_have_the_columns_that_are_read(tmp_path) -> None:
    """A split in one file only is refused either way; scores keep the precision of the finest."""
    given = columns(4)
    for names in ("ab", "ba"):
        folder = tmp_path / names
        folder.mkdir()
        as_parts(folder / f"{names[0]}.parquet", given)
        as_parts(folder / f"{names[1]}.parquet", given | {"split": [0, 1, 0, 1]})
        with pytest.raises(InputError, match=r"must have the columns of .*`split` is in one of them only"):
            PartitionedPredictions(folder)
    finer = {name: values + (1e-12 if name == "logit_1" else 0) for name, values in given.items()}
    coarse = {
        name: values.astype(np.float32) if "logit" in name else values for name, values in given.items()
    }
    folder = tmp_path / "fine"
    folder.mkdir()
    as_parts(folder / "a.parquet", coarse)
    as_parts(folder / "b.parquet", finer)
    found = PartitionedPredictions(folder)
    assert next(found.pieces(found.parts[1])).scores[:, 1].tolist() == finer["logit_1"].tolist()


def test_a_large_file_is_read_whole_where_it_must_be(tmp_path, monkeypatch) -> None:
    """Options that sums do not know, and a partner in memory are no reason to refuse a large file."""
    monkeypatch.setattr(opening, "MOST_HELD", 100)
    given = columns(200)
    as_parts(tmp_path / "a.parquet", given)
    as_parts(tmp_path / "c.parquet", given | {"cluster": [f"c{k // 2}" for k in range(200)]})
    Predictions(logits=np.stack([given["logit_0"], given["logit_1"]], 1), labels=given["label"]).save(
        tmp_path / "a.npz"
    )

    def large(*names: str, whole: bool = False) -> list[bool]:
        paths = [tmp_path / name for name in names]
        return [bool(each) for each in opened_alike(paths, Reading(), ignore_index=None, whole=whole)]

    assert large("a.parquet", "a.parquet") == [True, True]
    assert large("a.parquet", "a.npz") == large("a.parquet", "c.parquet") == [False, False]
    assert large("c.parquet", whole=True) == [False]
    as_parts(tmp_path / "g.parquet", given | {"group": ["g", "h"] * 100})
    assert large("g.parquet") == [True]
    monkeypatch.setattr(opening, "is_large", lambda _: True)
    monkeypatch.setattr(opening, "MOST_HELD", 1000)
    assert large("g.parquet") == [False]  # as of a small folder, whose groups are judged in memory
    monkeypatch.undo()
    arguments = ("check", "a.parquet", "--max-ece", "0.9", "--positive-class", "0", "--bootstrap", "10")
    done = call(*arguments, folder=tmp_path)
    assert (done.returncode, "part by part" in done.stdout) == (0, False)
    arguments = ("evaluate", "a.parquet", "--calibration", "a.npz", "--method", "temperature")
    done = call(*arguments, "--bootstrap", "10", "--json", "-", folder=tmp_path)
    assert "part by part" not in done.stdout
    assert (done.returncode, json.loads(done.stdout)["num_calibration"]) == (0, 200)


@pytest.mark.parametrize("num_bins", [10, 15])
def test_values_on_edges_of_bins_stay_in_their_bins(num_bins, tmp_path) -> None:
    """Tenths, thousandths about them, and where all are equal: in the bins that they are in in memory."""
    rng = np.random.default_rng(0)
    ones = rng.beta(3, 1.5, 600)
    probs = np.append(np.round(ones[:400], 1), np.round(ones[400:], 3))
    occurs, weight = (rng.random(600) < probs).astype(int), rng.random(600)
    answers = {"confidence": probs, "correct": occurs == 1, "weight": weight}
    right = np.arange(600) % 3
    alike = {f"prob_{k}": np.full(600, 0.3) for k in range(2)}
    alike |= {f"label_{k}": (right == k).astype(int) for k in range(2)}
    sure = [{"confidence": np.full(600, each), "correct": right > 0} for each in (1.0, 0.5)]
    event = {"prob_0": 1 - probs, "prob_1": probs, "label": occurs}
    for place, given in enumerate([answers, event, alike, *sure]):
        found = as_parts(tmp_path / f"{place}.parquet", given)
        there = evaluate(found, **QUICK, num_bins=num_bins).arms[0].metrics
        here = evaluate(load_predictions(tmp_path / f"{place}.parquet"), **QUICK, num_bins=num_bins)
        for key, each in here.arms[0].metrics.items():
            assert there[key].value == (each.value and pytest.approx(each.value, abs=1e-12)), key


ROWS = 60
RNG = np.random.default_rng(0)
SURE = RNG.random(ROWS)
RIGHT = (RNG.random(ROWS) < SURE).astype(int)
SPLIT = np.arange(ROWS) % 2


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"prob": SURE, "label": np.array(["no", "yes"])[RIGHT], "site": SURE}, "Labels are words: yes"),
        ({"prob_0": 1 - SURE, "prob_1": SURE, "label": RIGHT, "site": SURE}, "Not used: `site`"),
        ({"confidence": SURE, "correct": RIGHT, "site": SURE, "y": RIGHT}, "Not used: `site`, `y`"),
    ],
)
def test_notes_on_columns_are_those_of_memory(columns, said, tmp_path) -> None:
    """Which columns nothing reads, and which of two words is class 1."""
    notes = as_parts(tmp_path / "a.parquet", columns).notes
    assert set(notes) == set(load_predictions(tmp_path / "a.parquet").notes)
    assert said in " ".join(notes)


def test_tokens_that_the_model_wrote_itself_are_said(tmp_path) -> None:
    """They are the most probable ones, nearly always; columns beside them that nothing reads are named."""
    listed = np.log(np.sort(RNG.dirichlet(np.ones(5), ROWS), axis=1)[:, ::-1][:, :3])
    tokens = [["a", "b", "c"]] * ROWS
    given = {"top_logprobs": listed.tolist(), "top_tokens": tokens, "token": ["a"] * ROWS, "site": SURE}
    notes = as_parts(tmp_path / "a.parquet", given).notes
    assert "in 60 of the first 60 samples. If the model wrote these tokens itself" in " ".join(notes)
    assert "Not used: `site`." in notes
    mixed = given | {"token": ["a", "b", "c"] * (ROWS // 3)}
    notes = as_parts(tmp_path / "b.parquet", mixed).notes
    assert "wrote these tokens" not in " ".join(notes)


def test_numbered_classes_and_one_piece_are_called_so(tmp_path) -> None:
    """Class 0 of two columns; a row that was mended is in one piece."""
    given = {"prob_0": 1 - SURE, "prob_1": SURE + 1e-4 * (np.arange(ROWS) == 3), "label": RIGHT}
    table = as_parts(tmp_path / "a.parquet", given)
    deal = Deal.of(table, 15, fits=False)
    few = sample(table.with_positive(0), deal, "test", ROWS, seed=0)
    assert "class 0 is positive" in " ".join(few.as_binary().notes)
    assert summed(table, deal, 15, (None,))[1][0].endswith("So it is in 1 piece of the table.")


def test_percentages_are_recognised(tmp_path, capsys) -> None:
    path = tmp_path / "a.parquet"
    with pytest.raises(NeedsWholeError, match="with percentages, all samples must be in memory"):
        as_parts(path, {"confidence": np.round(100 * SURE), "correct": RIGHT})
    assert opened_large(path, Reading(), engine="serial") is None
    assert "note: with percentages" in capsys.readouterr().err


def test_weights_of_zero_are_named(tmp_path) -> None:
    """Throughout, or in one half: the weights are at fault, not the number of samples."""
    given = {"prob": SURE, "label": RIGHT}
    none = given | {"weight": 0 * SURE}
    tables = [
        as_parts(tmp_path / f"{k}.parquet", columns)
        for k, columns in enumerate(
            [none, *(given | {"weight": one * 1.0, "split": SPLIT} for one in (SPLIT, 1 - SPLIT))]
        )
    ]
    how = {"bootstrap": 10, "null_draws": 10, "calibrators": ["platt"]}
    said = ("`weights` must not all be zero", "the calibration split must not", "the test split must not")
    for table, words in zip(tables, said, strict=True):
        with pytest.raises(InputError, match=words):
            evaluate(table, **how)
    with pytest.raises(InputError, match=said[2]):
        check(tables[2], {"ece": 0.5}, bootstrap=10)


def test_refusals_name_the_file_and_the_kind(tmp_path) -> None:
    table = as_parts(tmp_path / "a.parquet", {"prob": SURE, "label": RIGHT})
    with pytest.raises(InputError, match=r"a\.parquet: it holds no column `zz`"):
        PartitionedPredictions(tmp_path / "a.parquet", columns=ColumnNames(group="zz"))
    other = Predictions(confidence=SURE, correct=RIGHT)
    with pytest.raises(InputError, match=r"binary with 2 classes, .* got confidences \(top_label\)\."):
        evaluate(table, calibration=other, bootstrap=10, null_draws=10)
