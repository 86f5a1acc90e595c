"""The world with known posterior, the linear fit and its limit for many samples, and the PAC-Bayes bound."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.integrate import dblquad, quad
from scipy.optimize import minimize
from scipy.special import expit
from torch.nn import functional

from calibrant._math.errors import ConvergenceError
from calibrant._math.focal_map import focal_map_log_odds
from calibrant.losses import focal_loss
from calibrant_lab import theory
from calibrant_lab.theory.asymptotics_equations import FoldError, MarginLoss, proximal

SIGNAL = 2.0
WORLD = theory.LogisticWorld(num_features=2, signal=SIGNAL)


def cross_entropy(log_odds: torch.Tensor, outcomes: torch.Tensor) -> torch.Tensor:
    return functional.softplus(log_odds, threshold=40) - outcomes * log_odds


def squares(log_odds: torch.Tensor, outcomes: torch.Tensor) -> torch.Tensor:
    """Half the squared distance to outcomes -1 and 1."""
    return (log_odds - (2 * outcomes - 1)) ** 2 / 2


def focal(gamma: float) -> theory.generalisation.SampleLoss:
    def loss(log_odds: torch.Tensor, outcomes: torch.Tensor) -> torch.Tensor:
        logits = torch.stack([torch.zeros_like(log_odds), log_odds], 1)
        return focal_loss(logits, outcomes.long(), gamma=gamma, reduction="none")

    return loss


def over_samples(function) -> float:
    """The mean of a function of y x_1 over the world, by the trapezoidal rule."""
    truth = np.linspace(-9, 9, 721)
    shares = np.exp(-truth * truth / 2) * expit(SIGNAL * truth)
    return float((shares * function(truth)).sum() / shares.sum())


@pytest.mark.parametrize(("load", "penalty"), [(0.3, 0.0), (0.3, 0.2), (2.0, 0.2)])
def test_squares_have_a_closed_form(load, penalty) -> None:
    found = theory.asymptotic_fit(squares, load=load, signal=SIGNAL, penalty=penalty)
    if penalty:  # x of penalty x^2 + (1 + penalty - load) x = load
        middle = 1 + penalty - load
        step = (math.sqrt(middle**2 + 4 * penalty * load) - middle) / (2 * penalty)
    else:
        step = load / (1 - load)
    mean = over_samples(lambda truth: truth)
    along = mean / (1 + penalty * (1 + step))
    shrunk = (step / (1 + step)) ** 2
    across = math.sqrt(shrunk * (1 - 2 * along * mean + along**2) / (load - shrunk))
    assert (found.along, found.across) == pytest.approx((along, across), rel=1e-9)
    assert found.step == pytest.approx(step, rel=1e-9)
    assert found.instability == pytest.approx(shrunk / load, rel=1e-9)


@pytest.mark.parametrize(("loss", "penalty"), [(cross_entropy, 0.0), (cross_entropy, 0.1), (focal(3.0), 0.0)])
def test_equations_by_another_quadrature(loss, penalty) -> None:
    load = 0.15
    found = theory.asymptotic_fit(loss, load=load, signal=SIGNAL, penalty=penalty)
    nodes, weights = np.polynomial.hermite_e.hermegauss(44)
    truth, noise = (each.ravel() for each in np.meshgrid(nodes, nodes))
    shares = np.outer(weights, weights).ravel() * expit(SIGNAL * truth)
    shares /= shares.sum()
    margins = found.along * truth + found.across * noise
    low, high = margins - 1, margins + 3 * found.step + 1
    for _ in range(45):
        middle = torch.from_numpy((low + high) / 2)
        slope, bend = (
            each.numpy() for each in theory.generalisation.derivatives(loss, middle, middle * 0 + 1)
        )
        below = middle.numpy() + found.step * slope < margins
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    ratio = found.step * bend / (1 + found.step * bend)
    assert (shares * truth * slope).sum() == pytest.approx(-penalty * found.along, abs=1e-7)
    assert found.step**2 * (shares * slope**2).sum() == pytest.approx(load * found.across**2, abs=1e-7)
    assert (shares * ratio).sum() == pytest.approx(load - found.step * penalty, abs=1e-7)
    assert found.instability == pytest.approx((shares * ratio**2).sum() / load, abs=1e-7)


@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_small_loads_are_classical(gamma) -> None:
    """Without load the weights are the population's, and the rest has the sandwich estimator's variance."""
    load = 1e-5
    found = theory.asymptotic_fit(focal(gamma), load=load, signal=SIGNAL)
    shape = MarginLoss(focal(gamma))

    def mean(power: int, place: int) -> float:
        return over_samples(lambda truth: truth**power * shape.derivatives(found.along * truth)[place])

    assert mean(1, 0) == pytest.approx(0, abs=1e-5)
    if gamma == 0:
        assert found.along == pytest.approx(SIGNAL, rel=1e-4)
    slopes = over_samples(lambda truth: shape.derivatives(found.along * truth)[0] ** 2)
    assert found.across**2 / load == pytest.approx(slopes / mean(0, 1) ** 2, rel=1e-3)
    assert found.step / load == pytest.approx(1 / mean(0, 1), rel=1e-3)


@pytest.mark.parametrize(("gamma", "penalty"), [(0.0, 0.0), (0.0, 0.02), (3.0, 0.0), (3.0, 0.02)])
def test_samples_give_the_limit(gamma, penalty) -> None:
    world = theory.LogisticWorld(num_features=100, signal=SIGNAL)
    limit = theory.asymptotic_fit(focal(gamma), load=0.1, signal=SIGNAL, penalty=penalty)
    found = []
    for seed in range(6):
        features, outcomes = world.sample(1000, seed=seed)
        weights = theory.fit_linear(features, outcomes, focal(gamma), penalty=penalty).weights
        test, scores = world.performance(weights), features @ weights
        _, bend = theory.generalisation.derivatives(focal(gamma), scores, outcomes)
        curvatures = torch.linalg.eigvalsh((features.T * bend) @ features / 1000) + penalty
        right = ((scores > 0) == (outcomes > 0.5)).double().mean().item()
        of_weights = weights[0].item(), weights.norm().item()
        trained = scores.abs().sigmoid().mean().item() - right
        of_scores = math.log(test.temperature), test.overconfidence, trained
        of_curvatures = (1 / curvatures).sum().item() / 1000, (1 / curvatures**2).sum().item() / 1000
        found.append([*of_weights, *of_scores, *of_curvatures])
    of_scores = math.log(limit.test.temperature), limit.test.overconfidence, limit.train.overconfidence
    of_curvatures = limit.step, limit.step**2 / (0.1 * (1 - limit.instability))
    errors = np.std(found, axis=0, ddof=1) / math.sqrt(6)
    gaps = np.mean(found, axis=0) - [limit.along, limit.norm, *of_scores, *of_curvatures]
    assert np.abs(gaps / errors).max() < 4


def test_cross_entropy_is_calibrated_on_its_sample() -> None:
    """Without a penalty its best temperature there is 1; a penalty makes it less."""
    for penalty, holds in ((0.0, 1.0), (0.05, 0.9)):
        found = theory.asymptotic_fit(cross_entropy, load=0.2, signal=SIGNAL, penalty=penalty)
        assert (found.train.temperature == pytest.approx(holds, abs=1e-9)) is (penalty == 0)
        assert found.train.temperature <= 1 + 1e-9
        assert found.train.cross_entropy < found.scaled.cross_entropy < found.test.cross_entropy
        assert found.scaled.temperature == pytest.approx(1, abs=1e-9)


def test_cross_entropy_is_over_confident_at_every_level() -> None:
    """Bai et al. (2021): above one half, and for small loads by a share of the load."""
    levels = (0.55, 0.7, 0.9, 0.99)
    small, smaller = (theory.asymptotic_fit(cross_entropy, load=k, signal=SIGNAL) for k in (2e-3, 1e-3))
    for level in levels:
        shown = small.overconfidence_at(level)
        assert shown > 0
        assert shown / smaller.overconfidence_at(level) == pytest.approx(2, rel=0.02)
        assert small.overconfidence_at(1 - level) == pytest.approx(-shown, abs=1e-14)


def test_calibrating_gamma() -> None:
    """At that exponent the best temperature is 1; it rises with the load, and a penalty lowers it."""
    found = [
        theory.calibrating_gamma(focal, load=load, signal=SIGNAL, penalty=penalty)
        for load, penalty in ((0.05, 0.02), (0.05, 0.0), (0.1, 0.0))
    ]
    assert found[0] < 0 < found[1] < found[2]
    at = theory.asymptotic_fit(focal(found[2]), load=0.1, signal=SIGNAL)
    assert at.test.temperature == pytest.approx(1, abs=1e-7)
    assert 1e-4 < at.test.calibration_error < 5e-3
    with pytest.raises(ValueError, match=r"`load` must be one for which an exponent .* fit a temperature"):
        theory.calibrating_gamma(focal, load=0.05, signal=SIGNAL, penalty=10.0)


def test_threshold_of_separability() -> None:
    """Outcomes by chance: 1/2; below it there is a limit, and the weights grow without bound towards it."""
    assert theory.separability_threshold(0.0) == pytest.approx(0.5, abs=1e-12)
    falling = [theory.separability_threshold(signal) for signal in (0.5, 2.0, 10.0)]
    assert all(one > other for one, other in itertools.pairwise(falling))
    threshold = theory.separability_threshold(SIGNAL)
    near, far = (theory.asymptotic_fit(cross_entropy, load=threshold - k, signal=SIGNAL) for k in (0.01, 0.1))
    assert near.norm > 3 * far.norm
    with pytest.raises(ValueError, match=r"`load` must be below 0\.3449 at signal 2: .*; give a `penalty`"):
        theory.asymptotic_fit(cross_entropy, load=threshold, signal=SIGNAL)
    with pytest.raises(ValueError, match=r"`load` must be below 1\.0000 .* many weights fit the sample"):
        theory.asymptotic_fit(squares, load=1.0, signal=SIGNAL)
    assert theory.asymptotic_fit(cross_entropy, load=0.5, signal=SIGNAL, penalty=0.01).norm < 10


def test_threshold_is_where_samples_part() -> None:
    """Of samples a tenth below the threshold hardly any can be separated, of those a tenth above most."""
    counts = []
    for load in (0.25, 0.44):
        num_features = round(120 * load)
        world = theory.LogisticWorld(num_features=num_features, signal=SIGNAL)
        samples = [world.sample(120, seed=seed) for seed in range(5)]
        counts.append(sum(theory.fit_linear(*each, cross_entropy).converged for each in samples))
    assert counts[0] > 2.5 > counts[1]


def test_focal_loss_is_not_convex_and_stable() -> None:
    """Its least curvature is negative; with the step of these loads the proximal operator has one value."""
    for gamma, load in ((1.0, 0.2), (5.0, 0.2)):
        found = theory.asymptotic_fit(focal(gamma), load=load, signal=SIGNAL)
        assert 0 < found.least_curvature < 1
        assert load < found.instability < 1
    assert theory.asymptotic_fit(focal(0.0), load=0.2, signal=SIGNAL).least_curvature >= 1
    assert theory.asymptotic_fit(focal(-0.5), load=0.2, signal=SIGNAL).least_curvature >= 1


def test_proximal_operator_is_the_global_minimiser() -> None:
    """Against a search on a grid; where it jumps between two minima that is said."""
    margins = np.linspace(-6, 6, 25)
    fine = np.linspace(-10, 20, 300_001)
    steep = MarginLoss(lambda log_odds, outcomes: 4 * torch.sigmoid(-log_odds * (2 * outcomes - 1)))
    for loss, step in ((MarginLoss(focal(3.0)), 4.0), (steep, 2.0)):
        points, slope, _ = proximal(loss, margins, step)
        values = loss.on(-10, 20)
        for margin, point in zip(margins, points, strict=True):
            total = np.interp(fine, values.margins, values.values) + (fine - margin) ** 2 / (2 * step)
            assert point == pytest.approx(fine[np.argmin(total)], abs=5e-3)
        np.testing.assert_allclose(points + step * slope, margins, atol=1e-10)
    with pytest.raises(FoldError, match="of step 8 has several values"):
        proximal(steep, margins, 8.0)


def fit(loss: theory.generalisation.SampleLoss = cross_entropy, **changes: float) -> theory.AsymptoticFit:
    return theory.asymptotic_fit(loss, **({"load": 0.1, "signal": 2.0} | changes))


def linear(outcomes: torch.Tensor, **settings: float) -> theory.generalisation.LinearFit:
    return theory.fit_linear(torch.ones(2, 1), outcomes, cross_entropy, **settings)


def bound(**changes: float) -> theory.PacBayesBound:
    good = {"risk": 0.1, "distance": 1.0, "prior_scale": 1.0, "num_samples": 10}
    return theory.pac_bayes_bound([changes.pop("curvature", 1.0)], **(good | changes))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit(load=0.0), "`load` must be finite and positive; got 0"),
        (lambda: fit(signal=-1.0), "`signal` must be finite and positive; got -1"),
        (lambda: fit(penalty=-1.0), "`penalty` must be finite and not negative; got -1"),
        (
            lambda: fit(lambda t, y: (1 + y) * cross_entropy(t, y)),
            "`loss` must give one value per sample, that",
        ),
        (lambda: fit(lambda t, y: torch.log1p((-50 * t * (2 * y - 1)).exp())), "`loss` must have two finite"),
        (lambda: fit().overconfidence_at(1.0), r"`level` must be inside \(0, 1\); got 1"),
        (lambda: theory.separability_threshold(math.nan), "`signal` must be finite and not negative"),
        (lambda: fit(lambda t, y: (-t * (2 * y - 1)).sigmoid()), "the loss has no minimum in this world"),
        (lambda: bound(risk=1.5), r"`risk` must be between 0 and 1; got 1\.5"),
        (lambda: bound(distance=-1.0), "`distance` must be finite and not negative"),
        (lambda: bound(prior_scale=0.0), "`prior_scale` must be finite and positive"),
        (lambda: bound(num_samples=0), "`num_samples` must be at least 1; got 0"),
        (lambda: bound(confidence=1.0), r"`confidence` must be inside \(0, 1\)"),
        (lambda: bound(curvature=-5.0), "`curvatures` must exceed"),
        (lambda: replace(WORLD, num_features=0), "`num_features` must be at least 1; got 0"),
        (lambda: replace(WORLD, signal=0.0), "`signal` must be finite and positive; got 0"),
        (lambda: WORLD.performance(torch.ones(3)), r"`weights` must have shape \(2,\); got \(3,\)"),
        (lambda: WORLD.performance(torch.zeros(2)), "`weights` must be finite and not all zero"),
        (lambda: linear(torch.ones(2), penalty=-1), "`penalty` must be finite and not negative; got -1"),
        (lambda: linear(torch.ones(3)), "`outcomes` must have one entry per row"),
    ],
)
def test_refusals(call, message) -> None:
    with pytest.raises((ValueError, ConvergenceError), match=message):
        call()


def test_performance_against_another_quadrature() -> None:
    found = WORLD.performance(torch.tensor([1.5, 0.8], dtype=torch.float64))

    def integral(function) -> float:
        def inside(b: float, a: float) -> float:
            score, truth = 1.5 * a + 0.8 * b, 1 / (1 + math.exp(-2 * a))
            return function(score, truth) * math.exp(-(a * a + b * b) / 2) / (2 * math.pi)

        # The kink at score 0 is a line; integrate on both sides of it.
        upper, _ = dblquad(inside, -9, 9, lambda a: -1.5 * a / 0.8, lambda _: 30, epsabs=1e-11)
        lower, _ = dblquad(inside, -9, 9, lambda _: -30, lambda a: -1.5 * a / 0.8, epsabs=1e-11)
        return upper + lower

    confidence = integral(lambda t, _: 1 / (1 + math.exp(-abs(t))))
    accuracy = integral(lambda t, p: p if t > 0 else 1 - p)
    surprise = integral(lambda t, p: math.log1p(math.exp(-abs(t))) + max(t, 0) - p * t)
    assert found.confidence == pytest.approx(confidence, abs=1e-7)
    assert found.accuracy == pytest.approx(accuracy, abs=1e-7)
    assert found.cross_entropy == pytest.approx(surprise, abs=1e-7)
    assert found.overconfidence == pytest.approx(confidence - accuracy, abs=1e-7)


def test_performance_against_samples() -> None:
    world = theory.LogisticWorld(num_features=4, signal=1.5)
    weights = torch.tensor([1.0, 1.0, -0.5, 0.3], dtype=torch.float64)
    features, outcomes = world.sample(1_000_000, seed=1)
    scores, found = features @ weights, world.performance(weights)
    bins = torch.bucketize(scores.sigmoid(), torch.linspace(0, 1, 101, dtype=torch.float64)[1:-1])
    gaps = torch.zeros(100, dtype=torch.float64).index_add(0, bins, scores.sigmoid() - outcomes)
    assert found.calibration_error == pytest.approx(gaps.abs().sum().item() / 1e6, abs=4e-3)


def test_the_truth_is_calibrated() -> None:
    world = theory.LogisticWorld(num_features=3, signal=2.5)
    found = world.performance(torch.tensor([2.5, 0.0, 0.0]))
    assert found.overconfidence == pytest.approx(0, abs=1e-14)
    assert found.calibration_error == pytest.approx(0, abs=1e-14)
    assert found.temperature == pytest.approx(1, abs=1e-12)

    def at(u: float) -> float:
        p = 1 / (1 + math.exp(-2.5 * u))
        return -(p * math.log(p) + (1 - p) * math.log(1 - p)) * math.exp(-u * u / 2) / math.sqrt(2 * math.pi)

    assert found.cross_entropy == pytest.approx(2 * quad(at, 0, 14, epsabs=1e-13)[0], abs=1e-11)


@pytest.mark.parametrize("factor", [0.25, 0.5, 2.0, 4.0])
def test_temperature_undoes_a_factor(factor) -> None:
    found = WORLD.performance(torch.tensor([2.0 * factor, 0.0]))
    assert found.temperature == pytest.approx(factor, rel=1e-10)
    assert (found.overconfidence > 0) == (factor > 1)
    undone = WORLD.performance(torch.tensor([2.0 * factor, 0.0]), link=lambda t: t / factor)
    assert undone.calibration_error == pytest.approx(0, abs=1e-12)


def test_temperature_against_a_direct_search() -> None:
    world = theory.LogisticWorld(num_features=3, signal=2.0)
    weights = torch.tensor([2.0, 1.0, 1.0], dtype=torch.float64)
    found = world.performance(weights)
    least = minimize(lambda b: world.performance(b[0] * weights).cross_entropy, [0.5], tol=1e-12)
    assert 1 / least.x[0] == pytest.approx(found.temperature, rel=1e-4)
    assert world.performance(-weights).temperature == math.inf
    at_best = world.performance(weights / found.temperature)
    assert at_best.temperature == pytest.approx(1, rel=1e-10)
    # Calibrated in the mean only: of this world's line the noise leaves no logistic curve.
    assert 0 < at_best.calibration_error < 0.01


def test_fit_agrees_with_another_optimiser() -> None:
    features, outcomes = theory.LogisticWorld(num_features=4, signal=2.0).sample(300, seed=3)
    for loss, penalty in ((cross_entropy, 0.0), (focal(2.0), 0.0), (focal(0.5), 0.1)):
        found = theory.fit_linear(features, outcomes, loss, penalty=penalty)
        assert found.converged

        def value(w: np.ndarray, loss=loss, penalty=penalty) -> tuple[float, np.ndarray]:
            weights = torch.tensor(w, requires_grad=True)
            total = loss(features @ weights, outcomes).mean() + penalty / 2 * weights.square().sum()
            (slope,) = torch.autograd.grad(total, weights)
            return total.item(), slope.numpy()

        other = minimize(value, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-9})
        np.testing.assert_allclose(found.weights.numpy(), other.x, atol=1e-6)


def test_separable_classes_have_no_minimum() -> None:
    features, outcomes = theory.LogisticWorld(num_features=30, signal=2.0).sample(20, seed=0)
    assert not theory.fit_linear(features, outcomes, cross_entropy).converged
    assert theory.fit_linear(features, outcomes, cross_entropy, penalty=0.01).converged


def test_overconfidence_of_the_paper_s_argument() -> None:
    """Cross-entropy is right on its own sample, over-confident on new ones; focal loss is so less."""
    world = theory.LogisticWorld(num_features=40, signal=2.0)
    features, outcomes = world.sample(400, seed=7)
    plain = theory.fit_linear(features, outcomes, cross_entropy).weights
    residual = ((features @ plain).sigmoid() - outcomes) * (features @ plain)
    assert residual.mean().item() == pytest.approx(0, abs=1e-9)  # best temperature on the sample: 1
    ours = theory.fit_linear(features, outcomes, focal(1.0)).weights
    assert world.performance(plain).temperature > 1.1
    assert world.performance(ours).overconfidence < world.performance(plain).overconfidence
    mapped = world.performance(ours, link=lambda t: focal_map_log_odds(t, 1.0))
    assert mapped.overconfidence > world.performance(ours).overconfidence


def test_samples_are_repeatable() -> None:
    first, second = WORLD.sample(50_000, seed=5), WORLD.sample(50_000, seed=5)
    assert first[0].equal(second[0])
    assert first[1].equal(second[1])
    residual = first[1] - (2 * first[0][:, 0]).sigmoid()
    assert abs(residual.mean().item()) < 4 * residual.std().item() / math.sqrt(50_000)


def test_pac_bayes_bound_is_the_least_over_gaussians() -> None:
    curvatures = np.array([2.0, 0.1, 0.0])
    found = theory.pac_bayes_bound(
        curvatures.tolist(), risk=0.2, distance=1.5, prior_scale=2.0, num_samples=500, inverse_temperature=40
    )

    def right_side(log_spread: np.ndarray) -> float:
        variances = np.exp(2 * log_spread)
        divergence = (variances / 4 + np.log(4 / variances) - 1).sum() / 2 + 1.5**2 / 8
        risk = 0.2 + (curvatures * variances).sum() / 2
        return float(risk + (divergence + math.log(20)) / 40 + 40 / (8 * 500))

    least = minimize(right_side, np.zeros(3), tol=1e-12)
    assert found.value == pytest.approx(least.fun, abs=1e-9)
    np.testing.assert_allclose(np.log(found.spreads), least.x, atol=1e-4)
    parts = found.risk + found.curvature_price + found.distance_price + found.chance_price
    assert found.value == pytest.approx(parts, rel=1e-15)


def test_pac_bayes_price_of_curvature() -> None:
    """Flat directions are free, and a doubling of a sharp one costs log 2 / (2 lambda)."""

    def price(curvature: float) -> float:
        return theory.pac_bayes_bound(
            [curvature], risk=0, distance=0, prior_scale=1, num_samples=1000, inverse_temperature=100
        ).curvature_price

    assert price(0.0) == 0
    assert price(2e6) - price(1e6) == pytest.approx(math.log(2) / 200, rel=1e-6)
