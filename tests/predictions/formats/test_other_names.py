"""Tables as people have them: other names of columns, percentages, JSON, and logs of other tools."""

import json
import math
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

from calibrant._math.errors import InputError
from calibrant.predictions import (
    ColumnNames,
    Predictions,
    load_predictions,
    open_predictions,
    predictions_from_frame,
)
from calibrant.predictions.files import load_timed
from calibrant.predictions.save_like import save_in_form_of
from tables_as_files import given_as

TABLES = ("csv", "tsv", "json", "jsonl", "parquet", "pandas", "polars")


def read(folder: Path, name: str, text: str, **options: Any) -> Predictions:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_predictions(path, **options)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_columns_can_be_named(tmp_path, ending) -> None:
    """What is stated counts, and calibrant's own names are then other columns, which a note lists."""
    rows = [
        {"label": 9, "who": "dog", "dog": 0.75, "cat": 0.25, "site": "x"},
        {"label": 9, "who": "cat", "dog": 0.5, "cat": 0.5, "site": "y"},
    ]
    columns = ColumnNames(label="who", probs=("cat", "dog"), group="site")
    found = given_as(tmp_path, ending, rows, columns=columns)
    assert (found.class_names, found.labels.tolist()) == (("cat", "dog"), [1, 0])
    assert found.probs.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert found.groups == ("x", "y")
    assert found.notes == ("Not used: `label`.",)
    with pytest.raises(InputError, match=r"no column `wo`; it holds `label`, `who`"):
        given_as(tmp_path, ending, rows, columns=ColumnNames(label="wo"))


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet", "npz"])
@pytest.mark.parametrize("columns", ["label,prob", "correct,confidence"])
def test_scales_are_asked(tmp_path, ending, columns) -> None:
    """Numbers of another scale are never divided by a guess: a sentence names the options."""
    truth, score = columns.split(",")
    for values, beyond in (
        ([90, 0.9, 80, 0.8], 2),  # half percentages, half shares
        ([5, 3, 1, 4], 3),  # stars
        ([9.7, 0.4, 2.3, 1.1], 3),  # margins
        ([2.3, 0.0, 1.1, 0.5], 2),  # entropies
        ([99, 0.5, 45.3, 60], 3),  # percentages of a rare event, or odds
    ):
        rows = [{truth: k % 2, score: value} for k, value in enumerate(values)]
        said = rf"{beyond} of 4 values exceed 1; .*\(--percent\) .*\(--scale 1:5\)"
        with pytest.raises(InputError, match=said):
            given_as(tmp_path, ending, rows)
        given = given_as(tmp_path, ending, rows, scale=(0, 100))
        np.testing.assert_allclose(given.values, np.array(values) / 100, rtol=1e-12)


def test_a_scale_is_brought_to_shares_and_back(tmp_path) -> None:
    """``scale`` says what stands for 0 and 1; repaired tables have it again; beyond it the row is told."""
    text = "id,correct,confidence\na,1,5\nb,0,1\nc,1,4\n"
    found = read(tmp_path, "p.csv", text, scale=(1, 5))
    assert found.confidence.tolist() == [1.0, 0.0, 0.75]
    assert "`confidence` from 1 to 5 was brought to the scale from 0 to 1." in found.notes
    save_in_form_of(tmp_path / "p.csv", tmp_path / "out.csv", found)
    assert (tmp_path / "out.csv").read_text() == "id,correct,confidence\na,1,5.0\nb,0,1.0\nc,1,4.0\n"


def test_tabs_part_the_cells_of_tsv(tmp_path) -> None:
    given = Predictions(probs=[[0.25, 0.75], [0.5, 0.5]], labels=[1, 0])
    given.save(tmp_path / "p.tsv")
    assert (tmp_path / "p.tsv").read_text().splitlines()[0] == "label\tprob_0\tprob_1"
    assert load_predictions(tmp_path / "p.tsv").probs.tolist() == given.probs.tolist()


def lines(*records: dict[str, Any]) -> str:
    return "\n".join(json.dumps(each) for each in records)


