"""The calibrators, with what is claimed of each.

One entry here, and every law of ``tests/calibrators/test_contract.py`` is tested.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from calibrant import metrics
from calibrant._math.focal_map_inverse import inverse_focal_map_log_odds, inverse_focal_map_logits
from calibrant.calibrators import Calibrator, build


@dataclass(frozen=True)
class Entry:
    """A calibrator under one choice of settings, and what its documentation claims."""

    text: str
    distort: Callable[[Tensor, str], Tensor]
    """Undoes a map of the calibrator's family: what it is fitted on where it should find that map."""
    metric: Callable[..., Tensor]
    """What the objective is, of probabilities and labels."""
    kinds: tuple[str, ...] = ("binary", "multiclass", "multilabel")
    keeps_argmax: bool = True
    smooth: bool = True
    """The objective has derivatives, so that its optimum is not a matter of single samples."""
    exhaustive: bool = True
    """Searches everywhere, not on a coarse grid."""
    replicates: bool = True
    """An integer weight equals as many copies of the row (not in equal-mass bins: they end at whole rows)."""

    @property
    def name(self) -> str:
        """For the names of tests."""
        return self.text

    def build(self) -> Calibrator:
        """A new one, not fitted."""
        return build(self.text)


def _stretch(scores: Tensor, kind: str) -> Tensor:
    """Over-confident by 1.8."""
    return 1.8 * scores


def _unfocus(scores: Tensor, kind: str) -> Tensor:
    """What focal loss with exponent 2 would make of it, over-confident by 4 on top."""
    if kind == "multiclass":
        return 4 * inverse_focal_map_logits(torch.log_softmax(scores, dim=1), 2.0)
    return 4 * inverse_focal_map_log_odds(scores, 2.0)


def _shift(scores: Tensor, kind: str) -> Tensor:
    """Another prevalence, and over-confident by 1.8."""
    return 1.8 * (scores + 1.2)


_METRICS: dict[str, Callable[..., Tensor]] = {
    "nll": metrics.negative_log_likelihood,
    "brier": metrics.brier_score,
    "ece": metrics.expected_calibration_error,
    "adaptive_ece": metrics.adaptive_calibration_error,
}


_ALL = tuple(_METRICS)
_TWO = ("nll", "ece")


def _entries() -> list[Entry]:
    found: list[Entry] = []
    for name, distort, search, objectives in (
        ("temperature", _stretch, "continuous", _ALL),
        ("temperature", _stretch, "grid", _TWO),
        ("focal-temperature", _unfocus, "full", _ALL),
        ("focal-temperature", _unfocus, "grid", _TWO),
        ("focal-temperature", _unfocus, "line", _TWO),
    ):
        for objective in objectives:
            entry = Entry(
                f'{name}(objective="{objective}", search="{search}")',
                distort,
                _METRICS[objective],
                smooth=objective in {"nll", "brier"},
                exhaustive=search in {"continuous", "full"},
                replicates=objective != "adaptive_ece",
            )
            found.append(entry)
    return [*found, Entry("platt", _shift, _METRICS["nll"], ("binary", "multilabel"), keeps_argmax=False)]


CALIBRATORS = _entries()
