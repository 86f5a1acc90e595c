"""Answers to images: what the network says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from calibrant.web.batches import Batches, call
from calibrant.web.described import PREDICT
from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Receiver, while_there
from calibrant.web.workers import Workers, value_of


@dataclass(frozen=True)
class Model:
    """The network of a server."""

    workers: Workers
    """Whose processes hold the classifier."""
    described: dict[str, Any]


def add_predictions(app: FastAPI, model: Model | None, receiver: Receiver, limits: Limits) -> None:
    """Ask the network about images that are sent."""
    batches = None if model is None else Batches(model.workers, limits)

    @app.post("/predict", openapi_extra=PREDICT)
    async def predict(request: Request) -> Response:
        """Raw and calibrated probabilities of each image, with intervals; for one image also a heat map."""
        if model is None or batches is None:
            raise Refusal(404, "there is no network here; start `calibrant serve --model module:factory`.")
        async with receiver.form(request) as form:
            files, unknown = form.files.get("file", []), sorted(set(form.fields) - {"map"})
            if unknown:
                raise Refusal(422, f"there is no field {unknown[0][:50]!r}; there is `map`.")
            if not files:
                raise Refusal(422, "the field `file` must hold one image or more; got none.")
            if form.fields.get("map"):
                asked = ("with_map", form.only("file"), form.fields["map"][-1], limits)
                found = [await while_there(request, value_of(model.workers.run(call, *asked)))]
            else:
                found = await while_there(request, batches.answers(files))
        if len(found) == 1 and isinstance(found[0], Refusal):
            raise found[0]
        told = [
            {"name": file.name, "error": answer.sentence} if isinstance(answer, Refusal) else answer
            for file, answer in zip(files, found, strict=True)
        ]
        return JSONResponse({"predictions": told})
