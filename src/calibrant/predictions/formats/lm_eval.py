"""Samples that lm-evaluation-harness logged (``samples_TASK_*.jsonl``, by ``--log_samples``).

**Multiple choice**: each answer has the log-likelihood of its text, summed over its tokens. Their softmax
gives the model's probabilities among the offered answers. ``acc_norm`` first divides each log-likelihood by
the answer's number of characters, ``acc_bytes`` by its number of bytes.

**Generated answers**: the confidence is the last one stated in the answer, as in "Confidence: 85%". The
harness itself marks answers as right or wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant.predictions.checks import as_number
from calibrant.predictions.formats.aliases import ColumnNames
from calibrant.predictions.formats.spoken_confidence import Spoken, spoken_confidence
from calibrant.predictions.formats.tables import Table, names_stated, values_in

LmScore: TypeAlias = Literal["acc", "acc_norm", "acc_bytes", "recorded", "logprobs", "stated", "agreement"]
"""The first three score samples of lm-evaluation-harness, the others logs of inspect-ai (``acc``: any)."""
Sample: TypeAlias = Mapping[str, Any]
Found: TypeAlias = tuple[dict[str, Any], tuple[str, ...]]
"""Columns, and what to say of them."""

MARKS_OF_ANSWERS = ("exact_match", "acc", "em", "correct", "score")
"""The metrics that say of a generated answer whether it is right, as 0 or 1."""

WHICH_SAMPLE = ("doc_id", "filter", "target", "doc_hash", "prompt_hash", "target_hash")
"""Fields that identify a row's sample, kept next to repaired probabilities."""


def are_samples(records: Sequence[Mapping[str, Any]]) -> bool:
    return "doc_id" in records[0] and bool({"filtered_resps", "resps"} & set(records[0]))


def table_of_samples(
    samples: Sequence[Sample], *, score: LmScore = "acc", columns: ColumnNames | None = None
) -> Table:
    """Return scores and labels, and the fields that ``columns`` may use for groups and clusters."""
    check_choice("lm_score", score, get_args(LmScore)[:3])
    if columns is not None and (columns.label or columns.probs or columns.logits):
        raise InputError(
            "samples of lm-evaluation-harness hold their own labels and scores; `columns` can name their "
            "groups and clusters only (--group-column, --cluster)."
        )
    read = samples_read(samples)
    stated = {name: values_in(read, name, "doc") for name in names_stated(columns)}
    samples, notes = _of_one_filter(samples)
    chosen = _likelihoods(samples[0]) is not None
    found, said = _of_choices(samples, score) if chosen else _of_answers(samples)
    columns_found = found | stated
    return Table(
        names=[*columns_found],
        column=columns_found.__getitem__,
        lists=frozenset(found) & {"logits"},
        notes=(*said, *notes),
    )


def samples_read(samples: Sequence[Sample]) -> Sequence[Sample]:
    """Return the samples that :func:`table_of_samples` uses, in the order of the rows."""
    samples, _ = _of_one_filter(samples)
    if _likelihoods(samples[0]) is not None:
        return samples
    return [sample for sample, _ in _stated(_judged(samples)[1])]


def _of_one_filter(samples: Sequence[Sample]) -> tuple[Sequence[Sample], tuple[str, ...]]:
    """Return the samples of the first filter; the harness logs each answer once per filter."""
    filters = list(dict.fromkeys(str(each.get("filter")) for each in samples))
    if len(filters) == 1:
        return samples, ()
    kept = [each for each in samples if str(each.get("filter")) == filters[0]]
    return kept, (f"Filters {', '.join(filters)}: the first is used.",)


def _likelihoods(sample: Sample) -> list[float] | None:
    """Return the log-likelihood of each answer; None for generated answers."""
    found: list[float] = []
    responses = sample.get("filtered_resps", sample.get("resps"))
    for each in responses if isinstance(responses, list) else []:
        while isinstance(each, list) and len(each) == 1:
            (each,) = each
        if not isinstance(each, list) or len(each) != 2 or str(each[1]) not in {"True", "False"}:
            return None
        if (likelihood := as_number(each[0])) is None:
            if not isinstance(each[0], str):  # the answers are choices, so asking for words would mislead
                raise InputError(f"a log-likelihood must be a number; sample {sample['doc_id']} holds none.")
            return None
        found.append(likelihood)
    return found or None


