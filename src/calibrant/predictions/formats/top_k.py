"""Files that hold the k largest logits or log-probabilities of each sample, as LM servers return them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant._math.top_k import TopK, top_k_of
from calibrant.predictions.bands import bands_of, named_bands
from calibrant.predictions.checks import as_texts
from calibrant.predictions.formats.aliases import BANDS_OF, GROUP_OF, ColumnNames
from calibrant.predictions.formats.columns import Layout, groups_together
from calibrant.predictions.formats.known import LABELS, WEIGHTS
from calibrant.predictions.formats.mark import MARK, notes_of_mark
from calibrant.predictions.formats.names import listing
from calibrant.predictions.labels import as_labels

LOGITS = ("top_k_logits", "top_logits")
LOG_PROBS = ("top_logprobs", "top_k_logprobs", "top_log_probs")
INDICES = ("top_k_indices", "top_indices", "top_k_ids", "top_ids", "top_tokens", "top_k_tokens")
REST = ("log_rest",)
OWN = ("label_logit", "label_logits", "label_logprob", "label_logprobs")
OF_TOKEN = ("logprob", "logprobs")
SIZE = ("num_classes", "vocab_size")
TOKENS = ("token", "tokens", "token_id", "token_ids")
TRUTH = ("labels", "label", *TOKENS, *LABELS)
COMPANIONS = ("split", "weights", "groups", "clusters")
"""Names by which arrays and columns go; the first is calibrant's."""

IMPLIED = frozenset({"confidence", "correct", MARK})
"""What files that calibrant wrote hold beside the largest logits."""

FEWEST_DRAWN, NEARLY_ALL = 20, 0.98
"""How many samples, and what share of them, make it a matter to be said that `token` is the most probable."""

_OTHERS = {"weights": ("weight", *WEIGHTS), "groups": ("group",), "clusters": ("cluster",)}


def holds_top_k(found: Collection[str]) -> bool:
    """Whether a file names the largest logits or log-probabilities."""
    return any(name in found for name in (*LOGITS, *LOG_PROBS))


def fields_of_top_k(
    found: Sequence[str], read: Callable[[str], Any], columns: ColumnNames | None = None
) -> dict[str, Any]:
    """The arguments of ``Predictions`` from arrays or columns of these names.

    Args:
        found: What the file holds.
        read: Gives one of these.
        columns: Names that the caller states.

    Raises:
        InputError: If something is missing or does not fit.
    """
    fields, unused, left_out, by_token = _fields(found, read, columns or ColumnNames())
    top_k, true, _ = fields["top_k"], fields["labels"], fields.pop("truth")
    notes = [*left_out, *notes_of(top_k, true), *(drawn_notes(top_k, true) if by_token else ())]
    marks = notes_of_mark(read(MARK)) if MARK in found else ()
    return fields | {"notes": [*marks, *unused, *notes]}


def piece_of_top_k(found: Sequence[str], read: Callable[[str], Any], columns: ColumnNames) -> dict[str, Any]:
    """The same of some rows of a table: ``notes`` are on all of it, ``repairs`` on what these lack.

    ``truth`` is the column of true classes as it stands.
    """
    fields, unused, left_out, by_token = _fields(found, read, columns)
    top_k = fields["top_k"]
    drawn = drawn_notes(top_k, fields["labels"], of="the first ") if by_token else ()
    return fields | {"notes": [*unused, *notes_of(top_k, None), *drawn], "repairs": left_out}


def columns_of_top_k(found: Sequence[str], columns: ColumnNames) -> tuple[Layout, dict[str, str]]:
    """Which columns hold the largest logits and what goes with them, and what each is called in the file."""

    def first(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in names if name in found)[:1]

    scores = [
        each for names in (LOGITS, LOG_PROBS, REST, INDICES, OWN, OF_TOKEN, SIZE) for each in first(names)
    ]
    labels = (columns.label,) if columns.label else first(TRUTH)
    given = {name: name for name in (*scores, *labels)}
    for name in COMPANIONS:
        stated = {"clusters": columns.cluster, "weights": columns.weight}.get(name)
        if name == "groups" and (columns.group or columns.bands):
            given |= {GROUP_OF + each: each for each in columns.groups}
            given |= {BANDS_OF + each: named_bands(each)[0] for each in columns.bands}
            continue
        for each in (stated,) if stated else first((name, *_OTHERS.get(name, ()))):
            given[name] = each
    singles = tuple(name for name in given if name not in {*scores, *labels})
    unused = tuple(name for name in found if name not in {*given.values(), *IMPLIED})
    layout = Layout(
        space="confidence",
        scores=tuple(scores),
        class_names=None,
        labels=labels,
        singles=singles,
        unused=unused,
        notes=(f"Not used: {listing(unused)}.",) if unused else (),
    )
    return layout, given


