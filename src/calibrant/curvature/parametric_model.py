"""A network as a function of some of its parameters, with correct second derivatives."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.batchnorm import _BatchNorm as _Normalising  # pyright: ignore[reportPrivateUsage]
from torch.nn.modules.dropout import _DropoutNd  # pyright: ignore[reportPrivateUsage]
from torch.overrides import TorchFunctionMode

from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Logits and labels to their mean loss."""
Batches: TypeAlias = Iterable[tuple[Any, Tensor]]
"""Pairs of inputs and labels; iterable many times, with the same samples every time."""
Mode: TypeAlias = Literal["eval", "train"]

# The last two apply dropout themselves, their only difference in training.
_NOISE = (_DropoutNd, nn.MultiheadAttention, nn.RNNBase)


class ParametricModel:
    """A network whose chosen parameters are an argument; the network itself is never touched.

    Frozen parameters are left out, tied ones counted once, buffers copied.
    """

    def __init__(self, model: nn.Module, *, parameters: str | Iterable[str] | None, mode: Mode) -> None:
        check_choice("mode", mode, ("eval", "train"))
        self.model = model
        self.mode: Mode = mode
        self.names = _chosen(model, parameters)
        named = dict(model.named_parameters())
        self.values = tuple(named[name].detach().requires_grad_() for name in self.names)
        self.device = self.values[0].device
        self._normalises = mode == "eval" and any(isinstance(part, _Normalising) for part in model.modules())
        self.dtype = self.values[0].dtype

    @property
    def size(self) -> int:
        return sum(value.numel() for value in self.values)

    def logits(self, inputs: Any) -> Tensor:
        """Output of the network, whose mode, buffers and gradients stay unchanged."""
        state: dict[str, Tensor] = dict(zip(self.names, self.values, strict=True))
        state |= {name: buffer.clone() for name, buffer in self.model.named_buffers()}
        arguments, keywords = _call_form(inputs)
        norms = _AffineNorms() if self._normalises else nullcontext()
        # Fused attention kernels have no second derivative.
        with _in_mode(self.model, self.mode), sdpa_kernel(SDPBackend.MATH), norms:
            output: Any = functional_call(self.model, state, arguments, keywords)
        return output if isinstance(output, Tensor) else output.logits

    def to_device(self, batch: Any) -> tuple[Any, Tensor]:
        """Inputs and labels on the parameters' device.

        Raises:
            InputError: If the batch is not a pair of inputs and labels.
        """
        if not (isinstance(batch, Sequence) and len(batch) > 1 and isinstance(batch[1], Tensor)):
            raise InputError(
                "`data` must give batches (inputs, labels) with tensors of labels; got a batch of type "
                f"{type(batch).__name__}: a single batch is passed as [(inputs, labels)]."
            )
        return _moved(batch[0], self.device), batch[1].to(self.device)

    def numbers_kept(self, inputs: Any) -> float:
        """Numbers that a forward pass keeps for the backward pass; infinite if they cannot be counted."""
        count = 0

        def note(tensor: Tensor) -> Tensor:
            nonlocal count
            count += tensor.numel()
            return tensor.detach()  # the output itself would keep its own graph alive

        try:
            # a network that differentiates in its forward pass uses the saved tensors
            with torch.autograd.graph.saved_tensors_hooks(note, lambda kept: kept):
                self.logits(inputs)
        except Exception:  # such as inside torch.func; an error of the network itself appears in the product
            return math.inf
        return count

    def split(self, vector: Tensor) -> tuple[Tensor, ...]:
        """A flat vector as pieces of the parameters' shapes and types."""
        pieces = vector.split([value.numel() for value in self.values])
        return tuple(
            piece.view_as(value).to(value.dtype) for piece, value in zip(pieces, self.values, strict=True)
        )

    def layers(self) -> dict[str, list[slice]]:
        """Slices of a flat vector for the parameters of each module."""
        places: dict[str, list[slice]] = {}
        start = 0
        for name, value in zip(self.names, self.values, strict=True):
            owner = name.rpartition(".")[0] or "(top)"
            places.setdefault(owner, []).append(slice(start, start + value.numel()))
            start += value.numel()
        return places


