"""Do a sample of the runs behind pages again, and write what became of them: repeats.json, repeats.md.

``python docs/results/repeat_runs.py gammas shift`` does those of two pages again, and ``all`` those of every
page; what was done before stays, but for the same runs on the same processor. ``--store FOLDER`` keeps the
runs, and compares those of a GPU that this store has made on a CPU. Without a page only the Markdown is
written.
``CALIBRANT_DATA`` names the folder of the data sets.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from calibrant._math.text_form import named
from papers.repeats import page_of_repeats, repeated_runs, takes_place_of
from papers.roster import STUDIES

FOLDER = Path(__file__).parent
KEPT = FOLDER / "repeats.json"


def main() -> None:
    """What is done again takes the place of what was."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="*")
    parser.add_argument("--store", type=Path)
    arguments = parser.parse_args()
    known = [page.name for study in STUDIES for page in study.pages if study.grid is not None]
    for name in arguments.pages:
        if name != "all":
            named(name, dict.fromkeys(known), "page of runs")
    rows = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else []
    pages = [(study, page) for study in STUDIES for page in study.pages if study.grid is not None]
    for study, page in pages:
        if page.name not in arguments.pages and arguments.pages != ["all"]:
            continue
        with tempfile.TemporaryDirectory() as store:
            again = repeated_runs(study, page, FOLDER, arguments.store or Path(store))
        rows = [row for row in rows if not any(takes_place_of(each, row) for each in again)]
        rows += again
        equal = sum(row["unequal"] == 0 for row in again)
        sys.stdout.write(f"{page.name}: {equal} of {len(again)} gave every number again\n")
    order = [page.name for _, page in pages]
    rows.sort(key=lambda row: order.index(row["page"]))
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    KEPT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    (FOLDER / "repeats.md").write_text(page_of_repeats(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
