"""DenseNets for images of ImageNet's size."""

from __future__ import annotations

import re
from collections import OrderedDict

import torch
from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.models._settings import Shape, he_normal, image_shape, one_of, positive

_BLOCKS = {121: (6, 12, 24, 16), 169: (6, 12, 32, 32), 201: (6, 12, 48, 32)}


class DenseLayer(nn.Module):
    """A 1 × 1 and a 3 × 3 convolution, each after batch normalisation and ReLU, add channels to the input."""

    def __init__(self, given: int, growth: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(given)
        self.conv1 = nn.Conv2d(given, 4 * growth, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(4 * growth)
        self.conv2 = nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
        self.relu = nn.ReLU()

    def added(self, features: Tensor) -> Tensor:
        inner = self.conv1(self.relu(self.norm1(features)))
        return self.conv2(self.relu(self.norm2(inner)))

    def forward(self, features: Tensor) -> Tensor:
        return torch.cat([features, self.added(features)], dim=1)


class DenseNet(nn.Module):
    """DenseNet-121, 169 or 201 (DenseNet-BC) in the form for ImageNet: a 7 × 7 stem and max-pooling.

    Parameters have torchvision's names, and :func:`calibrant_lab.models.load_weights` also knows the older
    ones of its files (``denselayer1.norm.1``). Initial weights are drawn as torchvision draws them. For
    images of 32 × 32 pixels there is ``cifar-densenet``.

    Args:
        input_shape: Channels, height and width of one image.
        num_classes: How many logits to give.
        depth: 121, 169 or 201.
        growth: Channels that each layer adds.

    Raises:
        InputError: If a setting is out of range or the inputs are not images of 29 × 29 pixels or more.

    References:
        Huang et al., "Densely Connected Convolutional Networks", CVPR 2017.

    Example:
        >>> import torch
        >>> with torch.device("meta"):
        ...     network = DenseNet((3, 224, 224), 14)  # that of CheXNet
        >>> sum(each.numel() for each in network.parameters())
        6968206
    """

    _smallest = 29  # pixels: the last maps still have one cell
    _layer: type[DenseLayer] = DenseLayer

    def __init__(self, input_shape: Shape, num_classes: int, *, depth: int = 121, growth: int = 32) -> None:
        super().__init__()
        channels, _, _ = image_shape(type(self).__name__, input_shape, least=self._smallest)
        given = 2 * positive("growth", growth)
        layers = self._stem(channels, given)
        blocks = one_of("depth", depth, _BLOCKS)
        for number, count in enumerate(blocks, start=1):
            layers[f"denseblock{number}"] = nn.Sequential(
                OrderedDict(
                    (f"denselayer{position + 1}", self._layer(given + position * growth, growth))
                    for position in range(count)
                )
            )
            given += count * growth
            if number < len(blocks):
                layers[f"transition{number}"] = _transition(given)
                given //= 2
        layers["norm5"] = nn.BatchNorm2d(given)
        self.features = nn.Sequential(layers)
        self.pool = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.classifier = nn.Linear(given, positive("num_classes", num_classes))
        self._initialise()

    def forward(self, inputs: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N C"]:
        return self.classifier(self.pool(self.features(inputs)))

    def own_name(self, name: str) -> str:
        """Translate a parameter name of old files, such as ``denselayer1.norm.1.weight``."""
        return re.sub(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)", r"\1\2", name)

    def _stem(self, channels: int, given: int) -> OrderedDict[str, nn.Module]:
        return OrderedDict(
            conv0=nn.Conv2d(channels, given, 7, stride=2, padding=3, bias=False),
            norm0=nn.BatchNorm2d(given),
            relu0=nn.ReLU(),
            pool0=nn.MaxPool2d(3, stride=2, padding=1),
        )

    def _initialise(self) -> None:
        he_normal(self, mode="fan_in")
        nn.init.zeros_(self.classifier.bias)


def _transition(given: int) -> nn.Sequential:
    """Halve the channels and the map size."""
    return nn.Sequential(
        OrderedDict(
            norm=nn.BatchNorm2d(given),
            relu=nn.ReLU(),
            conv=nn.Conv2d(given, given // 2, 1, bias=False),
            pool=nn.AvgPool2d(2),
        )
    )