def _of_choices(samples: Sequence[Sample], score: LmScore) -> Found:
    logits: list[np.ndarray[Any, np.dtype[np.float64]]] = []
    for row, sample in enumerate(samples):
        found, answers = _likelihoods(sample), _answers(sample)
        if found is None or len(found) < 2:
            held = "no log-likelihoods" if found is None else "the log-likelihood of one answer"
            raise InputError(
                f"row {row} holds {held}; choices are judged by the log-likelihoods of two answers or more."
            )
        if "acc_mutual_info" in sample and len(found) % 2 == 0:  # the second half is without the question
            found, answers = found[: len(found) // 2], answers[: len(found) // 2]
        values = np.asarray(found)
        if score != "acc":
            if len(answers) != len(found):
                raise InputError(f"row {row} does not say its answers, whose lengths {score} needs.")
            sizes = [len(each.encode()) if score == "acc_bytes" else len(each) for each in answers]
            values = values / np.maximum(sizes, 1)
        logits.append(values)
    by = {"acc": "", "acc_norm": " per character", "acc_bytes": " per byte"}[score]
    said = f"Probabilities are the softmax of the answers' log-likelihoods{by} (lm-evaluation-harness)."
    labels = _labels(samples, logits, score)
    sizes = {len(each) for each in logits}
    if labels is not None and len(sizes) == 1:
        return {"logits": np.stack(logits), "labels": np.array(labels)}, (said,)
    right = [row.argmax() == label for row, label in zip(logits, labels, strict=True)] if labels else None
    right = right or [bool(each[score]) for each in samples if _is_mark(each.get(score))]
    if len(right) < len(samples):
        raise InputError(f"its targets name none of the answers, and not all have a `{score}` of 0 or 1.")
    confidence = [float(1 / np.exp(each - each.max()).sum()) for each in logits]
    why = f"Questions have {min(sizes)} to {max(sizes)} answers"
    if len(sizes) == 1:
        named = any(None not in found for found in _by_targets(samples, logits))
        why = f"The targets do not go with the logged `{score}`" if named else "Targets name no answer"
    columns = {"confidence": np.asarray(confidence), "correct": np.asarray(right, dtype=int)}
    return columns, (said, f"{why}, so only the chosen answer is evaluated.")


def _answers(sample: Sample) -> list[str]:
    """Return the text of each answer, the last argument of its request, without its leading blank."""
    given = sample.get("arguments")
    if isinstance(given, Mapping):  # {"gen_args_0": {"arg_0": ..., "arg_1": ...}, ...}
        given = [list(each.values()) for each in given.values() if isinstance(each, Mapping)]
    if not isinstance(given, list):
        return []
    texts = [str(each[-1]) for each in given if isinstance(each, list) and each]
    return [text[text[:1].isspace() :] for text in texts]


def _labels(samples: Sequence[Sample], logits: Sequence[Any], score: LmScore) -> list[int] | None:
    """Return the true answer's number; a target is a number or text, which the logged score decides."""
    for labels in _by_targets(samples, logits):
        if None not in labels and all(
            not _is_mark(each.get(score)) or bool(each[score]) == (int(row.argmax()) == label)
            for each, row, label in zip(samples, logits, labels, strict=True)
        ):
            return [each for each in labels if each is not None]
    return None


def _by_targets(
    samples: Sequence[Sample], logits: Sequence[Any]
) -> tuple[list[int | None], list[int | None]]:
    by_number = [_number(each.get("target"), len(row)) for each, row in zip(samples, logits, strict=True)]
    by_text = [_place(str(each.get("target")).strip(), _answers(each)) for each in samples]
    return by_number, by_text


def _number(target: Any, count: int) -> int | None:
    text = str(target).strip()
    return int(text) if text.isdigit() and int(text) < count else None


def _place(text: str, answers: Sequence[str]) -> int | None:
    found = [place for place, answer in enumerate(answers) if answer.strip() == text]
    return found[0] if len(found) == 1 else None


def _of_answers(samples: Sequence[Sample]) -> Found:
    metric, judged = _judged(samples)
    stated = _stated(judged)
    unread = tuple(left_out(judged, len(samples), metric))
    if len(stated) < 2:
        raise InputError(
            f"{len(stated)} of {len(samples)} answers state a confidence that is understood; ask for it in "
            f"the prompt, as in: End with 'Confidence: N%'. {' '.join(unread)}".rstrip()
        )
    what = (
        f"Confidence is what the answer states; `{metric}` says whether it is right (lm-evaluation-harness)."
    )
    columns = {
        "confidence": np.asarray([share for _, share in stated]),
        "correct": np.asarray([int(sample[metric]) for sample, _ in stated]),
    }
    return columns, (what, *unread)


def _judged(samples: Sequence[Sample]) -> tuple[str, list[tuple[Sample, Spoken | None]]]:
    metric = next((name for name in MARKS_OF_ANSWERS if _is_mark(samples[0].get(name))), None)
    if metric is None:
        named = ", ".join(f"`{name}`" for name in MARKS_OF_ANSWERS)
        raise InputError(f"its answers are not marked right or wrong by one of {named}, as 1 or 0.")
    marked = (each for each in samples if _is_mark(each.get(metric)))
    return metric, [(each, spoken_confidence(_text(each))) for each in marked]


def _stated(judged: Sequence[tuple[Sample, Spoken | None]]) -> list[tuple[Sample, float]]:
    return [(sample, said.share) for sample, said in judged if said is not None and said.share is not None]


def left_out(judged: Sequence[tuple[Sample, Spoken | None]], count: int, metric: str) -> Iterator[str]:
    said = [each for _, each in judged]
    silent, of = said.count(None), f"of {count} answers"
    unread = [each.words for each in said if each is not None and each.share is None]
    if silent:
        yield f"{silent} {of} state no confidence and are left out."
    if unread:
        yield (
            f"{len(unread)} {of} state a confidence that is not understood and are left out, "
            f'such as "{unread[0]}".'
        )
    if len(judged) < count:
        yield f"{count - len(judged)} {of} are not marked right or wrong by `{metric}` and are left out."


def _is_mark(value: Any) -> bool:
    return isinstance(value, int | float) and float(value) in {0.0, 1.0}


def _text(sample: Sample) -> str:
    found: Any = sample.get("resps", sample.get("filtered_resps"))
    while isinstance(found, list) and found:
        found = found[0]
    return found if isinstance(found, str) else ""