def test_json_lines_hold_columns_or_lists(tmp_path) -> None:
    """A record a line: scalars make columns, lists the rows of tables; pipelines list label and score."""
    found = read(tmp_path, "a.jsonl", lines({"y": 1, "prob": 0.75}, {"y": 0, "prob": 0.5}))
    assert (found.labels.tolist(), found.probs.tolist()) == ([1, 0], [0.75, 0.5])
    found = read(tmp_path, "b.jsonl", lines({"label": 1, "logits": [0, 1]}, {"label": 0, "logits": [2, 0]}))
    assert (found.labels.tolist(), found.scores.tolist()) == ([1, 0], [[0, 1], [2, 0]])
    scores = [[{"label": "b", "score": 0.75}, {"label": "a", "score": 0.25}]] * 2
    piped = [{"reference": word, "scores": each} for word, each in zip("ab", scores, strict=True)]
    found = read(tmp_path, "c.jsonl", lines(*piped))
    assert (found.class_names, found.labels.tolist()) == (("a", "b"), [0, 1])
    assert found.probs.tolist() == [[0.25, 0.75]] * 2


def test_arrays_that_hugging_face_evaluate_takes(tmp_path) -> None:
    """``references`` and ``prediction_scores``, as its metrics are called with."""
    text = json.dumps({"references": [1, 0], "prediction_scores": [0.75, 0.5]})
    found = read(tmp_path, "a.json", text)
    assert (found.labels.tolist(), found.probs.tolist()) == ([1, 0], [0.75, 0.5])
    for scores in (([0.25, 0.75], [0.5, 0.5]), (0.75, 0.5)):  # a line for each sample, as callbacks log
        rows = [{"references": y, "prediction_scores": p} for y, p in zip((1, 0), scores, strict=True)]
        (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
        logged = load_predictions(tmp_path / "log.jsonl")
        assert (logged.labels.tolist(), logged.probs.tolist()) == ([1, 0], list(scores))


def choice(doc: int, likelihoods: list[float], target: str, **marks: float) -> dict[str, Any]:
    """A sample as lm-evaluation-harness logs it: numbers as texts, one request for each answer."""
    answers = [" a", " bb", " cccc"][: len(likelihoods)]
    return {
        "doc_id": doc,
        "doc": {"question": "?"},
        "target": target,
        "arguments": {
            f"gen_args_{k}": {"arg_0": "Q: ?\nA:", "arg_1": answer} for k, answer in enumerate(answers)
        },
        "resps": [[[str(value), "False"]] for value in likelihoods],
        "filtered_resps": [[str(value), "False"] for value in likelihoods],
        "filter": "none",
        "metrics": list(marks),
        "doc_hash": "0",
        **marks,
    }


def test_answers_to_choose_from_are_classes(tmp_path) -> None:
    samples = [
        choice(0, [-1.0, -2.0, -6.0], "0", acc=1.0, acc_norm=1.0),
        choice(1, [-3.0, -4.0, -4.0], "2", acc=0.0, acc_norm=1.0),
    ]
    found = read(tmp_path, "samples_task.jsonl", lines(*samples))
    assert (found.kind, found.labels.tolist()) == ("multiclass", [0, 2])
    expected = np.exp([-1.0, -2, -6]) / np.exp([-1.0, -2, -6]).sum()
    np.testing.assert_allclose(found.probs[0], expected, rtol=1e-12)
    assert "softmax of the answers' log-likelihoods (lm-evaluation-harness)" in found.notes[0]
    found = read(tmp_path, "samples_task.jsonl", lines(*samples), lm_score="acc_norm")
    np.testing.assert_allclose(found.scores[1], [-3.0, -2.0, -1.0])  # (1, 2 and 4 characters)
    named = [choice(0, [-1.0, -2.0], "a", acc=1.0), choice(1, [-1.0, -2.0], "bb", acc=0.0)]
    assert read(tmp_path, "s.jsonl", lines(*named)).labels.tolist() == [0, 1]
    with pytest.raises(InputError, match="row 0 holds the log-likelihood of one answer; choices are"):
        read(tmp_path, "s.jsonl", lines(choice(0, [-1.5], "0", acc=1.0)))
    with pytest.raises(InputError, match="a log-likelihood must be a number; sample 0 holds none"):
        read(tmp_path, "s.jsonl", lines(samples[0] | {"filtered_resps": [[None, "False"], [-2.0, "True"]]}))


def test_blanks_of_an_answer_are_counted_as_the_harness_does(tmp_path) -> None:
    """Only the blank before an answer is none of its own; one behind it decides which answer is chosen."""
    samples = [choice(0, [-3.0, -2.2], "a", acc_norm=1.0), choice(1, [-1.0, -4.0], "a", acc_norm=1.0)]
    for each in samples:
        for request, answer in zip(each["arguments"].values(), (" a ", " b"), strict=True):
            request["arg_1"] = answer  # lengths 2 and 1
    # -1.5 and -2.2: without the blank behind it b would be chosen
    found = read(tmp_path, "s.jsonl", lines(*samples), lm_score="acc_norm")
    assert (found.kind, found.labels.tolist()) == ("multiclass", [0, 0])


def test_questions_with_unequal_numbers_of_answers_are_judged_by_the_chosen_one(tmp_path) -> None:
    samples = [choice(0, [-1.0, -1.0], "1", acc=0.0), choice(1, [-1.0, -2.0, -3.0], "0", acc=1.0)]
    found = read(tmp_path, "s.jsonl", lines(*samples))
    assert found.kind == "top_label"
    assert found.correct.tolist() == [False, True]  # of two equal answers the harness takes the first
    assert "Questions have 2 to 3 answers" in found.notes[1]
    unmarked = [choice(0, [-3.0, -1.0], "0", acc=math.nan), samples[1]]
    assert read(tmp_path, "s.jsonl", lines(*unmarked)).correct.tolist() == [False, True]
    unknown = [each | {"target": "?"} for each in unmarked]
    with pytest.raises(InputError, match="not all have a `acc` of 0 or 1"):
        read(tmp_path, "s.jsonl", lines(*unknown))


def test_stated_confidences_of_generated_answers(tmp_path) -> None:
    """What the answer says of itself, and what the harness found; answers that say nothing are counted."""

    def answer(doc: int, text: str, right: float, by: str = "strict") -> dict[str, Any]:
        return {
            "doc_id": doc,
            "target": "4",
            "arguments": {"gen_args_0": {"arg_0": "Q", "arg_1": {"until": []}}},
            "resps": [[text]],
            "filtered_resps": ["4"],
            "filter": by,
            "exact_match": right,
        }

    samples = [
        answer(0, "4. Confidence: 90%", 1.0),
        answer(1, "I am 40% sure: 5", 0.0),
        answer(2, "4", 1.0),
        answer(3, "4. Confidence: 80-90%", 1.0),
        answer(4, "4. Confidence: 70%", 0.5),
        answer(0, "4. Confidence: 90%", 0.0, by="flexible"),
    ]
    found = read(tmp_path, "s.jsonl", lines(*samples))
    assert (found.confidence.tolist(), found.correct.tolist()) == ([0.9, 0.4], [True, False])
    assert "1 of 5 answers state no confidence and are left out." in found.notes
    unread = 'a confidence that is not understood and are left out, such as "4. Confidence: 80-90%".'
    assert f"1 of 5 answers state {unread}" in found.notes
    assert "1 of 5 answers are not marked right or wrong by `exact_match` and are left out." in found.notes
    assert "Filters strict, flexible: the first is used." in found.notes
    repaired = found.replace_probs([0.8, 0.3])
    for out in (tmp_path / "out.jsonl", tmp_path / "out.json"):  # which samples remain, and what they are now
        save_in_form_of(tmp_path / "s.jsonl", out, repaired)
        text = out.read_text()
        rows = json.loads(text) if out.suffix == ".json" else [json.loads(row) for row in text.splitlines()]
        assert [(row["doc_id"], row["target"], row["confidence"]) for row in rows] == [
            (0, "4", 0.8),
            (1, "4", 0.3),
        ]
        again = load_predictions(out)
        assert (again.confidence.tolist(), again.correct.tolist()) == ([0.8, 0.3], [True, False])
    with pytest.raises(InputError, match="End with 'Confidence: N%'"):
        read(tmp_path, "s.jsonl", lines(answer(0, "4", 1.0), answer(1, "5", 0.0)))


def test_fields_within_the_question_name_groups(tmp_path) -> None:
    """Of samples of the harness by their path, or without ``doc``; what is not there is told with what is."""
    samples = [
        choice(k, [-1.0, -2.0], "0", acc=1.0) | {"doc": {"subject": "ab"[k], "meta": {"page": k}}}
        for k in range(2)
    ]
    for name in ("doc.subject", "subject"):
        columns = ColumnNames(group=name, cluster="doc.meta.page")
        found = read(tmp_path, "s.jsonl", lines(*samples), columns=columns)
        assert (found.groups, found.clusters) == (("a", "b"), ("0", "1"))
    columns = ColumnNames(group=("subject", "doc_id"))
    both = read(tmp_path, "s.jsonl", lines(*samples), columns=columns)
    assert both.groups == ("subject=a; doc_id=0", "subject=b; doc_id=1")
    banded = read(tmp_path, "s.jsonl", lines(*samples), columns=ColumnNames(bands=("meta.page:1",)))
    assert banded.groups == ("meta.page=<1", "meta.page=1+")
    with pytest.raises(InputError, match=r"no field `topic`; it holds `doc_id`, `doc.subject`, "):
        read(tmp_path, "s.jsonl", lines(*samples), columns=ColumnNames(group="topic"))
    with pytest.raises(InputError, match="`resps` must hold a text or a number"):
        read(tmp_path, "s.jsonl", lines(*samples), columns=ColumnNames(group="resps"))
    with pytest.raises(InputError, match="hold their own labels and scores"):
        read(tmp_path, "s.jsonl", lines(*samples), columns=ColumnNames(label="target"))


@pytest.mark.parametrize(
    "scores",
    [
        {"logits": [0.5, 1.0, 0.0]},
        {"prob": 0.25},
        {"scores": [{"label": "0", "score": 0.25}, {"label": "1", "score": 0.75}]},
    ],
)
def test_records_name_groups_whatever_holds_their_scores(tmp_path, scores) -> None:
    """Cells, lists and pipelines: a label, a group and a cluster by names of their own, the last within."""
    rows = [scores | {"truth": str(k), "topic": "xy"[k], "meta": {"page": k}} for k in range(2)]
    columns = ColumnNames(label="truth", group="topic", cluster="meta.page")
    found = read(tmp_path, "r.jsonl", lines(*rows), columns=columns)
    assert (found.groups, found.clusters) == (("x", "y"), ("0", "1"))
    assert found.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("true", "predicted", "right"),
    [
        ("9007199254740992", "9007199254740993", False),  # one float64
        ("12e1", "120", False),  # codes of products
        ("007", "7", False),
        ("7", "7.0", True),  # pandas, where the other column has gaps
        ("1", "True", True),
        ("a", "a", True),
    ],
)
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_labels_are_compared_as_they_are_written(tmp_path, ending, true, predicted, right) -> None:
    """Texts that stand for one number are still two names; the other row is 5 and 5."""
    rows = [(true, predicted), ("5", "5")]
    records = [{"confidence": 0.5, "true_label": a, "pred_label": b} for a, b in rows]
    text = "confidence,true_label,pred_label\n" + "".join(f"0.5,{a},{b}\n" for a, b in rows)
    found = read(tmp_path, f"p.{ending}", lines(*records) if ending == "jsonl" else text)
    assert found.correct.tolist() == [right, True]


