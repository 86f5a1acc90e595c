"""What the processes of a training tell each other, and Ctrl-C; with one process nothing is sent."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from lightning_fabric import Fabric


class Interruption:
    """While entered, the first SIGINT or SIGTERM is only noted; a second one has its usual effect."""

    def __init__(self) -> None:
        self.requested = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # elsewhere handlers cannot be set
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_error: object) -> None:
        self._restore()

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()


class Processes:
    """All processes of a training, as one of them sees them."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric: Any = fabric
        self.rank, self.count, self.device = fabric.global_rank, fabric.world_size, fabric.device
        self.first = self.rank == 0
        """Whether this is the process that writes files and tells the listener."""

    def share(self, rows: Tensor) -> Tensor:
        """This process's part of a batch."""
        return rows[self.rank :: self.count]

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over all processes, in each of them."""
        return tensor if self.count == 1 else self._fabric.all_reduce(tensor, reduce_op="sum")

    def any(self, wish: bool) -> bool:
        """Whether any process wishes it."""
        if self.count == 1:
            return wish
        return bool(self.total(torch.tensor(float(wish), device=self.device)) > 0)

    def of_first(self, value: Any) -> Any:
        """The first process's value, in each of them."""
        return self._fabric.broadcast(value)

    def stacked(self, tensor: Tensor) -> Tensor:
        """The tensors of all processes, stacked, on the CPU of each of them."""
        if self.count == 1:
            return tensor.cpu()[None]
        mine = tensor.to(self.device)
        gathered = [torch.empty_like(mine) for _ in range(self.count)]
        torch.distributed.all_gather(gathered, mine)
        return torch.stack(gathered).cpu()

    def share_buffers(self, model: nn.Module) -> None:
        """Give every process the first one's running statistics; each has only seen its share of the data."""
        if self.count > 1:
            for buffer in model.buffers():
                torch.distributed.broadcast(buffer, src=0)
