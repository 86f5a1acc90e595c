"""What a network sees of the images that it is asked about."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.data import Geometry, Preparation
from calibrant_lab.data.prepare import to_unit
from calibrant_lab.training.views import averaged, middle, ten_crops


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A network with the way that its images go."""

    network: nn.Module
    geometry: Geometry
    preparation: Preparation
    channels: int
    side: int = 0
    """Side of the squares that are cut out; 0: the whole image."""
    ten: bool = False
    """Whether the probabilities of ten squares are averaged, or only the middle one is seen."""
    multilabel: bool = False

    def logits(self, images: Float[Tensor, "N C H W"]) -> Float[Tensor, "N K"]:
        """What the network says of images of one size, as bytes."""
        prepared = self.preparation(to_unit(images))
        with torch.no_grad():
            if not self.ten:
                return self._said(middle(prepared, self.side))
            views = [self._said(view) for view in ten_crops(prepared, self.side)]
        return averaged(views, multilabel=self.multilabel)

    def middle_of(self, image: Float[Tensor, "C H W"]) -> tuple[Tensor, Tensor]:
        """The middle view of an image of bytes: as it looks, and as the network is given it."""
        unit = middle(to_unit(image[None]), self.side)
        return unit[0], self.preparation(unit)

    def _said(self, view: Tensor) -> Tensor:
        given = self.network(view)
        found: Tensor = given if isinstance(given, Tensor) else given.logits
        return found[:, None] if found.ndim == 1 else found
