"""Residual networks of Mukhoti et al. (2020) for Tiny-ImageNet."""

from __future__ import annotations

from calibrant_lab.models._settings import Shape, he_normal, one_of
from calibrant_lab.models.cifar_resnet import FORMS
from calibrant_lab.models.resnet import ResNet


class TinyImageNetResNet(ResNet):
    """Like ``cifar-resnet``, but the last maps are averaged to 2 × 2 cells for the linear layer.

    The convolutions are initialised from He's normal distribution (fan-out), as in the authors' code.

    Args:
        input_shape: Channels, height and width of one image.
        num_classes: How many logits to give.
        depth: 18, 34, 50, 101, 110 or 152.
        width: Channels of the first stage.

    Raises:
        InputError: If a setting is out of range or the inputs are not images.

    References:
        Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020.

    Example:
        >>> TinyImageNetResNet((3, 64, 64), 200, depth=18, width=4).head
        Linear(in_features=128, out_features=200, bias=True)
    """

    def __init__(self, input_shape: Shape, num_classes: int, *, depth: int = 50, width: int = 64) -> None:
        blocks, bottleneck = one_of("depth", depth, FORMS)
        super().__init__(input_shape, num_classes, blocks=blocks, width=width, bottleneck=bottleneck, pool=2)
        he_normal(self, mode="fan_out")
