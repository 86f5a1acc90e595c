"""A bad file or array gets one sentence: which row, and what to do."""

import functools
import os
import pickle
import re
import tomllib
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from pyarrow.feather import write_feather
from safetensors.torch import save_file

from calibrant import InputError, evaluate, metrics
from calibrant.predictions import (
    ColumnNames,
    Predictions,
    bands_of,
    load_predictions,
    open_predictions,
    predictions_of_positions,
)
from calibrant.predictions.formats.roster import FORMATS, WRITERS
from calibrant.predictions.top_k import predicted_classes

ENDINGS = tuple({write: ending for ending, write in reversed(WRITERS.items())}.values())  # one each
LOGITS = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
PROBS = np.array([[0.5, 0.5], [0.25, 0.75], [0.0, 1.0]])
SAID = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8"))


def exactly(text: str) -> str:
    return rf"\A{re.escape(text)}\Z"


def message(path, **options) -> str:
    """What loading a file says; it names the file first, and is one line that ends in a full stop."""
    with pytest.raises(InputError, match=re.escape(f"{path}: ")) as caught:
        load_predictions(path, **options)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert "\n" not in said
    assert said.endswith(".")
    return said.removeprefix(f"{path}: ")


@pytest.mark.parametrize("name", SAID["arrays"])
def test_bad_arrays(name, tmp_path) -> None:
    case = SAID["arrays"][name]
    np.savez(tmp_path / "p.npz", **case["arrays"])
    assert message(tmp_path / "p.npz", **case.get("options", {})) == case["said"]


@pytest.mark.parametrize("name", SAID["tables"])
def test_bad_tables(name, tmp_path) -> None:
    """Each wrong text is refused with its own sentence, with the number of the line where a cell is wrong."""
    case = SAID["tables"][name]
    options = case.get("options", {})
    if "columns" in options:
        options = options | {"columns": ColumnNames(**options["columns"])}
    path = tmp_path / case.get("file", "p.csv")
    path.write_text(case["text"], encoding="utf-8")
    assert message(path, **options) == case["said"]


class Bomb:
    """An object that would run code on being unpickled."""

    def __reduce__(self):
        return (os.mkdir, ("planted",))


def save_arrays(path: Path, arrays: dict[str, object]) -> None:
    np.savez(path, **arrays)


def save_twice(path: Path, names: Sequence[str]) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            with archive.open(f"{name}.npy", "w") as file:
                np.save(file, LOGITS)


def save_bare(path: Path, array: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, array)


def save_metadata(path: Path, class_names: str) -> None:
    save_file({"logits": torch.zeros(2, 2)}, path, metadata={"class_names": class_names})


