"""What the network sees of an image: the whole, a square cut out of it, or ten squares in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant_lab.data import Dataset
from calibrant_lab.training.recipe import Recipe


def network_shape(recipe: Recipe, dataset: Dataset) -> tuple[int, ...]:
    """Shape of what the network sees of one sample."""
    shape, side = dataset.input_shape, recipe.data.crop
    if not side:
        return shape
    if len(shape) != 3 or side > min(shape[1:]):
        raise InputError(
            f"`data.crop` must be 0 or at most the sides of the images; got {side} for samples of shape "
            f"{shape}."
        )
    return (shape[0], side, side)


def middle(images: Float[Tensor, "N C H W"], side: int) -> Float[Tensor, "N C h w"]:
    """The square in the middle; all where ``side`` is 0."""
    if not side:
        return images
    top, left = (round((total - side) / 2) for total in images.shape[2:])
    return images[:, :, top : top + side, left : left + side]


def ten_crops(images: Float[Tensor, "N C H W"], side: int) -> Iterator[Float[Tensor, "N C h w"]]:
    """The four corners and the middle, then the mirror images of these.

    Example:
        >>> image = torch.arange(9.0).reshape(1, 1, 3, 3)
        >>> [int(view[0, 0, 0, 0]) for view in ten_crops(image, 1)]
        [0, 2, 6, 8, 4, 0, 2, 6, 8, 4]
    """
    for mirrored in (False, True):
        for vertical, horizontal in (
            (slice(None, side), slice(None, side)),
            (slice(None, side), slice(-side, None)),
            (slice(-side, None), slice(None, side)),
            (slice(-side, None), slice(-side, None)),
        ):
            view = images[:, :, vertical, horizontal]
            yield view.flip(3) if mirrored else view
        view = middle(images, side)
        yield view.flip(3) if mirrored else view


def averaged(views: Sequence[Float[Tensor, "N C"]], *, multilabel: bool) -> Float[Tensor, "N C"]:
    """Logits of the mean of the probabilities: log-odds of labels, log-probabilities of classes.

    They are computed from logarithms in float64, so that probabilities next to 0 and 1 keep their digits.

    Example:
        >>> views = [torch.tensor([[0.0, 2.0]]), torch.tensor([[0.0, -2.0]])]
        >>> averaged(views, multilabel=True).sigmoid()
        tensor([[0.5000, 0.5000]])
    """
    stacked = torch.stack([each.double() for each in views])
    if multilabel:
        made = _log_mean(logsigmoid(stacked)) - _log_mean(logsigmoid(-stacked))
    else:
        made = _log_mean(stacked.log_softmax(dim=2))
    return made.to(views[0].dtype)


class AsJudged(nn.Module):
    """A trained network with the views of its recipe's evaluation: whole images in, logits out.

    Views come one after the other, each in a batch of its own, so that memory does not grow with them.
    """

    def __init__(self, network: Callable[[Tensor], Tensor], recipe: Recipe, *, multilabel: bool) -> None:
        super().__init__()
        self.network = network
        self._side, self._views, self._multilabel = recipe.data.crop, recipe.evaluation.views, multilabel

    def forward(self, images: Tensor) -> Float[Tensor, "N C"]:
        if self._views == "one":
            return self.network(middle(images, self._side))
        views = [self.network(view) for view in ten_crops(images, self._side)]
        return averaged(views, multilabel=self._multilabel)


def _log_mean(logarithms: Float[Tensor, "V N C"]) -> Float[Tensor, "N C"]:
    return logarithms.logsumexp(dim=0) - math.log(len(logarithms))
