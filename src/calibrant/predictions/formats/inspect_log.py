"""Logs of inspect-ai: ``.eval`` (a zip archive of JSON), folders of such, and ``.json``, read without it.

A confidence is a number that a scorer recorded, the probability of the chosen option's token, the confidence
stated in the answer, or the share of repeats with equal answers. The first available one is used.
Scorers mark answers: ``C`` is 1, ``P`` one half, ``I`` and ``N`` (no answer) are 0.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, TypeGuard

import numpy as np

from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant.predictions.checks import as_number, listing
from calibrant.predictions.formats.aliases import CONFIDENCES, ColumnNames
from calibrant.predictions.formats.contents import damaged
from calibrant.predictions.formats.lm_eval import left_out
from calibrant.predictions.formats.spoken_confidence import Spoken, spoken_confidence
from calibrant.predictions.formats.tables import Table, fields_of_table, names_stated, values_in

Record: TypeAlias = dict[str, Any]

WHICH_SAMPLE = ("task", "model", "id", "epoch", "target")
"""Fields that identify a row's sample, kept next to repaired probabilities."""

_VERSION = 2
_MARKS = {"c": 1, "yes": 1, "true": 1, "p": 0.5, "i": 0, "n": 0, "no": 0, "false": 0}
_RECORDED = ("confidence", *CONFIDENCES)
_MEANINGS = ("semantic_cluster", "cluster_id", "cluster")
"""Names that scorers use for clusters of equivalent answers."""
_UNREAD = frozenset({"attachments", "events", "events_data", "messages", "store", "timelines"})
_SAMPLE = re.compile(r"samples/.+(?:_epoch_\d+|/sample)\.json", re.DOTALL)
_ZSTANDARD = 93


def is_log(found: object) -> TypeGuard[Record]:
    return isinstance(found, dict) and {"version", "eval"} <= found.keys()


def logs_in(path: Path) -> tuple[Path, ...]:
    """Return the logs in a folder by name, which is in order of time."""
    return tuple(sorted(path.glob("*.eval"))) if path.is_dir() else ()


def log_in(path: Path) -> Record | None:
    """Return the log in an archive, or a folder's logs merged; None for other files."""
    if not path.is_dir():
        with path.open("rb") as file:
            return _unpacked(file) if file.read(4) == b"PK\x03\x04" else None
    samples = dict[Any, Record]()
    for each in logs_in(path):
        try:
            with each.open("rb") as file:
                found = _samples(_unpacked(file))
        except InputError as error:
            raise InputError(f"{each.name}: {error}") from error
        samples |= {(s["task_id"], s.get("id"), s.get("epoch")): s for s in found}  # or its retry
    return {"version": _VERSION, "eval": {}, "samples": [*samples.values()]}


def fields_of_log(log: Record, score: str = "acc", columns: ColumnNames | None = None) -> dict[str, Any]:
    """Return the arguments of ``Predictions``.

    ``columns`` name groups and clusters; ``label`` is the scorer, ``probs`` the field of confidences.
    """
    columns = columns or ColumnNames()
    answers, notes = _answers(log, score, columns)
    chosen = [each.confidence for each in answers if isinstance(each.confidence, _Choice)]
    found: dict[str, Any] | None = _of_options(answers, chosen)
    if found is None:
        shares = [float(np.exp(each.listed[each.chosen])) for each in chosen]
        found = {
            "confidence": shares or [each.confidence for each in answers],
            "correct": [int(each.right) for each in answers],
        }
        if chosen:
            why = "Options are not all listed, or targets contradict marks"
            notes += (f"{why}, so only the chosen one is evaluated.",)
    others, samples = replace(columns, label=None, probs=()), [each.sample for each in answers]
    found |= {name: values_in(samples, name, "metadata") for name in names_stated(others)}
    questions = [f"{each['task']}/{each.get('id')}" for each in samples]
    if columns.cluster is None and len(set(questions)) < len(questions):
        found["cluster"] = questions
        notes += ("Answers to the same question are one cluster.",)
    for name in ("task", "model"):
        if (count := len({each[name] for each in samples})) > 1 and not columns.groups:
            notes += (f"It holds {count} {name}s; --group-column {name} tells them apart.",)
    return fields_of_table(Table(names=[*found], column=found.__getitem__, notes=notes), others)


