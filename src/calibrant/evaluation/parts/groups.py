"""The table by group, from sums of batches."""

from __future__ import annotations

import numpy as np

from calibrant.evaluation.dense.cells import within_cells
from calibrant.evaluation.judging.groups import MEANS, Group, ratios_of_event, rows_of_groups
from calibrant.evaluation.judging.pooled_groups import large_groups
from calibrant.evaluation.judging.reduce import Reduced
from calibrant.evaluation.parts.kinds import AnySums
from calibrant.evaluation.parts.states import MOST_KEPT
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.resampling.events import Events, Matrix
from calibrant.evaluation.result import GroupRow

TOO_MANY = f"Groups were not tested: there are more than {MOST_KEPT}, whose sums would not fit into memory."


def rows_by_group(sums: AnySums, procedure: Procedure) -> tuple[GroupRow, ...]:
    """A row for each group, and one for all that are too small."""
    given = {name: each for name, each in (sums.groups or {}).items() if each[..., 0].any()}
    large, other = large_groups({name: int(each[..., 2].sum()) for name, each in given.items()})
    small = [each for name, each in given.items() if name not in large]
    found = {name: each for name, each in given.items() if name in large}
    if small:
        found[other] = np.sum(small, axis=0)
    return rows_of_groups([_group(name, each) for name, each in sorted(found.items())], procedure)


def _group(name: str, sums: Matrix) -> Group:
    """Sums of a group: a row for each batch, bin and outcome with some weight."""
    batch, place, hit = np.nonzero(sums[..., 0])
    mass, stated, numbers, squares = sums[batch, place, hit].T
    clusters = np.unique(batch, return_inverse=True)[1].astype(np.int64)
    right = hit.astype(np.float64)
    edges = np.arange(sums.shape[1] + 1) / sums.shape[1]
    means = within_cells(stated / mass, place, edges)
    event = Events(means, right, mass, clusters, squares, numbers)
    ratios = ratios_of_event(event)
    reduced = Reduced(
        quantities=MEANS,
        weights=mass,
        ratios=ratios,
        events={"": (event,)},
        values={key: float(above.sum() / below.sum()) for key, (above, below) in ratios.items()},
        reasons={},
        influences={},
        clusters=clusters,
    )
    return Group(name, reduced, int(sums[..., 2].sum()))
