"""Files with the k largest logits or log-probabilities per sample, as LM servers return them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant._math.text_form import Note
from calibrant._math.top_k import TopK, top_k_of
from calibrant.predictions.bands import named_bands
from calibrant.predictions.checks import as_texts, listing
from calibrant.predictions.formats.aliases import BANDS_OF, GROUP_OF, LABELS, WEIGHTS, ColumnNames
from calibrant.predictions.formats.columns import Layout, as_column, groups_of
from calibrant.predictions.formats.mark import MARK, notes_of_mark
from calibrant.predictions.labels import as_labels

LOGITS = ("top_k_logits", "top_logits")
LOG_PROBS = ("top_logprobs", "top_k_logprobs", "top_log_probs")
TOKENS = ("token", "tokens", "token_id", "token_ids")
TRUTH = ("labels", "label", *TOKENS, *LABELS)
SCORES = {
    "logits": LOGITS,
    "log_probs": LOG_PROBS,
    "rest": ("log_rest",),
    "indices": ("top_k_indices", "top_indices", "top_k_ids", "top_ids", "top_tokens", "top_k_tokens"),
    "own": ("label_logit", "label_logits", "label_logprob", "label_logprobs"),
    "of_token": ("logprob", "logprobs"),
    "size": ("num_classes", "vocab_size"),
}
COMPANIONS = {
    "split": ("split",),
    "weights": ("weights", "weight", *WEIGHTS),
    "groups": ("groups", "group"),
    "clusters": ("clusters", "cluster"),
}
"""Names by which arrays and columns go; the first is calibrant's."""

IMPLIED = frozenset({"confidence", "correct", MARK})
"""Further names in files that calibrant wrote with the largest logits."""

FEWEST_DRAWN, NEARLY_ALL = 20, 0.98
"""Least number of samples, and least share with `token` as the most probable one, for a note."""


def holds_top_k(found: Collection[str]) -> bool:
    return any(name in found for name in (*LOGITS, *LOG_PROBS))


def fields_of_top_k(
    found: Sequence[str],
    read: Callable[[str], Any],
    columns: ColumnNames | None = None,
    *,
    piece: bool = False,
) -> dict[str, Any]:
    """Return the arguments of ``Predictions`` from arrays or columns.

    With ``piece``, for some rows of a table, ``notes`` are on the whole table and ``repairs`` on these rows;
    ``truth`` is the table's column of true classes.
    """
    roles = _roles(found, columns or ColumnNames())
    held = {role: read(name) for role, name in roles.items()}
    held = {
        role: as_column(each, role) if isinstance(each, list) and role not in SCORES else each
        for role, each in held.items()
    }
    top_k, true, left_out = _top_k(held, roles, found)
    fields = {"top_k": top_k, "labels": true} | {name: held[name] for name in COMPANIONS if name in held}
    groups = [role for role in roles if role.startswith((GROUP_OF, BANDS_OF))]
    if len(groups) == 1 and groups[0].startswith(GROUP_OF):
        fields["groups"] = [str(each) for each in np.asarray(held[groups[0]]).tolist()]
    elif groups:
        fields["groups"] = groups_of(held)
    unused = _unused_note(found, roles)
    by_token = roles.get("labels") in TOKENS
    if piece:
        drawn = drawn_notes(top_k, true, of="the first ") if by_token else ()
        notes = (*unused, *notes_of(top_k, None), *drawn)
        return fields | {"truth": held.get("labels"), "notes": notes, "repairs": left_out}
    marks = notes_of_mark(read(MARK)) if MARK in found else ()
    drawn = drawn_notes(top_k, true) if by_token else ()
    return fields | {"notes": [*marks, *unused, *left_out, *notes_of(top_k, true), *drawn]}


def layout_of_top_k(found: Sequence[str], columns: ColumnNames) -> Layout:
    """Return the columns of the largest logits and of the fields next to them."""
    roles = _roles(found, columns)
    scores = tuple(name for role, name in roles.items() if role in SCORES)
    labels = (roles["labels"],) if "labels" in roles else ()
    others = {role: name for role, name in roles.items() if role not in SCORES and role != "labels"}
    return Layout(
        space="confidence",
        scores=scores,
        class_names=None,
        labels=labels,
        singles=tuple(others),
        unused=(),
        notes=_unused_note(found, roles),
        given={name: name for name in (*scores, *labels)} | others,
    )


