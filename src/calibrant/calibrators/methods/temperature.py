"""Temperature scaling."""

from __future__ import annotations

from typing import ClassVar, get_args

from torch import Tensor

from calibrant._math.checks import Task, check_choice
from calibrant._math.simplex import log_softmax
from calibrant.calibrators.affine import Affine, scaling
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.doubts import with_doubts_of_temperature
from calibrant.calibrators.fitting.objectives import OBJECTIVES, Objective, in_effect
from calibrant.calibrators.fitting.passes import Search, temperature_in_passes
from calibrant.calibrators.fitting.results import Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.temperatures import TemperatureSearch, fit_temperature
from calibrant.calibrators.fitting.units import ANY_TEMPERATURE


class TemperatureScaling(Calibrator):
    r"""Divide the logits by one number.

    .. math:: \hat p = \mathrm{softmax}(z / T), \qquad T = \arg\min_{T \in [10^{-4}, 10^4]} L(T)

    In multilabel predictions every column has its own T. Accuracy, the order of the classes and log-odds of
    zero stay as they are, so a shift of the log-odds (another prevalence than in training) cannot be mended:
    for that see :class:`PlattScaling`.

    The likelihood is convex in 1 / T: Newton's method finds its one optimum, to a derivative by log T below
    1e-8. Binned objectives jump as samples change bins, and the Brier score may have several minima: the
    default search is at least as good as the grid of Mukhoti et al. (of ``"classwise"``, as those 64 of its
    points that look best between computed ones), and as T = 1.

    Args:
        objective: ``"nll"``, ``"brier"``, or a calibration error: over 15 bins of equal width (``"ece"``) or
            equal mass (``"adaptive_ece"``), or smooth (``"smce"``), of the top label, or of class 1 of binary
            and multilabel ones; or that of every class over 15 bins of equal width (``"classwise"``), which
            for binary and multilabel ones is ``"ece"``.
        search: ``"continuous"``, or ``"grid"``: T = 0.1, 0.2, ..., 10.0 (summed up), the smallest of equals.

    Raises:
        InputError: If a setting is unknown.

    Note:
        O(N C) per step; memory for a block of rows. An optimum on a bound, separable data and logits that say
        nothing are warned of, and told in ``fit_result_``; so is a calibration error that is small only
        because nearly all confidences fall into one bin.

    References:
        Guo et al., "On Calibration of Modern Neural Networks", ICML 2017. The grid: Mukhoti et al.,
        "Calibrating Deep Neural Networks using Focal Loss", NeurIPS 2020.

    Example:
        >>> import torch
        >>> labels = torch.arange(100) % 2
        >>> right = torch.where(torch.arange(100) < 80, 1.0, -1.0)
        >>> logits = right * (2 * labels - 1) * 5
        >>> calibrator = TemperatureScaling().fit(logits, labels)
        >>> round(calibrator.fit_result_.parameters["temperature"], 6)  # 5 / log(80 / 20)
        3.606738
        >>> round(calibrator.predict_proba(torch.tensor([5.0])).item(), 6)
        0.8
    """

    name = "temperature"
    title = "Temperature scaling"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("binary", "multiclass", "multilabel")
    mends_frequencies = False
    unit_powers: ClassVar = {"temperature": 1}
    parameter_ranges: ClassVar = {"temperature": ANY_TEMPERATURE}
    temperature: Tensor

    def __init__(self, *, objective: Objective = "nll", search: TemperatureSearch = "continuous") -> None:
        check_choice("objective", objective, OBJECTIVES)
        check_choice("search", search, get_args(TemperatureSearch))
        super().__init__()
        self.objective: Objective = objective
        self.search: TemperatureSearch = search

    def _solve(self, samples: Samples) -> Solution:
        objective = in_effect(self.objective, samples)
        solution = fit_temperature(samples, objective, self.search)
        return with_doubts_of_temperature(solution, samples, objective)

    def in_passes(self, some: Samples) -> Search:
        """Newton's method, a step in each pass over the scores."""
        return temperature_in_passes(some)

    @property
    def fits_in_pieces(self) -> bool:
        """Some passes are enough for the likelihood."""
        return self.objective == "nll" and self.search == "continuous"

    def affine(self) -> Affine:
        """Division by the temperature."""
        return scaling(self.num_outputs(), 1 / self.temperature)

    def _transform(self, scores: Tensor) -> Tensor:
        scaled = scores / self.temperature.to(scores)
        return log_softmax(scaled) if self.kind_ == "multiclass" else scaled
