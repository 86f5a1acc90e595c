"""The studies and their claims, from ``papers`` to the site: pages, figures, results, and every test to download."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
PAPERS = ROOT / "papers"
FOLDER = "results"
CLAIMS = f"{FOLDER}/claims.md"
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
SHOWN = (
    "paper",
    "claim",
    "setting",
    "compared",
    "with",
    "group",
    "estimate",
    "low",
    "high",
    "q",
    "verdict_by_q",
)
FILTER = """<div class="tests" hidden>
<label>Find <input type="search"></label>
<label>Paper <select data-column="paper"><option value="">all</option></select></label>
<label>Verdict <select data-column="verdict_by_q"><option value="">all</option></select></label>
<p role="status"></p>
<table><caption>Every test</caption><thead></thead><tbody></tbody></table>
</div>
<script src="../claims-tests.js"></script>
<script src="../../assets/claims.js"></script>

Every test: [CSV](claims.csv), [Parquet](claims.parquet).
"""


def on_config(config: Any) -> Any:
    """Name the studies wherever the navigation says ``results/*``."""
    config.nav = _with_studies(config.nav)
    return config


def _with_studies(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: _with_studies(each) for name, each in item.items()}
    if isinstance(item, list):
        named = [[*addresses(), one] if one == f"{FOLDER}/*" else [_with_studies(one)] for one in item]
        return [each for part in named for each in part]
    return item


def addresses() -> list[str]:
    """The pages of studies on the site."""
    return [address(path.relative_to(ROOT)) or "" for path in sorted(PAPERS.glob("*/page.md"))]


def address(path: Path) -> str | None:
    """Where a file of the repository is on the site, from ``docs``; None if it is not there.

    Example:
        >>> address(Path("papers/sum_or_mean/page.md")), address(Path("docs/benchmarks.md"))
        ('results/sum-or-mean.md', 'benchmarks.md')
    """
    match path.parts:
        case ("docs", *rest):
            return "/".join(rest)
        case ("papers", "claims.md"):
            return CLAIMS
        case ("papers", study, "page.md" | "results.json"):
            return f"{FOLDER}/{study.replace('_', '-')}{path.suffix}"
        case ("papers", _, figure) if path.suffix == ".svg":
            return f"{FOLDER}/{figure}"
        case _:
            return None


def relinked(markdown: str, source: Path, page: str) -> str:
    """A page with the links that its file in the repository has as those of its address on the site."""

    def moved(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(ROOT / source.parent / found[1])).relative_to(ROOT)
        there = address(target) or f"../{target.as_posix()}"
        return Path(os.path.relpath(there, Path(page).parent)).as_posix()

    return _LINK.sub(moved, markdown)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Links of a page of ``docs`` to studies lead to their pages on the site."""
    uri = page.file.src_uri
    if "papers/" not in markdown or page.file.abs_src_path is None:
        return markdown
    return _LINK.sub(
        lambda found: (
            relinked(f"]({found[0]}", Path("docs") / uri, uri)[2:] if "papers/" in found[0] else found[0]
        ),
        markdown,
    )


def on_files(files: Any, *, config: Any) -> Any:
    """Add studies with their figures and results, and the claims with every test."""
    for path in sorted(PAPERS.glob("*/page.md")):
        own = path.relative_to(ROOT)
        page = address(own) or ""
        text = relinked(path.read_text(encoding="utf-8"), own, page)
        downloads = f"\nDownload: [results (JSON)]({Path(page).stem}.json), [every test](claims.md).\n"
        files.append(File.generated(config, page, content=text + downloads))
        for file in [*path.parent.glob("*.svg"), path.parent / "results.json"]:
            files.append(
                File.generated(config, address(file.relative_to(ROOT)) or "", content=file.read_bytes())
            )
    for name, content in claims().items():
        files.append(File.generated(config, name, content=content))
    return files


@cache
def claims() -> dict[str, str | bytes]:
    """The page of claims, and every test as CSV, Parquet, and for the page's own table."""
    sys.path[:0] = [str(ROOT)] if str(ROOT) not in sys.path else []
    from papers import every_claim

    tests = every_claim.tests()
    table, parquet = every_claim.download(tests), io.BytesIO()
    table.to_parquet(parquet, index=False)
    page = relinked(every_claim.page_text(tests), Path("papers/claims.md"), CLAIMS)
    shown = json.loads(table[list(SHOWN)].to_json(orient="split", index=False, double_precision=5))
    return {
        CLAIMS: page.replace("<!-- filter -->", FILTER),
        f"{FOLDER}/claims.csv": table.to_csv(index=False, float_format="%.6g"),
        f"{FOLDER}/claims.parquet": parquet.getvalue(),
        f"{FOLDER}/claims-tests.js": f"const TESTS = {json.dumps(shown, ensure_ascii=False, separators=(',', ':'))};\n",
    }
