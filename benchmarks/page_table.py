"""Write the table of docs/benchmarks.md from ``results/*.json``, between its markers.

Run as ``python benchmarks/page_table.py``; ``--check`` writes nothing and fails where the page is not
what would be written.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from check import Held, held
from environment import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
START, END = "<!-- benchmarks: made by benchmarks/page_table.py -->", "<!-- end of benchmarks -->"


def table(rows: list[Held], folder: Path) -> str:
    """Markdown: what was measured beside its bar, and on what machine."""
    lines = ["| work | measured | bar |", "|---|---|---|"]
    lines += [
        f"| {row.work} | {row.measured} | {row.bar}{'' if row.met else ' **missed**'} |" for row in rows
    ]
    machines: dict[str, list[str]] = {}
    versions: dict[str, str] = {}
    for path in sorted(folder.glob("*.json")):
        where = json.loads(path.read_text(encoding="utf-8")).get("environment")
        if where:
            said = f"{where['processor']}, {where['cores']} cores, Python {where['python']}"
            machines.setdefault(said, []).append(path.stem)
            versions |= where.get("packages", {})
    lines.append("")
    others = ", ".join(f"{name} {versions[name]}" for name in sorted(versions.keys() - {"calibrant"}))
    lines += [f"Versions: {others}.", ""] if others else []
    lines += [f"Measured on {machine} ({', '.join(names)})." for machine, names in machines.items()]
    return "\n".join([*losses_table(folder / "losses.json"), *lines])


def losses_table(path: Path) -> list[str]:
    """Forward and backward of every loss, in multiples of torch's cross-entropy."""
    if not path.exists():
        return []
    content = json.loads(path.read_text(encoding="utf-8"))
    sizes = content["tables"]["all"]
    lines = [
        f"Forward and backward in multiples of `{content['relative_to']}`, one thread and two:",
        "",
        f"| loss | {' | '.join(f'{size}, {threads}' for size in sizes for threads in ('1', '2'))} |",
        "|---|" + "---:|" * 2 * len(sizes),
    ]
    for name in next(iter(sizes.values()))["threads"]["1"]:
        cells = [
            f"{found['threads'][threads][name]['times_cross_entropy']:.2f}"
            for found in sizes.values()
            for threads in ("1", "2")
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return [*lines, ""]


def replaced(text: str, body: str) -> str:
    """The text with what stands between the markers exchanged."""
    before, start, rest = text.partition(START)
    _, end, after = rest.partition(END)
    if not start or not end:
        sys.exit(f"the page must hold the markers {START} and {END}, in this order.")
    return f"{before}{START}\n{body}\n{END}{after}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--results", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    rows, missing = held(arguments.results)
    if missing:
        print("not run:", ", ".join(missing))
    text = arguments.page.read_text(encoding="utf-8")
    new = replaced(text, table(rows, arguments.results))
    if arguments.check:
        sys.exit(0 if new == text else f"{arguments.page} is not up to date: run this without --check.")
    arguments.page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
