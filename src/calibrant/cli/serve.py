"""``calibrant serve``."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant._math.errors import InputError
from calibrant.cli.reading import check_inputs
from calibrant.cli.terminal import METHODS, Level, progress

if TYPE_CHECKING:
    from calibrant.web.limits import Limits
    from calibrant.web.predicting import Model
    from calibrant.web.settings import ModelSettings


def serve(
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 for all, which lets other computers in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0: any free one.")] = 8000,
    workers: Annotated[
        int, typer.Option(min=1, max=64, help="Processes that evaluate, one file each at a time.")
    ] = 1,
    most_upload: Annotated[int, typer.Option(min=1, help="Largest upload, in MiB.")] = 64,
    most_seconds: Annotated[int, typer.Option(min=1, help="Longest time for one answer.")] = 120,
    model: Annotated[
        str | None,
        typer.Option(
            help="Also show images to a network: module:factory, a name such as densenet, or the directory "
            "of a run."
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Its weights by name: .safetensors, or a state dictionary.")
    ] = None,
    calibrator: Annotated[
        Path | None, typer.Option(help="Its calibrator, which `calibrant fit` saved.")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            help="Its predictions with labels; intervals and frequencies of the classes come from them, and "
            "the calibrator where --calibrator names none."
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help=f"What is fitted on --predictions: {METHODS}. Default: platt for several labels, else "
            "temperature."
        ),
    ] = None,
    class_names: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Classes in the network's order: names with commas, a file of one a line, chexnet or "
            "torchxrayvision.",
        ),
    ] = None,
    multilabel: Annotated[
        bool, typer.Option("--multilabel", help="An image may have several classes, or none.")
    ] = False,
    size: Annotated[int, typer.Option(min=0, help="Scale images to so many pixels a side.")] = 0,
    resize: Annotated[
        int, typer.Option(min=0, help="Scale the shorter side of images to so many pixels.")
    ] = 0,
    crop: Annotated[int, typer.Option(min=0, help="Cut the middle square of so many pixels out.")] = 0,
    ten_crop: Annotated[
        bool, typer.Option("--ten-crop", help="Average the probabilities of ten such squares.")
    ] = False,
    channels: Annotated[int, typer.Option(min=1, max=3, help="1: grey, 3: colour.")] = 3,
    mean: Annotated[
        str | None, typer.Option(help="Mean of each channel in [0, 1], as 0.485,0.456,0.406.")
    ] = None,
    std: Annotated[str | None, typer.Option(help="Deviation of each channel.")] = None,
    level: Level = 0.95,
    notice: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="A sentence shown beside every answer of the network."),
    ] = None,
) -> None:
    """Serve a page that judges files of predictions in the browser, and the same over HTTP.

    Uploads stay in memory, are not kept, and go nowhere.
    """
    needed = ("fastapi", "uvicorn", "httptools", "python_multipart")
    missing = [name for name in needed if not importlib.util.find_spec(name)]
    if missing:
        raise InputError(f"the page needs {missing[0]}: pip install 'calibrant[web]'.")
    check_inputs(weights, calibrator, predictions)
    import uvicorn

    from calibrant.web.app import create_app
    from calibrant.web.guard import hosts_of
    from calibrant.web.limits import MIB, Limits
    from calibrant.web.model import class_names_of
    from calibrant.web.protocol import Protocol
    from calibrant.web.settings import ModelSettings
    from calibrant.web.sockets import bound
    from calibrant.web.workers import Workers

    limits = Limits(
        upload=most_upload * MIB, held=4 * most_upload * MIB, compute=most_seconds, receive=most_seconds
    )
    listening = bound(host, port)
    network = None
    if model is not None:
        settings = ModelSettings(
            model=model,
            weights=weights,
            calibrator=calibrator,
            predictions=predictions,
            method=method,
            class_names=None if class_names is None else class_names_of(class_names),
            multilabel=multilabel,
            size=size,
            resize=resize,
            crop=crop,
            ten_crop=ten_crop,
            channels=channels,
            mean=_numbers(mean, "--mean"),
            std=_numbers(std, "--std"),
            level=level,
            notice=notice,
        )
        network = _loaded(settings, limits)
    app = create_app(Workers(limits, number=workers), model=network, limits=limits, hosts=hosts_of(host))
    listening.listen(2048)  # so that whoever reads the next line may connect at once
    address = listening.getsockname()
    name = f"[{address[0]}]" if ":" in address[0] else address[0]
    typer.echo(f"the page: http://{name}:{address[1]}/ (Ctrl-C ends it)")
    config = uvicorn.Config(
        app,
        http=Protocol,
        log_level="warning",
        access_log=False,
        server_header=False,
        limit_concurrency=512,
        timeout_graceful_shutdown=3,  # seconds; a stalled upload would keep the server for ever
        timeout_keep_alive=75,  # longer than clients keep one, or a request may meet a connection that ends
    )
    uvicorn.Server(config).run(sockets=[listening])


def _loaded(settings: ModelSettings, limits: Limits) -> Model:
    """The network in a process of its own, which has said what it is."""
    from calibrant.web.classifier import Classifier
    from calibrant.web.model import load_classifier
    from calibrant.web.predicting import Model
    from calibrant.web.workers import Workers

    processes = Workers(limits, setup=partial(load_classifier, settings))
    with progress(f"loading {settings.model}"):
        described = processes.first(Classifier.described)
    return Model(processes, described)


def _numbers(text: str | None, option: str) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(each) for each in text.split(","))
    except ValueError:
        raise InputError(f"{option} must be numbers with commas between them; got {text!r}.") from None
