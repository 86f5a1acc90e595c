"""Residual networks for small images."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from calibrant._math.shapes import Float
from calibrant.models._settings import image_shape, positive, positives


class ResNet(nn.Module):
    """Residual network in the form used for CIFAR: a 3 × 3 stem, no pooling before the stages.

    Each stage after the first halves the image and doubles the channels; where the shape changes the shortcut
    is a 1 × 1 convolution with batch normalisation.

    ===================================================  ==================================
    ``blocks=(3, 3, 3), width=16`` (default)             ResNet-20 of He et al.
    ``blocks=(18, 18, 18), width=16``                    ResNet-110 of He et al.
    ``blocks=(2, 2, 2, 2), width=64``                    ResNet-18
    ``blocks=(3, 4, 6, 3), width=64, bottleneck=True``   ResNet-50
    ``blocks=(3, 4, 26, 3), width=64, bottleneck=True``  "ResNet-110" of Mukhoti et al.
    ===================================================  ==================================

    Args:
        input_shape: Channels, height and width of one image.
        num_classes: How many logits to give.
        blocks: How many blocks each stage has.
        width: Channels of the first stage.
        bottleneck: Blocks of 1 × 1, 3 × 3 and 1 × 1 convolutions with four times the channels at the end,
            instead of two 3 × 3.

    Raises:
        InputError: If a setting is out of range or the inputs are no images.

    References:
        He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.

    Example:
        >>> import torch
        >>> ResNet((3, 32, 32), 10, blocks=(1, 1), width=4)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        input_shape: tuple[int, ...],
        num_classes: int,
        *,
        blocks: Sequence[int] = (3, 3, 3),
        width: int = 16,
        bottleneck: bool = False,
    ) -> None:
        super().__init__()
        channels, _, _ = image_shape("resnet", input_shape)
        depths, first = positives("blocks", blocks, least=1), positive("width", width)
        block = _Bottleneck if bottleneck else _Basic
        self.stem = nn.Sequential(*_convolution(channels, first, 3), nn.ReLU())
        given, stages = first, list[nn.Module]()
        for stage, depth in enumerate(depths):
            inner = first * 2**stage
            for position in range(depth):
                stages.append(block(given, inner, stride=2 if stage > 0 and position == 0 else 1))
                given = inner * block.expansion
        self.stages = nn.Sequential(*stages)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(given, positive("num_classes", num_classes))

    def forward(self, inputs: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N C"]:
        """Logits."""
        return self.head(self.pool(self.stages(self.stem(inputs))))


class _Block(nn.Module):
    """A body and a shortcut, added and rectified."""

    expansion = 1

    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(*self._body(channels, width, stride))
        given = width * self.expansion
        same = stride == 1 and channels == given
        self.shortcut = nn.Sequential(*(() if same else _convolution(channels, given, 1, stride)))
        self.relu = nn.ReLU()

    def _body(self, channels: int, width: int, stride: int) -> tuple[nn.Module, ...]:
        raise NotImplementedError

    def forward(self, features: Tensor) -> Tensor:
        return self.relu(self.body(features) + self.shortcut(features))


class _Basic(_Block):
    def _body(self, channels: int, width: int, stride: int) -> tuple[nn.Module, ...]:
        return (*_convolution(channels, width, 3, stride), nn.ReLU(), *_convolution(width, width, 3))


class _Bottleneck(_Block):
    expansion = 4

    def _body(self, channels: int, width: int, stride: int) -> tuple[nn.Module, ...]:
        return (
            *_convolution(channels, width, 1),
            nn.ReLU(),
            *_convolution(width, width, 3, stride),
            nn.ReLU(),
            *_convolution(width, width * self.expansion, 1),
        )


def _convolution(channels: int, width: int, size: int, stride: int = 1) -> tuple[nn.Module, nn.Module]:
    """Without bias, which batch normalisation would take away again."""
    convolution = nn.Conv2d(channels, width, size, stride=stride, padding=size // 2, bias=False)
    return convolution, nn.BatchNorm2d(width)
