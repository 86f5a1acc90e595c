"""What the processes of a training tell each other; with one process nothing is sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from lightning_fabric import Fabric


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
