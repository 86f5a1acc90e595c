"""The demo's numbers: every loss, before and after repair, over several seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from calibrant import metrics
from calibrant._math.means import Mean, mean_of
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import build
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.demo.networks import Setting, digits, train_together
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly

FEW = Setting(side=4, num_training=400, num_calibration=600, num_epochs=100, batch_size=100)
ALL = Setting(side=8, num_training=1000, num_calibration=300, num_epochs=12, batch_size=100)

LOSSES: Mapping[str, str] = {
    "cross-entropy": "Cross-entropy",
    "focal(gamma=1)": "Focal (γ\u00a0=\u00a01)",
    "focal(gamma=2)": "Focal (γ\u00a0=\u00a02)",
    "focal(gamma=3)": "Focal (γ\u00a0=\u00a03)",
    "sample-focal": "FLSD-53",
    "focal-calibration": "FCL",
    "adafocal": "AdaFocal",
    "dual-focal": "Dual focal",
    "label-smoothing": "Label smoothing",
    "brier": "Brier",
}
"""Losses as :func:`calibrant.losses.build` takes them, and their names in papers."""

Quantity: TypeAlias = Literal["gap", "ece", "nll"]
State: TypeAlias = Literal["trained", "temperature", "focal-temperature"]
STATES: Mapping[State, str] = {
    "trained": "uncalibrated",
    "temperature": "temperature",
    "focal-temperature": "focal temperature",
}
CHANCE_DRAWS = 20


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Results of one network on its test samples in one state."""

    gap: float
    """Mean confidence minus accuracy: above zero if it is overconfident."""
    ece: float
    nll: float


@dataclass(frozen=True, kw_only=True)
class Trained:
    """One network, before and after repair."""

    error: float
    temperature: float
    seen: Mapping[State, Seen]


@dataclass(frozen=True, kw_only=True)
class Half:
    """One half of the demo."""

    setting: Setting
    num_test: int
    networks: Mapping[str, tuple[Trained, ...]]
    """Networks by loss, one for each seed."""
    chance: float
    """Mean ECE of networks as sure as cross-entropy's after temperature scaling that were calibrated."""
    logits: Float[Tensor, "N C"]
    """Logits of the first network (cross-entropy, first seed) on calibration and test samples."""
    labels: Int[Tensor, " N"]

    @property
    def num_seeds(self) -> int:
        return len(next(iter(self.networks.values())))

    def mean(self, loss: str, quantity: Quantity, state: State) -> Mean:
        return mean_of([getattr(each.seen[state], quantity) for each in self.networks[loss]])

    def change(self, loss: str, quantity: Quantity, state: State) -> Mean:
        """Return the mean difference to cross-entropy, paired by seed."""
        pairs = zip(self.networks[loss], self.networks["cross-entropy"], strict=True)
        return mean_of(
            [getattr(a.seen[state], quantity) - getattr(b.seen[state], quantity) for a, b in pairs]
        )

    def ordered(self, quantity: Quantity, state: State) -> list[str]:
        """Return the losses in ascending order of their means."""
        return sorted(self.networks, key=lambda loss: self.mean(loss, quantity, state).value)

    def changed(self, quantity: Quantity, state: State) -> tuple[list[str], list[str]]:
        """Return the losses that are lower and higher than cross-entropy, beyond noise."""
        changes = {LOSSES[loss]: self.change(loss, quantity, state) for loss in self.networks}
        lower = [title for title, change in changes.items() if change.high < 0]
        return lower, [title for title, change in changes.items() if change.low > 0]


def carry_out(
    setting: Setting, seeds: Sequence[int], *, progress: Callable[[float], None] | None = None
) -> Half:
    """Train every loss with every seed, repair, and evaluate on the test samples."""
    tell = progress or (lambda _fraction: None)
    data = digits(setting, seeds)
    logits = train_together(setting, data, list(LOSSES), seeds, progress=lambda part: tell(0.5 * part))
    held_out = torch.cat([data.calibration, data.test], dim=1)
    labels = data.labels[held_out]  # (S, k)
    networks: dict[str, tuple[Trained, ...]] = {}
    for place, loss in enumerate(LOSSES):
        networks[loss] = tuple(
            judged(mine, right, setting.num_calibration)
            for mine, right in zip(logits[place], labels, strict=True)
        )
        tell(0.5 + 0.5 * (place + 1) / len(LOSSES))
    return Half(
        setting=setting,
        num_test=data.test.shape[1],
        networks=networks,
        chance=_chance(logits[0], labels, setting.num_calibration),
        logits=logits[0, 0],
        labels=labels[0],
    )


def judged(logits: Float[Tensor, "N C"], labels: Int[Tensor, " N"], num_calibration: int) -> Trained:
    """Fit both repairs on the first samples; evaluate on the others."""
    fitted = Labelled(logits[:num_calibration], labels[:num_calibration], None)
    logits, labels = logits[num_calibration:], labels[num_calibration:]
    temperature = fit_quietly(build("temperature"), fitted)
    probs: dict[State, Tensor] = {
        "trained": logits.double().softmax(dim=1),
        "temperature": temperature.predict_proba(logits),
        "focal-temperature": fit_quietly(build("focal-temperature"), fitted).predict_proba(logits),
    }
    return Trained(
        error=1 - float(metrics.accuracy(probs["trained"], labels)),
        temperature=fitted_number(temperature.fit_result_, "temperature"),
        seen={state: _seen(each, labels) for state, each in probs.items()},
    )


def _seen(probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> Seen:
    confidences, predicted = probs.max(dim=1)
    return Seen(
        gap=float(confidences.mean() - (predicted == labels).double().mean()),
        ece=float(metrics.expected_calibration_error(probs, labels)),
        nll=float(metrics.negative_log_likelihood(probs, labels)),
    )


def _chance(logits: Float[Tensor, "S N C"], labels: Int[Tensor, "S N"], num_calibration: int) -> float:
    """Return the ECE of labels drawn from the predicted probabilities: the noise floor."""
    found: list[float] = []
    for seed, (mine, right) in enumerate(zip(logits, labels, strict=True)):
        fitted = Labelled(mine[:num_calibration], right[:num_calibration], None)
        probs = fit_quietly(build("temperature"), fitted).predict_proba(mine[num_calibration:])
        drawn = torch.multinomial(
            probs, CHANCE_DRAWS, replacement=True, generator=torch.Generator().manual_seed(seed)
        )
        found += [float(metrics.expected_calibration_error(probs, each)) for each in drawn.T]
    return sum(found) / len(found)
