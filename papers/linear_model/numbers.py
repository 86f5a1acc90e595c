"""What the runs of the linear-model study show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from calibrant._math.means import Mean, mean_of, paired_difference, summary
from papers.linear_model.settings import DEFAULT, GAMMAS, PRIOR_SCALE, SPREADS

_SHARES = (
    "accuracy",
    "confidence",
    "ece",
    "mistakes_confidence",
    "mistakes_truth",
    "mistakes_above_90",
    "all_above_90",
)
_SHOWN = ("norm", "angle", *_SHARES, "own_trace", "squared_trace", "risk", "curvature_price", "bound")


def numbers_of(runs: Sequence[Mapping[str, Any]], _also: Mapping[str, Any]) -> dict[str, Any]:
    """Means with intervals, and each run's own numbers; shares in per cent."""
    shown = [{**run, "arms": [_in_per_cent(arm) for arm in run["arms"]]} for run in runs]
    return {
        "setting": {name: runs[0][name] for name in vars(DEFAULT)},
        "steps": runs[0]["steps"],
        "arms": [
            {
                "gamma": gamma,
                **{name: summary([run["arms"][place][name] for run in shown]) for name in _SHOWN},
            }
            for place, gamma in enumerate(GAMMAS)
        ],
        "runs": shown,
    }


def _in_per_cent(arm: Mapping[str, Any]) -> dict[str, Any]:
    return {**arm, **{name: 100 * arm[name] for name in _SHARES}}


def each_of(numbers: Mapping[str, Any], gamma: float, name: str) -> list[float]:
    """A number of one arm, seed by seed."""
    place = GAMMAS.index(gamma)
    return [run["arms"][place][name] for run in numbers["runs"]]


def difference(numbers: Mapping[str, Any], gamma: float, name: str) -> Mean:
    """Focal loss's number less cross-entropy's, seed by seed."""
    return paired_difference(each_of(numbers, gamma, name), each_of(numbers, 0.0, name))


def words(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page needs beyond the numbers."""
    runs, focal = numbers["runs"], GAMMAS[1:]
    spreads = [
        {
            "spread": spread,
            "numbers": {
                name: [mean_of([run["spreads"][place][arm][name] for run in runs]) for arm in ("0", "1")]
                for name in ("norm", "mistakes_above_90", "ece")
            },
        }
        for place, spread in enumerate(SPREADS)
    ]
    return {
        "rest": max(arm["rest"] for run in runs for arm in run["arms"]),
        "decay": [mean_of(each_of(numbers, gamma, "implied_decay")).value for gamma in focal],
        "ahead": [step for place, step in enumerate(numbers["steps"]) if _any_ahead(numbers, place)],
        "sureness": mean_of([run["arms"][1]["confidence"] - run["arms"][1]["accuracy"] for run in runs]),
        "spreads": spreads,
        "prior_scale": PRIOR_SCALE,
        **{
            f"{name}_change": difference(numbers, 1.0, name)
            for name in ("own_trace", "squared_trace", "bound", "ece")
        },
    }


def _any_ahead(numbers: Mapping[str, Any], place: int) -> bool:
    """Whether some focal loss has the larger norm after a kept step, on any seed."""
    return any(
        arm["norms"][place] > run["arms"][0]["norms"][place]
        for run in numbers["runs"]
        for arm in run["arms"][1:]
    )
