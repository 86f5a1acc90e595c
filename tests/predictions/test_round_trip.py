"""What is written is what is read back, for every kind in every format."""

import csv
import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from calibrant._math.errors import InputError
from calibrant.predictions import Predictions, load_predictions
from calibrant.predictions.formats.roster import WRITERS

ENDINGS = tuple({write: ending for ending, write in reversed(WRITERS.items())}.values())  # one each
KINDS = ("binary", "multiclass", "multilabel", "top_label")
NAMES = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=8)


def is_name(text: str) -> bool:
    """Whether a text can name a class in a table: something that is no number."""
    return bool(text.strip()) and not text.strip().isdigit()


@st.composite
def predictions(draw: st.DrawFn, kind: str) -> Predictions:
    """Predictions of a kind, with or without each thing that may be absent."""
    num_samples = draw(st.integers(2, 6))
    num_columns = draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float16, np.float32, np.float64]))
    shape = (num_samples,) if kind in {"binary", "top_label"} else (num_samples, num_columns)
    num_classes = 2 if kind == "binary" else num_columns
    fields: dict[str, object] = {}
    space = "confidence" if kind == "top_label" else draw(st.sampled_from(["logits", "probs"]))
    if space == "logits":
        largest = float(np.finfo(dtype).max)
        floats = st.floats(-largest, largest, width=np.dtype(dtype).itemsize * 8)
        values = draw(st.lists(floats, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))
        fields[space] = np.array(values, dtype=dtype).reshape(shape)
    elif kind == "multiclass":
        concentration = draw(st.sampled_from([1e-3, 1.0, 100.0]))
        fields[space] = rng.dirichlet([concentration] * num_columns, size=num_samples).astype(dtype)
    else:
        fields[space] = rng.choice([0.0, 0.25, rng.random(), 1.0], size=shape).astype(dtype)
    if kind == "top_label":
        fields["correct"] = rng.random(num_samples) < 0.5
        if draw(st.booleans()):  # so that two files can be seen to hold the same samples
            fields["labels"] = rng.integers(0, 9, num_samples)
    elif draw(st.booleans()):
        label_shape = shape if kind == "multilabel" else (num_samples,)
        fields["labels"] = rng.integers(0, num_classes if kind == "multiclass" else 2, label_shape)
        if kind == "multilabel" and draw(st.booleans()):  # which nothing else tells from classes
            fields |= {"labels": np.eye(num_columns, dtype=int)[rng.integers(0, num_columns, num_samples)]}
            fields["kind"] = kind
    elif kind == "multilabel":
        fields["kind"] = kind
    if kind != "top_label" and draw(st.booleans()):
        unique = st.lists(
            NAMES.filter(is_name),
            min_size=num_classes,
            max_size=num_classes,
            unique_by=lambda name: " ".join(name.split()),
        )
        fields["class_names"] = draw(unique)
    if draw(st.booleans()):
        fields["split"] = rng.integers(0, 2, num_samples)
    if draw(st.booleans()):
        fields["weights"] = rng.random(num_samples) + 1e-300
    if draw(st.booleans()):
        fields["groups"] = draw(st.lists(NAMES, min_size=num_samples, max_size=num_samples))
        fields["clusters"] = [each.strip() or "x" for each in fields["groups"][::-1]]
    return Predictions(**fields)