def _fields(
    found: Sequence[str], read: Callable[[str], Any], columns: ColumnNames
) -> tuple[dict[str, Any], list[str], list[str], bool]:
    """The arguments, what is not used, what is left out, and whether what is true is a token."""
    if columns.probs or columns.logits:
        raise InputError("columns of probabilities or logits do not go with the largest of each sample.")
    used: list[str] = []

    def one_of(names: Sequence[str], stated: str | None = None) -> Any:
        if stated is not None and stated not in found:
            raise InputError(f"it holds no column `{stated}`; it holds {listing(found)}.")
        name = stated or next((each for each in names if each in found), None)
        if name is None:
            return None
        used.append(name)
        return read(name)

    logits, log_probs = one_of(LOGITS), None
    if logits is None:
        log_probs = one_of(LOG_PROBS)
    rest, indices, own, size = (one_of(names) for names in (REST, INDICES, OWN, SIZE))
    labels = one_of(TRUTH, columns.label)
    by_token = labels is not None and used[-1] in TOKENS
    if own is None and by_token:  # beside another truth it is that of whatever token was drawn
        own = one_of(OF_TOKEN)
    if logits is not None and rest is None:
        raise InputError(
            f"`{used[0]}` needs `log_rest`, the log-sum-exp of the logits that are not listed; "
            "log-probabilities, called `top_logprobs`, need none."
        )
    values, listed, left_out = _split_pairs(logits if log_probs is None else log_probs)
    indices = listed if indices is None else indices
    if indices is None:
        raise InputError(f"`{used[0]}` needs `top_k_indices`, the classes of its columns; {listing(found)}.")
    classes, true = _numbered(_matrix(indices, "top_k_indices"), labels)
    top_k = top_k_of(
        _floats(values, used[0]),
        classes,
        None if rest is None else _floats(rest, "log_rest"),
        num_classes=_size(size),
        label_logits=None if own is None else _floats(own, "label_logit"),
    )
    fields: dict[str, Any] = {"top_k": top_k, "labels": true, "truth": labels}
    for name in COMPANIONS:
        stated = {"clusters": columns.cluster, "weights": columns.weight}.get(name)
        if name == "groups" and (columns.group or columns.bands):
            fields[name] = _groups(columns, lambda each: one_of((), each))
        elif (values := one_of((name, *_OTHERS.get(name, ())), stated)) is not None:
            fields[name] = values
    unused = [name for name in found if name not in {*used, *IMPLIED}]
    return fields, [f"Not used: {listing(unused)}."] if unused else [], left_out, by_token


def arrays_of_top_k(top_k: TopK) -> dict[str, Any]:
    """Arrays that say the same, by the names above."""
    arrays: dict[str, Any] = {
        "top_k_logits": top_k.logits,
        "top_k_indices": top_k.indices,
        "log_rest": top_k.log_rest,
        "label_logits": top_k.label_logits,
        "num_classes": None if top_k.num_classes is None else torch.tensor(top_k.num_classes),
    }
    return {name: values for name, values in arrays.items() if values is not None}


def notes_of(top_k: TopK, labels: torch.Tensor | None) -> tuple[str, ...]:
    """What is known of the classes that are not listed, and what is not."""
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
    """That a token which is nearly always the most probable one was perhaps drawn by the model itself."""
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
    """``[{"token": ..., "logprob": ...}, ...]`` of each sample, or ``{token: logprob}``, as two lists.

    With what is to be said of rows that list more than others.
    """
    first = values[0] if isinstance(values, list) and values else None
    if isinstance(first, dict):
        values = [[{"token": key, "logprob": value} for key, value in row.items()] for row in values]
        values = [
            [
                {"token": each["token"], **each["logprob"]} if isinstance(each["logprob"], dict) else each
                for each in row
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
    """Classes as numbers; tokens that are texts are numbered in alphabetical order."""
    flat = as_texts(indices.reshape(-1)) if isinstance(indices, np.ndarray) else None
    if flat is None:
        return indices, None if labels is None else as_labels(labels, None)
    true = None if labels is None else as_texts(labels)
    if labels is not None and true is None:
        raise InputError("`labels` must be texts where `top_tokens` are; got numbers.")
    number = {name: k for k, name in enumerate(sorted({*flat, *(true or ())}))}
    classes = np.array([number[each] for each in flat]).reshape(indices.shape)
    return classes, None if true is None else torch.tensor([number[each] for each in true])


def _matrix(values: Any, name: str) -> Any:
    """Lists of equal length as an array."""
    if isinstance(values, torch.Tensor):
        return values
    try:
        return np.asarray(values)
    except ValueError as error:
        raise InputError(f"`{name}` must hold as many entries in every row{_uneven(values)}.") from error


def _floats(values: Any, name: str) -> Any:
    if isinstance(values, torch.Tensor):
        return values
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"`{name}` must hold numbers, as many in every row{_uneven(values)}.") from error


def _uneven(rows: Sequence[Any]) -> str:
    """Index of the first row of another length."""
    lengths = [len(row) if isinstance(row, Sequence | np.ndarray) else 0 for row in rows]
    row = next((k for k, length in enumerate(lengths) if length != lengths[0]), None)
    return "" if row is None else f"; row 0 holds {lengths[0]}, row {row} {lengths[row]}"


def _size(given: Any) -> int | None:
    """Number of classes, the same in every row."""
    if given is None:
        return None
    numbers = np.unique(np.asarray(given))
    if len(numbers) != 1 or numbers.dtype.kind not in "iuf" or not 1 < numbers[0] == int(numbers[0]):
        raise InputError("`num_classes` must be one whole number.")
    return int(numbers[0])


def _groups(columns: ColumnNames, read: Callable[[str], Any]) -> list[str]:
    banded: dict[str, Any] = {}
    for name, starts in map(named_bands, columns.bands):
        banded[name] = bands_of(read(name), name=name, starts=starts)
    if len(columns.groups) == 1 and not banded:
        return [str(each) for each in np.asarray(read(columns.groups[0])).tolist()]
    return groups_together({**{name: read(name) for name in columns.groups}, **banded})
