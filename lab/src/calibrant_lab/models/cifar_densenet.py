"""DenseNets of Mukhoti et al. (2020) for CIFAR."""

from __future__ import annotations

import re
from collections import OrderedDict

import torch
from torch import Tensor, nn

from calibrant_lab.models.densenet import DenseLayer, DenseNet


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
