"""Draws from the null distribution of one arm's errors, shared by p-values, bands and intervals."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from calibrant._math.machine import at_once, give_back, in_threads
from calibrant.evaluation.arguments import Procedure
from calibrant.evaluation.judging.reduce import ArmStatistics
from calibrant.evaluation.quantity import EVENT, ClassErrors, EventError, Quantity
from calibrant.evaluation.resampling.event_cells import (
    BinnedEvents,
    Kernel,
    ResidualSums,
    joined,
    smooth_errors,
)
from calibrant.evaluation.resampling.events import Events, Matrix, Vector
from calibrant.evaluation.resampling.intervals import beyond_chance
from calibrant.evaluation.resampling.inversion import Inverted, invert
from calibrant.evaluation.resampling.null import (
    ClassNull,
    NullDraws,
    cells_of,
    draw_null,
    draw_values,
    fewest_draws,
    noise_of,
    null_error,
    num_noise,
)
from calibrant.evaluation.resampling.resamples import Stream, stream_seed
from calibrant.evaluation.result import NullError

MOST_KEPT = 1 << 24  # residual sums that are kept for all events of an arm: 128 MiB
SUMS_OF_AN_EVENT = 600  # about: cells of score, and bins of two kinds
NUM_POINTS = 64


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Draws under calibration of all events of an arm, by the quantities' prefix, and of its classes."""

    reduced: ArmStatistics
    procedure: Procedure
    places: Mapping[str, tuple[BinnedEvents, ...]]
    drawn: Mapping[str, tuple[NullDraws, ...]]
    classes: ClassNull | None
    _cells: dict[tuple[str, Kernel | None], tuple[ResidualSums, Matrix]] = field(
        default_factory=dict, init=False, repr=False
    )
    _errors: dict[str, Vector | None] = field(default_factory=dict, init=False, repr=False)
    _inverted: dict[tuple[str, Kernel | None], Inverted] = field(default_factory=dict, init=False, repr=False)

    def errors(self, quantity: Quantity) -> Vector | None:
        """The errors under calibration ``(R,)``; ``None`` if they are not drawn."""
        if quantity.key not in self._errors:
            self._errors[quantity.key] = self._errors_of(quantity)
        return self._errors[quantity.key]

    def _errors_of(self, quantity: Quantity) -> Vector | None:
        computed = quantity.computed
        if isinstance(computed, ClassErrors):
            if self.classes is not None:
                return self.classes.errors
            drawn = self.drawn.get(EVENT, self.drawn[""])
            return np.mean([each.errors["width l1"] for each in drawn], axis=0)
        if not isinstance(computed, EventError):
            return None
        if computed.kernel is None:
            return self._values(computed, quantity.prefix) if computed.null else None
        drawn = self.drawn[quantity.prefix]
        if computed.kernel in drawn[0].errors:
            return np.mean([each.errors[computed.kernel] for each in drawn], axis=0)
        cells, sums = self.target((quantity.prefix, computed.kernel))
        return cells.error(sums)

    def _values(self, computed: EventError, prefix: str) -> Vector:
        """Drawn errors that no kernel computes from sums."""
        procedure, events = self.procedure, self.reduced.events[prefix]
        seeds = [(*stream_seed(procedure.seed, Stream.NULL, part), 1) for part in range(len(events))]
        draws = [
            draw_values(event, computed.value, procedure.num_bins, procedure.num_draws, seed)
            for event, seed in zip(events, seeds, strict=True)
        ]
        return np.mean(draws, axis=0)

    def null(self, quantity: Quantity) -> NullError | None:
        errors = self.errors(quantity)
        if errors is None or quantity.key not in self.reduced.values:
            return None
        observed, kernel = self.reduced.values[quantity.key], quantity.computed.kernel
        if kernel is not None:
            cells, _ = self.target((quantity.prefix, kernel))
            observed = cells.observed  # over cells, as the draws and the interval
        return null_error(quantity.key, observed, errors, self.procedure.level)

    def inverted(self, quantity: Quantity) -> Inverted | None:
        """The interval by inversion; ``None`` if the quantity has another one, or none."""
        key = self.key(quantity)
        if key is None:
            return None
        if key not in self._inverted:
            prefix, kernel = key
            cells, noise = self.target(key)
            if kernel == "smooth":
                cells, noise = coarse_smooth_noise(self.places[prefix], self.drawn[prefix])
            null, level = self.null(quantity), self.procedure.level
            real = None if null is None else beyond_chance(null.p_value, level)
            some = noise[: num_noise(cells.num_cells, len(noise), level)]
            self._inverted[key] = invert(cells, some, level, real=real, seed=self.procedure.seed)
        return self._inverted[key]

    def key(self, quantity: Quantity) -> tuple[str, Kernel | None] | None:
        """Prefix and kernel of the inverted error; ``None`` if the interval is another."""
        computed = quantity.computed
        if quantity.key not in self.reduced.values or quantity.key in self.reduced.no_interval:
            return None
        if computed.target is not None:
            return quantity.prefix, computed.target
        if not isinstance(computed, ClassErrors):
            return None
        if self.classes is not None:
            return "", None
        return EVENT if EVENT in self.places else "", "width l1"

    def target(self, key: tuple[str, Kernel | None]) -> tuple[ResidualSums, Matrix]:
        """The residual sums of an error and their noise ``(R', M)``; no kernel means all classes."""
        prefix, kernel = key
        if kernel is None:
            if self.classes is None or self.classes.cells is None or self.classes.noise is None:
                raise RuntimeError("no noise was drawn for the classes")
            return self.classes.cells, self.classes.noise
        if key not in self._cells:
            self._cells[key] = noise_of(self.places[prefix], self.drawn[prefix], kernel)
        return self._cells[key]


