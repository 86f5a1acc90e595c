"""The names under which a file holds arrays, and what they mean together."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import as_label_tensor
from calibrant._math.errors import InputError
from calibrant.predictions.checks import KINDS, as_texts, listing
from calibrant.predictions.formats.aliases import LABELS
from calibrant.predictions.formats.mark import MARK, notes_of_mark
from calibrant.predictions.labels import refuse_missing

ACCEPTED = (
    "name arrays `logits` or `probs`, with `labels` "
    "(or `logits_val`, `labels_val`, `logits_test`, `labels_test`, or the same with `probs`), "
    "or `confidence` with `correct` or with `true_label` and `pred_label`"
)
COMPANIONS = ("labels", "weights", "groups", "clusters")  # of which there is one entry per sample
OUTCOMES = ("correct", "true_label", "pred_label")
PARTS = ("_val", "_test")
TRUTH = frozenset({"labels", "correct"})
_WHOLE = re.compile(r"^(-?\d+)\.0+$")
_WORDS = {"true": "1", "false": "0"}


@dataclass(frozen=True)
class Chosen:
    """Which names of a file are used: ``space`` is given under ``space + suffix`` for every suffix."""

    space: str
    suffixes: tuple[str, ...]
    used: tuple[str, ...]
    unused: tuple[str, ...]


def choose(found: Collection[str]) -> Chosen:
    """Decide from the names alone what a file says; refuse what is missing or says two things."""
    bases = [base for base in ("logits", "probs") if _forms(base, found)]
    if len(bases) > 1:
        raise InputError("it holds both logits and probabilities; keep one of them.")
    if not bases and _forms("confidence", found):
        bases = ["confidence"]
    if not bases:
        raise InputError(nothing_in(found, ACCEPTED))
    space = bases[0]
    suffixes = _suffixes(space, found)
    used = [space + suffix for suffix in suffixes]
    companions = COMPANIONS
    if space == "confidence":
        outcome = outcome_of(found, suffixes)
        labels = () if "true_label" in outcome else ("labels",)
        companions = ("weights", "groups", "clusters", *outcome, *labels)
    for base in companions:
        present = [base + suffix for suffix in suffixes if base + suffix in found]
        if present and len(present) < len(suffixes):
            absent = next(base + suffix for suffix in suffixes if base + suffix not in found)
            raise InputError(f"it holds `{present[0]}` and no `{absent}`.")
        used += present
    singles = ["kind", MARK] if space == "confidence" else ["kind", MARK, "class_names"]
    if len(suffixes) == 1:
        singles.append("split")
    used += [name for name in singles if name in found]
    return Chosen(space, suffixes, tuple(used), tuple(name for name in found if name not in used))


def fields_of(arrays: Mapping[str, Any], chosen: Chosen) -> dict[str, Any]:
    """The arguments of ``Predictions`` from the arrays that were chosen, with a note on the others."""
    fields: dict[str, Any] = {}
    for base in (chosen.space, *COMPANIONS, *OUTCOMES):
        parts = [
            (base + suffix, arrays[base + suffix]) for suffix in chosen.suffixes if base + suffix in arrays
        ]
        if parts:
            fields[base] = parts[0][1] if len(parts) == 1 else _joined(parts)
    if len(chosen.suffixes) == 2:
        fields["split"] = _split_of_parts(arrays, chosen)
    fields |= {name: arrays[name] for name in ("split", "class_names") if name in arrays}
    if "kind" in arrays:
        fields["kind"] = known_kind(arrays["kind"])
    if "true_label" in fields:
        fields["labels"] = fields.pop("true_label")
        fields["correct"] = _agreement(fields["labels"], fields.pop("pred_label"))
    unused = _unused_note(chosen, labelled=not TRUTH.isdisjoint(fields))
    fields["notes"] = (*notes_of_mark(arrays.get(MARK)), *unused)
    return fields


def known_kind(value: Any) -> str:
    """The kind, which formats hold as a text, a list of one or an array of one."""
    texts = [value] if isinstance(value, str) else as_texts(value)
    if texts is None or len(texts) != 1 or texts[0] not in KINDS:
        got = type(value).__name__ if texts is None else " ".join(texts)
        raise InputError(f"`kind` must be one of {', '.join(KINDS)}; got {got}.")
    return texts[0]


def _forms(base: str, found: Collection[str]) -> list[str]:
    return [base + suffix for suffix in ("", *PARTS) if base + suffix in found]


def _suffixes(space: str, found: Collection[str]) -> tuple[str, ...]:
    forms = _forms(space, found)
    if forms == [space]:
        return ("",)
    if space in forms:
        raise InputError(f"it holds both `{space}` and `{forms[1]}`; keep one form.")
    if len(forms) == 1:
        (absent,) = {space + suffix for suffix in PARTS} - set(forms)
        raise InputError(f"it holds `{forms[0]}` and no `{absent}`; a single set is named `{space}`.")
    return PARTS


def outcome_of(found: Collection[str], suffixes: tuple[str, ...]) -> tuple[str, ...]:
    """What says whether the predicted class was right; nothing where it is not known."""
    if any("correct" + suffix in found for suffix in suffixes):
        return ("correct",)
    pair = ("true_label", "pred_label")
    there = {base for base in pair for suffix in suffixes if base + suffix in found}
    if len(there) == 1:
        raise InputError(
            "`confidence` needs `correct`, or `true_label` and `pred_label`, beside it; "
            f"it holds {listing(found)}."
        )
    return pair if there else ()


def nothing_in(found: Collection[str], accepted: str) -> str:
    """What to say where no scores are found, and which names would be accepted."""
    if {"image_id", "score"} <= set(found):
        return "it holds COCO's detections; name their --annotations, or read them by `load_detections`."
    if {"images", "annotations"} <= set(found):
        return "it holds COCO's annotations; give it as --annotations of a file of detections."
    top = [name for name in found if name.startswith("top") and name[3:4].isdigit()]
    if top:
        return (
            f"it holds only the largest probabilities of each sample ({listing(top)}); "
            "calibrant needs those of all classes as `probs`, "
            "or the largest alone as `confidence` with `correct` (or with `true_label` and `pred_label`)."
        )
    return f"found no predictions in {listing(found) or 'an empty file'}; {accepted}."


def _joined(parts: list[tuple[str, Any]]) -> Any:
    (first_name, first), (second_name, second) = parts
    if isinstance(first, list | tuple) or isinstance(second, list | tuple):
        return [*first, *second]
    if first.ndim == 0 or second.ndim == 0 or first.shape[1:] != second.shape[1:]:
        raise InputError(
            f"`{first_name}` and `{second_name}` must have the same columns; "
            f"got shapes {tuple(first.shape)} and {tuple(second.shape)}."
        )
    return torch.cat([first, second]) if isinstance(first, torch.Tensor) else np.concatenate([first, second])


def _split_of_parts(arrays: Mapping[str, Any], chosen: Chosen) -> list[int]:
    """0 for the validation part and 1 for the test part; each part has its own labels."""
    split: list[int] = []
    for code, suffix in enumerate(chosen.suffixes):
        num_samples = len(arrays[chosen.space + suffix])
        for base in (*COMPANIONS, *OUTCOMES):
            if base + suffix in arrays and len(arrays[base + suffix]) != num_samples:
                raise InputError(
                    f"`{base + suffix}` must have {num_samples} entries, "
                    f"one per row of `{chosen.space + suffix}`; got {len(arrays[base + suffix])}."
                )
        split += [code] * num_samples
    return split


def _agreement(true: Any, predicted: Any) -> Tensor:
    first: Any
    second: Any
    if as_texts(true) is not None or as_texts(predicted) is not None:
        first, second = np.array(_as_written(true)), np.array(_as_written(predicted))
        refuse_missing(first.tolist(), "true_label")
        refuse_missing(second.tolist(), "pred_label")
    else:
        first = as_label_tensor(true, name="true_label")
        second = as_label_tensor(predicted, name="pred_label")
    if first.shape != second.shape:
        raise InputError(
            "`true_label` and `pred_label` must have one entry per sample; "
            f"got shapes {tuple(first.shape)} and {tuple(second.shape)}."
        )
    return torch.as_tensor(first == second)


def _as_written(labels: Any) -> list[str]:
    """Labels as texts; pandas writes 1.0 for 1 where a column has gaps, and True for 1."""
    texts = as_texts(labels)
    if texts is None:
        texts = [str(each) for each in labels.tolist()]
    return [_WORDS.get(text.lower(), _WHOLE.sub(r"\1", text)) for text in texts]


def _unused_note(chosen: Chosen, *, labelled: bool) -> tuple[str, ...]:
    if not chosen.unused:
        return ()
    weights = next((name for name in chosen.unused if name.lower().endswith(("weight", "weights"))), None)
    remedy = "" if weights is None else f"; if `{weights}` holds weights, call it `weight` (--weight-column)"
    for name in () if labelled else chosen.unused:
        suffix = next((part for part in chosen.suffixes if name.endswith(part)), None)
        if suffix is not None and name.removesuffix(suffix).lower() in {"label", "labels", *LABELS}:
            remedy = f"; if `{name}` holds the true classes, name it `labels{suffix}`"
            break
    return (f"Not used: {listing(chosen.unused)}{remedy}.",)
