"""Logs of inspect-ai. Its release 0.3.285 and mock model wrote ``quiz.eval``: two questions, thrice."""

import copy
import json
import math
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from calibrant._math.errors import InputError
from calibrant.predictions import ColumnNames, load_predictions
from calibrant.predictions.files import load_timed
from calibrant.predictions.formats.inspect_log import log_in
from calibrant.predictions.save_like import save_in_form_of

QUIZ = Path(__file__).parent / "quiz.eval"
ORDER = ("q1", "q2", "q1", "q2", "q1", "q2")


def quiz() -> dict[str, Any]:
    log = log_in(QUIZ)
    assert log is not None
    return log


def sample(number: int, text: str, **scores: Any) -> dict[str, Any]:
    """A sample with an answer; scores are values, or whole scores."""
    said = {
        name: each if isinstance(each, dict) and "value" in each else {"value": each}
        for name, each in scores.items()
    }
    reply = {"message": {"content": text, "role": "assistant"}, "stop_reason": "stop"}
    return {"id": number, "epoch": 1, "target": "yes", "output": {"choices": [reply]}, "scores": said}


def log_with(*samples: dict[str, Any], **others: Any) -> dict[str, Any]:
    spec = {"task": "trivia", "model": "mock/one", "task_id": "t1"}
    return {"version": 2, "status": "success", "eval": spec, "samples": [*samples]} | others


def as_json(log: dict[str, Any], path: Path) -> Path:
    path = path.with_suffix(".json")
    path.write_text(json.dumps(log), encoding="utf-8")
    return path


def as_archive(log: dict[str, Any], path: Path) -> Path:
    """The log as inspect-ai wrote it before it used Zstandard."""
    path = path.with_suffix(".eval")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({k: each for k, each in log.items() if k != "samples"}))
        for each in log["samples"]:
            archive.writestr(f"samples/{each['id']}_epoch_{each['epoch']}.json", json.dumps(each))
    return path


def in_pieces(log: dict[str, Any], path: Path) -> Path:
    """The log with each sample in several members, before its header was written."""
    path = path.with_suffix(".eval")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("_journal/start.json", json.dumps({k: log[k] for k in ("version", "eval")}))
        for each in log["samples"]:
            place = f"samples/{each['id']}_epoch_{each['epoch']}"
            rest = {k: cell for k, cell in each.items() if k != "metadata"}
            archive.writestr(f"{place}/sample.json", json.dumps(rest))
            archive.writestr(f"{place}/metadata.json", json.dumps(each["metadata"]))
            archive.writestr(f"{place}/events/0.json", "[]")
    return path


def in_folder(log: dict[str, Any], path: Path) -> Path:
    """The log in a folder, after a run of which it is the retry."""
    path.mkdir()
    first = copy.deepcopy(log)
    first["samples"] = first["samples"][:1]
    as_archive(first, path / "a")
    as_archive(log, path / "b")
    return path


FORMS: Sequence[Callable[[dict[str, Any], Path], Path]] = (as_json, as_archive, in_pieces, in_folder)


def fields(path: Path, **options: Any) -> tuple[Any, ...]:
    found = load_predictions(path, **options)
    return found.kind, found.class_names, found.confidence.tolist(), found.correct.tolist(), found.clusters


STATED = [0.9, 0.7, 0.6, 0.5, 0.8, 0.95]
RIGHT = [True, True, False, False, True, True]


