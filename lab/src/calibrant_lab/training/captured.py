"""A step that a GPU repeats from memory, in one CUDA graph for hundreds of launches, or compiled.

A graph always reads and writes the same memory, and nothing in it may read a number back. So only a step
whose work does not depend on values can be captured; :func:`is_capturable` says which recipes have one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from contextlib import contextmanager
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant_lab.training.data import Job
from calibrant_lab.training.loss import LabelsParts

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
        expected: Sequence[Tensor | None] = torch.autograd.grad(plain(), parameters, allow_unused=True)
    with undone(model.buffers, device):
        found: Sequence[Tensor | None] = torch.autograd.grad(compiled(), parameters, allow_unused=True)
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


_WARM_UPS = 3  # steps in which libraries choose their kernels, before a graph is captured


class _Graph(NamedTuple):
    given: tuple[Tensor, ...]  # where the arguments of a step are put
    result: Tensor
    replay: Callable[[], object]


class CapturedStep:
    """A step, captured once for each size of batch, then repeated on the arguments it is given.

    Args:
        step: Takes tensors on the GPU and changes ``state`` in place; it reads no value of a tensor.
        state: All tensors that a step changes. The steps that come before a capture leave no trace in them.
    """

    capturing: ClassVar[bool] = True  # false does every step launch by launch, to compare

    def __init__(self, step: Callable[..., Tensor], state: Callable[[], Iterable[Tensor]]) -> None:
        self._step, self._state = step, state
        self._graphs: dict[int, _Graph] = {}
        self._constants: Hashable = None
        self._warm = set[int]()

    def __call__(self, constants: Hashable, *given: Tensor) -> Tensor:
        """Do a step; what it returns is in memory that the next step overwrites.

        ``constants`` are numbers that a capture fixes, such as the learning rate; others need new graphs. The
        length of the first argument ``given`` is the size of the batch.
        """
        if not self.capturing:
            return self._step(*given)
        if constants != self._constants:
            self._graphs.clear()
            self._constants = constants
        size = len(given[0])
        graph = self._graphs.get(size) or self._captured(given)
        self._graphs[size] = graph
        for place, value in zip(graph.given, given, strict=True):
            place.copy_(value)
        graph.replay()
        return graph.result

    def _captured(self, given: Sequence[Tensor]) -> _Graph:
        kept = tuple(each.clone() for each in given)
        with _fastest_kernels():
            if len(kept[0]) not in self._warm:
                with undone(self._state, kept[0].device):
                    warm_up(self._step, kept)
                self._warm.add(len(kept[0]))
            replay, result = capture(self._step, kept)
        return _Graph(kept, result, replay)


def warm_up(step: Callable[..., Tensor], given: Sequence[Tensor]) -> None:
    """Do some steps beside the stream of all else, as PyTorch wants it before a capture."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(_WARM_UPS):
            step(*given)
    torch.cuda.current_stream().wait_stream(stream)


def capture(step: Callable[..., Tensor], given: Sequence[Tensor]) -> tuple[Callable[[], object], Tensor]:
    """What repeats the step on the memory of ``given``, and where its result is then."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step(*given)
    return graph.replay, result


@contextmanager
def _fastest_kernels() -> Generator[None]:
    """Inside, cuDNN times its convolutions and takes the fastest."""
    before, torch.backends.cudnn.benchmark = torch.backends.cudnn.benchmark, True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


def is_capturable(job: Job, device: torch.device, *, processes: int) -> bool:
    """Whether every step of a training does the same work, whatever the values are, on one GPU."""
    recipe, hardware = job.recipe, job.recipe.hardware
    adds_to_the_loss = recipe.curvature.weight > 0 or recipe.sam.rho > 0
    own_code = any(":" in text.partition("(")[0] for text in (recipe.model, recipe.loss))
    return (
        device.type == "cuda"
        and processes == 1
        and recipe.optimiser.name == "sgd"
        and not recipe.optimiser.plain
        and recipe.training.precision != "16-mixed"  # which looks whether gradients overflowed
        and not (adds_to_the_loss or own_code or hardware.compile)
        and hardware.resident
        and isinstance(job.dataset.train.inputs, Tensor)
        and not (recipe.data.crop or job.dataset.multilabel or isinstance(job.model, LabelsParts))
    )
