"""A bad file or array gets one sentence: which row, and what to do."""

import os
import pickle
import re
import zipfile

import numpy as np
import pyarrow
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from safetensors.torch import save_file

from calibrant._math.errors import InputError
from calibrant.predictions import Predictions, load_predictions, open_predictions
from calibrant.predictions.formats.roster import FORMATS, WRITERS

ENDINGS = (".npz", ".csv", ".parquet", ".safetensors", ".pt")
LOGITS = np.array([[2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
PROBS = np.array([[0.5, 0.5], [0.25, 0.75], [0.0, 1.0]])
READS = (
    "name arrays `logits` or `probs`, with `labels` "
    "(or `logits_val`, `labels_val`, `logits_test`, `labels_test`, or the same with `probs`), "
    "or `confidence` with `correct` or with `true_label` and `pred_label`."
)
TO_USE_NAMES = (
    "name the columns in their order, as in `class_names=clf.classes_` (in a table: by headers such as "
    "`prob_cat`)."
)
WHICH_IS_CLASS_1 = (
    "pass the word for class 1 as `positive_class` (--positive-class), both as `class_names`, or "
    "write 1 and 0."
)
LEAVE_OUT = "drop such rows (pandas: `frame.dropna(subset=['label'])`)."
READS_COLUMNS = (
    "name columns `label` and `prob_0`, `prob_1`, ... or `logit_0`, `logit_1`, ... (two classes: `prob`), "
    "or `confidence` and `correct`; "
    "use `columns` (--label-column, --prob-columns) for other names."
)
IF_LOGITS = "if they are logits, name them `logits` (--logit-columns)"


def exactly(text: str) -> str:
    """A pattern that matches this text and no other."""
    return rf"\A{re.escape(text)}\Z"


def changed(values: np.ndarray, place: tuple[int, ...] | int, value: float) -> np.ndarray:
    values = values.astype(float)
    values[place] = value
    return values


def message(path) -> str:
    """What loading a file says; it names the file first, and is one line that ends in a full stop."""
    with pytest.raises(InputError, match=re.escape(f"{path}: ")) as caught:
        load_predictions(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert "\n" not in said
    assert said.endswith(".")
    return said.removeprefix(f"{path}: ")


ARRAYS = {
    "no scores": ({"labels": [0, 1], "x": [1]}, f"found no predictions in `labels`, `x`; {READS}"),
    "empty archive": ({}, f"found no predictions in an empty file; {READS}"),
    "five largest": (
        {"top5_probs": np.zeros((3, 5)), "top5_classes": np.zeros((3, 5))},
        (
            "it holds only the largest probabilities of each sample (`top5_probs`, `top5_classes`); "
            "calibrant needs those of all classes as `probs`, or the largest alone as `confidence` with "
            "`correct` (or with `true_label` and `pred_label`)."
        ),
    ),
    "both spaces": (
        {"logits": LOGITS, "probs": PROBS},
        "it holds both logits and probabilities; keep one of them.",
    ),
    "both spaces in parts": (
        {"logits": LOGITS, "probs_val": PROBS, "probs_test": PROBS},
        "it holds both logits and probabilities; keep one of them.",
    ),
    "both forms": (
        {"logits": LOGITS, "logits_test": LOGITS},
        "it holds both `logits` and `logits_test`; keep one form.",
    ),
    "half a pair": (
        {"probs_val": PROBS},
        "it holds `probs_val` and no `probs_test`; a single set is named `probs`.",
    ),
    "half the labels": (
        {"probs_val": PROBS, "probs_test": PROBS, "labels_test": [0, 0, 1]},
        "it holds `labels_test` and no `labels_val`.",
    ),
    "labels of the other part": (
        {"probs_val": PROBS, "probs_test": PROBS[:2], "labels_val": [0, 1], "labels_test": [0, 1, 1]},
        "`labels_val` must have 3 entries, one per row of `probs_val`; got 2.",
    ),
    "parts of other width": (
        {"logits_val": LOGITS, "logits_test": np.zeros((2, 4))},
        "`logits_val` and `logits_test` must have the same columns; got shapes (3, 2) and (2, 4).",
    ),
    "no outcome": (
        {"confidence": [0.5, 0.5], "pred_label": [1, 2]},
        ("`confidence` needs `correct`, or `true_label` and `pred_label`; found `confidence`, `pred_label`."),
    ),
    "outcomes of two lengths": (
        {"confidence": [0.5, 0.5], "pred_label": [1, 2], "true_label": [1]},
        "`true_label` and `pred_label` must have one entry per sample; got shapes (1,) and (2,).",
    ),
    "correct beyond one": (
        {"confidence": [0.5, 0.5], "correct": [1, 2]},
        "`correct` must be 0 or 1; row 1 holds 2.",
    ),
    "correct too short": (
        {"confidence": [0.5, 0.5], "correct": [1]},
        "`correct` must have shape (2,), one per sample; got (1,).",
    ),
    "confidence as a table": (
        {"confidence": PROBS, "correct": [1, 0, 1]},
        "`confidence` must have shape (N,), one per sample; got (3, 2).",
    ),
    "confidence beyond per cent": (
        {"confidence": [50.0, 190.0], "correct": [1, 0]},
        "`confidence` must be between 0 and 1; row 0 holds 50; it is the probability of the predicted class.",
    ),
    "rank 3": ({"logits": np.zeros((2, 3, 4))}, "`logits` must have shape (N,) or (N, C); got (2, 3, 4)."),
    "rank 0": ({"logits": 3.0, "weights": [1]}, "`logits` must have shape (N,) or (N, C); got ()."),
    "one column": (
        {"logits": LOGITS[:, :1]},
        (
            "`logits` must have at least two columns; got shape (3, 1); for a binary model with one "
            "output pass `logits[:, 0]`."
        ),
    ),
    "one column of probs": (
        {"probs": PROBS[:, :1]},
        (
            "`probs` must have at least two columns; got shape (3, 1); for a binary model with one output "
            "pass `probs[:, 0]`."
        ),
    ),
    "no sample": ({"logits": np.zeros((0, 3))}, "`logits` must hold at least one sample; got 0."),
    "one sample": ({"probs": PROBS[:1], "labels": [0]}, "`probs` must hold at least two samples; got 1."),
    "too few labels": (
        {"logits": LOGITS, "labels": [0, 1]},
        (
            "`labels` must have shape (3,), or (3, 2) for several labels per sample, to go with `logits` "
            "of shape (3, 2); got (2,)."
        ),
    ),
    "labels in a column": (
        {"logits": LOGITS, "labels": [[0], [1], [1]]},
        (
            "`labels` must have shape (3,), or (3, 2) for several labels per sample, to go with `logits` "
            "of shape (3, 2); got (3, 1); pass `labels[:, 0]`."
        ),
    ),
    "NaN": (
        {"logits": changed(LOGITS, (1, 0), np.nan)},
        ("`logits` must be finite; row 1 holds nan; leave that row out, or check the model's input."),
    ),
    "infinite": (
        {"logits": changed(LOGITS, (2, 0), np.inf)},
        ("`logits` must be finite; row 2 holds inf; the model overflows: compute in float32 or float64."),
    ),
    "minus infinite": (
        {"logits": changed(LOGITS, (2, 0), -np.inf)},
        (
            "`logits` must be finite; row 2 holds -inf; "
            "if a class is impossible, pass `probs`, which can be 0."
        ),
    ),
    "NaN among probs": (
        {"probs": changed(PROBS, (1, 0), np.nan)},
        ("`probs` must be between 0 and 1; row 1 holds nan; leave that row out, or check the model's input."),
    ),
    "label too large": (
        {"logits": np.zeros((3, 3)), "labels": [0, 3, 1]},
        "`labels` must be in 0..2; row 1 holds 3.",
    ),
    "label below zero": (
        {"logits": LOGITS, "labels": [0, 1, -1]},
        "`labels` must be 0 or 1; row 2 holds -1; if that means no label, drop such rows.",
    ),
    "fractional label": (
        {"logits": LOGITS, "labels": [0, 0.5, 1]},
        "`labels` must hold whole numbers; row 1 holds 0.5.",
    ),
    "NaN label": (
        {"logits": LOGITS, "labels": [0, 1, np.nan]},
        "`labels` must hold whole numbers; row 2 holds nan; leave out rows where it is not known.",
    ),
    "names without class names": (
        {"logits": LOGITS, "labels": ["0", "1", "cat"]},
        f"`labels` must be whole numbers; row 2 holds 'cat'; {TO_USE_NAMES}",
    ),
    "a name that no class has": (
        {"logits": LOGITS, "labels": ["cat", "cow", "dog"], "class_names": ["cat", "dog"]},
        "`labels` must name one of the classes (cat, dog); row 1 holds 'cow'.",
    ),
    "names that two classes have": (
        {"logits": LOGITS, "labels": ["crane"] * 3, "class_names": ["crane", "crane"]},
        "`labels` must be numbers if two classes share a name, such as 'crane'.",
    ),
    "multilabel beyond one": (
        {"logits": LOGITS, "labels": [[0, 1], [2, 0], [0, 0]]},
        "`labels` must be 0 or 1; row 1 holds [2, 0].",
    ),
    "rows that do not sum to one": (
        {"probs": changed(PROBS, (1, 0), 0.127)},
        (
            "`probs` must have rows summing to 1; row 1 sums to 0.877; "
            f"{IF_LOGITS}; if rounded, divide each row by its sum; "
            "for several labels, use the kind multilabel."
        ),
    ),
    "rows just beyond the tolerance": (
        {"probs": changed(PROBS, (2, 0), 0.0011)},
        (
            "`probs` must have rows summing to 1; row 2 sums to 1.0011; "
            f"{IF_LOGITS}; if rounded, divide each row by its sum; "
            "for several labels, use the kind multilabel."
        ),
    ),
    "logits called probs": (
        {"probs": LOGITS},
        (
            f"`probs` must be between 0 and 1; row 0 holds 2; {IF_LOGITS}; "
            "pass `percent=True` (--percent) if all are percentages."
        ),
    ),
    "negative": (
        {"probs": changed(PROBS, (2, 0), -0.2)},
        f"`probs` must be between 0 and 1; row 2 holds -0.2; {IF_LOGITS}.",
    ),
    "negative by round-off": (
        {"probs": changed(PROBS, (2, 0), -1e-9)},
        "`probs` must be between 0 and 1; row 2 holds -1e-09; set it to 0 if it is a rounding error.",
    ),
    "event beyond one": (
        {"probs": [0.5, 1.002]},
        f"`probs` must be between 0 and 1; row 1 holds 1.002; {IF_LOGITS}.",
    ),
    "texts for scores": (
        {"logits": [["a", "b"], ["c", "d"]]},
        "`logits` must hold numbers; row 0 holds 'a'.",
    ),
    "complex scores": ({"logits": LOGITS * 1j}, "`logits` must hold numbers; got dtype complex128."),
    "unknown split": (
        {"logits": LOGITS, "split": ["val", "test", "train"]},
        "`split` must be 0 (calibration, val) or 1 (test); row 2 holds 'train'.",
    ),
    "split 2": (
        {"logits": LOGITS, "split": [0, 2, 1]},
        "`split` must be 0 (calibration, val) or 1 (test); row 1 holds 2.",
    ),
    "split too short": (
        {"logits": LOGITS, "split": [0, 1]},
        "`split` must have shape (3,), one per sample; got (2,).",
    ),
    "negative weight": (
        {"logits": LOGITS, "weights": [1, -2, 1]},
        "`weights` must be finite and not negative; row 1 holds -2.",
    ),
    "NaN weight": (
        {"logits": LOGITS, "weights": [1, 1, np.nan]},
        "`weights` must be finite and not negative; row 2 holds nan.",
    ),
    "no weight": (
        {"logits": LOGITS, "weights": [0, 0, 0]},
        "`weights` must not all be zero; give at least one sample a positive weight.",
    ),
    "weights too short": (
        {"confidence": [0.5, 0.5], "correct": [0, 1], "weights": [1]},
        "`weights` must have shape (2,), one per sample; got (1,).",
    ),
    "too many class names": (
        {"logits": LOGITS, "class_names": ["a", "b", "c"]},
        "`class_names` must hold 2 names, one per class; got 3.",
    ),
    "class names of a binary file": (
        {"logits": LOGITS[:, 0], "class_names": ["ill"]},
        "`class_names` must hold 2 names, one per class; got 1.",
    ),
    "an empty class name": (
        {"logits": LOGITS, "class_names": ["a", " "]},
        "`class_names` must not hold empty names; number 1 is empty.",
    ),
    "class names in a table": (
        {"logits": LOGITS, "class_names": [["a"], ["b"]]},
        "`class_names` must hold text or whole numbers; row 0 holds list.",
    ),
    "too few groups": (
        {"logits": LOGITS, "groups": ["a"]},
        "`groups` must hold 3 names, one per sample; got 1.",
    ),
    "fractional groups": (
        {"logits": LOGITS, "groups": [0.5, 1, 2]},
        (
            "`groups` must hold text or whole numbers; row 0 holds 0.5; turn bands into text, as in "
            "`pandas.cut(values, 4).astype(str)`."
        ),
    ),
    "unknown kind": (
        {"logits": LOGITS, "kind": "ternary"},
        "`kind` must be one of binary, multiclass, multilabel, top_label; got ternary.",
    ),
    "kind against shape": (
        {"logits": LOGITS, "kind": "binary"},
        "`logits` must be binary; got multiclass of shape (3, 2).",
    ),
    "kind against labels": (
        {"logits": LOGITS, "labels": [0, 1, 1], "kind": "multilabel"},
        "`logits` must be multilabel; got multiclass of shape (3, 2), with labels of shape (3,).",
    ),
    "kind top_label with logits": (
        {"logits": LOGITS, "kind": "top_label"},
        "`correct` and the kind top_label go with `confidence`, not with `logits`.",
    ),
    "kind binary with confidence": (
        {"confidence": [0.5, 0.5], "correct": [0, 1], "kind": "binary"},
        "`confidence` takes `correct`, but no `class_names` or other `kind`.",
    ),
    "Python objects": (
        {"logits": LOGITS, "class_names": np.array(["a", "b"], dtype=object)},
        (
            "`class_names` holds Python objects, which are not loaded because they could run code; "
            "write numbers, or text as `class_names.astype(str)`."
        ),
    ),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_bad_arrays(name, tmp_path) -> None:
    arrays, expected = ARRAYS[name]
    np.savez(tmp_path / "p.npz", **arrays)
    assert message(tmp_path / "p.npz") == expected


TABLES = {
    "no scores": ("id,label\na,1\nb,0\n", f"found no predictions in `id`, `label`; {READS_COLUMNS}"),
    "many columns": (
        ",".join(f"c{index}" for index in range(14)) + "\n",
        (
            f"found no predictions in {', '.join(f'`c{index}`' for index in range(12))} and 2 more; "
            f"{READS_COLUMNS}"
        ),
    ),
    "semicolons": (
        "label;prob_0;prob_1\n1;0,5;0.5.\n",
        "`prob_1` must hold a number in every row; line 2 holds '0.5.'.",
    ),
    "both spaces": (
        "prob_0,prob_1,logit_0,logit_1\n",
        "it holds both logits and probabilities; keep the columns of one of them.",
    ),
    "both forms": ("prob,prob_0,prob_1\n", "it holds both `prob` and `prob_0`; keep one form."),
    "one of many": (
        "label,prob_0\n1,0.5\n0,0.5\n",
        "`prob_0` is the only column of its kind; the single column of a binary model is named `prob`.",
    ),
    "numbers and names": (
        "prob_0,prob_1,prob_max\n1,0,1\n0,1,1\n",
        (
            "the columns `prob_...` must all be numbered or all be named; `prob_max` is named and others "
            "are numbered."
        ),
    ),
    "twice": ("prob_0,prob_1,label,label\n1,0,1,1\n", "the column `label` appears more than once."),
    "a class twice": ("prob_0,prob_1,prob_1\n1,0,1\n", "the column `prob_1` appears more than once."),
    "a label column missing": (
        "prob_0,prob_1,label_1\n1,0,1\n0,1,1\n",
        "it holds no `label_0` to go with `prob_0`.",
    ),
    "no outcome": (
        "confidence,true_label\n0.5,1\n0.25,1\n",
        ("`confidence` needs `correct`, or `true_label` and `pred_label`; found `confidence`, `true_label`."),
    ),
    "ragged": ("prob,label\n0.5,1\n\n0.5\n", "line 4 has 1 cell; the header has 2."),
    "decimal comma": ("prob,label\n0,5,1\n", "line 2 has 3 cells; the header has 2."),
    "not a number": (
        "prob_0,prob_1,label\n1,0,1\n0,one,1\n",
        "`prob_1` must hold a number in every row; line 3 holds 'one'.",
    ),
    "an underscore": (
        "prob,label\n0_1,1\n0.5,1\n",
        "`prob` must hold a number in every row; line 2 holds '0_1'.",
    ),
    "an empty cell": ("prob,label\n0.5,1\n,1\n", "`prob` must hold a number in every row; line 3 is empty."),
    "weight not a number": (
        "prob,weight\n0.5,1\n0.5,heavy\n",
        "`weight` must hold a number in every row; line 3 holds 'heavy'.",
    ),
    "words for labels": (
        "prob,label\n0.5,ill\n0.5,well\n",
        f"`label` must be whole numbers; line 2 holds 'ill'; {WHICH_IS_CLASS_1}",
    ),
    "two forms of one word": (
        "prob,label\n0.5,yes\n0.5,Yes\n",
        f"`label` must be whole numbers; line 2 holds 'yes'; {WHICH_IS_CLASS_1}",
    ),
    "words for labels of classes": (
        "prob_0,prob_1,label\n0.5,0.5,yes\n0.5,0.5,no\n",
        f"`label` must be whole numbers; line 2 holds 'yes'; {TO_USE_NAMES}",
    ),
    "labels that read like places": (
        "prob_0,prob_1,label\n0.5,0.5,row 50\n0.5,0.5,row 1\n",
        f"`label` must be whole numbers; line 2 holds 'row 50'; {TO_USE_NAMES}",
    ),
    "a label missing": (
        "prob,label\n0.5,1\n0.5,\n",
        f"`label` is missing in 1 of 2 rows; line 3 holds ''; {LEAVE_OUT}",
    ),
    "a row of units": (
        "prob,label\n%,-\n50,1\n",
        "`prob` must hold a number in every row; line 2 holds '%'.",
    ),
    "a label not whole": (
        "prob,label\n0.5,1\n0.5,0.5\n",
        f"`label` must be whole numbers; line 3 holds '0.5'; {WHICH_IS_CLASS_1}",
    ),
    "a stranger": (
        "prob_cat,prob_dog,label\n1,0,cat\n0,1,cow\n",
        "`label` must name one of the classes (cat, dog); line 3 holds 'cow'.",
    ),
    "numbers and names for labels": (
        "prob_cat,prob_dog,label\n1,0,cat\n0,1,1\n",
        "`label` must name one of the classes (cat, dog); line 3 holds '1'.",
    ),
    "labels from 0, columns from 1": (
        "prob_1,prob_2,label\n1,0,0\n0,1,1\n",
        "`label` must name one of the classes (1, 2); line 2 holds '0'.",
    ),
    "one of several labels missing": (
        "prob_0,prob_1,label_0,label_1\n1,0,1,1\n0,1,1,\n",
        "`label_1` must be whole numbers; line 3 holds ''; leave out rows where it is not known.",
    ),
    "NaN": (
        "logit_0,logit_1\n1,0\nnan,0\n",
        (
            "`logit_0` must hold a number in every row; line 3 holds 'nan'; "
            "leave that row out, or check the model's input."
        ),
    ),
    "only a header": ("prob,label\n", "`prob` must hold at least one sample; got 0."),
    "two names for one class": (
        "prob,label,negative_class,positive_class\n0.5,1,a,b\n0.5,1,a,c\n",
        "`positive_class` must hold one name, the same in every row.",
    ),
    "an open quote": ('prob,label\n0.5,"1\n0.5,1\n', "line 3 is not CSV (unexpected end of data)."),
    "only blank lines": ("\n\n", f"found no predictions in an empty file; {READS_COLUMNS}"),
    "bad split": (
        "prob,split\n0.5,val\n0.5,\n",
        "`split` must be 0 (calibration, val) or 1 (test); line 3 holds ''.",
    ),
}


@pytest.mark.parametrize("name", TABLES)
def test_bad_tables(name, tmp_path) -> None:
    """Each wrong text is refused with its own sentence, with the number of the line where a cell is wrong."""
    text, expected = TABLES[name]
    (tmp_path / "p.csv").write_text(text, encoding="utf-8")
    assert message(tmp_path / "p.csv") == expected


def test_text_that_is_not_utf8(tmp_path) -> None:
    (tmp_path / "p.csv").write_bytes("prob,label\n0.5,é\n".encode("latin-1"))
    assert (
        message(tmp_path / "p.csv") == "it is not UTF-8 text; save it as such (in a spreadsheet: CSV UTF-8)."
    )


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (
            {"prob": [0.5, None], "label": [1, 0]},
            "`prob` must hold a number in every row; row 1 is empty.",
        ),
        (
            {"prob": [0.5, 0.5], "weight": [None, 1.0]},
            "`weight` must hold a number in every row; row 0 is empty.",
        ),
        (
            {"prob": ["0.5", "x"], "label": [1, 0]},
            "`prob` must hold a number in every row; row 1 holds 'x'.",
        ),
        (
            {"prob": [0.5, 0.5], "weight": ["1", "two"]},
            "`weight` must hold a number in every row; row 1 holds 'two'.",
        ),
        (
            {"prob": [0.5, 0.5], "label": [1, None]},
            f"`label` is missing in 1 of 2 rows; row 1 holds ''; {LEAVE_OUT}",
        ),
        ({"x": [0.5, 0.5]}, f"found no predictions in `x`; {READS_COLUMNS}"),
    ],
)
def test_bad_columns(columns, expected, tmp_path) -> None:
    """Typed columns with gaps, or of texts where numbers belong, are refused by row or by type."""
    parquet.write_table(pyarrow.table(columns), tmp_path / "p.parquet")
    assert message(tmp_path / "p.parquet") == expected


class Bomb:
    """An object that would run code on being unpickled."""

    def __reduce__(self):
        return (os.mkdir, ("planted",))


@pytest.mark.parametrize("holder", ["pt", "pickle as npz", "object array"])
def test_nothing_is_unpickled(holder, tmp_path, monkeypatch) -> None:
    """No file can run code: what is pickled is refused, and what it would have done has not happened."""
    monkeypatch.chdir(tmp_path)
    if holder == "pt":
        path = tmp_path / "p.pt"
        torch.save({"logits": torch.zeros(2, 2), "labels": Bomb()}, path)
        expected = (
            "it holds pickled objects other than tensors, which are not loaded because they could run code, "
            "or it is damaged; write it with torch.save({'logits': logits, 'labels': labels}, path)."
        )
    elif holder == "pickle as npz":
        path = tmp_path / "p.npz"
        path.write_bytes(pickle.dumps(Bomb()))
        expected = (
            "it is not a .npz archive, and pickled objects are not loaded because they could run code; "
            "write it with numpy.savez(path, logits=..., labels=...)."
        )
    else:
        path = tmp_path / "p.npz"
        np.savez(path, logits=np.array([Bomb(), Bomb()], dtype=object))
        expected = (
            "`logits` holds Python objects, which are not loaded because they could run code; "
            "write numbers, or text as `logits.astype(str)`."
        )
    assert message(path) == expected
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            torch.zeros(3, 2),
            "it holds a Tensor; write it with torch.save({'logits': logits, 'labels': labels}, path).",
        ),
        ({"labels": torch.zeros(2)}, f"found no predictions in `labels`; {READS}"),
        (
            {"logits": torch.zeros(2, 2), "groups": {"a": 1}},
            "`groups` must be a sequence of names; got dict.",
        ),
    ],
)
def test_bad_pt(content, expected, tmp_path) -> None:
    torch.save(content, tmp_path / "p.pt")
    assert message(tmp_path / "p.pt") == expected


