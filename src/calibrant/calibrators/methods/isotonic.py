"""Isotonic calibration."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from calibrant._math.checks import Task, check_choice
from calibrant._math.isotonic import isotonic_blocks
from calibrant._math.shapes import Float
from calibrant.calibrators.families.bins import number_below
from calibrant.calibrators.families.events import EventCalibrator, EventMap

Ties: TypeAlias = Literal["broken", "kept"]
EventMaps: TypeAlias = Literal["one_vs_rest", "shared"]


class IsotonicCalibration(EventCalibrator):
    r"""Fit the best increasing function of the probability.

    .. math::
       \hat p_k \propto (1 - \epsilon) f_k(p_k) + \epsilon \, p_k, \qquad
       f_k = \arg\min_{f \text{ never falling}} \sum_i \left( f(p_{ik}) - [y_i = k] \right)^2

    Each f is constant on steps, straight between them and constant beyond the outermost. For binary and
    multilabel log-odds there is one function for the event, without normalisation.

    Args:
        ties: ``"broken"``: :math:`\epsilon = 1 / (N + 1)`, so that samples on one step keep their order and
            no probability is exactly zero; ``"kept"``: :math:`\epsilon = 0`.
        functions: For multiclass logits ``"one_vs_rest"``, one function for every class, or ``"shared"``, the
            same for all; with ties broken the latter keeps the predicted class and the order of the classes.

    Raises:
        InputError: If a setting is unknown.

    Note:
        Pooling adjacent violators, O(N C log N), exact: of one function there is no better one for any proper
        score (that is the certificate). Normalisation may undo the gain of several functions; where even the
        calibration samples' Brier score would rise, probabilities are left as they came, with a warning.
        Zeros left by ``ties="kept"`` count as 1e-12. Overfits below some thousand samples for each class;
        with fewer than 30 for each and ties broken, :math:`\epsilon` is chosen by cross-validation, with a
        warning.

    References:
        Zadrozny and Elkan, "Transforming Classifier Scores into Accurate Multiclass Probability Estimates",
        KDD 2002. Shared function and strict order: Zhang, Kailkhura and Han, "Mix-n-Match", ICML 2020.

    Example:
        >>> import torch
        >>> log_odds, labels = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]), torch.tensor([0, 1, 0, 1, 1])
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # five samples
        ...     calibrator = IsotonicCalibration(ties="kept").fit(log_odds, labels)
        >>> [round(p, 6) for p in calibrator.predict_proba(torch.tensor([-2.0, -1.0, 0.5, 3.0])).tolist()]
        [0.0, 0.5, 0.75, 1.0]
    """

    name = "isotonic"
    title = "Isotonic calibration"
    tried_unasked: ClassVar[tuple[Task, ...]] = ("binary", "multiclass", "multilabel")

    def __init__(self, *, ties: Ties = "broken", functions: EventMaps = "one_vs_rest") -> None:
        check_choice("ties", ties, get_args(Ties))
        check_choice("functions", functions, get_args(EventMaps))
        super().__init__()
        self.ties: Ties = ties
        self.functions: EventMaps = functions

    def _fit_event(
        self, log_odds: Float[Tensor, " N"], outcomes: Float[Tensor, " N"], weights: Float[Tensor, " N"]
    ) -> EventMap:
        blocks = isotonic_blocks(*(part.cpu().numpy() for part in (log_odds, outcomes, weights)))
        knots = torch.from_numpy(np.stack([blocks.lower, blocks.upper], axis=1).ravel())
        values = torch.from_numpy(np.repeat(blocks.values, 2))
        return EventMap(knots.to(log_odds.device), values.to(log_odds.device))

    @property
    def _mixes_where_few(self) -> bool:
        return self.ties == "broken"

    def _shared(self) -> bool:
        return self.functions == "shared"

    def _share_of_original(self, total_weight: float) -> float:
        return 1 / (total_weight + 1) if self.ties == "broken" else 0.0

    @staticmethod
    def _map_events(
        log_odds: Float[Tensor, "K N"], places: Float[Tensor, "K M"], values: Float[Tensor, "K M"]
    ) -> Float[Tensor, "K N"]:
        """Straight between the knots, constant beyond; of two knots at one place the second counts."""
        upper = number_below(places, log_odds.detach().contiguous(), or_equal=True)
        upper = upper.clamp(1, places.shape[1] - 1)
        left, right = places.gather(1, upper - 1), places.gather(1, upper)
        width = torch.where(right > left, right - left, 1)
        low = values.gather(1, upper - 1)
        return low + ((log_odds - left) / width).clamp(0, 1) * (values.gather(1, upper) - low)
