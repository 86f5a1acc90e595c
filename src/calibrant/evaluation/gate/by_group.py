"""Limits of calibration errors in every group, with the noise of its own size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from calibrant._math.errors import InputError
from calibrant.evaluation.gate.limits_and_baseline import CheckedSamples
from calibrant.evaluation.gate.question import GatedQuantity
from calibrant.evaluation.gate.result import Check
from calibrant.evaluation.judging.groups import pooled_names
from calibrant.evaluation.phrases import percent
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.source import ModelSamples
from calibrant.predictions import Predictions


def check_groups(
    subject: ModelSamples,
    limits: Mapping[str, float],
    groups: Sequence[str] | None,
    *,
    procedure: Procedure,
    confidence: float,
    strict: bool,
) -> tuple[list[Check], tuple[str, ...]]:
    """The limits of calibration errors in each group, and what to say of groups that are not all checked.

    There is nothing to check if there is one group only. If a table that is read part by part has more rows
    than can be held, random ones are checked.

    Bonferroni's correction for the number of groups lets a model at the limit in all of them fail with
    probability about one minus ``confidence``, as it may with all samples.
    """
    grouped = subject.origin.has_groups
    if groups is not None and not grouped:
        raise InputError("`groups` were named, but the predictions have none; name their column.")
    wanted = {
        metric: limit for metric, limit in limits.items() if GatedQuantity.of(metric, subject.kind).is_error
    }
    if groups is not None and not wanted:
        raise InputError(
            "`groups` need a limit of a calibration error; "
            'give one (`{"ece": 0.03}`, or --max-ece 0.03), or leave `groups` out.'
        )
    if not grouped or not wanted:
        return [], ()
    test, notes = subject.origin.with_groups()
    names = _pooled(test, groups)
    sizes = Counter(name for name in names.tolist() if name is not None)
    if len(sizes) < 2 and groups is None:
        return [], notes
    alone = [name for name in sizes if sizes[name] == 1]  # what is too small is pooled: at most one
    own = 1 - (1 - confidence) / len(sizes)
    num_draws = max(procedure.num_draws, math.ceil(2 / (1 - own)))
    adjusted = replace(procedure, level=2 * own - 1, num_draws=num_draws)
    checks: list[Check] = []
    for name in sorted(set(sizes) - set(alone)):
        part = subject.of(test.rows(np.flatnonzero(names == name)), procedure.num_bins)
        checked = CheckedSamples(part, adjusted, own, strict)
        for metric, limit in wanted.items():
            check = checked.limit(metric, limit)
            facts = "" if check.passed else _rates(checked.main_events)
            checks.append(replace(check, group=name, sentence=f"Group {name}: {check.sentence}{facts}"))
    return checks, (*notes, *(f"Group {name} was not checked: it holds one sample." for name in alone))


def summed_up(checks: Sequence[Check], most: int) -> tuple[list[Check], str | None]:
    """Checks of all samples, and those of groups: only failing ones if there are many."""
    of_groups = [each for each in checks if each.group is not None]
    if len(of_groups) <= most:
        return list(checks), None
    passed = sum(each.passed for each in of_groups)
    kept = [each for each in checks if each.group is None or not each.passed]
    return kept, f"{passed} checks of groups pass" if passed else None


def _pooled(test: Predictions, wanted: Sequence[str] | None) -> np.ndarray:
    """The name under which each sample is checked; nothing for samples of groups that are not asked for."""
    groups = np.asarray(test.groups, dtype=object)
    if wanted is not None:
        sizes = Counter(groups.tolist())
        for name in wanted or ("",):
            if name not in sizes:
                known = ", ".join(sorted(sizes)[:5])
                raise InputError(f"`groups` must name groups of the file; got {name!r}; there are {known}.")
            if sizes[name] == 1:
                raise InputError(f"`groups` must name groups of two samples or more; {name!r} holds one.")
        return np.array([name if name in wanted else None for name in groups.tolist()], dtype=object)
    return pooled_names(groups, test.clusters)


def _rates(events: tuple[Events, ...]) -> str:
    if len(events) != 1:
        return ""
    (event,) = events
    predicted, actual = (
        float(np.average(values, weights=event.weights)) for values in (event.confidences, event.outcomes)
    )
    return f" {percent(predicted)} predicted, {percent(actual)} actual."
