"""The calibrators, with what is claimed of each.

One entry here, and every law of ``tests/calibrators/test_contract.py`` is tested.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from calibrant import metrics
from calibrant._math.errors import without_warnings
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
    allowance: Callable[[int], float] = lambda _: 0.0
    """By how much the objective may rise above the identity's, by the number of samples."""
    learns_from_equal_scores: bool = False
    """An intercept alone can be learned from scores that are all equal; the others warn of them."""
    searched_as_another: bool = False
    """The search costs seconds and is, line for line, that of the entry whose objective is the ECE.

    Laws of files, of second fits, of refits and of hard data ask that entry alone; what the objective itself
    makes of hard data is asked of temperature scaling, which has the same objectives.
    """

    @property
    def name(self) -> str:
        return self.text

    def build(self) -> Calibrator:
        return build(self.text)


def _stretch(scores: Tensor, kind: str) -> Tensor:
    return 1.8 * scores


def _unfocus(scores: Tensor, kind: str) -> Tensor:
    """What focal loss with exponent 2 would make of it, over-confident by 4 on top."""
    if kind == "multiclass":
        return 4 * inverse_focal_map_logits(torch.log_softmax(scores, dim=1), 2.0)
    return 4 * inverse_focal_map_log_odds(scores, 2.0)


def _shift_alone(scores: Tensor, kind: str) -> Tensor:
    """Log-odds that are right but for a shift."""
    del kind
    return scores - 1.5


def _shift(scores: Tensor, kind: str) -> Tensor:
    """Another prevalence, and over-confident by 1.8."""
    return 1.8 * (scores + 1.2)


def _stretch_by_class(scores: Tensor, kind: str) -> Tensor:
    """Every class over-confident by another factor, and another prevalence."""
    factors = torch.tensor([1.2, 1.5, 2.0, 3.0], dtype=scores.dtype)
    shifts = torch.tensor([0.0, 1.0, -1.0, 0.5], dtype=scores.dtype)
    centred = scores - scores.mean(dim=1, keepdim=True)
    return factors * (centred + shifts)


def _shift_classes(scores: Tensor, kind: str) -> Tensor:
    """Other class frequencies, and over-confident by 1.8."""
    return 1.8 * (scores + torch.tensor([0.0, 1.0, -1.0, 0.5], dtype=scores.dtype))


def _shift_top(scores: Tensor, kind: str) -> Tensor:
    """The most probable class likelier than it should be, and the others less, in their proportions."""
    probs = scores.softmax(dim=1)
    confidence = probs.amax(dim=1, keepdim=True)
    raised = _shift(confidence.logit(), kind).sigmoid()
    others = probs * (1 - raised) / (1 - confidence)
    return torch.where(probs == confidence, raised, others).log()


def _mix(scores: Tensor, kind: str) -> Tensor:
    """Every class with a part of another."""
    mixed = scores - scores.mean(dim=1, keepdim=True)
    return 1.5 * mixed + 0.7 * mixed[:, [1, 2, 3, 0]] + torch.tensor([0.0, 0.5, -0.5, 0.2])


def _unbeta(scores: Tensor, kind: str) -> Tensor:
    """What a beta map with a = 0.5, b = 2, c = 0.3 undoes, found by bisection."""
    low, high = torch.full_like(scores, -80.0), torch.full_like(scores, 80.0)
    for _ in range(80):
        middle = (low + high) / 2
        log_p, log_q = torch.nn.functional.logsigmoid(middle), torch.nn.functional.logsigmoid(-middle)
        below = 0.5 * log_p - 2 * log_q + 0.3 < scores
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return low


_METRICS: dict[str, Callable[..., Tensor]] = {
    "nll": metrics.negative_log_likelihood,
    "brier": metrics.brier_score,
    "ece": metrics.expected_calibration_error,
    "adaptive_ece": metrics.adaptive_calibration_error,
    "smce": metrics.smooth_calibration_error,
    "classwise": metrics.classwise_calibration_error,
}


_ALL = tuple(_METRICS)
_TWO = ("nll", "ece")