@pytest.mark.parametrize("text", ["cat,dog", '{"0": "cat"}', '"cat"'])
def test_bad_safetensors_metadata(text, tmp_path) -> None:
    save_file({"logits": torch.zeros(2, 2)}, tmp_path / "p.safetensors", metadata={"class_names": text})
    expected = '`class_names` in the metadata must be a JSON list, such as ["cat", "dog"].'
    assert message(tmp_path / "p.safetensors") == expected


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_array_twice(tmp_path) -> None:
    np.savez(tmp_path / "p.npz", logits=LOGITS, labels=[0, 1, 0])
    with zipfile.ZipFile(tmp_path / "p.npz", "a") as archive, archive.open("labels.npy", "w") as file:
        np.save(file, np.array([1, 1, 1]))
    said = "it holds `labels` twice; write it with numpy.savez(path, logits=..., labels=...)."
    assert message(tmp_path / "p.npz") == said


def test_one_bare_array(tmp_path) -> None:
    with (tmp_path / "p.npz").open("wb") as file:
        np.save(file, LOGITS)
    expected = "it holds one bare array; write it with numpy.savez(path, logits=..., labels=...)."
    assert message(tmp_path / "p.npz") == expected


@pytest.mark.parametrize("ending", ENDINGS)
def test_empty_files(ending, tmp_path) -> None:
    """A file of 0 bytes is said to be empty, whatever its ending."""
    (tmp_path / f"p{ending}").touch()
    assert message(tmp_path / f"p{ending}") == "the file is empty (0 bytes)."


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_of_another_format(ending, tmp_path) -> None:
    path = tmp_path / f"p{ending}"
    path.write_bytes(b"\x93\xff not what you think \x00\xff" * 20)
    known = {".csv": "it is not UTF-8 text", ".pt": "or it is damaged", ".npz": "it is not a .npz archive"}
    said = message(path)
    assert known.get(ending, "perhaps it was cut off or has the wrong ending") in said
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
        if ending == ".csv" and whole[:length].count(b"\n") > 1:
            return  # the first rows of a table are a table
        message(path)

    @given(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), min_size=1, max_size=10))
    @settings(max_examples=100)
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


