"""The runs of arms, by seed, as studies of trainings compare them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from calibrant._math.means import Mean, mean_of
from calibrant_lab.sweep.matching import Wanted, matches

Run: TypeAlias = Mapping[str, Any]
"""One run: ``stages``, ``parameters``, ``classes``, ``norms``, and its settings."""
Pick: TypeAlias = Callable[[Run], float]


@dataclass(frozen=True, kw_only=True)
class ArmRuns:
    """The finished runs of one arm, by seed."""

    key: str
    title: str
    runs: Mapping[int, Run]

    def mean(self, pick: Pick) -> Mean:
        """A number of each run, over the seeds."""
        return mean_of([pick(run) for run in self.runs.values()])

    def metric(self, stage: str, name: str) -> Mean:
        """A metric on the test split, before or after a calibrator."""
        return self.mean(lambda run: run["stages"][stage][name])

    def parameter(self, name: str) -> Mean:
        """A fitted parameter: ``temperature``, ``ece_temperature``, ``focal_temperature`` or ``gamma``."""
        return self.mean(lambda run: run["parameters"][name])


def difference(first: ArmRuns, second: ArmRuns, pick: Pick) -> Mean | None:
    """Mean of first minus second over the seeds that both have; None without any."""
    shared = [seed for seed in first.runs if seed in second.runs]
    if not shared:
        return None
    return mean_of([pick(first.runs[seed]) - pick(second.runs[seed]) for seed in shared])


def shared(*arms: ArmRuns) -> list[ArmRuns]:
    """The arms, each with only the seeds that all of them have.

    Example:
        >>> one, two = (ArmRuns(key="", title="", runs={0: {}, seed: {}}) for seed in (1, 2))
        >>> [list(arm.runs) for arm in shared(one, two)]
        [[0], [0]]
    """
    seeds = [seed for seed in arms[0].runs if all(seed in arm.runs for arm in arms)]
    return [replace(arm, runs={seed: arm.runs[seed] for seed in seeds}) for arm in arms]


def arms_among(rows: Iterable[Mapping[str, Any]], titles: Mapping[str, str]) -> dict[str, ArmRuns]:
    """The arms of a list of such, by key."""
    return {
        row["arm"]: ArmRuns(
            key=row["arm"], title=titles[row["arm"]], runs={run["seed"]: run for run in row["runs"]}
        )
        for row in rows
    }


def arms_where(
    rows: Iterable[Mapping[str, Any]], name: str, value: str, titles: Mapping[str, str]
) -> dict[str, ArmRuns]:
    """The arms of the row that has this value under a name, by key; none without such a row."""
    return arms_among(next((row["arms"] for row in rows if row[name] == value), []), titles)


def runs_by_arm(
    runs: Iterable[Run], arms: Mapping[str, Wanted], names: Sequence[str]
) -> list[dict[str, Any]]:
    """The runs of every arm that has some, by seed: of each run what is named, as far as it has it."""
    ordered = sorted(runs, key=lambda run: run["seed"])
    found = {key: [run for run in ordered if matches(run, wanted)] for key, wanted in arms.items()}
    return [
        {"arm": key, "runs": [{name: run[name] for name in ("seed", *names) if name in run} for run in own]}
        for key, own in found.items()
        if own
    ]
