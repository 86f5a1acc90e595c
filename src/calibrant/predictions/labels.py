"""True classes as numbers, from places, names, or words such as yes and no; and the event of two classes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import NOT_KNOWN, ArrayLike, as_label_tensor
from calibrant._math.errors import InputError
from calibrant._math.text_form import meant
from calibrant.predictions.checks import (
    Kind,
    as_number,
    as_texts,
    is_missing,
    one_number_each,
    refuse_beyond_one,
    shown,
)

NAMES_OF_CLASSES = (
    "; name the columns in their order, as in `class_names=clf.classes_` (in a table: by headers such as "
    "`prob_cat`)"
)
NAMES_OF_AN_EVENT = (
    "; pass the word for class 1 as `positive_class` (--positive-class), both as `class_names`, or "
    "write 1 and 0"
)
PROBABILITIES_AS_LABELS = "; these look like probabilities (are --label-column and --prob-columns swapped?)"
YES_OR_NO = {"yes": "1", "no": "0"}
OPPOSITES = {"yes": "no", "y": "n", "positive": "negative", "pos": "neg"}  # class 1 and class 0
OPPOSITE_NAMES = OPPOSITES | {"true": "false"}
"""Opposites in names of columns; in cells, the two added words are numbers."""
_NEGATED = re.compile(r"(?:no|non|not)[ _-](.+)", re.IGNORECASE)
_COUNTED = re.compile(r"(.*?)([0-9]+)")
_CLASS_0 = re.compile(r"((?:class|label)[ _-]?)0", re.IGNORECASE)
TRUTH = ("false", "true")
POSITIVE_CLASS = "positive class"
RIGHT_OR_WRONG = ("wrong", "right")
"""The names of the classes of an event that is made of confidences."""
MISSING = frozenset({"", "<na>", "nan", "null"})
"""Cells with missing values."""
MISSING_AMONG_NUMBERS = MISSING | {"na", "n/a", "none", "?"}
"""Among words, these could be the name of a class."""


def as_correct(values: ArrayLike, num_samples: int) -> Tensor:
    if (texts := as_texts(values)) is not None:
        values = whole_numbers([YES_OR_NO.get(text.lower(), text) for text in texts], "correct")
    tensor = one_number_each(values, num_samples, name="correct")
    refuse_beyond_one(tensor, "`correct` must be 0 or 1")
    return tensor.to(torch.bool)


def as_labels(values: ArrayLike, class_names: tuple[str, ...] | None, *, binary: bool = False) -> Tensor:
    """Return labels as int64 from class names or whole numbers.

    If all names are numbers, numbers are names, unless they can only be places; tensors always hold places.
    """
    texts = as_texts(values)
    if texts is None:
        _refuse_missing_words(values)
    if texts is None and class_names is not None and {name.lower() for name in class_names} == {*TRUTH}:
        texts = _bools_as_names(values, class_names)
    if texts is None and class_names is not None and _all_numbers(class_names):
        texts = _numbers_as_names(values, class_names)
    if texts is not None:
        remedy = NAMES_OF_AN_EVENT if binary else NAMES_OF_CLASSES
        values = (
            whole_numbers(texts, "labels", remedy) if class_names is None else _indices(texts, class_names)
        )
    return as_label_tensor(values, name="labels").cpu()


def refuse_other_columns(columns: Sequence[str], class_names: Sequence[str]) -> None:
    """Refuse class names that contradict the columns; ``p_0``, ``p_1`` fit any."""
    one, other = (
        [name.lower() if (number := whole_number(name)) is None else str(number) for name in names]
        for names in (columns, class_names)
    )
    same, first = sorted(one) == sorted(other), _counted_from(columns)
    if len(one) != len(other) or first == 0 or (first is not None and not same):
        return
    if all(name in column for column, name in zip(one, other, strict=True)):
        return
    place = next(k for k, (column, name) in enumerate(zip(one, other, strict=True)) if name not in column)
    how = " in another order" if same else ""
    raise InputError(
        f"`class_names` must be those of the columns; class {place} is {shown(class_names[place])} and "
        f"column {place} is called {shown(columns[place])}: both name the classes{how}; leave `class_names` "
        "out, or rename the columns if they are wrong."
    )


def _counted_from(columns: Sequence[str]) -> int | None:
    """Return the first number of columns with one common word and consecutive numbers, if any."""
    found = [_COUNTED.fullmatch(column) for column in columns]
    numbers = [int(each[2]) for each in found if each and found[0] and each[1] == found[0][1]]
    counted = numbers and numbers == [*range(numbers[0], numbers[0] + len(columns))]
    return numbers[0] if counted else None


def labels_by_name(labels: Tensor, class_names: tuple[str, ...]) -> Tensor:
    """Return labels as arrays hold them: as names if all names are numbers, else as places."""
    if labels.ndim > 1 or not _all_numbers(class_names):
        return labels
    return torch.tensor([whole_number(name) for name in class_names])[labels]


def event_names(labels: ArrayLike, positive: int | str | None) -> tuple[str, str] | None:
    """Return the names of class 0 and 1 if labels are words and one is given as positive."""
    words = list(dict.fromkeys(as_texts(labels) or ()))
    if not isinstance(positive, str) or len(words) > 2 or (positive not in words and len(words) < 2):
        return None
    if positive in {"0", "1"}:  # numbers, whose score is that of 1
        return None
    if positive not in words:
        if any(whole_number(word) is not None for word in words):
            return None
        raise InputError(
            f"`positive_class` (--positive-class) must be one of the labels, {words[0]} or {words[1]}; got "
            f"{shown(positive)}{meant(positive, words) or '.'}"
        )
    others = [word for word in words if word != positive] or [opposite_of(positive) or f"not {positive}"]
    return others[0], positive


def yes_and_no(labels: ArrayLike) -> tuple[str, str] | None:
    """Return the names of class 0 and 1 if all labels are two words such as yes and no."""
    words = set(as_texts(labels) or ())
    for positive, negative in OPPOSITES.items():
        if words and {word.lower() for word in words} <= {positive, negative}:
            no, yes = (
                next((word for word in words if word.lower() == name), None) for name in (negative, positive)
            )
            names = (no or _in_the_form_of(negative, yes), yes or _in_the_form_of(positive, no))
            return names if words <= set(names) else None
    return None


def as_true_classes(values: ArrayLike, num_samples: int) -> Tensor:
    """Return true classes for top-label confidences, int64; names are numbered alphabetically."""
    if (texts := as_texts(values)) is not None:
        numbers = [whole_number(text) for text in texts]
        if None in numbers:
            order = {name: number for number, name in enumerate(sorted(set(texts)))}
            numbers = [order[text] for text in texts]
        values = numbers
    return one_number_each(values, num_samples, name="labels")


def says_class_0(name: str) -> bool:
    """Return True if a column's name plainly means class 0.

    Example:
        >>> [says_class_0(name) for name in ("no", "no_churn", "class0", "churn", "class1")]
        [True, True, True, False, False]
    """
    negative = name.lower() in OPPOSITE_NAMES.values()
    return negative or _NEGATED.fullmatch(name) is not None or _CLASS_0.fullmatch(name) is not None


def opposite_of(word: str) -> str | None:
    """Return the opposite of a word such as yes, in the same capitals, or None."""
    if negated := _NEGATED.fullmatch(word):
        return negated[1]
    if numbered := _CLASS_0.fullmatch(word):
        return f"{numbered[1]}1"
    pairs = OPPOSITE_NAMES | {negative: positive for positive, negative in OPPOSITE_NAMES.items()}
    return _in_the_form_of(pairs[word.lower()], word) if word.lower() in pairs else None


def refuse_missing(texts: Sequence[str], name: str, classes: Sequence[str] = ()) -> None:
    """Refuse texts that mean a missing value, unless a class has that name."""
    if missing := missing_rows(texts, classes):
        row, held = missing[0], len(missing)
        raise InputError(
            f"`{name}` is missing in {held} of {len(texts)} rows; row {row} holds {shown(texts[row])}; "
            f"drop such rows (pandas: `frame.dropna(subset=[{name!r}])`)."
        )


def _refuse_missing_words(values: ArrayLike) -> None:
    """Refuse words of which some are missing; numbers are checked elsewhere."""
    array = np.empty(0) if isinstance(values, Tensor | list | tuple) else np.asarray(values)
    listed = values if isinstance(values, list | tuple) else array.ravel() if array.dtype.kind == "O" else ()
    if any(isinstance(each, str) for each in listed):
        refuse_missing(["nan" if is_missing(each) else str(each) for each in listed], "labels")


def missing_rows(texts: Sequence[str], classes: Sequence[str] = ()) -> list[int]:
    """Return the rows whose text means a missing value, unless a class has that name.

    Example:
        >>> missing_rows(["1", "N/A", "0", ""]), missing_rows(["ham", "N/A", "spam", ""])
        ([1, 3], [3])
    """
    others = [text for text in texts if text.lower() not in MISSING_AMONG_NUMBERS]
    numbers = all(whole_number(text) is not None for text in others)
    words = MISSING_AMONG_NUMBERS if numbers else MISSING
    return [row for row, text in enumerate(texts) if text.lower() in words and text not in classes]


def whole_number(text: str) -> int | None:
    """Return the whole number in a text; pandas may write True or 1.0 for 1."""
    if "_" in text:  # which Python allows within numbers
        return None
    word = {"true": 1, "false": 0}.get(text.lower())
    if word is not None:
        return word
    try:
        return int(text)
    except ValueError:
        pass
    number = as_number(text)
    return int(number) if number is not None and number.is_integer() else None


def whole_numbers(texts: list[str], name: str, remedy: str = "") -> list[int]:
    """Return texts as whole numbers, one per row; ``remedy`` is for words."""
    numbers: list[int] = []
    for row, text in enumerate(texts):
        number = whole_number(text)
        if number is None:
            words = sum(whole_number(each) is None for each in texts)
            if not text:
                remedy = NOT_KNOWN
            elif 4 * words <= len(texts):  # a total, among numbers
                remedy = "; if that row is no sample, leave it out"
            if name == "labels" and 2 * sum(map(is_fraction, texts)) > len(texts):
                remedy = PROBABILITIES_AS_LABELS
            raise InputError(f"`{name}` must be whole numbers; row {row} holds {shown(text)}{remedy}.")
        numbers.append(number)
    return numbers


def _all_numbers(class_names: tuple[str, ...]) -> bool:
    numbers = [None if name.isalpha() else whole_number(name) for name in class_names]
    return None not in numbers and len({*numbers}) == len(numbers) and numbers != [*range(len(numbers))]


def _numbers_as_names(values: ArrayLike, class_names: tuple[str, ...]) -> list[str] | None:
    """Return numbers as class names; None if they are places, as in tensors."""
    if isinstance(values, Tensor):
        return None
    numbers = as_label_tensor(values, name="labels")
    if numbers.ndim != 1:
        return None
    strangers = {*numbers.unique().tolist()} - {whole_number(name) for name in class_names}
    if strangers and int(numbers.min()) >= 0 and int(numbers.max()) < len(class_names):
        return None
    return [str(number) for number in numbers.tolist()]


def _bools_as_names(values: ArrayLike, class_names: tuple[str, ...]) -> list[str] | None:
    """Return True and False as the classes of that name; None for other values."""
    listed = values.tolist() if isinstance(values, Tensor) else np.asarray(values).tolist()
    if not all(isinstance(each, bool) for each in listed):
        return None
    called = {name.lower(): name for name in class_names}
    return [called[str(each).lower()] for each in listed]


def is_fraction(text: str) -> bool:
    return 0 < (as_number(text) or 0) < 1


def _in_the_form_of(word: str, model: str | None) -> str:
    return word.title() if model and model.istitle() else word.upper() if model and model.isupper() else word


def _indices(texts: list[str], class_names: tuple[str, ...]) -> list[int]:
    """Return class names as indices; plain numbers work if no class name is a number."""
    index = {name: number for number, name in enumerate(class_names)}
    if _all_numbers(class_names):  # 2.0 is 2
        index = {str(whole_number(name)): number for name, number in index.items()}
        plain = (whole_number(text) for text in texts)
        texts = [text if each is None else str(each) for text, each in zip(texts, plain, strict=True)]
    strangers = [row for row, text in enumerate(texts) if text not in index]
    if not strangers:
        if len(index) < len(class_names):
            repeated = next(name for name in class_names if class_names.count(name) > 1)
            raise InputError(f"`labels` must be numbers if two classes share a name, such as {repeated!r}.")
        return [index[text] for text in texts]
    no_names = len(strangers) == len(texts) and not any(name.isdigit() for name in class_names)
    if no_names and all(whole_number(text) is not None for text in texts):
        return whole_numbers(texts, "labels")
    row = strangers[0]
    classes = ", ".join(class_names[:10]) + (", …" if len(class_names) > 10 else "")
    raise InputError(
        f"`labels` must name one of the classes ({classes}); row {row} holds {shown(texts[row])}"
        f"{meant(texts[row], class_names) or '.'}"
    )


def positive_number(
    kind: Kind, num_classes: int | None, names: tuple[str, ...] | None, positive_class: int | str | None
) -> int:
    """Return 0 or 1 for a class by number or name; refuse other than two classes, or unknown names."""
    if kind in {"top_label", "multilabel"} or num_classes != 2:
        held = {"top_label": "top-label confidences", "multilabel": f"{num_classes} labels"}
        got = held.get(kind, f"{num_classes} classes")
        raise InputError(
            f"`positive_class` (--positive-class) needs two classes, and there are {got}; leave it out."
        )
    if positive_class is None:
        return 1
    if names is not None and names.count(str(positive_class)) == 1:
        return names.index(str(positive_class))
    if str(positive_class) in {"0", "1"}:
        return int(positive_class)
    there = "0 or 1" if names is None else f"0, 1, {names[0]} or {names[1]}"
    end = meant(str(positive_class), names or ()) or "."
    raise InputError(f"the positive class must be {there}; got {shown(str(positive_class))}{end}")


def event_title(names: Sequence[str] | None) -> str:
    """Return the name of class 1 in sentences: its own, unless that is a number or a word such as yes.

    Example:
        >>> event_title(["healthy", "sepsis"]), event_title(["no", "yes"]), event_title(None)
        ('sepsis', 'positive class', 'positive class')
    """
    name = names[1] if names is not None and len(names) == 2 else ""
    plain = not name or name.isdecimal() or name.lower() in OPPOSITE_NAMES
    return POSITIVE_CLASS if plain else name


def the_event(title: str) -> str:
    return f"the {title}" if title == POSITIVE_CLASS else title


def class_alone(values: Tensor, number: int, space: str) -> Tensor:
    """Return log-odds or unchanged probabilities of class 0 or 1 ``(n,)``, from two columns or class 1's."""
    wide = values.to(torch.float64)
    if values.ndim == 1:
        return values if number else -wide if space == "logits" else 1 - wide
    if space == "logits":
        return wide[:, number] - wide[:, 1 - number]
    stated, other = values[:, number], values[:, 1 - number]
    rounded = (stated == 1) & (other > 0)  # the other column knows how far it is from one
    if not bool(rounded.any()):
        return stated
    return torch.where(rounded, 1 - wide[:, 1 - number], wide[:, number])
