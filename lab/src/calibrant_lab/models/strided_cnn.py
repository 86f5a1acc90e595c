"""A small network without pooling, for loss studies: fast on one core."""

from __future__ import annotations

from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.models._settings import Shape, image_shape


class StridedCNN(nn.Module):
    """Two convolutions of stride 2 (5 × 5, then 3 × 3 with twice the channels) and one hidden linear layer.

    Neither pooling, batch normalisation nor dropout: nothing but the loss, weight decay and the end of
    training keeps it from learning its training samples by heart.

    Args:
        input_shape: Channels, height and width of one image.
        num_classes: How many logits to give.
        width: Channels of the first convolution.
        hidden: Width of the linear layer.

    Raises:
        InputError: If the inputs are no images.

    Example:
        >>> import torch
        >>> StridedCNN((1, 28, 28), 10, width=4)(torch.zeros(5, 1, 28, 28)).shape
        torch.Size([5, 10])
    """

    def __init__(self, input_shape: Shape, num_classes: int, *, width: int = 8, hidden: int = 128) -> None:
        super().__init__()
        channels, height, breadth = image_shape("strided-cnn", input_shape)
        self.features = nn.Sequential(
            nn.Conv2d(channels, width, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Flatten(),
        )
        size = 2 * width * ((height + 3) // 4) * ((breadth + 3) // 4)
        self.head = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, num_classes))

    def forward(self, inputs: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N C"]:
        return self.head(self.features(inputs))
