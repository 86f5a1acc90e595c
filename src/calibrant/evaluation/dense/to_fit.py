"""All positions of images as rows to fit on, image by image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from calibrant.predictions import DensePredictions, Source
from calibrant.predictions.pieces import Piece


@dataclass(frozen=True)
class Positions:
    """Images as the parts of a table to fit on."""

    dense: DensePredictions

    @property
    def parts(self) -> Sequence[int]:
        """The images."""
        return range(self.dense.num_images)

    @property
    def space(self) -> str:
        """Which numbers are given."""
        return self.dense.space

    @property
    def class_names(self) -> tuple[str, ...] | None:
        """One name per class."""
        return self.dense.class_names

    @property
    def source(self) -> Source:
        """Source of the images."""
        return self.dense.source or Source(name="images", sha256="", format="dense", path=None)

    def pieces(self, part: int) -> Iterator[Piece]:
        """The positions of an image that count."""
        for image in self.dense.images([part]):
            if len(image.labels):
                yield Piece(
                    first_row=0,
                    scores=np.ascontiguousarray(image.scores.T),
                    labels=image.labels,
                    truth=image.labels,
                    class_names=self.class_names,
                )
