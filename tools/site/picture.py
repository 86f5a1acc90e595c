"""Draw the packages as SVG, without a script in the browser."""

from __future__ import annotations

import re
from typing import Any

_PICTURE = re.compile(r"^```mermaid\nflowchart TB\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
WIDTH, HEIGHT, GAP, RISE = 104, 30, 12, 46


def on_page_markdown(markdown: str, **_: Any) -> str:
    return _PICTURE.sub(lambda found: drawn(re.findall(r"(\w+) --> (\w+)", found[1])), markdown)


def drawn(arrows: list[tuple[str, str]]) -> str:
    """Draw boxes on levels, each above its imports, with lines down to them."""
    names = sorted({name for arrow in arrows for name in arrow})
    floor = dict.fromkeys(names, 0)
    for above, below in arrows * len(names):
        floor[above] = max(floor[above], floor[below] + 1)
    floors = [[name for name in names if floor[name] == level] for level in range(max(floor.values()) + 1)]
    across = max(map(len, floors)) * (WIDTH + GAP)
    height = len(floors) * (HEIGHT + RISE) - RISE
    place = {
        name: (
            across / 2 + (number - (len(row) - 1) / 2) * (WIDTH + GAP),
            height - level * (HEIGHT + RISE) - HEIGHT,
        )
        for level, row in enumerate(floors)
        for number, name in enumerate(row)
    }
    parts = []
    for above, below in arrows:
        (left, top), (right, bottom) = place[above], place[below]
        start, end = top + HEIGHT, bottom
        parts.append(
            f'<path d="M{left:.0f} {start:.0f}C{left:.0f} {start + 24:.0f} {right:.0f} {end - 24:.0f} '
            f'{right:.0f} {end:.0f}"/>'
        )
    for name, (middle, top) in place.items():
        parts.append(
            f'<rect x="{middle - WIDTH / 2:.0f}" y="{top:.0f}" width="{WIDTH}" height="{HEIGHT}" rx="4"/>'
            f'<text x="{middle:.0f}" y="{top + 20:.0f}">{name}</text>'
        )
    return (
        f'<svg class="rooms" role="img" aria-label="Which room imports which" '
        f'viewBox="-2 -2 {across + 4:.0f} {height + 4:.0f}">{"".join(parts)}</svg>'
    )
