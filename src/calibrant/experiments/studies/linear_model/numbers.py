"""What the runs of the linear-model study show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from calibrant.experiments.means import Mean, mean_of, paired_difference, rounded, summary
from calibrant.experiments.studies.linear_model.settings import DEFAULT, GAMMAS, PRIOR_SCALE, SPREADS

PICKS: Mapping[str, Callable[[Mapping[str, Any]], float]] = {
    "norm": lambda arm: arm["norm"],
    "angle": lambda arm: arm["angle"],
    "accuracy": lambda arm: 100 * arm["accuracy"],
    "confidence": lambda arm: 100 * arm["confidence"],
    "ece": lambda arm: 100 * arm["ece"],
    "mistakes_confidence": lambda arm: 100 * arm["mistakes_confidence"],
    "mistakes_truth": lambda arm: 100 * arm["mistakes_truth"],
    "mistakes_above_90": lambda arm: 100 * arm["mistakes_above_90"],
    "all_above_90": lambda arm: 100 * arm["all_above_90"],
    "own_trace": lambda arm: arm["own_trace"],
    "squared_trace": lambda arm: arm["bound"]["trace"],
    "risk": lambda arm: arm["bound"]["risk"],
    "curvature_price": lambda arm: arm["bound"]["curvature_price"],
    "bound": lambda arm: arm["bound"]["value"],
}


def numbers_of(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means with intervals, and each run's own numbers."""
    return {
        "setting": {name: runs[0][name] for name in vars(DEFAULT)},
        "steps": list(runs[0]["steps"]),
        "arms": [
            {
                "gamma": gamma,
                **{name: summary([pick(run["arms"][place]) for run in runs]) for name, pick in PICKS.items()},
            }
            for place, gamma in enumerate(GAMMAS)
        ],
        "runs": [
            {
                "seed": run["seed"],
                "arms": [_arm(run, place) for place in range(len(GAMMAS))],
                "spreads": [
                    {name: _rounded(value) for name, value in spread.items()} for spread in run["spreads"]
                ],
            }
            for run in runs
        ],
    }


def _arm(run: Mapping[str, Any], place: int) -> dict[str, Any]:
    arm = run["arms"][place]
    return {
        "gamma": GAMMAS[place],
        **{name: rounded(pick(arm)) for name, pick in PICKS.items()},
        "weights": [rounded(each) for each in arm["weights"]],
        "rest": rounded(arm["rest"]),
        "logits": rounded(run["logits"][place][-1]),
        "implied_decay": rounded(run["decay"][place][-1]),
        "norms": [rounded(norm) for norm in run["norms"][place]],
    }


def _rounded(value: float | Mapping[str, float]) -> Any:
    if isinstance(value, Mapping):
        return {name: rounded(each) for name, each in value.items()}
    return value


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
