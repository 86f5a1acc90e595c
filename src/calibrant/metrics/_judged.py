"""Which confidences are judged by which outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calibrant.metrics._common import columns

if TYPE_CHECKING:
    from torch import Tensor

    from calibrant._math.checks import Checked


def judged(checked: Checked, *, classwise: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
    """The event (binary), the top label being right (multiclass), or every column (or ``classwise``)."""
    if checked.top is not None and not classwise:
        yield checked.top
    else:
        yield from columns(checked)
