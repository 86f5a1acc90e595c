"""A temperature that depends on covariates, of rows and of images."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp

from calibrant._math.convex_minimum import HIGHEST_TEMPERATURE, LOWEST_TEMPERATURE
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant.calibrators import LocalTemperature, TemperatureScaling, fit_local_temperature
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.local_temperature import _likelihood


def outputs(count: int = 20, *, size: int = 10) -> dict[str, Any]:
    """Images too sure on the right, by a planted slope; the second covariate says nothing."""
    rng = np.random.default_rng(0)
    true = rng.normal(size=(count, 3, size, size))
    probs = np.exp(true) / np.exp(true).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < rng.random((count, 1, size, size))).sum(axis=1)
    right = np.broadcast_to(np.linspace(0, 1, size), (count, 1, size, size))
    covariates = np.concatenate([right, rng.normal(size=right.shape)], axis=1)
    labels[:, 0] = 255
    return {"logits": true * np.exp(0.2 + right), "labels": labels, "covariates": covariates}


def test_a_planted_temperature_is_recovered() -> None:
    """Within four standard errors: 0.08, 0.15 and 0.05, by 60 resamples of the positions."""
    found = fit_local_temperature(**outputs(), ignore_index=255, names=["right", "noise"])
    assert abs(found.intercept - 0.2) < 0.32
    assert abs(found.weights[0] - 1) < 0.6
    assert abs(found.weights[1]) < 0.2
    assert found.loss < found.loss_of_one
    assert LocalTemperature.from_json(found.to_json()) == found


def test_the_optimum_is_scipy_s() -> None:
    """Parameters and both losses are those of a general search for the minimum of the likelihood."""
    rng = np.random.default_rng(1)
    logits, covariates = rng.normal(size=(300, 3)), rng.normal(size=(300, 2)) * [2, 0.5] + [1, 0]
    labels = (2 * logits + rng.gumbel(size=logits.shape)).argmax(axis=1)

    def loss(point: np.ndarray) -> float:
        scaled = logits / np.exp(point[0] + covariates @ point[1:])[:, None]
        return float((logsumexp(scaled, axis=1) - scaled[np.arange(300), labels]).mean())

    found = fit_local_temperature(logits, labels, covariates)
    best = minimize(loss, np.zeros(3), options={"gtol": 1e-9}, method="BFGS")
    np.testing.assert_allclose([found.intercept, *found.weights], best.x, rtol=0, atol=1e-6)
    assert found.loss == pytest.approx(loss(np.array([found.intercept, *found.weights])), abs=1e-12)
    assert found.loss == pytest.approx(best.fun, abs=1e-10)
    alone = minimize(lambda point: loss(np.append(point, [0, 0])), np.zeros(1), options={"gtol": 1e-9})
    assert found.loss_of_one == pytest.approx(alone.fun, abs=1e-10)
    assert found.converged


def test_derivatives_are_those_of_finite_differences() -> None:
    rng = np.random.default_rng(2)
    logits, labels = torch.from_numpy(rng.normal(size=(20, 4))), torch.arange(20) % 4
    likelihood = _likelihood(Samples(logits, labels, None), torch.from_numpy(rng.normal(size=(20, 3))))
    point, step = np.array([0.3, -0.2, 0.5]), 1e-5
    ends = [(likelihood(point + step * axis), likelihood(point - step * axis)) for axis in np.eye(3)]
    here = likelihood(point)
    slopes = [(up.value - down.value) / (2 * step) for up, down in ends]
    np.testing.assert_allclose(here.gradient, slopes, rtol=0, atol=1e-9)
    bends = [(up.gradient - down.gradient) / (2 * step) for up, down in ends]
    np.testing.assert_allclose(here.hessian, bends, rtol=0, atol=1e-9)


def test_temperatures_end_at_the_bounds_of_temperature_scaling() -> None:
    found = LocalTemperature(intercept=0.0, weights=(1.0,), loss=0.0, loss_of_one=0.0, num_classes=3)
    temperatures = found.temperature([[-1e3], [-1.0], [0.5], [1e3]]).tolist()
    assert temperatures == pytest.approx(
        [LOWEST_TEMPERATURE, np.exp(-1.0), np.exp(0.5), HIGHEST_TEMPERATURE], rel=1e-12
    )
    logits = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]])
    probs = found.predict_proba(logits, [[-1e3], [1e3]]).numpy()
    np.testing.assert_allclose(probs[0], [0, 0, 1], atol=1e-12)
    np.testing.assert_allclose(probs[1], 1 / 3, atol=1e-4)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (lambda logits, _x: logits.argmin(axis=1), "the best temperature is a bound of the search"),
        (lambda logits, _x: logits.argmax(axis=1), "every sample is classified correctly"),
        (
            lambda logits, x: np.where(x > 0, logits.argmax(axis=1), logits.argmin(axis=1)),
            "the best weight is a bound, 10 for a deviation, of covariate 0; .* temperatures lie beyond",
        ),
    ],
)
def test_a_fit_that_ends_on_a_bound_says_so(labels, message) -> None:
    rng = np.random.default_rng(0)
    logits, covariates = rng.normal(size=(60, 3)), rng.normal(size=(60, 2))
    with pytest.warns(CalibrantWarning, match=message):
        fit_local_temperature(logits, labels(logits, covariates[:, 0]), covariates)


def test_a_fit_without_an_optimum_says_so(monkeypatch) -> None:
    monkeypatch.setattr("calibrant._math.newton.MAX_STEPS", 2)
    with pytest.warns(CalibrantWarning, match="no optimum was found; the largest derivative is"):
        found = fit_local_temperature(**outputs(4), ignore_index=255)
    assert not found.converged
    assert not LocalTemperature.from_json(found.to_json()).converged


def test_images_are_their_positions() -> None:
    given = outputs(4)
    rows = {name: np.moveaxis(given[name], 1, -1).reshape(400, -1) for name in ("logits", "covariates")}
    kept = given["labels"].reshape(-1) != 255
    plain = fit_local_temperature(
        rows["logits"][kept], given["labels"].reshape(-1)[kept], rows["covariates"][kept]
    )
    assert fit_local_temperature(**given, ignore_index=255) == plain
    maps = plain.predict_proba(given["logits"], given["covariates"]).numpy()
    assert maps.shape == given["logits"].shape
    flat = plain.predict_proba(rows["logits"], rows["covariates"]).numpy()
    np.testing.assert_allclose(np.moveaxis(maps, 1, -1).reshape(400, 3), flat, rtol=1e-12)
    assert (maps.argmax(axis=1) == given["logits"].argmax(axis=1)).all()
    np.testing.assert_allclose(maps.sum(axis=1), 1, rtol=1e-12)


def test_a_covariate_that_is_constant_leaves_temperature_scaling() -> None:
    given = outputs(4)
    given["covariates"] = np.full_like(given["covariates"], 3.0)
    found = fit_local_temperature(**given, ignore_index=255)
    one = TemperatureScaling().fit(given["logits"], given["labels"], ignore_index=255)
    assert found.weights == (0.0, 0.0)
    assert np.exp(found.intercept) == pytest.approx(float(one.temperature), rel=1e-6)
    assert found.loss == found.loss_of_one == pytest.approx(one.fit_result_.after, abs=1e-12)


def test_other_covariates_and_other_texts_are_refused() -> None:
    """As many columns as in the fit; a text that is none, or whose parts are of another type or length."""
    found = LocalTemperature(intercept=0.0, weights=(1.0,), loss=0.0, loss_of_one=0.0, num_classes=3)
    with pytest.raises(InputError, match="`covariates` must have 1 columns in their second axis"):
        found.predict_proba(np.zeros((2, 3)), np.zeros((2, 2)))
    for text in ("{}", "[]", found.to_json().replace("0.0", "NaN", 1)):
        with pytest.raises(InputError, match="it is not a local temperature"):
            LocalTemperature.from_json(text)
    for changed in (
        {"weights": []},
        {"weights": "1"},
        {"weights": ["1"]},
        {"intercept": True},
        {"loss": None},
        {"covariates": [1]},
        {"covariates": ["a", "b"]},
        {"num_classes": 3.5},
        {"num_classes": 1},
        {"converged": "yes"},
    ):
        with pytest.raises(InputError, match=f"it is not a local temperature .*`{next(iter(changed))}`"):
            LocalTemperature.from_json(json.dumps(json.loads(found.to_json()) | changed))


@pytest.mark.parametrize("axes", [(), (2, 2)])
@pytest.mark.parametrize(
    ("classes", "value", "message"),
    [
        (3, np.nan, "`logits` must be finite or -inf"),
        (3, np.inf, "`logits` must be finite or -inf"),
        (6, 0.0, "`logits` must have the 3 columns that local temperature was fitted on; got 6"),
    ],
)
def test_scores_are_checked_before_they_are_repaired(axes, classes, value, message) -> None:
    """Values, and the number of classes, of rows and of images; a class may be ruled out."""
    found = LocalTemperature(intercept=0.0, weights=(1.0,), loss=0.0, loss_of_one=0.0, num_classes=3)
    logits, covariates = np.zeros((2, classes, *axes)), np.zeros((2, 1, *axes))
    logits[1, 0] = value
    with pytest.raises(InputError, match=message):
        found.predict_proba(logits, covariates)
    without = np.zeros((2, 3, *axes))
    without[:, 0] = -np.inf
    assert found.predict_proba(without, covariates)[1].reshape(3, -1)[:, 0].tolist() == [0, 0.5, 0.5]
