"""A temperature that depends on covariates, of rows and of images."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibrant._math.errors import InputError
from calibrant.calibrators import LocalTemperature, TemperatureScaling, fit_local_temperature


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


def test_images_are_their_positions() -> None:
    """Fitted and applied alike; ignored positions change nothing, and the predicted class stays."""
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
    """One temperature, that of temperature scaling, and its likelihood."""
    given = outputs(4)
    given["covariates"] = np.full_like(given["covariates"], 3.0)
    found = fit_local_temperature(**given, ignore_index=255)
    one = TemperatureScaling().fit(given["logits"], given["labels"], ignore_index=255)
    assert found.weights == (0.0, 0.0)
    assert np.exp(found.intercept) == pytest.approx(float(one.temperature), rel=1e-6)
    assert found.loss == found.loss_of_one == pytest.approx(one.fit_result_.after, abs=1e-12)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"covariates": np.zeros((4, 2, 10))}, r"`covariates` must have shape \(N, k, d1, d2\)"),
        ({"covariates": np.full((4, 2, 10, 10), np.nan)}, "`covariates` must be finite"),
        ({"names": ["one"]}, "`names` must hold one name for each of 2 covariates"),
        ({"labels": np.full((4, 10, 10), 255)}, "no position is left"),
        ({"logits": np.zeros(4)}, r"`logits` must have shape \(N, C\)"),
    ],
)
def test_what_is_wrong_is_said(changed, message) -> None:
    """Shapes, values and names, before anything is fitted."""
    with pytest.raises(InputError, match=message):
        fit_local_temperature(**{**outputs(4), **changed}, ignore_index=255)


def test_other_covariates_and_other_texts_are_refused() -> None:
    """As many columns as in the fit; a text that is none."""
    found = LocalTemperature(intercept=0.0, weights=(1.0,), loss=0.0, loss_of_one=0.0)
    with pytest.raises(InputError, match="`covariates` must have 1 columns in their second axis"):
        found.predict_proba(np.zeros((2, 3)), np.zeros((2, 2)))
    for text in ("{}", "[]", found.to_json().replace("0.0", "NaN", 1)):
        with pytest.raises(InputError, match="it is not a local temperature"):
            LocalTemperature.from_json(text)
