"""Run the tutorials and keep the figures that they draw, as ``python docs/tutorials/draw_figures.py``."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))
os.environ["MPLBACKEND"] = "agg"


def main() -> None:
    """Each page in a folder of its own, with as many resamples as a reader would have."""
    import matplotlib as mpl

    import pages

    mpl.rcParams["svg.hashsalt"] = "calibrant"
    for page in sorted(HERE.glob("*.md")):
        if page.name == "index.md":
            continue
        with tempfile.TemporaryDirectory() as folder, pages.surroundings() as patch:
            pages.run_blocks(f"tutorials/{page.name}", Path(folder), patch, few=False)
            for figure in Path(folder).glob("*.svg"):
                (HERE / "figures" / figure.name).write_bytes(figure.read_bytes())
                sys.stdout.write(f"{figure.name}\n")


if __name__ == "__main__":
    main()
