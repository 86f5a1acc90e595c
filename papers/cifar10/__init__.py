"""Losses on CIFAR-10 with a small residual network: sum and mean, exponents, training against new images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from papers.cifar10.claims import claims
from papers.cifar10.numbers import numbers_of, swapped
from papers.cifar10.words import words
from papers.gammas.numbers import closest
from papers.grid_study import grid_study
from papers.losses.numbers import DIGITS
from papers.study import Page

if TYPE_CHECKING:
    from calibrant_lab.sweep.result import RunResult


def _kept(result: RunResult) -> Mapping[str, Any] | None:
    from papers.cifar10.measure import kept_of

    return kept_of(result)


CIFAR10 = grid_study(
    Page(
        name="cifar10",
        template=Path(__file__).with_name("page.md.j2"),
        words=words,
        claims=claims,
        exchanged=swapped,
        departs="A residual network of 14 layers on 10,000 JPEG images of CIFAR-10 without augmentation, 30 "
        "epochs in bfloat16; the papers have ResNet-50 on 45,000, 350 epochs.",
        kept=_kept,
        numbers=numbers_of,
        digits=DIGITS,
        counts=True,
        also=closest,
    ),
    summary="Compare losses on CIFAR-10, summed and averaged, with exponents from 0 to 7.",
)
