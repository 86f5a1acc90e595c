r"""What calibrators minimise, as functions of temperature T and focal exponent :math:`\gamma`."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from calibrant._math.binning import binned, width_bin_index
from calibrant._math.newton import Expansion, Vector
from calibrant._math.shapes import Float
from calibrant.calibrators.fitting.focal_rows import FocalRows, log_odds_of_top
from calibrant.calibrators.fitting.likelihood import ratios_below
from calibrant.calibrators.fitting.samples import Block, Samples

Objective: TypeAlias = Literal["nll", "ece", "adaptive_ece", "brier", "smce", "classwise"]
OBJECTIVES: tuple[str, ...] = get_args(Objective)
DIFFERENTIABLE = frozenset({"nll", "brier"})
JUDGED = frozenset({"ece", "adaptive_ece", "smce"})  # errors of the confidences judged, and of nothing else
BINNED = frozenset({"ece", "adaptive_ece", "classwise"})
NUM_BINS = 15
FEWEST_CLASSES = 32  # from here on compiled passes over each row are faster than tables of each term


def objective_value(samples: Samples, objective: Objective, temperature: float, gamma: float = 0.0) -> float:
    """The objective at one point: the metric of that name on the calibrated probabilities."""
    if objective in DIFFERENTIABLE:
        return _smooth_value(samples, objective, temperature, gamma)
    if in_effect(objective, samples) == "classwise":
        return _classwise_error(samples, temperature, gamma)
    confidences = judged_confidences(samples, temperature, gamma)
    if objective == "smce":
        return _smooth_error(samples, confidences)
    return _binned_error(samples, objective, confidences)


def in_effect(objective: Objective, samples: Samples) -> Objective:
    """The objective itself, or a simpler one that is the same: an event is its only class."""
    return "ece" if objective == "classwise" and samples.is_event else objective


def judged_confidences(samples: Samples, temperature: float, gamma: float) -> Float[Tensor, " N"]:
    """Calibrated probabilities of the top class, or of the event."""
    blocks = [log_odds_of_top(block, temperature, (gamma,))[0] for block in samples.blocks()]
    return samples.judged(torch.cat(blocks)).sigmoid()


def _smooth_error(samples: Samples, confidences: Float[Tensor, " N"]) -> float:
    from calibrant._math.lipschitz import smooth_calibration_error  # numba

    weights = None if samples.weights is None else samples.weights.cpu().numpy()
    return smooth_calibration_error(confidences.cpu().numpy(), samples.outcomes.cpu().numpy(), weights)


def _classwise_error(samples: Samples, temperature: float, gamma: float) -> float:
    """Calibration error over 15 bins of equal width, of every class, averaged."""
    num_classes = samples.scores.shape[1]
    sums = torch.zeros(num_classes * NUM_BINS, dtype=torch.float64, device=samples.scores.device)
    for block in samples.blocks():
        rows = FocalRows(block, temperature, gamma)
        probs = rows.probs.scatter(1, block.top, rows.hit)
        bins = width_bin_index(probs, NUM_BINS)
        bins += torch.arange(0, len(sums), NUM_BINS, device=bins.device)
        sums.index_add_(0, bins.view(-1), (probs * block.shares[:, None]).view(-1))
        label = torch.where(block.wrong, block.truth, block.top)
        sums.index_add_(0, bins.gather(1, label)[:, 0], block.shares, alpha=-1)
    return float(sums.abs().sum()) / num_classes


def _binned_error(samples: Samples, objective: Objective, confidences: Float[Tensor, " N"]) -> float:
    sums = binned(
        confidences,
        samples.outcomes,
        num_bins=NUM_BINS,
        binning="mass" if objective == "adaptive_ece" else "width",
        weights=samples.weights,
    )
    return float(sums.calibration_error("l1"))


def smooth_objective(samples: Samples, objective: Objective, temperature: float, gamma: float) -> Expansion:
    """Mean negative log-likelihood, or Brier score."""
    if samples.is_event and samples.scores.device.type == "cpu":
        from calibrant.calibrators.fitting.compiled_losses import event_expansion  # compiled

        return of_six(event_expansion(*samples.event_arrays, temperature, gamma, objective == "brier"))
    totals = torch.zeros(6, dtype=torch.float64, device=samples.scores.device)
    for block in samples.blocks():
        totals += _expansion(samples, block, objective, temperature, gamma)
    return of_six((totals * _scale(samples, objective)).cpu().numpy())


def of_six(numbers: Vector) -> Expansion:
    """From the value, two slopes, and the second derivatives: by the first, mixed, by the second."""
    value, first, second, bend, mixed, bend_second = numbers.tolist()
    return Expansion(value, np.array([first, second]), np.array([[bend, mixed], [mixed, bend_second]]))


def _expansion(
    samples: Samples, block: Block, objective: Objective, temperature: float, gamma: float
) -> Float[Tensor, " D"]:
    """The sums over a block: loss, derivatives by log T and gamma, and second ones."""
    if objective == "nll" and block.below.shape[1] >= FEWEST_CLASSES and block.below.device.type == "cpu":
        from calibrant.calibrators.fitting.compiled_losses import class_expansion  # compiled

        ratios = ratios_below(block, 1 / temperature, samples.room).numpy()
        return torch.from_numpy(class_expansion(block, ratios, temperature, gamma))
    rows = FocalRows(block, temperature, gamma)
    losses = rows.log_loss_expansion() if objective == "nll" else rows.brier_score_expansion()
    return torch.stack(losses) @ block.shares


def log_losses(samples: Samples, temperature: float, gamma: float) -> Float[Tensor, " N"]:
    """Negative log-likelihood of each sample."""
    return torch.cat([FocalRows(block, temperature, gamma).log_loss() for block in samples.blocks()])


def _smooth_value(samples: Samples, objective: Objective, temperature: float, gamma: float) -> float:
    total = torch.zeros((), dtype=torch.float64, device=samples.scores.device)
    for block in samples.blocks():
        rows = FocalRows(block, temperature, gamma)
        total += (rows.log_loss() if objective == "nll" else rows.brier_score()) @ block.shares
    return float(total) * _scale(samples, objective)


def _scale(samples: Samples, objective: Objective) -> float:
    """The Brier score of an event is (p - y)², not summed over its two outcomes."""
    return 0.5 if objective == "brier" and samples.is_event else 1.0
