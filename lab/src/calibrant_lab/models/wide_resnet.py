"""Wide residual networks."""

from __future__ import annotations

from calibrant_lab.models._settings import Shape, blocks_of_depth, he_normal, positive
from calibrant_lab.models.resnet import ResNet


class WideResNet(ResNet):
    """Three stages with ``width`` times 16, 32 and 64 channels after a stem of 16, two convolutions a block.

    This is the network of the code of Mukhoti et al. (2020): batch normalisation and ReLU follow each
    convolution, while Zagoruyko and Komodakis put them before. The convolutions are initialised from He's
    normal distribution (fan-out).

    Args:
        input_shape: Channels, height and width of one image.
        num_classes: How many logits to give.
        depth: Layers with weights, but for those of shortcuts: 6 n + 2 with n blocks a stage.
        width: How many times as many channels as in He et al.'s networks.

    Raises:
        InputError: If a setting is out of range or the inputs are not images.

    References:
        Zagoruyko and Komodakis, "Wide Residual Networks", BMVC 2016; Mukhoti et al., "Calibrating Deep Neural
        Networks using Focal Loss", NeurIPS 2020.

    Example:
        >>> sum(each.numel() for each in WideResNet((3, 32, 32), 10, depth=8, width=1).parameters())
        78042
    """

    def __init__(self, input_shape: Shape, num_classes: int, *, depth: int = 26, width: int = 10) -> None:
        blocks, channels = blocks_of_depth(depth), 16 * positive("width", width)
        super().__init__(input_shape, num_classes, blocks=(blocks,) * 3, width=channels, stem=16)
        he_normal(self, mode="fan_out")
