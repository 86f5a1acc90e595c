"""The numbers of a run: those of the study of texts, and those of the study of exponents."""

from __future__ import annotations

from typing import Any

from calibrant.experiments.result import RunResult
from calibrant.experiments.studies.gammas.measure import kept_of as with_exponents
from calibrant.experiments.studies.texts.measure import judged
from calibrant.predictions import load_predictions


def kept_of(result: RunResult) -> dict[str, Any]:
    """What the results file keeps of a run."""
    return {
        **with_exponents(result),
        **judged(load_predictions(result.file("predictions.npz"))),
        "train_accuracy": result.rows[-1]["train_accuracy"],
        "norms": {str(row["epoch"]): row["last_layer_norm"] for row in result.rows},
    }
