"""Focal temperature scaling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from calibrant._math.checks import Task, check_choice
from calibrant._math.focal_map import focal_map_log_odds, focal_map_logits
from calibrant._math.folds import out_of_fold
from calibrant.calibrators.affine import Affine, scaling
from calibrant.calibrators.base import Calibrator
from calibrant.calibrators.fitting.cross_validation import fold_numbers, mean_and_error
from calibrant.calibrators.fitting.doubts import with_doubts_of_temperature
from calibrant.calibrators.fitting.focal_searches import (
    FocalTemperatureSearch,
    fit_focal_temperature,
    fit_focal_temperature_near,
    without_exponent,
)
from calibrant.calibrators.fitting.objectives import (
    DIFFERENTIABLE,
    OBJECTIVES,
    Objective,
    in_effect,
    judged_confidences,
    log_losses,
)
from calibrant.calibrators.fitting.passes import Search, focal_temperature_in_passes
from calibrant.calibrators.fitting.results import HIGHEST_GAMMA, LOWEST_GAMMA, Solution
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.units import ANY_TEMPERATURE

GammaSelection: TypeAlias = Literal["none", "cross_validated"]

_NUM_FOLDS = 5


class FocalTemperatureScaling(Calibrator):
    r"""Divide the logits by a temperature, then apply the focal map.

    .. math:: \hat p = \rho_\gamma(\mathrm{softmax}(z / T)), \quad T \in [10^{-4}, 10^4],\ \gamma \in (-1, 50]

    With :math:`\gamma = 0` this is temperature scaling. Every search compares its best point with
    (:math:`\gamma = 0`, T of :class:`TemperatureScaling` under the same objective), so that on its own
    objective and its own data this is never worse. Accuracy and the order of the classes stay as they are. Of
    multilabel predictions every column has its own pair.

    For binary and multilabel predictions the two parameters are nearly exchangeable (:math:`\gamma = 1` is
    :math:`T = 0.5615` to within 8e-4 in probability): compare the maps, not the parameters.

    Args:
        objective: As for :class:`TemperatureScaling`.
        search: ``"full"``: Newton's method from several starts; of a calibration error the grid, the line,
            windows beyond them, and finer ones around the best. ``"grid"``: that of Komisarenko and Kull, 9
            exponents by T = 0.01, ..., 5.00. ``"line"``: their proposal, the line of T over :math:`\gamma`
            through the best T at :math:`\gamma = 0` and 1, on T = 0.1, ..., 10.0 and 100 exponents from -0.5
            to 5.
        selection: ``"cross_validated"`` uses :math:`\gamma` only where it pays: if over five folds, whatever
            the objective, the held-out log-loss falls by more than one standard error of its fall; else this
            is temperature scaling. ``fit_result_.held_out`` tells ``gain`` and ``gain_error``. Takes the
            time of five more fits.

    Raises:
        InputError: If a setting is unknown.

    Note:
        :math:`\gamma` is kept at or above -0.999. Calibration errors jump, their optimum is partly chance,
        and they can be won by making all confidences alike, which is warned of: look at ``nll`` too.

    References:
        Komisarenko and Kull, "Improving Calibration by Relating Focal Loss, Temperature Scaling, and
        Properness", ECAI 2024.

    Example:
        >>> import torch
        >>> generator = torch.Generator().manual_seed(0)
        >>> logits = 4 * torch.randn(2000, 5, generator=generator)
        >>> labels = torch.multinomial(torch.softmax(logits / 2, dim=1), 1, generator=generator)[:, 0]
        >>> result = FocalTemperatureScaling().fit(logits, labels).fit_result_
        >>> result.before > result.compared["temperature"] >= result.after
        True
    """

    name = "focal-temperature"
    title = "Focal temperature scaling"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("multiclass",)
    mends_frequencies = False
    unit_powers: ClassVar = {"temperature": 1}
    parameter_ranges: ClassVar = {
        "temperature": ANY_TEMPERATURE,
        "gamma": (LOWEST_GAMMA, HIGHEST_GAMMA),
    }
    temperature: Tensor
    gamma: Tensor

    def __init__(
        self,
        *,
        objective: Objective = "nll",
        search: FocalTemperatureSearch = "full",
        selection: GammaSelection = "none",
    ) -> None:
        check_choice("objective", objective, OBJECTIVES)
        check_choice("search", search, get_args(FocalTemperatureSearch))
        check_choice("selection", selection, get_args(GammaSelection))
        super().__init__()
        self.selection: GammaSelection = selection
        self.objective: Objective = objective
        self.search: FocalTemperatureSearch = search

    def _solve(self, samples: Samples) -> Solution:
        objective = in_effect(self.objective, samples)
        simpler, found = fit_focal_temperature(samples, objective, self.search)
        if self.selection == "cross_validated" and found.parameters["gamma"] != 0:
            found = self._where_it_pays(samples, objective, simpler, found)
        return with_doubts_of_temperature(found, samples, objective)

    def _solve_near(self, start: Mapping[str, float], samples: Samples) -> Solution:
        objective = in_effect(self.objective, samples)
        smooth = self.search == "full" and self.selection == "none" and objective in DIFFERENTIABLE
        # For events the two are nearly exchangeable: optima lie far apart, and a full search is cheap.
        if samples.is_event or not smooth:
            return self._solve(samples)
        found = fit_focal_temperature_near(samples, objective, **start)
        return with_doubts_of_temperature(found, samples, objective)

    def _where_it_pays(
        self, samples: Samples, objective: Objective, simpler: Solution, found: Solution
    ) -> Solution:
        """Temperature scaling unless held-out log-loss falls by more than one standard error with gamma."""
        if samples.num_samples < 2 * _NUM_FOLDS:
            return without_exponent(
                simpler, found, f"gamma needs {2 * _NUM_FOLDS} samples to be cross-validated"
            )
        confidences = judged_confidences(samples, 1.0, 0.0)
        ranking = torch.maximum(confidences, 1 - confidences) if samples.is_event else confidences

        def falls_inside(inside: Tensor) -> Tensor:
            part = samples.part(inside)
            plain, focal = (
                log_losses(part, fit.parameters["temperature"], fit.parameters.get("gamma", 0.0))
                for fit in fit_focal_temperature(samples.part(~inside), objective, self.search)
            )
            return plain - focal

        falls = out_of_fold(fold_numbers(ranking, samples.correct, _NUM_FOLDS), falls_inside)
        gain, error = mean_and_error(falls, samples.shares)
        told = f"held-out log-loss falls by {gain:.1e} with gamma, standard error {error:.1e}"
        held = {"gain": gain, "gain_error": error}
        if gain > error:
            return replace(found, held_out=held, message=f"{found.message}; {told}")
        return replace(without_exponent(simpler, found, told), held_out=held)

    def in_passes(self, some: Samples) -> Search:
        """Newton's method, a step in each pass over the scores."""
        return focal_temperature_in_passes(some)

    @property
    def fits_in_pieces(self) -> bool:
        """Some passes are enough for the likelihood."""
        return self.objective == "nll" and self.search == "full" and self.selection == "none"

    def affine(self) -> Affine | None:
        """Division by the temperature, where every exponent is zero."""
        return None if bool(self.gamma.any()) else scaling(self.num_outputs(), 1 / self.temperature)

    def _transform(self, scores: Tensor) -> Tensor:
        scaled, gamma = scores / self.temperature.to(scores), self.gamma.to(scores)
        return (
            focal_map_logits(scaled, gamma)
            if self.kind_ == "multiclass"
            else focal_map_log_odds(scaled, gamma)
        )
