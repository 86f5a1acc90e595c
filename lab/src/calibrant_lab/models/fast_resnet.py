"""The small network that learns CIFAR-10 in seconds on a GPU."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.models._settings import Shape, image_shape, positive, positives

_STEM = 24


class FastResNet(nn.Module):
    """A 2 × 2 convolution, groups of two 3 × 3 convolutions, max-pooling and one linear layer.

    Each group halves the image after its first convolution. These are the layers of the "airbench94" network
    of Jordan (2024), 1.97 million parameters for CIFAR-10, which in turn comes from short ResNets without
    their shortcuts. Initial weights are torch's: there is no whitening and no scaled output.

    Args:
        input_shape: Channels, height and width of one image, for three groups at least 9 × 9 pixels.
        num_classes: How many logits to give.
        widths: Channels of each group.

    Raises:
        InputError: If a setting is out of range or the inputs are not such images.

    References:
        Jordan, "94% on CIFAR-10 in 3.29 Seconds on a Single GPU", arXiv 2404.00498, 2024.

    Example:
        >>> sum(each.numel() for each in FastResNet((3, 32, 32), 10).parameters())
        1972802
    """

    def __init__(
        self, input_shape: Shape, num_classes: int, *, widths: Sequence[int] = (64, 256, 256)
    ) -> None:
        super().__init__()
        groups = positives("widths", widths, least=1)
        channels, _, _ = image_shape("fast-resnet", input_shape, least=2 ** len(groups) + 1)
        layers = list[nn.Module]([nn.Conv2d(channels, _STEM, 2), nn.GELU()])
        given = _STEM
        for width in groups:
            layers += _group(given, width)
            given = width
        self.features = nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten())
        self.head = nn.Linear(given, positive("num_classes", num_classes))

    def forward(self, inputs: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N C"]:
        return self.head(self.features(inputs))


def _group(channels: int, width: int) -> tuple[nn.Module, ...]:
    """Build a group of convolutions that halves the image after the first one."""
    return (
        nn.Conv2d(channels, width, 3, padding=1, bias=False),
        nn.MaxPool2d(2),
        nn.BatchNorm2d(width),
        nn.GELU(),
        nn.Conv2d(width, width, 3, padding=1, bias=False),
        nn.BatchNorm2d(width),
        nn.GELU(),
    )
