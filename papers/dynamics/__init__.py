"""How calibration changes during a training, and whether the account that is given of it holds."""

from __future__ import annotations

from pathlib import Path

from papers.claims import arms_exchanged
from papers.dynamics.claims import claims
from papers.dynamics.numbers import kept_of, numbers_of
from papers.dynamics.words import words
from papers.grid_study import grid_study
from papers.losses.numbers import DIGITS
from papers.study import Page

PAGE = Page(
    name="dynamics",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=arms_exchanged,
    figures=("dynamics.svg",),
    departs="A small network on 10,000 images of Fashion-MNIST; the paper has a ResNet-50 on CIFAR-10.",
    kept=kept_of,
    numbers=numbers_of,
    digits=DIGITS,
    counts=True,
)


DYNAMICS = grid_study(PAGE, summary="Follow likelihood, entropy and weights by epoch for three losses.")