def check_batches(data: Batches) -> None:
    if isinstance(data, Iterator):
        raise InputError(
            "`data` must be iterable many times, because every product reads it once; got an iterator: "
            "pass a list of (inputs, labels) or a DataLoader."
        )


def trained_parameters(model: nn.Module, parameters: Iterable[str] | None) -> tuple[Tensor, ...]:
    """Model parameters of the given names that are not frozen at the moment; tied ones once."""
    named = dict(model.named_parameters())
    return tuple(named[name] for name in _chosen(model, parameters))


def _chosen(model: nn.Module, wanted: str | Iterable[str] | None) -> tuple[str, ...]:
    trained = [name for name, value in model.named_parameters() if value.requires_grad]
    if not trained:
        raise InputError("`model` must have parameters that require a gradient; all are frozen.")
    if wanted is None:
        return tuple(trained)
    prefixes = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    if not prefixes:
        raise InputError("`parameters` must name at least one parameter or module; got none.")
    known = {name for name, _ in model.named_modules() if name} | set(trained)
    for prefix in prefixes:
        if not any(_under(name, prefix) for name in trained):
            near = difflib.get_close_matches(prefix, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise InputError(
                f"`parameters` must name parameters of the model that are trained; got {prefix!r}{hint}"
            )
    return tuple(name for name in trained if any(_under(name, prefix) for prefix in prefixes))


def _under(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(prefix + ".")


def _call_form(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of a network for these inputs: one tensor, several in a tuple, or by name."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,)), {}


def _moved(inputs: Any, device: torch.device) -> Any:
    if isinstance(inputs, Tensor):
        return inputs.to(device)
    if isinstance(inputs, Mapping):
        return {name: _moved(value, device) for name, value in inputs.items()}
    if isinstance(inputs, tuple | list):
        return tuple(_moved(value, device) for value in inputs)
    return inputs


class _AffineNorms(TorchFunctionMode):
    """Batch normalisation by running statistics as an affine map: second derivatives at half the cost."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        keywords = kwargs or {}
        if func is nn.functional.batch_norm:
            found = _affine_norm(*args, **keywords)
            if found is not None:
                return found
        return func(*args, **keywords)


def _affine_norm(
    inputs: Tensor,
    mean: Tensor | None,
    variance: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    **settings: Any,
) -> Tensor | None:
    """Normalised inputs; None if the map is not affine, or the types differ."""
    if settings.get("training", False) or mean is None or variance is None:
        return None
    given = [each for each in (mean, variance, weight, bias) if each is not None]
    if any(each.dtype != inputs.dtype for each in given):
        return None
    shape = (-1, *[1] * (inputs.ndim - 2))  # (N, C, ...)
    scale = (variance + settings.get("eps", 1e-5)).rsqrt()
    scale = scale if weight is None else scale * weight
    normed = (inputs - mean.view(shape)) * scale.view(shape)
    return normed if bias is None else normed + bias.view(shape)


@contextmanager
def _in_mode(model: nn.Module, mode: Mode) -> Generator[None]:
    """Put the network in evaluation mode, or in training mode without dropout noise.

    Fused inference kernels of ``nn.MultiheadAttention`` are disabled: they have no derivative.
    """
    mha: Any = torch.backends.mha
    before, fast = [(module, module.training) for module in model.modules()], mha.get_fastpath_enabled()
    mha.set_fastpath_enabled(False)
    for module, _ in before:
        module.training = mode == "train" and not isinstance(module, _NOISE)
    try:
        yield
    finally:
        for module, training in before:
            module.training = training
        mha.set_fastpath_enabled(fast)
