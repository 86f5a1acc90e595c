"""Words of texts, a vocabulary by frequency, and texts as rows of word numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Int

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
