"""Text datasets of the papers: words, vocabularies by frequency, and word vectors."""

from __future__ import annotations

import gzip
import json
import random
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, reason
from calibrant._math.shapes import Float, Int
from calibrant_lab.data.files import SPLITS, numbered_classes, table_rows
from calibrant_lab.data.table import Part, RawData

Record = Mapping[str, Any]


def files_of_splits(folder: Path) -> dict[str, Path]:
    """Return the ``train``, ``val`` and ``test`` file of a folder, as ``.jsonl`` or ``.jsonl.gz``."""
    found: dict[str, Path] = {}
    for split, names in SPLITS.items():
        for path in (folder / f"{name}{end}" for name in names for end in (".jsonl", ".jsonl.gz")):
            if path.is_file():
                found.setdefault(split, path)
    if "train" not in found:
        raise InputError(f"{folder} must hold train.jsonl or train.jsonl.gz, a line of JSON for each text.")
    return found


def lines_of(path: Path, needed: Sequence[str]) -> list[Record]:
    """Read the records of a JSON lines file, each with the ``needed`` entries."""
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
    if "text" in needed and not isinstance(found["text"], str):
        raise InputError(f"{place}: `text` must be a text in quotes; got {found['text']!r:.40}.")
    return found


def labels_of(records: Sequence[Record], names: Sequence[str], path: Path) -> list[int]:
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
    """Encode all splits as rows of word numbers, with a common vocabulary."""
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
    r"""Return lower-case words like the Keras tokenizer: punctuation and line breaks count as spaces.

    Apostrophes stay, and so does white space of other kinds.
    """
    return [word for word in text.lower().translate(_TO_SPACES).split(" ") if word]


def by_frequency(texts: Iterable[Sequence[str]], size: int) -> tuple[str, ...]:
    """Return the ``size - 1`` most frequent words, in order of first occurrence among ties; 0 is padding."""
    counts = Counter(word for text in texts for word in text)
    return tuple(word for word, _ in counts.most_common(size - 1))


def numbered(
    texts: Iterable[Sequence[str]], vocabulary: Sequence[str], *, length: int
) -> Int[Tensor, "N length"]:
    """Encode texts as rows of word numbers from 1, without unknown words.

    Long texts lose their beginning, and short ones have zeros in front.
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


_VALIDATION = 900  # Mukhoti et al. (2020), as their code cuts


def read_texts(
    folder: Path,
    *,
    name: str = "",
    words: int = 20_000,
    length: int = 1000,
    class_names: Sequence[str] | None = None,
) -> RawData:
    """Read texts with labels from ``train.jsonl`` and, if present, ``val`` and ``test``."""
    records = {
        split: (path, lines_of(path, ("text", "label"))) for split, path in files_of_splits(folder).items()
    }
    if class_names is None:
        labels = [record["label"] for record in records["train"][1]]
        class_names = _class_names(labels, str(records["train"][0]))
    parts = {
        split: ([line["text"] for line in lines], labels_of(lines, class_names, path))
        for split, (path, lines) in records.items()
    }
    return text_data(parts, name=name or folder.name, class_names=class_names, words=words, length=length)


def read_newsgroups(
    folder: Path, *, name: str, words: int, length: int, class_names: Sequence[str]
) -> RawData:
    """Read 20 Newsgroups as Mukhoti et al. (2020) split it: all posts, shuffled by numpy's seed 1.

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
        posts += [(label, str(each["id"]), each["text"]) for label, each in zip(labels, records, strict=True)]
    return [(label, text) for label, _, text in sorted(posts)]


def read_finsen(path: Path, *, name: str, words: int, length: int) -> RawData:
    """Read FinSen, news with the columns ``Title``, ``Tag`` (the class) and ``Content``."""
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


def read_vectors(path: Path, vocabulary: Sequence[str]) -> Float[Tensor, "V D"]:
    """Return vectors of padding and of a vocabulary's words; NaN for words missing in the file.

    The file is an ``.npz`` of ``words`` and ``vectors``, or text in GloVe's form: a word and its numbers per
    line. The lower-case form replaces an unknown word. Row 0, padding, is zero.
    """
    wanted = {form for word in vocabulary for form in (word, word.lower())}
    try:
        known = _from_archive(path, wanted) if path.suffix == ".npz" else _from_lines(path, wanted)
    except DAMAGE as error:
        raise InputError(
            f"{path} cannot be read as word vectors ({reason(error)}); it must be GloVe's text, "
            "or an .npz file of words and vectors."
        ) from error
    if not known:
        raise InputError(f"{path} knows none of the {len(vocabulary)} words; take vectors of this language.")
    for word, vector in known.items():
        if not np.isfinite(vector).all():
            raise InputError(f"{path} must hold finite numbers; those of {word!r} are not.")
    size = len(next(iter(known.values())))
    found = np.full((len(vocabulary) + 1, size), np.nan, dtype=np.float32)
    found[0] = 0.0
    for row, word in enumerate(vocabulary, start=1):
        vector = known.get(word, known.get(word.lower()))
        if vector is not None:
            found[row] = vector
    return torch.from_numpy(found)


def no_vectors(vocabulary: Sequence[str], size: int = 100) -> Float[Tensor, "V D"]:
    found = torch.full((len(vocabulary) + 1, size), torch.nan)
    found[0] = 0.0
    return found


