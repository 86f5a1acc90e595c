"""A small search index: first sentences of API entries, text of other pages but the contributors'."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

MOST_OF_API, MOST_OF_PAGE = 160, 900  # characters of an entry


def shortened(location: str, text: str) -> str:
    if location.startswith("reference/api/"):
        first = re.search(r"<p>(.*?)</p>", text, flags=re.DOTALL)
        text, most = first.group(1) if first else "", MOST_OF_API
    else:
        most = MOST_OF_PAGE
    text = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())
    return html.escape(text[:most].rsplit(" ", 1)[0] if len(text) > most else text, quote=False)


def on_post_build(config: Any) -> None:
    path = Path(config.site_dir) / "search" / "search_index.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    index["docs"] = [
        each for each in index["docs"] if not each["location"].startswith("project/contributing/")
    ]
    for entry in index["docs"]:
        entry["text"] = shortened(entry["location"], entry["text"])
    path.write_text(json.dumps(index, ensure_ascii=False, separators=(",", ":")), encoding="utf-8")
