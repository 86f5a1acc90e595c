"""Do a sample of the runs behind pages again, and write what became of them: repeats.json, repeats.md.

``python docs/results/repeat_runs.py gammas shift`` does those of two pages again, and ``all`` those of every
page; what was done before stays, but for the same runs. Without a page only the Markdown is written.
``CALIBRANT_DATA`` names the folder of the data sets.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

from calibrant.experiments.repeats import page_of_repeats, repeated_runs
from calibrant.experiments.studies.roster import STUDIES

FOLDER = Path(__file__).parent
KEPT = FOLDER / "repeats.json"


def main(wanted: list[str]) -> None:
    """What is done again takes the place of what was."""
    rows = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.is_file() else []
    pages = [(study, page) for study in STUDIES for page in study.pages if study.grid is not None]
    for study, page in pages:
        if page.name not in wanted and wanted != ["all"]:
            continue
        with tempfile.TemporaryDirectory() as store:
            again = list(repeated_runs(study, page, FOLDER, Path(store)))
        done = [(row["page"], row["settings"]) for row in again]
        rows = [*(row for row in rows if (row["page"], row["settings"]) not in done), *again]
    order = [page.name for _, page in pages]
    rows.sort(key=lambda row: order.index(row["page"]))
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    KEPT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    (FOLDER / "repeats.md").write_text(page_of_repeats(rows), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
