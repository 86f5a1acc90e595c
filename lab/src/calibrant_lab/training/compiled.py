"""Whether a compiled network has the gradients of the network itself."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError

OPTIONS: dict[str, str | int | bool | Callable[..., object]] = {"fallback_random": True}
"""For ``torch.compile``: the random numbers of dropout are those of the network that is not compiled."""
_WRONG = 0.5  # of a parameter's gradient; bfloat16 is off by some hundredths
_NEGLIGIBLE = 1e-3  # of the whole gradient


def check_compiled(
    model: nn.Module, plain: Callable[[], Tensor], compiled: Callable[[], Tensor], *, batch_size: int
) -> None:
    """Refuse a compiled network that gives other gradients of a batch's loss than the network itself.

    Buffers, such as the means of batch normalisation, and random numbers are left as they were. Compilers
    make code for each ``batch_size``.
    """
    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    parameters = [each for _, each in named]
    device = parameters[0].device
    with undone(model.buffers, device):
        expected = _gradients(plain(), parameters)
    with undone(model.buffers, device):
        found = _gradients(compiled(), parameters)
    norms = [0.0 if each is None else float(each.norm()) for each in expected]
    whole = sum(norm**2 for norm in norms) ** 0.5
    for (name, _), one, other, norm in zip(named, expected, found, norms, strict=True):
        if one is None or norm <= _NEGLIGIBLE * whole:
            continue
        off = 1.0 if other is None else float((other - one).norm()) / norm
        if not off <= _WRONG:
            raise InputError(
                f"torch.compile gives wrong gradients: {name} is off by {100 * off:.0f} % for a batch "
                f"of {batch_size}; set hardware.compile to false, or, if that is only the smaller last batch "
                "of an epoch, training.drop_last to true."
            )


def _gradients(loss: Tensor, parameters: Sequence[Tensor]) -> Sequence[Tensor | None]:
    """None for what the loss does not depend on."""
    return torch.autograd.grad(loss, parameters, allow_unused=True)


@contextmanager
def undone(state: Callable[[], Iterable[Tensor]], device: torch.device) -> Generator[None]:
    """In the end tensors and random numbers are what they were; tensors that are new then are zero."""
    before = [(each, each.detach().clone()) for each in state()]
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield
    known = {id(each) for each, _ in before}
    with torch.no_grad():
        for each, value in before:
            each.copy_(value)
        for each in state():
            if id(each) not in known:
                each.zero_()
