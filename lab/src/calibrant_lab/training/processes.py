"""Communication of training processes, and Ctrl-C; a single process sends nothing."""

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
    """On entry, defer the first SIGINT or SIGTERM; a second one acts as usual."""

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
    """All processes of a training, from one of them."""

    def __init__(self, fabric: Fabric) -> None:
        self._fabric: Any = fabric
        self.rank, self.count, self.device = fabric.global_rank, fabric.world_size, fabric.device
        self.first = self.rank == 0  # True for the process that writes files and informs the listener

    def share(self, rows: Tensor) -> Tensor:
        return rows[self.rank :: self.count]

    def total(self, tensor: Tensor) -> Tensor:
        return tensor if self.count == 1 else self._fabric.all_reduce(tensor, reduce_op="sum")

    def any(self, wish: bool) -> bool:
        """Return True if any process passes True."""
        if self.count == 1:
            return wish
        return bool(self.total(torch.tensor(float(wish), device=self.device)) > 0)

    def of_first(self, value: Any) -> Any:
        return self._fabric.broadcast(value)

    def stacked(self, tensor: Tensor) -> Tensor:
        """Stack the tensors of all processes on each one's CPU."""
        if self.count == 1:
            return tensor.cpu()[None]
        mine = tensor.to(self.device)
        gathered = [torch.empty_like(mine) for _ in range(self.count)]
        torch.distributed.all_gather(gathered, mine)
        return torch.stack(gathered).cpu()

    def share_buffers(self, model: nn.Module) -> None:
        if self.count > 1:
            for buffer in model.buffers():
                torch.distributed.broadcast(buffer, src=0)
