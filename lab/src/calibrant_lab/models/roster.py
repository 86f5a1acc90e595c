"""Networks by the names in recipes and on the command line."""

from __future__ import annotations

import inspect
import os
from functools import partial
from typing import Any

from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.lazy import public_names
from calibrant._math.shapes import Float
from calibrant._math.text_form import build_from, parse_call
from calibrant_lab.elsewhere import ELSEWHERE
from calibrant_lab.elsewhere import imported as imported
from calibrant_lab.models.checkpoints import load_weights as load_weights
from calibrant_lab.models.densenet import CIFARDenseNet, DenseNet
from calibrant_lab.models.gp_cnn import GPCNN
from calibrant_lab.models.resnet import CIFARResNet, HeResNet, ResNet, TinyImageNetResNet, WideResNet
from calibrant_lab.models.small import CNN, MLP, FastResNet, LeNet, StridedCNN
from calibrant_lab.models.tree_lstm import TreeLSTM
from calibrant_lab.models.vit import ViT

MODELS: dict[str, type[nn.Module]] = {
    "mlp": MLP,
    "cnn": CNN,
    "strided-cnn": StridedCNN,
    "resnet": ResNet,
    "gp-cnn": GPCNN,
    "tree-lstm": TreeLSTM,
    "lenet": LeNet,
    "cifar-resnet": CIFARResNet,
    "he-resnet": HeResNet,
    "fast-resnet": FastResNet,
    "tiny-imagenet-resnet": TinyImageNetResNet,
    "wide-resnet": WideResNet,
    "cifar-densenet": CIFARDenseNet,
    "densenet": DenseNet,
    "vit": ViT,
}


def available() -> tuple[str, ...]:
    """Names that :func:`build` knows.

    Example:
        >>> available()[:3]
        ('mlp', 'cnn', 'strided-cnn')
    """
    return tuple(MODELS)


def build(
    text: str, *, input_shape: tuple[int, ...], num_classes: int, vectors: Float[Tensor, "V D"] | None = None
) -> nn.Module:
    """Build a network from its name, optionally with settings in brackets.

    Args:
        text: Such as ``mlp(widths=(64, 64))`` or ``resnet(blocks=(3, 3, 3), width=16)``; or a function of
            your own as ``module:factory`` or ``module:factory(setting=value)``, which is given
            ``input_shape``, ``num_classes`` and, for texts, ``vectors`` if it has parameters of these names.
        input_shape: Shape of one sample: (channels, height, width), (features,), (words,) or (nodes, 5).
        num_classes: How many logits to give.
        vectors: For texts and trees, the vectors of their words; NaN where a word has none.

    Returns:
        A module that maps ``(N, *input_shape)`` to logits ``(N, num_classes)``, initialised from torch's
        global generator.

    Raises:
        InputError: If the name or a setting is unknown or out of range, the network is not for such data, or
            the factory cannot be imported or does not return a module.

    Example:
        >>> build("mlp(widths=(4,))", input_shape=(2,), num_classes=3).layers[1]
        Linear(in_features=2, out_features=4, bias=True)
    """
    given: dict[str, Any] = {"input_shape": input_shape, "num_classes": num_classes}
    if vectors is not None:
        given["vectors"] = vectors
    if ELSEWHERE.fullmatch(text):
        model = imported(text, given)
        if not isinstance(model, nn.Module):
            raise InputError(f"{text} must give a torch.nn.Module; got {type(model).__name__}.")
        return model
    readers = [name for name, kind in MODELS.items() if "vectors" in inspect.signature(kind).parameters]
    if vectors is not None and parse_call(text)[0] in set(MODELS) - set(readers):
        raise InputError(f"{text} does not read texts; the networks for texts are {', '.join(readers)}.")
    makers = {
        name: partial(kind, input_shape, num_classes, **{"vectors": vectors} if name in readers else {})
        for name, kind in MODELS.items()
    }
    return build_from(text, makers, what="model")


def build_trained(
    text: str, weights: str | os.PathLike[str] | None, *, input_shape: tuple[int, ...], num_classes: int
) -> nn.Module:
    """Build a trained network: with weights from a file, or its factory's own.

    Args:
        text: As of :func:`build`.
        weights: A file as for :func:`load_weights`; None only for ``module:factory``, which may load some.
        input_shape: As of :func:`build`.
        num_classes: As of :func:`build`.

    Raises:
        InputError: As :func:`build` and :func:`load_weights`, or if the weights would be random.

    Example:
        >>> build_trained("mlp", None, input_shape=(2,), num_classes=3)
        Traceback (most recent call last):
        calibrant._math.errors.InputError: mlp would predict with random weights; ...
    """
    model = build(text, input_shape=input_shape, num_classes=num_classes)
    if weights is not None:
        load_weights(model, weights)
    elif not ELSEWHERE.fullmatch(text):
        raise InputError(f"{text} would predict with random weights; pass trained ones (--weights).")
    return model


def last_linear(model: nn.Module) -> nn.Linear | None:
    """Return the linear layer added last, which gives the logits."""
    layers = [layer for layer in model.modules() if isinstance(layer, nn.Linear)]
    return layers[-1] if layers else None


__all__ = public_names(globals())  # pyright: ignore[reportUnsupportedDunderAll]
