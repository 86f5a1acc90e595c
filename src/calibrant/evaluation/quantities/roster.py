"""Every quantity, in the order of the tables: a line each."""
# ruff: noqa: I001

from __future__ import annotations

from collections.abc import Iterable

from calibrant._math.errors import InputError
from calibrant._math.rosters import instances
from calibrant.evaluation.quantities.quantity import Kind, Quantity
from calibrant.evaluation.quantities.ece import ECE as ECE
from calibrant.evaluation.quantities.adaptive_ece import ADAPTIVE_ECE as ADAPTIVE_ECE
from calibrant.evaluation.quantities.smce import SMCE as SMCE
from calibrant.evaluation.quantities.l2_ece import L2_ECE as L2_ECE
from calibrant.evaluation.quantities.mce import MCE as MCE
from calibrant.evaluation.quantities.classwise_ece import CLASSWISE_ECE as CLASSWISE_ECE
from calibrant.evaluation.quantities.smooth_ece import SMOOTH_ECE as SMOOTH_ECE
from calibrant.evaluation.quantities.debiased_ece import DEBIASED_ECE as DEBIASED_ECE
from calibrant.evaluation.quantities.debiased_l2_ece import DEBIASED_L2_ECE as DEBIASED_L2_ECE
from calibrant.evaluation.quantities.kolmogorov_smirnov import KOLMOGOROV_SMIRNOV as KOLMOGOROV_SMIRNOV
from calibrant.evaluation.quantities.over_confidence_error import (
    OVER_CONFIDENCE_ERROR as OVER_CONFIDENCE_ERROR,
)
from calibrant.evaluation.quantities.under_confidence_error import (
    UNDER_CONFIDENCE_ERROR as UNDER_CONFIDENCE_ERROR,
)
from calibrant.evaluation.quantities.gap import GAP as GAP
from calibrant.evaluation.quantities.slope import SLOPE as SLOPE
from calibrant.evaluation.quantities.intercept import INTERCEPT as INTERCEPT
from calibrant.evaluation.quantities.nll import NLL as NLL
from calibrant.evaluation.quantities.brier import BRIER as BRIER
from calibrant.evaluation.quantities.brier_skill import BRIER_SKILL as BRIER_SKILL
from calibrant.evaluation.quantities.accuracy import ACCURACY as ACCURACY
from calibrant.evaluation.quantities.auroc import AUROC as AUROC
from calibrant.evaluation.quantities.mean_confidence import MEAN_CONFIDENCE as MEAN_CONFIDENCE
from calibrant.evaluation.quantities.mean_probability import MEAN_PROBABILITY as MEAN_PROBABILITY
from calibrant.evaluation.quantities.prevalence import PREVALENCE as PREVALENCE
from calibrant.evaluation.quantities.entropy import ENTROPY as ENTROPY
from calibrant.evaluation.quantities.entropy_correct import ENTROPY_CORRECT as ENTROPY_CORRECT
from calibrant.evaluation.quantities.entropy_incorrect import ENTROPY_INCORRECT as ENTROPY_INCORRECT
from calibrant.evaluation.quantities.high_confidence_share import (
    HIGH_CONFIDENCE_SHARE as HIGH_CONFIDENCE_SHARE,
)
from calibrant.evaluation.quantities.high_confidence_accuracy import (
    HIGH_CONFIDENCE_ACCURACY as HIGH_CONFIDENCE_ACCURACY,
)

ROSTER = instances(globals(), Quantity)


def quantities(kind: Kind, metrics: Iterable[str] = ()) -> tuple[Quantity, ...]:
    """Quantities of such predictions: the default ones, and the requested ones."""
    asked = set(metrics)
    chosen = (each for each in ROSTER if each.default or each.key in asked)
    return tuple(form for each in chosen for form in each.forms(kind))


def find(key: str, kind: Kind) -> Quantity | None:
    """The quantity that stands under a key in the data; ``None`` where it is not known here."""
    return next((form for each in ROSTER for form in each.forms(kind) if form.key == key), None)


def place(key: str) -> tuple[int, bool, str]:
    """Sorting key: the positive class before the top label, unknown keys last."""
    for number, each in enumerate(ROSTER):
        if key in {each.key, each.event_key}:
            return number, key == each.key, key
    return len(ROSTER), True, key


def extras() -> tuple[str, ...]:
    """The keys of what is measured only where it is asked for."""
    return tuple(each.key for each in ROSTER if not each.default)


def gated() -> dict[str, Quantity]:
    """Quantities that a gate compares with a baseline; those whose gate has a ``help`` also with a limit."""
    return {each.key: each for each in ROSTER if each.gate is not None}


def check_metrics(metrics: Iterable[str]) -> tuple[str, ...]:
    """Keys of quantities, each once and in the order of the tables.

    Raises:
        InputError: If there is no such quantity.
    """
    known, asked = [each.key for each in ROSTER], list(metrics)
    _check_among(asked, known, "`metrics`", "")
    return tuple(key for key in known if key in asked)


def check_added(metrics: Iterable[str]) -> tuple[str, ...]:
    """Metrics named by ``--metric``, each of which must add something to the default.

    Raises:
        InputError: If there is no such quantity, or it is always shown.
    """
    asked = list(metrics)
    shown = [each.key for each in ROSTER if each.default and each.key in asked]
    _check_among(asked, extras(), "--metric", f" {shown[0]} is always shown;" if shown else "")
    return tuple(asked)


def _check_among(asked: Iterable[str], known: Iterable[str], name: str, remark: str) -> None:
    for key in asked:
        if key not in known:
            raise InputError(
                f"{name} must name quantities that can be added; got {key!r};{remark} "
                f"there are {', '.join(extras())}."
            )
