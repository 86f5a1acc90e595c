"""What the order of the samples tells, in place of what cells of confidence do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.evaluation.judging.reduce import Reduced
from calibrant.evaluation.parts.ranked import Ranks, Top
from calibrant.evaluation.quantities import AUROC
from calibrant.evaluation.quantity import EVENT, EventError, EventInfluence
from calibrant.evaluation.resampling.clusters import cluster_totals
from calibrant.evaluation.resampling.events import Indices, Vector

NO_INTERVAL = "no interval: there are so many classes that their order is not kept for each batch"


def refined(reduced: Reduced, top: Top, ranks: Ranks | None, filled: Indices, num_bins: int) -> Reduced:
    """Values of what bins of equal width do not know, and areas under ROC curves; ``filled`` are batches."""
    columns = {prefix: top.column(top=not prefix and EVENT in reduced.events) for prefix in reduced.events}
    values, reasons, influences = {**reduced.values}, {**reduced.reasons}, {**reduced.influences}
    for each in reduced.quantities:
        key, column = each.key, columns[each.prefix]
        match each.computed:
            case EventError() as error if (found := column.error(error, num_bins)) is not None:
                values[key] = found
            case EventInfluence() as parameter if key in values:
                line = parameter.value(column.events)
                if isinstance(line, str):
                    reasons[key] = line
                    del values[key], influences[key]
                else:
                    values[key] = line[0]
            case _:
                pass
    reduced = replace(reduced, values=values, reasons=reasons, influences=influences)
    return reduced if ranks is None else _with_areas(reduced, ranks, filled)


def _with_areas(reduced: Reduced, ranks: Ranks, filled: Indices) -> Reduced:
    """With the AUROC of all classes and of each."""
    areas, totals = ranks.areas(filled)
    known = [area for area in areas if area is not None]
    if not known:
        return replace(reduced, reasons=reduced.reasons | {AUROC.key: AUROC.undefined or ""})
    influences, no_interval = reduced.influences, {**reduced.no_interval}
    if totals is None:
        no_interval[AUROC.key] = NO_INTERVAL
    else:
        influences = influences | {AUROC.key: _spread(totals, reduced)}
    of_each = areas if len(areas) == len(reduced.classes) else areas * len(reduced.classes)
    return replace(
        reduced,
        values=reduced.values | {AUROC.key: float(np.mean(known))},
        reasons={key: why for key, why in reduced.reasons.items() if key != AUROC.key},
        influences=influences,
        no_interval=no_interval,
        classes=tuple(replace(row, auroc=area) for row, area in zip(reduced.classes, of_each, strict=True)),
    )


def _spread(totals: Vector, reduced: Reduced) -> Vector:
    """Influences of rows that sum up to what the batches with samples ``(F,)`` do."""
    weights, clusters = reduced.weights, reduced.clusters
    if weights is None or clusters is None:
        raise RuntimeError("rows of sums have weights and clusters")
    return (totals / cluster_totals(weights, clusters))[clusters] * weights.sum()
