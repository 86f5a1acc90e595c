"""Names of columns: calibrant's own, those the caller gives, and common ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from calibrant._math.errors import InputError
from calibrant._math.text_form import common_start
from calibrant.predictions.bands import named_bands
from calibrant.predictions.checks import listing

LABELS = (
    *("y_true", "y_test", "y", "target", "targets", "truth", "ground_truth", "gold", "actual", "true_label"),
    *("true_labels", "true_class", "references", "reference"),
)
WEIGHTS = (
    *("sample_weight", "sample_weights", "case_weight", "case_weights", "survey_weight", "survey_weights"),
    *("importance_weight", "importance_weights", "exposure", "w"),
)
CONFIDENCES = ("conf", "stated_confidence", "verbal_confidence", "confidence_score")
OUTCOMES = ("is_correct", "was_correct", "is_right", "right")
SINGLE = (
    *("predict_proba", "y_score", "y_prob", "y_proba", "y_pred_proba", "y_pred_prob", "pred_proba", "proba"),
    *("probas", "probability", "probabilities", "prediction_scores", "prediction_probs", "p"),
)
DECISIONS = ("y_pred", "pred", "prediction", "predictions", "predicted")
"""Names of decisions as often as of probabilities; the values decide."""
PREDICTED = ("pred_label", "predicted_label", "predicted_class", *DECISIONS)
FAMILIES = {
    "prob": (
        *("p_", "predict_proba_", "proba_", "probs_", "probability_", "y_score_", "y_prob_", "y_proba_"),
        *("y_pred_proba_", "y_pred_prob_", "pred_proba_", "prob.", "proba.", ".pred_", "prediction_"),
    ),
    "logit": ("logits_", "logit.", "logits."),
}
SPACES = {"logit": "logits", "prob": "probs"}
SCORES = frozenset({"prob", "logit", "confidence"})
NO_CLASS = frozenset(
    {"max", "pred", "predicted", "top", "top1", "true", "correct", "label", "value", "class", "score"}
)
"""Suffixes of score columns that are no class names."""
ARRAYS = {name: f"{name}s" for name in ("label", "weight", "group", "cluster")} | SPACES
"""An array has the plural for its name, a column the singular or the plural."""
GROUP_OF = "group="
"""Prefix for the name of one of several columns of groups."""
BANDS_OF = "bands="
"""Prefix for the name of a column of numbers whose bands are groups."""
OTHER = "other:"
"""Prefix for a column that would be read if the caller had not named another."""
_BEGINNING = re.compile(
    r"((?:\d+ of \d+ (?:rows|values) of )?)"
    r"`(labels|probs|logits|weights|groups|clusters|\w+_label|confidence|correct)`"
)


@dataclass(frozen=True, kw_only=True)
class ColumnNames:
    """Names of columns that differ from calibrant's own.

    Args:
        label: The column of true classes.
        probs: Columns of probabilities, one for each class, or that of class 1 alone.
        logits: The same for logits.
        weight: The column of weights.
        group: The column of groups; or several, and then a sample's groups are named ``sex=f; site=north``.
        cluster: The column of clusters: patients, documents or images, whose samples depend on each other.
        bands: Columns of numbers, such as positions, whose bands are groups, ``position=0–127``: eight of
            roughly equal size, or bands that begin where ``position:0:128:512`` says.
        sheet: The sheet of a workbook that holds the table.
    """

    label: str | None = None
    probs: tuple[str, ...] = ()
    logits: tuple[str, ...] = ()
    weight: str | None = None
    group: str | tuple[str, ...] | None = None
    cluster: str | None = None
    bands: tuple[str, ...] = ()
    sheet: str | None = None

    def __post_init__(self) -> None:
        for name in ("probs", "logits", "bands"):  # one name is a list of one
            if isinstance(given := getattr(self, name), str):
                object.__setattr__(self, name, (given,))

    def __bool__(self) -> bool:
        return self != ColumnNames()

    @property
    def options(self) -> tuple[str, ...]:
        """Command-line options that name these columns."""
        typed = {"label": "--label-column", "probs": "--prob-columns", "logits": "--logit-columns"}
        typed |= {"group": "--group-column", "cluster": "--cluster", "bands": "--bands"}
        typed |= {"sheet": "--sheet"}
        return tuple(option for name, option in typed.items() if getattr(self, name))

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns of groups."""
        return (self.group,) if isinstance(self.group, str) else self.group or ()


