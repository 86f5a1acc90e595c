"""Fields of requests: read by pydantic, described by OpenAPI with true examples."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from calibrant.evaluation.quantities import thresholds_of
from calibrant.evaluation.read_options import HELP, ReadOptions
from calibrant.web.limits import Refusal
from calibrant.web.uploads import Form


@dataclass(frozen=True, kw_only=True)
class EvaluateForm(ReadOptions):
    """Options of reading and evaluating predictions, and of the answer."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(use_attribute_docstrings=True)

    method: Annotated[tuple[str, ...], Field(max_length=8)] = ()
    """A calibrator to try; may be repeated."""
    positive_class: str = ""
    """With two classes: the one that is judged."""
    bins: Annotated[int, Field(ge=1, le=200)] = 15
    """Bins of the calibration errors."""
    thresholds: Annotated[tuple[str, ...], Field(max_length=20)] = ()
    """With an event: probabilities at which net benefit is measured, such as .05,20%."""
    bootstrap: Annotated[int, Field(ge=2, le=5000)] = 1000
    """Resamples behind the intervals."""
    level: Annotated[float, Field(ge=0.5, le=0.9999)] = 0.95
    """Level of the intervals."""
    seed: Annotated[int, Field(ge=0, le=2**31)] = 0
    """Random seed."""
    report: bool = False
    """Add the report and the fitted calibrator to the answer; not a field of a request."""

    @property
    def judging(self) -> dict[str, Any]:
        return {
            "positive_class": self.positive_class or None,
            "num_bins": self.bins,
            "metrics": thresholds_of(",".join(self.thresholds)) if self.thresholds else (),
            "bootstrap": self.bootstrap,
            "level": self.level,
            "seed": self.seed,
        }


_CHECKED = TypeAdapter(EvaluateForm)
_OWN: dict[str, dict[str, Any]] = {
    name: {key: value for key, value in schema.items() if key != "title" and value not in ("", [])}
    for name, schema in _CHECKED.json_schema()["properties"].items()
    if name not in {*HELP, "report"}
}
EvaluateForm.APART = frozenset({*_OWN, "report"})
OF_COMPARISONS = {name: {"type": "string", "description": said} for name, said in HELP.items()} | {
    name: schema for name, schema in _OWN.items() if name != "method"
}
OPTIONS = {"method": _OWN["method"]} | OF_COMPARISONS
"""All fields of ``/evaluate`` beside its files, by the names of the command's options, and their schemas."""
OF_APPLYING = {name: OPTIONS[name] for name in HELP if name not in {"label_column", "weight_column"}}
_WITH_COMMAS = {"thresholds"} | {each.name for each in fields(ReadOptions) if each.default == ()}


def evaluate_form(form: Form, *, report: bool, known: Collection[str] = tuple(OPTIONS)) -> EvaluateForm:
    unknown = sorted(set(form.fields) - set(known))
    if unknown:
        raise Refusal(422, f"there is no field {unknown[0][:50]!r}; there are {', '.join(known)}.")
    given: dict[str, Any] = {}
    for name, texts in form.fields.items():
        if name in _WITH_COMMAS:
            parts = (part.strip() for text in texts for part in text.split(","))
            given[name] = tuple(filter(None, parts))
        elif texts:
            given[name] = texts if name == "method" else form.text(name)
    try:
        return replace(_CHECKED.validate_python(given), report=report)
    except ValidationError as error:
        raise Refusal(422, _said(**error.errors()[0])) from error


def _said(loc: tuple[int | str, ...], input: Any, **_: Any) -> str:  # noqa: A002 (pydantic's names)
    name, schema = loc[0], OPTIONS[str(loc[0])]
    if "maxItems" in schema:
        return f"`{name}` may be given {schema['maxItems']} times; got {len(input)}."
    what = "an integer" if schema["type"] == "integer" else "a number"
    return f"`{name}` must be {what} from {schema['minimum']} to {schema['maximum']}; got {input[:50]!r}."


