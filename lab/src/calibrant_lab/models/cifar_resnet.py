"""Residual networks of Mukhoti et al. (2020) for CIFAR."""

from __future__ import annotations

from calibrant_lab.models._settings import Shape, one_of
from calibrant_lab.models.resnet import ResNet

FORMS: dict[int, tuple[tuple[int, ...], bool]] = {
    18: ((2, 2, 2, 2), False),
    34: ((3, 4, 6, 3), False),
    50: ((3, 4, 6, 3), True),
    101: ((3, 4, 23, 3), True),
    110: ((3, 4, 26, 3), True),
    152: ((3, 8, 36, 3), True),
}
"""Blocks of each stage and whether they are bottlenecks, by the layers with weights but for shortcuts."""


class CIFARResNet(ResNet):
    """ResNet-18, 34, 50, 101, 110 or 152 with a 3 × 3 stem and no pooling before the four stages.

    The ``depth`` of 110 is that of the code of Mukhoti et al. (2020): bottlenecks, 45.9 million parameters.
    He et al.'s own ResNet-110 for CIFAR has 1.7 million; it is ``he-resnet(depth=110)``. Initial weights are
    torch's, as in that code.

    Args:
        input_shape: Channels, height and width of one image.
        num_classes: How many logits to give.
        depth: 18, 34, 50, 101, 110 or 152.
        width: Channels of the first stage.

    Raises:
        InputError: If a setting is out of range or the inputs are not images.

    References:
        He et al., "Deep Residual Learning for Image Recognition", CVPR 2016; Mukhoti et al., "Calibrating
        Deep Neural Networks using Focal Loss", NeurIPS 2020.

    Example:
        >>> sum(each.numel() for each in CIFARResNet((3, 32, 32), 10, depth=18, width=4).parameters())
        44622
    """

    def __init__(self, input_shape: Shape, num_classes: int, *, depth: int = 50, width: int = 64) -> None:
        blocks, bottleneck = one_of("depth", depth, FORMS)
        super().__init__(input_shape, num_classes, blocks=blocks, width=width, bottleneck=bottleneck)