def as_named(sentence: str, columns: ColumnNames | None, names: Callable[[], Sequence[str]]) -> str:
    """Replace the array name at the start of a sentence by the names of its columns.

    ``names`` returns the names of all columns and is called only for such a sentence.
    """
    start = _BEGINNING.match(sentence)
    if start is None:
        return sentence
    name, found, rest = start[2], list(names()), sentence[start.end() :]
    stated = [each.found for each in _stated(columns or ColumnNames())]
    found += [each for each in stated if each not in found]  # fields of records within records
    with suppress(InputError):
        called = dict(zip(canonical(found, columns).names, found, strict=True))
        called |= {array: called[each] for each, array in ARRAYS.items() if each in called}
        scores = [own for each, own in called.items() if each.startswith(f"{name[:-1]}_")]
        if name in SPACES.values() and name not in called and scores:
            rest = rest.replace(" holds percentages and was ", " hold percentages and were ")
            return f"{start[1]}{listing(scores, most=3)}{rest.replace(' was brought ', ' were brought ')}"
        column = called.get(name, name)
        return f"{start[1]}`{column}`{rest.replace(f'[{name!r}]', f'[{column!r}]')}"
    return sentence


def space_of(name: str) -> str | None:
    """Return the space of a column whose cells list the scores of all classes, by its name."""
    lower = name.lower()
    if lower in {"logit", "logits"}:
        return "logits"
    return "probs" if lower in {"prob", "probs", *SINGLE, *DECISIONS} else None


@dataclass(frozen=True, kw_only=True)
class Header:
    """Columns under calibrant's names, in order."""

    names: tuple[str, ...]
    given: tuple[str, ...]
    """Names of the columns in the file, in order."""
    scores: tuple[str, ...] = ()
    """The score columns that were named, in the order given."""
    positive: str | None = None
    """The class whose probability the only column of scores holds, if its name shows it."""
    notes: tuple[str, ...] = ()
    read: Mapping[str, str] = field(default_factory=dict[str, str])
    """Common names that were found, and calibrant's names for them."""


def canonical(given: Sequence[str], columns: ColumnNames | None = None) -> Header:
    """Translate a header to calibrant's names: given names first, then known, then common ones.

    Example:
        >>> canonical(["id", "y_true", "p_spam"]).names
        ('id', 'label', 'prob')
    """
    stated = list(_stated(columns or ColumnNames()))
    for column in stated:
        if given.count(column.found) != 1:
            times = "no column" if column.found not in given else "more than one column"
            raise InputError(f"it holds {times} `{column.found}`; it holds {listing(given)}.")
        roles = list(dict.fromkeys(each.family for each in stated if each.found == column.found))
        if len(roles) > 1:
            said = f"the column `{column.found}` is named as {' and as '.join(roles)}"
            raise InputError(f"{said}; name two, such as a copy of it.")
    names = [f"{OTHER}{each}" if any(_rivals(each, column) for column in stated) else each for each in given]
    for column in stated:
        names[given.index(column.found)] = column.name
    positive = next((column.positive for column in stated if column.positive), None)
    read: dict[str, str] = {}
    for column in _recognised(names):
        if names.count(column.found) != 1:
            raise InputError(f"the column `{column.found}` appears more than once.")
        names[names.index(column.found)] = column.name
        positive = positive or column.positive
        if column.found != ARRAYS.get(column.name):
            read[column.found] = column.name
    scores = tuple(column.name for column in stated if column.family in FAMILIES)
    return Header(
        names=tuple(names),
        given=tuple(given),
        scores=scores,
        positive=positive,
        notes=said_of_names(read),
        read=read,
    )


def said_of_names(read: Mapping[str, str]) -> tuple[str, ...]:
    """Return the note on columns read under other names, if any."""
    notes = [f"`{found}` as `{name}`" for found, name in read.items()]
    shown = ", ".join(notes[:3]) + (f" and {len(notes) - 3} more" if len(notes) > 3 else "")
    return (f"Read {shown}.",) if notes else ()


@dataclass(frozen=True, kw_only=True)
class _Column:
    found: str
    name: str
    positive: str | None = None
    family: str = ""


def _stated(columns: ColumnNames) -> Iterator[_Column]:
    if columns.probs and columns.logits:
        raise InputError("columns of probabilities or of logits can be named, not both.")
    for role in ("label", "weight"):
        if (found := getattr(columns, role)) is not None:
            yield _Column(found=found, name=role, family=role)
    for each in columns.groups:
        alone = len(columns.groups) == 1 and not columns.bands
        yield _Column(found=each, name="group" if alone else f"{GROUP_OF}{each}", family="group")
    for each in columns.bands:
        yield _Column(found=named_bands(each)[0], name=f"{BANDS_OF}{each}", family="group")
    if columns.cluster is not None:
        yield _Column(found=columns.cluster, name="cluster", family="cluster")
    family, scores = ("prob", columns.probs) if columns.probs else ("logit", columns.logits)
    if len(scores) == 1:
        yield _Column(found=scores[0], name=family, positive=_class_of(scores[0], family), family=family)
        return
    # The distinguishing part of each name: after the family's name or a common start.
    known = [_class_of(name, family) for name in scores]
    suffixes = without_start(scores, at="_. -") if None in known else known
    for each, suffix in zip(scores, suffixes, strict=True):
        yield _Column(found=each, name=f"{family}_{suffix}", family=family)