ABOUT = (
    "Judges and repairs the probabilities of classifiers. Files are held in memory while they are answered "
    'and are not kept. Errors are one sentence, {"error": "..."}, with the `columns` of a wrong table.'
)
EXAMPLE_CSV = "label,prob\n" + "".join(f"{row % 3 // 2},{0.2 + 0.3 * (row % 3)}\n" for row in range(24))
"""Predictions of an event: of each third of the rows one in three comes true."""
EXAMPLE_IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAE0lEQVR4nGNkYGBgYGBgYqAXAwABEAAJc0pkyAAAAABJRU5ErkJggg=="
)
_ERRORS = {
    "400": "The request is not well-formed.",
    "403": "It was sent by a page of another site.",
    "408": "It did not come in time.",
    "413": "It is too large, or what it holds would be.",
    "415": "It is not a multipart form.",
    "422": "The file or a field is wrong.",
    "503": "The server has too much to do.",
}


def shown(example: Any, kind: str = "application/json") -> dict[str, Any]:
    return {"responses": {"200": {"content": {kind: {"example": example}}}}}


def _form(fields: dict[str, Any], example: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """Describe a path with a form; fields without text in the example are required."""
    needed = [name for name, given in example.items() if not isinstance(given, str)]
    schema = {"type": "object", "required": needed, "properties": fields}
    wrong = shown({"error": "`bins` must be an integer from 1 to 200; got '0'."})["responses"]["200"]
    errors = {status: wrong | {"description": said} for status, said in _ERRORS.items()}
    body = {"required": True, "content": {"multipart/form-data": {"schema": schema, "example": example}}}
    return {
        "requestBody": body,
        "responses": {"200": {"description": "The answer.", "content": answer}} | errors,
    }


def _file(description: str) -> dict[str, str]:
    return {"type": "string", "format": "binary", "description": description}


def _several(file: dict[str, str], **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": file, **more}


def _judged(example: dict[str, Any]) -> dict[str, Any]:
    lines = (
        "Where the request accepts it: lines with `progress` and `share`, and a last one with `json` (a "
        "text), `report` (HTML), `calibrator` (base64), `calibrator_name` and the `columns`; or `error`."
    )
    return {
        "application/json": {"example": example},
        "application/x-ndjson": {"schema": {"description": lines}},
    }


_FILE = _file("Predictions as `calibrant evaluate` reads them, but no .npy; its ending says in which format.")
_CSV = {"name": "predictions.csv", "content": EXAMPLE_CSV}
_CLASS = {"name": "cat", "raw": 0.97, "calibrated": 0.81, "low": 0.78, "high": 0.84, "prevalence": 0.5}
EVALUATE = _form(
    {"file": _FILE, "calibration": _file("Predictions to fit calibrators on instead."), **OPTIONS},
    {"file": _CSV, "bootstrap": "20"},
    _judged({"kind": "binary", "num_test": 24}),
)
COMPARE = _form(
    {"file": _several(_FILE, minItems=2), **OF_COMPARISONS},
    {"file": [_CSV | {"name": f"{name}.csv"} for name in ("first", "second")], "bootstrap": "20"},
    _judged({"kind": "binary", "paired": True}),
)
APPLY = _form(
    {
        "file": _FILE,
        "calibrator": _file("A calibrator that `calibrant fit` or `/evaluate` wrote (.safetensors)."),
        **OF_APPLYING,
    },
    {"file": _CSV, "calibrator": {"name": "platt.safetensors", "content": "...", "encoding": "base64"}},
    {
        "application/octet-stream": {
            "schema": _file("Calibrated probabilities; the header `calibrant-notes` holds notes as JSON.")
        }
    },
)
PREDICT = _form(
    {
        "file": _several(_file("Images: PNG, JPEG, WebP, BMP, TIFF or GIF.")),
        "map": {
            "type": "string",
            "description": "With one image: a class, or `likeliest`; the answer then has what the network "
            "sees (`image`) and where it sees that class (`map`), both as data addresses.",
        },
    },
    {"file": {"name": "one.png", "content": EXAMPLE_IMAGE, "encoding": "base64"}},
    shown({"predictions": [{"name": "one.png", "classes": [_CLASS]}]})["responses"]["200"]["content"],
)
PREDICT["responses"]["404"] = {"description": "The server has no network."}