@pytest.mark.parametrize("nothing", ["", "nan", "NA", "NULL", "None", "?", "N/A", "<NA>"])
def test_nothing_is_no_right_prediction(tmp_path, nothing) -> None:
    """Where neither the truth nor the prediction is known nothing was right; the line is told."""
    text = f"confidence,true_label,pred_label\n0.5,1,1\n0.5,{nothing},{nothing}\n"
    with pytest.raises(InputError, match=r"`true_label` is missing in 1 of 2 rows; line 3 holds .*; drop"):
        read(tmp_path, "p.csv", text)
    words = text.replace("1,1", "some,some")
    if nothing in {"NA", "None", "?", "N/A"}:  # as good a name as any
        assert read(tmp_path, "q.csv", words).correct.tolist() == [True, True]
    else:
        with pytest.raises(InputError, match="`true_label` is missing"):
            read(tmp_path, "q.csv", words)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "json", "parquet", "pandas", "polars"])
@pytest.mark.parametrize("cells", [("95%", "5 %"), ("95,0%", "5%"), ("0.95", "0.05"), ("0,95", "0,05")])
def test_numbers_are_read_however_they_are_written(tmp_path, ending, cells) -> None:
    rows = [{"label": 1, "prob": cells[0]}, {"label": 0, "prob": cells[1]}]
    assert given_as(tmp_path, ending, rows).probs.tolist() == [0.95, 0.05]


