"""Where the site and the repository are, as ``pyproject.toml`` says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2] / "pyproject.toml"
ICON = "fontawesome/brands/git-alt"


def on_config(config: Any) -> Any:
    """The configuration with both addresses."""
    urls = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["urls"]
    config.site_url = urls["Documentation"].rstrip("/") + "/"
    config.extra["repository"] = urls["Source"]
    config.extra["social"] = [{"icon": ICON, "link": urls["Source"], "name": "The repository"}]
    return config
