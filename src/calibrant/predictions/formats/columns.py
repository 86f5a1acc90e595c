"""Convert between the columns of a table, one row per sample, and named arrays."""

from __future__ import annotations

import importlib
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from torch import Tensor

from calibrant._math.checks import NO_NUMBER
from calibrant._math.errors import InputError
from calibrant._math.text_form import Note
from calibrant.predictions import labels as labels_of
from calibrant.predictions.bands import bands_of, named_bands
from calibrant.predictions.checks import as_texts, listing, shown
from calibrant.predictions.formats.aliases import (
    BANDS_OF,
    DECISIONS,
    GROUP_OF,
    LABELS,
    OTHER,
    SPACES,
    Header,
    members,
    without_start,
)
from calibrant.predictions.formats.contents import Arrays
from calibrant.predictions.formats.mark import MARK
from calibrant.predictions.formats.names import fields_of, nothing_in, outcome_of
from calibrant.predictions.scale import were_percentages

Library: TypeAlias = Literal["pandas", "polars"]
LIBRARIES: tuple[Library, ...] = ("pandas", "polars")
Column: TypeAlias = "np.ndarray[Any, np.dtype[Any]] | list[Any]"

FAMILIES = {"logits": "logit", "probs": "prob", "confidence": "confidence"}
SINGLES = ("split", "weight", "group", "cluster", "kind", MARK)
# An array has the plural for its name, a column may have.
KEYS = {"weight": "weights", "group": "groups", "cluster": "clusters"}
BINARY_NAMES = ("negative_class", "positive_class")
_MULTILABEL = "multilabel"
_TRUTH = frozenset({"label", "labels", *LABELS})
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")
_TURNED = 32  # columns: one alone is slow to scatter
ACCEPTED = (
    "name columns `label` and `prob_0`, `prob_1`, ... or `logit_0`, `logit_1`, ... (two classes: `prob`), "
    "or `confidence` and `correct`; "
    "use `columns` (--label-column, --prob-columns) for other names"
)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Role of each column."""

    space: str
    scores: tuple[str, ...]  # one column per class; one alone has shape (N,)
    class_names: tuple[str, ...] | None
    labels: tuple[str, ...]  # none, one column alone, or one per class
    singles: tuple[str, ...]  # columns that go by a name of their own
    unused: tuple[str, ...]
    positive: str | None = None
    """The class whose probability the single column of scores holds, if its name shows it."""
    notes: tuple[str, ...] = ()
    called: tuple[tuple[str, ...], ...] = ()
    """Other class names in labels: those of the columns, or their distinguishing parts."""
    truth: str = "labels"
    """Name of the column of true classes in the file."""
    decisions: str | None = None
    """The column of scores, where its name is one that decisions often have."""
    given: Mapping[str, str] = field(default_factory=dict[str, str])
    """Names of the columns in the table."""

    @property
    def weights(self) -> tuple[str, ...]:
        return tuple(name for name in self.singles if KEYS.get(name, name) == "weights")

    @property
    def others(self) -> tuple[str, ...]:
        return (*self.labels, *(name for name in self.singles if name not in self.weights))


def layout_of(header: Header) -> Layout:
    """Derive the layout from the header; refuse missing or ambiguous columns."""
    try:
        layout = _layout(header.names)
    except InputError as error:  # in the file's own words
        raise InputError(str(error).replace(listing(header.names), listing(header.given))) from error
    if len(header.scores) > 1:  # their order is that of the classes
        suffixes = tuple(name.partition("_")[2] for name in header.scores)
        layout = replace(layout, scores=header.scores, class_names=suffixes)
        if len(layout.labels) > 1 and not _paired_by_number(layout):
            layout = replace(layout, labels=tuple(f"label_{suffix}" for suffix in suffixes))
    notes = header.notes
    if _paired_by_number(layout):
        notes += (f"Read as pairs, in this order: {listing(layout.labels)} and {listing(layout.scores)}.",)
    given = dict(zip(header.names, header.given, strict=True))
    decisions = (each for each, name in header.read.items() if name == "prob" and each.lower() in DECISIONS)
    scores = tuple(given[name] for name in layout.scores)
    return replace(
        layout,
        given=given,
        truth=given[layout.labels[0]] if len(layout.labels) == 1 else layout.truth,
        called=(scores, tuple(without_start(scores))),
        decisions=next(decisions, None),
        positive=header.positive,
        notes=notes,
        unused=tuple(name.removeprefix(OTHER) for name in layout.unused),
    )


def _paired_by_number(layout: Layout) -> bool:
    """Return True if several label columns have numbers while the scores have names."""
    named = {f"label_{suffix}" for suffix in layout.class_names or ()}
    return len(layout.labels) > 1 and bool(named) and named.isdisjoint(layout.labels)


def _layout(header: Sequence[str]) -> Layout:
    families = [family for family in SPACES if family in header or members(family, header)]
    if len(families) > 1:
        raise InputError("it holds both logits and probabilities; keep the columns of one of them.")
    if not families and "confidence" not in header:
        raise InputError(nothing_in(header, ACCEPTED))
    names: tuple[str, ...] | None = None
    labels: tuple[str, ...] = ()
    singles = [column for name in SINGLES for column in _named(name, header)]
    singles += [name for name in header if name.startswith((GROUP_OF, BANDS_OF))]
    if not families:
        space, scores = "confidence", ("confidence",)
        outcome = outcome_of(header)
        singles += outcome
        labels = () if outcome == ("true_label", "pred_label") else _named("label", header)
    elif families[0] in header:
        space, scores = SPACES[families[0]], (families[0],)
        labels = _named("label", header)
        if set(BINARY_NAMES) <= set(header):
            singles += BINARY_NAMES
        if extra := members(families[0], header):
            raise InputError(f"it holds both `{families[0]}` and `{families[0]}_{extra[0]}`; keep one form.")
    else:
        space = SPACES[families[0]]
        suffixes, names = _classes(families[0], header)
        scores = tuple(f"{families[0]}_{suffix}" for suffix in suffixes)
        labels = _label_columns(header, suffixes, scores)
    used = {*scores, *labels, *singles}
    repeated = [name for name, count in Counter(header).items() if count > 1 and name in used]
    if repeated:
        raise InputError(f"the column `{repeated[0]}` appears more than once.")
    unused = tuple(name for name in header if name not in used)
    return Layout(
        space=space, scores=scores, class_names=names, labels=labels, singles=tuple(singles), unused=unused
    )


def fields_of_columns(layout: Layout, scores: Any, others: Mapping[str, Column]) -> dict[str, Any]:
    """Return the arguments of ``Predictions`` from scores ``(N, k)``, held or on file, and other columns."""
    if layout.decisions is not None:
        refuse_decisions(scores, layout.decisions)
    arrays: dict[str, Any] = {layout.space: scores[:, 0] if len(layout.scores) == 1 else scores}
    if layout.class_names is not None:
        arrays["class_names"] = _names_of(layout, others)
    elif BINARY_NAMES[0] in others:
        arrays["class_names"] = [_constant(name, others[name]) for name in BINARY_NAMES]
    elif layout.positive is not None:
        arrays["class_names"] = _two_classes(layout.positive, [others[name] for name in layout.labels])
    labels = [others[name] for name in layout.labels]
    several = len(layout.labels) > 1
    if any(not isinstance(column, list) or any(column) for column in labels):
        if not several and (texts := as_texts(labels[0])) is not None:
            labels_of.refuse_missing(texts, layout.truth, arrays.get("class_names", ()))
        arrays["labels"] = (
            np.column_stack([_numbers(*each) for each in zip(layout.labels, labels, strict=True)])
            if several
            else _label_column(labels[0], arrays, layout)
        )
    elif several:
        arrays["kind"] = "multilabel"
    several_groups = [name for name in layout.singles if name.startswith((GROUP_OF, BANDS_OF))]
    if several_groups:
        arrays["groups"] = groups_of({name: others[name] for name in several_groups})
    taken, unused = {*BINARY_NAMES, *several_groups}, layout.unused
    if "kind" in others:
        if set(as_texts(others["kind"]) or ()) == {_MULTILABEL}:
            arrays["kind"] = _MULTILABEL
        else:
            unused = (*unused, "kind")
        taken.add("kind")
    arrays |= {KEYS.get(name, name): others[name] for name in layout.singles if name not in taken}
    fields = fields_of(arrays, unused)
    empty: tuple[str, ...] = ()
    if len(labels) == 1 and "labels" not in arrays:
        empty = (Note(f"`{layout.truth}` is empty in every row.", "empty"),)
    return fields | {"notes": (*layout.notes, *empty, *fields["notes"])}


def fields_of_cells(layout: Layout, column: Callable[[str], Column], scores: Any = None) -> dict[str, Any]:
    """Return :func:`fields_of_columns` of cells with numbers as text; errors name the row of a bad cell.

    ``column`` returns the cells of a column by its name in the table; ``scores`` can be given instead.
    """
    texts: dict[str, list[Any]] = {}
    given = layout.given
    names = [given[name] for name in layout.scores]
    if scores is None:
        scores = stacked(names, column, texts)
    beside: dict[str, Column] = {
        name: _numeric(column(given[name]), given[name], texts) for name in layout.weights
    }
    found, notes = numbers_in(texts, names, layout.space)
    for place, name in enumerate(names):
        if name in found:
            scores[:, place] = found[name]
    beside |= {name: found[given[name]] for name in layout.weights if given[name] in found}
    beside |= {name: as_column(column(given[name]), given[name]) for name in layout.others}
    fields = fields_of_columns(layout, scores, beside)
    return fields | {"notes": (*notes, *fields["notes"])}


def stacked(
    names: Sequence[str], column: Callable[[str], Column], texts: dict[str, list[Any]]
) -> np.ndarray[Any, np.dtype[Any]]:
    """Stack numeric columns ``(N, k)``; collect cells that are not numbers yet in ``texts``."""
    rows = np.empty((0, 0), np.float16)
    for start in range(0, len(names), _TURNED):
        some = names[start : start + _TURNED]
        turned = np.array([_numeric(column(name), name, texts) for name in some])
        if not start:
            rows = np.empty((turned.shape[1], len(names)), turned.dtype)
        rows = rows.astype(np.result_type(rows, turned), copy=False)
        rows[:, start : start + _TURNED] = turned.T
    return rows


def _numeric(cells: Column, name: str, texts: dict[str, list[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    if isinstance(cells, np.ndarray) and cells.ndim == 1:
        return cells if cells.dtype.kind == "f" else cells.astype(np.float64)
    texts[name] = list(cells)
    return np.zeros(len(cells))


def as_column(cells: Column, name: str) -> Column:
    """Return numbers, or lists of them, as an array; everything else, or gaps, as texts."""
    if isinstance(cells, np.ndarray):
        return cells
    if cells and isinstance(cells[0], list) and name.lower() in _TRUTH:
        return lists_as_rows(cells, name)
    for row, cell in enumerate(cells):
        if isinstance(cell, list | dict):
            raise InputError(f"`{name}` must hold a text or a number in every row; row {row} does not.")
    if all(isinstance(each, int) for each in cells):  # bool is one
        return np.array(cells)
    return ["" if each is None else _text(each) for each in cells]


def _text(cell: Any) -> str:
    """Return a cell as a text file has it: whole numbers without decimals, though gaps made them floats."""
    if isinstance(cell, bytes):
        return cell.decode(errors="surrogateescape")
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)


def lists_as_rows(cells: Column, name: str, width: int | None = None) -> np.ndarray[Any, np.dtype[Any]]:
    """Return lists of numbers of equal length as an array ``(N, k)``."""
    if width is None:
        width = len(cells[0]) if hasattr(cells[0], "__len__") else 0
    if isinstance(cells, np.ndarray) and cells.shape[1:] == (width,):
        return cells
    for row, cell in enumerate(cells):
        if not hasattr(cell, "__len__") or len(cell) != width:
            held = len(cell) if hasattr(cell, "__len__") else "none"
            raise InputError(
                f"`{name}` must hold {width} numbers in every row, as in the first; row {row} holds {held}."
            )
    rows = np.asarray(cells)
    if rows.dtype.kind not in "biuf":
        raise InputError(f"`{name}` must hold numbers in every row; some hold none.")
    return rows


def refuse_decisions(scores: Any, name: str) -> None:
    if name.lower() in DECISIONS and bool((scores == scores.round()).all()):
        raise InputError(
            f"it holds decisions (`{name}`), and no probabilities, which calibration is about; in "
            "scikit-learn they are what `predict_proba` returns."
        )


def _names_of(layout: Layout, others: Mapping[str, Column]) -> tuple[str, ...] | None:
    if len(layout.labels) == 1:
        labels = others[layout.labels[0]]
        held = {*map(str, np.unique(labels).tolist() if isinstance(labels, np.ndarray) else labels)}
        for names in (layout.class_names or (), *layout.called):
            if held <= {*names}:
                return names
    return layout.class_names


def groups_of(columns: Mapping[str, Column]) -> list[str]:
    groups = {
        name.removeprefix(GROUP_OF): values for name, values in columns.items() if name.startswith(GROUP_OF)
    }
    for column, values in columns.items():
        if column.startswith(BANDS_OF):
            name, starts = named_bands(column.removeprefix(BANDS_OF))
            groups[name] = bands_of(values, name=name, starts=starts)
    return groups_together(groups)


def groups_together(columns: Mapping[str, Column]) -> list[str]:
    """Return ``sex=f; site=north`` for each sample, without unknown values."""
    rows = zip(
        *(as_texts(column) or [str(each) for each in column] for column in columns.values()), strict=True
    )
    return [
        "; ".join(f"{name}={value}" for name, value in zip(columns, row, strict=True) if value != "")
        for row in rows
    ]


def columns_of(arrays: Arrays) -> dict[str, list[Any] | Tensor]:
    """Return the columns for arrays, small ones first; the inverse of ``fields_of_columns``."""
    space = next(space for space in FAMILIES if space in arrays)
    names: tuple[str, ...] | None = arrays.get("class_names")
    values: Tensor = arrays[space]
    num_samples = len(values)
    found: dict[str, list[Any] | Tensor] = {}
    suffixes: tuple[str, ...] = ()
    if names is not None:
        _refuse_ambiguous(names)
    if values.ndim == 2:
        suffixes = names or tuple(str(index) for index in range(values.shape[1]))
    found |= _columns_of_labels(arrays, suffixes)
    if "correct" in arrays:
        found["correct"] = arrays["correct"].int().tolist()
    if values.ndim == 1 and names is not None:
        found |= {column: [name] * num_samples for column, name in zip(BINARY_NAMES, names, strict=True)}
    if "split" in arrays:
        found["split"] = ["test" if code else "calibration" for code in arrays["split"].tolist()]
    if "weights" in arrays:
        found["weight"] = arrays["weights"].tolist()
    found |= {name: list(arrays[KEYS[name]]) for name in ("group", "cluster") if KEYS[name] in arrays}
    if MARK in arrays:
        found[MARK] = [*arrays[MARK]] * num_samples
    family = FAMILIES[space]
    if not suffixes:
        return found | {family: values}
    return found | {f"{family}_{suffix}": values[:, place] for place, suffix in enumerate(suffixes)}


def _columns_of_labels(arrays: Arrays, suffixes: Sequence[str]) -> dict[str, list[Any]]:
    labels: Tensor | None = arrays.get("labels")
    names: tuple[str, ...] | None = arrays.get("class_names")
    if labels is None:  # of several labels, none of them known
        empty = [None] * len(next(arrays[space] for space in FAMILIES if space in arrays))
        return {f"label_{suffix}": empty for suffix in suffixes} if "kind" in arrays else {}
    if labels.ndim == 1:
        numbers: list[int] = labels.tolist()
        return {"label": numbers if names is None else [names[number] for number in numbers]}
    found = {f"label_{suffix}": labels[:, place].tolist() for place, suffix in enumerate(suffixes)}
    kind = {"kind": [_MULTILABEL] * len(labels)} if "kind" in arrays else {}  # else one-hot ones are classes
    return found | kind


def cells_of(arrays: Arrays) -> dict[str, list[Any]]:
    columns = columns_of(arrays).items()
    return {name: cells if isinstance(cells, list) else cells.tolist() for name, cells in columns}


def _named(name: str, header: Sequence[str]) -> tuple[str, ...]:
    if name in {"split", "kind", MARK}:
        return (name,) if name in header else ()
    found = tuple(form for form in (name, f"{name}s") if form in header)
    if len(found) > 1:
        raise InputError(f"it holds both `{name}` and `{name}s`; keep one of them.")
    return found


def _classes(family: str, header: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    suffixes = members(family, header)
    if len(suffixes) == 1:
        raise InputError(
            f"`{family}_{suffixes[0]}` is the only column of its kind; "
            f"the single column of a binary model is named `{family}`."
        )
    if set(suffixes) == {str(index) for index in range(len(set(suffixes)))}:
        return tuple(sorted(suffixes, key=int)), None
    if _are_turned(suffixes):  # into the order that words have, not the columns
        suffixes = suffixes[::-1]
    words = [suffix for suffix in suffixes if not suffix.isdigit()]
    if 0 < len(words) < len(suffixes):
        raise InputError(
            f"the columns `{family}_...` must all be numbered or all be named; "
            f"`{family}_{words[0]}` is named and others are numbered."
        )
    return tuple(suffixes), tuple(suffixes)


def _are_turned(names: Sequence[str]) -> bool:
    """Return True for two opposites of which the positive one comes first, as yes and no."""
    opposite = (
        labels_of.opposite_of(names[1]) if len(names) == 2 and labels_of.says_class_0(names[1]) else None
    )
    return opposite is not None and opposite.lower() == names[0].lower()


def _label_columns(
    header: Sequence[str], suffixes: tuple[str, ...], scores: tuple[str, ...]
) -> tuple[str, ...]:
    """Return ``label``, or one column per class, by name or else by number."""
    if alone := _named("label", header):
        return alone
    shared = set(members("label", header)) & set(suffixes)
    numbers = sorted((each for each in members("label", header) if each.isdecimal()), key=int)
    if not shared and len(numbers) > 1:
        if [int(each) for each in numbers] not in [[*range(k, k + len(suffixes))] for k in (0, 1)]:
            raise InputError(
                f"it holds {listing(f'label_{each}' for each in numbers)}, which cannot be paired with "
                f"{listing(scores)}; name them as the scores are, `label_{suffixes[0]}` and so on."
            )
        return tuple(f"label_{each}" for each in numbers)
    if shared and shared != set(suffixes):
        absent = next(suffix for suffix in suffixes if suffix not in shared)
        raise InputError(f"it holds no `label_{absent}` to go with `{scores[suffixes.index(absent)]}`.")
    return tuple(f"label_{suffix}" for suffix in suffixes) if shared else ()


def _refuse_ambiguous(names: tuple[str, ...]) -> None:
    """Refuse class names that no column can have, or that would be read back differently."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(
            f"columns must have different names, and two classes are called {repeated[0]!r}; write .npz."
        )
    if _are_turned(names):
        raise InputError(
            f"columns for {names[0]} and {names[1]} are read as {names[1]} and {names[0]}, the positive one "
            "last; write .npz."
        )
    digits = [name for name in names if name.isdigit()]
    if digits and (len(digits) < len(names) or set(names) == {str(index) for index in range(len(names))}):
        raise InputError(
            f"the class name {digits[0]!r} would be taken for the number of a column in a table; write .npz."
        )