def test_decimals_of_parquet_are_numbers(tmp_path) -> None:
    kind = pyarrow.decimal128(10, 3)
    two = [[Decimal("0.25"), Decimal("0.5")], [Decimal("0.75"), Decimal("0.5")]]
    table = {f"prob_{k}": pyarrow.array(each, kind) for k, each in enumerate(two)}
    table["label"] = pyarrow.array([Decimal(1), Decimal(0)], kind)
    parquet.write_table(pyarrow.table(table), tmp_path / "p.parquet")
    for stream in (False, True):
        found = open_predictions(tmp_path / "p.parquet", stream=stream)
        assert found.probs.tolist() == [[0.25, 0.75], [0.5, 0.5]]
        assert found.labels.tolist() == [1, 0]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "pandas"])
@pytest.mark.parametrize(
    "words",
    [("no", "yes"), ("Negative", "Positive"), ("False", "True"), ("no_churn", "churn"), ("Not_spam", "spam")],
)
def test_words_with_a_plain_meaning_are_what_numbers_mean(tmp_path, ending, words) -> None:
    """``p_no`` is the probability of class 0, and of ``prob_yes, prob_no`` yes is class 1."""
    no, yes = words
    for labels in ((1, 0), (yes, no)):
        one = given_as(
            tmp_path, ending, [{"y": y, f"p_{no}": p} for y, p in zip(labels, (0.1, 0.8), strict=True)]
        )
        assert (one.class_names, one.labels.tolist()) == ((yes, no), [0, 1])
        assert one.probs.tolist() == [0.1, 0.8]
        pairs = zip(labels, (0.25, 0.75), strict=True)
        rows = [{"label": y, f"prob_{yes}": 1 - p, f"prob_{no}": p} for y, p in pairs]
        two = given_as(tmp_path, ending, rows)
        assert (two.class_names, two.labels.tolist()) == ((no, yes), [1, 0])
        assert two.probs.tolist() == [[0.25, 0.75], [0.75, 0.25]]


