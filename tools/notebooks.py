"""Turn the scripts of ``examples/notebooks`` into notebooks.

``python tools/notebooks.py FOLDER`` writes them there; the site, whose hook this is, offers the same.
``python tools/notebooks.py --pictures`` runs the scripts and saves the last figure of each for the site.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))
_CELL = re.compile(r"^# %%( \[markdown\])?\n", flags=re.MULTILINE)


def address(script: Path) -> str:
    return f"{script.stem.replace('_', '-')}.ipynb"


def notebook(text: str) -> str:
    """Split a script into notebook cells, which begin with ``# %%``, or ``# %% [markdown]`` for text."""
    _, *parts = _CELL.split(text)
    cells: list[dict[str, Any]] = []
    for number, (is_text, content) in enumerate(zip(parts[::2], parts[1::2], strict=True)):
        lines = content.strip("\n").splitlines(keepends=True)
        cell: dict[str, Any] = {"id": f"cell-{number}", "metadata": {}}
        if is_text:
            cell |= {"cell_type": "markdown", "source": [re.sub("^# ?", "", line) for line in lines]}
        else:
            cell |= {"cell_type": "code", "source": lines, "execution_count": None, "outputs": []}
        cells.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def on_files(files: Any, *, config: Any) -> Any:
    from mkdocs.structure.files import File

    for script in SCRIPTS:
        content = notebook(script.read_text(encoding="utf-8"))
        files.append(File.generated(config, f"notebooks/{address(script)}", content=content))
    return files


def main(arguments: list[str]) -> None:
    for script in SCRIPTS:
        if arguments == ["--pictures"]:
            from matplotlib import pyplot

            pyplot.switch_backend("agg")
            runpy.run_path(str(script))
            path = ROOT / "docs" / "images" / "notebooks" / address(script).replace(".ipynb", ".png")
            pyplot.savefig(path, dpi=90, metadata={"Software": None})
            pyplot.close("all")
        else:
            folder = Path(arguments[0])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / address(script)).write_text(
                notebook(script.read_text(encoding="utf-8")), encoding="utf-8"
            )


if __name__ == "__main__":
    main(sys.argv[1:])