def _label_column(column: Column, arrays: Mapping[str, Any], layout: Layout) -> Column:
    """Return labels as given; as words if the column of a negative word explains the numbers."""
    if layout.positive is not None and labels_of.says_class_0(layout.positive):  # p_no: 0 is no
        names, numbers = arrays["class_names"], [labels_of.whole_number(str(each)) for each in column]
        if set(numbers) <= {0, 1}:
            return [names[1 - number] for number in numbers if number is not None]
    return column


def _two_classes(positive: str, labels: Sequence[Column]) -> list[str]:
    """Return the names of class 0 and 1, if that of class 1 is known and labels may use both."""
    words = set(as_texts(labels[0]) or ()) if labels else set[str]()
    others = [word for word in words - {positive} if labels_of.whole_number(word) is None]
    if len(others) == 1:  # which may be all there is on a day without the other
        return [*others, positive]
    opposite = labels_of.opposite_of(positive)
    return [opposite or f"not {positive}", positive]


def _numbers(name: str, column: Column) -> Column:
    texts = as_texts(column)
    if texts is None:
        return column
    if any(map(labels_of.is_fraction, texts)):  # refused as shares of votes, all classes together
        with suppress(ValueError):
            return np.array([float(text) for text in texts])
    return labels_of.whole_numbers(texts, name)


