"""Tests of the parts of calibration: the event or top label, and the classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calibrant.evaluation.judging.reduce import ArmStatistics
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.quantities import CLASSWISE_ECE
from calibrant.evaluation.quantity import EVENT
from calibrant.evaluation.resampling.calibration_test import calibration_test, furthest_of, furthest_range
from calibrant.evaluation.resampling.drawn_labels import ClassNull, joint_p_value
from calibrant.evaluation.resampling.events import Events, Vector
from calibrant.evaluation.resampling.resamples import Stream, stream_seed
from calibrant.evaluation.result import ClassRow, Kind, Part, PartName
from calibrant.evaluation.thresholds import beyond_chance, holm

MAIN_PART: dict[Kind, PartName] = {"binary": "positive class", "multilabel": "labels"}
"""The part judged first; for other kinds the top label."""


def main_events(reduced: ArmStatistics) -> tuple[Events, ...]:
    """The events that are judged first: of two classes the positive one, else the top label or the labels."""
    return reduced.events[EVENT if EVENT in reduced.events else ""]


def parts_of(
    reduced: ArmStatistics, procedure: Procedure, errors: Mapping[str, Vector], of_classes: ClassNull | None
) -> tuple[Part, ...]:
    """Tests of calibration, each with its p-value.

    - The probability of the event (positive class, top label, labels), by
      :func:`~calibrant.evaluation.resampling.calibration_test.calibration_test`; of several labels by the one
      that is furthest off.
    - If classes exclude each other, all of them: by their mean error, by the mean probability of the class
      that is furthest off, and by the steepest slope of any. All come from the same draws, so that one
      p-value is for all.

    Holm's adjustment for their number keeps the probability that a calibrated model fails any of them at or
    below one minus the level.
    """
    kind = procedure.kind
    tests = [
        calibration_test(event, procedure.num_draws, (*stream_seed(procedure.seed, Stream.NULL, place), 4))
        for place, event in enumerate(main_events(reduced))
    ]
    p = furthest_of(tests).p_value
    main = Part(
        name=MAIN_PART.get(kind, "top label"),
        holds=True,
        p_value=p,
        adjusted_p=p,
        num_draws=procedure.num_draws,
        where=furthest_range(main_events(reduced)[0]) if len(tests) == 1 else None,
    )
    found: list[Part] = [main]
    if of_classes is not None and kind == "multiclass":
        if of_classes.farthest is None:
            p, draws = float(of_classes.adjusted_p_values().min()), None
        else:
            key, furthest = CLASSWISE_ECE.key, float(np.abs(of_classes.scores).max())
            tests_of_classes = [(furthest, of_classes.farthest), (reduced.values[key], errors[key])]
            tests_of_classes += [] if of_classes.steepest is None else [of_classes.steepest]
            p, draws = joint_p_value(tests_of_classes), procedure.num_draws
        found.append(Part(name="classes", holds=True, p_value=p, adjusted_p=p, num_draws=draws))
    return in_holm(found, procedure.level)


def in_holm(parts: Sequence[Part], level: float) -> tuple[Part, ...]:
    adjusted = holm([part.p_value for part in parts])
    return tuple(
        replace(part, adjusted_p=p, holds=not beyond_chance(p, level))
        for part, p in zip(parts, adjusted, strict=True)
    )


def against_noise(
    rows: tuple[ClassRow, ...], of_classes: ClassNull | None, level: float
) -> tuple[ClassRow, ...]:
    """The rows of the classes with p-values and noise floors, corrected for the number of classes."""
    if of_classes is None:
        return rows
    p_values, floors = of_classes.adjusted_p_values(), of_classes.noise_floors(level)
    found = list(zip(p_values.tolist(), floors.tolist(), strict=True))
    if len(found) == 1:  # the two classes of a binary model are one event
        found *= len(rows)
    return tuple(
        replace(row, adjusted_p=p, noise_floor=floor) for row, (p, floor) in zip(rows, found, strict=True)
    )
