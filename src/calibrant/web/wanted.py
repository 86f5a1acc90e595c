"""What the fields of a request ask for: declared here, read by pydantic, described by OpenAPI."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from calibrant.evaluation.read_options import HELP, ReadOptions
from calibrant.web.limits import Refusal
from calibrant.web.uploads import Form


@dataclass(frozen=True, kw_only=True)
class Wanted(ReadOptions):
    """How predictions are read and judged, and what is to be answered beside the numbers."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(use_attribute_docstrings=True)

    method: Annotated[tuple[str, ...], Field(max_length=8)] = ()
    """A calibrator to try; may be repeated."""
    positive_class: str = ""
    """With two classes: the one that is judged."""
    bins: Annotated[int, Field(ge=1, le=200)] = 15
    """Bins of the calibration errors."""
    bootstrap: Annotated[int, Field(ge=2, le=5000)] = 1000
    """Resamples behind the intervals."""
    level: Annotated[float, Field(ge=0.5, le=0.9999)] = 0.95
    """Level of the intervals."""
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    """Random seed."""
    report: bool = False
    """Whether the report and the fitted calibrator are wanted, too; not a field of a request."""

    @property
    def judging(self) -> dict[str, Any]:
        """What evaluations and comparisons take alike."""
        return {
            "positive_class": self.positive_class or None,
            "num_bins": self.bins,
            "bootstrap": self.bootstrap,
            "level": self.level,
            "seed": self.seed,
        }


_CHECKED = TypeAdapter(Wanted)
_OWN: dict[str, dict[str, Any]] = {
    name: {key: value for key, value in schema.items() if key != "title" and value not in ("", [])}
    for name, schema in _CHECKED.json_schema()["properties"].items()
    if name not in {*HELP, "report"}
}
Wanted.APART = frozenset({*_OWN, "report"})
OF_COMPARISONS = {name: {"type": "string", "description": said} for name, said in HELP.items()} | {
    name: schema for name, schema in _OWN.items() if name != "method"
}
OPTIONS = {"method": _OWN["method"]} | OF_COMPARISONS
"""All fields of ``/evaluate`` beside its files, by the names of the command's options, and their schemas."""
OF_APPLYING = {name: OPTIONS[name] for name in HELP if name not in {"label_column", "weight_column"}}
_WITH_COMMAS = {each.name for each in fields(ReadOptions) if each.default == ()}


def wanted_of(form: Form, *, report: bool, known: Collection[str] = tuple(OPTIONS)) -> Wanted:
    """The options of an evaluation.

    Raises:
        Refusal: If a field is unknown, no number, or out of range.
    """
    unknown = sorted(set(form.fields) - set(known))
    if unknown:
        raise Refusal(422, f"there is no field {unknown[0][:50]!r}; there are {', '.join(known)}.")
    given: dict[str, Any] = {}
    for name, texts in form.fields.items():
        if name in _WITH_COMMAS:
            parts = (part.strip() for text in texts for part in text.split(","))
            given[name] = tuple(filter(None, parts))
        elif texts:
            given[name] = texts if name == "method" else texts[-1]
    try:
        return replace(_CHECKED.validate_python(given), report=report)
    except ValidationError as error:
        raise Refusal(422, _said(**error.errors()[0])) from error


def _said(loc: tuple[int | str, ...], input: Any, **_: Any) -> str:  # noqa: A002 (pydantic's names)
    """A sentence for what pydantic found wrong."""
    name, schema = loc[0], OPTIONS[str(loc[0])]
    if "maxItems" in schema:
        return f"`{name}` may be given {schema['maxItems']} times; got {len(input)}."
    what = "an integer" if schema["type"] == "integer" else "a number"
    return f"`{name}` must be {what} from {schema['minimum']} to {schema['maximum']}; got {input[:50]!r}."