def _constant(name: str, column: Column) -> str:
    texts = as_texts(column)
    if texts is None or len(set(texts)) != 1:
        raise InputError(f"`{name}` must hold one name, the same in every row.")
    return texts[0]


def _number(value: Any) -> float:
    """Parse a number in common notation: no nan, and no underscores as in Python."""
    found = float(value)
    if found != found or (isinstance(value, str) and "_" in value):
        raise ValueError(value)
    return found


def numbers_in(
    columns: Mapping[str, Any], scores: Sequence[str], space: str
) -> tuple[dict[str, np.ndarray[Any, np.dtype[np.float64]]], tuple[str, ...]]:
    """Return columns as numbers, and notes on how they were read."""
    found: dict[str, Any] = {}
    commas: dict[str, dict[int, str]] = {}
    signs: dict[str, set[int]] = {}
    for name, cells in columns.items():
        found[name] = np.empty(len(cells))
        for row, cell in enumerate(cells):
            try:
                found[name][row] = _number(cell)
            except (TypeError, ValueError, OverflowError):
                text = "" if cell is None or cell != cell else str(cell).strip()
                if name in scores and text.endswith("%") and text != "%":
                    signs.setdefault(name, set()).add(row)
                    text = text.removesuffix("%").strip()
                if "," in text:
                    commas.setdefault(name, {})[row] = text
                found[name][row] = _with_point(text, name, row, cell)
    notes: list[str] = []
    if commas:
        _refuse_two_meanings(columns, commas)
        have = "has" if len(commas) == 1 else "have"
        notes.append(", ".join(f"`{name}`" for name in commas) + f" {have} decimal commas.")
    if signs:
        _refuse_some_signs(signs, scores, len(next(iter(columns.values()))), space)
        found |= {name: found[name] / 100 for name in scores}
        notes.append(were_percentages(space))
    return found, tuple(notes)


