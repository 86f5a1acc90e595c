"""What the fields of a request ask for: declared here, read from forms, described by OpenAPI."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from calibrant.web.limits import Refusal
from calibrant.web.uploads import Form

if TYPE_CHECKING:
    from calibrant.predictions import ColumnNames

MOST_METHODS = 8
_TYPES: dict[Callable[[str], Any], str] = {str: "string", int: "integer", float: "number"}


@dataclass(frozen=True, kw_only=True)
class Option:
    """A field beside the files.

    Attributes:
        description: What it is for.
        kind: Text, or a number from ``low`` to ``high``.
        default: Its value where it is empty or absent.
        low: The least number.
        high: The largest number.
        several: Whether it is a list: of names with commas between, or of a field that is repeated.
    """

    description: str
    kind: Callable[[str], Any] = str
    default: float | None = None
    low: float = 0
    high: float = 0
    several: Literal["commas", "repeated"] | None = None

    def value(self, form: Form, name: str) -> Any:
        """What a form says.

        Raises:
            Refusal: If it is no number, or out of range.
        """
        if self.several is not None:
            texts = form.fields.get(name, [])
            parts = (
                [part for text in texts for part in text.split(",")] if self.several == "commas" else texts
            )
            return tuple(part.strip() for part in parts if part.strip())
        text = form.text(name)
        if text is None:
            return self.default
        if self.kind is str:
            return text
        try:
            value = self.kind(text)
        except ValueError:
            value = None
        if value is None or not self.low <= value <= self.high:
            what = "an integer" if self.kind is int else "a number"
            raise Refusal(422, f"`{name}` must be {what} from {self.low} to {self.high}; got {text[:50]!r}.")
        return value

    @property
    def schema(self) -> dict[str, Any]:
        """As OpenAPI describes it."""
        one = {"type": _TYPES[self.kind]}
        found = {"type": "array", "items": one} if self.several == "repeated" else one
        return (
            found
            | {"description": self.description}
            | ({} if self.default is None else {"default": self.default})
        )


OPTIONS = {
    "method": Option(description="A calibrator to try; may be repeated.", several="repeated"),
    "positive_class": Option(description="With two classes: the one that is judged."),
    "label_column": Option(description="The column of true classes."),
    "prob_columns": Option(
        description="Columns of probabilities, by class, with commas between; one: class 1.", several="commas"
    ),
    "logit_columns": Option(description="The same for logits.", several="commas"),
    "weight_column": Option(description="The column of weights."),
    "group_column": Option(
        description="The column of groups; several with commas between.", several="commas"
    ),
    "cluster": Option(
        description="The column of patients, documents, images, ...: samples of one are not independent."
    ),
    "format": Option(description="Read the files as csv, jsonl, npz, ..., whatever their names end in."),
    "bins": Option(description="Bins of the calibration errors.", kind=int, default=15, low=1, high=200),
    "bootstrap": Option(
        description="Resamples behind the intervals.", kind=int, default=1000, low=2, high=5000
    ),
    "level": Option(description="Level of the intervals.", kind=float, default=0.95, low=0.5, high=0.9999),
    "seed": Option(description="Random seed.", kind=int, default=0, low=0, high=2**31),
}
"""All fields of ``/evaluate``, by the names of the command's options."""
OF_COMPARISONS = {name: option for name, option in OPTIONS.items() if name != "method"}
_READING = (
    *("label_column", "prob_columns", "logit_columns", "weight_column", "group_column", "cluster", "format"),
)
OF_APPLYING = {name: OPTIONS[name] for name in _READING if name not in {"label_column", "weight_column"}}
_GROUPS = frozenset({"group", "groups"})


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How predictions are read and judged, and what is to be answered beside the numbers."""

    method: tuple[str, ...] = ()
    positive_class: str | None = None
    label_column: str | None = None
    prob_columns: tuple[str, ...] = ()
    logit_columns: tuple[str, ...] = ()
    weight_column: str | None = None
    group_column: tuple[str, ...] = ()
    cluster: str | None = None
    format: str | None = None
    bins: int = 15
    bootstrap: int = 1000
    level: float = 0.95
    seed: int = 0
    report: bool = False
    """Whether the report and the fitted calibrator are wanted, too."""

    @property
    def judging(self) -> dict[str, Any]:
        """What evaluations and comparisons take alike."""
        return {
            "positive_class": self.positive_class,
            "num_bins": self.bins,
            "bootstrap": self.bootstrap,
            "level": self.level,
            "seed": self.seed,
        }

    @property
    def clusters_are_groups(self) -> bool:
        """Whether the column of clusters is read as that of groups already."""
        return self.cluster is not None and self.cluster in {*self.group_column, *_GROUPS}

    @property
    def columns(self) -> ColumnNames | None:
        """What the columns of tables are called."""
        from calibrant.predictions import ColumnNames

        names = ColumnNames(
            label=self.label_column,
            probs=self.prob_columns,
            logits=self.logit_columns,
            weight=self.weight_column,
            group=self.group_column or None,
            cluster=None if self.clusters_are_groups or self.cluster == "clusters" else self.cluster,
        )
        return names or None

    def words(self, *without: str) -> str:
        """How the files are read, as the command line's options.

        Example:
            >>> Wanted(label_column="y", prob_columns=("no", "a b")).words()
            "--label-column y --prob-columns 'no,a b'"
        """
        words: list[str] = []
        for name in _READING:
            value = getattr(self, name)
            if value and name not in without:
                words += [f"--{name.replace('_', '-')}", value if isinstance(value, str) else ",".join(value)]
        return shlex.join(words)


def wanted_of(form: Form, *, report: bool, known: Collection[str] = tuple(OPTIONS)) -> Wanted:
    """The options of an evaluation.

    Raises:
        Refusal: If a field is unknown, no number, or out of range.
    """
    unknown = sorted(set(form.fields) - set(known))
    if unknown:
        raise Refusal(422, f"there is no field {unknown[0][:50]!r}; there are {', '.join(known)}.")
    given = {name: OPTIONS[name].value(form, name) for name in known}
    if len(given.get("method", ())) > MOST_METHODS:
        raise Refusal(422, f"`method` may be given {MOST_METHODS} times; got {len(given['method'])}.")
    return Wanted(**given, report=report)
