"""Studies and claims on the site: pages, figures, results, and tests for download."""

from __future__ import annotations

import io
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[2]
FOLDER = "results"
ALL_STUDIES = f"{FOLDER}/*"
CLAIMS = f"{FOLDER}/claims.md"
_LINK = re.compile(r"(?<=\]\()(?!\w+:|#)[^)\s#]+")
SHOWN = [
    *("paper", "claim", "setting", "compared", "with", "group"),
    *("estimate", "low", "high", "q", "verdict_by_q"),
]
FILTER = """<div class="tests" hidden>
<label>Find <input type="search"></label>
<label>Paper <select data-column="paper"><option value="">all</option></select></label>
<label>Verdict <select data-column="verdict_by_q"><option value="">all</option></select></label>
<p role="status"></p>
<div class="scrolled" role="region" aria-label="Tests" tabindex="0">
<table><thead></thead><tbody></tbody></table>
</div>
</div>
<script src="../claims-tests.js"></script>
<script src="../../assets/claims.js"></script>

Download: [CSV](claims.csv), [Parquet](claims.parquet).
"""


def on_config(config: Any) -> Any:
    """Expand ``results/*`` in the navigation to the studies."""
    config.nav = _with_studies(config.nav)
    return config


def _with_studies(item: Any) -> Any:
    if isinstance(item, dict):
        return {name: _with_studies(each) for name, each in item.items()}
    if isinstance(item, list):
        parts = [
            [*map(address, pages()), one] if one == ALL_STUDIES else [_with_studies(one)] for one in item
        ]
        return [each for part in parts for each in part]
    return item


def pages() -> list[Path]:
    return [path.relative_to(ROOT) for path in sorted(ROOT.glob("papers/*/page.md"))]


def address(path: Path) -> str:
    """Return a repository file's address on the site, from ``docs``; outside if missing there.

    Example:
        >>> address(Path("papers/sum_or_mean/page.md")), address(Path("docs/benchmarks.md"))
        ('results/sum-or-mean.md', 'benchmarks.md')
        >>> address(Path("SECURITY.md"))
        '../SECURITY.md'
    """
    match path.parts:
        case ("docs", *rest):
            return "/".join(rest)
        case ("papers", "claims.md"):
            return CLAIMS
        case ("papers", study, "page.md" | "results.json"):
            return f"{FOLDER}/{study.replace('_', '-')}{path.suffix}"
        case ("papers", *_, figure) if path.suffix == ".svg":
            return f"{FOLDER}/{figure}"
        case _:
            return f"../{path.as_posix()}"


def relinked(markdown: str, own: Path, page: str, marked: str = "") -> str:
    """Adjust the links of a repository text for its page on the site, all or the marked ones.

    Example:
        >>> relinked("[a](../shift/page.md)", Path("papers/losses/page.md"), "results/losses.md")
        '[a](shift.md)'
    """

    def moved(link: str) -> str:
        target = address(Path(os.path.normpath(own.parent / link)))
        return Path(os.path.relpath(target, Path(page).parent)).as_posix() if marked in link else link

    return _LINK.sub(lambda found: moved(found[0]), markdown)


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Link pages of ``docs`` to the studies' pages on the site, and format what is folded."""
    uri = page.file.src_uri
    linked = relinked(markdown, Path("docs") / uri, uri, "papers/")
    return linked.replace("<details><summary>", "<details markdown><summary>")


def on_files(files: Any, *, config: Any) -> Any:
    """Add studies with figures and results, and the claims with every test."""
    made: dict[str, str | bytes] = dict(claims())
    for own in pages():
        page, folder = address(own), ROOT / own.parent
        results = list(folder.glob("results.json"))  # none: the study has not run
        download = f"\nDownload: [results (JSON)]({Path(page).stem}.json), [every test](claims.md).\n"
        download = download if results else ""
        made[page] = relinked((ROOT / own).read_text(encoding="utf-8"), own, page) + download
        for file in [*folder.glob("*.svg"), *results]:
            made[address(file.relative_to(ROOT))] = file.read_bytes()
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
    return files


@cache
def claims() -> dict[str, str | bytes]:
    """Return the page of claims, and every test as CSV, Parquet, and for the page's table."""
    if str(ROOT) not in sys.path:
        sys.path.insert(0, str(ROOT))
    from papers import every_claim
    from papers.studies import every_row

    tests = every_row()
    table, parquet = every_claim.download(tests), io.BytesIO()
    table.to_parquet(parquet, index=False)
    page = relinked(every_claim.page_text(tests), Path("papers/claims.md"), CLAIMS)
    shown = table[SHOWN].to_json(orient="split", index=False, double_precision=5, force_ascii=False)
    return {
        CLAIMS: page.replace("<!-- filter -->", FILTER),
        **{
            address(each.relative_to(ROOT)): each.read_bytes()
            for each in sorted(ROOT.glob("papers/forests/*.svg"))
        },
        f"{FOLDER}/claims.csv": table.to_csv(index=False, float_format="%.6g"),
        f"{FOLDER}/claims.parquet": parquet.getvalue(),
        f"{FOLDER}/claims-tests.js": f"const TESTS = {shown};\n",
    }
