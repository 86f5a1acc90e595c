"""Small networks, for features and images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.models._settings import Shape, image_shape, one_of, positive, positives, share


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