def draw_noise(reduced: ArmStatistics, procedure: Procedure) -> Noise:
    pairs = [(event, part) for events in reduced.events.values() for part, event in enumerate(events)]
    least, room = fewest_draws(procedure.level), MOST_KEPT // (SUMS_OF_AN_EVENT * max(1, len(pairs)))
    num_kept = min(procedure.num_draws, max(least, room))

    def draw(pair: tuple[Events, int]) -> tuple[BinnedEvents, NullDraws]:
        cells = BinnedEvents(pair[0], procedure.num_bins)
        give_back(reduced.num_samples)
        seed = stream_seed(procedure.seed, Stream.NULL, pair[1])
        draws = draw_null(cells, procedure.num_draws, seed, num_kept=num_kept)
        give_back(reduced.num_samples)
        return cells.summed(), draws

    drawn = iter(in_threads(draw, pairs, most=at_once(reduced.num_samples)))
    parts = {prefix: tuple(itertools.islice(drawn, len(events))) for prefix, events in reduced.events.items()}
    classes = None
    null = reduced.class_null or (None if reduced.class_table is None else reduced.class_table.null)
    if null is not None:
        seed = (*stream_seed(procedure.seed, Stream.NULL), 2)
        classes = null(procedure.num_draws, seed, procedure.level)
    return Noise(
        reduced=reduced,
        procedure=procedure,
        places={prefix: tuple(cells for cells, _ in part) for prefix, part in parts.items()},
        drawn={prefix: tuple(draws for _, draws in part) for prefix, part in parts.items()},
        classes=classes,
    )


def coarse_smooth_noise(
    places: Sequence[BinnedEvents], drawn: Sequence[NullDraws]
) -> tuple[ResidualSums, Matrix]:
    """Residual sums and noise of the smooth error; more than 64 points are pooled in cells of width 1/64.

    A residual moves by at most 1/64, and a gap, which is constant in a bin, keeps its mean. The error changes
    by about a hundredth of its noise, and the search takes a fifth of the time.
    """
    cells, noise = zip(*(_gathered(*pair) for pair in zip(places, drawn, strict=True)), strict=True)
    return joined(cells), np.ascontiguousarray(np.concatenate(noise, axis=1))


def _gathered(place: BinnedEvents, drawn: NullDraws) -> tuple[ResidualSums, Matrix]:
    fine, noise, points = (
        cells_of(place, drawn, "smooth"),
        drawn.sums[:, place.rows("score")],
        place.scores.points,
    )
    if len(points) <= NUM_POINTS:
        return fine, noise
    _, starts, index = np.unique((points * NUM_POINTS).astype(int), return_index=True, return_inverse=True)
    mass = np.bincount(fine.cell, fine.mass, len(points))
    total = np.add.reduceat(mass, starts)
    moved = np.add.reduceat(mass * points, starts)
    centres = np.divide(moved, total, out=points[starts], where=total > 0)
    cells = replace(fine, cell=index[fine.cell], num_cells=len(starts), error=smooth_errors(centres))
    return cells, np.add.reduceat(noise, starts, axis=1)
