"""Names that older studies take from the study of losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from calibrant.evaluation.quantities import QUANTITIES
from papers.arms import ArmRuns, arms_among

DIGITS = 6
"""More than the test images can tell apart."""
STAGES = ("before", "temperature", "focal-temperature")
"""Stages at which every class is measured."""
BY_ECE, BY_ADAPTIVE_ECE = "by-ece", "by-adaptive-ece"
"""Stages after a temperature that is chosen as the papers choose it."""
METRICS = ("error", "nll", "ece", "adaptive_ece", "classwise_ece", "smce", "share_above_99")
TITLES = {each.key: each.title for each in QUANTITIES} | {"share_above_99": "above 0.99"}
"""Metrics in the words of every evaluation."""
KEPT = ("train_accuracy", "stages", "parameters", "classes", "norms")
PAPERS = "temperature(objective='ece', search='grid')"
"""How the papers choose a temperature."""


def arms_of(numbers: Mapping[str, Any]) -> list[ArmRuns]:
    """The arms of a results file."""
    titles = {arm["arm"]: arm["title"] for arm in numbers["arms"]}
    return [*arms_among(numbers["arms"], titles).values()]
