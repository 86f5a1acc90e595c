"""The residual networks that He et al. (2016) train on CIFAR."""

from __future__ import annotations

from calibrant_lab.models._settings import Shape, blocks_of_depth
from calibrant_lab.models.resnet import ResNet


class HeResNet(ResNet):
    """ResNet-20, 32, 44, 56 or 110: three stages of 16, 32 and 64 channels, two convolutions a block.

    Where the shape changes the shortcut is a 1 × 1 convolution (option B of the paper).

    Args:
        input_shape: Channels, height and width of one image.
        num_classes: How many logits to give.
        depth: Layers with weights, but for those of shortcuts: 6 n + 2 with n blocks a stage.
        width: Channels of the first stage.

    Raises:
        InputError: If a setting is out of range or the inputs are not images.

    References:
        He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, section 4.2.

    Example:
        >>> sum(each.numel() for each in HeResNet((3, 32, 32), 10, depth=20).parameters())
        272474
    """

    def __init__(self, input_shape: Shape, num_classes: int, *, depth: int = 110, width: int = 16) -> None:
        blocks = blocks_of_depth(depth)
        super().__init__(input_shape, num_classes, blocks=(blocks,) * 3, width=width)
