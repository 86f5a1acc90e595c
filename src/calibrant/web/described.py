"""What OpenAPI says of the paths, with examples that are true: a test sends them."""

from __future__ import annotations

from typing import Any

from calibrant.web.wanted import OF_APPLYING, OF_COMPARISONS, OPTIONS

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
    """An answer, by an example."""
    return {"responses": {"200": {"content": {kind: {"example": example}}}}}


def _form(fields: dict[str, Any], example: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    """A path that takes a form: what is no text in the example is required."""
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
