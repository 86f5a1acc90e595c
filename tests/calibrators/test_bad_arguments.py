"""What fits refuse, and the sentence that says so."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from calibrant import InputError
from calibrant.calibrators import (
    adjust_to_prior,
    estimate_prior,
    fit_groups,
    fit_local_temperature,
    fit_segments,
    fit_temperatures,
    multicalibrate,
)

LOGITS, LABELS = torch.randn(6, 4, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 4
THREE = [[0.2, 0.3, 0.5]]
ONES = np.ones(40, dtype=int)


def grouped(
    calibrator: str = "temperature", logits: Any = LOGITS, groups: Any = tuple("ababab"), **more: Any
) -> Any:
    return fit_groups(calibrator, logits, LABELS, groups=groups, **more)


def local(**changed: Any) -> Any:
    images = {
        "logits": np.zeros((4, 3, 2, 2)),
        "labels": np.zeros((4, 2, 2), int),
        "covariates": np.zeros((4, 2, 2, 2)),
    }
    return fit_local_temperature(**{**images, **changed}, ignore_index=255)


def corrected(**options: Any) -> Any:
    return multicalibrate([0.0, 1.0, 2.0], [0, 1, 1], **options)


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: grouped(groups=["a"] * 5), "`groups` must hold 6 names, one per sample; got 5"),
    (lambda: grouped(groups=["a", "b", "", "a", "b", "a"]), "row 2 holds ''"),
    (lambda: grouped(groups=[1.5, 2, 1, 2, 1, 2]), r"row 0 holds 1\.5"),
    (lambda: grouped(groups=[None] * 6), "row 0 holds None"),
    (lambda: grouped(borrowed=-1.0), r"`borrowed` must be finite and not negative; got -1\.0"),
    (lambda: grouped(borrowed=math.nan), "`borrowed` must be finite"),
    (lambda: grouped(unknown="ignore"), "`unknown` must be one of"),
    (lambda: grouped("temprature"), "did you mean 'temperature'"),
    (lambda: grouped(logits=torch.full((6, 4), math.nan)), "row 0"),
    (lambda: grouped("platt"), "all groups: platt needs log-odds"),
    (lambda: fit_temperatures(LABELS, LABELS), r"`logits` must have shape \(M, N, C\) or \(M, N\)"),
    (lambda: fit_temperatures(torch.zeros(2, 5, 3), torch.zeros(4)), r"shape \(5,\) or \(2, 5\)"),
    (
        lambda: fit_temperatures(torch.zeros(2, 5, 3), torch.full((5,), 3)),
        r"model 0: `labels` must be in 0\.\.2",
    ),
    (
        lambda: fit_temperatures(torch.full((2, 5), math.nan), torch.zeros(5)),
        "model 0: `logits` must be finite",
    ),
    (
        lambda: fit_temperatures(torch.zeros(2, 5), torch.zeros(5), weights=torch.ones(3, 5)),
        "`weights` must have 2 rows",
    ),
    (
        lambda: fit_temperatures(torch.zeros(2, 5), torch.zeros(5), weights=torch.zeros(5)),
        "model 0: `weights` must not all be zero",
    ),
    (lambda: corrected(groups={"a": [True]}), r"masks of shape \(3,\); 'a' has \(1,\)"),
    (lambda: corrected(groups=["a"]), "must hold 3 texts, one per sample; got 1"),
    (lambda: corrected(groups=["a"] * 3, threshold=0.0), "`threshold` must be positive"),
    (lambda: fit_segments(ONES, 0 * ONES, {"age": ONES}), "must hold each outcome at least 5 times"),
    (lambda: fit_segments(ONES, np.arange(40) % 2, {}), "must name at least one"),
    (
        lambda: fit_segments(ONES, np.arange(40) % 2, {"age": ONES[1:]}),
        r"'age' of shape \(40,\); got \(39,\)",
    ),
    (lambda: fit_segments(np.zeros((40, 3)), np.arange(40) % 2, {"age": ONES}), "pass one event"),
    (lambda: local(covariates=np.zeros((4, 2, 2))), r"`covariates` must have shape \(N, k, d1, d2\)"),
    (lambda: local(covariates=np.full((4, 2, 2, 2), np.nan)), "`covariates` must be finite"),
    (lambda: local(covariates=np.zeros((4, 0, 2, 2))), "`covariates` must have at least one column"),
    (lambda: local(names=["one"]), "`names` must hold one name for each of 2 covariates"),
    (lambda: local(labels=np.full((4, 2, 2), 255)), "no position is left"),
    (lambda: local(logits=np.zeros(4)), r"`logits` must have shape \(N, C\)"),
    *(
        (lambda estimate=estimate, prior=prior: estimate(THREE, source_prior=prior), sentence)
        for estimate in (
            estimate_prior,
            lambda probs, **prior: adjust_to_prior(probs, prior=THREE[0], **prior),
        )
        for prior, sentence in (
            ([0.5, 0.5], "`source_prior` must have 3 entries"),
            ([0.5, 0.5, 0.5], r"must sum to one; got \[0.5, 0.5, 0.5\], which sum to 1.5"),
            ([0.5, 0.6, -0.1], "finite and not negative"),
            ([0.5, 0.5, 0.0], "that of class 2 is 0"),
        )
    ),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_bad_arguments_are_refused(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call()
