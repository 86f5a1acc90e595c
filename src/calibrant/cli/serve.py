"""``calibrant serve``."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from calibrant._math.errors import InputError
from calibrant._math.extensions import extension
from calibrant.cli import terminal
from calibrant.cli.reading import check_inputs, options_of, with_options
from calibrant.evaluation.read_options import told
from calibrant.web.limits import MIB, Limits, ModelSettings

if TYPE_CHECKING:
    from calibrant.web.predicting import Model


def _takes_settings(command: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(command)
    def run(**values: Any) -> None:
        settings = {each.name: values.pop(each.name) for each in _SETTINGS}
        command(settings=settings, **values)

    vars(run)["__signature__"] = with_options(command, "settings", _SETTINGS)
    return run


_SETTINGS = options_of(ModelSettings)


@_takes_settings
def serve(
    *,
    host: str = told("Address to listen on; 0.0.0.0 admits other computers.", "127.0.0.1", "ADDRESS"),
    port: int = told("Port to listen on; 0 picks a free one.", 8000, min=0, max=65535),
    workers: int = told("Parallel evaluations.", 1, None, "--jobs", min=1, max=64),
    most_upload: int = told("Largest upload in MiB.", 64, None, "--max-upload", min=1),
    most_seconds: int = told("Time limit for one answer.", 120, None, "--max-seconds", min=1),
    model: str | None = told(
        "Also classify images: module:factory, a name such as densenet, or a run's directory.", None, "MODEL"
    ),
    settings: dict[str, Any],
    level: float = terminal.LEVEL,
    notice: str | None = told("Sentence to show next to every answer."),
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
    check_inputs(*(settings[name] for name in ("weights", "calibrator", "predictions")))
    from calibrant.web.app import create_app
    from calibrant.web.guard import hosts_of
    from calibrant.web.server import bound, run
    from calibrant.web.workers import Workers

    limits = Limits(
        upload=most_upload * MIB, held=4 * most_upload * MIB, compute=most_seconds, receive=most_seconds
    )
    listening = bound(host, port)
    network = None
    if model is not None:
        if settings["class_names"] is not None:
            settings["class_names"] = extension("class_names_of", what="--model")(settings["class_names"])
        settings |= {name: _numbers(settings[name], f"--{name}") for name in ("mean", "std")}
        network = _loaded(ModelSettings(model=model, level=level, notice=notice, **settings), limits)
    app = create_app(Workers(limits, number=workers), model=network, limits=limits, hosts=hosts_of(host))
    listening.listen(2048)  # so that whoever reads the next line may connect at once
    address = listening.getsockname()
    name = f"[{address[0]}]" if ":" in address[0] else address[0]
    typer.echo(f"Serving on http://{name}:{address[1]}/ (stop with Ctrl-C)")
    run(app, listening)


def _loaded(settings: ModelSettings, limits: Limits) -> Model:
    from calibrant.web.predicting import Model, call
    from calibrant.web.workers import Workers

    processes = Workers(limits, setup=partial(extension("load_classifier", what="--model"), settings))
    with terminal.progress(f"loading {settings.model}"):
        described = processes.first(call, "described")
    return Model(processes, described)


def _numbers(text: str | None, option: str) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(each) for each in text.split(","))
    except ValueError:
        raise InputError(f"{option} must be numbers separated by commas; got {text!r}.") from None