WRITTEN: dict[str, tuple[str, Callable[[Path, Any], object], dict[str, Any]]] = {
    "objects": (
        "p.npz",
        save_arrays,
        {
            "no sample": {"logits": np.zeros((0, 3))},
            "complex scores": {"logits": LOGITS * 1j},
            "Python objects": {"logits": LOGITS, "class_names": np.array(["a", "b"], dtype=object)},
            "objects that run code": {"logits": np.array([Bomb(), Bomb()], dtype=object)},
        },
    ),
    "columns": (
        "p.parquet",
        lambda path, columns: parquet.write_table(pyarrow.table(columns), path),
        {
            "no score": {"prob": [0.5, None], "label": [1, 0]},
            "no weight": {"prob": [0.5, 0.5], "weight": [None, 1.0]},
            "a text": {"prob": ["0.5", "x"], "label": [1, 0]},
            "a text for a weight": {"prob": [0.5, 0.5], "weight": ["1", "two"]},
            "no label": {"prob": [0.5, 0.5], "label": [1, None]},
            "no scores": {"x": [0.5, 0.5]},
        },
    ),
    "pt": (
        "p.pt",
        lambda path, held: torch.save(held, path),
        {
            "a tensor": torch.zeros(3, 2),
            "no scores": {"labels": torch.zeros(2)},
            "groups as a dictionary": {"logits": torch.zeros(2, 2), "groups": {"a": 1}},
            "objects that run code": {"logits": torch.zeros(2, 2), "labels": Bomb()},
        },
    ),
    "metadata": (
        "p.safetensors",
        save_metadata,
        {text: text for text in ("cat,dog", '{"0": "cat"}', '"cat"')},
    ),
    "twice": ("p.npz", save_twice, {"logits": ["logits", "labels", "labels"]}),
    "bare": ("p.npz", save_bare, {"logits": LOGITS}),
    "pickled": ("p.npz", lambda path, held: path.write_bytes(pickle.dumps(held)), {"runs code": Bomb()}),
    "latin": (
        "p.csv",
        lambda path, text: path.write_bytes(text.encode("latin-1")),
        {"é": "prob,label\n0.5,é\n"},
    ),
    "empty": ("", lambda path, _: path.touch(), dict.fromkeys(ENDINGS)),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("form", "name"), [(form, name) for form, (_, _, cases) in WRITTEN.items() for name in cases]
)
def test_bad_files(form, name, tmp_path, monkeypatch) -> None:
    """Each is refused with its own sentence, and nothing that is pickled in one is run."""
    monkeypatch.chdir(tmp_path)
    file, write, cases = WRITTEN[form]
    path = tmp_path / (file or f"p{name}")
    write(path, cases[name])
    assert message(path) == (SAID[form] if isinstance(SAID[form], str) else SAID[form][name])
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_of_another_format(ending, tmp_path) -> None:
    path = tmp_path / f"p{ending}"
    path.write_bytes(b"\x93\xff not what you think \x00\xff" * 20)
    known = {".pt": "or it is damaged", ".npz": "it is not a .npz archive"}
    said = message(path)
    anyone = ("it is not UTF-8 text", "perhaps it was cut off or has the wrong ending")
    assert any(words in said for words in ([known[ending]] if ending in known else anyone))
    assert ". " not in said


def test_what_a_library_says_is_one_clause(tmp_path) -> None:
    path = tmp_path / "p.pt"
    torch.save({"logits": torch.zeros(20, 3), "labels": torch.zeros(20)}, path)
    path.write_bytes(path.read_bytes()[:300])
    said = message(path)
    assert "perhaps it was cut off" in said
    assert ". " not in said


def example() -> Predictions:
    """Predictions with everything that a file may hold."""
    rng = np.random.default_rng(0)
    return Predictions(
        logits=rng.normal(size=(20, 3)).astype(np.float32),
        labels=rng.integers(0, 3, 20),
        split=np.arange(20) % 2,
        class_names=["a", "b", "é"],
        weights=rng.random(20),
        groups=["x", "yy"] * 10,
    )


@pytest.mark.parametrize("ending", ENDINGS)
def test_truncated_and_damaged_files(ending, tmp_path_factory) -> None:
    """Wherever a file is cut or its bytes are changed: one sentence, or numbers that passed every check."""
    folder = tmp_path_factory.mktemp("damaged")
    example().save(folder / f"whole{ending}")
    whole = (folder / f"whole{ending}").read_bytes()
    path = folder / f"damaged{ending}"

    @given(st.integers(1, len(whole) - 1))
    def cut(length: int) -> None:
        path.write_bytes(whole[:length])
        is_text = b"\0" not in whole
        if is_text and (whole[:length].count(b"\n") > 1 or whole[:length] == whole.strip()):
            return  # the first rows of a table are a table
        message(path)

    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), min_size=1, max_size=10))
    def change(places: list[tuple[int, int]]) -> None:
        damaged = bytearray(whole)
        for place, byte in places:
            damaged[place] = byte
        path.write_bytes(damaged)
        try:
            said = repr(load_predictions(path))
        except InputError as error:
            said = str(error)
        assert "\n" not in said

    cut()
    change()