def _from_archive(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        words, vectors = archive["words"], archive["vectors"]
    if vectors.ndim != 2 or words.shape != vectors.shape[:1] or not vectors.size:
        raise ValueError(f"words of shape {words.shape}, vectors of shape {vectors.shape}")
    if vectors.dtype.kind not in "fiu":
        raise ValueError(f"vectors of {vectors.dtype}")
    rows = {str(word): row for row, word in enumerate(words) if str(word) in wanted}
    return {word: vectors[row].astype(np.float32) for word, row in rows.items()}


def _from_lines(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    known: dict[str, np.ndarray] = {}
    size = 0
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            word, *rest = line.rstrip().split(" ")
            size = size or len(rest)
            # GloVe 840B has a few "words" with spaces, which no tokenizer here makes.
            if word in wanted and len(rest) == size:
                known[word] = np.array(rest, dtype=np.float32)
            elif len(rest) < size or size < 2:
                raise ValueError(f"line {number} holds a word and {len(rest)} numbers")
    return known


LEFT, RIGHT, WORD, LABEL, LEVEL = range(5)
"""Columns of a node: its children's rows (-1 at a leaf), its word (0 if it has none), its label, its level.

A leaf has level 0, any other node one more than the higher of its children; -1 is padding. Row 0 is the root.
"""

_BINARY = ("negative", "positive")
_FINE = ("very negative", "negative", "neutral", "positive", "very positive")
_NEUTRAL = 2
_PIECES = re.compile(r"[()]|[^() \t\r\n]+")  # a no-break space is part of a word, as in "3 1/2"


class Node(NamedTuple):
    """Node before its word has a number."""

    left: int
    right: int
    word: str
    label: int
    level: int


def parse_tree(text: str) -> list[Node]:
    """Return the nodes of a tree such as ``(3 (2 Not) (1 bad))``, each before its children."""
    pieces = iter(_PIECES.findall(text))
    nodes: list[Node] = []
    open_nodes: list[tuple[int, list[int]]] = []  # rows, with those of their children
    for piece in pieces:
        if piece == "(" and (label := next(pieces, "")) in {"0", "1", "2", "3", "4"}:
            if open_nodes:
                open_nodes[-1][1].append(len(nodes))
            elif nodes:
                raise _broken(text, "has two roots")
            open_nodes.append((len(nodes), []))
            nodes.append(Node(-1, -1, "", int(label), 0))
        elif piece == ")" and open_nodes:
            row, children = open_nodes.pop()
            if len(children) != 2 * (not nodes[row].word):
                raise _broken(text, "has a node with neither one word nor two children")
            if children:
                left, right = children
                level = 1 + max(nodes[left].level, nodes[right].level)
                nodes[row] = Node(left, right, "", nodes[row].label, level)
        elif piece not in "()" and open_nodes and not nodes[open_nodes[-1][0]].word:
            row = open_nodes[-1][0]
            nodes[row] = nodes[row]._replace(word=piece)
        else:
            raise _broken(text, f"has a misplaced {piece!r}")
    if open_nodes or not nodes:
        raise _broken(text, "ends early")
    return nodes


def _broken(text: str, what: str) -> InputError:
    return InputError(f"the tree {text[:40]}… {what}; it must look like (3 (2 Not) (1 bad)).")


def read_trees(folder: Path, *, name: str, fine: bool = False) -> RawData:
    """Read the Stanford Sentiment Treebank: ``train``, ``val`` and ``test``, JSON lines with a ``tree``.

    The binary task drops sentences with a neutral root; its nodes have three labels, negative, neutral and
    positive, because phrases may well be neutral. The task of five sentiments is ``fine``. The vocabulary is
    cased and of all splits together.
    """
    trees = {
        split: [parse_tree(str(record["tree"])) for record in lines_of(path, ("tree",))]
        for split, path in files_of_splits(folder).items()
    }
    # Neutral sentences are dropped, but their words are known.
    words = sorted({node.word for split in trees.values() for nodes in split for node in nodes} - {""})
    numbers = {word: number for number, word in enumerate(["", *words])}
    kept = {
        split: [nodes for nodes in found if fine or nodes[0].label != _NEUTRAL]
        for split, found in trees.items()
    }
    longest = max((len(nodes) for found in kept.values() for nodes in found), default=0)
    parts: dict[str, Part] = {}
    for split, found in kept.items():
        if not found:
            raise InputError(f"the {split} file of {folder} has no tree with a sentiment at its root.")
        roots = torch.tensor([nodes[0].label for nodes in found])
        parts[split] = Part(
            inputs=_table(found, numbers, longest, fine=fine),
            labels=roots if fine else (roots > _NEUTRAL).long(),
        )
    return RawData(name=name, class_names=_FINE if fine else _BINARY, vocabulary=tuple(words), **parts)


def _table(
    trees: Sequence[Sequence[Node]], numbers: dict[str, int], longest: int, *, fine: bool
) -> Int[Tensor, "N nodes 5"]:
    coarse = (0, 0, 1, 2, 2)
    table = torch.zeros((len(trees), longest, 5), dtype=torch.int32)
    table[:, :, LEVEL] = -1
    for row, nodes in enumerate(trees):
        known = [
            (left, right, numbers[word], label if fine else coarse[label], level)
            for left, right, word, label, level in nodes
        ]
        table[row, : len(nodes)] = torch.tensor(known, dtype=torch.int32)
    return table
