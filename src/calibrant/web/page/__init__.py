"""The page: a few files that need no network, read once."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

PAGES = {
    "/": ("page.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
    "/common.js": ("common.js", "text/javascript"),
    "/image.js": ("image.js", "text/javascript"),
}
"""Name and kind of the file of each path."""


@cache
def content_of(name: str) -> bytes:
    """What a file of the page holds."""
    return files(__name__).joinpath(name).read_bytes()
