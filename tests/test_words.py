"""Plain words: text has no pattern of a word-for-word translation, and no sentence too long to follow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = (ROOT / "src", ROOT / "lab" / "src")
MOST_WORDS = 35  # of a sentence
FEWEST_WORDS = 4  # shorter strings of code are names, and no text
PATTERNS = {
    "fronted Of": r"(?:^|[.!?:;] )Of (?!course\b)[a-z\d]",
    "stands, lies, hangs": r"\b(?:stands?|stood) (?:in|as|before|beside|at|on|under|below|above|there)\b"
    r"|\blies? (?:beside|ready|there)\b|\bhangs? together\b",
    "things that are told": r"\b(?:is|are|was|were) (?:told|said|asked)\b|\bsays (?:it|more)\b",
    "as many": r"\bso many\b|\bas many\b(?!(?: \w+)? as\b)",
    "words of our own": r"\b(?:mend(?:s|ed|ing)?|foreign|dealt out|otherwise than|at hand)\b"
    r"|\b(?:likeliest|surest|boastful)\b",
    "dangling too": r", too\b(?! few| many| small)",
    "chance for noise": r"\bchance (?:adds|gives|leaves)\b|\bwithout chance\b",
    "space before %": r"\d %(?!\})",
}


def plain(text: str) -> str:
    """A page or docstring without code, formulas and links."""
    text = re.sub(r"^( *)(```|~~~).*?^\1\2\s*$", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\s*(?:>>>|\.\.\.|\.\. ).*(?:\n(?!\s*\n).*)*", "", text, flags=re.MULTILINE)
    text = re.sub(
        r"<!--.*?-->|<script.*?</script>|<style.*?</style>|\{[%#].*?[%#]\}|<[^<>]*>",
        "\n\n",
        text,
        flags=re.DOTALL,
    )
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"``?[^`]*``?|\$[^$\n]*\$|\{\{.*?\}\}", "X", text)


def sentences(text: str) -> Iterator[str]:
    """Its sentences; items of lists, cells of tables and arguments are texts of their own."""
    for block in re.split(r"\n\s*\n|\n\s*(?=[-*#|>]|\d+\. |\w+: )|\|", plain(text)):
        yield from re.split(r"(?<=[.!?])[\s)\"”]+(?=[\"“(A-Z`-])", " ".join(block.split()))


def faults(text: str) -> list[tuple[str, str]]:
    """What is against the rules, each with its sentence."""
    found = [
        (name, sentence)
        for sentence in sentences(text)
        for name, pattern in PATTERNS.items()
        for _ in re.finditer(pattern, sentence)
    ]
    return found + [("long", each) for each in sentences(text) if len(each.split()) > MOST_WORDS]


def texts(path: Path) -> Iterator[str]:
    """What a person may read of a file: a page whole; of code public docstrings, messages and helps."""
    content = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield content
        return
    tree = ast.parse(content)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    private: set[int] = set()
    inside: set[int] = set()
    for node in ast.walk(tree):
        if (
            isinstance(node, documented)
            and getattr(node, "name", "").startswith("_")
            and ast.get_docstring(node)
        ):
            private.add(id(node.body[0].value))  # pyright: ignore[reportAttributeAccessIssue]
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node) if part is not node}
            parts = [str(each.value) if isinstance(each, ast.Constant) else "X" for each in node.values]
            yield "".join(parts)
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in private | inside
        ):
            yield node.value


def faults_of(path: Path) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for text in texts(path):
        if path.suffix != ".py" or len(text.split()) >= FEWEST_WORDS:
            found += faults(text)
    return found


def files() -> Iterator[str]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    for path in sorted(
        [*pages, *(path for root in SOURCES for end in ("py", "html") for path in root.rglob(f"*.{end}"))]
    ):
        yield path.relative_to(ROOT).as_posix()


def test_text_is_plain() -> None:
    found = {name: faults_of(ROOT / name) for name in files()}
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize(
    ("text", "faulty"),
    [
        ("Of 262 claims 109 hold.", ["fronted Of"]),
        ("Of course it does.", []),
        ("A warning stands in the JSON; ECE stands for expected calibration error.", ["stands, lies, hangs"]),
        ("What is missing is said before.", ["things that are told"]),
        ("It has as many rows as columns, and so many more.", ["as many"]),
        ("This mends foreign images, too.", ["words of our own", "words of our own", "dangling too"]),
        ("90% of it, and 90 % of this.", ["space before %"]),
        ("Run `calibrant mend` or ``so many``.\n\n```\nas many\n```\n", []),
        (f"{'one ' * 34}two. {'one ' * 35}two.", ["long"]),
        (f"- {'one ' * 20}\n- {'one ' * 20}", []),
        ("Docs.\n\n    >>> 'mend'\n    'as many'\n", []),
    ],
)
def test_patterns_find_what_they_should(text: str, faulty: list[str]) -> None:
    assert [name for name, _ in faults(text)] == faulty
