"""Focal loss whose exponent changes at given epochs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from calibrant._math.errors import InputError
from calibrant.losses._module import LossModule
from calibrant.losses._rows import check_number
from calibrant.losses.focal import focal_loss

__all__ = ["ScheduledFocalLoss", "scheduled_gamma"]


def scheduled_gamma(
    epoch: int, *, gammas: Sequence[float] = (5.0, 3.0, 2.0), milestones: Sequence[int] = (100, 250)
) -> float:
    """Exponent of an epoch: ``gammas[i]`` from epoch ``milestones[i - 1]`` on.

    Args:
        epoch: Number of the epoch, the first one is 0.
        gammas: Exponents, not negative, one more than ``milestones``.
        milestones: Epochs at which the next exponent takes over, ascending.

    Returns:
        The exponent.

    Raises:
        InputError: If the numbers do not fit together.

    Note:
        The defaults are FLS-532 of the reference; FLS-531 is ``gammas=(5, 3, 1)``. Both are for 350 epochs;
        with 100 epochs (Tiny-ImageNet) the milestones were 30 and 70.

    References:
        Mukhoti et al., "The Intriguing Effects of Focal Loss on the Calibration of Deep Neural Networks",
        2020.

    Example:
        >>> [scheduled_gamma(epoch) for epoch in (0, 99, 100, 249, 250, 349)]
        [5.0, 5.0, 3.0, 3.0, 2.0, 2.0]
    """
    for gamma in gammas:
        check_number("gammas", gamma)
    if len(gammas) != len(milestones) + 1:
        raise InputError(
            f"`gammas` must be one more than `milestones`; got {len(gammas)} and {len(milestones)}."
        )
    if any(later <= earlier for earlier, later in pairwise(milestones)):
        raise InputError(f"`milestones` must ascend; got {tuple(milestones)}.")
    if epoch < 0:
        raise InputError(f"`epoch` must not be negative; got {epoch}.")
    return gammas[bisect_right(milestones, epoch)]


class ScheduledFocalLoss(LossModule, function=focal_loss):
    """Focal loss with the exponent of :func:`scheduled_gamma`; call :meth:`step` when an epoch begins.

    The epoch is part of ``state_dict``.

    Example:
        >>> loss = ScheduledFocalLoss(gammas=(5, 3, 1), milestones=(100, 250))
        >>> loss.gamma
        5
        >>> loss.step(250)
        >>> loss.gamma
        1
    """

    properness = "as focal with the exponent of the epoch, here the first"
    shown = ("gammas", "milestones", "epoch")
    gammas: Sequence[float] = (5.0, 3.0, 2.0)
    milestones: Sequence[int] = (100, 250)

    def _start(self) -> None:
        self.gammas, self.milestones = tuple(self.gammas), tuple(self.milestones)
        self.step(0)

    def step(self, epoch: int) -> None:
        """Take the exponent of this epoch; the first epoch is 0."""
        self.gamma = scheduled_gamma(epoch, gammas=self.gammas, milestones=self.milestones)
        self.epoch = epoch

    def get_extra_state(self) -> dict[str, int]:
        """The epoch, for ``state_dict``."""
        return {"epoch": self.epoch}

    def set_extra_state(self, state: Any) -> None:
        """Restore a saved epoch."""
        self.step(int(state["epoch"]))
