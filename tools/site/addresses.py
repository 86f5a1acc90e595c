"""Addresses of site and repository from ``pyproject.toml``; pages do not link placeholders."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
ICON = "fontawesome/brands/git-alt"


def on_config(config: Any) -> Any:
    urls = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["urls"]
    config.site_url = urls["Documentation"].rstrip("/") + "/"
    repository = None if is_placeholder(urls["Source"]) else urls["Source"]
    config.extra["repository"] = repository
    if repository is not None:
        config.extra["social"] = [{"icon": ICON, "link": repository, "name": "The repository"}]
    return config


def is_placeholder(address: str) -> bool:
    """Return True if an address ends in ``.example``."""
    return (urlsplit(address).hostname or "").endswith(".example")