@pytest.mark.parametrize(
    ("score", "columns", "confidence", "right"),
    [
        ("stated", ColumnNames(), STATED, RIGHT),
        ("stated", ColumnNames(label="graded:0.5"), STATED, [True, True, True, False, True, True]),
        ("stated", ColumnNames(label="graded:1"), STATED, RIGHT),
        (
            "recorded",
            ColumnNames(probs=("scores.graded.metadata.certainty",)),
            [0, 0.25, 0.5, 0, 0, 0.25],
            RIGHT,
        ),
        ("agreement", ColumnNames(label="graded:1"), [1.0, 2 / 3], [True, True]),
        (
            "logprobs",
            ColumnNames(label="graded:0.5"),
            [0.75, 0.5, 0.5, 0.5, 0.75, 0.875],
            [True, True, True, False, True, True],
        ),
    ],
)
def test_sources_of_confidence(score, columns, confidence, right) -> None:
    """What answers state, a scorer's number, agreement by semantic cluster, the token of the option."""
    found = load_predictions(QUIZ, lm_score=score, columns=columns)
    assert found.kind == "top_label"
    assert found.confidence.tolist() == pytest.approx(confidence)
    assert found.correct.tolist() == right
    clusters = None if score == "agreement" else tuple(f"quiz/{each}" for each in ORDER)
    assert found.clusters == clusters


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_a_log_are_one(tmp_path, form) -> None:
    path = form(quiz(), tmp_path / "log")
    columns = ColumnNames(group="subject")
    for options in ({}, {"lm_score": "stated"}, {"columns": columns}):
        assert fields(path, **options) == fields(QUIZ, **options)
    assert load_predictions(path, columns=columns).groups == ("law", "art") * 3


@pytest.mark.parametrize("form", FORMS)
def test_answers_have_times(tmp_path, form) -> None:
    """A stream for ``monitor`` has the answers that are evaluated, each with the time of its own sample."""
    log = quiz()
    log["samples"][0]["scores"] = {}
    path, columns = form(log, tmp_path / "log"), ColumnNames(label="graded:0.5")
    found = load_timed(path, time="completed_at", columns=columns)
    read = load_predictions(path, columns=columns)
    assert found.predictions.confidence.tolist() == read.confidence.tolist()
    said = [each["completed_at"][:19] for each in log["samples"][1:]]
    assert found.labelled.tolist() == [True] * len(said)
    assert found.times.astype(str).tolist() == said
    with pytest.raises(InputError, match=r"log.*: it holds no field `when`; it holds `task`"):
        load_timed(path, time="when", columns=columns)


def test_options_are_classes() -> None:
    """If all answers list all options: the logarithm of what is spread over spellings of a letter."""
    found = load_predictions(QUIZ)
    assert (found.kind, found.class_names) == ("multiclass", ("A", "B", "C"))
    assert found.labels.tolist() == [0, 1, 0, 1, 0, 1]
    np.testing.assert_allclose(found.probs[0], np.array([12, 2, 1]) / 15)
    assert "Probabilities are those of the options' tokens (inspect-ai)." in found.notes
    assert "Other scorers, for --label-column: `graded`." in found.notes


def test_only_the_chosen_option(tmp_path) -> None:
    """If a server lists fewer options, its probability; other answers than the token are left out."""
    log = quiz()
    tokens = log["samples"][0]["output"]["choices"][0]["logprobs"]["content"]
    tokens[2]["top_logprobs"][3]["logprob"] = -9999.0
    log["samples"][1]["scores"]["choice"]["answer"] = "C"  # options were shuffled
    log["samples"][2]["scores"]["choice"]["answer"] = "A, C"
    found = load_predictions(as_json(log, tmp_path / "log"))
    assert found.kind == "top_label"
    assert found.confidence.tolist() == pytest.approx([0.75, 0.5, 0.75, 0.875])
    assert any(note.startswith("2 of 6 answers have no such confidence") for note in found.notes)
    assert any(note.endswith("only the chosen one is evaluated.") for note in found.notes)


