"""Link pages to repository files such as recipes and tests, or name the files without an address."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(((?!https?://|#|mailto:)[^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:
    """Make links out of ``docs`` absolute; the strict build finds dead ones."""
    here = Path(config.docs_dir) / Path(page.file.src_uri).parent

    def outward(found: re.Match[str]) -> str:
        target, _, anchor = found[2].partition("#")
        path = (here / target).resolve()
        inside = path.is_relative_to(config.docs_dir)
        if not target or not path.exists() or not path.is_relative_to(ROOT):
            return found[0]
        known = files.get_file_from_path(path.relative_to(config.docs_dir).as_posix()) if inside else None
        if known is not None and known.inclusion.is_included():
            relative = Path(os.path.relpath(path, here)).as_posix()
            return f"[{found[1]}]({relative}{'#' + anchor if anchor else ''})"
        name = path.relative_to(ROOT).as_posix()
        if config.extra["repository"] is None:
            known_by = found[1].strip("`") in {name, path.name}
            return f"`{name}`" if known_by else f"{found[1]} (`{name}` in the repository)"
        kind = "tree" if path.is_dir() else "blob"
        place = f"{config.extra['repository']}/{kind}/main/{name}"
        return f"[{found[1]}]({place}{'#' + anchor if anchor else ''})"

    return _LINK.sub(outward, markdown)
