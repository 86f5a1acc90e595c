"""Tables as people have them: other names of columns, percentages, JSON, and logs of other tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant._math.errors import InputError
from calibrant.predictions import ColumnNames, Predictions, load_predictions
from calibrant.predictions.same_form import save_in_form_of


def read(folder: Path, name: str, text: str, **options: Any) -> Predictions:
    """A file with this text, read."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return load_predictions(path, **options)


@pytest.mark.parametrize(
    ("header", "note"),
    [
        ("y_true,y_prob", "Read `y_true` as `label`, `y_prob` as `prob`."),
        ("y_test,y_score", "Read `y_test` as `label`, `y_score` as `prob`."),
        ("target,p", "Read `target` as `label`, `p` as `prob`."),
        ("Label,Probability", "Read `Label` as `label`, `Probability` as `prob`."),
    ],
)
def test_common_names_of_columns_are_understood_and_said(tmp_path, header, note) -> None:
    """The same event under the names that scikit-learn's users and others take."""
    found = read(tmp_path, "p.csv", f"{header}\n1,0.75\n0,0.5\n")
    assert (found.kind, found.labels.tolist(), found.probs.tolist()) == ("binary", [1, 0], [0.75, 0.5])
    assert note in found.notes


def test_one_column_names_the_positive_class(tmp_path) -> None:
    """``p_spam`` is the probability of spam, and the other word is the other class."""
    found = read(tmp_path, "p.csv", "y_true,p_spam\nspam,0.75\nham,0.5\n")
    assert (found.kind, found.class_names, found.labels.tolist()) == ("binary", ("ham", "spam"), [1, 0])
    assert read(tmp_path, "q.csv", "label,prob_ill\n1,0.75\n0,0.5\n").class_names == ("not ill", "ill")


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_columns_can_be_named(tmp_path, ending) -> None:
    """What is stated counts, and calibrant's own names are then other columns, which a note lists."""
    rows = [
        {"label": 9, "who": "dog", "dog": 0.75, "cat": 0.25, "site": "x"},
        {"label": 9, "who": "cat", "dog": 0.5, "cat": 0.5, "site": "y"},
    ]
    path = tmp_path / f"p.{ending}"
    if ending == "parquet":
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        table = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
        path.write_text("\n".join(map(json.dumps, rows) if ending == "jsonl" else table))
    found = load_predictions(path, columns=ColumnNames(label="who", probs=("cat", "dog"), group="site"))
    assert (found.class_names, found.labels.tolist()) == (("cat", "dog"), [1, 0])
    assert found.probs.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert found.groups == ("x", "y")
    assert found.notes == ("Not used: `label`.",)
    with pytest.raises(InputError, match=r"no column `wo`; it holds `label`, `who`"):
        load_predictions(path, columns=ColumnNames(label="wo"))


def test_other_names_of_confidences_and_arrays(tmp_path) -> None:
    """``conf`` with ``is_correct``; ``y_true`` and ``y_prob`` in an archive; decisions are refused."""
    found = read(tmp_path, "c.csv", "conf,is_correct\n0.75,yes\n0.5,no\n")
    assert (found.kind, found.correct.tolist()) == ("top_label", [True, False])
    np.savez(tmp_path / "p.npz", y_true=[1, 0], y_prob=[0.75, 0.5])
    found = load_predictions(tmp_path / "p.npz")
    assert (found.labels.tolist(), found.probs.tolist()) == ([1, 0], [0.75, 0.5])
    assert "Read `y_prob` as `probs`." in found.notes
    with pytest.raises(InputError, match=r"it holds decisions \(`y_pred`\), and no probabilities"):
        read(tmp_path, "d.csv", "y_true,y_pred\n1,1\n0,0\n")
    with pytest.raises(InputError, match="found no predictions in `truth`, `cat`, `dog`"):
        read(tmp_path, "e.csv", "truth,cat,dog\ncat,1,0\ndog,0,1\n")


def test_which_of_two_columns_is_asked(tmp_path) -> None:
    """Two names for the truth are not guessed between; the option is named."""
    with pytest.raises(
        InputError, match=r"`y_true` or `target`\? Call it `label`, or say so .*--label-column"
    ):
        read(tmp_path, "p.csv", "y_true,target,prob\n1,1,0.5\n0,0,0.5\n")
    found = read(
        tmp_path, "p.csv", "y_true,target,prob\n1,0,0.5\n0,1,0.5\n", columns=ColumnNames(label="target")
    )
    assert found.labels.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("label,prob\n1,75\n0,0.5\n", [0.75, 0.005]),
        ("label,prob\n1,75%\n0,0.5 %\n", [0.75, 0.005]),
        ("label,prob_a,prob_b\na,75,25\nb,50,50\n", [[0.75, 0.25], [0.5, 0.5]]),
        ("confidence,correct\n75,1\n50,0\n", [0.75, 0.5]),
    ],
)
def test_percentages_are_recognised_and_said(tmp_path, text, expected) -> None:
    """Numbers up to 100 that no probability can be, and cells that say %."""
    found = read(tmp_path, "p.csv", text)
    assert (found.confidence if found.kind == "top_label" else found.probs).tolist() == expected
    assert any("percentages and was divided by 100" in note for note in found.notes)


