"""What the loss modules share with ``torch.nn.CrossEntropyLoss``."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from torch import Tensor, nn

from calibrant.losses._rows import check_reduction

if TYPE_CHECKING:
    from calibrant.losses._rows import Reduction


class LossModule(nn.Module):
    """Holds ``weight`` (a buffer), ``ignore_index`` and ``reduction``."""

    shown: ClassVar[tuple[str, ...]] = ()  # the settings that its printed form names
    weight: Tensor | None

    def __init__(self, *, weight: Tensor | None, ignore_index: int, reduction: Reduction) -> None:
        super().__init__()
        check_reduction(reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction: Reduction = reduction

    def extra_repr(self) -> str:
        """The settings, as ``print`` shows them."""
        settings = {name: getattr(self, name) for name in self.shown}
        if self.ignore_index != -100:
            settings["ignore_index"] = self.ignore_index
        if self.reduction != "mean":
            settings["reduction"] = self.reduction
        return ", ".join(f"{name}={value!r}" for name, value in settings.items())
