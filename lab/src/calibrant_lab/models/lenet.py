"""LeNet-5."""

from __future__ import annotations

import math
from typing import Literal

from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.models._settings import Shape, image_shape, one_of, positive

_ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU}


class LeNet(nn.Module):
    """LeNet-5: two 5 × 5 convolutions, each before average pooling, and three linear layers.

    Unlike in the paper, every map of the second convolution sees every map before it, pooling has no weights,
    and the last layer is linear. Images of less than 32 × 32 pixels get a border of two, as there.

    Args:
        input_shape: Channels, height and width of one image.
        num_classes: How many logits to give.
        activation: ``tanh``, as in the paper, or ``relu``.

    Raises:
        InputError: If a setting is out of range or the inputs are not images of 12 × 12 pixels or more.

    References:
        LeCun et al., "Gradient-Based Learning Applied to Document Recognition", Proc. IEEE 1998.

    Example:
        >>> sum(each.numel() for each in LeNet((1, 28, 28), 10).parameters())
        61706
    """

    def __init__(
        self, input_shape: Shape, num_classes: int, *, activation: Literal["tanh", "relu"] = "tanh"
    ) -> None:
        super().__init__()
        channels, rows, columns = image_shape("lenet", input_shape, least=12)
        rectify = one_of("activation", activation, _ACTIVATIONS)
        border = 2 if min(rows, columns) < 32 else 0
        sides = [(((side + 2 * border - 4) // 2) - 4) // 2 for side in (rows, columns)]
        self.features = nn.Sequential(
            nn.Conv2d(channels, 6, 5, padding=border),
            rectify(),
            nn.AvgPool2d(2),
            nn.Conv2d(6, 16, 5),
            rectify(),
            nn.AvgPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Sequential(
            nn.Linear(16 * math.prod(sides), 120),
            rectify(),
            nn.Linear(120, 84),
            rectify(),
            nn.Linear(84, positive("num_classes", num_classes)),
        )

    def forward(self, inputs: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N C"]:
        return self.head(self.features(inputs))
