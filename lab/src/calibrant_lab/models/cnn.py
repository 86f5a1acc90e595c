"""A small convolutional network."""

from __future__ import annotations

from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.models._settings import Shape, image_shape, positive, share


class CNN(nn.Module):
    """Two pairs of 3 × 3 convolutions with ReLU, each followed by max-pooling, and one hidden linear layer.

    It has no batch normalisation, so a sample's logits never depend on the others in its batch.

    Args:
        input_shape: Channels, height and width of one image, at least 4 × 4 pixels.
        num_classes: How many logits to give.
        width: Channels of the first pair; the second has twice this number.
        hidden: Width of the linear layer.
        dropout: Share of the units left out before each linear layer in training.

    Raises:
        InputError: If a setting is out of range or the inputs are no such images.

    Example:
        >>> import torch
        >>> CNN((1, 28, 28), 10, width=4)(torch.zeros(5, 1, 28, 28)).shape
        torch.Size([5, 10])
    """

    def __init__(
        self,
        input_shape: Shape,
        num_classes: int,
        *,
        width: int = 32,
        hidden: int = 128,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        channels, rows, columns = image_shape("cnn", input_shape, least=4)
        first, rate = positive("width", width), share("dropout", dropout)
        second = 2 * first
        self.features = nn.Sequential(*_pair(channels, first), *_pair(first, second), nn.Flatten())
        self.head = nn.Sequential(
            nn.Dropout(rate),
            nn.Linear(second * (rows // 4) * (columns // 4), positive("hidden", hidden)),
            nn.ReLU(),
            nn.Dropout(rate),
            nn.Linear(hidden, positive("num_classes", num_classes)),
        )

    def forward(self, inputs: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N C"]:
        return self.head(self.features(inputs))


def _pair(channels: int, width: int) -> tuple[nn.Module, ...]:
    return (
        nn.Conv2d(channels, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
    )
