"""Repaired tables keep what they held."""

import contextlib
import json
from pathlib import Path

import pyarrow as arrow
import pytest
from pyarrow import parquet

from calibrant import CalibrantWarning, load_predictions
from calibrant.predictions import ColumnNames
from calibrant.predictions.save_like import save_in_form_of

RISKS = [0.25, 0.5]


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "t.csv",
            'id,y,p_ill,why\n7,1,0.1,"a, b"\n8,0,0.9,c\n',
            'id,y,p_ill,why\n7,1,0.25,"a, b"\n8,0,0.5,c\n',
        ),
        ("t.csv", "y;prob;x\n1;0,1;1,5\n0;0,9;a.b\n", "y;prob;x\n1;0,25;1,5\n0;0,5;a.b\n"),
        ("t.csv", "prob,label\n10%,1\n90%,0\n", "prob,label\n25.0%,1\n50.0%,0\n"),
        (
            "t.tsv",
            "logit\tlabel\tlogits_of\n-1\t1\tm\n2\t0\tm\n",
            "prob\tlabel\tlogits_of\n0.25\t1\tm\n0.5\t0\tm\n",
        ),
        (
            "t.jsonl",
            '{"y": 1, "prob": 0.1, "of": [1]}\n{"prob": 0.9, "y": 0}\n',
            '{"y": 1, "prob": 0.25, "of": [1]}\n{"prob": 0.5, "y": 0}\n',
        ),
    ],
)  # fmt: skip
def test_all_columns_stay_in_their_order(tmp_path: Path, name: str, text: str, expected: str) -> None:
    source, out = tmp_path / name, tmp_path / f"out_{name}"
    source.write_text(text)
    predictions = load_predictions(source)
    assert save_in_form_of(source, out, predictions.replace_probs(RISKS))
    assert out.read_text() == expected
    assert load_predictions(out).probs.tolist() == RISKS


def test_lists_and_pipelines_stay_such(tmp_path: Path) -> None:
    """Records with a list of all classes, and those of a pipeline with its scores by label."""
    lists = [{"id": 5, "logits": [0.0, 1.0, 2.0], "label": 0}] * 2
    piped = [{"scores": [{"label": "b", "score": 0.6}, {"label": "a", "score": 0.4}], "label": "a"}] * 2
    for name, records, probs in (
        ("l.jsonl", lists, [[0.5, 0.25, 0.25]] * 2),
        ("p.json", piped, [[0.75, 0.25]] * 2),
    ):
        source, out = tmp_path / name, tmp_path / f"out_{name}"
        whole = name.endswith(".json")
        source.write_text(json.dumps(records) if whole else "\n".join(map(json.dumps, records)))
        assert save_in_form_of(source, out, load_predictions(source).replace_probs(probs))
        text = out.read_text()
        first = (json.loads(text) if whole else [json.loads(line) for line in text.splitlines()])[0]
        if whole:
            assert first["scores"] == [{"label": "b", "score": 0.25}, {"label": "a", "score": 0.75}]
        else:
            assert first == {"id": 5, "probs": [0.5, 0.25, 0.25], "label": 0}


def test_another_kind_of_file_holds_the_predictions_alone(tmp_path: Path) -> None:
    """From text to JSON lines and to arrays nothing else is kept, which is told; Parquet keeps its types."""
    source = tmp_path / "t.csv"
    source.write_text("id,ill,risk\n7,1,0.1\n8,0,0.9\n")
    columns = ColumnNames(label="ill", probs=("risk",))
    predictions = load_predictions(source, columns=columns).replace_probs(RISKS)
    for ending in (".jsonl", ".json", ".npz"):
        assert not save_in_form_of(source, tmp_path / f"out{ending}", predictions, columns=columns)
        assert load_predictions(tmp_path / f"out{ending}").probs.tolist() == RISKS
    table = arrow.table({"day": arrow.array([1, 2], arrow.date32()), "prob": [0.1, 0.9], "label": [1, 0]})
    parquet.write_table(table, tmp_path / "t.parquet")
    given = load_predictions(tmp_path / "t.parquet")
    assert save_in_form_of(tmp_path / "t.parquet", tmp_path / "o.parquet", given.replace_probs(RISKS))
    found = parquet.read_table(tmp_path / "o.parquet")
    assert found.schema.equals(table.schema)
    assert found["prob"].to_pylist() == RISKS


CELLS = ["=cmd|'/C calc'!A0", "+1+1", "-2+3", "@sum", "-1.5", "+3e-2", "-5%", "- none", "plain"]


@pytest.mark.parametrize("raw", [False, True])
def test_formulas_are_escaped(tmp_path, raw) -> None:
    """What a spreadsheet would run gets a ' before it, numbers with a sign do not; unless they are kept."""
    source, out = tmp_path / "t.csv", tmp_path / "o.csv"
    rows = [f"{text},0.25,{place % 2}" for place, text in enumerate(CELLS)]
    source.write_text("\n".join(["name,prob,label", *rows]) + "\n")
    predictions = load_predictions(source)
    told = pytest.warns(CalibrantWarning, match="^5 texts that a spreadsheet would run .* --raw keeps")
    with contextlib.nullcontext() if raw else told:
        save_in_form_of(source, out, predictions.replace_probs([0.5] * len(CELLS)), raw=raw)
    written = [line.partition(",")[0] for line in out.read_text().splitlines()[1:]]
    assert written == [
        text if raw or text in {"-1.5", "+3e-2", "-5%", "plain"} else f"'{text}" for text in CELLS
    ]
