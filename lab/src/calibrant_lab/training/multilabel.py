"""Training where several labels may hold at once: each is a question of its own, answered by a sigmoid."""

from __future__ import annotations

import copy
import math

import torch
from torch import Tensor, nn

from calibrant import metrics
from calibrant._math.errors import InputError, without_warnings
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import TemperatureScaling
from calibrant.losses._module import MultilabelLossModule
from calibrant_lab.data import Dataset
from calibrant_lab.training.dynamics import finite_or_none
from calibrant_lab.training.recipe import Recipe


def check_task(recipe: Recipe, dataset: Dataset, loss: nn.Module) -> None:
    """Refuse settings that do not go with the number of labels that a sample may have.

    Raises:
        InputError: If the loss is for the other kind of labels, or something is asked for that is defined
            only where each sample has one class.
    """
    own = ":" not in recipe.loss.partition("(")[0]
    if not dataset.multilabel:
        if own and isinstance(loss, MultilabelLossModule):
            raise InputError(
                f"`loss` must be one of classes: each sample of {dataset.name} has one label; "
                f"got {recipe.loss}."
            )
        return
    if own and not isinstance(loss, MultilabelLossModule | BalancedLabels):
        raise InputError(
            f"`loss` must be multilabel-focal or multilabel-focal-calibration where samples have several "
            f"labels; got {recipe.loss}: for binary cross-entropy write multilabel-focal(gamma=0)."
        )
    for setting, asked in {
        "curvature.weight": recipe.curvature.weight > 0,
        "sam.rho": recipe.sam.rho > 0,
        "record.dynamics": recipe.record.dynamics,
        "shift.corruption": bool(recipe.shift.corruption),
        "a loss that follows confidences": hasattr(loss, "update"),
    }.items():
        if asked:
            raise InputError(
                f"{setting} is for samples with one label each; those of {dataset.name} may have several."
            )


class BalancedLabels(nn.Module):
    r"""A multilabel loss in which both answers of every label weigh as much.

    A label j that a share :math:`\pi_j` of the training samples has weighs :math:`1 / 2 \pi_j` where it is 1
    and :math:`1 / 2 (1 - \pi_j)` where it is 0: on average 1. The ratio of the two is that of Rajpurkar et
    al. (CheXNet, 2017).
    """

    weights: Float[Tensor, "2 C"]

    def __init__(self, loss: MultilabelLossModule, labels: Int[Tensor, "N C"]) -> None:
        super().__init__()
        shares = labels.double().mean(dim=0)
        if not bool(((shares > 0) & (shares < 1)).all()):
            one_sided = int(((shares == 0) | (shares == 1)).int().argmax())
            raise InputError(
                f"label {one_sided} is the same in all training samples, so labels cannot be balanced; "
                "set training.class_weights to none."
            )
        self.loss = copy.copy(loss)
        self.loss.reduction = "none"
        self.register_buffer("weights", torch.stack([0.5 / (1 - shares), 0.5 / shares]).float())

    def forward(self, logits: Float[Tensor, "N C"], labels: Int[Tensor, "N C"]) -> Float[Tensor, ""]:
        """The weighted mean over all samples and labels."""
        weights = torch.where(labels == 1, self.weights[1], self.weights[0])
        return (weights * self.loss(logits, labels)).mean()


def right_answers(logits: Tensor, labels: Tensor) -> Tensor:
    """For each sample whether the likeliest class is right; with several labels the share that is."""
    if labels.ndim == 1:
        return (logits.argmax(dim=1) == labels).double()
    return ((logits > 0) == (labels == 1)).double().mean(dim=1)


def multilabel_epoch_metrics(
    logits: Float[Tensor, "N C"], labels: Int[Tensor, "N C"], *, num_bins: int
) -> dict[str, float | list[float] | None]:
    """Means over the labels of NLL, AUROC and calibration error, and the error of each.

    The accuracy is the share of right answers, all labels together. The AUROC is that of labels of which
    both answers occur. ``nll_after_temperature`` is that with a temperature for each label.

    Example:
        >>> logits = torch.tensor([[2.0, -2.0], [-2.0, 2.0], [2.0, 2.0]])
        >>> found = multilabel_epoch_metrics(logits, (logits > 0).long(), num_bins=15)
        >>> found["accuracy"], found["auroc"], [round(each, 4) for each in found["ece_by_label"]]
        (1.0, 1.0, [0.1192, 0.1192])
    """
    probs = logits.double().sigmoid()
    with without_warnings():  # rare labels, and a network that still learns, are no news
        fit = TemperatureScaling().fit(logits, labels).fit_result_
        areas = [float(each) for each in metrics.auroc(probs, labels, average="none") if each is not None]
    errors = [
        float(metrics.expected_calibration_error(told, came, num_bins=num_bins))
        for told, came in zip(probs.unbind(1), labels.unbind(1), strict=True)
    ]
    values = {
        "accuracy": float(right_answers(logits, labels).mean()),
        "nll": float(fit.before),
        "ece": sum(errors) / len(errors),
        "temperature": math.nan,  # there is one for each label
        "nll_after_temperature": float(fit.after),
        "auroc": sum(areas) / len(areas) if areas else math.nan,
    }
    return {**finite_or_none(values), "ece_by_label": errors}
