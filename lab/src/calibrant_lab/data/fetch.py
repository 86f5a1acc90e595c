"""Find a named set: in the data folder, in the cache, or on the net."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from calibrant._math.errors import InputError
from calibrant._math.files import reason

Folder = str | os.PathLike[str] | None

_NO_NETWORK = ContextVar("_NO_NETWORK", default=False)
_PATIENCE = 30  # seconds without a byte


@dataclass(frozen=True)
class Remote:
    """A file on the net."""

    url: str
    checksum: str  # in the form `algorithm:digest`

    @property
    def file(self) -> str:
        return self.url.partition("?")[0].rpartition("/")[2]


@cache
def published() -> Mapping[str, Mapping[str, Any]]:
    """Return the sets known by name, as ``sets.toml`` describes them."""
    return tomllib.loads(Path(__file__).with_name("sets.toml").read_text(encoding="utf-8"))


def remotes(name: str, *, extra: bool = False) -> list[Remote]:
    about = published().get(name, {})
    files = {**about.get("downloads", {}), **(about["extra"] if extra else {})}
    return [Remote(about["address"].format(file), checksum) for file, checksum in files.items()]


@contextmanager
def offline(wanted: bool = True) -> Generator[None]:
    """Download nothing inside; the environment variable ``CALIBRANT_OFFLINE=1`` does so everywhere."""
    token = _NO_NETWORK.set(wanted or _NO_NETWORK.get())
    try:
        yield
    finally:
        _NO_NETWORK.reset(token)


def cache_folder() -> Path:
    """Return the download folder: ``CALIBRANT_CACHE``, or the platform's cache folder."""
    import pooch

    return Path(os.environ.get("CALIBRANT_CACHE") or pooch.os_cache("calibrant"))


def located(name: str, folder: Folder, *, files: Sequence[str] = (), extra: bool = False) -> Path:
    """Return the path of a named set; download it if needed and allowed.

    The folder of data sets is ``folder``, or that of the environment variable ``CALIBRANT_DATA``. The first
    of ``files`` (by default those of ``sets.toml``) that is there is taken; ``./FILE`` stands for the folder
    that holds it. ``extra`` files are downloaded besides.
    """
    root = folder or os.environ.get("CALIBRANT_DATA")
    files = files or published()[name]["files"]
    for file in files if root else ():
        if (found := Path(root or "", name, file)).exists():
            return found.parent if file.startswith("./") else found
    first = files[0].removeprefix("./")
    place = f"{Path(root) / name / first}" if root else f"{name}/{first} in a folder of data sets"
    remedy = (
        f"{name} should be at {place}, where there is no such file; set CALIBRANT_DATA to the folder of data "
        "sets"
    )
    needed = remotes(name, extra=extra)
    if not needed:
        raise InputError(f"{remedy}, or give the path of a file.")
    kept = cache_folder() / name
    missing = [remote for remote in needed if not (kept / remote.file).is_file()]
    no_network = os.environ.get("CALIBRANT_OFFLINE", "").lower() not in {"", "0", "false", "no"}
    if missing and (no_network or _NO_NETWORK.get()):
        raise InputError(f"{remedy}. It can be downloaded from {missing[0].url}, but not while offline.")
    for remote in missing:
        download(remote, kept)
    return kept if len(needed) > 1 else kept / needed[0].file


def download(remote: Remote, folder: Path) -> Path:
    """Download and check a file, which is there whole or not at all."""
    import pooch
    from requests import RequestException

    new = [each for each in (folder, *folder.parents) if not each.exists()]
    pooch.get_logger().setLevel("WARNING")
    by_http: Any = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), timeout=_PATIENCE)
    try:
        return Path(pooch.retrieve(remote.url, remote.checksum, remote.file, folder, downloader=by_http))
    except (RequestException, OSError) as error:
        raise InputError(
            f"{remote.url} cannot be downloaded ({_reason(error)}); try again, or get the file "
            f"elsewhere and put it at {folder / remote.file}."
        ) from error
    except ValueError as error:  # its hash is another
        raise InputError(
            f"{remote.url} does not hold what was published (its checksum is not {remote.checksum}); nothing "
            "of it was kept. Get the file elsewhere and set CALIBRANT_DATA to its folder of data sets."
        ) from error
    finally:
        with suppress(OSError):  # which says that there is something in it
            for each in new:
                each.rmdir()


def _reason(error: Exception) -> str:
    from requests import ConnectionError as NoConnection
    from requests import HTTPError, Timeout

    if isinstance(error, HTTPError) and error.response is not None:
        return f"the server answers {error.response.status_code}"
    if isinstance(error, Timeout):
        return "the server does not answer"
    if isinstance(error, NoConnection):
        return "there is no connection to the server"
    return reason(error)