def test_texts_that_lie_outside_of_a_feather_file(tmp_path) -> None:
    """Arrow would follow their places and end the process."""
    path = tmp_path / "p.feather"
    table = pyarrow.table({"label": ["a", "b", "a"], "prob_a": [0.9, 0.2, 0.7], "prob_b": [0.1, 0.8, 0.3]})
    write_feather(table, path, compression="uncompressed")
    assert load_predictions(path).labels.tolist() == [0, 1, 0]
    places = np.array([[0, 1, 2, 3], [0, 1 << 28, 1 << 29, 1 << 30]], dtype="<i4")
    path.write_bytes(path.read_bytes().replace(places[0].tobytes(), places[1].tobytes()))
    assert "a .feather file" in message(path)


def test_a_damaged_packed_table(tmp_path) -> None:
    path = tmp_path / "p.csv.gz"
    example().save(path)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"label,prob\n0,0.5\n1,0.5\n"):
        path.write_bytes(content)
        with pytest.raises(
            InputError, match=r"^\S+p\.csv\.gz: it cannot be read as a \.csv\.gz file; perhaps"
        ):
            load_predictions(path)


@pytest.mark.parametrize(
    "columns",
    [
        {"prob": [0.5, 0.25]},
        {"probs": [[0.5, 0.5], [0.25, 0.75]]},
        {"top_logprobs": [[-0.5, -1.2]] * 2, "top_indices": [[0, 1], [1, 0]], "num_classes": [3, 3]},
    ],
    ids=["columns", "lists", "top-k"],
)
def test_damaged_pages_behind_a_whole_footer(columns, tmp_path) -> None:
    """Whatever the form of the table: the footer says what it holds, its pages cannot be read."""
    path = tmp_path / "p.parquet"
    parquet.write_table(pyarrow.table({**columns, "label": [0, 1]}), path)
    load_predictions(path)
    content = bytearray(path.read_bytes())
    pages = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    content[4:pages] = b"\xff" * (pages - 4)
    path.write_bytes(content)
    assert "it cannot be read as a .parquet file; perhaps it was cut off" in message(path)


def test_a_name_that_is_too_long(tmp_path) -> None:
    path = tmp_path / ("x" * 300 + ".npz")
    with pytest.raises(OSError, match=r"^\S+x… cannot be (opened|written): File name too long\.$"):
        load_predictions(path)
    with pytest.raises(OSError, match=r"^\S+x… cannot be written: File name too long\.$"):
        example().save(path)


@pytest.mark.parametrize(
    ("name", "ending"), [("p.dat", "'.dat'"), ("p", "'no ending'"), ("p.npz.gz", "'.gz'")]
)
def test_unknown_endings(name, ending, tmp_path) -> None:
    """Reading and writing list the endings that they know."""
    path = tmp_path / name
    words = f"{path} must end in one of {', '.join(WRITERS)}; got {ending}."
    with pytest.raises(InputError, match=exactly(words)):
        example().save(path)
    assert not path.exists()
    path.write_bytes(b"x")
    readable = f"must end in one of {', '.join(FORMATS)}; got {ending}"
    words = f"{path} {readable}; give its format as `format` (--format)."
    with pytest.raises(InputError, match=exactly(words)):
        load_predictions(path)


