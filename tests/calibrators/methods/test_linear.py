"""Vector, matrix and structured matrix scaling: the likelihood's optimum, and where there is none."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from calibrant import CalibrantWarning, InputError, load_calibrator
from calibrant.calibrators import (
    DirichletCalibration,
    MatrixScaling,
    StructuredMatrixScaling,
    TemperatureScaling,
    VectorScaling,
)
from calibrant.calibrators.file_format import SINGLE_KEY, write_file
from calibrant.calibrators.fitting import regression

ALL = [VectorScaling, MatrixScaling, StructuredMatrixScaling]


@pytest.fixture
def skewed(calibrated: Callable[..., Any]) -> tuple[Tensor, Tensor]:
    """Logits with classes of different scales and shifts."""
    scores, labels = calibrated("multiclass", 600)
    return scores * torch.tensor([1.0, 2.0, 3.0, 1.5]) + torch.tensor([0.0, 1.0, -2.0, 0.0]), labels


@pytest.mark.parametrize("weighted", [False, True])
def test_matrix_agrees_with_logistic_regression(skewed: tuple[Tensor, Tensor], weighted: bool) -> None:
    scores, labels = skewed
    weights = torch.rand(600, generator=torch.Generator().manual_seed(0)) if weighted else None
    calibrator = MatrixScaling().fit(scores, labels, weights=weights)
    features = (scores - scores.mean(dim=1, keepdim=True)).numpy()[:, :3]  # the fourth is what is left
    regression = LogisticRegression(C=np.inf, tol=1e-9, max_iter=1000, solver="newton-cg")
    regression.fit(features, labels.numpy(), None if weights is None else weights.numpy())
    np.testing.assert_allclose(
        calibrator.predict_proba(scores).numpy(), regression.predict_proba(features), atol=1e-6
    )
    assert calibrator.fit_result_.certificate["gradient"] < 1e-8


@pytest.mark.parametrize("weighted", [False, True])
def test_vector_agrees_with_a_general_optimiser(skewed: tuple[Tensor, Tensor], weighted: bool) -> None:
    """No other factors and shifts are likelier: L-BFGS with derivatives by autograd ends there too."""
    scores, labels = skewed
    weights = 2 * torch.rand(600, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weights = weights if weighted else torch.ones(600, dtype=torch.float64)
    centred = scores - scores.mean(dim=1, keepdim=True)

    def loss(point: np.ndarray[Any, Any]) -> tuple[float, Any]:
        parameters = torch.tensor(point, requires_grad=True)
        logits = centred * parameters[:4] + parameters[4:]
        losses = torch.nn.functional.cross_entropy(logits, labels, reduction="none")
        mean = (losses * weights).sum() / weights.sum()
        mean.backward()
        return mean.item(), parameters.grad.numpy()  # type: ignore[union-attr]

    found = minimize(
        loss,
        np.r_[np.ones(4), np.zeros(4)],
        jac=True,
        method="L-BFGS-B",
        options={"gtol": 1e-10, "ftol": 0, "maxiter": 5000},
    )
    calibrator = VectorScaling().fit(scores, labels, weights=weights)
    result = calibrator.fit_result_
    assert result.after <= found.fun + 1e-13
    np.testing.assert_allclose(calibrator.weight.numpy(), found.x[:4], rtol=1e-5)
    assert result.certificate["gradient"] < 1e-8
    assert abs(float(calibrator.bias.sum())) < 1e-12


def test_strength_leads_from_matrix_to_temperature(skewed: tuple[Tensor, Tensor]) -> None:
    scores, labels = skewed
    for structure, limit in (("matrix", MatrixScaling()), ("diagonal", VectorScaling())):
        free = StructuredMatrixScaling(structure=structure, strength=1e-7).fit(scores, labels)  # type: ignore[arg-type]
        expected = limit.fit(scores, labels).predict_proba(scores)
        torch.testing.assert_close(free.predict_proba(scores), expected, rtol=0, atol=1e-5)
        tied = StructuredMatrixScaling(structure=structure, strength=1e9).fit(scores, labels)  # type: ignore[arg-type]
        expected = TemperatureScaling().fit(scores, labels).predict_proba(scores)
        torch.testing.assert_close(tied.predict_proba(scores), expected, rtol=0, atol=1e-7)
        others = free.weight - free.weight.diagonal().diag()
        assert others.shape == (4, 4)
        assert bool(others.any()) == (structure == "matrix")


def test_structured_optimum_balances_likelihood_and_penalty(skewed: tuple[Tensor, Tensor]) -> None:
    """The derivative of N times the log loss by a shift is minus lambda C times the shift."""
    scores, labels = skewed
    calibrator = StructuredMatrixScaling(strength=3.0).fit(scores, labels)
    residuals = torch.nn.functional.one_hot(labels, 4) - calibrator.predict_proba(scores)
    torch.testing.assert_close(residuals.sum(dim=0), 3.0 * 4 * calibrator.bias, rtol=0, atol=1e-5)


def test_dirichlet_optimum_balances_likelihood_and_penalties(skewed: tuple[Tensor, Tensor]) -> None:
    scores, labels = skewed
    calibrator = DirichletCalibration(off_diagonal=0.5, intercept=0.3).fit(scores, labels)
    weight, bias = (each.clone().requires_grad_() for each in (calibrator.weight, calibrator.bias))
    loss = torch.nn.functional.cross_entropy(scores.log_softmax(dim=1) @ weight.T + bias, labels)
    others = weight - weight.diagonal().diag()
    penalised = loss + 0.5 / (4 * 3) * others.square().sum() + 0.3 / 4 * bias.square().sum()
    for derivative in torch.autograd.grad(penalised, (weight, bias)):
        torch.testing.assert_close(derivative, torch.zeros_like(derivative), rtol=0, atol=1e-7)


@pytest.mark.parametrize("kind", ALL)
def test_conjugate_gradients_end_where_newton_does(
    skewed: tuple[Tensor, Tensor], kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scores, labels = skewed
    dense = kind().fit(scores, labels)
    monkeypatch.setattr(regression, "_DENSE", 0)
    iterative = kind().fit(scores, labels)
    torch.testing.assert_close(
        iterative.predict_proba(scores), dense.predict_proba(scores), rtol=0, atol=1e-6
    )
    assert iterative.fit_result_.converged


@pytest.mark.parametrize("kind", ALL)
def test_mean_of_logits_says_nothing(skewed: tuple[Tensor, Tensor], kind: Any) -> None:
    scores, labels = skewed
    one, other = kind().fit(scores, labels), kind().fit(torch.log_softmax(scores, dim=1), labels)
    torch.testing.assert_close(
        one.predict_proba(scores + 100), other.predict_proba(scores), rtol=0, atol=1e-8
    )


@pytest.mark.parametrize("free", ["off_diagonal", "intercept"])
def test_dirichlet_without_a_penalty_is_penalised_where_there_is_no_maximum(free: str) -> None:
    """Classes that logits tell apart: the fit arrives at finite weights, and a warning says how."""
    logits = 3 * torch.randn(200, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with pytest.warns(CalibrantWarning, match="so departures from temperature scaling were penalised"):
        calibrator = DirichletCalibration(**{free: 0.0}).fit(logits, logits[:, :2].argmax(dim=1))
    assert calibrator.fit_result_.converged
    assert calibrator.weight.abs().max() < 20


@pytest.mark.parametrize("kind", [VectorScaling, MatrixScaling])
def test_missing_class_is_said_and_survived(skewed: tuple[Tensor, Tensor], kind: Any) -> None:
    """A class that never occurs sends its shift to minus infinity: penalised, finite, never worse."""
    scores, labels = skewed
    kept = labels != 2
    with pytest.warns(CalibrantWarning, match="no maximum .a class that never occurs"):
        calibrator = kind().fit(scores[kept], labels[kept])
    probs = calibrator.predict_proba(scores)
    assert 0 < probs[:, 2].mean() < 0.05
    assert calibrator.fit_result_.converged
    assert calibrator.fit_result_.after < calibrator.fit_result_.compared["temperature"]


@pytest.mark.parametrize("kind", [VectorScaling, MatrixScaling, DirichletCalibration])
def test_what_many_parameters_are_for_is_found(kind: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    logits = 2 * torch.randn(2600, 10, generator=generator, dtype=torch.float64)
    shifts = torch.randn(10, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits + shifts, dim=1), 1, generator=generator)[:, 0]
    with pytest.warns(CalibrantWarning, match="[12]+0 parameters are many for 180 samples"):
        calibrator = kind().fit(logits[:180], labels[:180])
    probs = calibrator.predict_proba(logits[180:])
    loss = -probs.gather(1, labels[180:, None]).log().mean()
    tempered = TemperatureScaling().fit(logits[:180], labels[:180])(logits[180:])
    assert loss < torch.nn.functional.nll_loss(tempered, labels[180:]) - 0.1


@pytest.mark.parametrize("kind", ALL)
def test_few_and_constant_logits_are_said(kind: Any) -> None:
    """With a handful of samples, or logits that do not differ, the fit stands with a warning."""
    with pytest.warns(CalibrantWarning, match="7 samples tell little"):
        kind().fit(torch.randn(7, 3, generator=torch.Generator().manual_seed(0)), torch.arange(7) % 3)
    with pytest.warns(CalibrantWarning, match="logits of every sample are all equal"):
        kind().fit(torch.zeros(60, 3), torch.arange(60) % 3)
    with pytest.warns(CalibrantWarning, match="logits of all samples are the same"):
        kind().fit(torch.tensor([[1.0, 2.0, 0.0]]).expand(60, 3), torch.arange(60) % 3)


def test_damaged_table_is_refused(skewed: tuple[Tensor, Tensor], tmp_path: Any) -> None:
    path, fitted = tmp_path / "fitted.safetensors", MatrixScaling().fit(*skewed)
    tensors = dict(fitted.named_buffers())
    tensors["weight"] = tensors["weight"][:, :3].contiguous()
    write_file(path, SINGLE_KEY, asdict(fitted.header()), tensors)
    with pytest.raises(InputError, match=r"`weight` is missing or has another shape than \(C, C\)"):
        load_calibrator(path)