def samples_read(log: Record, notes: Sequence[str], columns: ColumnNames | None) -> list[Record]:
    """Return the samples that are rows of predictions with these notes."""
    score = next((name for name, (_, said) in _SOURCES.items() if said in notes), "acc")
    return [each.sample for each in _answers(log, score, columns or ColumnNames())[0]]


@dataclass(frozen=True)
class _Choice:
    chosen: str
    options: Mapping[str, str]
    listed: Mapping[str, float]
    """The log-probabilities of options."""


@dataclass(frozen=True)
class _Answer:
    sample: Record
    score: Record
    right: bool
    confidence: Any = None

    @property
    def reply(self) -> Record:
        return next(iter((self.sample.get("output") or {}).get("choices") or []), {})

    @property
    def text(self) -> str:
        content = self.reply.get("message", {}).get("content") or ""
        return content if isinstance(content, str) else "\n".join(each.get("text", "") for each in content)

    @property
    def spoken(self) -> Spoken | None:
        return spoken_confidence(self.text)

    @property
    def target(self) -> str:
        target = self.sample.get("target")
        return str(target[0] if isinstance(target, list) and len(target) == 1 else target)

    def recorded(self, names: Sequence[str], *further: Any) -> Any:
        """Return the first value under one of the names in the scores, own first, or extra records."""
        scores = (self.score, *self.sample["scores"].values())
        places = (*(score.get(field) for score in scores for field in ("value", "metadata")), *further)
        found = (each.get(name) for each in places if isinstance(each, Mapping) for name in names)
        return next((each for each in found if isinstance(each, str | int | float)), None)

    @property
    def meaning(self) -> str:
        cluster = self.recorded(_MEANINGS)
        return str(cluster) if cluster is not None else _key(self.score.get("answer") or self.text)

    def choice(self, targets: Sequence[str]) -> _Choice | None:
        """Return the first token after the last word "answer" that is an option."""
        letters = [chr(ord("A") + place) for place, _ in enumerate(self.sample.get("choices") or [])]
        options = {_key(each): each for each in letters or targets}
        tokens = (self.reply.get("logprobs") or {}).get("content") or []
        texts = [each["token"] for each in tokens]
        starts, after = np.cumsum([0, *map(len, texts)]), "".join(texts).casefold().rfind("answer")
        place = next((k for k, each in enumerate(texts) if starts[k] > after and _key(each) in options), None)
        if place is None:
            return None
        chosen, read = _key(texts[place]), map(_key, (self.score.get("answer") or "").split(","))
        if (options.keys() & read) - {chosen} or not (letters or _key("".join(texts)) == chosen):
            return None  # options were shuffled, several are chosen, or the word is one of a longer reply
        found = (*(tokens[place].get("top_logprobs") or ()), tokens[place])
        listed: dict[str, float] = {}
        for token, value in {each["token"]: each["logprob"] for each in found}.items():
            if (key := _key(token)) in options and value > -1000:  # -9999 stands for one not given
                listed[key] = float(np.logaddexp(listed.get(key, -np.inf), value))
        return _Choice(chosen, options, listed) if chosen in listed else None


def _answers(log: Record, score: str, columns: ColumnNames) -> tuple[list[_Answer], tuple[str, ...]]:
    """Return the marked answers with a confidence from its first source, and notes."""
    check_choice("lm_score", score, ("acc", *_SOURCES))
    if columns.logits or len(columns.probs) > 1:
        raise InputError(
            "a log of inspect-ai has one confidence per answer; name its field (--prob-columns)."
        )
    scorer, marked, unmarked, notes = _marked(samples := _samples(log), columns.label)
    if stopped := {str(each["status"]) for each in samples} - {"success"}:
        notes += (f"A run ended with status {min(stopped)}, so samples may be missing.",)
    for source in _SOURCES if score == "acc" else (score,):
        confidences, said = _SOURCES[source]
        named = columns.probs and values_in([each.sample for each in marked], columns.probs[0], "metadata")
        found = named or confidences(marked, unmarked)
        kept = [replace(a, confidence=c) for a, c in zip(marked, found, strict=True) if c is not None]
        if len(kept) < 2:
            continue
        if source == "stated":
            notes += tuple(left_out([(a.sample, a.spoken) for a in marked], len(marked), scorer))
        elif len(kept) < len(marked) and source != "agreement":
            count = len(marked) - len(kept)
            notes += (f"{count} of {len(marked)} answers have no such confidence and are left out.",)
        return kept, (said, f"Right by the marks of {scorer}.", *notes)
    wanted = "" if score == "acc" else f" of the kind {score} (--lm-score)"
    raise InputError(
        f"its answers hold no confidence{wanted}; log one: `confidence` in the metadata of scores, "
        "log-probabilities of options (--logprobs --top-logprobs 20), stated ones (prompt: End with "
        "'Confidence: N%'), or repeats, whose agreement counts (--epochs 10)."
    )


