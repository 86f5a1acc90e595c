"""Old addresses of pages lead to the pages that replaced them."""

from __future__ import annotations

import html
from pathlib import Path
from typing import Any

MOVED = {
    "explanation/claims": "results/claims",
    "explanation/scale": "how-to/very-large-tables",
    "explanation/what-to-use": "results",
    "explanation/properness": "explanation/decomposition",
    "how-to/command-line": "how-to/your-own-files",
    "how-to/chest-x-rays": "how-to/medical-imaging",
    "how-to/language-model-tokens": "how-to/very-large-tables",
    "how-to/segmentation-and-detection": "how-to/segmentation",
    "how-to/stated-confidences": "how-to/language-models",
    "how-to/tables": "how-to/sweep",
    "how-to/train-on-texts": "how-to/train-from-a-recipe",
    "how-to/your-own-model": "how-to/train-from-a-recipe",
    "how-to/file-formats": "reference/file-formats",
    "moving/netcal": "comparison",
    "moving/temperature-scaling": "comparison",
    "moving/torch-uncertainty": "comparison",
    "moving/torchmetrics": "comparison",
    "project": "project/contributing",
    "results/fashion-mnist": "results/losses",
    "results/gpu-runs": "results/repeats",
    "results/long-tail": "results/losses",
    "results/monitoring": "results/coverage",
    "results/prediction-files": "results/calibrators",
    "results/verdicts": "results/claims",
    "start/everything": "how-to/your-own-files",
    "start/faq": "start/reading-a-report",
    "start/glossary": "reference/glossary",
    "start/ten-minutes": "start/quickstart",
    "tutorials": "start/quickstart",
    "tutorials/images": "how-to/predict",
    "tutorials/language-models": "how-to/language-models",
    "tutorials/multilabel": "how-to/medical-imaging",
    "tutorials/tabular": "how-to/scikit-learn",
    "tutorials/texts": "how-to/compare-models",
}
DECISIONS = "architecture/#decisions"
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Moved</title>
<meta name="robots" content="noindex"><meta http-equiv="refresh" content="0; url={to}"></head>
<body><p>This page has moved: <a href="{to}">{to}</a></p></body></html>
"""


def moved(docs: Path) -> dict[str, str]:
    """Return old and new addresses; decisions are in the repository, not on the site."""
    there = {f"results/{path.stem}" for path in (docs / "results").glob("*.md")}
    names = [f"decisions/{path.stem}" for path in sorted((docs / "decisions").glob("0*.md"))]
    return {old: f"{new}/" for old, new in MOVED.items() if old not in there} | dict.fromkeys(
        ["decisions", *names], DECISIONS
    )


def on_post_build(*, config: Any) -> None:
    """Write a page without a script at each old address."""
    site = Path(config.site_dir)
    for old, new in moved(Path(config.docs_dir)).items():
        if not (site / new.partition("#")[0] / "index.html").is_file():
            raise FileNotFoundError(f"{old} is moved to {new}, which is no page")
        page = site / old / "index.html"
        page.parent.mkdir(parents=True, exist_ok=True)
        to = html.escape("../" * (old.count("/") + 1) + new)
        page.write_text(PAGE.format(to=to), encoding="utf-8")
