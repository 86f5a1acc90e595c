"""Cross-entropy and focal loss on a linear model."""

from __future__ import annotations

from pathlib import Path

from papers.grid_study import grid_study
from papers.linear_model.claims import claims, swapped
from papers.linear_model.numbers import numbers_of, words
from papers.study import Page

PAGE = Page(
    name="linear-model",
    template=Path(__file__).with_name("page.md.j2"),
    words=words,
    claims=claims,
    exchanged=swapped,
    figures=("linear-model.svg",),
    numbers=numbers_of,
    departs="Number of points, their spread and the learning rate are not in the paper and are ours.",
)


LINEAR_MODEL = grid_study(
    PAGE,
    summary="Compare cross-entropy and focal loss on a linear model.",
    small=lambda: {"settings": {"num_samples": 80, "num_test": 400, "learning_rate": 0.5, "iterations": 300}},
)
