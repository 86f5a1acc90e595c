"""The tables of the curvature study's page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibrant._math.means import Mean, mean_of
from papers.curvature import numbers
from papers.curvature.ranks import Rank, correlation
from papers.curvature.settings import ARMS, Setting
from papers.pages import loss_name, table

TRAIN = numbers.BASIC[:4]
SCALES = {
    **dict.fromkeys(("before.error", "before.ece", "after.ece", "before.smce"), 100),
    "before.nll": 1,
    "after.nll": 1,
    "before.overconfidence": 100,
    "temperature": 1,
}
"""What a table shows of each arm, and by what it is multiplied."""
JUDGED = ("before.ece", "before.smce", "before.nll", "before.overconfidence", "after.ece", "after.nll")
SHIFTED = ("before.error", *JUDGED[:3], "after.ece", "after.nll", "before.overconfidence", "temperature")
_ENDS = ("error %", "ECE %", "ECE % after T", "smCE %", "NLL", "NLL after T", "over-confidence %", "T")
_SHIFTS = (
    "n", "trace, times", "λ_max, times", "trace in train mode, times", "error", "ECE", "smCE", "NLL",
    "ECE after T", "NLL after T", "over-confidence", "T",
)  # fmt: skip
_FACTORS = tuple(
    f"{where}.cross_entropy.{name}"
    for where, name in (("train", "trace"), ("train", "lambda_max"), ("batch-statistics", "trace"))
)
PATHS = tuple((*each.key.split(".")[1:], each.title.removesuffix(", train")) for each in TRAIN)


def rank_text(found: Rank | None) -> str:
    """A correlation with its interval, bold where that leaves out zero.

    Example:
        >>> rank_text(Rank(value=-0.5, low=-0.7, high=-0.2, n=25))
        '**−0.50** (−0.70, −0.20)'
    """
    if found is None:
        return "–"
    value = _signed(found.value)
    return f"{f'**{value}**' if found.sign else value} ({_signed(found.low)}, {_signed(found.high)})"


def arms_table(every: Sequence[numbers.Run], setting: Setting, family: str) -> str:
    """The arms of a family at the end of training: mean and half the width of the 95 % interval."""
    heads = ["loss", "n", *(each.title.removesuffix(", train") for each in TRAIN), *_ENDS]
    columns = [*((each.pick, 1) for each in TRAIN)]
    columns += [(numbers.BY_KEY[key].pick, scale) for key, scale in SCALES.items()]
    lines = [
        [
            arm_name(runs[0]),
            str(len(runs)),
            *(_spread([scale * value for value in numbers.values_of(runs, pick)]) for pick, scale in columns),
        ]
        for runs in numbers.arms_of(numbers.runs_of(every, setting.key, family)).values()
    ]
    return table(heads, lines)


def arm_name(run: numbers.Run) -> str:
    """An arm in words."""
    if run["beta"]:
        return f"cross-entropy + {run['beta']:g} · trace"
    if run["radius"]:
        return f"SAM, ρ = {run['radius']:g}"
    return loss_name(run["gamma"])


def correlation_table(
    every: Sequence[numbers.Run],
    settings: Sequence[Setting],
    family: str,
    quantities: Sequence[numbers.Quantity],
    other: str,
    *,
    within: bool = False,
) -> str:
    """Rank correlation of each quantity with the exponent or an outcome, a column for each setting."""
    pick = numbers.BY_KEY[other].pick
    columns = {setting.title: numbers.runs_of(every, setting.key, family) for setting in settings}
    known = {title: runs for title, runs in columns.items() if runs}

    def cells(quantity: numbers.Quantity) -> list[str]:
        return [rank_text(correlation(of, quantity.pick, pick, within=within)) for of in known.values()]

    return table(["", *known], [[each.title, *cells(each)] for each in quantities])


def path_table(every: Sequence[numbers.Run], setting: Setting, family: str) -> str:
    """Rank correlation with γ at each checkpoint."""
    runs = numbers.runs_of(every, setting.key, family)

    def cells(loss: str, name: str, pick: numbers.Pick | None = None) -> list[str]:
        """With that number, or with the ECE at each checkpoint."""
        return [
            rank_text(correlation(runs, numbers.at_epoch(place, loss, name), pick or _ece_at(place)))
            for place in range(len(setting.checkpoints))
        ]

    lines = [[title, *cells(loss, name, numbers.GAMMA.pick)] for loss, name, title in PATHS]
    lines.append(["trace, cross-entropy, with ECE then", *cells("cross_entropy", "trace")])
    return table([setting.title, *(f"epoch {epoch}" for epoch in setting.checkpoints)], lines)


def _ece_at(place: int) -> numbers.Pick:
    return lambda run: run["path"][place]["ece"]


def judged_table(every: Sequence[numbers.Run], setting: Setting, family: str) -> str:
    """Rank correlation of curvature with every outcome, in one setting."""
    runs = numbers.runs_of(every, setting.key, family)
    lines = [
        [each.title, *(rank_text(correlation(runs, each.pick, numbers.BY_KEY[key].pick)) for key in JUDGED)]
        for each in numbers.BASIC
    ]
    return table([setting.title, *(numbers.BY_KEY[key].title for key in JUDGED)], lines)


def stability(run: numbers.Run, setting: Setting) -> float:
    r"""Own λ_max over :math:`2 (1 + m) / \eta`, where gradient descent with momentum stops being stable.

    At the last checkpoint at the full learning rate.
    """
    own = next(arm for arm in ARMS if arm.key == run["arm"]).changes(setting)
    last = [each for each in run["path"] if own.rate(each["epoch"]) == own.learning_rate][-1]
    return last["train"]["own"]["lambda_max"] * own.learning_rate / (2 * (1 + own.momentum))


def stability_table(every: Sequence[numbers.Run], settings: Sequence[Setting]) -> str:
    """Means of :func:`stability` by γ, for the usual and the low learning rate."""
    lines: list[list[str]] = []
    gammas: list[float] = sorted({run["gamma"] for run in every if run["family"] == "focal"})
    for family, said in (("focal", ""), ("focal-low-rate", ", a fifth of the rate")):
        for setting in settings:
            runs = numbers.runs_of(every, setting.key, family)
            if runs:
                shares = [
                    [stability(run, setting) for run in runs if run["gamma"] == gamma] for gamma in gammas
                ]
                lines.append([setting.title + said, *map(_spread, shares)])
    return table(["", *(loss_name(gamma) for gamma in gammas)], lines)


def penalty_table(every: Sequence[numbers.Run], setting: Setting) -> str:
    """Penalised and sharpness-aware arms against plain cross-entropy of the same seed."""
    baseline = [run for run in numbers.runs_of(every, setting.key, "focal") if run["gamma"] == 0]
    lines: list[list[str]] = []
    for family in ("trace", "sam"):
        for runs in numbers.arms_of(numbers.runs_of(every, setting.key, family)).values():
            factors = [
                numbers.difference(runs, baseline, numbers.BY_KEY[key].pick, ratio=True) for key in _FACTORS
            ]
            shifts = [
                (numbers.difference(runs, baseline, numbers.BY_KEY[key].pick), SCALES[key]) for key in SHIFTED
            ]
            cells = [*map(_factor, factors), *(_shift(each, scale) for each, scale in shifts)]
            lines.append([arm_name(runs[0]), str(len(runs)), *cells])
    return table([setting.title, *_SHIFTS], lines)


def _factor(found: Mean | None) -> str:
    """A mean of logarithms as a factor with its interval."""
    if found is None:
        return "–"
    text = f"{math.exp(found.value):.2f}"
    if found.half_width is None:
        return text
    low, high = math.exp(found.low), math.exp(found.high)
    clear = low > 1 or high < 1
    return f"{f'**{text}**' if clear else text} ({low:.2f}, {high:.2f})"


def _shift(found: Mean | None, scale: float) -> str:
    if found is None:
        return "–"
    text = _signed(scale * found.value, plus=True)
    if found.half_width is None:
        return text
    clear = abs(found.value) > found.half_width
    return f"{f'**{text}**' if clear else text} ± {scale * found.half_width:.2f}"


def _spread(values: Sequence[float]) -> str:
    """Mean ± half width."""
    if not values:
        return "–"
    found = mean_of(values)
    half = "" if found.half_width is None else f" ± {found.half_width:.2g}"
    return f"{found.value:.3g}{half}".replace("-", "−")


def _signed(value: float, *, plus: bool = False) -> str:
    text = f"{value:+.2f}" if plus else f"{value:.2f}"
    return text.replace("-", "−")
