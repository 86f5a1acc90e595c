"""The convolutional network with global pooling that the papers train on texts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant_lab.models._settings import Shape, positive, share

_KERNEL, _POOL = 5, 5
_FIELD = 3 * (_KERNEL - 1) + 2 * (_POOL - 1) + 1  # words that one pooled value depends on: 21


class GPCNN(nn.Module):
    """Three convolutions over word vectors, the maximum over the text, and one hidden layer.

    Convolutions see five words and have ReLU; after the first two comes the maximum over five neighbours.
    The word vectors stay as they are. Texts have their padding, zeros, in front.

    A batch is sorted by length and computed in groups, each cut to its longest text and 21 words of padding.
    The logits are the same, because the maximum sees every value that it would see with the whole padding.

    Args:
        input_shape: Words in a text.
        num_classes: How many logits to give.
        vectors: Vectors of the words; row 0 is padding, and a row of NaN, an unknown word, becomes zero.
        width: Channels of the convolutions and width of the hidden layer.
        dropout: Share of the hidden units left out in training.
        group: Texts computed together.

    Raises:
        InputError: If a setting is out of range, the inputs are not texts, or no word has a vector.

    References:
        Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020, appendix; after
        Lin et al., "Network in Network", ICLR 2014.

    Example:
        >>> network = GPCNN((40,), 20, vectors=torch.ones(7, 100))
        >>> network(torch.zeros(3, 40, dtype=torch.int32)).shape
        torch.Size([3, 20])
        >>> sum(parameter.numel() for parameter in network.parameters())
        247316
    """

    vectors: Tensor

    def __init__(
        self,
        input_shape: Shape,
        num_classes: int,
        *,
        vectors: Float[Tensor, "V D"] | None = None,
        width: int = 128,
        dropout: float = 0.3,
        group: int = 16,
    ) -> None:
        super().__init__()
        if vectors is None or len(input_shape) != 1:
            raise InputError(
                f"gp-cnn needs texts as rows of word numbers; got inputs of shape {input_shape}."
            )
        if input_shape[0] < _FIELD:
            raise InputError(
                f"gp-cnn needs texts of {_FIELD} words or more (`length`); got {input_shape[0]}."
            )
        if len(vectors) > 1 and bool(vectors[1:].isnan().all()):
            raise InputError("gp-cnn does not learn word vectors; set data.vectors to a file of them.")
        self.group = positive("group", group)
        # Not a parameter, and saved with the rest.
        self.register_buffer("vectors", vectors.float().nan_to_num(0.0))
        width = positive("width", width)
        given = vectors.shape[1]
        self.first = nn.Conv1d(given, width, _KERNEL)
        self.second = nn.Conv1d(width, width, _KERNEL)
        self.third = nn.Conv1d(width, width, _KERNEL)
        self.hidden = nn.Linear(width, width)
        self.dropout = nn.Dropout(share("dropout", dropout))
        self.head = nn.Linear(width, positive("num_classes", num_classes))

    def forward(self, inputs: Int[Tensor, "N words"]) -> Float[Tensor, "N C"]:
        seen = inputs != 0  # from the first word that is not padding
        lengths = torch.where(seen.any(dim=1), inputs.shape[1] - seen.int().argmax(dim=1), 0)
        order = lengths.argsort(descending=True, stable=True)
        longest = lengths[order[:: self.group]].tolist()
        pooled = [
            self._pooled(inputs[rows, -min(inputs.shape[1], length + _FIELD) :])
            for rows, length in zip(order.split(self.group), longest, strict=True)
        ]
        features = torch.cat(pooled)[order.argsort()]
        return self.head(self.dropout(functional.relu(self.hidden(features))))

    def _pooled(self, words: Int[Tensor, "n words"]) -> Float[Tensor, "n width"]:
        """Return the maximum of the convolutions over the text."""
        features = self.vectors[words][:, None].permute(0, 3, 1, 2)  # (n, D, 1, words), channels last
        for convolution in (self.first, self.second):
            features = functional.max_pool2d(_convolved(convolution, features), (1, _POOL), stride=1)
        features = _convolved(self.third, features)
        return features.amax(dim=(2, 3))


def _convolved(convolution: nn.Conv1d, features: Float[Tensor, "n C 1 words"]) -> Tensor:
    """Apply convolution and ReLU with channels last, which is faster on CPUs."""
    weight = convolution.weight[:, :, None].contiguous(memory_format=torch.channels_last)
    return functional.relu(functional.conv2d(features, weight, convolution.bias))
