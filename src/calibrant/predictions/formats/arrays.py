"""Arrays by name, whatever file holds them, in the names that arrays or columns have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant.predictions.formats.aliases import Header, canonical, said_of_names
from calibrant.predictions.formats.columns import fields_of_columns, layout_of, refuse_decisions
from calibrant.predictions.formats.known import ARRAYS
from calibrant.predictions.formats.names import PARTS, choose, fields_of
from calibrant.predictions.formats.top_k import fields_of_top_k, holds_top_k

_SPACES = ("logits", "probs", "confidence")
_COLUMNS = {array: column for column, array in ARRAYS.items()}


def fields_of_arrays(found: Sequence[str], read: Callable[[str], Any]) -> dict[str, Any]:
    """The arguments of ``Predictions`` from arrays, of which only those in use are read.

    Args:
        found: What the arrays are called.
        read: Gives the array of a name.

    Raises:
        InputError: If something is missing, or said twice.

    Example:
        >>> arrays = {"y_true": np.array([1, 0]), "y_prob": np.array([0.75, 0.5])}
        >>> fields = fields_of_arrays(list(arrays), arrays.__getitem__)
        >>> fields["labels"].tolist(), fields["notes"]
        ([1, 0], ('Read `y_true` as `labels`, `y_prob` as `probs`.',))
    """
    if holds_top_k(found):
        return fields_of_top_k(found, read)
    given, header = known_arrays(found)
    if header is not None and (header.positive is not None or _only_columns(given)):
        return _fields_of_columns(found, read, header)
    chosen = choose(given if given.keys() & {*_SPACES} else found)  # (or what is there is said)
    arrays = {name: read(given[name]) for name in chosen.used}
    if "probs" in arrays:
        refuse_decisions(arrays["probs"], given["probs"])
    fields = fields_of(arrays, chosen)
    read_as = {} if header is None else {own: ARRAYS.get(name, name) for own, name in header.read.items()}
    return fields | {"notes": (*said_of_names(read_as), *fields["notes"])}


def known_arrays(found: Sequence[str]) -> tuple[dict[str, str], Header | None]:
    """What each array is called in the file, by calibrant's name; and the header, were they columns.

    Example:
        >>> known_arrays(["target", "y_prob"])[0]
        {'labels': 'target', 'probs': 'y_prob'}
    """
    if any(name in found for space in _SPACES for name in (f"{space}{part}" for part in PARTS)):
        return {name: name for name in found}, None
    header = canonical([_COLUMNS.get(name.lower(), name) if name not in ARRAYS else name for name in found])
    return dict(zip((ARRAYS.get(name, name) for name in header.names), found, strict=True)), header


def _only_columns(given: dict[str, str]) -> bool:
    """Whether scores have an array for each class: ``prob_0, prob_1``."""
    return given.keys().isdisjoint(_SPACES) and any(name.startswith(("prob_", "logit_")) for name in given)


def _fields_of_columns(found: Sequence[str], read: Callable[[str], Any], header: Header) -> dict[str, Any]:
    """Arrays as the columns of a table."""
    layout = layout_of(header)
    given = dict(zip(header.names, found, strict=True))
    arrays = {name: _column(read(given[name]), given[name]) for name in (*layout.scores, *layout.others)}
    weights = {name: _column(read(given[name]), given[name]) for name in layout.weights}
    try:
        scores = np.column_stack([arrays[name] for name in layout.scores])
    except ValueError as error:
        raise InputError("arrays of single classes must be of one length.") from error
    return fields_of_columns(layout, scores, {name: arrays[name] for name in layout.others} | weights)


def _column(values: Any, name: str) -> Any:
    array = values.numpy() if isinstance(values, torch.Tensor) else values
    if isinstance(array, np.ndarray) and array.ndim > 1:
        raise InputError(f"`{name}` must have shape (N,), as one of several columns; got {array.shape}.")
    return array.tolist() if isinstance(array, np.ndarray) and array.dtype.kind in "US" else array
