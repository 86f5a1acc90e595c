"""Residual networks for small images."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.models._settings import (
    Shape,
    blocks_of_depth,
    he_normal,
    image_shape,
    one_of,
    positive,
    positives,
)


class ResNet(nn.Module):
    """Residual network in the form used for CIFAR: a 3 × 3 stem, no pooling before the stages.

    Each stage after the first halves the image and doubles the channels; where the shape changes the shortcut
    is a 1 × 1 convolution with batch normalisation.

    The networks of the papers have names of their own: ``he-resnet``, ``cifar-resnet``,
    ``tiny-imagenet-resnet`` and ``wide-resnet``. Weights of the usual implementations
    (``layer1.0.conv1``) are loaded by their names.

    Args:
        input_shape: Channels, height and width of one image.
        num_classes: How many logits to give.
        blocks: How many blocks each stage has.
        width: Channels of the first stage.
        bottleneck: Blocks of 1 × 1, 3 × 3 and 1 × 1 convolutions with four times the channels at the end,
            instead of two 3 × 3.
        stem: Channels of the first convolution; None: as many as the first stage's ``width``.
        pool: The last maps are averaged over ``pool`` × ``pool`` cells each.

    Raises:
        InputError: If a setting is out of range or the inputs are not images.

    References:
        He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.

    Example:
        >>> import torch
        >>> ResNet((3, 32, 32), 10, blocks=(1, 1), width=4)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        input_shape: Shape,
        num_classes: int,
        *,
        blocks: Sequence[int] = (3, 3, 3),
        width: int = 16,
        bottleneck: bool = False,
        stem: int | None = None,
        pool: int = 1,
    ) -> None:
        super().__init__()
        channels, _, _ = image_shape(type(self).__name__, input_shape)
        depths, first = positives("blocks", blocks, least=1), positive("width", width)
        expansion = 4 if bottleneck else 1
        given = first if stem is None else positive("stem", stem)
        self.blocks = depths
        self.stem = nn.Sequential(*_convolution(channels, given, 3), nn.ReLU())
        stages = list[nn.Module]()
        for stage, depth in enumerate(depths):
            inner = first * 2**stage
            for position in range(depth):
                stages.append(_Block(given, inner, expansion, stride=2 if stage > 0 and position == 0 else 1))
                given = inner * expansion
        self.stages = nn.Sequential(*stages)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(positive("pool", pool)), nn.Flatten())
        self.head = nn.Linear(given * pool**2, positive("num_classes", num_classes))

    def forward(self, inputs: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N C"]:
        return self.head(self.pool(self.stages(self.stem(inputs))))

    def own_name(self, name: str) -> str:
        """Translate a parameter name of other implementations, such as ``layer2.0.conv1.weight``."""
        part, _, rest = name.partition(".")
        if found := re.fullmatch(r"layer(\d+)\.(\d+)\.(.+)", name):
            stage, position, inner = int(found[1]), int(found[2]), found[3]
            inner = re.sub(r"^conv(\d)\.", lambda each: f"body.{3 * int(each[1]) - 3}.", inner)
            inner = re.sub(r"^bn(\d)\.", lambda each: f"body.{3 * int(each[1]) - 2}.", inner)
            inner = re.sub(r"^downsample\.", "shortcut.", inner)
            return f"stages.{sum(self.blocks[: stage - 1]) + position}.{inner}"
        start = {"conv1": "stem.0", "bn1": "stem.1", "fc": "head", "linear": "head"}.get(part, part)
        return f"{start}.{rest}" if rest else start


class _Block(nn.Module):
    """Residual block: body plus shortcut, rectified; one that expands its width is a bottleneck."""

    def __init__(self, channels: int, width: int, expansion: int, *, stride: int) -> None:
        super().__init__()
        given = width * expansion
        sizes = ((channels, width, 3, stride), (width, width, 3, 1))
        if expansion > 1:
            sizes = ((channels, width, 1, 1), (width, width, 3, stride), (width, given, 1, 1))
        *body, _ = (layer for size in sizes for layer in (*_convolution(*size), nn.ReLU()))
        self.body = nn.Sequential(*body)
        same = stride == 1 and channels == given
        self.shortcut = nn.Sequential(*(() if same else _convolution(channels, given, 1, stride)))
        self.relu = nn.ReLU()

    def forward(self, features: Tensor) -> Tensor:
        return self.relu(self.body(features) + self.shortcut(features))


def _convolution(channels: int, width: int, size: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    """Return a convolution without bias, and batch normalisation."""
    convolution = nn.Conv2d(channels, width, size, stride=stride, padding=size // 2, bias=False)
    return convolution, nn.BatchNorm2d(width)


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