def _roles(found: Sequence[str], columns: ColumnNames) -> dict[str, str]:
    if columns.probs or columns.logits:
        raise InputError("columns of probabilities or logits do not go with the largest of each sample.")

    def first(names: Sequence[str], stated: str | None = None) -> str | None:
        if stated is not None and stated not in found:
            raise InputError(f"it holds no column `{stated}`; it holds {listing(found)}.")
        return stated or next((each for each in names if each in found), None)

    roles = {role: first(names) for role, names in SCORES.items()}
    if roles["logits"] is not None:
        roles["log_probs"] = None
    roles["labels"] = first(TRUTH, columns.label)
    if roles["own"] is not None or roles["labels"] not in TOKENS:  # it is that of whatever token was drawn
        roles["of_token"] = None
    stated = {"clusters": columns.cluster, "weights": columns.weight}
    for name, names in COMPANIONS.items():
        if name == "groups" and (columns.group or columns.bands):
            roles |= {GROUP_OF + each: first((), each) for each in columns.groups}
            roles |= {BANDS_OF + each: first((), named_bands(each)[0]) for each in columns.bands}
        else:
            roles[name] = first(names, stated.get(name))
    return {role: name for role, name in roles.items() if name is not None}


def _unused_note(found: Sequence[str], roles: Mapping[str, str]) -> tuple[str, ...]:
    unused = [name for name in found if name not in {*roles.values(), *IMPLIED}]
    return (Note(f"Not used: {listing(unused)}.", "unused"),) if unused else ()


def _top_k(
    held: Mapping[str, Any], roles: Mapping[str, str], found: Sequence[str]
) -> tuple[TopK, torch.Tensor | None, list[str]]:
    scores = "logits" if "logits" in held else "log_probs"
    name = roles[scores]
    if scores == "logits" and "rest" not in held:
        raise InputError(
            f"`{name}` needs `log_rest`, the log-sum-exp of the logits that are not listed; "
            "log-probabilities, called `top_logprobs`, need none."
        )
    values, listed, left_out = _split_pairs(held[scores])
    indices = held.get("indices", listed)
    if indices is None:
        raise InputError(f"`{name}` needs `top_k_indices`, the classes of its columns; {listing(found)}.")
    classes, true = _numbered(_matrix(indices, "top_k_indices", "entries"), held.get("labels"))
    own = held.get("own", held.get("of_token"))
    top_k = top_k_of(
        _matrix(values, name),
        classes,
        _matrix(held["rest"], "log_rest") if "rest" in held else None,
        num_classes=_size(held.get("size")),
        label_logits=None if own is None else _matrix(own, "label_logit"),
    )
    return top_k, true, left_out


def arrays_of_top_k(top_k: TopK) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        "top_k_logits": top_k.logits,
        "top_k_indices": top_k.indices,
        "log_rest": top_k.log_rest,
        "label_logits": top_k.label_logits,
        "num_classes": None if top_k.num_classes is None else torch.tensor(top_k.num_classes),
    }
    return {name: values for name, values in arrays.items() if values is not None}


def notes_of(top_k: TopK, labels: torch.Tensor | None) -> tuple[str, ...]:
    known = top_k.logits.shape[1]
    of = "" if top_k.num_classes is None else f" of {top_k.num_classes:,}"
    said = f"The file holds the {known} most probable{of} classes of each sample and the sum of the others"
    if labels is None:
        return (f"{said}.",)
    exact, most = top_k.log_probs_of(labels)
    missing = int(exact.isnan().sum())
    loss = -float(most.mean())
    if not missing:
        return (f"{said}; the log loss of the true classes is {loss:.4g}.",)
    unknown = (
        f"{said}. In {missing:,} of {len(labels):,} samples the true class is not among them, so the "
        f"log loss of the true classes is at least {loss:.4g}; add `label_logprob` to get it exactly."
    )
    return (unknown,)


