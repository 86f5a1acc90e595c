"""Networks trained on clean images, judged on corrupted and foreign ones."""

from __future__ import annotations

from pathlib import Path

from calibrant.experiments.grid_study import grid_study
from calibrant.experiments.studies.shift.claims import claims
from calibrant.experiments.studies.shift.numbers import DIGITS, kept_of, numbers_of, swapped
from calibrant.experiments.studies.shift.words import words
from calibrant.experiments.study import Page

PAGE = Page(
    name="shift",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    kept=lambda result: {**kept_of(result.rows[0]), "cpu_seconds": result.cpu_seconds},
    numbers=numbers_of,
    digits=DIGITS,
    departs="A small network on 10,000 images of Fashion-MNIST where the papers have ResNets "
    "on CIFAR-10; loss averaged; FCL with γ = 3 and λ = 0.5, where its table 5 has others for CIFAR-10.",
)


SHIFT = grid_study(
    PAGE,
    summary="Test calibrators under image corruption, and detection of other datasets.",
)
