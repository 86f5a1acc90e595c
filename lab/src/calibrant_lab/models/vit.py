"""Vision transformers."""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import Any, Literal

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant_lab.models._settings import Shape, image_shape, normal, one_of, positive, share

_SIZES = {"tiny": (192, 3), "small": (384, 6), "base": (768, 12)}  # width and heads


class ViT(nn.Module):
    """Vision transformer: patches, a class token, ``depth`` layers of attention, and a linear layer.

    Parameters have the names of Hugging Face's ``ViTForImageClassification`` files, whose weights
    :func:`calibrant_lab.models.load_weights` reads; initial weights have the distribution of those (normal,
    deviation 0.02). Attention is written out, not fused, so that it can be differentiated twice.

    Args:
        input_shape: Channels, height and width of one image; both sides are multiples of ``patch``.
        num_classes: How many logits to give.
        size: ``tiny``, ``small`` or ``base``: 192, 384 or 768 channels, in heads of 64.
        patch: Pixels on each side of a patch; 4 suits images of 32 × 32.
        depth: Number of layers.
        dropout: Share of the units left out after the embedding and after each half of a layer, in training.

    Raises:
        InputError: If a setting is out of range or the inputs are no such images.

    References:
        Dosovitskiy et al., "An Image is Worth 16x16 Words", ICLR 2021; Touvron et al., "Training
        Data-Efficient Image Transformers & Distillation through Attention", ICML 2021 (small and tiny).

    Example:
        >>> import torch
        >>> with torch.device("meta"):
        ...     network = ViT((3, 224, 224), 1000, size="base")
        >>> sum(each.numel() for each in network.parameters())
        86567656
    """

    def __init__(
        self,
        input_shape: Shape,
        num_classes: int,
        *,
        size: Literal["tiny", "small", "base"] = "small",
        patch: int = 16,
        depth: int = 12,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        channels, rows, columns = image_shape("vit", input_shape, least=positive("patch", patch))
        if rows % patch or columns % patch:
            raise InputError(
                f"`patch` must divide both sides of the image; got {patch} for {rows} × {columns} pixels."
            )
        width, heads = one_of("size", size, _SIZES)
        rate = share("dropout", dropout)
        embeddings = _Embeddings(channels, (rows // patch) * (columns // patch), width, patch, rate)
        layers = nn.Sequential(*(_Layer(width, heads, rate) for _ in range(positive("depth", depth))))
        encoder, norm = nn.ModuleDict({"layer": layers}), nn.LayerNorm(width, eps=_EPSILON)
        self.vit = nn.ModuleDict({"embeddings": embeddings, "encoder": encoder, "layernorm": norm})
        self.classifier = nn.Linear(width, positive("num_classes", num_classes))
        self.apply(_initialise)

    def forward(self, inputs: Float[Tensor, "N channels H W"]) -> Float[Tensor, "N C"]:
        encoder: Any = self.vit["encoder"]
        tokens = encoder["layer"](self.vit["embeddings"](inputs))  # (N, 1 + patches, width)
        return self.classifier(self.vit["layernorm"](tokens)[:, 0])

    def own_name(self, name: str) -> str:
        """Translate a parameter name of transformers 5, such as ``vit.layers.0.mlp.fc1.weight``."""
        name = re.sub(r"^vit\.layers\.", "vit.encoder.layer.", name)
        for theirs, ours in _RENAMED.items():
            name = name.replace(theirs, ours)
        return name


_EPSILON, _DEVIATION = 1e-12, 0.02
_RENAMED = {
    ".attention.q_proj.": ".attention.attention.query.",
    ".attention.k_proj.": ".attention.attention.key.",
    ".attention.v_proj.": ".attention.attention.value.",
    ".attention.o_proj.": ".attention.output.dense.",
    ".mlp.fc1.": ".intermediate.dense.",
    ".mlp.fc2.": ".output.dense.",
}


class _Embeddings(nn.Module):
    """Patches as tokens after a class token, with positions."""

    def __init__(self, channels: int, patches: int, width: int, patch: int, rate: float) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.empty(1, 1, width))
        self.position_embeddings = nn.Parameter(torch.empty(1, 1 + patches, width))
        self.patch_embeddings = nn.ModuleDict({"projection": nn.Conv2d(channels, width, patch, stride=patch)})
        self.dropout = nn.Dropout(rate)

    def forward(self, images: Tensor) -> Tensor:
        patches = self.patch_embeddings["projection"](images).flatten(2).mT
        tokens = torch.cat([self.cls_token.expand(images.shape[0], -1, -1), patches], dim=1)
        return self.dropout(tokens + self.position_embeddings)


class _Layer(nn.Module):
    """Attention and two linear layers, each normalised first, with residual connections."""

    def __init__(self, width: int, heads: int, rate: float) -> None:
        super().__init__()
        self.layernorm_before = nn.LayerNorm(width, eps=_EPSILON)
        self.attention = _Attention(width, heads)
        self.layernorm_after = nn.LayerNorm(width, eps=_EPSILON)
        self.intermediate, self.output = _dense(width, 4 * width), _dense(4 * width, width)
        self.activation, self.dropout = nn.GELU(), nn.Dropout(rate)

    def forward(self, tokens: Tensor) -> Tensor:
        tokens = tokens + self.dropout(self.attention(self.layernorm_before(tokens)))
        inner = self.activation(self.intermediate(self.layernorm_after(tokens)))
        return tokens + self.dropout(self.output(inner))


class _Attention(nn.Module):
    """Softmax attention, scaled by the root of the head's width."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = nn.ModuleDict({name: nn.Linear(width, width) for name in ("query", "key", "value")})
        self.output = _dense(width, width)
        self.heads = heads

    def forward(self, tokens: Tensor) -> Tensor:
        query, key, value = (
            layer(tokens)
            .unflatten(2, (self.heads, -1))
            .transpose(1, 2)  # (N, heads, tokens, width of a head)
            for layer in self.attention.values()
        )
        weights = (query @ key.mT * key.shape[-1] ** -0.5).softmax(dim=-1)
        return self.output((weights @ value).transpose(1, 2).flatten(2))


def _dense(given: int, width: int) -> nn.Sequential:
    """Return a linear layer under its name in files."""
    return nn.Sequential(OrderedDict(dense=nn.Linear(given, width)))


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Conv2d):
        normal(module.weight, deviation=_DEVIATION)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
    if isinstance(module, _Embeddings):
        normal(module.cls_token, deviation=_DEVIATION)
        normal(module.position_embeddings, deviation=_DEVIATION)
