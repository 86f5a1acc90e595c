"""What pages show below a command is what it prints: ``tools/output_blocks.py`` runs them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from command_line import call
from pages import BLOCKS

ROOT = Path(__file__).parents[1]
QUICK = {"README.md", "index.md", "install.md", "which-metric.md", "comparison.md", "file-formats.md"}
"""Pages whose commands take seconds; ``test_how_to`` runs the guides with few resamples."""
INSTALLING = ("README.md", "docs/index.md", "docs/start/install.md")


tool = BLOCKS


def in_this_process(arguments: list[str], *, exits: int) -> str:
    done = call(*arguments, folder=Path.cwd(), code=exits)
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[] if page.name in QUICK else [pytest.mark.slow])
        for page in tool.PAGES
        if tool.BLOCK.search(page.read_text(encoding="utf-8"))
    ],
)
def test_pages_show_what_their_commands_print(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for ``demo``, which trains for a minute: its file comes from one of its networks."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(tool, "_run", in_this_process)
    assert tool.stale(page, train=False) is None


def test_pages_agree_on_the_installation() -> None:
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in INSTALLING]
    for command in (r"\$ cd calibrant\n\$ pip", r"\$ calibrant demo"):
        block = re.compile(rf"^```console\n{command}.*?^```$", flags=re.DOTALL | re.MULTILINE)
        assert len({tuple(block.findall(text)) for text in texts}) == 1
        assert block.search(texts[0])


PAGE = """```python
print("a\\nb")
```

```text
OUTPUT
```

<!-- first 1 lines -->

```console
$ make it
kept
$ calibrant apply
stale
```
"""


def test_a_stale_page_is_found_and_filled(tmp_path) -> None:
    """Output is put in place or cut; other commands keep theirs; a failure is an error."""
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("apply", "--version"), encoding="utf-8")
    assert "page.md:6 is stale:\n- OUTPUT\n+ a" in tool.stale(page)
    made = tool.filled(page)
    assert "```text\na\nb\n```" in made
    assert re.search(r"^\$ make it\nkept\n\$ calibrant --version\ncalibrant \d", made, re.MULTILINE)
    page.write_text(made, encoding="utf-8")
    assert tool.stale(page) is None
    page.write_text(PAGE, encoding="utf-8")
    with pytest.raises(RuntimeError, match="calibrant apply"):
        tool.filled(page)


def test_small_differences_of_numbers_are_no_staleness() -> None:
    assert tool._same("ECE  0.0587 [0.0302, 0.0788]", "ECE 0.0589 [0.0301, 0.0790]")
    assert not tool._same("ECE 0.0587", "ECE 0.0687")
    assert not tool._same("ECE 0.0587", "smCE 0.0587")
    assert not tool._same("1 of 2", "1 of 2 of 3")
