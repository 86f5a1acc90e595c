"""Names of arrays in files, and their combined meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import as_label_tensor
from calibrant._math.errors import InputError
from calibrant._math.text_form import Note
from calibrant.predictions.checks import KINDS, as_texts, listing
from calibrant.predictions.formats.aliases import LABELS, OTHER
from calibrant.predictions.formats.mark import MARK, notes_of_mark
from calibrant.predictions.labels import refuse_missing

ACCEPTED = (
    "name arrays `logits` or `probs`, with `labels` "
    "(or `logits_val`, `labels_val`, `logits_test`, `labels_test`, or the same with `probs`), "
    "or `confidence` with `correct` or with `true_label` and `pred_label`"
)
SPACES = ("logits", "probs", "confidence")
COMPANIONS = ("labels", "weights", "groups", "clusters")  # arrays with one entry per sample
OUTCOMES = ("correct", "true_label", "pred_label")
PARTS = ("_val", "_test")
TRUTH = frozenset({"labels", "correct"})
_WHOLE = re.compile(r"^(-?\d+)\.0+$")
_WORDS = {"true": "1", "false": "0"}


def choose(found: Collection[str]) -> tuple[list[str], tuple[str, ...]]:
    """Choose by name the arrays to use, scores first, and the unused ones."""
    spaces = [space for space in ("logits", "probs") if space in found]
    if len(spaces) > 1:
        raise InputError("it holds both logits and probabilities; keep one of them.")
    if not spaces and "confidence" not in found:
        raise InputError(nothing_in(found, ACCEPTED))
    named: tuple[str, ...] = (*COMPANIONS, "class_names")
    if not spaces:
        outcome = outcome_of(found)
        labels = () if "true_label" in outcome else ("labels",)
        named = (*outcome, *labels, "weights", "groups", "clusters")
    scores = spaces or ["confidence"]
    used = [*scores, *(name for name in (*named, "kind", MARK, "split") if name in found)]
    return used, tuple(name for name in found if name not in used)


def fields_of(arrays: Mapping[str, Any], unused: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of ``Predictions`` from the used arrays, with a note on the others."""
    fields = {name: each for name, each in arrays.items() if name not in {"kind", MARK}}
    if "kind" in arrays:
        fields["kind"] = known_kind(arrays["kind"])
    if "true_label" in fields:
        fields["labels"] = fields.pop("true_label")
        fields["correct"] = _agreement(fields["labels"], fields.pop("pred_label"))
    said = _unused_note(unused, labelled=not TRUTH.isdisjoint(fields))
    return fields | {"notes": (*notes_of_mark(arrays.get(MARK)), *said)}


def holds_two_sets(found: Collection[str]) -> bool:
    return any(space + part in found for space in SPACES for part in PARTS)


def as_one_set(
    found: Sequence[str], read: Callable[[str], Any]
) -> tuple[Sequence[str], Callable[[str], Any]]:
    """Merge arrays of two sets into one with a ``split``: 0 for validation, 1 for test."""
    space = next(each for each in SPACES if any(each + part in found for part in PARTS))
    paired: list[str] = []
    for base in (space, *COMPANIONS, *OUTCOMES):
        held = [base + part for part in PARTS if base + part in found]
        if held and base in found:
            raise InputError(f"it holds both `{base}` and `{held[0]}`; keep one form.")
        if len(held) == 1:
            (absent,) = {base + part for part in PARTS} - {*held}
            remedy = f"; a single set is named `{space}`" if base == space else ""
            raise InputError(f"it holds `{held[0]}` and no `{absent}`{remedy}.")
        paired += [base] if held else []
    others = [name for name in found if name not in {base + part for base in paired for part in PARTS}]
    sizes = dict[str, int]()

    def one(name: str) -> Any:
        if name == "split":
            return [code for code, part in enumerate(PARTS) for _ in range(sizes[part])]
        if name not in paired:
            return read(name)
        first, second = both = [read(name + part) for part in PARTS]
        for part, each in zip(PARTS, both, strict=True):
            if len(each) != sizes.setdefault(part, len(each)):
                raise InputError(
                    f"`{name + part}` must have {sizes[part]} entries, one per row of `{space + part}`; got "
                    f"{len(each)}."
                )
        if isinstance(first, list | tuple) or isinstance(second, list | tuple):
            return [*first, *second]
        if first.ndim == 0 or second.ndim == 0 or first.shape[1:] != second.shape[1:]:
            raise InputError(
                f"`{name + PARTS[0]}` and `{name + PARTS[1]}` must have the same columns; "
                f"got shapes {tuple(first.shape)} and {tuple(second.shape)}."
            )
        return torch.cat(both) if isinstance(first, torch.Tensor) else np.concatenate(both)

    return [*paired, *(OTHER + each if each == "split" else each for each in others), "split"], one


def known_kind(value: Any) -> str:
    texts = [value] if isinstance(value, str) else as_texts(value)
    if texts is None or len(texts) != 1 or texts[0] not in KINDS:
        got = type(value).__name__ if texts is None else " ".join(texts)
        raise InputError(f"`kind` must be one of {', '.join(KINDS)}; got {got}.")
    return texts[0]


def outcome_of(found: Collection[str]) -> tuple[str, ...]:
    if "correct" in found:
        return ("correct",)
    pair = ("true_label", "pred_label")
    there = sum(name in found for name in pair)
    if there == 1:
        raise InputError(
            f"`confidence` needs `correct`, or `true_label` and `pred_label`; found {listing(found)}."
        )
    return pair if there else ()


def nothing_in(found: Collection[str], accepted: str) -> str:
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
    """Return labels as texts; with gaps, pandas writes 1.0 for 1, and True for 1."""
    texts = as_texts(labels)
    if texts is None:
        texts = [str(each) for each in labels.tolist()]
    return [_WORDS.get(text.lower(), _WHOLE.sub(r"\1", text)) for text in texts]


def _unused_note(unused: Sequence[str], *, labelled: bool) -> tuple[str, ...]:
    if not unused:
        return ()
    unused = [name.removeprefix(OTHER) for name in unused]
    weights = next((name for name in unused if name.lower().endswith(("weight", "weights"))), None)
    remedy = "" if weights is None else f"; if `{weights}` holds weights, call it `weight` (--weight-column)"
    for name in () if labelled else unused:
        part = next((part for part in PARTS if name.endswith(part)), "")
        if name.removesuffix(part).lower() in {"label", "labels", *LABELS}:
            remedy = f"; if `{name}` holds the true classes, name it `labels{part}`"
            break
    return (Note(f"Not used: {listing(unused)}{remedy}.", "unused"),)
