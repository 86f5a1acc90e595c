"""The objective over exponent and temperature, and what is found on it."""

import dataclasses
import functools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from calibrant import CalibrantWarning, InputError
from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE
from calibrant._math.focal_map_inverse import inverse_focal_map_logits
from calibrant.calibrators import FocalTemperatureScaling, Place, TemperatureScaling
from calibrant.calibrators.fitting.objectives import objective_value
from calibrant.calibrators.fitting.results import HIGHEST_GAMMA, LOWEST_GAMMA
from calibrant.calibrators.fitting.samples import Samples
from calibrant_lab.figures import Landscape, objective_landscape
from calibrant_lab.figures.landscape import middle, shown_gammas

pytestmark = [
    pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning"),
    pytest.mark.usefixtures("few_points"),
]


def drawn(num_samples: int = 300, *, gamma: float = 0.0, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Logits that the focal map with this exponent and T = 2 would calibrate, and labels of five classes."""
    generator = torch.Generator().manual_seed(seed)
    truth = 2 * torch.randn(num_samples, 5, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(truth, dim=1), 1, generator=generator)[:, 0]
    return 2 * inverse_focal_map_logits(torch.log_softmax(truth, dim=1), gamma), labels


@functools.cache
def shared(objective: Any) -> Landscape:
    """The landscape over 200 samples whose true exponent is 1, with two refits; several tests read it."""
    return objective_landscape(*drawn(200, gamma=1.0), objective=objective, num_resamples=2, seed=8)


@functools.cache
def needing_the_exponent() -> Landscape:
    return objective_landscape(*drawn(3000, gamma=4.0), num_resamples=30)


@pytest.mark.parametrize("objective", ["nll", "ece", "smce", "classwise"])
def test_points_are_those_of_the_calibrators(objective) -> None:
    """The chosen point, exponent 0 and the best of the line are what the calibrators find."""
    logits, labels = drawn(200, gamma=1.0)
    found = shared(objective)
    full = FocalTemperatureScaling(objective=objective).fit(logits, labels)
    line = FocalTemperatureScaling(objective=objective, search="line").fit(logits, labels)
    plain = TemperatureScaling(objective=objective).fit(logits, labels)
    assert found.chosen == (float(full.gamma), float(full.temperature), full.fit_result_.after)
    assert found.plain == (0.0, float(plain.temperature), plain.fit_result_.after)
    least = min(found.best_on_line.value, found.plain.value)
    assert least == pytest.approx(line.fit_result_.after, abs=2e-12)  # by which it must be better


@pytest.mark.parametrize(
    ("objective", "relative", "absolute"),
    [
        ("nll", 2e-3, 0),
        ("classwise", 1e-12, 0),
        *((jumping, 1e-7, 2 * 2 / 200) for jumping in ("ece", "smce")),
    ],
)
def test_table_is_the_objective(objective, relative, absolute) -> None:
    """Interpolation is invisible, or puts a sample or two of what jumps into another bin."""
    found = shared(objective)
    samples = Samples(*drawn(200, gamma=1.0), None)
    rows, columns = np.arange(0, len(found.gammas), 13), np.arange(0, len(found.temperatures), 17)
    exact = [
        [objective_value(samples, objective, found.temperatures[k], found.gammas[g]) for k in columns]
        for g in rows
    ]
    np.testing.assert_allclose(found.values[np.ix_(rows, columns)], exact, rtol=relative, atol=absolute)


@pytest.mark.parametrize("objective", ["nll", "ece"])
def test_refits_are_those_of_weighted_fits(objective) -> None:
    """A refit is a fit on the rows drawn, here done with their counts as weights."""
    logits, labels = drawn(200, gamma=1.0)
    rng = np.random.default_rng(8)
    for gamma, temperature in shared(objective).cloud:
        counts = np.bincount(rng.integers(0, 200, 200), minlength=200)
        fitted = FocalTemperatureScaling(objective=objective).fit(logits, labels, weights=counts)
        assert gamma == pytest.approx(float(fitted.gamma), abs=1e-4)  # two descents to a gradient of 1e-9
        assert temperature == pytest.approx(float(fitted.temperature), rel=1e-4)


def test_seed_decides_the_cloud() -> None:
    logits, labels = drawn(100)
    clouds = (objective_landscape(logits, labels, num_resamples=4, seed=seed).cloud for seed in (0, 0, 1))
    first, again, other = clouds
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_cloud_tells_whether_the_exponent_is_needed() -> None:
    """Exponent 0 lies within the cloud where temperature scaling is true, and outside where it is far off."""
    without, needed = objective_landscape(*drawn(3000), num_resamples=30), needing_the_exponent()
    assert without.zero_is_within
    assert not needed.zero_is_within
    assert dataclasses.replace(needed, cloud=np.array([[0.0, 1.5]] * 30)).zero_is_within
    low, high = needed.gamma_interval
    assert low < needed.chosen.gamma < high
    cold, warm = needed.temperature_interval
    assert cold < needed.chosen.temperature < warm


def test_line_is_straight() -> None:
    """Through the best points of the grid at exponents 0 and 1, from -0.5 to 5."""
    found = shared("nll")
    first, second = found.anchors
    rise = second.temperature - first.temperature
    np.testing.assert_allclose(found.line[:, 1], first.temperature + rise * found.line[:, 0])
    assert [*found.line[[0, -1], 0]] == [-0.5, 5.0]


def test_everything_is_shown() -> None:
    """The window holds the ridge, the chosen point, most of the cloud, the line's exponents and T = 1."""
    found = objective_landscape(*drawn(60, gamma=1.0), num_resamples=20)
    low, high = found.gamma_interval
    gammas = [-0.5, 5.0, low, high, found.chosen.gamma]
    temperatures = [1.0, found.chosen.temperature, *found.temperature_interval, *found.ridge.temperatures]
    for shown, inside in ((found.gammas, gammas), (found.temperatures, temperatures)):
        assert shown[0] <= min(inside) < max(inside) <= shown[-1]
        assert (np.diff(shown) > 0).all()
    assert found.ridge.gammas[0] <= low < high <= found.ridge.gammas[-1]


@pytest.mark.parametrize(("low", "high"), [(-0.9, 4.0), (-0.2, 8.0), (0.5, 30.0), (-0.7, 48.0)])
def test_the_window_leaves_room_around_the_exponents(low, high) -> None:
    """Linear or not, it ends beyond both ends of the interval, which leaves out a fortieth on either side."""
    assert middle(np.arange(81.0)) == pytest.approx((2.0, 78.0))
    shown = shown_gammas(low, high, 21)
    assert len(shown) == 21
    assert LOWEST_GAMMA <= shown[0] < low
    assert high < shown[-1] <= HIGHEST_GAMMA


def test_large_exponents_have_logarithmic_axes() -> None:
    found = objective_landscape(*drawn(60), num_resamples=2)
    num_gammas, num_temperatures = found.values.shape
    gammas = [np.linspace(-0.5, top, num_gammas) for top in (5.0, 12.0, 30.0)]
    logarithmic = [dataclasses.replace(found, gammas=each).is_logarithmic for each in gammas]
    assert logarithmic == [False, False, True]
    hot = np.geomspace(0.5, 60.0, num_temperatures)
    assert dataclasses.replace(found, gammas=gammas[0], temperatures=hot).is_logarithmic
    planted = objective_landscape(*drawn(2000, gamma=15.0), num_resamples=2)
    assert planted.is_logarithmic
    steps = np.diff(np.log1p(planted.gammas))
    np.testing.assert_allclose(steps, steps[0], rtol=1e-6)


def test_binary_log_odds() -> None:
    generator = torch.Generator().manual_seed(1)
    scores = 3 * torch.randn(200, generator=generator, dtype=torch.float64)
    labels = torch.bernoulli(torch.sigmoid(scores / 2), generator=generator).long()
    found = objective_landscape(scores, labels, objective="classwise", num_resamples=2)
    assert found.objective == "ece"
    assert found.chosen.value <= found.plain.value
    assert np.isfinite(found.values).all()


# The laws of calibrators search calibration errors on all such data; ridge and table, a landscape's own,
# take on these two every turn that they take on the others.
@pytest.mark.parametrize(
    ("objective", "case"),
    [("nll", case) for case in ("all wrong", "constant", "one class", "five samples")]
    + [("ece", "five samples")],
)
def test_hard_data(case, objective) -> None:
    logits, labels = drawn(40)
    if case == "five samples":
        logits, labels = logits[:5], labels[:5]
    elif case == "constant":
        logits = torch.zeros_like(logits)
    else:
        labels = logits.argmin(dim=1) if case == "all wrong" else torch.zeros_like(labels)
    found = objective_landscape(logits, labels, objective=objective, num_resamples=2)
    assert_finite(found)
    assert found.notes or case != "constant"


def assert_finite(found: Landscape) -> None:
    for values in (found.values, found.cloud, found.ridge.temperatures, found.ridge.values):
        assert np.isfinite(values).all()


def test_doubts() -> None:
    """None where the cloud is narrow; where samples tell little, or it spreads to the ends, they are told."""
    assert needing_the_exponent().doubts == ()
    few = objective_landscape(*drawn(8), num_resamples=10)
    assert few.trouble == ("8 samples tell little",)
    assert few.doubts[0] == "8 samples tell little"
    logits, labels = drawn(300)
    one = objective_landscape(logits, torch.zeros_like(labels), num_resamples=5)
    assert one.trouble == (
        "classes 1, 2, 3, 4 never occur among the labels, so the fit can't know how probable they are",
    )
    level = objective_landscape(torch.zeros_like(logits), labels, num_resamples=5)
    assert level.trouble == ("the logits of every sample are all equal",)
    small = objective_landscape(*drawn(25, seed=1), num_resamples=40)
    assert small.trouble == ()
    assert [doubt.partition(" over ")[0] for doubt in small.doubts] == ["the refits spread"]
    planted = dataclasses.replace(small, chosen=Place(-0.999, 1.0, 0.5), cloud=np.full((40, 2), 1.5))
    assert planted.doubts == ("the best point lies at an end of what is searched",)
    ended = np.array([[1.0, 2.0]] * 38 + [[50.0, 2.0], [1.0, HIGHEST_TEMPERATURE]])
    planted = dataclasses.replace(small, chosen=Place(1.0, 2.0, 0.5), cloud=ended)
    assert planted.doubts[0] == "2 of 40 refits lie at an end of what is searched"
    ended[-1] = 1.0, 2.0
    assert dataclasses.replace(planted, cloud=ended).doubts == ()


def test_nothing_is_warned_of_beside_the_notes() -> None:
    """Every sample is right, at every temperature."""
    logits, _ = drawn(20)
    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrantWarning)
        found = objective_landscape(logits, logits.argmax(dim=1), num_resamples=2)
    assert found.notes
    assert_finite(found)


def test_refusals() -> None:
    logits, labels = drawn(20)
    with pytest.raises(InputError, match="`num_resamples` must be at least 2; got 1"):
        objective_landscape(logits, labels, num_resamples=1)
    with pytest.raises(InputError, match="one at a time"):
        objective_landscape(logits, (logits > 0).long())
