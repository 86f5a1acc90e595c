"""What about the data, or the objective, makes a fit doubtful."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from calibrant._math.binning import width_bin_index
from calibrant._math.shapes import Int
from calibrant.calibrators.fitting.likelihood import likelihood_slopes
from calibrant.calibrators.fitting.objectives import DIFFERENTIABLE, NUM_BINS, Objective, judged_confidences
from calibrant.calibrators.fitting.passes import Facts
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples

ALL_RIGHT = "every sample is classified correctly, so nothing tells how often errors are to be expected"
CONSTANT = "the logits of every sample are all equal"
_CONSTANT = f"{CONSTANT}, which no temperature changes"
_SILENT = "the logits say nothing about the labels, or the opposite: the likeliest temperature is infinite"

_FEW = 10  # samples; with fewer, parameters mean little
_HEAD = 256  # rows
_NEARLY_INFINITE = 1e-12  # inverse of a temperature, for logits about 1
_LEAST = 1e-28  # with which a class that is ruled out still is
_COLLAPSED = 0.9  # share of the confidences in one bin


def few(num_samples: int) -> tuple[str, ...]:
    """What to say of a handful of samples."""
    return (f"{num_samples} samples tell little",) if num_samples < _FEW else ()


def degenerate(samples: Samples) -> tuple[str, ...]:
    """What makes the data of one problem tell little, whatever is fitted to them."""
    mixed = _is_mixed(samples.first(_HEAD)) or _is_mixed(samples)  # the first ones mostly settle it
    return degenerate_labels(samples.labels, 1 if mixed else len(samples.labels) * bool(samples.correct[0]))


def degenerate_labels(labels: Int[Tensor, " N"], num_right: int) -> tuple[str, ...]:
    """The same by the labels, and how many of the samples are classified correctly."""
    if len(labels) < _FEW:
        return few(len(labels))
    if bool((labels == labels[0]).all()):
        return (f"only class {int(labels[0])} occurs among the labels",)
    if 0 < num_right < len(labels):
        return ()
    return (ALL_RIGHT,) if num_right else ("no sample is classified correctly",)


def _is_mixed(samples: Samples) -> bool:
    """Whether some are classified correctly and some are not."""
    return bool(samples.correct.any()) and not bool(samples.correct.all())


def with_degeneracy(solution: Solution, samples: Samples) -> Solution:
    """The solution; where it warns of nothing though its data are degenerate, that is said."""
    return solution if solution.warnings else replace(solution, warnings=degenerate(samples))


def with_doubts_of_temperature(solution: Solution, samples: Samples, objective: Objective) -> Solution:
    """A fit of temperature, and perhaps exponent, with what makes it doubtful."""
    trouble: tuple[str, ...] = ()
    if samples.is_constant:
        trouble = (_CONSTANT,)
    elif bool(samples.correct.all()):
        trouble = (ALL_RIGHT,)
    elif "bracket" not in solution.certificate and _is_silent(samples):
        trouble = (_SILENT,)
    if not trouble and objective not in DIFFERENTIABLE:
        return replace(solution, warnings=(*solution.warnings, *_collapse(samples, solution)))
    return replace(solution, warnings=(*trouble, *solution.warnings))


def _is_silent(samples: Samples) -> bool:
    """Whether the likelihood only falls as the logits, of whatever size, begin to count."""
    low, high = torch.aminmax(samples.scores)
    largest = max(-float(low), float(high))
    return likelihood_slopes(samples, max(_NEARLY_INFINITE / (1 + largest), _LEAST)).first >= 0


def with_doubts_of_passes(solution: Solution, facts: Facts) -> Solution:
    """The same of what was fitted by sums over all rows."""
    trouble: tuple[str, ...] = ()
    if not facts.num_varied:
        trouble = (_CONSTANT,)
    elif facts.num_right == facts.num_samples:
        trouble = (ALL_RIGHT,)
    elif "bracket" not in solution.certificate and facts.flat_slope >= 0:
        trouble = (_SILENT,)
    return replace(solution, warnings=(*trouble, *solution.warnings))


def _collapse(samples: Samples, solution: Solution) -> tuple[str, ...]:
    """What to say where the error is small because all confidences became alike."""
    after = _fullest_bin(samples, solution.parameters["temperature"], solution.parameters.get("gamma", 0.0))
    before = _fullest_bin(samples, 1.0, 0.0)
    if after < _COLLAPSED or 1 - after > (1 - before) / 2:
        return ()
    said = (
        f"{after:.0%} of the confidences now fall into one of {NUM_BINS} bins ({before:.0%} before): the "
        'error is small because they barely differ; prefer objective="nll"'
    )
    return (said,)


def _fullest_bin(samples: Samples, temperature: float, gamma: float) -> float:
    """Largest share of the confidences judged in one of the bins of equal width."""
    bins = width_bin_index(judged_confidences(samples, temperature, gamma), NUM_BINS)
    return float(torch.bincount(bins, samples.shares, NUM_BINS).max())
