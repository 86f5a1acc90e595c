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
_ERRORS = {
    400: "The request is not well-formed.",
    403: "It was sent by a page of another site.",
    408: "It did not come in time.",
    413: "It is too large, or what it holds would be.",
    415: "It is not a multipart form.",
    422: "The file or a field is wrong.",
    503: "The server has too much to do.",
}

_ERROR = {"application/json": {"example": {"error": "`bins` must be an integer from 1 to 200; got '0'."}}}


def _responses(example: Any, *, more: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        "200": {
            "description": "The answer.",
            "content": {"application/json": {"example": example}} | (more or {}),
        },
        **{str(status): {"description": said, "content": _ERROR} for status, said in _ERRORS.items()},
    }


def _form(fields: dict[str, Any], required: list[str], example: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "required": required, "properties": fields}
    return {"required": True, "content": {"multipart/form-data": {"schema": schema, "example": example}}}


_FILE = {
    "type": "string",
    "format": "binary",
    "description": "Predictions in any format that `calibrant evaluate` reads, but .npy; the ending of its "
    "name says which.",
}
_LINES = {
    "application/x-ndjson": {
        "schema": {
            "description": "Where the request accepts it: lines with `progress` and `share`, and a last one "
            "with `json` (a text), `report` (HTML), `calibrator` (base64), `calibrator_name` and a table's "
            "`columns`; or `error`."
        }
    }
}
EVALUATE = {
    "requestBody": _form(
        {
            "file": _FILE,
            "calibration": {**_FILE, "description": "Predictions to fit calibrators on instead."},
            **OPTIONS,
        },
        ["file"],
        {"file": {"name": "predictions.csv", "content": EXAMPLE_CSV}, "bootstrap": "20"},
    ),
    "responses": _responses({"kind": "binary", "num_test": 24}, more=_LINES),
}
COMPARE = {
    "requestBody": _form(
        {
            "file": {"type": "array", "items": _FILE, "minItems": 2},
            **OF_COMPARISONS,
        },
        ["file"],
        {
            "file": [{"name": f"{name}.csv", "content": EXAMPLE_CSV} for name in ("first", "second")],
            "bootstrap": "20",
        },
    ),
    "responses": _responses({"kind": "binary", "paired": True}, more=_LINES),
}  # fmt: skip
APPLY = {
    "requestBody": _form(
        {
            "file": _FILE,
            "calibrator": {
                "type": "string",
                "format": "binary",
                "description": "A calibrator that `calibrant fit` or `/evaluate` wrote (.safetensors).",
            },
            **OF_APPLYING,
        },
        ["file", "calibrator"],
        {
            "file": {"name": "predictions.csv", "content": EXAMPLE_CSV},
            "calibrator": {"name": "platt.safetensors", "content": "...", "encoding": "base64"},
        },
    ),
    "responses": _responses({})
    | {
        "200": {
            "description": "The file with calibrated probabilities; `calibrant-notes` holds notes as JSON.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
}
HEALTH = {"responses": {"200": {"content": {"application/json": {"example": {"status": "ok"}}}}}}
ABOUT_SERVER = {"responses": {"200": {"content": {"application/json": {"example": {"model": None}}}}}}
METRICS = {"responses": {"200": {"content": {"text/plain": {"example": "calibrant_held_bytes 0"}}}}}


EXAMPLE_IMAGE = (
    "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAAAAADhZOFXAAAAE0lEQVR4nGNkYGBgYGBgYqAXAwABEAAJc0pkyAAAAABJRU5ErkJggg=="
)
_CLASS = {"name": "cat", "raw": 0.97, "calibrated": 0.81, "low": 0.78, "high": 0.84, "prevalence": 0.5}
PREDICT = {
    "requestBody": _form(
        {
            "file": {
                "type": "array",
                "items": {"type": "string", "format": "binary"},
                "description": "Images: PNG, JPEG, WebP, BMP, TIFF or GIF.",
            },
            "map": {
                "type": "string",
                "description": "With one image: a class, or `likeliest`; the answer then has what the "
                "network sees (`image`) and where it sees that class (`map`), both as data addresses.",
            },
        },
        ["file"],
        {"file": {"name": "one.png", "content": EXAMPLE_IMAGE, "encoding": "base64"}},
    ),
    "responses": {
        **_responses({"predictions": [{"name": "one.png", "classes": [_CLASS]}]}),
        "404": {"description": "The server has no network.", "content": _ERROR},
    },
}
