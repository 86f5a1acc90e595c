"""The sample images in a report, with the answers of one or several networks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from calibrant._math.shapes import Bool, Float
from calibrant.calibrators import TemperatureScaling
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.predictions import Predictions
from calibrant.reports.sections import Section
from calibrant_lab.data import Part
from calibrant_lab.data.prepare import to_unit
from calibrant_lab.reports.run_panel import Answer, PanelRow, panel_section

EACH = 4  # images with right answers, and as many with wrong ones


def panel(
    predictions: Mapping[str, Predictions], test: Part, class_names: Sequence[str], *, seed: int = 0
) -> Section | None:
    """Four test images that the networks get right and four that they get wrong, drawn at random.

    With several networks, all must be right; images that more of them get wrong come first.

    Args:
        predictions: Predictions by name of the network; their test split is ``test``.
        test: The test samples.
        class_names: Names of the labels.
        seed: Decides which images.

    Returns:
        None where the samples are not images, or have several labels each.
    """
    inputs = test.inputs
    if inputs.ndim != 4 or inputs.shape[1] not in (1, 3) or test.labels.ndim != 1:
        return None
    before = {name: each.test.scores.double().softmax(dim=1) for name, each in predictions.items()}
    after = {name: _repaired(each) for name, each in predictions.items()}
    right = torch.stack([probs.argmax(dim=1) == test.labels for probs in before.values()])  # (networks, N)
    rows = chosen(right, seed=seed)
    return panel_section(
        [
            PanelRow(
                pixels=_pixels(inputs[row]),
                label=class_names[int(test.labels[row])],
                answers=tuple(
                    _answer(before[name][row], after[name][row], int(test.labels[row]), class_names)
                    for name in predictions
                ),
            )
            for row in rows
        ],
        list(predictions),
        text=_text(len(predictions), int(right[:, rows].all(dim=0).sum()), len(rows)),
    )


def chosen(right: Bool[Tensor, "M N"], *, seed: int) -> list[int]:
    """Indices of the images: those that all networks get right, then those that most get wrong.

    Example:
        >>> chosen(torch.tensor([[True, True, False], [True, False, False]]), seed=0)
        [0, 2, 1]
    """
    misses = (~right).sum(dim=0).numpy()
    lots = np.random.default_rng(seed).random(len(misses))
    wrong = [int(row) for row in np.lexsort((lots, -misses)) if misses[row]]
    sure = [int(row) for row in np.argsort(lots) if not misses[row]]
    return sure[:EACH] + wrong[:EACH]


def _repaired(predictions: Predictions) -> Float[Tensor, "N C"]:
    """Probabilities of the test samples after temperature scaling on the calibration samples."""
    calibrator = fit_quietly(TemperatureScaling(), Labelled.of(predictions.calibration))
    return calibrator.predict_proba(predictions.test.scores)


def _answer(
    before: Float[Tensor, " C"], after: Float[Tensor, " C"], label: int, class_names: Sequence[str]
) -> Answer:
    top = int(before.argmax())
    return Answer(
        label=class_names[top], right=top == label, before=float(before[top]), after=float(after[top])
    )


def _pixels(image: Tensor) -> Float[np.ndarray, "C H W"]:
    """Scaled into [0, 1] where they are not."""
    unit = to_unit(image)
    low, high = min(float(unit.min()), 0.0), max(float(unit.max()), 1.0)
    return ((unit - low) / (high - low)).numpy()


def _text(networks: int, right: int, total: int) -> str:
    who = "the network gets" if networks == 1 else "all networks get"
    wrong = "it gets wrong" if networks == 1 else "most of them get wrong"
    return f"{right} test images that {who} right and {total - right} that {wrong}, drawn at random."
