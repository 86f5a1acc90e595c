"""Limits of calibration errors in every group, with the noise of its own size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from calibrant._math.errors import InputError
from calibrant.evaluation.gate.limits_and_baseline import CheckedSamples
from calibrant.evaluation.gate.question import Question
from calibrant.evaluation.gate.result import Check
from calibrant.evaluation.judging.pooled_groups import pooled_names
from calibrant.evaluation.phrases import percent
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.resampling.events import Events
from calibrant.evaluation.subject import Subject
from calibrant.predictions import Predictions


def check_groups(
    subject: Subject,
    limits: Mapping[str, float],
    groups: Sequence[str] | None,
    *,
    procedure: Procedure,
    confidence: float,
    strict: bool,
) -> Iterator[Check]:
    """The limits of calibration errors in each group; nothing if there is one group only.

    Bonferroni's correction for the number of groups lets a model at the limit in all of them fail with
    probability about one minus ``confidence``, as it may with all samples.

    Args:
        subject: What is checked; its samples name their groups.
        limits: The largest value of each metric.
        groups: Those to check, or all.
        procedure: That of all samples.
        confidence: That of all samples.
        strict: As for all samples.

    Raises:
        InputError: If there is no such group, it holds one sample, or no limit is for groups.
    """
    wanted = {metric: limit for metric, limit in limits.items() if Question.of(metric, subject.kind).is_error}
    if groups is not None and not wanted:
        raise InputError(
            "`groups` need a limit of a calibration error; "
            'give one (`{"ece": 0.03}`, or --max-ece 0.03), or leave `groups` out.'
        )
    if subject.test is None or subject.test.groups is None or not wanted:
        return
    names = pooled(subject.test, groups)
    found: list[str] = sorted({name for name in names.tolist() if name is not None})
    if len(found) < 2 and groups is None:
        return
    own = 1 - (1 - confidence) / max(1, len(found))
    num_draws = max(procedure.num_draws, math.ceil(2 / (1 - own)))
    adjusted = replace(procedure, level=2 * own - 1, num_draws=num_draws)
    for name in found:
        rows = np.flatnonzero(names == name)
        if len(rows) == 1:  # said by `left_out`
            continue
        part = subject.test.rows(rows)
        checked = CheckedSamples(replace(subject, test=part, num_samples=len(rows)), adjusted, own, strict)
        for metric, limit in wanted.items():
            check = checked.limit(metric, limit)
            facts = "" if check.passed else _rates(checked.main_events)
            yield replace(check, group=name, sentence=f"Group {name}: {check.sentence}{facts}")


def summed_up(checks: Sequence[Check], most: int) -> tuple[list[Check], str | None]:
    """Checks of all samples, and those of groups: only failing ones if there are many."""
    of_groups = [each for each in checks if each.group is not None]
    if len(of_groups) <= most:
        return list(checks), None
    passed = sum(each.passed for each in of_groups)
    kept = [each for each in checks if each.group is None or not each.passed]
    return kept, f"{passed} checks of groups pass" if passed else None


def left_out(test: Predictions) -> str | None:
    """A note on a group of one sample, which has no other to be checked with."""
    names, counts = np.unique(pooled(test, None), return_counts=True)
    alone = [name for name, count in zip(names, counts, strict=True) if count == 1]
    return f"Group {alone[0]} was not checked: it holds one sample." if alone else None


def pooled(test: Predictions, wanted: Sequence[str] | None) -> np.ndarray:
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
    """Predicted and actual rate in the group."""
    if len(events) != 1:
        return ""
    (event,) = events
    predicted, actual = (
        float(np.average(values, weights=event.weights)) for values in (event.confidences, event.outcomes)
    )
    return f" {percent(predicted)} predicted, {percent(actual)} actual."