def _with_point(text: str, name: str, row: int, cell: Any) -> float:
    try:
        return _number(text.replace(",", "."))
    except (ValueError, OverflowError):
        said = f"holds {shown(str(cell))}" if text else "is empty"
        remedy = "; write it without commas between thousands" if _THOUSANDS.fullmatch(text) else ""
        remedy = f"; {NO_NUMBER}" if text.lower() == "nan" else remedy
        raise InputError(f"`{name}` must hold a number in every row; row {row} {said}{remedy}.") from None


def _refuse_two_meanings(columns: Mapping[str, Any], commas: Mapping[str, Mapping[int, str]]) -> None:
    """Refuse commas next to decimal points, and commas that may separate thousands."""
    name = next(iter(commas))
    row, text = next(iter(commas[name].items()))
    if any("." in cell for cells in columns.values() for cell in cells if isinstance(cell, str)):
        raise InputError(
            f"numbers must all have a decimal point or all a decimal comma; row {row} holds {text!r} in "
            f"`{name}`, and others have points."
        )
    decimal = {name for name, each in commas.items() if not all(map(_THOUSANDS.fullmatch, each.values()))}
    for name, each in commas.items():
        plain = (row for row, cell in enumerate(columns[name]) if row not in each and _whole(cell))
        if name not in decimal and (not decimal or any(plain)):
            row, text = next(iter(each.items()))
            raise InputError(
                f"`{name}` must hold numbers that mean one thing; row {row} holds {text!r}, which is "
                f"{text.replace(',', '')} or {float(text.replace(',', '.')):g}: write it without the comma."
            )


