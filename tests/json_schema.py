"""Values held against a JSON Schema, as far as pydantic writes one."""

from collections.abc import Iterator
from typing import Any

TYPES = {"string": str, "integer": int, "number": int | float, "boolean": bool, "null": type(None)}
TYPES |= {"object": dict, "array": list}
KNOWN = {"$defs", "$ref", "anyOf", "enum", "const", "type", "items", "properties", "required"}
KNOWN |= {"additionalProperties", "title", "description", "default"}


def faults(value: Any, schema: Any, whole: Any, place: str = "") -> Iterator[str]:
    """Where a value differs from a schema, of which ``whole`` has the definitions; or has unknown keys."""
    assert {*schema} <= KNOWN
    if "$ref" in schema:
        schema = whole["$defs"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        yield from min((list(faults(value, each, whole, place)) for each in schema["anyOf"]), key=len)
    allowed = [schema["const"]] if "const" in schema else schema.get("enum", [value])
    kind = schema.get("type")
    if kind is not None and (
        not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")
    ):
        yield f"{place}: {value!r} is no {kind}"
    elif value not in allowed:
        yield f"{place}: {value!r} is none of {allowed}"
    elif kind == "array":
        for number, each in enumerate(value):
            yield from faults(each, schema["items"], whole, f"{place}[{number}]")
    elif kind == "object":
        yield from _faults_of_keys(value, schema, whole, place)


def _faults_of_keys(value: Any, schema: Any, whole: Any, place: str) -> Iterator[str]:
    yield from (f"{place}.{name} is missing" for name in schema.get("required", ()) if name not in value)
    for name, each in value.items():
        inner = schema.get("properties", {}).get(name, schema.get("additionalProperties"))
        if inner is None:
            yield f"{place}.{name} is unknown"
        else:
            yield from faults(each, inner, whole, f"{place}.{name}")
