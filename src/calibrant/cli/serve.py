"""``calibrant serve``."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calibrant._math.errors import InputError
from calibrant._math.extensions import extension
from calibrant.cli.reading import check_inputs
from calibrant.cli.terminal import Level, progress

if TYPE_CHECKING:
    from calibrant.web.limits import Limits
    from calibrant.web.predicting import Model
    from calibrant.web.settings import ModelSettings


def serve(
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on; 0.0.0.0 admits other computers.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8000,
    workers: Annotated[int, typer.Option("--jobs", min=1, max=64, help="Parallel evaluations.")] = 1,
    most_upload: Annotated[int, typer.Option("--max-upload", min=1, help="Largest upload in MiB.")] = 64,
    most_seconds: Annotated[
        int, typer.Option("--max-seconds", min=1, help="Time limit for one answer.")
    ] = 120,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Also classify images: module:factory, a name such as densenet, or a run's directory.",
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Weights to load: .safetensors, or a state dictionary.")
    ] = None,
    calibrator: Annotated[Path | None, typer.Option(help="Its calibrator, saved by `calibrant fit`.")] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(help="Its predictions with labels, for intervals and, without --calibrator, for a fit."),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(metavar="METHOD", help="Calibrator to fit on --predictions; see `calibrant methods`."),
    ] = None,
    class_names: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Class names, comma-separated or a file; or chexnet, torchxrayvision."
        ),
    ] = None,
    multilabel: Annotated[
        bool, typer.Option("--multilabel", help="An image can have several classes, or none.")
    ] = False,
    size: Annotated[int, typer.Option(min=0, help="Resize images to N × N pixels (default: off).")] = 0,
    resize: Annotated[
        int, typer.Option(min=0, help="Resize the shorter side to N pixels (default: off).")
    ] = 0,
    crop: Annotated[int, typer.Option(min=0, help="Crop the central N × N pixels (default: off).")] = 0,
    ten_crop: Annotated[
        bool, typer.Option("--ten-crop", help="Average the probabilities of ten crops.")
    ] = False,
    channels: Annotated[int, typer.Option(min=1, max=3, help="1 for grey, 3 for colour.")] = 3,
    mean: Annotated[
        str | None,
        typer.Option(metavar="NUMBERS", help="Mean per channel in [0, 1], e.g. 0.485,0.456,0.406."),
    ] = None,
    std: Annotated[
        str | None, typer.Option(metavar="NUMBERS", help="Standard deviation per channel.")
    ] = None,
    level: Level = 0.95,
    notice: Annotated[str | None, typer.Option(help="Sentence to show next to every answer.")] = None,
) -> None:
    """Evaluate files in the browser or over HTTP.

    Uploads stay on this computer and aren't kept.

    Examples:
        calibrant serve
        calibrant serve --model runs/xray --predictions validation.npz
    """
    needed = ("fastapi", "uvicorn", "httptools", "python_multipart")
    missing = [name for name in needed if not importlib.util.find_spec(name)]
    if missing:
        raise InputError(f"the page needs {missing[0]}: pip install 'calibrant[web]'.")
    check_inputs(weights, calibrator, predictions)
    from calibrant.web.app import create_app
    from calibrant.web.guard import hosts_of
    from calibrant.web.limits import MIB, Limits
    from calibrant.web.server import bound, run
    from calibrant.web.settings import ModelSettings
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
            class_names=(
                None if class_names is None else extension("class_names_of", what="--model")(class_names)
            ),
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
    run(app, listening)


def _loaded(settings: ModelSettings, limits: Limits) -> Model:
    """The network, loaded in a process of its own and described."""
    from calibrant.web.predicting import Model, call
    from calibrant.web.workers import Workers

    processes = Workers(limits, setup=partial(extension("load_classifier", what="--model"), settings))
    with progress(f"loading {settings.model}"):
        described = processes.first(call, "described")
    return Model(processes, described)


def _numbers(text: str | None, option: str) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(each) for each in text.split(","))
    except ValueError:
        raise InputError(f"{option} must be numbers with commas between them; got {text!r}.") from None
