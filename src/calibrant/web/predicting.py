"""Answers to images: what the network says of them."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from calibrant.web.batches import Batches, call_with_map
from calibrant.web.evaluations import Computes
from calibrant.web.limits import Limits, Refusal
from calibrant.web.uploads import Form, Receiver, while_there
from calibrant.web.workers import Done


@dataclass(frozen=True)
class Model:
    """The network of a server."""

    workers: Computes
    """Whose processes hold the classifier."""
    described: dict[str, Any]


class Predicting:
    """Asks the network about images that are sent."""

    def __init__(self, model: Model | None, receiver: Receiver, limits: Limits) -> None:
        self._model, self._receiver, self._limits = model, receiver, limits
        self._batches = None if model is None else Batches(model.workers, limits)

    async def predict(self, request: Request) -> Response:
        """Raw and calibrated probabilities of each image, with intervals; for one image also a heat map."""
        if self._model is None or self._batches is None:
            raise Refusal(404, "there is no network here; start `calibrant serve --model module:factory`.")
        return await while_there(request, self._predicted(request, self._model, self._batches))

    async def _predicted(self, request: Request, model: Model, batches: Batches) -> Response:
        async with self._receiver.form(request) as form:
            files, wanted = form.files.get("file", []), _map_of(form)
            if not files:
                raise Refusal(422, "the field `file` must hold one image or more; got none.")
            if wanted is not None:
                file = form.only("file")
                return JSONResponse(await self._with_map(model, file, wanted))
            answers = await batches.answers(files)
        if len(answers) == 1 and isinstance(answers[0], Refusal):
            raise answers[0]
        told = [
            {"name": file.name, "error": answer.sentence} if isinstance(answer, Refusal) else answer
            for file, answer in zip(files, answers, strict=True)
        ]
        return JSONResponse({"predictions": told})

    async def _with_map(self, model: Model, file: Any, wanted: str) -> dict[str, Any]:
        async with aclosing(model.workers.run(call_with_map, file, wanted, self._limits)) as messages:
            async for message in messages:
                if isinstance(message, Done):
                    return {"predictions": [message.value]}
        raise RuntimeError("a worker ended without a word")


def _map_of(form: Form) -> str | None:
    unknown = sorted(set(form.fields) - {"map"})
    if unknown:
        raise Refusal(422, f"there is no field {unknown[0][:50]!r}; there is `map`.")
    return form.text("map")