def test_files_that_cannot_be_opened(tmp_path, monkeypatch) -> None:
    absent, folder = tmp_path / "absent.npz", tmp_path / "folder.npz"
    with pytest.raises(FileNotFoundError, match=exactly(f"{absent}: no such file.")):
        load_predictions(absent)
    folder.mkdir()
    words = f"{folder} is a directory, not a file of predictions."
    with pytest.raises(IsADirectoryError, match=exactly(words)):
        load_predictions(folder)
    for name in ("checkpoint.pt", "log.txt"):
        (folder / name).touch()
    for names in (("checkpoint.pt",), ("predictions.npz",), ("predictions.csv", "predictions.npz")):
        for name in names:  # by that name, whatever else there is
            (folder / name).touch()
        shown = " or ".join(str(folder / name) for name in names)
        for read in (load_predictions, open_predictions):
            with pytest.raises(IsADirectoryError, match=exactly(f"{words[:-1]}; name one in it: {shown}.")):
                read(folder)

    def denied(*_arguments: object, **_options: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", denied)
    with pytest.raises(PermissionError, match=exactly(f"{absent} cannot be opened: Permission denied.")):
        load_predictions(absent)


@pytest.mark.parametrize("ending", ENDINGS)
def test_failed_writing_leaves_nothing(ending, tmp_path, monkeypatch) -> None:
    """A disk that fills up leaves the old file as it was, and no other."""
    path = tmp_path / f"p{ending}"
    example().save(path)
    before = path.read_bytes()
    original = WRITERS[ending]

    def failing(arrays, where) -> None:
        original(arrays, where)
        where.write_bytes(where.read_bytes()[:100])
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(WRITERS, ending, failing)
    with pytest.raises(OSError, match="No space left on device"):
        example().test.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def of(**given: Any) -> Callable[[], Predictions]:
    """Predictions of three events, with other arguments."""
    return functools.partial(Predictions, **{"probs": [0.5, 0.25, 0.75], "labels": [0, 1, 1], **given})


def three(**given: Any) -> Predictions:
    return Predictions(logits=np.eye(4)[:, :3], labels=[0, 1, 2, 0], **given)


WELL_OR_ILL = {"logits": LOGITS, "class_names": ["well", "ill"]}
TOP = Predictions(confidence=[0.75, 0.5, 1.0], correct=[1, 0, 1])
UNKNOWN = "of all classes are not known: these predictions hold top-label"
OF_TWO = "%s; leave it out"
FROM_ONE = r"if they start at 1, subtract one(\.|, or give)"
PIXELS, MARKS = np.full((3, 4, 4, 5), 0.25), np.zeros((3, 4, 5), int)
CALLS: list[tuple[Callable[[], object], str]] = [
    (of(labels=[0, 10**25, 1]), r"less than 2\*\*63 in size; row 1 holds 10{25}\."),
    (of(labels=[0, 10**25, 1.0]), r"row 1 holds 10{25}\."),
    (of(labels=[[0, 10**25], [1, 1], [0, 1]]), r"row 0 holds \[0, 10{25}\]\."),
    (of(labels=[[0, 10**400], [1, 1], [0, 1]]), r"row 0 holds \[0, 10{15}…"),
    (of(labels=[0, 2**63, 1]), r"less than 2\*\*63 in size; row 1 holds 9223372036854775808\."),
    (of(labels=np.array([0, 2**64 - 1, 1], np.uint64)), "row 1 holds 18446744073709551615"),
    (of(labels=[0, 2.0**63, 1]), r"row 1 holds 9.223372036854776e\+18"),
    (of(labels=[0, None, 1]), "row 1 holds 'None'; leave out rows where it is not known"),
    (of(labels=[0, "x", 1]), "row 1 holds 'x'"),
    (of(labels=["x", "y", None]), "missing in 1 of 3 rows; row 2 holds 'nan'; drop such rows"),
    (of(labels=[0.0, np.nan, 1.0]), "row 1 holds nan; leave out rows where it is not known"),
    (of(weights=[1, None, 1]), "`weights` must hold numbers; row 1 holds 'None'; leave out"),
    (of(labels=[1, 2, 1]), FROM_ONE),
    (of(labels=[1, 2, 3], probs=[[0.5, 0.25, 0.25]] * 3), FROM_ONE),
    (lambda: three().rows([0, 4]), "`index` must name one of 4 rows; got 4."),
    (lambda: three().rows([-5, 0]), "`index` must name one of 4 rows; got -5."),
    (lambda: three().rows([True, False]), "must be a slice, row numbers, or a mask of shape"),
    (lambda: three().rows([0.5, 1.0]), "`index` must hold whole numbers; row 0 holds 0.5."),
    (lambda: three().rows([[0, 1]]), "must be a slice, row numbers, or a mask of shape"),
    (lambda: three().rows([]), "the chosen rows must hold at least two samples; got 0."),
    (lambda: three().test, r"there is no test split; give `split` \(0 for calibration"),
    (lambda: three(split=[1] * 4).calibration, "calibration split must hold at least two samples; got 0"),
    (lambda: three(split=[0, 0, 1, 1], weights=[1, 1, 0, 0]).test, "must not have weight zero throughout"),
    (lambda: three().with_split([0, 1]), r"`split` must have shape \(4,\)"),
    (
        lambda: three().replace_scores(np.zeros((4, 2))),
        r"the same shape \(4, 3\) as the old; got \(4, 2\)",
    ),
    (lambda: three().replace_scores(np.full((4, 3), np.nan)), "row 0 holds nan"),
    (lambda: three().replace_probs(np.zeros((4, 3))), "`probs` must have rows summing to 1"),
    (lambda: Predictions(logits=LOGITS).correct, "`labels` must be given"),
    (lambda: Predictions(confidence=[0.75, 0.5]).correct, "`correct` must be given"),
    (lambda: TOP.replace_probs([0.5, 2.0, 0.5]), "must be between 0 and 1; row 1 holds 2"),
    (lambda: TOP.probs, UNKNOWN),
    (lambda: TOP.scores, UNKNOWN),
    (lambda: TOP.replace_scores([0.0] * 3), UNKNOWN),
    (lambda: predicted_classes(TOP), "which class is predicted must be known"),
    (lambda: TOP.as_binary(1), OF_TWO % "top-label confidences"),
    (lambda: three().as_binary(1), OF_TWO % "3 classes"),
    (lambda: Predictions(logits=np.eye(2), labels=np.eye(2, dtype=int)).as_binary(1), OF_TWO % "2 labels"),
    (lambda: Predictions(**WELL_OR_ILL).as_binary("sick"), "must be 0, 1, well or ill; got 'sick'"),
    (lambda: Predictions(logits=LOGITS).as_binary(2), "must be 0 or 1; got '2'"),
    (
        lambda: evaluate(TOP, labels=[0, 1, 1]),
        "`labels` can't be combined with a `Predictions` object;",
    ),
    (evaluate, "give exactly one of `logits`, `probs` and `confidence`; got none"),
    (
        lambda: bands_of(["1", "end"], name="place"),
        "`place` must hold a number in .* row 1 holds 'end'",
    ),
    (lambda: metrics.accuracy(PIXELS, MARKS[:, :2]), r"must have shape \(3, 4, 5\), one class per position"),
    (
        lambda: predictions_of_positions(probs=PIXELS, labels=MARKS, weights=[1.0, 1.0]),
        r"`weights` must have shape \(3,\) or \(3, 4, 5\); got \(2,\)",
    ),
    (
        lambda: predictions_of_positions(probs=PIXELS[:, :, 0, 0].repeat(3, 0), labels=MARKS[0, 0]),
        r"must have shape \(N, C, d1, ...\); got \(9, 4\)",
    ),
    (
        lambda: predictions_of_positions(probs=PIXELS, labels=MARKS + 255, ignore_index=255),
        "must not all be 255; no position is left",
    ),
    (lambda: predictions_of_positions(labels=MARKS), "give exactly one of `logits` and `probs`"),
]
ARGUMENTS: dict[str, dict[str, Any]] = {
    "nothing": {},
    "two spaces": {"logits": LOGITS, "probs": PROBS},
    "names beside confidence": {"confidence": [0.5, 0.5], "class_names": ["a", "b"]},
    "correct beside logits": {"logits": LOGITS, "correct": [1, 1, 1]},
    "uneven rows": {"logits": [[1.0, 2.0], [3.0]]},
    "a text": {"logits": "abc"},
    "names in one text": {"logits": LOGITS, "class_names": "ab"},
    "no group": {"logits": LOGITS, "groups": [None] * 3},
    "probabilities as labels": {"labels": [0.75, 0.5], "probs": [1.0, 0.0]},
    "NUL": {"logits": LOGITS, "class_names": ["a", "b\0"]},
    "half a letter": {"logits": LOGITS, "groups": ["a", "b", "\ud800"]},
}
CALLS += [
    (functools.partial(Predictions, **given), exactly(SAID["arguments"][name]))
    for name, given in ARGUMENTS.items()
]


@pytest.mark.parametrize(("use", "said"), CALLS)
def test_calls_that_are_refused(use, said) -> None:
    with pytest.raises((InputError, TypeError), match=said):
        use()