def there_and_back(given_predictions: Predictions, ending: str) -> tuple[Predictions, torch.dtype | None]:
    """What is read back, and the dtype that it must have: float64 from text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"predictions{ending}"
        given_predictions.save(path)
        return load_predictions(path), torch.float64 if is_text(path) else None


def is_text(path: Path) -> bool:
    try:
        return "\0" not in path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return False


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_round_trip_is_exact(kind, ending, assert_same) -> None:
    """Every value, dtype, label, split, weight, name and group survives; text gives the values in float64."""

    @given(predictions(kind))
    @settings(max_examples=12)
    def check(expected: Predictions) -> None:
        found, dtype = there_and_back(expected, ending)
        assert_same(found, expected, dtype=dtype)

    check()


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("space", ["logits", "probs"])
def test_bfloat16_keeps_its_values(space, ending, assert_same) -> None:
    """Formats that know no bfloat16 hold the same values in float32 (text: float64)."""
    values = torch.tensor([[0.5, 0.5], [0.25, 0.75], [1.0, 0.0]], dtype=torch.bfloat16)
    expected = Predictions(**{space: values}, labels=[0, 1, 0])
    found, dtype = there_and_back(expected, ending)
    if dtype is None and found.values.dtype != torch.bfloat16:
        dtype = torch.float32
    assert_same(found, expected, dtype=dtype)


@pytest.mark.parametrize("ending", ENDINGS)
def test_repaired_probabilities_are_not_repaired_again(ending, assert_same) -> None:
    """Rows divided by their sum once are read back as they are, in every format, and without a note."""
    probs = np.array([[0.3333, 0.3333, 0.3333], [0.1, 0.2, 0.7], [1.0005, 0.0, 0.0]], dtype=np.float16)
    expected = Predictions(probs=probs, labels=[0, 1, 2])
    assert expected.values.dtype == torch.float32
    found, dtype = there_and_back(expected, ending)
    assert_same(found, expected, dtype=dtype)
    assert len(expected.notes) == 1
    assert found.notes == ()


@pytest.mark.parametrize("names", [["yes", "no"], ["True", "False"], ["Pos", "Neg"]])
def test_columns_that_would_be_read_the_other_way_round_are_refused(names, tmp_path) -> None:
    """Of two opposites a table's positive one is class 1; arrays keep their order."""
    other = Predictions(probs=[[0.75, 0.25], [0.5, 0.5]], labels=[1, 0], class_names=names)
    with pytest.raises(InputError, match=f"columns for {names[0]} and {names[1]} are read as {names[1]} and"):
        other.save(tmp_path / "p.csv")
    other.save(tmp_path / "p.npz")
    assert load_predictions(tmp_path / "p.npz").class_names == (*names,)
    usual = Predictions(probs=[[0.75, 0.25], [0.5, 0.5]], labels=[1, 0], class_names=names[::-1])
    usual.save(tmp_path / "p.csv")
    assert load_predictions(tmp_path / "p.csv").class_names == (*names[::-1],)


def test_round_trip_bites_on_rounded_text(assert_same, monkeypatch) -> None:
    def rounding(arrays, path: Path) -> None:
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["logit_0", "logit_1"])
            writer.writerows([f"{value:.6g}" for value in row] for row in arrays["logits"].tolist())

    monkeypatch.setitem(WRITERS, ".csv", rounding)
    expected = Predictions(logits=np.array([[1 / 3, 2.0], [0.0, 1.0]]))
    with pytest.raises(AssertionError, match="equal"):
        assert_same(there_and_back(expected, ".csv")[0], expected)


@pytest.mark.parametrize("ending", [".npz", ".safetensors", ".pt"])
@pytest.mark.parametrize("names", [("1", "0"), ("3", "7"), ("crane", "crane"), ("0", "other")])
def test_array_formats_take_every_class_name(names, ending, assert_same) -> None:
    """Numbers for names, and two classes of one name (as in ImageNet), survive where they are no columns."""
    expected = Predictions(logits=[[1.0, 2.0], [2.0, 1.0]], labels=torch.tensor([0, 1]), class_names=names)
    assert_same(there_and_back(expected, ending)[0], expected)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_classes_called_by_other_numbers_survive_in_a_table(ending, assert_same) -> None:
    """Names 3 and 7 cannot be mistaken for the numbers of columns; labels are then names too."""
    expected = Predictions(logits=[[1.0, 2.0], [2.0, 1.0]], labels=[0, 1], class_names=["3", "7"])
    assert_same(there_and_back(expected, ending)[0], expected)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("1", "0"), "the class name '1' would be taken for the number of a column in a table"),
        (("0", "other"), "the class name '0' would be taken for the number of a column in a table"),
        (("crane", "crane"), "columns must have different names, and two classes are called 'crane'"),
    ],
)
def test_tables_refuse_names_that_would_not_come_back(names, words, ending, tmp_path) -> None:
    """Rather than lose or permute classes, a table refuses such names, and no file is left."""
    table = Predictions(logits=[[1.0, 2.0], [2.0, 1.0]], labels=[0, 1], class_names=names)
    path = tmp_path / f"p{ending}"
    with pytest.raises(InputError, match=rf"\A{re.escape(f'{path}: {words}; write .npz.')}\Z"):
        table.save(path)
    assert list(tmp_path.iterdir()) == []


def test_pt_of_a_split_holds_only_its_rows(tmp_path) -> None:
    """A slice of a large table is saved without the rest of the storage it looks into."""
    table = Predictions(logits=np.zeros((10_000, 10)), split=np.arange(10_000) >= 10)
    table.calibration.save(tmp_path / "small.pt")
    assert (tmp_path / "small.pt").stat().st_size < 10_000


def test_source_and_notes_belong_to_the_file_that_was_read(tmp_path) -> None:
    table = Predictions(logits=[1.0, -2.0], labels=[0, 1], notes=["Measured in May."])
    table.save(tmp_path / "p.npz")
    found = load_predictions(tmp_path / "p.npz")
    assert found.notes == ()
    assert (found.source.name, found.source.format) == ("p.npz", "npz")
    assert len(found.source.sha256) == 64
