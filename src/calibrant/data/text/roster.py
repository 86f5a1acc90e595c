"""The sets of texts and trees that are known by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant.data.table import RawTexts
from calibrant.data.text.sets import read_finsen, read_newsgroups, read_texts
from calibrant.data.text.trees import read_trees


def _trees(path: Path, *, name: str, words: int, length: int, fine: bool = False) -> RawTexts:
    """Trees, of which every word and node counts."""
    del words, length
    return read_trees(path, name=name, fine=fine)


TEXTS: dict[str, tuple[str, Callable[..., RawTexts]]] = {
    "newsgroups20": ("newsgroups20", read_newsgroups),
    "sst_trees": ("sst_trees", _trees),
    "sst_trees_fine": ("sst_trees", partial(_trees, fine=True)),
    "ag_news_subset": (
        "ag_news_subset",
        partial(read_texts, class_names=("World", "Sports", "Business", "Sci/Tech")),
    ),
    "trec_questions": ("trec_questions", read_texts),
    "financial_phrasebank": (
        "financial_phrasebank",
        partial(read_texts, class_names=("negative", "neutral", "positive")),
    ),
    "finsen": ("finsen/FinSen_US_Categorized_Timestamp.csv", read_finsen),
}
"""By name: where a set lies inside the folder of data sets, and what reads it."""


def load_texts(name: str, *, folder: str | os.PathLike[str] | None, words: int, length: int) -> RawTexts:
    """Read a named set of texts.

    Raises:
        InputError: If it is not there, or is damaged.
    """
    place, read = TEXTS[name]
    root = folder or os.environ.get("CALIBRANT_DATA")
    if not root:
        raise InputError(f"{name} is read from a folder of data sets: set CALIBRANT_DATA to it.")
    path = Path(root) / place
    if not path.exists():
        raise InputError(
            f"{name} should be at {path}, where there is nothing; set CALIBRANT_DATA to the folder of sets."
        )
    return read(path, name=name, words=words, length=length)
