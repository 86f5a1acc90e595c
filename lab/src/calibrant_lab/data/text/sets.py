"""The sets of texts that the papers classify."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from calibrant._math.errors import InputError
from calibrant_lab.data.check import numbered_classes
from calibrant_lab.data.files import table_rows
from calibrant_lab.data.table import RawData
from calibrant_lab.data.text.records import (
    files_of_splits,
    labels_of,
    lines_of,
    text_data,
    texts_of,
)

_VALIDATION = 900  # Mukhoti et al. (2020), as their code cuts


def read_texts(
    folder: Path,
    *,
    name: str = "",
    words: int = 20_000,
    length: int = 1000,
    class_names: Sequence[str] | None = None,
) -> RawData:
    """Texts with labels in ``train.jsonl`` and, where there are such splits, ``val`` and ``test``."""
    records = {
        split: (path, lines_of(path, ("text", "label"))) for split, path in files_of_splits(folder).items()
    }
    if class_names is None:
        labels = [record["label"] for record in records["train"][1]]
        class_names = _class_names(labels, str(records["train"][0]))
    parts = {
        split: (texts_of(lines, path), labels_of(lines, class_names, path))
        for split, (path, lines) in records.items()
    }
    return text_data(parts, name=name or folder.name, class_names=class_names, words=words, length=length)


def read_newsgroups(
    folder: Path, *, name: str, words: int, length: int, class_names: Sequence[str]
) -> RawData:
    """20 Newsgroups as Mukhoti et al. (2020) cut it: all posts, shuffled by numpy's seed 1.

    The last fifth is for testing and the 900 before it for calibration. A folder holds either the posts as
    they came (``GROUP/NUMBER``; all up to the first blank line is left out), or all of them as lines of JSON
    with ``id``, ``label`` and ``text``. Posts are taken in the order of group and file name.
    """
    has_folders = any((folder / group).is_dir() for group in class_names)
    posts = (_posts_of_folders if has_folders else _posts_of_lines)(folder, class_names)
    if len(posts) < 20:
        raise InputError(f"{folder} holds {len(posts)} posts; fetch the whole collection again.")
    order = np.arange(len(posts))
    np.random.RandomState(1).shuffle(order)
    test = len(posts) // 5
    validation = _VALIDATION if test > _VALIDATION else max(1, test // 4)  # the latter in a small sample
    first, second = len(posts) - test - validation, len(posts) - test
    cut = {"train": order[:first], "calibration": order[first:second], "test": order[second:]}
    parts = {
        split: ([posts[row][1] for row in rows], [posts[row][0] for row in rows])
        for split, rows in cut.items()
    }
    return text_data(parts, name=name, class_names=class_names, words=words, length=length)


def _posts_of_folders(folder: Path, groups: Sequence[str]) -> list[tuple[int, str]]:
    posts: list[tuple[int, str]] = []
    for label, group in enumerate(groups):
        place = folder / group
        if not place.is_dir():
            raise InputError(f"{folder} has no folder {group}; fetch the whole collection again.")
        for file in sorted(path for path in place.iterdir() if path.name.isdigit() and path.is_file()):
            text = file.read_text(encoding="latin-1")
            blank = text.find("\n\n")
            posts.append((label, text[blank:] if blank > 0 else text))
    return posts


def _posts_of_lines(folder: Path, groups: Sequence[str]) -> list[tuple[int, str]]:
    posts: list[tuple[int, str, str]] = []
    for path in files_of_splits(folder).values():
        records = lines_of(path, ("id", "label", "text"))
        labels = labels_of(records, groups, path)
        posts += [
            (label, str(record["id"]), text)
            for label, record, text in zip(labels, records, texts_of(records, path), strict=True)
        ]
    return [(label, text) for label, _, text in sorted(posts)]


def read_finsen(path: Path, *, name: str, words: int, length: int) -> RawData:
    """FinSen: news with the columns ``Title``, ``Tag`` and ``Content``; the tag is the class."""
    rows = list(table_rows(path, ("Title", "Tag", "Content")))
    for number, row in enumerate(rows, start=2):
        if not row["Tag"] or row["Content"] is None:
            raise InputError(f"{path} line {number} has no tag or no content; remove the row.")
    names = sorted({str(row["Tag"]).strip() for row in rows})
    if len(names) < 2:
        raise InputError(f"{path} must hold news of two tags or more; got {', '.join(names) or 'none'}.")
    random.Random(1).shuffle(rows)
    texts = [f"{row['Title'] or ''} {row['Content']}" for row in rows]
    labels = [names.index(str(row["Tag"]).strip()) for row in rows]
    return text_data({"train": (texts, labels)}, name=name, class_names=names, words=words, length=length)


def _class_names(labels: Sequence[object], source: str) -> tuple[str, ...]:
    if all(isinstance(label, str) for label in labels):
        return tuple(sorted({str(label) for label in labels}))
    highest = max((label for label in labels if isinstance(label, int)), default=0)
    return numbered_classes(max(1, highest), source=source)
