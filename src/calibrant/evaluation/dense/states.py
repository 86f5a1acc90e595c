"""Sums over the positions of each image: some kilobytes per image, whatever its size."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.dense_sums import (
    ANSWER,
    CELL_SUMS,
    CLASSES,
    EVENT,
    add_positions,
)
from calibrant._math.errors import InputError
from calibrant._math.threads import one_thread
from calibrant.calibrators import Calibrator
from calibrant.evaluation.dense.reduce import Sums, edges_of_cells, num_cells
from calibrant.evaluation.resampling.events import Indices, Matrix, Vector
from calibrant.evaluation.spread import Spread, here
from calibrant.predictions import DensePredictions
from calibrant.predictions.checks import Kind
from calibrant.predictions.dense import Image
from calibrant.predictions.partitioned import columns_of_odds

POSITIONS = 1 << 15  # of a block
GROUP_SUMS = 4
NOT_READ: tuple[Matrix, Matrix] = np.empty((0, 0)), np.empty((0, 2))
NO_GROUPS: tuple[Indices, Matrix] = np.empty(0, np.int64), np.empty((0, 0, 0, 2, GROUP_SUMS))


@dataclass(kw_only=True)
class ImageSums(Sums):
    """Sums of the images of one arm.

    For each image: the filled cells ``(n, 8)``, by confidence and whether the prediction is right (of an
    event: whether it occurs), and residuals and counts in the bins of all classes ``(C, B)``.
    """

    kind: Kind = field(init=False)
    names: list[str] = field(default_factory=list[str])
    labels: list[int] = field(default_factory=list[int])
    """Checksums of the labels of each image."""
    _cells: list[Matrix] = field(default_factory=list[Matrix])
    _places: list[Indices] = field(default_factory=list[Indices])
    _masses: list[Matrix] = field(default_factory=list[Matrix])
    _residuals: list[Matrix] = field(default_factory=list[Matrix])
    _confidences: Matrix = field(init=False)
    _outcomes: Matrix = field(init=False)

    unit: ClassVar[str] = "positions"
    no_ranks: ClassVar[str] = "not computed for images read one by one: it needs all positions in order"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.kind = "binary" if self.event else "multiclass"
        shape = (self.num_classes, self.num_bins)
        self._confidences, self._outcomes = np.zeros(shape), np.zeros(shape)

    @property
    def fingerprint(self) -> tuple[object, object]:
        return tuple(zip(self.names, self.labels, strict=True)), None

    @property
    def num_clusters(self) -> int:
        return len(self.names)

    def add(self, image: Image, *, logits: bool, calibrator: Calibrator | None) -> None:
        cells = np.zeros((1, num_cells(self.num_bins), 2, CELL_SUMS))
        classes = np.zeros((1, self.num_classes, self.num_bins, 3))
        one = np.zeros(POSITIONS, np.int64)  # the image is a batch
        for start in range(0, len(image.labels), POSITIONS):
            part = slice(start, start + POSITIONS)
            wrong = add_scores(
                image.scores[:, part].T,
                image.labels[part],
                one,
                (cells, classes, self.agreement),
                logits=logits,
                calibrator=calibrator,
            )
            if wrong is not None:
                kind = "finite numbers" if logits else "probabilities"
                raise InputError(
                    f"scores must be {kind}; image {image.name!r} holds {wrong.values} at a position."
                )
        filled = np.flatnonzero(cells[:, :, :, 0].ravel())
        self.names.append(image.name)
        self.labels.append(zlib.crc32(np.ascontiguousarray(image.labels).data))
        self._cells.append(cells.reshape(-1, CELL_SUMS)[filled])
        self._places.append(filled)
        self._masses.append(classes[0, :, :, 0])
        self._residuals.append(classes[0, :, :, 2] - classes[0, :, :, 1])
        self._confidences += classes[0, :, :, 1]
        self._outcomes += classes[0, :, :, 2]

    def merge(self, other: ImageSums) -> None:
        self.agreement += other.agreement
        self.names += other.names
        self.labels += other.labels
        self._cells += other._cells
        self._places += other._places
        self._masses += other._masses
        self._residuals += other._residuals
        self._confidences += other._confidences
        self._outcomes += other._outcomes

    @property
    def confidences(self) -> Matrix:
        return self._confidences

    @property
    def outcomes(self) -> Matrix:
        return self._outcomes

    def rows(self) -> tuple[Indices, Indices, Matrix]:
        images = np.repeat(np.arange(len(self._cells)), [len(each) for each in self._cells])
        return images, np.concatenate(self._places) % 2, np.concatenate(self._cells)

    def cells(self) -> Indices:
        return np.concatenate(self._places) // 2

    def of_classes(self) -> tuple[Matrix, Matrix]:
        return np.stack(self._residuals), np.stack(self._masses)


class Wrong(NamedTuple):
    """A position with scores that cannot be added."""

    position: int
    values: str


def add_scores(
    scores: NDArray[Any],
    labels: Indices,
    batches: Indices,
    sums: tuple[Matrix, Matrix, Matrix],
    *,
    logits: bool,
    calibrator: Calibrator | None,
    weights: Vector | None = None,
    groups: tuple[Indices, Matrix] = NO_GROUPS,
    answers: bool = False,
    read: tuple[Matrix, Matrix] = NOT_READ,
) -> Wrong | None:
    """Add scores ``(P, C)``, as they are or after a calibrator, to the sums of `add_positions`.

    Of ``answers`` the classes are that they are wrong and right. ``read`` is filled with the probabilities
    and events of these scores where it has room for them.
    """
    cells, classes, agreement = sums
    _, num_classes, num_bins, _ = classes.shape
    scores = np.ascontiguousarray(scores, dtype=np.float64)
    if calibrator is not None:
        scores = _calibrated(scores, calibrator, logits=logits)
    wrong = add_positions(
        scores,
        labels,
        logits or calibrator is not None,
        ANSWER if answers else EVENT if num_classes == 2 else CLASSES,
        edges_of_cells(num_bins),
        np.arange(num_bins + 1) / num_bins,
        batches,
        np.ones(len(labels)) if weights is None else weights,
        groups[0],
        cells,
        classes,
        agreement,
        groups[1],
        read[0] if len(read[0]) else np.empty((1, num_classes)),
        read[1],
    )
    return None if wrong < 0 else Wrong(wrong, ", ".join(f"{value:g}" for value in scores[wrong][:5]))


def _calibrated(scores: Matrix, calibrator: Calibrator, *, logits: bool) -> Matrix:
    """Log-probabilities ``(P, C)``, or logits of two classes."""
    given = torch.from_numpy(scores)
    if not logits:
        given = given.log()
    with torch.no_grad():
        if calibrator.kind_ == "binary":
            return columns_of_odds(calibrator(given[:, 1] - given[:, 0])).numpy()
        return calibrator(given).numpy()


@dataclass(frozen=True)
class SumImage:
    """Sums up an image: every arm, which reads it once."""

    dense: DensePredictions
    num_bins: int
    calibrators: tuple[Calibrator | None, ...]

    def nothing(self) -> tuple[ImageSums, ...]:
        return tuple(
            ImageSums(num_classes=self.dense.num_classes, num_bins=self.num_bins) for _ in self.calibrators
        )

    def __call__(self, place: int) -> tuple[ImageSums, ...]:
        arms = self.nothing()
        with one_thread():
            for image in self.dense.images([place]):
                if len(image.labels):
                    for each, calibrator in zip(arms, self.calibrators, strict=True):
                        each.add(image, logits=self.dense.space == "logits", calibrator=calibrator)
        return arms


def summed_images(
    dense: DensePredictions,
    places: Sequence[int],
    num_bins: int,
    calibrators: tuple[Calibrator | None, ...],
    *,
    spread: Spread = here,
    tell: Callable[[float], None] = lambda _: None,
) -> tuple[ImageSums, ...]:
    """The sums of some images, added in their order."""
    task = SumImage(dense, num_bins, calibrators)
    arms = task.nothing()
    for done, found in enumerate(spread(task, places), start=1):
        for one, other in zip(arms, found, strict=True):
            one.merge(other)
        tell(done / len(places))
    return arms
