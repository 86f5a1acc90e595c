"""Binary parse trees with a sentiment at every node, as tables of whole numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Int
from calibrant_lab.data.table import Part, RawData
from calibrant_lab.data.text.sets import files_of_splits, lines_of

LEFT, RIGHT, WORD, LABEL, LEVEL = range(5)
"""Columns of a node: its children's rows (-1 at a leaf), its word (0 if it has none), its label, its level.

A leaf has level 0, any other node one more than the higher of its children; -1 is padding. Row 0 is the root.
"""

_BINARY = ("negative", "positive")
_FINE = ("very negative", "negative", "neutral", "positive", "very positive")
_NEUTRAL = 2
_PIECES = re.compile(r"[()]|[^() \t\r\n]+")  # a no-break space is part of a word, as in "3 1/2"


class Node(NamedTuple):
    """A node before its word has a number."""

    left: int
    right: int
    word: str
    label: int
    level: int


def parse_tree(text: str) -> list[Node]:
    """The nodes of a tree such as ``(3 (2 Not) (1 bad))``, each before its children.

    Raises:
        InputError: If brackets or labels do not make a binary tree.

    Example:
        >>> [tuple(node) for node in parse_tree("(3 (2 Not) (1 bad))")]
        [(1, 2, '', 3, 1), (-1, -1, 'Not', 2, 0), (-1, -1, 'bad', 1, 0)]
    """
    pieces = _PIECES.findall(text)
    nodes: list[Node] = []
    open_nodes: list[int] = []
    children: list[list[int]] = []
    place = 0
    while place < len(pieces):
        piece = pieces[place]
        if piece == "(" and place + 1 < len(pieces) and pieces[place + 1] in "01234":
            if not open_nodes and nodes:
                raise _broken(text, "has two roots")
            if open_nodes:
                children[open_nodes[-1]].append(len(nodes))
            open_nodes.append(len(nodes))
            nodes.append(Node(-1, -1, "", int(pieces[place + 1]), 0))
            children.append([])
            place += 1
        elif piece == ")" and open_nodes:
            row = open_nodes.pop()
            nodes[row] = _closed(nodes, row, children[row], text)
        elif piece not in "()" and open_nodes and not nodes[open_nodes[-1]].word:
            nodes[open_nodes[-1]] = nodes[open_nodes[-1]]._replace(word=piece)
        else:
            raise _broken(text, f"has a misplaced {piece!r}")
        place += 1
    if open_nodes or not nodes:
        raise _broken(text, "ends early")
    return nodes


def _closed(nodes: Sequence[Node], row: int, children: Sequence[int], text: str) -> Node:
    node = nodes[row]
    if node.word and not children:
        return node
    if node.word or len(children) != 2:
        raise _broken(text, "has a node with neither one word nor two children")
    left, right = children
    return node._replace(left=left, right=right, level=1 + max(nodes[left].level, nodes[right].level))


def _broken(text: str, what: str) -> InputError:
    return InputError(f"the tree {text[:40]}… {what}; it must look like (3 (2 Not) (1 bad)).")


def read_trees(folder: Path, *, name: str, fine: bool = False) -> RawData:
    """The Stanford Sentiment Treebank: ``train``, ``val`` and ``test`` as lines of JSON with a ``tree``.

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
