"""Texts with labels: lines of JSON, their words, a vocabulary by frequency, and rows of word numbers."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import reason
from calibrant._math.shapes import Int
from calibrant_lab.data.files import SPLITS
from calibrant_lab.data.table import Part, RawData

Record = Mapping[str, Any]


def files_of_splits(folder: Path) -> dict[str, Path]:
    """The ``train``, ``val`` and ``test`` file of a folder, as ``.jsonl`` or ``.jsonl.gz``."""
    found: dict[str, Path] = {}
    for split, names in SPLITS.items():
        for path in (folder / f"{name}{end}" for name in names for end in (".jsonl", ".jsonl.gz")):
            if path.is_file():
                found.setdefault(split, path)
    if "train" not in found:
        raise InputError(f"{folder} must hold train.jsonl or train.jsonl.gz, a line of JSON for each text.")
    return found


def lines_of(path: Path, needed: Sequence[str]) -> list[Record]:
    """The records of a file of JSON lines, each with the ``needed`` entries."""
    records: list[Record] = []
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    records.append(_record(line, needed, f"{path} line {number}"))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({reason(error)}); fetch the file again.") from error
    if not records:
        raise InputError(f"{path} is empty; it must hold a line of JSON for each text.")
    return records


def _record(line: str, needed: Sequence[str], place: str) -> Record:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place} is not JSON ({reason(error)}); fetch the file again.") from error
    missing = [name for name in needed if not isinstance(found, dict) or name not in found]
    if missing:
        raise InputError(f"{place} has no {missing[0]!r}; every line needs {', '.join(needed)}.")
    return found


def texts_of(records: Sequence[Record], path: Path) -> list[str]:
    texts = [record["text"] for record in records]
    for line, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise InputError(f"{path} record {line}: `text` must be a text in quotes; got {text!r:.40}.")
    return texts


def labels_of(records: Sequence[Record], names: Sequence[str], path: Path) -> list[int]:
    """The labels of records: numbers, or names of classes."""
    labels: list[int] = []
    for line, record in enumerate(records, start=1):
        label = record["label"]
        if label in names and isinstance(label, str):
            label = names.index(label)
        if isinstance(label, bool) or not isinstance(label, int) or not 0 <= label < len(names):
            raise InputError(
                f"{path} record {line}: the label must be a whole number in 0 … {len(names) - 1} or one of "
                f"{', '.join(names[:3])}, …; got {label!r}."
            )
        labels.append(label)
    return labels


def text_data(
    parts: Mapping[str, tuple[Sequence[str], Sequence[int]]],
    *,
    name: str,
    class_names: Sequence[str],
    words: int,
    length: int,
) -> RawData:
    """Texts and labels of each split as rows of word numbers; the vocabulary is of all splits together."""
    if words < 2:
        raise InputError(f"`words` must leave room for padding and one word; got {words}.")
    cut = {split: [words_of(text) for text in texts] for split, (texts, _) in parts.items()}
    vocabulary = by_frequency((text for texts in cut.values() for text in texts), words)
    if not vocabulary:
        raise InputError(f"the texts of {name} must hold words; they are all empty.")
    found = {
        split: Part(
            inputs=numbered(cut[split], vocabulary, length=length),
            labels=torch.tensor(list(labels), dtype=torch.int64),
        )
        for split, (_, labels) in parts.items()
    }
    return RawData(name=name, class_names=tuple(class_names), vocabulary=vocabulary, **found)


_FILTERED = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
_TO_SPACES = str.maketrans(_FILTERED, " " * len(_FILTERED))


def words_of(text: str) -> list[str]:
    r"""Lower-case words, as the Keras tokenizer cuts them: punctuation and line breaks count as spaces.

    Apostrophes stay, and so does white space of other kinds.

    Example:
        >>> words_of("It isn't, \nis-it?")
        ['it', "isn't", 'is', 'it']
    """
    return [word for word in text.lower().translate(_TO_SPACES).split(" ") if word]


def by_frequency(texts: Iterable[Sequence[str]], size: int) -> tuple[str, ...]:
    """The ``size - 1`` most frequent words, those met first going first among equals; number 0 is padding.

    Example:
        >>> by_frequency([["a", "b", "b"], ["c"]], 3)
        ('b', 'a')
    """
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text)
    return tuple(word for word, _ in counts.most_common(size - 1))


def numbered(
    texts: Iterable[Sequence[str]], vocabulary: Sequence[str], *, length: int
) -> Int[Tensor, "N length"]:
    """Texts as rows of word numbers from 1, unknown words left out.

    Long texts lose their beginning, and short ones have zeros in front.

    Example:
        >>> numbered([["b", "a"], ["a", "x", "a", "b", "b"]], ["a", "b"], length=3).tolist()
        [[0, 2, 1], [1, 2, 2]]
    """
    if isinstance(length, bool) or length < 1:
        raise InputError(f"`length` must be 1 or more words; got {length!r}.")
    places = {word: place for place, word in enumerate(vocabulary, start=1)}
    rows = [[places[word] for word in text if word in places][-length:] for text in texts]
    found = torch.zeros((len(rows), length), dtype=torch.int32)
    for row, numbers in enumerate(rows):
        if numbers:
            found[row, -len(numbers) :] = torch.tensor(numbers, dtype=torch.int32)
    return found
