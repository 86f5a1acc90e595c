"""Temperature and focal temperature scaling of a table that is read part by part, by sums over all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol

import numpy as np
import torch

from calibrant._math.checks import check_logits
from calibrant._math.errors import InputError
from calibrant._math.newton import Matrix
from calibrant._math.threads import one_thread
from calibrant.calibrators import Calibrator, TemperatureScaling
from calibrant.calibrators.fitting.data import CalibrationData
from calibrant.calibrators.fitting.passes import Point, nothing, solved, sums_of
from calibrant.calibrators.fitting.samples import Samples
from calibrant.evaluation.parts.dealing import Deal
from calibrant.evaluation.resampling.events import Indices
from calibrant.evaluation.spread import Item, Spread
from calibrant.predictions import DensePredictions, Predictions, Source
from calibrant.predictions.partitioned import Piece
from calibrant.predictions.to_event import to_repair


class ToFit(Protocol[Item]):
    """Source of rows to fit on, part by part: a table, or images."""

    @property
    def parts(self) -> Sequence[Item]: ...

    @property
    def space(self) -> str:
        """Kind of scores: logits, or probs."""
        ...

    @property
    def class_names(self) -> tuple[str, ...] | None: ...

    @property
    def source(self) -> Source: ...

    def pieces(self, part: Item) -> Iterator[Piece]:
        """The rows of a part, some at a time."""
        ...


@dataclass(frozen=True)
class SumsOfPart(Generic[Item]):
    """Sums over the rows of a part to fit on."""

    table: ToFit[Item]
    deal: Deal
    points: Sequence[Point]

    def __call__(self, part: Item) -> Matrix:
        sums = nothing(self.points)
        with one_thread():
            for piece in self.table.pieces(part):
                rows, _ = self.deal.rows(piece, "fit")
                mass = float(len(rows) if piece.weights is None else piece.weights[rows].sum())
                if mass > 0:
                    samples = _samples(piece, rows, logits=self.table.space == "logits")
                    sums += sums_of(samples, self.points)
        return sums


def fits_in_passes(calibrator: Calibrator, kind: str, num_classes: int) -> bool:
    """True if a calibrator is fitted to all rows by sums; an exponent only if there are several classes."""
    several = num_classes > 2 or isinstance(calibrator, TemperatureScaling)
    return calibrator.fits_in_pieces and several and kind != "multilabel"


def fit_in_passes(
    calibrator: Calibrator, table: ToFit[Item], sample: Predictions, deal: Deal, *, spread: Spread
) -> Calibrator:
    """Fit to all rows in a few passes: the search begins at the optimum of a ``sample``.

    Parameters and certificate are those of all rows; the profile is that of the sample.
    """
    form = to_repair(sample)
    if form.labels is None:
        raise InputError("`sample` must have labels.")
    checked = check_logits(form.scores, form.labels, form.weights, allow_minus_inf=True)
    data = CalibrationData.of(checked).weighted(checked.weights)
    some = next(data.problems())

    def sums(points: Sequence[Point]) -> Matrix:
        total = nothing(points)
        for each in spread(SumsOfPart(table, deal, points), table.parts):
            total += each
        return total

    solution, facts = solved(calibrator.in_passes(some), sums)
    result = replace(
        data.result([solution], calibrator.objective),
        num_samples=facts.num_samples,
        data_sha256=table.source.sha256,
    )
    calibrator.restore(
        {name: torch.tensor(value, dtype=torch.float64) for name, value in solution.parameters.items()},
        result,
        kind=checked.task,
        num_classes=checked.num_classes,
        class_names=table.class_names,
    )
    return calibrator


def _samples(piece: Piece, rows: Indices, *, logits: bool) -> Samples:
    scores = torch.from_numpy(piece.scores[rows])
    if not logits:
        scores = scores.to(torch.float64).log()
    if scores.shape[1] == 2:
        scores = scores[:, 1] - scores[:, 0]
    weights = None if piece.weights is None else torch.from_numpy(piece.weights[rows])
    checked = check_logits(scores, torch.from_numpy(piece.labels[rows]), weights, allow_minus_inf=True)
    return next(CalibrationData.of(checked).weighted(checked.weights).problems())


@dataclass(frozen=True)
class Positions:
    """Images as the parts of a table to fit on."""

    dense: DensePredictions

    @property
    def parts(self) -> Sequence[int]:
        return range(self.dense.num_images)

    @property
    def space(self) -> str:
        return self.dense.space

    @property
    def class_names(self) -> tuple[str, ...] | None:
        return self.dense.class_names

    @property
    def source(self) -> Source:
        return self.dense.source or Source(name="images", sha256="", format="dense", path=None)

    def pieces(self, part: int) -> Iterator[Piece]:
        for image in self.dense.images([part]):
            if len(image.labels):
                yield Piece(
                    first_row=0,
                    scores=np.ascontiguousarray(image.scores.T),
                    labels=image.labels,
                    truth=image.labels,
                    class_names=self.class_names,
                )
