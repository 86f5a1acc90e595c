"""The rows of texts: AG News and 20 Newsgroups, published numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from papers.grid_study import grid_study
from papers.losses.numbers import DIGITS
from papers.printed_rows import losses_exchanged
from papers.study import Page
from papers.texts.claims import claims
from papers.texts.numbers import numbers_of
from papers.texts.words import words

if TYPE_CHECKING:
    from calibrant_lab.sweep.result import RunResult


def _kept(result: RunResult) -> Mapping[str, Any]:
    from papers.texts.measure import kept_of

    return kept_of(result)


TEXTS = grid_study(
    Page(
        name="texts",
        template=Path(__file__).with_name("page.md.j2"),
        words=words,
        claims=claims,
        exchanged=losses_exchanged,
        departs="AG News with 3,998 articles to train on instead of the whole set, and settings of 20 "
        "Newsgroups; 20 Newsgroups, where it is asked, with 20 epochs in bfloat16 instead of 50 in "
        "float32. Komisarenko and Kull have no texts, Mukhoti et al. no AG News.",
        kept=_kept,
        numbers=numbers_of,
        digits=DIGITS,
        counts=True,
    ),
    summary="Reproduce the AG News and 20 Newsgroups results.",
)
