"""Evaluate a network with an extra neutral class, by two conventions.

Its logits are log-probabilities of two classes among three. Their softmax renormalises them; their
exponential leaves the neutral class's share out, as Mukhoti et al. (2020) do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError, without_warnings
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import Calibrator, TemperatureScaling
from calibrant.calibrators.fitting.results import fitted_number
from calibrant.metrics import expected_calibration_error
from calibrant.predictions import Predictions
from calibrant.reports.sections import Section, SectionTable
from calibrant.reports.words import number
from calibrant_lab.training.loss import LabelsParts
from calibrant_lab.training.recipe import Recipe

Convention = Literal["renormalised", "struck"]
CONVENTIONS: tuple[Convention, ...] = ("renormalised", "struck")
_GRID = torch.arange(1, 101, dtype=torch.float64) / 10


def strikes_neutral(model: nn.Module) -> bool:
    """Return True if the network learns a neutral class that its logits omit."""
    return bool(getattr(model, "strikes_neutral", False))


def check_convention(recipe: Recipe, model: nn.Module) -> None:
    if recipe.evaluation.sst_binary == "struck" and not strikes_neutral(model):
        raise InputError(
            f"evaluation.sst_binary must be renormalised: {recipe.model} learns no neutral class."
        )
    if recipe.training.class_weights == "balanced" and isinstance(model, LabelsParts):
        raise InputError(f"training.class_weights must be none: {recipe.model} learns from parts of samples.")


def with_neutral(logits: Float[Tensor, "N 2"]) -> Float[Tensor, "N 3"]:
    """Return log-probabilities of all three classes, neutral in the middle, in float64."""
    wide = logits.double()
    rest = (1 - wide.exp().sum(dim=1)).clamp(min=1e-12)
    return torch.stack([wide[:, 0], rest.log(), wide[:, 1]], dim=1)


def probs_of(
    logits: Float[Tensor, "N 2"], convention: Convention, *, temperature: float = 1.0
) -> Float[Tensor, "N 2"]:
    """Return probabilities of the two classes; the temperature applies before neutral is struck out."""
    if convention == "renormalised":
        return (logits.double() / temperature).softmax(dim=1)
    return (with_neutral(logits) / temperature).softmax(dim=1)[:, ::2]


def top_event(probs: Float[Tensor, "N 2"], labels: Int[Tensor, " N"]) -> tuple[Tensor, Tensor]:
    """Return confidences in the more probable class, and correctness."""
    confidences, predicted = probs.max(dim=1)
    return confidences, (predicted == labels).long()


def top_label_error(probs: Float[Tensor, "N 2"], labels: Int[Tensor, " N"], *, num_bins: int) -> float:
    """Return the ECE of the more probable class, for any sum of probabilities."""
    return float(expected_calibration_error(*top_event(probs, labels), num_bins=num_bins))


def best_of_grid(error: Callable[[float], float]) -> float:
    """Return the lowest best temperature on the grid of Mukhoti et al. (2020): 0.1, 0.2, … 10."""
    return min(_GRID.tolist(), key=error)


def fitted_under(
    convention: Convention, calibrator: Calibrator, logits: Float[Tensor, "N 2"], labels: Int[Tensor, " N"]
) -> Calibrator:
    """Fit a calibrator on the two classes, or on all three if neutral is struck out."""
    with without_warnings():
        if convention == "renormalised":
            return calibrator.fit(logits.double(), labels)
        return calibrator.fit(with_neutral(logits), labels * 2)


def conventions_of(
    logits: Mapping[str, Tensor], labels: Mapping[str, Tensor], *, num_bins: int
) -> dict[str, Any]:
    """Return test error and ECE by both conventions, before and after temperatures by NLL and by ECE."""
    found: dict[str, Any] = {"num_test": len(labels["test"]), "num_bins": num_bins}
    found["error"] = float((logits["test"].argmax(dim=1) != labels["test"]).double().mean())
    for convention in CONVENTIONS:

        def error(temperature: float, split: str, convention: Convention = convention) -> float:
            probs = probs_of(logits[split], convention, temperature=temperature)
            return top_label_error(probs, labels[split], num_bins=num_bins)

        scaling = fitted_under(convention, TemperatureScaling(), logits["calibration"], labels["calibration"])
        temperatures = {
            "before": 1.0,
            "by_nll": fitted_number(scaling.fit_result_, "temperature"),
            "by_ece": best_of_grid(partial(error, split="calibration")),
        }
        found[convention] = {
            state: {"temperature": temperature, "ece": error(temperature, "test")}
            for state, temperature in temperatures.items()
        }
    return found


def struck_predictions(
    logits: Float[Tensor, "N 2"], labels: Int[Tensor, " N"], split: Int[Tensor, " N"]
) -> Predictions:
    """Return confidences and correctness as predictions, as probabilities need not sum to one."""
    confidences, predicted = probs_of(logits, "struck").max(dim=1)
    return Predictions(confidence=confidences, correct=predicted == labels, labels=labels, split=split)


def convention_section(found: Mapping[str, Any], judged: Convention) -> Section:
    rows: list[tuple[str, ...]] = []
    for convention in CONVENTIONS:
        before, *after = (found[convention][state] for state in ("before", "by_nll", "by_ece"))
        temperatures = [number(each[key]) for each in after for key in ("ece", "temperature")]
        rows.append((convention, number(found["error"]), number(before["ece"]), *temperatures))
    how = {
        "renormalised": "the probabilities of negative and positive are divided by their sum.",
        "struck": "the share of the neutral class is left out, so confidences may lie below one half.",
    }
    return Section(
        title="The neutral class, struck out or renormalised",
        text=(
            "The network learned a neutral class that no sentence of the task has.",
            f"This report judges it {judged}: {how[judged]}",
        ),
        table=SectionTable(
            label="The test samples under both conventions",
            groups=(("", 3), ("T by NLL", 2), ("T by ECE", 2)),
            columns=("Convention", "Error", "ECE", "ECE", "T", "ECE", "T"),
            rows=tuple(rows),
        ),
        note=f"Top-label ECE of {found['num_test']} test samples in {found['num_bins']} bins. Temperatures "
        "are fitted on the calibration samples; where neutral is struck out they divide the logits of all "
        "three classes. Mukhoti et al. (2020) strike it out and choose T by ECE among 0.1, 0.2, … 10.",
    )
