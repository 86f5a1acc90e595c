"""Which losses are proper, and how confident do they make a network?

Each loss of the library is minimised against known probabilities, by `calibrant.theory`.
"""
# pyright: basic

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from papers.analysis import Frames, Tables

WORDS = {"under": "underconfident", "over": "overconfident", "both": "either", "calibrated": "calibrated"}


def measure(_folder: Path) -> dict[str, Any]:
    """Every loss, in a few minutes."""
    from papers.properness.measure import every_loss, row_of

    return {"losses": [row_of(name) for name in every_loss()]}


def frames(results: Mapping[str, Any]) -> Frames:
    """``losses``, a row for each."""
    return {"losses": pd.DataFrame(results["losses"])}


def tables(found: Frames) -> Tables:
    """What is on the page."""
    rows = found["losses"].to_dict("records")
    table = pd.DataFrame(
        {
            "loss": f"`{row['loss']}`",
            "proper": _proper(row["posterior"], row["minimiser"]),
            "keeps the class": _yes(row["keeps_class"]),
            "convex (p / logits)": f"{_yes(row['convex_in_probs'])} / {_yes(row['convex_in_logits'])}",
            "at the optimum": _change(row),
            "30 classes": WORDS.get(row["confidence_many"], "–"),
        }
        for row in rows
    )
    return {"losses": table.set_index("loss")}


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _proper(posterior: list[float] | None, minimiser: list[float] | None) -> str:
    if posterior is None or minimiser is None:
        return "none found"
    true, elicited = (", ".join(f"{p:.4g}" for p in probs) for probs in (posterior, minimiser))
    return f"no: ({true}) elicits ({elicited})"


def _change(row: Mapping[str, Any]) -> str:
    word = WORDS[row["confidence"]]
    if row["confidence"] == "calibrated":
        return word
    return f"{word} ({row['least_change']:+.3f} to {row['largest_change']:+.3f})"