def _rivals(name: str, column: _Column) -> bool:
    if column.family in {"label", "weight", "group", "cluster"}:
        return name in {column.family, f"{column.family}s"}
    return name in {"prob", "logit", "confidence"} or name.startswith(("prob_", "logit_"))


def without_start(names: Sequence[str], at: str = "") -> list[str]:
    """Strip the common start of names, up to one of some characters, or up to any character."""
    start = common_start(names)
    while at and start and start[-1] not in at:
        start = start[:-1]
    rests = [name[len(start) :] for name in names]
    return rests if all(rests) else list(names)


def _class_of(name: str, family: str) -> str | None:
    """Return ``spam`` for ``p_spam``; None if the name has no class, or only its number."""
    for prefix in (f"{family}_", *FAMILIES[family]):
        rest = name.lower().removeprefix(prefix)
        if rest != name.lower() and rest:
            return name[len(prefix) :]
    return None


def _recognised(names: Sequence[str]) -> Iterator[_Column]:
    """Yield columns found by common names, where calibrant's own are absent."""
    lower = {name.lower(): name for name in names}
    yield from _weights(names, lower)
    if not {"prob", "logit"} & set(names):
        outcome = list(_outcome(lower))
        if outcome:
            yield from outcome
            return
    yield from _labels(names, lower)
    families = {family: members(family, names) for family in FAMILIES}
    if SCORES & set(names) or sum(map(len, families.values())) > 1:
        return
    plural = {array: family for family, array in SPACES.items() if array in names}
    if len(plural) == 1 and not any(families.values()):  # one number a row: no lists
        yield from (_Column(found=array, name=family) for array, family in plural.items())
        return
    single = [lower[each] for each in (*sorted(SCORES), *SINGLE) if each in lower]
    named = [] if len(single) == 1 else list(_of_families(names))
    if not single and not named:
        single = [lower[each] for each in DECISIONS if each in lower]
    if len(single) == 1:
        yield _Column(found=single[0], name=single[0].lower() if single[0].lower() in SCORES else "prob")
    yield from named


def _outcome(lower: Mapping[str, str]) -> Iterator[_Column]:
    stated = [lower[each] for each in ("confidence", *CONFIDENCES) if each in lower]
    if len(stated) != 1:
        return
    right = [lower[each] for each in ("correct", *OUTCOMES) if each in lower]
    right = right[:1] if "correct" in lower.values() else right
    true = [lower[each] for each in ("true_label", "label", "labels", *LABELS) if each in lower]
    predicted = [lower[each] for each in PREDICTED if each in lower]
    true = list(dict.fromkeys(true))
    if len(right) == 1:
        found = {stated[0]: "confidence", right[0]: "correct"}
    elif not right and len(true) == len(predicted) == 1:
        found = {stated[0]: "confidence", true[0]: "true_label", predicted[0]: "pred_label"}
    else:
        return
    for own, name in found.items():
        if own != name:
            yield _Column(found=own, name=name)


def _weights(names: Sequence[str], lower: Mapping[str, str]) -> Iterator[_Column]:
    found = [lower[each] for each in ("weight", "weights", *WEIGHTS) if each in lower]
    if {"weight", "weights"} & set(names) or (found == ["w"] and "h" in lower):  # a width
        return
    yield from _only(found, "weight", "weights", "--weight-column")


def _labels(names: Sequence[str], lower: Mapping[str, str]) -> Iterator[_Column]:
    outcome = "confidence" in names and {"correct", "true_label"} & set(names)
    if {"label", "labels"} & set(names) or outcome or members("label", names):
        return
    found = [lower[each] for each in ("label", "labels", *LABELS) if each in lower]
    yield from _only(found, "label", "true classes", "--label-column")


def _only(found: Sequence[str], name: str, what: str, option: str) -> Iterator[_Column]:
    if len(found) > 1:
        shown = " or ".join(f"`{each}`" for each in found)
        raise InputError(
            f"which column holds the {what}, {shown}? Call it `{name}`, or say so by `columns` ({option})."
        )
    for each in found:
        yield _Column(found=each, name=name)


def _of_families(names: Sequence[str]) -> Iterator[_Column]:
    """Yield columns of scores with a common start, or one named after its class."""
    for family, prefixes in FAMILIES.items():
        for prefix in (f"{family}_", *prefixes):
            found = {name: name[len(prefix) :] for name in names if name.lower().startswith(prefix)}
            found = {name: rest for name, rest in found.items() if rest}
            if len(found) > 1:
                yield from (_Column(found=name, name=f"{family}_{rest}") for name, rest in found.items())
            for name, rest in found.items() if len(found) == 1 else ():
                if not rest.isdigit() and rest.lower() not in NO_CLASS:
                    yield _Column(found=name, name=family, positive=rest)
            if found:
                return


def members(family: str, names: Iterable[str]) -> list[str]:
    """Return the suffixes of the names that start with ``family_``."""
    prefix = f"{family}_"
    return [name.removeprefix(prefix) for name in names if name.startswith(prefix) and name != prefix]