def test_replies_of_one_word_are_classes(tmp_path) -> None:
    def reply(number: int, word: str, other: str, target: str) -> dict[str, Any]:
        listed = [{"token": word, "logprob": math.log(0.6)}, {"token": f" {other}", "logprob": math.log(0.2)}]
        found = sample(number, word, match="C" if word.casefold() == target else "I") | {"target": target}
        found["output"]["choices"][0]["logprobs"] = {"content": [listed[0] | {"top_logprobs": listed}]}
        return found

    samples = [reply(0, "Yes", "no", "yes"), reply(1, "no", "yes", "yes"), reply(2, "no", "Yes", "no")]
    found = load_predictions(as_json(log_with(*samples), tmp_path / "log"))
    assert (found.kind, found.class_names, found.labels.tolist()) == ("multiclass", ("no", "yes"), [1, 1, 0])
    assert found.probs[:, 1].tolist() == pytest.approx([0.75, 0.25, 0.25])


@pytest.mark.parametrize(
    ("value", "right"),
    [
        ("C", True),
        ("I", False),
        ("N", False),
        (1, True),
        (0.0, False),
        (True, True),
        ("yes", True),
        ("0", False),
    ],
)
def test_marks(tmp_path, value, right) -> None:
    """Letters, numbers and words; a score of several numbers has several marks, and perhaps a confidence."""
    samples = [
        sample(0, "a", judge={"value": {"confidence": 85, "points": value}}),
        sample(1, "b", judge={"value": {"confidence": 70, "points": "C"}}),
    ]
    found = load_predictions(as_json(log_with(*samples), tmp_path / "log"))
    assert (found.confidence.tolist(), found.correct.tolist()) == ([0.85, 0.7], [right, True])
    assert "Right by the marks of `judge.points`." in found.notes


def test_what_is_left_out_is_counted(tmp_path) -> None:
    samples = [sample(k, text, match="CI"[k % 2]) for k, text in enumerate(["90% sure", "70% sure", "yes"])]
    samples += [sample(3, "80% sure"), sample(4, "60% sure", match=math.nan)]
    found = load_predictions(as_json(log_with(*samples, status="cancelled"), tmp_path / "log"))
    assert found.confidence.tolist() == [0.9, 0.7]
    for note in (
        "2 of 5 samples are not marked by `match` and are left out.",
        "1 of 3 answers state no confidence and are left out.",
        "A run ended with status cancelled, so samples may be missing.",
    ):
        assert note in found.notes


def test_a_mark_of_zero_may_be_right(tmp_path) -> None:
    """A scorer of -1 (refuted), 0 (unclear) and 1."""
    samples = [sample(k, f"{90 - k}% sure", match=mark) for k, mark in enumerate((1, 0, -1))]
    path = as_json(log_with(*samples), tmp_path / "log")
    found = load_predictions(path, columns=ColumnNames(label="match:0"))
    assert found.correct.tolist() == [True, True, False]


