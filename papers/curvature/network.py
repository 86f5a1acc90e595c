"""The networks of the curvature study: small, alike with and without batch normalisation."""

from __future__ import annotations

import math

from torch import Tensor, nn

from calibrant._math.shapes import Float
from papers.curvature.settings import Kind


class SmallNetwork(nn.Module):
    """Two hidden layers, dense or convolutional of stride 2, and for images one dense layer more.

    Batch normalisation, where wanted, stands between each of them and its ReLU, and takes the bias's place.

    Args:
        kind: "mlp" (64 and 64 units) or "cnn" (8 and 16 channels, then 32 units).
        input_shape: Channels, height and width of one image.
        num_classes: How many logits to give.
        batch_norm: Whether to normalise.

    Example:
        >>> import torch
        >>> SmallNetwork("cnn", (1, 14, 14), 10, batch_norm=True)(torch.zeros(5, 1, 14, 14)).shape
        torch.Size([5, 10])
        >>> sum(each.numel() for each in SmallNetwork("mlp", (1, 8, 8), 10, batch_norm=False).parameters())
        8970
    """

    def __init__(
        self, kind: Kind, input_shape: tuple[int, ...], num_classes: int, *, batch_norm: bool
    ) -> None:
        super().__init__()
        if kind == "mlp":
            layers = [
                nn.Flatten(),
                *_dense(math.prod(input_shape), 64, batch_norm=batch_norm),
                *_dense(64, 64, batch_norm=batch_norm),
                nn.Linear(64, num_classes),
            ]
        else:
            channels, height, width = input_shape
            size = 16 * ((height + 3) // 4) * ((width + 3) // 4)
            layers = [
                *_convolution(channels, 8, 5, batch_norm=batch_norm),
                *_convolution(8, 16, 3, batch_norm=batch_norm),
                nn.Flatten(),
                *_dense(size, 32, batch_norm=batch_norm),
                nn.Linear(32, num_classes),
            ]
        self.layers = nn.Sequential(*layers)

    def forward(self, inputs: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N C"]:
        """Logits."""
        return self.layers(inputs)


def _dense(given: int, width: int, *, batch_norm: bool) -> list[nn.Module]:
    normalised: list[nn.Module] = [nn.BatchNorm1d(width)] if batch_norm else []
    return [nn.Linear(given, width, bias=not batch_norm), *normalised, nn.ReLU()]


def _convolution(given: int, width: int, size: int, *, batch_norm: bool) -> list[nn.Module]:
    normalised: list[nn.Module] = [nn.BatchNorm2d(width)] if batch_norm else []
    convolution = nn.Conv2d(given, width, size, stride=2, padding=size // 2, bias=not batch_norm)
    return [convolution, *normalised, nn.ReLU()]
