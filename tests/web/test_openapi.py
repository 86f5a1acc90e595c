"""What OpenAPI says is true."""

from typing import Any

import pytest

from web_client import Client

PATHS = ("/evaluate", "/compare", "/about", "/health", "/metrics")


def sent(client: Client, path: str, method: str, described: dict[str, Any]) -> Any:
    """The answer to the example of a path."""
    if method == "get":
        return client.get(path)
    example = described["requestBody"]["content"]["multipart/form-data"]["example"]
    files = [
        (name, (file["name"], file["content"]))
        for name, given in example.items()
        for file in (given if isinstance(given, list) else [given])
        if isinstance(file, dict)
    ]
    fields = {name: text for name, text in example.items() if isinstance(text, str)}
    return client.post(path, files=files, data=fields)


def test_refusals_are_described_and_every_path_is_asked(client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {*PATHS, "/predict", "/apply"}  # which test_model.py and test_evaluations.py ask
    described = paths["/evaluate"]["post"]["responses"]
    refused = client.post("/evaluate", files={"file": ("a.csv", b"x")}, data={"bins": "0"})
    assert described[str(refused.status_code)]["content"]["application/json"]["example"] == refused.json()


@pytest.mark.parametrize("path", PATHS)
def test_examples(path, client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    ((method, described),) = paths[path].items()
    answer = sent(client, path, method, described)
    assert answer.status_code == 200, answer.text
    ((kind, content),) = list(described["responses"]["200"]["content"].items())[:1]
    assert answer.headers["content-type"].partition(";")[0] == kind
    expected = content["example"]
    if kind == "application/json":
        assert expected.items() <= answer.json().items()
    else:
        assert expected in answer.text
