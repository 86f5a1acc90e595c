"""The inputs of a network's last linear layer, recorded in the forward pass."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float
from calibrant.curvature.differentiation import wide


class LastLayer:
    """Watches the linear layer that gives the logits, for as long as this object lives.

    Args:
        model: The network.
        names: Name of the layer; None: the linear layer that was added to the network last.

    Raises:
        InputError: If there is no such layer, or it is frozen.
    """

    def __init__(self, model: nn.Module, names: Iterable[str] | None) -> None:
        layers = {key: layer for key, layer in model.named_modules() if isinstance(layer, nn.Linear)}
        wanted = list(layers)[-1:] if names is None else list(names)
        if len(wanted) != 1 or wanted[0] not in layers:
            raise InputError(
                '`estimator="last-layer"` needs one torch.nn.Linear, which gives the logits; got '
                f"{wanted or 'a model without any'}."
            )
        name = wanted[0]
        if not any(value.requires_grad for value in layers[name].parameters()):
            raise InputError(
                f'`estimator="last-layer"` needs a last layer that is trained; {name!r} is frozen.'
            )
        self.name, self._layer, self._seen = name, layers[name], _Seen()
        self._compared = False
        handle = self._layer.register_forward_hook(self._seen)
        weakref.finalize(self, handle.remove)

    def lengths(self, logits: Float[Tensor, "N C"]) -> Float[Tensor, " N"]:
        """Squared length of each sample's input to the layer, and one more for its bias.

        Raises:
            InputError: If the layer did not give these logits.
        """
        given, made = self._seen.take()
        if given is None or made is None or not self._gave(made, logits):
            raise InputError(
                f'`estimator="last-layer"`: the layer {self.name!r} did not give these logits (N, C); '
                "name the one that does in `parameters`, or use another estimator."
            )
        self._compared = True
        features = given.reshape(len(logits), -1).to(logits.dtype)
        total = torch.zeros_like(features[:, 0])
        if self._layer.weight.requires_grad:
            total = features.square().sum(1, dtype=wide(features)).to(logits.dtype)
        bias = dict(self._layer.named_parameters()).get("bias")
        return total + 1 if bias is not None and bias.requires_grad else total

    def forget(self) -> None:
        """Forget the last batch."""
        self._seen.forget()

    def _gave(self, made: Tensor, logits: Tensor) -> bool:
        """Shapes are compared every time, values only the first time, because that makes a GPU wait."""
        if made.numel() != logits.numel() or len(made) != len(logits) or made.ndim != 2:
            return False
        return self._compared or torch.equal(made.detach().to(logits.dtype).reshape(logits.shape), logits)


class _Seen:
    """A forward hook that records input and output; its copies, in a copied network, begin empty."""

    def __init__(self) -> None:
        self._given: Tensor | None = None
        self._made: Tensor | None = None

    def __call__(self, _layer: nn.Module, given: tuple[Tensor, ...], made: Tensor) -> None:
        if made.requires_grad:
            self._given, self._made = given[0], made

    def __reduce__(self) -> tuple[type[_Seen], tuple[()]]:
        return _Seen, ()

    def forget(self) -> None:
        self._given = self._made = None

    def take(self) -> tuple[Tensor | None, Tensor | None]:
        """The last recording, which is then forgotten, because it keeps the batch's graph alive."""
        given, made = self._given, self._made
        self.forget()
        return given, made
