"""Which confidences are judged by which outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from calibrant.metrics._common import columns, top_outcomes

if TYPE_CHECKING:
    from torch import Tensor

    from calibrant._math.checks import Checked


def judged(checked: Checked, *, classwise: bool = False) -> Iterator[tuple[Tensor, Tensor]]:
    """The event (binary), the top label being right (multiclass), or every column (or ``classwise``)."""
    if checked.task == "multiclass" and not classwise:
        yield top_outcomes(checked)
    else:
        yield from columns(checked)