def test_percentages_are_not_guessed_where_they_may_be_probabilities(tmp_path) -> None:
    """Below one both can be meant: the option says it. Rows must sum to 100 for it to be seen."""
    rare = "label,prob\n1,0.7\n0,0.5\n"
    assert read(tmp_path, "p.csv", rare).probs.tolist() == [0.7, 0.5]
    np.testing.assert_allclose(read(tmp_path, "p.csv", rare, percent=True).probs, [0.007, 0.005])
    with pytest.raises(InputError, match=r"must lie in \[0, 1\]"):
        read(tmp_path, "p.csv", "label,prob_a,prob_b\na,3,4\nb,50,50\n")


@pytest.mark.parametrize("columns", ["label,prob", "correct,confidence"])
def test_a_slip_does_not_make_percentages_of_all_the_others(tmp_path, columns) -> None:
    """One value among probabilities, or one cell with a sign, is told with its line and what to do."""
    text = columns + "\n1,0.7\n0,{}\n0,0.5\n"
    with pytest.raises(
        InputError, match=r"in \[0, 1\]; line 3 holds 37; correct it .* percentages.*--percent"
    ):
        read(tmp_path, "p.csv", text.format("37"))
    with pytest.raises(InputError, match="% sign or none; line 3 has one, line 2 lacks one"):
        read(tmp_path, "p.csv", text.format("37%"))


def test_tabs_part_the_cells_of_tsv(tmp_path) -> None:
    """What is saved as .tsv has tabs and comes back."""
    given = Predictions(probs=[[0.25, 0.75], [0.5, 0.5]], labels=[1, 0])
    given.save(tmp_path / "p.tsv")
    assert (tmp_path / "p.tsv").read_text().splitlines()[0] == "label\tprob_0\tprob_1"
    assert load_predictions(tmp_path / "p.tsv").probs.tolist() == given.probs.tolist()


def lines(*records: dict[str, Any]) -> str:
    """JSON lines."""
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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"prob": 0.5}\n{oops', "line 2 is not JSON"),
        ("[1, 2]\n", "line 1 is not a record"),
        ("\n", "it holds no records"),
        (lines({"prob": 0.5, "label": 1}, {"prob": None, "label": 0}), r"line 2 is empty"),
    ],
)
def test_bad_json_is_one_sentence(tmp_path, text, words) -> None:
    """Which line, and what is wrong with it."""
    with pytest.raises(InputError, match=words):
        read(tmp_path, "a.jsonl", text)


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
    """The softmax of summed log-likelihoods is the probability of each answer; acc_norm counts characters."""
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


def test_blanks_of_an_answer_are_counted_as_the_harness_does(tmp_path) -> None:
    """Only the blank before an answer is none of its own; one behind it decides which answer is chosen."""
    samples = [choice(0, [-3.0, -2.2], "a", acc_norm=1.0), choice(1, [-1.0, -4.0], "a", acc_norm=1.0)]
    for each in samples:
        for request, answer in zip(each["arguments"].values(), (" a ", " b"), strict=True):
            request["arg_1"] = answer  # lengths 2 and 1
    # -1.5 and -2.2: without the blank behind it b would be chosen
    found = read(tmp_path, "s.jsonl", lines(*samples), lm_score="acc_norm")
    assert (found.kind, found.labels.tolist()) == ("multiclass", [0, 0])


def test_targets_may_be_the_answers_themselves(tmp_path) -> None:
    """A target that is a number is an answer's place, unless the logged score says it is its text."""
    samples = [choice(0, [-1.0, -2.0], "a", acc=1.0), choice(1, [-1.0, -2.0], "bb", acc=0.0)]
    assert read(tmp_path, "s.jsonl", lines(*samples)).labels.tolist() == [0, 1]


def test_questions_with_unequal_numbers_of_answers_are_judged_by_the_chosen_one(tmp_path) -> None:
    """Answers are then no classes: confidence and whether it was right."""
    samples = [choice(0, [-1.0, -1.0], "1", acc=0.0), choice(1, [-1.0, -2.0, -3.0], "0", acc=1.0)]
    found = read(tmp_path, "s.jsonl", lines(*samples))
    assert found.kind == "top_label"
    assert found.correct.tolist() == [True, True]  # of two equal answers either is the chosen one
    assert "Questions have 2 to 3 answers" in found.notes[1]


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
    assert "Of the filters strict, flexible the first is judged." in found.notes
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


def test_swapped_columns_are_recognised(tmp_path) -> None:
    """Fractions in the place of labels: it is said what they look like."""
    columns = ColumnNames(label="y_score", probs=("y_test",))
    with pytest.raises(InputError, match=r"line 2 holds '0.75'; these look like probabilities .are --label"):
        read(tmp_path, "p.csv", "y_test,y_score\n1,0.75\n0,0.5\n", columns=columns)
    with pytest.raises(InputError, match=r"0 holds 0.75; these look like probabilities\."):
        Predictions(labels=[0.75, 0.5], probs=[1.0, 0.0])


def test_a_column_has_one_role(tmp_path) -> None:
    """Labels that are named as clusters, too, are not said to be missing."""
    path = tmp_path / "t.csv"
    path.write_text("y,p\n0,0.25\n1,0.5\n")
    with pytest.raises(InputError, match="the column `y` is named as label and as cluster; name two"):
        load_predictions(path, columns=ColumnNames(label="y", cluster="y"))
