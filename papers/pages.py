"""From numbers to files: Jinja templates with the words of a page, tables, results files, figures."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from calibrant._math.means import plus_minus, side
from papers.claims import Claim

if TYPE_CHECKING:
    from jinja2 import Environment


SAME_BITS = (
    "The same versions on the same model of processor give the same numbers to the bit. Other models round "
    "otherwise, even with the same vector instructions, and training magnifies that: "
)
"""What every page of trainings says of repeating them, before an example."""


def render(template: Path, **content: object) -> str:
    """A page from its template; a name that the template uses and ``content`` lacks is an error."""
    return _templates(template.parent).get_template(template.name).render(**content)


@cache
def _templates(folder: Path) -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    known: dict[str, Any] = environment.globals
    known |= {"same_bits": SAME_BITS, "repeated": repeated}
    filters: dict[str, Any] = environment.filters
    filters |= {"mean": plus_minus, "number": format, "loss": loss_name, "side": side, "finding": finding}
    return environment


def repeated(study: str, seeds: int, made_by: str = "", options: str = "", *, figures: bool = False) -> str:
    """How to do the runs of a page again, and how to make the page of those that there are."""
    name = study.partition(" ")[0]
    made = f" The runs of this page: {made_by}." if made_by else ""
    return f"""```console
$ python -m papers {study} --seeds {seeds} --out study{options}
$ python -m papers {study} --table docs/results
```

The first command does what the store `study` lacks, may be stopped at any time, and makes the page there; \
`calibrant sweep grids/{name}.toml --store study` does the same runs by any engine. The second does no runs: \
it makes this page{" and its figures" * figures} again from the runs in its results file, and with \
`--out study` from those in the store too.{made} [Runs done again](repeats.md): a sample of them, and what a \
run costs."""


def finding(claim: Claim) -> str:
    """A claim as an item of a list: the verdict first, then what it is about, who says it and the numbers."""
    evidence = claim.evidence[0].upper() + claim.evidence[1:]
    return f"- **{claim.here.capitalize()}: {claim.statement}** ({claim.source}). {evidence}."


def loss_name(gamma: float, focal: str = "") -> str:
    """The loss of a focal exponent, 0 being cross-entropy.

    Example:
        >>> loss_name(0.0), loss_name(2.0), loss_name(2.0, "focal, ")
        ('cross-entropy', 'γ = 2', 'focal, γ = 2')
    """
    return "cross-entropy" if gamma == 0 else f"{focal}γ = {gamma:g}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose first column is words and whose others are numbers.

    Example:
        >>> table(["loss", "T"], [["focal", "1.1"]]).splitlines()[1]
        '| --- | ---: |'
    """
    ruler = ["---", *["---:"] * (len(heads) - 1)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in (heads, ruler, *rows))


def listed(items: Iterable[str]) -> str:
    """Items with commas, and "and" before the last.

    Example:
        >>> listed(["207", "69", "4"]), listed(["4"]), listed([])
        ('207, 69 and 4', '4', '')
    """
    *most, last = [*items] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def results_text(numbers: Mapping[str, Any] | Sequence[Any]) -> str:
    """Numbers as a results file: indented JSON, a list or dictionary of plain numbers on one line.

    Example:
        >>> print(results_text({"each": [1.5, 2], "all": {"mean": 1.75, "n": 2}}), end="")
        {
         "each": [1.5, 2],
         "all": {"mean": 1.75, "n": 2}
        }
    """
    text = json.dumps(numbers, indent=1, ensure_ascii=False, allow_nan=False)
    plain = r'([\[{])\s+((?:(?:"\w+": )?[-+.\w]+,\s+)*(?:"\w+": )?[-+.\w]+)\s+([\]}])'
    return re.sub(plain, lambda found: f"{found[1]}{' '.join(found[2].split())}{found[3]}", text) + "\n"
