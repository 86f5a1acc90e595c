"""Take the picture of the quickstart's report for “Read a report”, as ``python docs/images/report.py``.

Needs Chromium.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SIZE = "1100,724"


def main() -> None:
    """Run the quickstart's script and command, and photograph the first screen."""
    if CHROMIUM is None:
        sys.exit("Chromium is missing.")
    page = (HERE.parent / "start" / "quickstart.md").read_text(encoding="utf-8")
    script = page.partition("```python\n")[2].partition("```")[0]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPATH": str(HERE.parents[1] / "src")}
        for arguments in (
            ["-c", script],
            ["-m", "calibrant", "evaluate", "predictions.csv", "--report", "report.html"],
        ):
            subprocess.run([sys.executable, *arguments], cwd=folder, check=True, env=environment)
        command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        command += [f"--user-data-dir={folder}/profile", f"--window-size={SIZE}"]
        command += [f"--screenshot={HERE / 'report.png'}", f"file://{folder}/report.html"]
        subprocess.run(command, check=True, capture_output=True)


if __name__ == "__main__":
    main()
