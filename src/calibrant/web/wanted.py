"""What the fields of a request ask for: declared here, read by pydantic, described by OpenAPI."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, WithJsonSchema

from calibrant.web.limits import Refusal
from calibrant.web.uploads import Form

if TYPE_CHECKING:
    from calibrant.predictions import ColumnNames

_READING = (
    "label_column",
    "prob_columns",
    "logit_columns",
    "weight_column",
    "group_column",
    "cluster",
    "format",
)
_GROUPS = frozenset({"group", "groups"})
Text = Annotated[str | None, WithJsonSchema({"type": "string"})]


def _parted(texts: tuple[str, ...] | list[str]) -> tuple[str, ...]:
    return tuple(part.strip() for text in texts for part in text.split(",") if part.strip())


Names = Annotated[tuple[str, ...], BeforeValidator(_parted), WithJsonSchema({"type": "string"})]


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """How predictions are read and judged, and what is to be answered beside the numbers."""

    method: Annotated[
        tuple[str, ...], Field(max_length=8, description="A calibrator to try; may be repeated.")
    ] = ()
    positive_class: Annotated[Text, Field(description="With two classes: the one that is judged.")] = None
    label_column: Annotated[Text, Field(description="The column of true classes.")] = None
    prob_columns: Annotated[
        Names, Field(description="Columns of probabilities, by class, with commas between; one: class 1.")
    ] = ()
    logit_columns: Annotated[Names, Field(description="The same for logits.")] = ()
    weight_column: Annotated[Text, Field(description="The column of weights.")] = None
    group_column: Annotated[
        Names, Field(description="The column of groups; several with commas between.")
    ] = ()
    cluster: Annotated[
        Text,
        Field(
            description="The column of patients, documents, images, ...: samples of one are not independent."
        ),
    ] = None
    format: Annotated[
        Text, Field(description="Read the files as csv, jsonl, npz, ..., whatever their names end in.")
    ] = None
    bins: Annotated[int, Field(ge=1, le=200, description="Bins of the calibration errors.")] = 15
    bootstrap: Annotated[int, Field(ge=2, le=5000, description="Resamples behind the intervals.")] = 1000
    level: Annotated[float, Field(ge=0.5, le=0.9999, description="Level of the intervals.")] = 0.95
    seed: Annotated[int, Field(ge=0, le=2**31, description="Random seed.")] = 0
    report: bool = False
    """Whether the report and the fitted calibrator are wanted, too; not a field of a request."""

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


_CHECKED = TypeAdapter(Wanted)
_SCHEMAS: dict[str, dict[str, Any]] = _CHECKED.json_schema()["properties"]
OPTIONS = {
    name: {key: value for key, value in schema.items() if key != "title" and value not in (None, [])}
    for name, schema in _SCHEMAS.items()
    if name != "report"
}
"""All fields of ``/evaluate`` beside its files, by the names of the command's options, and their schemas."""
OF_COMPARISONS = {name: schema for name, schema in OPTIONS.items() if name != "method"}
OF_APPLYING = {name: OPTIONS[name] for name in _READING if name not in {"label_column", "weight_column"}}
_SEVERAL = {each.name for each in fields(Wanted) if each.default == ()}


def wanted_of(form: Form, *, report: bool, known: Collection[str] = tuple(OPTIONS)) -> Wanted:
    """The options of an evaluation.

    Raises:
        Refusal: If a field is unknown, no number, or out of range.
    """
    unknown = sorted(set(form.fields) - set(known))
    if unknown:
        raise Refusal(422, f"there is no field {unknown[0][:50]!r}; there are {', '.join(known)}.")
    given = {name: texts if name in _SEVERAL else texts[-1] for name, texts in form.fields.items() if texts}
    try:
        return replace(_CHECKED.validate_python(given), report=report)
    except ValidationError as error:
        raise Refusal(422, _said(**error.errors()[0])) from error


def _said(loc: tuple[int | str, ...], input: Any, **_: Any) -> str:  # noqa: A002 (pydantic's names)
    """A sentence for what pydantic found wrong."""
    schema = OPTIONS[str(loc[0])]
    if "maxItems" in schema:
        return f"`{loc[0]}` may be given {schema['maxItems']} times; got {len(input)}."
    what, low, high = schema["type"], schema["minimum"], schema["maximum"]
    what = {"integer": "an integer", "number": "a number"}[what]
    return f"`{loc[0]}` must be {what} from {low} to {high}; got {input[:50]!r}."
