"""``calibrant serve``."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer

from calibrant._math.errors import InputError

MIB = 1 << 20


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
) -> None:
    """Serve a page that judges files of predictions in the browser, and the same over HTTP.

    Uploads stay in memory, are not kept, and go nowhere.
    """
    needed = ("fastapi", "uvicorn", "python_multipart")
    missing = [name for name in needed if not importlib.util.find_spec(name)]
    if missing:
        raise InputError(f"the page needs {missing[0]}: pip install 'calibrant[web]'.")
    import uvicorn

    from calibrant.web.app import create_app
    from calibrant.web.guard import hosts_of
    from calibrant.web.limits import Limits
    from calibrant.web.sockets import bound
    from calibrant.web.workers import Workers

    limits = Limits(
        upload=most_upload * MIB, held=4 * most_upload * MIB, compute=most_seconds, receive=most_seconds
    )
    app = create_app(Workers(limits, number=workers), limits=limits, hosts=hosts_of(host))
    listening = bound(host, port)
    address = listening.getsockname()
    name = f"[{address[0]}]" if ":" in address[0] else address[0]
    typer.echo(f"the page: http://{name}:{address[1]}/ (Ctrl-C ends it)")
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, limit_concurrency=512
    )
    uvicorn.Server(config).run(sockets=[listening])
