"""The parts of being calibrated: top label, classes and slope, each against chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from statistics import NormalDist

import numpy as np

from calibrant.evaluation.judging.reduce import Reduced
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.quantities.classwise_ece import CLASSWISE_ECE
from calibrant.evaluation.quantities.ece import ECE
from calibrant.evaluation.quantities.quantity import EVENT
from calibrant.evaluation.quantities.slope import SLOPE
from calibrant.evaluation.resampling.drawn_labels import ClassNull, joint_p_value
from calibrant.evaluation.resampling.events import Vector
from calibrant.evaluation.resampling.null import null_error
from calibrant.evaluation.resampling.ranking import standard_error
from calibrant.evaluation.result import ClassRow, Kind, Part, PartName
from calibrant.evaluation.thresholds import beyond_chance, holm

CLASSES_OF: dict[Kind, tuple[PartName, str]] = {
    "binary": ("positive class", ECE.event_key),
    "multiclass": ("classes", CLASSWISE_ECE.key),
    "multilabel": ("labels", ECE.key),
}
"""What stands for the classes, and the key of their error."""


def parts_of(
    reduced: Reduced, procedure: Procedure, errors: Mapping[str, Vector], of_classes: ClassNull | None
) -> tuple[Part, ...]:
    """What is to hold, each with the p-value of its quantities against their ``errors`` under calibration.

    - The top label by its calibration error.
    - The classes (positive class, labels) by their mean error, and by the mean probability of the class that
      is furthest off; both come from the same draws, so that one p-value speaks for both and for all classes.
    - The slope by its distance from one, in standard errors: the p-value fits its interval.

    Holm's adjustment for their number keeps the probability that a calibrated model fails any of them at or
    below one minus the level.
    """
    kind, values = procedure.kind, reduced.values
    found: list[tuple[PartName, float, int | None]] = []
    if kind != "multilabel":
        p = null_error(ECE.key, values[ECE.key], errors[ECE.key], procedure.level).p_value
        found.append(("top label", p, procedure.num_draws))
    if of_classes is not None:
        name, key = CLASSES_OF[kind]
        if of_classes.farthest is None:
            found.append((name, float(of_classes.adjusted_p_values().min()), None))
        else:
            furthest = float(np.abs(of_classes.scores).max())
            tests = [(furthest, of_classes.farthest), (values[key], errors[key])]
            found.append((name, joint_p_value(tests), procedure.num_draws))
    slope = SLOPE.event_key if EVENT in reduced.events else SLOPE.key
    if slope in values:
        error = standard_error(reduced.influences[slope], reduced.weights, reduced.clusters)
        distance = abs(values[slope] - 1) / error if error > 0 else 0.0
        found.append(("slope", 2 * NormalDist().cdf(-distance), None))
    adjusted = holm([p for _, p, _ in found])
    return tuple(
        Part(
            name=name,
            holds=not beyond_chance(holm_p, procedure.level),
            p_value=p,
            adjusted_p=holm_p,
            num_draws=draws,
        )
        for (name, p, draws), holm_p in zip(found, adjusted, strict=True)
    )


def with_p_values(rows: tuple[ClassRow, ...], of_classes: ClassNull | None) -> tuple[ClassRow, ...]:
    """The rows of the classes, each with the p-value of its mean probability for as many looks."""
    if of_classes is None:
        return rows
    found = of_classes.adjusted_p_values().tolist()
    if len(found) == 1:  # the two classes of a binary model are one event
        found *= len(rows)
    return tuple(replace(row, adjusted_p=p) for row, p in zip(rows, found, strict=True))
