"""Residual networks for small images."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant_lab.models._settings import Shape, image_shape, positive, positives


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
