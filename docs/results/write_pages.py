"""Write pages again from the results files beside them: ``python docs/results/write_pages.py [PAGE ...]``.

For when words or claims of a study have changed. Nothing is run; figures stay as they are, and
``python -m papers NAME --table docs/results`` draws those of a study with a grid again.
"""

from __future__ import annotations

import sys
from pathlib import Path

from papers.roster import STUDIES

FOLDER = Path(__file__).parent


def main(wanted: list[str]) -> None:
    """Those that are named; all without a name."""
    for page in (page for study in STUDIES for page in study.pages):
        if not wanted or page.name in wanted:
            page.rewrite(FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
