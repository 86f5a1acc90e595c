"""Isotonic regression of an event: isotonic calibration, Venn-Abers calibration."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import Task, check_choice
from calibrant._math.errors import InputError
from calibrant._math.isotonic import Vector, isotonic_tables, venn_abers
from calibrant._math.shapes import Float
from calibrant.calibrators.fitting.samples import floor_zero_probabilities
from calibrant.calibrators.inputs import in_columns
from calibrant.calibrators.methods.events import (
    EventCalibrator,
    EventMap,
    Ordered,
    Ranked,
    Rows,
    constant_in_bins,
    number_below,
    stated,
)

Ties: TypeAlias = Literal["broken", "kept"]
EventMaps: TypeAlias = Literal["one_vs_rest", "shared"]
VennAbersMerging: TypeAlias = Literal["log", "brier"]
Steps: TypeAlias = tuple[Vector, Vector, Vector]
"""Ends, lower and upper probabilities."""


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
        calibration samples' Brier score would rise, probabilities stay unchanged, with a warning.
        Zeros left by ``ties="kept"`` count as 1e-12. Overfits below some thousand samples for each class;
        with fewer than 30 for any and ties broken, :math:`\epsilon` is chosen by cross-validation, with a
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

    def _fitted(self, ranked: Ranked) -> EventMap:
        rows = [each.cpu().numpy() for each in (ranked.log_odds, ranked.outcomes, ranked.weights)]
        if self.functions == "shared":
            order = rows[0].ravel().argsort()[None]
            rows = [each.ravel()[order] for each in rows]
        steps = isotonic_tables(*rows)
        knots = np.stack([steps.lower, steps.upper], axis=2).reshape(len(steps.lower), -1)
        tables = (knots, np.repeat(steps.values, 2, axis=1))
        places, values = (torch.from_numpy(each).to(ranked.log_odds.device) for each in tables)
        return EventMap(places, values, num_places=2 * int(steps.num_steps.sum()))

    @property
    def _mixes_where_few(self) -> bool:
        return self.ties == "broken"

    def _share_of_original(self, total_weight: float) -> float:
        return 1 / (total_weight + 1) if self.ties == "broken" else 0.0

    def _fitted_probs(self, fitted: EventMap, ranked: Ranked, log_odds: Tensor, rows: Rows) -> Tensor:
        """As :meth:`_map_events`, without a search, because the samples are in order."""
        from calibrant._math.table_kernels import interpolate  # compiled

        given = (ranked.log_odds, ranked.order, fitted.places, fitted.values)
        scores, order, places, values = (each.cpu().numpy() for each in given)
        probs = np.empty_like(scores)
        interpolate(scores, order, places, values, probs)
        return torch.from_numpy(probs).to(log_odds.device).T[rows]

    @staticmethod
    def _map_events(
        log_odds: Float[Tensor, "K N"], places: Float[Tensor, "K M"], values: Float[Tensor, "K M"]
    ) -> Float[Tensor, "K N"]:
        """Linear between the knots, constant beyond; the second of two knots at one place counts."""
        upper = number_below(places, log_odds.detach().contiguous(), or_equal=True)
        upper = upper.clamp(1, places.shape[1] - 1)
        left, right = places.gather(1, upper - 1), places.gather(1, upper)
        width = torch.where(right > left, right - left, 1)
        low = values.gather(1, upper - 1)
        return low + ((log_odds - left) / width).clamp(0, 1) * (values.gather(1, upper) - low)


class VennAbersCalibration(EventCalibrator):
    r"""Isotonic regression with a lower and an upper probability, merged into one.

    .. math:: p_0(s) = f_0(s), \quad p_1(s) = f_1(s), \qquad
       \hat p = \frac{p_1}{1 - p_0 + p_1}

    where :math:`f_y` is isotonic regression on the calibration samples and the new one, with the outcome y.
    If samples are exchangeable, one of the two probabilities (that of the outcome) is calibrated exactly,
    for any scores and any number of samples. Their distance shows how far the calibration samples determine
    the matter. In multiclass logits every class is an event against the rest, and merged probabilities are
    normalised.

    Args:
        merging: ``"log"``: as above, with the least regret of log loss in the worst case; ``"brier"``:
            :math:`p_1 + p_0^2 / 2 - p_1^2 / 2`, the same for the Brier score.
        folds: 0: all calibration samples at once (the inductive form). From 2 on, the samples are split into
            this number of folds by their scores. Each fold gives its own two probabilities, and geometric
            means merge them (the cross form, here with one model for all folds).

    Raises:
        InputError: If a setting is unknown or out of range.

    Note:
        O(N log N) a fit, by one pass over the sorted samples; the file holds every step. Never gives 0 or 1.
        Steps merge samples, as in isotonic regression; two samples of equal log-odds count as one
        place. With fewer than 30 samples of some class, a cross-validated share of the original
        probabilities is mixed in, with a warning; the result may leave the interval. If even the calibration
        samples' Brier score would rise, nothing is changed, with a warning.

    References:
        Vovk, Petej and Fedorova, "Large-scale probabilistic predictors with and without guarantees of
        validity", NIPS 2015; several classes: Manokhin, "Multi-class probabilistic classification using
        inductive and cross Venn-Abers predictors", COPA 2017.

    Example:
        >>> import warnings
        >>> log_odds, labels = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0]), torch.tensor([0, 1, 0, 1, 1])
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # five samples
        ...     calibrator = VennAbersCalibration().fit(log_odds, labels)
        >>> lower, upper = calibrator.predict_interval(torch.tensor([-3.0, 0.5, 3.0]))
        >>> [round(p, 4) for p in lower.tolist()], [round(p, 4) for p in upper.tolist()]
        ([0.0, 0.3333, 0.6667], [0.5, 1.0, 1.0])
    """

    name = "venn-abers"
    title = "Venn-Abers calibration"
    named_after_person: ClassVar[bool] = True
    parameter_ranges: ClassVar = {
        **EventCalibrator.parameter_ranges,
        "lower": (0.0, 1.0),
        "upper": (0.0, 1.0),
    }
    parameter_shapes: ClassVar = dict.fromkeys(("places", "values", "lower", "upper"), ("K", "M"))
    lower: Tensor
    upper: Tensor

    def __init__(self, *, merging: VennAbersMerging = "log", folds: int = 0) -> None:
        check_choice("merging", merging, get_args(VennAbersMerging))
        if folds < 0 or folds == 1:
            raise InputError(f"`folds` must be 0 for none, or at least 2; got {folds}.")
        super().__init__()
        self.merging: VennAbersMerging = merging
        self.folds = folds

    @torch.no_grad()
    def predict_interval(self, logits: ArrayLike) -> tuple[Tensor, Tensor]:
        """Two probabilities of each event, the lower one first.

        Args:
            logits: See :meth:`predict_proba`.

        Returns:
            Two float64 tensors of the shape that :meth:`predict_proba` gives; those of several classes are
            each class's against the rest and not normalised.

        Raises:
            InputError: If the shape is not that of the fit, or a value is NaN.
            NotFittedError: If ``fit`` was not called.
        """
        if (two := self._difference(logits)) is not None:
            odds, event = two
            low, high = self.predict_interval(odds)
            return in_columns(low, 1 - high, event), in_columns(high, 1 - low, event)
        scores = floor_zero_probabilities(self._check(logits).to(torch.float64), self.kind_)[0]
        events = stated(scores)[1] if self.kind_ == "multiclass" else scores
        flat = (events[:, None] if events.ndim == 1 else events).T.contiguous()
        # Each of several labels has its own table.
        places, lower, upper = (
            each.reshape(-1, each.shape[-1]) for each in (self.places, self.lower, self.upper)
        )
        low, high = (constant_in_bins(flat, places, each) for each in (lower, upper))
        return low.T.contiguous().view(scores.shape), high.T.contiguous().view(scores.shape)

    def _fit_event(self, samples: Ordered) -> EventMap:
        given = (samples.log_odds, samples.outcomes, samples.weights)
        parts = [part.cpu().numpy() for part in given]
        order = np.lexsort(parts[::-1])  # by log-odds first
        count = max(1, min(self.folds, len(order)))
        steps = [venn_abers(*(part[order[k::count]] for part in parts)).steps() for k in range(count)]
        ends, lower, upper = steps[0] if count == 1 else _merged(steps)
        values = upper / (1 - lower + upper) if self.merging == "log" else upper + (lower**2 - upper**2) / 2
        tables = (torch.from_numpy(each).to(samples.log_odds) for each in (ends, values, lower, upper))
        places, merged, low, high = tables
        return EventMap(places, merged, further={"lower": low, "upper": high})


def _merged(parts: list[Steps]) -> Steps:
    """One step function from the folds' functions, by geometric means of either outcome's probabilities."""
    ends = np.unique(np.concatenate([own[:-1] for own, _, _ in parts]))
    at = [np.append(np.searchsorted(own[:-1], ends), -1) for own, _, _ in parts]  # the step of each end
    lows = np.stack([lower[place] for place, (_, lower, _) in zip(at, parts, strict=True)])
    highs = np.stack([upper[place] for place, (_, _, upper) in zip(at, parts, strict=True)])
    with np.errstate(divide="ignore"):
        low, high = 1 - np.exp(np.log1p(-lows).mean(axis=0)), np.exp(np.log(highs).mean(axis=0))
    return np.append(ends, max(own[-1] for own, _, _ in parts)), low, high