def _whole(cell: Any) -> bool:
    """Return True for a non-zero number without decimals."""
    return str(cell).strip().removesuffix("%").lstrip("+-").strip("0") != ""


def _refuse_some_signs(
    signs: Mapping[str, set[int]], scores: Sequence[str], num_rows: int, space: str
) -> None:
    name, row = min(((name, min(rows)) for name, rows in signs.items()), key=lambda each: each[1])
    if space == "logits":
        raise InputError(f"logits are no percentages; row {row} of `{name}` has a % sign.")
    if any(len(signs.get(each, ())) < num_rows for each in scores):
        raise InputError(
            f"all scores must have a % sign or none; row {row} of `{name}` has one, and others have none."
        )


def frame_of(columns: Mapping[str, Sequence[Any]], library: Library | None = None) -> Any:
    """Return a data frame of the columns: pandas by default, or polars if only that is installed."""
    if library is not None and library not in LIBRARIES:
        raise InputError(f'`library` must be "pandas" or "polars"; got {library!r}.')
    for name in LIBRARIES if library is None else (library,):
        try:
            found = importlib.import_module(name)
        except ImportError:
            continue
        return found.DataFrame({key: list(values) for key, values in columns.items()})
    wanted = library or "pandas"
    raise ImportError(f"frames need {wanted}, which is not installed: `pip install {wanted}`.")