def test_a_damaged_packed_table(tmp_path) -> None:
    """A .csv.gz that is cut off, or is not packed at all, is one sentence."""
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
    """A missing file, a folder and a forbidden file are OSErrors in one sentence with the path."""
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


@pytest.mark.parametrize(
    ("fields", "error", "words"),
    [
        ({}, InputError, "give exactly one of `logits`, `probs` and `confidence`; got none of them."),
        (
            {"logits": LOGITS, "probs": PROBS},
            InputError,
            "give exactly one of `logits`, `probs` and `confidence`; got `logits` and `probs`.",
        ),
        (
            {"confidence": [0.5, 0.5], "class_names": ["a", "b"]},
            InputError,
            "`confidence` takes `correct`, but no `class_names` or other `kind`.",
        ),
        (
            {"logits": LOGITS, "correct": [1, 1, 1]},
            InputError,
            "`correct` and the kind top_label go with `confidence`, not with `logits`.",
        ),
        (
            {"logits": [[1.0, 2.0], [3.0]]},
            InputError,
            "`logits` must be rectangular: every row needs the same length.",
        ),
        ({"logits": "abc"}, TypeError, "`logits` must hold numbers; row 0 holds 'abc'."),
        (
            {"logits": LOGITS, "class_names": "ab"},
            TypeError,
            "`class_names` must be a sequence of names; got str.",
        ),
        (
            {"logits": LOGITS, "groups": [None] * 3},
            TypeError,
            (
                "`groups` must hold text or whole numbers; row 0 holds None; leave that row out, or call it "
                "'unknown'."
            ),
        ),
        (
            {"logits": LOGITS, "class_names": ["a", "b\0"]},
            InputError,
            "`class_names` must be UTF-8 without NUL; row 1 holds 'b\\x00'.",
        ),
        (
            {"logits": LOGITS, "groups": ["a", "b", "\ud800"]},
            InputError,
            "`groups` must be UTF-8 without NUL; row 2 holds '\\ud800'.",
        ),
    ],
)
def test_bad_arguments(fields, error, words) -> None:
    with pytest.raises(error, match=exactly(words)):
        Predictions(**fields)


@pytest.mark.parametrize(("labels", "prob"), [([1, 2, 1], [0.5] * 3), ([1, 2, 3], [[0.5, 0.25, 0.25]] * 3)])
def test_labels_that_start_at_one_are_recognised(labels, prob) -> None:
    """None is 0 and the largest is the number of classes: one subtracted makes them good."""
    with pytest.raises(InputError, match=r"if they start at 1, subtract one(\.|, or give)"):
        Predictions(probs=prob, labels=labels)
    Predictions(probs=prob, labels=[label - 1 for label in labels])
