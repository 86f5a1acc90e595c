"""Fill in the output of a page's commands by running them.

``python tools/output_blocks.py [PAGE …]`` runs the Python and console blocks of each page in an empty folder,
one after the other, and writes their output into the page. By default these are README, the home page,
``docs/start``, ``docs/how-to`` and others. ``--check`` writes nothing and exits with 1 if a page is stale.

In a console block, output follows its ``$ calibrant`` line; other commands are left alone. A ``text`` block
directly below a Python block is that block's output. ``<!-- first N lines -->`` above a block cuts it short.
A command fails unless it exits with 0, or with 1 if its comment says ``exits with 1``. ``<!-- python`` starts
Python that runs and that readers do not see. Blocks in ``bash`` and ``py`` are only shown.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NEED_OTHERS = {"conformal-prediction.md", "hugging-face.md", "lightning.md"}
"""Pages with packages that the development environment lacks: tests run them with stand-ins."""
GUIDES = sorted(page for page in (DOCS / "how-to").glob("*.md") if page.name not in NEED_OTHERS)
PAGES = (
    ROOT / "README.md",
    *sorted(DOCS.glob("*.md")),
    *sorted((DOCS / "start").glob("*.md")),
    *GUIDES,
    *sorted((DOCS / "reference").glob("*.md")),
)
BLOCK = re.compile(
    r"(?:^<!-- first (?P<lines>\d+) lines -->\n\n?)?"
    r"^(?:```(?P<language>python|console)\n(?P<code>.*?)^```|<!-- python\n(?P<hidden>.*?)^-->)$"
    r"(?:\n\n^```text\n(?P<text>.*?)^```$)?",
    flags=re.DOTALL | re.MULTILINE,
)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)\n((?:(?!\$ ).*\n)*)", flags=re.MULTILINE)
"""A command, with lines that continue it, and what follows up to the next."""
NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?")
RELATIVE, ABSOLUTE = 0.05, 0.003
"""Tolerance for numbers on the page: processors round differently, and training magnifies that."""


def filled(page: Path, *, train: bool = True) -> str:
    """Return the page with the output of its blocks; without ``train``, keep that of ``demo``."""
    os.environ.setdefault("MPLBACKEND", "agg")
    text = page.read_text(encoding="utf-8")
    defined: dict[str, Any] = {"__name__": "page"}
    parts, end = [], 0
    with _empty_folder():
        for found in BLOCK.finditer(text):
            most = int(found["lines"]) if found["lines"] else None
            name = "code" if found["language"] == "console" else "text"
            if found["language"] == "console":
                output = _console(found["code"], most, train=train)
            else:
                output = _cut(_printed(found["code"] or found["hidden"], defined), most)
            if found[name] is not None:
                parts += [text[end : found.start(name)], output]
                end = found.end(name)
    return "".join([*parts, text[end:]])


def stale(page: Path, *, train: bool = True) -> str | None:
    """Return the first stale line of a page, and its new value."""
    shown, made = page.read_text(encoding="utf-8").splitlines(), filled(page, train=train).splitlines()
    for number, (old, new) in enumerate(zip(shown, made, strict=False), 1):
        if not _same(old, new):
            return f"{page.name}:{number} is stale:\n- {old}\n+ {new}"
    return None if len(shown) == len(made) else f"{page.name}: its output has another number of lines now"


def _same(old: str, new: str) -> bool:
    words = [NUMBER.sub("0", line).split() for line in (old, new)]
    numbers = ([float(each) for each in NUMBER.findall(line)] for line in (old, new))
    return words[0] == words[1] and all(
        math.isclose(*pair, rel_tol=RELATIVE, abs_tol=ABSOLUTE) for pair in zip(*numbers, strict=True)
    )


def _console(code: str, most: int | None, *, train: bool) -> str:
    lines: list[str] = []
    for typed, kept in COMMAND.findall(code):
        words = shlex.split(typed.replace("\\\n", " "), comments=True)
        if words == ["calibrant", "demo"] and not train:
            from calibrant.demo.run import train_on_digits

            Path("demo").mkdir()
            train_on_digits(seed=0).save("demo/predictions.npz")
        elif words[0] == "calibrant":
            kept = _cut(_run(words[1:], exits=int("exits with 1" in typed)), most)
        lines.append(f"$ {typed}\n{kept}")
    return "".join(lines)


def _run(arguments: list[str], *, exits: int) -> str:
    command = [sys.executable, "-m", "calibrant", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=_environment())
    if done.returncode != exits:
        raise RuntimeError(f"calibrant {shlex.join(arguments)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def _environment() -> dict[str, str]:
    package = str(ROOT / "src")
    return os.environ | {"COLUMNS": "80", "PYTHONPATH": package, "PYTHONUTF8": "1", "NO_COLOR": "1"}


def _printed(code: str, defined: dict[str, Any]) -> str:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(code, "page", "exec"), defined)
    return output.getvalue()


def _cut(output: str, most: int | None) -> str:
    lines = [line.rstrip() for line in output.strip("\n").splitlines()]
    if most is not None and len(lines) > most:
        lines[most:] = ["…"]
    return "".join(f"{line}\n" for line in lines)


@contextlib.contextmanager
def _empty_folder() -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        sys.path.insert(0, folder)  # for modules that a page writes
        known = set(sys.modules)
        try:
            yield
        finally:
            sys.path.remove(folder)
            for name in set(sys.modules) - known:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(folder):
                    del sys.modules[name]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("pages", nargs="*", type=Path, default=PAGES)
    parser.add_argument("--check", action="store_true", help="Write nothing; exit with 1 if a page is stale.")
    given = parser.parse_args()
    wrong = 0
    for page in (each.resolve() for each in given.pages):
        if not given.check:
            page.write_text(filled(page), encoding="utf-8")
        elif message := stale(page):
            print(message)
            wrong = 1
    return wrong


if __name__ == "__main__":
    sys.exit(main())