def drawn_notes(top_k: TopK, labels: torch.Tensor | None, *, of: str = "") -> tuple[str, ...]:
    """Warn if tokens are nearly always the most probable ones: the model may have generated them."""
    if labels is None or len(labels) < FEWEST_DRAWN:
        return ()
    first = int((labels == top_k.predicted).sum())
    if first < NEARLY_ALL * len(labels):
        return ()
    said = (
        f"`token` is the most probable one in {first:,} of {of}{len(labels):,} samples. If the model wrote "
        "these tokens itself, they can't test it: score a given text instead."
    )
    return (said,)


def _split_pairs(values: Any) -> tuple[Any, Any, list[str]]:
    """Split ``[{"token": ..., "logprob": ...}]`` or ``{token: logprob}`` rows into lists, with notes."""
    first = values[0] if isinstance(values, list) and values else None
    if isinstance(first, dict):
        values = [
            [
                {"token": key} | (each if isinstance(each, dict) else {"logprob": each})
                for key, each in row.items()
            ]
            for row in values
        ]
        first = values[0]
    if not (isinstance(first, list) and first and isinstance(first[0], dict)):
        return values, None, []
    lengths = [len(row) if isinstance(row, list) else 0 for row in values]
    fewest, most = min(lengths), max(lengths)
    shortest = lengths.index(fewest)
    if not fewest:
        raise InputError(
            f"`top_logprobs` must list some classes in every row; row {shortest} lists none; leave it out."
        )
    lost = sum(lengths) - fewest * len(lengths)
    listed, used = ("one class", "The most") if fewest == 1 else (f"{fewest} classes", f"The {fewest} most")
    said = (
        f"Row {shortest} lists {listed}, others up to {most}. {used} probable of each row "
        f"{'is' if fewest == 1 else 'are'} used, and {lost:,} of {sum(lengths):,} log-probabilities left out."
    )
    rows = [sorted(row, key=lambda each: -float(each["logprob"]))[:fewest] for row in values]
    name = "token_id" if all("token_id" in each for row in rows for each in row) else "token"
    log_probs = [[each["logprob"] for each in row] for row in rows]
    return log_probs, [[each[name] for each in row] for row in rows], [said] if most > fewest else []


def _numbered(indices: Any, labels: Any) -> tuple[Any, torch.Tensor | None]:
    """Return classes as numbers; text tokens are numbered in alphabetical order."""
    flat = as_texts(indices.reshape(-1)) if isinstance(indices, np.ndarray) else None
    if flat is None:
        return indices, None if labels is None else as_labels(labels, None)
    true = None if labels is None else as_texts(labels)
    if labels is not None and true is None:
        raise InputError("`labels` must be text if `top_tokens` are; got numbers.")
    number = {name: k for k, name in enumerate(sorted({*flat, *(true or ())}))}
    classes = np.array([number[each] for each in flat]).reshape(indices.shape)
    return classes, None if true is None else torch.tensor([number[each] for each in true])


def _matrix(values: Any, name: str, what: str = "numbers") -> Any:
    if isinstance(values, torch.Tensor):
        return values
    try:
        return np.asarray(values, dtype=np.float64 if what == "numbers" else None)
    except (TypeError, ValueError) as error:
        lengths = [len(row) if isinstance(row, Sequence | np.ndarray) else 0 for row in values]
        row = next((k for k, length in enumerate(lengths) if length != lengths[0]), None)
        rows = "" if row is None else f"; row 0 holds {lengths[0]}, row {row} {lengths[row]}"
        raise InputError(f"`{name}` must hold {what}, the same number in every row{rows}.") from error


def _size(given: Any) -> int | None:
    if given is None:
        return None
    numbers = np.unique(np.asarray(given))
    if len(numbers) != 1 or numbers.dtype.kind not in "iuf" or not 1 < numbers[0] == int(numbers[0]):
        raise InputError("`num_classes` must be one whole number.")
    return int(numbers[0])
