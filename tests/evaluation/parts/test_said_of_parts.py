"""What is said of a table that is read part by part: the same as of the rows in memory."""

import numpy as np
import pytest

from calibrant import InputError, Predictions, evaluate, load_predictions
from calibrant.cli.opening import opened_large
from calibrant.cli.reading import Reading
from calibrant.evaluation import check
from calibrant.evaluation.parts.source import sample, summed
from calibrant.evaluation.parts.sums import Deal
from calibrant.predictions import ColumnNames
from calibrant.predictions.partitioned import NeedsWholeError, PartitionedPredictions
from tables_as_files import as_parts

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