def _samples(log: Record) -> list[Record]:
    """Return the samples with their task and model, without unused fields."""
    if (version := log["version"]) != _VERSION:
        raise InputError(
            f"its format must be version {_VERSION} of inspect-ai's; got {version}: convert older logs by "
            "`inspect log convert`, and update calibrant for newer ones."
        )
    named = {name: log["eval"].get(name) for name in ("task", "model", "task_id")}
    named["status"] = log.get("status")
    found = [
        named | {k: cell for k, cell in each.items() if k not in _UNREAD} for each in log.get("samples") or []
    ]
    if not found:
        raise InputError("it holds no samples; run inspect eval without --no-log-samples.")
    return found


def _marked(
    samples: Sequence[Record], wanted: str | None
) -> tuple[str, list[_Answer], list[_Answer], tuple[str, ...]]:
    """Return the scorers (by default each task's first), their marked and unmarked answers, and notes."""
    marks = [{each[0]: each for each in _marks(sample)} for sample in samples]
    names = list(dict.fromkeys(name for each in marks for name in each))
    if not names:
        raise InputError("no answer is marked right or wrong; score it: inspect score LOG --scorer match.")
    tasks, least = [sample["task"] for sample in samples], None
    scorers = {task: next(iter(each)) for task, each in zip(tasks[::-1], marks[::-1], strict=True) if each}
    if wanted is not None:
        if wanted not in names and (threshold := re.fullmatch(r"(.+):(\d*\.?\d+)", wanted)):
            wanted, least = threshold[1], float(threshold[2])
        if wanted not in names:
            raise InputError(f"it holds no scorer `{wanted}` (--label-column); it holds {listing(names)}.")
        scorers = dict.fromkeys(tasks, wanted)
    rows = zip(samples, tasks, marks, strict=True)
    found = [(sample, each[name]) for sample, task, each in rows if (name := scorers.get(task)) in each]
    between = [mark for _, mark in found if mark[-1] not in {0, 1}]
    if between and least is None:
        name, _, mark = between[0]
        raise InputError(
            f"{len(between)} of {len(found)} marks are neither right nor wrong (as {mark:g} by `{name}`; "
            f"P is 0.5); name the lowest right score: --label-column {name}:1 or {name}:0.5."
        )
    used, notes = list(dict.fromkeys(scorers.values())), tuple[str, ...]()
    if others := wanted is None and [each for each in names if each not in used]:
        notes += (f"Other scorers, for --label-column: {listing(others)}.",)
    if (count := len(samples) - len(found)) > 0:
        notes += (f"{count} of {len(samples)} samples are not marked by {listing(used)} and are left out.",)
    least = 1 if least is None else least
    answers = [_Answer(sample, score, mark >= least) for sample, (_, score, mark) in found]
    unmarked = [
        _Answer(sample, _score_of(sample, scorers.get(task, "")), right=False)
        for sample, task, each in zip(samples, tasks, marks, strict=True)
        if scorers.get(task) not in each
    ]
    return listing(used), answers, unmarked, notes


def _score_of(sample: Record, scorer: str) -> Record:
    """Return the record of a scorer, which may have several parts, also if it gave no mark."""
    scores = sample.get("scores") or {}
    return scores.get(scorer) or scores.get(scorer.partition(".")[0]) or {}


