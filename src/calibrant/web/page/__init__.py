"""The page: a few files that need no network, read once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Page:
    """One file of the page."""

    name: str
    kind: str

    def content(self) -> bytes:
        """What it holds."""
        return _content(self.name)


@cache
def _content(name: str) -> bytes:
    return files(__name__).joinpath(name).read_bytes()


PAGES = {
    "/": Page("page.html", "text/html"),
    "/page.css": Page("page.css", "text/css"),
    "/page.js": Page("page.js", "text/javascript"),
    "/common.js": Page("common.js", "text/javascript"),
    "/image.js": Page("image.js", "text/javascript"),
}
