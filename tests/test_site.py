"""The site: its pages run, what it is built from does what it says, and browsers lay it out."""

from __future__ import annotations

import contextlib
import functools
import http.server
import importlib
import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import calibrant
from chromium import CHROMIUM, Browser
from pages import DOCS, run_blocks, tool

ROOT = Path(__file__).parents[1]
MOST_WORDS = 1200
LONG = ("reference/", "results/", "benchmarks.md")
"""Pages that are looked things up in, or list what was measured."""
OFF_THE_SITE = ("decisions/", "how-to/cluster/")
PAGES = sorted(
    name
    for name in (path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    if not name.startswith(OFF_THE_SITE)
)


@pytest.mark.parametrize("page", [name for name in PAGES if not name.startswith(LONG)])
def test_no_page_is_long(page: str) -> None:
    """At most 1200 words, code and output included."""
    assert len((DOCS / page).read_text(encoding="utf-8").split()) <= MOST_WORDS


def test_files_of_the_cookbook_are_read(tmp_path, monkeypatch) -> None:
    run_blocks("reference/file-formats.md", tmp_path, monkeypatch)
    files = sorted(tmp_path.iterdir())
    assert len(files) == 4
    assert [calibrant.load_predictions(path).num_samples for path in files] == [75, 128, 3, 50]


def test_names_to_move_to_exist() -> None:
    names = ("metrics", "calibrators", "losses", "reports", "evaluation")
    modules = (calibrant, *(getattr(calibrant, name) for name in names))
    known = {name for module in modules for name in module.__all__}
    text = (DOCS / "comparison.md").read_text(encoding="utf-8").partition("## From torchmetrics")[2]
    rows = re.findall(r"^\| `[^|]+\| (.*) \|$", text, flags=re.MULTILINE)
    calls = {each.rpartition(".")[2] for row in rows for each in re.findall(r"`([\w.]+)", row)}
    named = {each for each in calls if re.match(r"[A-Z]\w+[a-z]|[a-z]+_[a-z_]+", each)}
    assert len(named) > 20
    assert named - known - {"num_bins", "fit_result_", "predict_proba"} == set()


def test_old_addresses_lead_to_pages(tmp_path) -> None:
    """Each of them is no page any more, and gets a page that leads to one that is there, without a script."""
    redirects = tool("site/redirects")
    moved = redirects.moved(DOCS)
    there = {re.sub(r"(^|/)(index|README)$", "", name.removesuffix(".md")) for name in PAGES}
    made = {f"project/{name}" for name in ("changelog", "contributing", "security")}
    studies = tool("site/studies")
    made |= {name.removesuffix(".md") for name in (studies.CLAIMS, *map(studies.address, studies.pages()))}
    assert not set(moved) & there
    assert {new.partition("#")[0].rstrip("/") for new in moved.values()} <= there | made
    config = SimpleNamespace(docs_dir=str(DOCS), site_dir=str(tmp_path))
    with pytest.raises(FileNotFoundError, match="is no page"):
        redirects.on_post_build(config=config)
    for new in set(moved.values()):
        (tmp_path / new.partition("#")[0]).mkdir(parents=True, exist_ok=True)
        (tmp_path / new.partition("#")[0] / "index.html").write_text("new")
    redirects.on_post_build(config=config)
    assert 'url=../../start/quickstart/"' in (tmp_path / "start/ten-minutes/index.html").read_text()


def test_studies_are_on_the_site() -> None:
    """Each with its figures, and links that lead to pages of the site or to files of the repository."""
    studies = tool("site/studies")
    assert len(studies.pages()) > 15
    for own in studies.pages():
        page = studies.address(own)
        text = studies.relinked((ROOT / own).read_text(encoding="utf-8"), own, page)
        for target in re.findall(r"\]\(([^)#\s]+)\)", text):
            there = (DOCS / Path(page).parent / target).resolve()
            known = [
                ROOT / "docs" / studies.address(each.relative_to(ROOT)) for each in ROOT.glob("papers/*/*.*")
            ]
            assert there.exists() or there in known or there == DOCS / studies.CLAIMS, (own, target)
    nav = studies.on_config(SimpleNamespace(nav=[{"Studies": ["results/*"]}])).nav
    assert "results/sum-or-mean.md" in nav[0]["Studies"]


def test_every_decision_is_listed() -> None:
    folder = DOCS / "decisions"
    index = (folder / "index.md").read_text(encoding="utf-8")
    row = re.compile(r"^\| \[\d+\]\((.*?)\) \| .+ \| (holds|amended by|superseded by)", flags=re.MULTILINE)
    listed = row.findall(index)
    assert [name for name, _ in listed] == sorted(path.name for path in folder.glob("0*.md"))


def test_docstrings_become_markdown() -> None:
    text = "Of :func:`~calibrant.metrics.auroc`, :math:`p`.\n\n.. math:: a\n    + b\n\nExample:\n    >>> 1"
    made = tool("site/docstrings").as_markdown(text)
    assert made == "Of `auroc`, $p$.\n\n\n$$\na + b\n$$\n\nExamples:\n    >>> 1"


def test_classes_say_how_they_are_made() -> None:
    """Settings of losses, whose ``__init__`` is made with the class; a calibrator names its public base."""
    made = tool("site/docstrings").how_to_make(calibrant.losses.FocalLoss)
    assert "gamma: float = 3.0" in str(made[1])
    options = tool("site/pages")._options
    assert "show_bases: true" in options(calibrant.calibrators.TemperatureScaling)
    assert '"save"' in options(calibrant.calibrators.Calibrator)  # of a base that no page describes
    assert '"save"' not in options(calibrant.calibrators.TemperatureScaling)


def test_every_public_name_has_its_place() -> None:
    pages = tool("site/pages")
    for room, (_, paths) in pages.ROOMS.items():
        text = pages.api_page(room)
        for module in (importlib.import_module(path) for path in paths):
            for name in pages.public_names(module):
                value = getattr(module, name)
                described = f".{getattr(value, '__qualname__', name)}\n"
                assert isinstance(value, ModuleType) or described in text or f"## {name}\n" in text, name
    own = {name for name in calibrant.__all__ if name.endswith(("Error", "Warning"))}
    assert own == set(pages.ERRORS)


def test_formulas_become_mathml() -> None:
    """What the Markdown extension marks as a formula is MathML, inline or displayed; all of it is known."""
    convert = tool("site/maths").on_page_content
    assert "<mfrac>" in convert(r'<div class="arithmatex">\[\frac{1}{2}\]</div>')
    most = convert(r'<span class="arithmatex">\(\operatorname*{arg\,max}_k\)</span>')
    assert '<mi mathvariant="normal">m</mi>' in most
    with pytest.raises(ValueError, match=r"\\unheardof is not known"):
        convert(r'<span class="arithmatex">\(\unheardof\)</span>')
    assert 'display="inline"' in convert(r'a <span class="arithmatex">\(x &lt; 1\)</span>')


def test_an_address_that_is_missing_makes_no_link() -> None:
    page = SimpleNamespace(file=SimpleNamespace(src_uri="start/install.md"))
    files = SimpleNamespace(
        get_file_from_path=lambda _: SimpleNamespace(inclusion=SimpleNamespace(is_included=lambda: True))
    )
    text = (
        "[a `recipe[x]`](../../lab/recipes/digits.toml), [SECURITY.md](../../SECURITY.md#a), [g](glossary.md)"
    )
    made = tool("site/links").on_page_markdown
    config = SimpleNamespace(docs_dir=str(DOCS), extra={"repository": None})
    named = made(text, page=page, config=config, files=files)
    assert (
        named
        == "a `recipe[x]` (`lab/recipes/digits.toml` in the repository), `SECURITY.md`, [g](glossary.md)"
    )
    config.extra["repository"] = "https://x.org/y"
    linked = made(text, page=page, config=config, files=files)
    assert "[a `recipe[x]`](https://x.org/y/blob/main/lab/recipes/digits.toml)" in linked
    placeholder = tool("site/addresses").is_placeholder
    assert (placeholder("https://calibrant.example/source"), placeholder("https://example.org")) == (
        True,
        False,
    )


def test_the_picture_is_drawn() -> None:
    text = tool("site/picture").on_page_markdown("```mermaid\nflowchart TB\n    cli --> losses\n```\n")
    heights = dict(re.findall(r'y="(\d+)">(\w+)</text>', text))
    assert {name: height for height, name in heights.items()} == {"cli": "20", "losses": "96"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The folder of the built site and its address."""
    pytest.importorskip("material")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_a_search_is_small_and_finds_guides_and_reference(site: tuple[Path, str]) -> None:
    """What readers look for is a heading there, which outweighs text; the index loads on a phone."""
    index = site[0] / "search" / "search_index.json"
    assert index.stat().st_size < 400_000
    entries = json.loads(index.read_text(encoding="utf-8"))["docs"]
    headings = [each["title"].lower() for each in entries if each.get("boost") == 4]
    words = ["ece", "temperature scaling", "overconfident", "csv", "svm", "llms", "net benefit"]
    for word in (*words, "rows per patient"):
        assert any(re.search(rf"\b{word}\b", heading) for heading in headings), word


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """No word of requests."""


MEASURE = """(() => {
const shown = document.querySelector("h1").getBoundingClientRect();
return {scroll: document.documentElement.scrollWidth, left: shown.left, right: shown.right,
  broken: [...document.images].filter((one) => one.complete && !one.naturalWidth).map((one) => one.src)};
})()"""


@pytest.mark.slow
def test_the_site_has_every_page(site: tuple[Path, str]) -> None:
    """The build is strict, so that a dead link fails it, and each file of ``docs`` has become a page."""
    folder, _ = site
    assert (folder / "index.html").is_file()
    for page in PAGES:
        name = Path(page).with_suffix("")
        made = folder / (name.parent if name.name in ("index", "README") else name) / "index.html"
        assert made.is_file(), page


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
@pytest.mark.parametrize(
    "page", ["", "start/which-calibrator/", "reference/api/metrics/", "results/claims/", "results/"]
)
def test_pages_in_a_browser(page: str, site: tuple[Path, str], tmp_path) -> None:
    """Narrow and wide: nothing is cut off, no picture is missing, and nothing comes from elsewhere."""
    with contextlib.closing(Browser(tmp_path)) as browser:
        for width in (360, 1280):
            browser.show(f"{site[1]}{page}", width=width)
            found = browser.run(MEASURE)
            assert found["scroll"] <= width
            assert 0 <= found["left"] <= found["right"] <= width
            assert found["broken"] == []
        assert {each for each in browser.addresses() if not each.startswith((site[1], "data:"))} == set()
