"""The sets of texts and trees that are known by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from calibrant_lab.data.fetch import Folder, located
from calibrant_lab.data.table import RawTexts
from calibrant_lab.data.text.sets import NEWSGROUPS, read_finsen, read_newsgroups, read_texts
from calibrant_lab.data.text.trees import read_trees

_LINES = ("train.jsonl.gz", "train.jsonl")


def _texts(class_names: Sequence[str] | None = None) -> Callable[..., RawTexts]:
    """A set in a folder of lines of JSON."""

    def read_it(name: str, folder: Folder, *, words: int = 20_000, length: int = 1000) -> RawTexts:
        place = located(name, folder, _LINES).parent
        return read_texts(place, name=name, words=words, length=length, class_names=class_names)

    return read_it


def _newsgroups(name: str, folder: Folder, *, words: int = 20_000, length: int = 1000) -> RawTexts:
    """Lines of JSON, the posts as they came, or the folder that these unpack to."""
    found = located(name, folder, [*_LINES, NEWSGROUPS[0], "20_newsgroups", "20_newsgroup"])
    place = found if found.name.startswith("20_") else found.parent
    return read_newsgroups(place, name=name, words=words, length=length)


def _finsen(name: str, folder: Folder, *, words: int = 20_000, length: int = 1000) -> RawTexts:
    forms = ["FinSen_US_Categorized_Timestamp.csv", "FinSen_US_Categorized.csv"]
    return read_finsen(located(name, folder, forms), name=name, words=words, length=length)


def _trees(name: str, folder: Folder, *, fine: bool = False) -> RawTexts:
    return read_trees(located(name, folder, _LINES).parent, name=name, fine=fine)


TEXTS: dict[str, Callable[..., RawTexts]] = {
    "newsgroups20": _newsgroups,
    "sst_trees": _trees,
    "ag_news_subset": _texts(("World", "Sports", "Business", "Sci/Tech")),
    "trec_questions": _texts(),
    "financial_phrasebank": _texts(("negative", "neutral", "positive")),
    "finsen": _finsen,
}
"""By name, what reads a set, given its name and the folder of data sets; further parameters are settings."""
