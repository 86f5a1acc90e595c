"""Affine maps of logits that data of few samples hold near temperature scaling."""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._math.shapes import Float
from calibrant.calibrators.families.linear import Standardised, around_temperature
from calibrant.calibrators.fitting.cross_validation import folds_of_alike, mean_and_error
from calibrant.calibrators.fitting.regression import Fitted, Regression, regress

_SHARE = 10  # samples that each parameter needs to be left free
_FOLDS = 3
_LARGE = 2**15  # parameters; beyond, one fold of these is enough
_ROUGH = 1e-4  # gradient at which a fold's fit is good enough to be compared
_STRENGTHS = (100.0, 10.0, 1.0, 0.1, 0.01, 0.001)


def most_likely(data: Standardised, features: Tensor) -> tuple[Fitted, str | None]:
    """Without penalty, or where that overfits or has no maximum, near temperature scaling."""
    if is_overfitted(data, features):
        return cross_validated(data, features)
    num_classes = data.logits.shape[1]
    free = data.logits.new_zeros(num_classes, _width(features))
    trouble = "the likelihood has no maximum (a class that never occurs)"
    if len(data.samples.labels.unique()) == num_classes:
        fitted = regress(*around_temperature(data, features, free))
        if not fitted.unbounded:
            return fitted, None
        trouble = "the likelihood has no maximum (separable data)"
    fitted = regress(*around_temperature(data, features, free + 1 / data.samples.total_weight))
    return fitted, f"{trouble}, so departures from temperature scaling were penalised"


def is_overfitted(data: Standardised, features: Tensor) -> bool:
    """Whether there are more parameters than a tenth of the samples."""
    return _SHARE * _width(features) * data.logits.shape[1] > data.samples.total_weight


def pull(data: Standardised, features: Tensor) -> Float[Tensor, "C F"]:
    """How strongly parameters are held: C on the diagonal and on shifts, more off it, divided by N."""
    num_classes, width = data.logits.shape[1], _width(features)
    ridge = torch.full((num_classes, width), float(num_classes)).to(data.logits)
    if features.ndim == 2:
        ridge[:, :-1] = num_classes**1.5
        ridge[:, :-1].fill_diagonal_(num_classes)
    return ridge / data.samples.total_weight


def cross_validated(data: Standardised, features: Tensor) -> tuple[Fitted, str]:
    """As near to temperature scaling as held-out folds ask for, from the nearest on as long as it pays."""
    number = _width(features) * data.logits.shape[1]
    confidences = data.logits.amax(dim=1) - data.logits.logsumexp(dim=1)
    numbers, alike = folds_of_alike(confidences, data.samples.labels, _FOLDS)
    folds = [_Fold(data, features, numbers == fold) for fold in range(1 if number > _LARGE else _FOLDS)]
    tried = numbers < len(folds)
    shares = torch.where(tried, data.samples.shares, 0)
    shares = shares / shares.sum()
    base = torch.stack([fold.losses(fold.theta) for fold in folds]).sum(dim=0)
    chosen, best, error = 0.0, 0.0, 0.0
    for strength in _STRENGTHS:
        falls = base - torch.stack([fold.fitted(strength) for fold in folds]).sum(dim=0)
        gain, noise = mean_and_error(falls, shares, alike)
        if gain <= best:
            break
        chosen, best, error = strength, gain, noise
    told = f"{number} parameters are many for {data.samples.num_samples} samples, so"
    if best <= error:
        problem, centre = around_temperature(data, features, pull(data, features))
        fitted = Fitted(centre, problem.value(centre), 0.0, 1, unbounded=False)
        return fitted, f"{told} by cross-validation this is temperature scaling"
    fitted = regress(*around_temperature(data, features, chosen * pull(data, features)))
    return (
        fitted,
        f"{told} departures from temperature scaling were penalised (cross-validated: {chosen:g})",
    )


class _Fold:
    """Samples held out, and fits to the others from strong penalties to weak ones."""

    def __init__(self, data: Standardised, features: Tensor, inside: Tensor) -> None:
        self._whole, self._inside = around_temperature(data, features, pull(data, features))[0], inside
        self.theta = self._whole.centre

    def fitted(self, strength: float) -> Float[Tensor, " N"]:
        """Losses of the samples held out by a fit to the others; zero of these."""
        whole, others = self._whole, ~self._inside
        features = whole.features[others] if whole.features.ndim == 2 else whole.features[:, others]
        shares = whole.shares[others]
        problem = Regression(
            features, whole.labels[others], shares / shares.sum(), strength * whole.ridge, whole.centre
        )
        self.theta = regress(problem, self.theta, tolerance=_ROUGH).theta
        return self.losses(self.theta)

    def losses(self, theta: Float[Tensor, "C F"]) -> Float[Tensor, " N"]:
        """Losses of the samples held out; zero of the others."""
        losses = torch.logsumexp(logits := self._whole.logits(theta), dim=1)
        losses = losses - logits.gather(1, self._whole.labels[:, None])[:, 0]
        return torch.where(self._inside, losses, 0)


def _width(features: Tensor) -> int:
    return features.shape[1 if features.ndim == 2 else 0]
