"""What the functions of the theory refuse, and the sentence that says so."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from calibrant import InputError, losses
from calibrant import theory as t

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: t.proper_focal_losses([0.5], gamma=-1), "`gamma` must be finite and greater than -1"),
    (lambda: t.proper_focal_weight([[0.5, 0.5]], gamma=1), r"`probs` must have shape \(N,\); got \(1, 2\)"),
    (lambda: t.proper_focal_weight([0.0], gamma=1), r"`probs` must be strictly between 0 and 1"),
    (
        lambda: t.entropy_bound([[0.5, 0.5]], [[0.5, 0.25, 0.25]], gamma=1),
        r"`probs` must have the shape of `posterior`, \(1, 2\)",
    ),
    (
        lambda: t.entropy_regularised_minimiser([[0.5, 0.5]], weight=-1),
        "`weight` must be finite and not negative; got -1",
    ),
    (lambda: t.entropy_shift([[0.5, 0.5]], gamma=-1), r"`gamma` must be finite and greater than -1"),
    (
        lambda: t.focal_calibration_minimiser([0.5], gamma=-0.5, calibration_weight=1),
        r"`gamma` must be finite and not negative; got -0\.5",
    ),
    (
        lambda: t.focal_calibration_root(gamma=1, calibration_weight=-1),
        "`calibration_weight` must be finite and not negative; got -1",
    ),
    (
        lambda: t.focal_calibration_phi(1.0, gamma=1, calibration_weight=1),
        r"`v` must be inside \(0, 1\); got 1",
    ),
    (lambda: t.gradient_factor([0.5, 1.5], gamma=1), r"`p` must be between 0 and 1; got 1\.5"),
    (lambda: t.logit_curvature(math.nan, gamma=1), r"`p` must be between 0 and 1; got nan"),
    (lambda: t.gradient_threshold(gamma=-1), r"`gamma` must be finite and greater than -1"),
    (lambda: t.lambert_branches(1.0), r"`p0` must be inside \(0, 1\); got 1"),
    (
        lambda: t.implied_weight_decay([0.5], [1], gamma=1, weight_norm=0.0),
        r"`weight_norm` must be positive; got 0",
    ),
    (
        lambda: t.properness(losses.focal_loss, num_posteriors=0),
        r"`num_posteriors` must be at least 1 and `num_classes`.*got 0",
    ),
    (lambda: t.convexity(losses.focal_loss, space="odds"), r"`space` must be one of"),
    (
        lambda: t.risk_minimiser(lambda logits, _: logits, [0.5, 0.5]),
        r"`loss` must give one value, or one per sample.*got shape",
    ),
    (
        lambda: t.risk_minimiser(losses.MMCELoss(), [0.5, 0.5], batch_size=3),
        r"`batch_size` must make every class a whole number.*got 3",
    ),
    (lambda: t.temperature_bounds(-1), "`gamma` must be finite and greater than -1"),
    (
        lambda: t.temperature_bounds(1, num_classes=1),
        "`num_classes` must be a whole number, at least 2; got 1",
    ),
    (lambda: t.temperature_bounds(1, max_log_odds=0), "`max_log_odds` must be above 0; got 0"),
    (lambda: t.temperature_bounds(1, num_classes=3, max_log_odds=2), "`max_log_odds` must be left out"),
    (lambda: t.confidence_threshold(-1), "`gamma` must be finite and greater than -1"),
    (lambda: t.confidence_threshold(math.nan), "`gamma` must be finite and greater than -1"),
    (lambda: t.closest_temperature(1, 3, max_logit=-1), "`max_logit` must be above 0 and finite; got -1"),
]
MAPS = [t.focal_calibration_map, t.inverse_focal_calibration_map]
LOGIT_MAPS = [t.focal_calibration_map_logits, t.inverse_focal_calibration_map_logits]
OF_MAPS = [
    *(
        (MAPS + LOGIT_MAPS, [[0.5, 0.5]], g, r"`gamma` must be finite and greater than -1.*got")
        for g in (-1, -2.5)
    ),
    *((MAPS + LOGIT_MAPS, [[0.5, 0.5]], g, r"finite and greater than -1.*got") for g in (math.nan, math.inf)),
    (MAPS, [[0.5, 0.4]], 1.0, r"row 0 sums to 0\.9"),
    (MAPS, [[0.5, 0.5], [-0.1, 1.1]], 1.0, r"row 1 holds"),
    (MAPS, [0.5, math.nan], 1.0, r"`probs` must be between 0 and 1"),
    (MAPS, [[0.7]], 1.0, r"at least two columns"),
    (MAPS, 0.7, 1.0, r"shape \(N,\) or \(N, C\)"),
    (LOGIT_MAPS, [[0.0, 1.0], [0.0, math.nan]], 1.0, r"`logits` must be finite or -inf; row 1 holds"),
    (LOGIT_MAPS, [[0.0, 1.0], [0.0, math.inf]], 1.0, r"`logits` must be finite or -inf; row 1 holds"),
]


@pytest.mark.parametrize(("maps", "scores", "gamma", "sentence"), OF_MAPS)
def test_bad_arguments_of_maps_are_refused(maps: Any, scores: Any, gamma: float, sentence: str) -> None:
    for function in maps:
        with pytest.raises(InputError, match=sentence):
            function(scores, gamma=gamma)


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_bad_arguments_are_refused(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises((InputError, TypeError), match=sentence):
        call()
