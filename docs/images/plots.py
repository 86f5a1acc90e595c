"""Draw the pictures of “Plot in Python” by its own code, as ``python docs/images/plots.py``."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib import pyplot

HERE = Path(__file__).parent
PAGE = HERE.parent / "how-to" / "plots.md"
PAIR = re.compile(r"^```python\n(.*?)^```\n\n!\[.*?\]\(\.\./images/(.*?)\)$", flags=re.DOTALL | re.MULTILINE)


def main() -> None:
    """Run each block, and save the figure that it made last under the name below it."""
    matplotlib.use("agg")
    defined: dict[str, Any] = {}
    pairs = PAIR.findall(PAGE.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for code, name in pairs:
            pyplot.close("all")
            exec(compile(code, name, "exec"), defined)
            pyplot.savefig(HERE / name, dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    main()