@pytest.mark.parametrize("name", ["class0", "Class_0", "label 0"])
def test_the_probability_of_class_0_is_that_of_the_number_0(tmp_path, name) -> None:
    """``prob_class0`` beside 0 and 1 is no probability of 1; beside words it is that of the word."""
    other = f"{name[:-1]}1"
    for labels in ((1, 0), (other, name)):
        rows = [{"y": y, f"prob_{name}": p} for y, p in zip(labels, (0.1, 0.8), strict=True)]
        found = given_as(tmp_path, "csv", rows)
        assert (found.class_names, found.labels.tolist()) == ((other, name), [0, 1])
        assert found.probs.tolist() == [0.1, 0.8]


@pytest.mark.parametrize("ending", [*TABLES, "npz", "arrays"])
@pytest.mark.parametrize("labels", [[1.0, 2.0, 2.0], [1, 2, 2], ["1", "2", "2"], ["1.0", "2.0", "2.0"]])
def test_numbers_are_names_where_names_are_numbers(tmp_path, ending, labels) -> None:
    """Of ``prob_1 … prob_3`` the label 1 is the first, however it is written, and if 3 is absent."""
    probs = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.3, 0.5]]
    if ending == "npz":
        np.savez(tmp_path / "p.npz", probs=probs, labels=np.array(labels), class_names=[1, 2, 3])
        found = load_predictions(tmp_path / "p.npz")
    elif ending == "arrays":
        found = Predictions(probs=probs, labels=labels, class_names=np.array([1.0, 2.0, 3.0]))
    else:
        rows = [
            {"label": y, **{f"prob_{k}": p for k, p in enumerate(each, 1)}}
            for y, each in zip(labels, probs, strict=True)
        ]
        found = given_as(tmp_path, ending, rows)
    assert (found.class_names, found.labels.tolist()) == (("1", "2", "3"), [0, 1, 1])
    for out in ("o.npz", "o.csv", "o.jsonl", "o.pt", "o.safetensors"):
        found.save(tmp_path / out)
        assert load_predictions(tmp_path / out).labels.tolist() == [0, 1, 1]
    with pytest.raises(InputError, match=r"must name one of the classes \(1, 2, 3\); row 1 holds '4'"):
        Predictions(probs=probs, labels=[1, 4, 2], class_names=["1", "2", "3"])
    places = Predictions(probs=probs, labels=[0, 1, 2], class_names=["1", "2", "3"])
    assert places.labels.tolist() == [0, 1, 2]


def pipelines(names: list[str], truth: list[Any]) -> str:
    """Lines as pipelines write them: the class of each row is the likeliest, whatever it is called."""
    half = 0.5 / (len(names) - 1)
    return lines(
        *(
            {
                "label": each,
                "scores": [
                    {"label": name, "score": 0.5 if k == row else half} for k, name in enumerate(names)
                ][::-1],
            }
            for row, each in enumerate(truth)
        )
    )


