"""Write what the studies say together: the page of every claim, statuses and tallies in the pages on them.

Run after a page of results has changed: ``python docs/explanation/write_claims.py``.
"""

from __future__ import annotations

from pathlib import Path

from papers.roster import STUDIES
from papers.verdicts import every_claim, page_text, with_statuses, with_tallies

FOLDER = Path(__file__).parent
RESULTS = FOLDER.parent / "results"


def main() -> None:
    """The three pages."""
    found = every_claim([page for study in STUDIES for page in study.pages], RESULTS)
    (RESULTS / "verdicts.md").write_text(page_text(found), encoding="utf-8")
    claims = FOLDER / "claims.md"
    claims.write_text(with_statuses(claims.read_text(encoding="utf-8"), found), encoding="utf-8")
    learned = FOLDER / "README.md"
    learned.write_text(with_tallies(learned.read_text(encoding="utf-8"), found), encoding="utf-8")


if __name__ == "__main__":
    main()
