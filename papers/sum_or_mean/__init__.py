"""The loss summed over the batch with clipped gradients, against the mean."""

from __future__ import annotations

from pathlib import Path

from papers.grid_study import grid_study
from papers.losses.numbers import DIGITS
from papers.study import Page
from papers.sum_or_mean.claims import claims
from papers.sum_or_mean.numbers import kept_of, numbers_of, swapped
from papers.sum_or_mean.words import words

PAGE = Page(
    name="sum-or-mean",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    departs="A small network on 10,000 images of Fashion-MNIST where the papers have ResNets on CIFAR-10.",
    kept=kept_of,
    numbers=numbers_of,
    digits=DIGITS,
    counts=True,
)


SUM_OR_MEAN = grid_study(PAGE, summary="Compare the summed, clipped loss with its mean.")