def test_numbered_labels_of_a_pipeline_are_classes_in_order(tmp_path) -> None:
    """``LABEL_10`` is class 10, not the second by the alphabet; a repaired file has the same order."""
    text = pipelines([f"LABEL_{k}" for k in range(12)], [*range(12)])
    found = read(tmp_path, "p.jsonl", text)
    assert found.class_names == tuple(f"LABEL_{k}" for k in range(12))
    assert bool(found.correct.all())
    save_in_form_of(tmp_path / "p.jsonl", tmp_path / "out.jsonl", found)
    assert load_predictions(tmp_path / "out.jsonl").probs.tolist() == found.probs.tolist()
    stars = pipelines([str(k) for k in range(1, 13)], [*range(1, 13)])
    assert bool(read(tmp_path, "q.jsonl", stars).correct.all())
    words = ["b", "a", "c"]
    assert bool(read(tmp_path, "r.jsonl", pipelines(words, words)).correct.all())


@pytest.mark.parametrize("truth", [[0, 1, 2], ["0", "1", "2"]])
def test_numbers_beside_the_names_of_a_pipeline_are_asked(tmp_path, truth) -> None:
    """The order of MNLI's classes is the model's: a file with names does not say it."""
    text = pipelines(["entailment", "neutral", "contradiction"], truth)
    with pytest.raises(
        InputError, match=r"`label` holds numbers and `scores` names .*: which number is which"
    ):
        read(tmp_path, "p.jsonl", text)


@pytest.mark.parametrize("bad", [{"label": "a"}, {"score": 0.5}, 3, {"label": "a", "score": "x"}, None])
def test_pipelines_without_a_score_are_refused_by_row(tmp_path, bad) -> None:
    good = {"label": "a", "scores": [{"label": "a", "score": 0.5}, {"label": "b", "score": 0.5}]}
    with pytest.raises(InputError, match=r"`scores` must list labels with scores; line 2 does not\."):
        read(tmp_path, "p.jsonl", lines(good, good | {"scores": [{"label": "b", "score": 0.5}, bad]}))


@pytest.mark.parametrize("ending", TABLES)
def test_classes_are_called_as_the_labels_are(tmp_path, ending) -> None:
    for names, labels, expected in (
        (("Class1", "Class2"), ("Class1", "Class2"), [0, 1]),
        (("cat", "car"), ("cat", "car"), [0, 1]),
        ((".pred_Class1", ".pred_Class2"), ("Class1", "Class2"), [0, 1]),
        (("neg", "neutral", "never"), ("neutral", "never"), [1, 2]),
        (("Level 10", "Level 20"), ("Level 10", "Level 20"), [0, 1]),
        (("Level 10", "Level 20"), ("10", "20"), [0, 1]),
        (("prob_01", "prob_02", "prob_10"), ("02", "10"), [1, 2]),
        (("Class1", "Class2"), (1, 2), [0, 1]),
        (("Class1", "Class2"), (1, 1), [0, 0]),
        (("score_cat", "score_dog"), ("dog", "cat"), [1, 0]),
    ):
        most = 1 - 0.25 * (len(names) - 1)
        rows = [
            {"y": y, **{name: most if k == row else 0.25 for k, name in enumerate(names)}}
            for row, y in enumerate(labels)
        ]
        found = given_as(tmp_path, ending, rows, columns=ColumnNames(label="y", probs=names))
        assert (names, labels, found.labels.tolist()) == (names, labels, expected)


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet", "npz", "pandas"])
def test_the_positive_class_names_the_word_of_a_single_score(tmp_path, ending) -> None:
    """The score is that of spam; without it the option is told. Of numbers it is that of 1."""
    rows = [{"label": "spam", "prob": 0.75}, {"label": "eggs", "prob": 0.5}]
    found = given_as(tmp_path, ending, rows, positive_class="spam")
    assert (found.class_names, found.labels.tolist()) == (("eggs", "spam"), [1, 0])
    with pytest.raises(InputError, match=r"word for class 1 as `positive_class`"):
        given_as(tmp_path, ending, rows)
    numbered = [{"label": 1, "prob": 0.75}, {"label": 0, "prob": 0.5}]
    event = given_as(tmp_path, ending, numbered, positive_class="0").as_binary("0")
    assert (event.labels.tolist(), event.probs.tolist()) == ([0, 1], [0.25, 0.5])


