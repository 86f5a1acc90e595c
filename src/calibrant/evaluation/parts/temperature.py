"""Temperature scaling of a table that is read part by part: Newton's method on sums over all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol

import numpy as np
import torch

from calibrant._math.checks import check_logits
from calibrant._math.convex_minimum import Slopes, best_temperature
from calibrant._math.errors import InputError, without_warnings
from calibrant._math.threads import one_thread
from calibrant.calibrators import TemperatureScaling
from calibrant.calibrators.fitting.data import CalibrationData
from calibrant.calibrators.fitting.likelihood import likelihood_slopes
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.temperatures import of_likeliest
from calibrant.evaluation.parts.dealing import Deal
from calibrant.evaluation.resampling.events import Indices, Matrix
from calibrant.evaluation.spread import Item, Spread
from calibrant.predictions import Predictions, Source
from calibrant.predictions.pieces import Piece
from calibrant.predictions.repair_form import to_repair


class ToFit(Protocol[Item]):
    """What gives rows to fit on, part by part: a table, or images."""

    @property
    def parts(self) -> Sequence[Item]:
        """What is shared out."""
        ...

    @property
    def space(self) -> str:
        """Which numbers are given."""
        ...

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """One name per class."""
        ...

    @property
    def source(self) -> Source:
        """Where the rows come from."""
        ...

    def pieces(self, part: Item) -> Iterator[Piece]:
        """The rows of a part, some at a time."""
        ...


@dataclass(frozen=True)
class SlopesOfPart(Generic[Item]):
    """Sums over the rows to fit on: their number and weight, and first and second derivative and value."""

    table: ToFit[Item]
    deal: Deal
    betas: tuple[float, ...]
    """Inverse temperatures."""

    def __call__(self, part: Item) -> Matrix:
        """One row for each inverse temperature."""
        sums = np.zeros((len(self.betas), 5))
        with one_thread():
            for piece in self.table.pieces(part):
                rows, _ = self.deal.rows(piece, "fit")
                mass = float(len(rows) if piece.weights is None else piece.weights[rows].sum())
                if mass > 0:
                    samples = _samples(piece, rows, logits=self.table.space == "logits")
                    found = (likelihood_slopes(samples, beta) for beta in self.betas)
                    sums += [[len(rows), mass, *(mass * each for each in slopes)] for slopes in found]
        return sums


def fit_temperature_in_parts(
    table: ToFit[Item],
    sample: Predictions,
    deal: Deal,
    *,
    spread: Spread,
) -> TemperatureScaling:
    """The temperature of all rows to fit on; a few passes, as the search begins at that of a ``sample``.

    Args:
        table: What to fit on.
        sample: Some of its rows to fit on.
        deal: Which rows those are.
        spread: What shares out the parts.

    Returns:
        A fitted calibrator. Its temperature and certificate are those of all rows, its profile of the sample.
    """
    form = to_repair(sample)
    if form.labels is None:
        raise InputError("`sample` must have labels.")
    with without_warnings():
        start = TemperatureScaling().fit(form.scores, form.labels, weights=form.weights)
    near = float(start.temperature)
    passes, count = 0, 0

    def slopes(*betas: float) -> list[Slopes]:
        nonlocal passes, count
        passes += 1
        sums = np.zeros((len(betas), 5))
        for each in spread(SlopesOfPart(table, deal, betas), table.parts):
            sums += each
        count = int(sums[0, 0])
        return [Slopes(*(row[2:] / row[1]).tolist()) for row in sums]

    at_one: list[float] = []

    def looked(beta: float) -> Slopes:
        if at_one:
            return slopes(beta)[0]
        here_too, one = slopes(beta, 1.0)  # the likelihood of the scores as they are comes with the first
        at_one.append(one.value)
        return here_too

    root = best_temperature(looked, near, bracket=True)
    solution = of_likeliest(root, at_one[0], near)
    start.restore(
        {"temperature": torch.tensor(solution.parameters["temperature"], dtype=torch.float64)},
        replace(
            start.fit_result_,
            converged=solution.converged,
            steps=passes,
            before=solution.before,
            after=solution.after,
            parameters=solution.parameters,
            certificate=solution.certificate,
            message=solution.message,
            warnings=solution.warnings,
            num_samples=count,
            data_sha256=table.source.sha256,
        ),
        kind=start.kind_,
        num_classes=start.num_classes_,
        class_names=table.class_names,
    )
    return start


def _samples(piece: Piece, rows: Indices, *, logits: bool) -> Samples:
    """The rows as calibrators are fitted on them."""
    scores = torch.from_numpy(piece.scores[rows])
    if not logits:
        scores = scores.to(torch.float64).log()
    if scores.shape[1] == 2:
        scores = scores[:, 1] - scores[:, 0]
    weights = None if piece.weights is None else torch.from_numpy(piece.weights[rows])
    checked = check_logits(scores, torch.from_numpy(piece.labels[rows]), weights, allow_minus_inf=True)
    return next(CalibrationData.of(checked).weighted(checked.weights).problems())