def test_unmarked_repeats_agree_or_not(tmp_path) -> None:
    """They count among the repeats; a question whose most frequent answer has no mark is left out."""
    answers = [("A", 1), ("A", 1), ("B", math.nan), ("B", math.nan), ("B", math.nan), ("A", 1)]
    answers += [("A", 0), ("A", math.nan), ("A", 0)]
    samples = [
        sample(k // 3, said, match=mark) | {"epoch": 1 + k % 3} for k, (said, mark) in enumerate(answers)
    ]
    found = load_predictions(as_json(log_with(*samples), tmp_path / "log"), lm_score="agreement")
    assert found.confidence.tolist() == pytest.approx([2 / 3, 1])
    assert found.correct.tolist() == [True, False]


def test_tasks_and_models_are_groups(tmp_path) -> None:
    for k in range(2):
        spec = {"task": "trivia", "model": f"mock/{k}", "task_id": f"t{k}"}
        log = log_with(*(sample(j, "90% sure", match="C") for j in range(2)), eval=spec)
        as_archive(log, tmp_path / f"log{k}")
    found = load_predictions(tmp_path, columns=ColumnNames(group=("task", "model")))
    assert found.groups == ("task=trivia; model=mock/0",) * 2 + ("task=trivia; model=mock/1",) * 2
    assert found.clusters == ("trivia/0", "trivia/1") * 2
    assert "It holds 2 models; --group-column model tells them apart." in load_predictions(tmp_path).notes
    (tmp_path / "log2.eval").write_bytes(QUIZ.read_bytes()[:9000])
    with pytest.raises(
        InputError, match=r"log2.eval: it cannot be read as a log of inspect-ai; perhaps it was cut"
    ):
        load_predictions(tmp_path)


@pytest.mark.parametrize("out", ["out.jsonl", "out.json"])
@pytest.mark.parametrize(("score", "epochs"), [("stated", [1, 1, 2, 2, 3, 3]), ("agreement", [1, 1])])
def test_repaired_confidences_say_which_sample_they_are_of(tmp_path, out, score, epochs) -> None:
    columns = ColumnNames(label="graded:1")
    found = load_predictions(QUIZ, lm_score=score, columns=columns)
    save_in_form_of(QUIZ, tmp_path / out, found.replace_probs(found.confidence / 2), columns=columns)
    text = (tmp_path / out).read_text(encoding="utf-8")
    rows = json.loads(text) if out.endswith(".json") else [json.loads(line) for line in text.splitlines()]
    assert [(row["id"], row["epoch"]) for row in rows] == [*zip(ORDER, epochs, strict=False)]
    assert {(row["task"], row["model"]) for row in rows} == {("quiz", "mockllm/model")}
    assert [row["confidence"] for row in rows] == pytest.approx((found.confidence / 2).tolist())


SURE = log_with(sample(0, "90% sure", match="C"), sample(1, "80% sure", match="I"))
PLAIN = log_with(sample(0, "yes", match="C"), sample(1, "no", match="I"))


@pytest.mark.parametrize(
    ("log", "options", "words"),
    [
        (PLAIN | {"version": 3}, {}, r"must be version 2 of inspect-ai's; got 3: convert older logs by"),
        (PLAIN | {"samples": []}, {}, r"it holds no samples; run inspect eval without --no-log-samples"),
        (log_with(sample(0, "yes")), {}, r"no answer is marked .*: inspect score LOG --scorer match"),
        (PLAIN, {}, r"hold no confidence; log one: .*--logprobs --top-logprobs 20.*Confidence: N%"),
        (PLAIN, {"lm_score": "stated"}, r"hold no confidence of the kind stated \(--lm-score\); log one"),
        (PLAIN, {"lm_score": "acc_norm"}, r"`lm_score` must be one of \"acc\", \"recorded\""),
        (
            PLAIN,
            {"columns": ColumnNames(label="judge")},
            r"no scorer `judge` \(--label-column\); it holds `match`",
        ),
        (PLAIN, {"columns": ColumnNames(logits=("a",))}, r"one confidence per answer; name its field"),
        (SURE, {"columns": ColumnNames(group="topic")}, r"it holds no field `topic`"),
        (
            log_with(sample(0, "90% sure", match="P"), sample(1, "80% sure", match=7.5)),
            {},
            r"2 of 2 marks are neither right nor wrong \(as 0.5 by `match`; P is .* match:0.5",
        ),
        (PLAIN | {"samples": [1]}, {}, r"cannot be read as a log of inspect-ai"),
    ],
)
def test_what_is_wrong_with_a_log_is_one_sentence(tmp_path, log, options, words) -> None:
    with pytest.raises(InputError, match=words):
        load_predictions(as_json(log, tmp_path / "log"), **options)


def test_damage_is_one_sentence(tmp_path) -> None:
    content = bytearray(QUIZ.read_bytes())
    content[1500] ^= 1
    for name, text, words in (
        ("cut.eval", QUIZ.read_bytes()[:5000], "perhaps it was cut off"),
        ("other.eval", bytes(content), "cannot be read as a log of inspect-ai"),
    ):
        (tmp_path / name).write_bytes(text)
        with pytest.raises(InputError, match=words):
            load_predictions(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "zip.eval", "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(InputError, match=r"a zip archive, not a log of inspect-ai; pass the \.eval file"):
        load_predictions(tmp_path / "zip.eval")