def _marks(sample: Record) -> Iterator[tuple[str, Record, float]]:
    for name, score in (sample.get("scores") or {}).items():
        value = score.get("value")
        for part, cell in value.items() if isinstance(value, Mapping) else [("", value)]:
            mark = as_number(_MARKS.get(cell.lower(), cell) if isinstance(cell, str) else cell)
            if part not in _RECORDED and mark is not None and np.isfinite(mark):
                yield f"{name}.{part}" if part else name, score, mark


def _choices(answers: Sequence[_Answer], _unmarked: Sequence[_Answer]) -> list[_Choice | None]:
    targets = sorted({each.target for each in answers})
    return [each.choice(targets if 1 < len(targets) <= 26 else []) for each in answers]


def _agreement(answers: Sequence[_Answer], unmarked: Sequence[_Answer]) -> list[float | None]:
    """Return the share of each question's most frequent answer, at its first mark; all repeats count."""
    repeats: dict[Any, list[tuple[str, int]]] = defaultdict(list)
    for row, each in enumerate([*answers, *unmarked]):
        repeats[each.sample["task_id"], each.sample.get("id")].append((each.meaning, row))
    shares: list[float | None] = [None for _ in answers]
    for said in repeats.values():
        ((most, count),) = Counter(meaning for meaning, _ in said).most_common(1)
        first = min(row for meaning, row in said if meaning == most)
        if len(said) > 1 and first < len(answers):
            shares[first] = count / len(said)
    return shares


def _key(text: str) -> str:
    return text.strip(" \t\n().:,*$\"'`").casefold()


def _of_options(answers: Sequence[_Answer], choices: Sequence[_Choice]) -> dict[str, Any] | None:
    """Return options as classes, if all answers list the same ones and targets match marks."""
    if not choices:
        return None
    targets, options = [_key(each.target) for each in answers], choices[0].options
    for answer, choice, target in zip(answers, choices, targets, strict=True):
        listed = choice.options == options and choice.listed.keys() == options.keys()
        if not listed or target not in options or answer.right != (choice.chosen == target):
            return None
    scores = {f"logit_{name}": np.array([c.listed[key] for c in choices]) for key, name in options.items()}
    return scores | {"label": [options[each] for each in targets]}


_SOURCES: dict[str, tuple[Callable[[Sequence[_Answer], Sequence[_Answer]], list[Any]], str]] = {
    "recorded": (
        lambda answers, _: [each.recorded(_RECORDED, each.sample.get("metadata")) for each in answers],
        "Confidence is the number that the log records (inspect-ai).",
    ),
    "logprobs": (_choices, "Probabilities are those of the options' tokens (inspect-ai)."),
    "stated": (
        lambda answers, _: [each.spoken and each.spoken.share for each in answers],
        "Confidence is what the answer states (inspect-ai).",
    ),
    "agreement": (_agreement, "Confidence is the share of repeats with the same answer (inspect-ai)."),
}


def _unpacked(file: BinaryIO) -> Record:
    """Return the log in an archive; an unfinished one has no header yet."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = {each.filename: each for each in archive.infolist()}

            def read(name: str) -> dict[str, Any]:
                return json.loads(_content(file, archive, members[name])) if name in members else {}

            log, samples = read("header.json") or read("_journal/start.json"), list[Record]()
            for name in filter(_SAMPLE.fullmatch, members):
                samples.append(read(name))
                if name.endswith("/sample.json"):  # one that is stored in pieces
                    samples[-1] |= {"metadata": read(f"{name.removesuffix('sample.json')}metadata.json")}
    except DAMAGE as error:
        raise InputError(damaged("a log of inspect-ai", error)) from error
    if not is_log(log):
        raise InputError(
            "it is a zip archive, not a log of inspect-ai; pass the .eval file as it was written."
        )
    return log | {"samples": samples}


def _content(file: BinaryIO, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """Read a member of the archive, with Arrow for Zstandard, which zipfile lacks before 3.14."""
    if member.compress_type != _ZSTANDARD:
        return archive.read(member)
    import pyarrow

    file.seek(member.header_offset + 26)  # the sizes of the name and of what follows it
    file.seek(sum(struct.unpack("<HH", file.read(4))), 1)
    packed = pyarrow.BufferReader(file.read(member.compress_size))
    content = pyarrow.CompressedInputStream(packed, "zstd").read(member.file_size + 1)
    if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"{member.filename} is damaged")
    return content
