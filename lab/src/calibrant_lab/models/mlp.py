"""A multilayer perceptron."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.models._settings import Shape, positive, positives, share


class MLP(nn.Module):
    """Linear layers with ReLU between them; images are flattened.

    Args:
        input_shape: Shape of one sample.
        num_classes: How many logits to give.
        widths: Widths of the hidden layers; with none it is logistic regression.
        dropout: Share of hidden units left out in training.

    Raises:
        InputError: If a setting is out of range.

    Example:
        >>> import torch
        >>> MLP((1, 8, 8), 10, widths=(32,))(torch.zeros(5, 1, 8, 8)).shape
        torch.Size([5, 10])
    """

    def __init__(
        self,
        input_shape: Shape,
        num_classes: int,
        *,
        widths: Sequence[int] = (128, 128),
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        sizes = (math.prod(input_shape), *positives("widths", widths))
        rate = share("dropout", dropout)
        layers: list[nn.Module] = [nn.Flatten()]
        for size, following in pairwise(sizes):
            layers += [nn.Linear(size, following), nn.ReLU()]
            if rate:
                layers.append(nn.Dropout(rate))
        self.layers = nn.Sequential(*layers, nn.Linear(sizes[-1], positive("num_classes", num_classes)))

    def forward(self, inputs: Float[Tensor, "N ..."]) -> Float[Tensor, "N C"]:
        return self.layers(inputs)