def _of_top(metric: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The metric of the event that the most probable class is right."""

    def of_top(probs: Tensor, labels: Tensor) -> Tensor:
        confidence, top = probs.max(dim=1)
        return metric(confidence, (top == labels).to(torch.int64))

    return of_top


def _kinds(objective: str, search: str) -> tuple[str, ...]:
    if objective == "classwise":
        return ("multiclass",)  # of events it is that of the event, under another name
    # Several labels are searched one by one, as an event is: smooth and quick searches tell of their columns.
    quick = objective in {"nll", "brier"} or search == "continuous"
    return Entry.kinds if quick else ("binary", "multiclass")


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
                _kinds(objective, search),
                smooth=objective in {"nll", "brier"},
                exhaustive=search in {"continuous", "full"},
                replicates=objective != "adaptive_ece",
                searched_as_another=search == "full" and objective in {"adaptive_ece", "smce"},
            )
            found.append(entry)
    found.append(
        Entry(
            'focal-temperature(selection="cross_validated")',
            _unfocus,
            _METRICS["nll"],
            replicates=False,  # copies of a row may fall into several folds
        )
    )
    return [*found, *_scalings(), *_free_forms()]


def _scalings() -> list[Entry]:
    """Those that fit slopes and shifts by likelihood."""
    log_loss = _METRICS["nll"]
    by_class = (("multiclass",), False)
    return [
        Entry("platt", _shift, log_loss, ("binary", "multilabel"), keeps_argmax=False),
        Entry(
            "platt(fixed_slope=True)",
            _shift_alone,
            log_loss,
            ("binary", "multilabel"),
            keeps_argmax=False,
            learns_from_equal_scores=True,
        ),
        Entry("vector", _stretch_by_class, log_loss, *by_class),
        Entry("matrix", _mix, log_loss, *by_class),
        Entry("structured-matrix", _mix, log_loss, *by_class),
        Entry('structured-matrix(structure="diagonal")', _stretch_by_class, log_loss, *by_class),
        Entry("dirichlet", _stretch, log_loss, *by_class),
        Entry("bias-corrected-temperature", _shift_classes, log_loss, *by_class),
        Entry("beta", _unbeta, log_loss, ("binary", "multilabel"), keeps_argmax=False),
        Entry("quadratic", _shift, log_loss, ("binary", "multilabel"), keeps_argmax=False),
        Entry("ensemble-temperature", _stretch, log_loss),
        Entry("top-versus-all", _shift_top, _of_top(log_loss), ("multiclass",)),
        Entry('top-versus-all(event="beta")', _shift_top, _of_top(log_loss), ("multiclass",)),
        Entry("smoothed-temperature", _stretch, log_loss, allowance=lambda count: math.log1p(1 / count)),
    ]


def _free_forms() -> list[Entry]:
    """Those that fit steps, whose places are a matter of single samples."""
    free = {"smooth": False, "keeps_argmax": False}
    return [
        Entry("isotonic", _stretch, _METRICS["brier"], **free),
        Entry('isotonic(ties="kept")', _stretch, _METRICS["brier"], **free),
        Entry("venn-abers", _stretch, _METRICS["brier"], **free),
        Entry('venn-abers(folds=3, merging="brier")', _stretch, _METRICS["brier"], replicates=False, **free),
        Entry("histogram", _stretch, _METRICS["brier"], **free),
        Entry('histogram(binning="width", prior=0.0)', _stretch, _METRICS["brier"], **free),
        Entry("scaling-binning", _stretch, _METRICS["brier"], **free),
        Entry("bayesian-binning", _stretch, _METRICS["brier"], **free),
        Entry(
            'top-versus-all(event="isotonic")',
            _stretch,
            _of_top(_METRICS["brier"]),
            ("multiclass",),
            smooth=False,
        ),
        Entry('isotonic(functions="shared")', _stretch, _METRICS["brier"], ("multiclass",), smooth=False),
    ]


CALIBRATORS = _entries()
FIRST_OF_CLASS = {type(entry.build()): entry for entry in reversed(CALIBRATORS)}


def in_turns(entry: Entry, kinds: tuple[str, ...], turn: int) -> tuple[str, ...]:
    """All kinds for the first settings of a class; one for its other settings, another one at each turn."""
    if len(kinds) < 2 or entry in FIRST_OF_CLASS.values():
        return kinds
    return (kinds[(turn + CALIBRATORS.index(entry)) % len(kinds)],)


class Usual(NamedTuple):
    """Over-confident scores, labels, and a calibrator that was fitted to them, to be read only."""

    scores: Tensor
    labels: Tensor
    fitted: Any


@functools.cache
def usual(entry: Any, kind: str, calibrated: Callable[..., Any]) -> Usual:
    """The fit that all laws share that need only one; kept while the tests run."""
    scores, labels = calibrated(kind, 400)
    scores = 1.7 * scores
    with without_warnings():
        return Usual(scores, labels, entry.build().fit(scores, labels))


EXPORTED_LIKE = {
    "scaling-binning": "histogram",
    "bayesian-binning": "histogram",
    "structured-matrix": "matrix",
}
"""Whose forward pass is another's, line for line: only slow tests export them; it takes seconds."""