@pytest.mark.parametrize("ending", TABLES)
def test_values_are_refused_by_the_names_of_their_columns(tmp_path, ending) -> None:
    """What is read as `labels` or `probs` is called as the table calls it, in every format."""
    place = {"csv": "line 5", "tsv": "line 5", "jsonl": "line 4"}.get(ending, "row 3")
    for names, wrong, said in (
        ("y_true risk exposure", {"y_true": 7}, "`y_true` must be 0 or 1; ROW holds 7"),
        ("label prob weight", {"label": 7}, "`label` must be 0 or 1; ROW holds 7"),
        ("y_true p_sick w", {"p_sick": 7.5}, "`p_sick` must be between 0 and 1; ROW holds 7.5"),
        ("y_true y_score w", {"w": -1.0}, "`w` must be finite and not negative; ROW holds -1"),
        ("is_right conf w", {"is_right": 7}, "`is_right` must be 0 or 1; ROW holds 7"),
        ("is_right conf w", {"conf": 1.5}, "`conf` must be between 0 and 1; ROW holds 1.5"),
        ("died risk n", {"died": 7}, "`died` must be 0 or 1; ROW holds 7"),
        ("died risk n", {"risk": 7.0}, "`risk` must be between 0 and 1; ROW holds 7"),
        ("died risk n", {"n": -1.0}, "`n` must be finite and not negative; ROW holds -1"),
    ):
        rows = [dict(zip(names.split(), (k % 2, 0.25, 1.0), strict=True)) for k in range(6)]
        rows[3] |= wrong
        columns = ColumnNames(probs="risk") if "risk" in names else None
        if "died" in names:
            columns = ColumnNames(label="died", probs="risk", weight="n")
        with pytest.raises(InputError, match=re.escape(said.replace("ROW", place))):
            given_as(tmp_path, ending, rows, columns=columns)


