"""DenseNets for images of ImageNet's size, and for CIFAR."""

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
        return torchvision_name(name)

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


def torchvision_name(name: str) -> str:
    """Translate a parameter name of old files, and of wrappers such as CheXNet's.

    Example:
        >>> torchvision_name("module.densenet121.features.denseblock1.denselayer1.norm.1.weight")
        'features.denseblock1.denselayer1.norm1.weight'
        >>> torchvision_name("module.densenet121.classifier.0.bias")
        'classifier.bias'
    """
    name = re.sub(r"^(?:module\.|model\.|densenet121\.)+", "", name)
    name = re.sub(r"(denselayer\d+\.(?:norm|conv))\.([12]\.)", r"\1\2", name)
    return re.sub(r"^classifier\.0\.", "classifier.", name)


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


class _NewFirst(DenseLayer):
    def forward(self, features: Tensor) -> Tensor:
        return torch.cat([self.added(features), features], dim=1)


class CIFARDenseNet(DenseNet):
    """DenseNet-121, 169 or 201 with a 3 × 3 stem and no pooling before the first block.

    Initial weights are torch's, and a layer puts its new channels before those it was given, as in the
    authors' code, whose weights (``dense1.0.conv1``) are loaded by their names.

    Args:
        input_shape: Channels, height and width of one image.
        num_classes: How many logits to give.
        depth: 121, 169 or 201.
        growth: Channels that each layer adds.

    Raises:
        InputError: If a setting is out of range or the inputs are not images of 8 × 8 pixels or more.

    References:
        Huang et al., "Densely Connected Convolutional Networks", CVPR 2017; Mukhoti et al., "Calibrating Deep
        Neural Networks using Focal Loss", NeurIPS 2020.

    Example:
        >>> import torch
        >>> with torch.device("meta"):
        ...     network = CIFARDenseNet((3, 32, 32), 10)
        >>> sum(each.numel() for each in network.parameters())
        6956298
    """

    _smallest, _layer = 8, _NewFirst

    def own_name(self, name: str) -> str:
        """Translate a parameter name of the authors' code, such as ``dense1.0.conv1.weight``."""
        if found := re.fullmatch(r"dense(\d+)\.(\d+)\.(.+)", name):
            block, layer, inner = int(found[1]), int(found[2]) + 1, found[3].replace("bn", "norm")
            return super().own_name(f"features.denseblock{block}.denselayer{layer}.{inner}")
        if found := re.fullmatch(r"trans(\d+)\.(.+)", name):
            return f"features.transition{found[1]}.{found[2].replace('bn', 'norm')}"
        part, _, rest = name.partition(".")
        start = {"conv1": "features.conv0", "bn": "features.norm5", "linear": "classifier"}.get(part)
        return f"{start}.{rest}" if start else super().own_name(name)

    def _stem(self, channels: int, given: int) -> OrderedDict[str, nn.Module]:
        return OrderedDict(conv0=nn.Conv2d(channels, given, 3, padding=1, bias=False))

    def _initialise(self) -> None:
        """Keep torch's initial weights."""