@pytest.mark.parametrize("ending", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_several_columns_of_scores_are_called_by_their_names(tmp_path, ending) -> None:
    rows = [{"y": k % 2, "p_cat": 0.25, "p_dog": 0.75} for k in range(4)]
    place = {"csv": "line 3", "tsv": "line 3", "jsonl": "line 2"}.get(ending, "row 1")
    rows[1]["p_dog"] = 0.5
    said = f"`p_cat`, `p_dog` must have rows summing to 1; {place} sums to 0.75"
    with pytest.raises(InputError, match=re.escape(said)):
        given_as(tmp_path, ending, rows)
    rows[1]["p_dog"] = 0.7504
    note = "1 of 4 rows of `p_cat`, `p_dog` missed one, by up to 0.0004, and was divided by its sum."
    assert note in given_as(tmp_path, ending, rows).notes
    wide = [{"y": k, **{f"p_{c}": 20 for c in "abcde"}} for k in range(4)]
    note = "`p_a`, `p_b`, `p_c` and 2 more hold percentages and were divided by 100."
    assert note in given_as(tmp_path, ending, wide).notes


def test_folders_and_times_are_refused_by_the_names_of_their_columns(tmp_path) -> None:
    """Parquet in folders, read whole; and a table of times, some of whose labels are not known."""
    (tmp_path / "days" / "day=1").mkdir(parents=True)
    table = pyarrow.table({"y_true": [0, 7], "p_sick": [0.25, 0.5]})
    parquet.write_table(table, tmp_path / "days" / "day=1" / "a.parquet")
    with pytest.raises(InputError, match="`y_true` must be 0 or 1; row 1 holds 7"):
        load_predictions(tmp_path / "days")
    (tmp_path / "t.csv").write_text("when,y_true,p_sick\n1,0,0.5\n2,,0.5\n3,7,0.5\n")
    with pytest.raises(InputError, match="`y_true` must be 0 or 1; line 4 holds 7"):
        load_timed(tmp_path / "t.csv", time="when")


def test_lists_are_refused_by_the_name_of_their_column(tmp_path) -> None:
    """A column whose cells hold the scores of all classes; a label within a record of its own."""
    rows = [{"y_prob": [0.25, 0.75], "doc": {"gold": k}} for k in (1, 7)]
    text = "\n".join(map(json.dumps, rows))
    with pytest.raises(InputError, match=r"`doc.gold` must be 0 or 1; line 2 holds 7"):
        read(tmp_path, "p.jsonl", text, columns=ColumnNames(label="doc.gold"))
    with pytest.raises(InputError, match=r"`y_prob` must have rows summing to 1; line 1 sums to 1.75"):
        read(tmp_path, "q.jsonl", text.replace("0.25", "1.0"))


@pytest.mark.parametrize("ending", TABLES)
@pytest.mark.parametrize("name", ["probs", "logits"])
def test_the_plural_of_a_single_score_is_its_name(tmp_path, ending, name) -> None:
    """As arrays have it: no note, and other common names beside it are not used."""
    rows = [{"labels": k % 2, name: 0.25, "y_score": 3.0} for k in range(4)]
    found = given_as(tmp_path, ending, rows)
    score = 0.25 if name == "probs" else 1 / (1 + math.exp(-0.25))
    assert found.probs.tolist() == pytest.approx([score] * 4)
    assert found.kind == "binary"
    assert found.notes == ("Not used: `y_score`.",)


def test_a_name_alone_is_a_list_of_one() -> None:
    """``ColumnNames(probs="risk")``; and messages about frames name no options of the command line."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"label": [1, 0], "risk": [0.75, 0.5]})
    found = predictions_from_frame(frame, columns=ColumnNames(probs="risk"))
    assert found.probs.tolist() == [0.75, 0.5]
    for columns in (
        {"a": [1, 2]},
        {"y": [1, 0], "target": [1, 0], "p": [0.5, 0.5]},
        {"y": ["sick", "well"], "p": [0.5, 0.5]},
    ):
        with pytest.raises(InputError, match=r"`columns`|`positive_class`") as caught:
            predictions_from_frame(pandas.DataFrame(columns))
        assert "--" not in str(caught.value)


@pytest.mark.parametrize("ending", ["json", "jsonl"])
@pytest.mark.parametrize("name", ["label", "split"])
def test_numbers_of_400_digits_are_one_sentence(tmp_path, ending, name) -> None:
    rows = [{"label": 1, "prob": 0.75}, {"label": 0, "prob": 0.5}]
    rows[0][name] = int("9" * 400)
    with pytest.raises(InputError, match=r"must be less than 2\*\*63 in size; (row 0|line 1) holds 9{20}…"):
        given_as(tmp_path, ending, [{"split": 0} | each for each in rows])


def test_tensors_that_are_no_plain_numbers(tmp_path) -> None:
    probs = torch.tensor([[0.75, 0.25], [0.5, 0.5]])
    torch.save({"probs": probs.to(torch.float8_e4m3fn), "labels": torch.tensor([0, 1])}, tmp_path / "a.pt")
    assert load_predictions(tmp_path / "a.pt").probs.tolist() == probs.tolist()


def test_a_parquet_column_cut_short_is_one_sentence(tmp_path) -> None:
    """A changed byte in a page's header can lose its rows: refused, as other damage is."""
    table = pyarrow.table({"label": [0, 1] * 10, "prob": [0.25, 0.75] * 10})
    parquet.write_table(table, tmp_path / "p.parquet")
    good = (tmp_path / "p.parquet").read_bytes()
    said: list[str] = []
    for place in range(4, len(good) - 8, 3):
        (tmp_path / "q.parquet").write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        try:
            load_predictions(tmp_path / "q.parquet")
        except InputError as error:
            said.append(str(error))
    assert len(said) > 10
    assert not any("\n" in each for each in said)


@pytest.mark.parametrize("ending", TABLES)
def test_missing_labels_are_said_to_be_missing(tmp_path, ending) -> None:
    """By the column's own name, with their number, the first of them and how to leave them out."""
    names = ColumnNames(label="churned", probs="score")
    missing = r"`churned` is missing in 1 of 3 rows; .*dropna\(subset=\['churned'\]\)"
    for nothing in ("" if "sv" in ending else None, "NA", "NaN", "NULL", "None", "?", "N/A", ""):
        rows = [{"churned": y, "score": 0.5} for y in ("1", nothing, "0")]
        with pytest.raises(InputError, match=missing):
            given_as(tmp_path, ending, rows, columns=names)
    words = [{"churned": y, "prob_NA": 0.25, "prob_EU": 0.75} for y in ("NA", "EU")]
    found = given_as(tmp_path, ending, words, columns=ColumnNames(label="churned"))
    assert found.labels.tolist() == [0, 1]  # North America


@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet", "pandas", "polars"])
def test_lists_and_pipelines_are_read_alike_everywhere(tmp_path, ending) -> None:
    """What cells may hold does not depend on the format; lists of another length are refused by their row."""
    scored = [{"label": "b", "score": 0.25}, {"label": "a", "score": 0.75}]
    piped = given_as(tmp_path, ending, [{"truth": each, "scores": scored} for each in "aab"])
    assert (piped.class_names, piped.labels.tolist()) == (("a", "b"), [0, 0, 1])
    assert piped.probs.tolist() == [[0.75, 0.25]] * 3
    rows = [{"y": k % 3, "y_prob": [0.5, 0.25, 0.25]} for k in range(4)]
    assert given_as(tmp_path, ending, rows).probs.tolist() == [[0.5, 0.25, 0.25]] * 4
    rows[2]["y_prob"] = [0.5, 0.5]
    with pytest.raises(InputError, match="`y_prob` must hold 3 numbers in every row, as in the first; "):
        given_as(tmp_path, ending, rows)
