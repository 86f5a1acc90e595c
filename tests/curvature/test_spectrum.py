"""Eigenvalues, traces and densities against the dense matrix."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from calibrant._math.errors import InputError
from calibrant.curvature import (
    HessianOperator,
    curvature_sizes,
    hessian_trace,
    spectral_density,
    top_eigenvalues,
)
from calibrant.curvature.lanczos import Lanczos
from calibrant.losses import FocalLoss

CE = nn.CrossEntropyLoss()


@pytest.fixture
def dense(tiny, batches) -> torch.Tensor:
    return HessianOperator(tiny, CE, batches).dense()


def test_stored_extremes(stored, tiny, batches) -> None:
    for result in stored["results"]:
        loss = FocalLoss(gamma=result["gamma"])
        largest = top_eigenvalues(tiny, loss, batches, tolerance=1e-9)
        smallest = top_eigenvalues(tiny, loss, batches, which="smallest", tolerance=1e-9)
        assert largest.values[0] == pytest.approx(result["lambda_max_exact"], rel=1e-8)
        assert smallest.values[0] == pytest.approx(result["lambda_min_exact"], rel=1e-8)


@pytest.mark.parametrize("which", ["largest", "smallest", "magnitude"])
def test_several_eigenvalues(which, tiny, batches, dense) -> None:
    found = top_eigenvalues(tiny, CE, batches, k=4, which=which, tolerance=1e-8)
    values = torch.linalg.eigvalsh(dense)
    key = {"largest": -values, "smallest": values, "magnitude": -values.abs()}[which]
    expected = values[key.argsort()[:4]]
    assert found.converged
    torch.testing.assert_close(
        torch.tensor(found.values, dtype=torch.float64), expected, rtol=1e-6, atol=1e-8
    )
    scaled = found.vectors * torch.tensor(found.values, dtype=torch.float64)
    lengths = (dense @ found.vectors - scaled).norm(dim=0)
    torch.testing.assert_close(
        lengths, torch.tensor(found.residuals, dtype=torch.float64), rtol=1e-4, atol=1e-9
    )


def test_too_few_products_are_said(tiny, batches, dense) -> None:
    """Stopped early the result is not called converged, and an eigenvalue still lies within the residual."""
    found = top_eigenvalues(tiny, CE, batches, max_products=3)
    assert not found.converged
    assert found.num_products == 3
    distance = (torch.linalg.eigvalsh(dense) - found.values[0]).abs().min()
    assert float(distance) <= found.residuals[0]


def test_repeated_and_zero_eigenvalues() -> None:
    """A closed Krylov space goes on elsewhere: diag(2, 2, 2, 0, 0) has its three twos found."""
    matrix = torch.diag(torch.tensor([2.0, 2.0, 2.0, 0.0, 0.0], dtype=torch.float64))
    generator = torch.Generator().manual_seed(0)
    lanczos = Lanczos(lambda v: matrix @ v, torch.ones(5, dtype=torch.float64), generator)
    while lanczos.step():
        pass
    values, _ = lanczos.result.eigen()
    np.testing.assert_allclose(values, [0, 0, 2, 2, 2], rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", ["hutchinson", "hutch++", "xtrace"])
def test_trace_is_unbiased(method, tiny, batches, dense) -> None:
    """Over 49 seeds the mean is the trace (|z| < 4) and the stated error is that of the spread."""
    found = [hessian_trace(tiny, CE, batches, method=method, num_matvecs=12, seed=seed) for seed in range(49)]
    values = torch.tensor([one.value for one in found], dtype=torch.float64)
    spread = float(values.std())
    assert abs(float(values.mean() - dense.trace())) < 4 * spread / 7
    stated = math.sqrt(sum(one.standard_error**2 for one in found) / 49)
    assert stated == pytest.approx(spread, rel=0.5)  # 49 seeds, four probes each in hutch++
    assert all(one.num_products == 12 for one in found)


def test_low_rank_matrices_are_found_exactly(samples) -> None:
    """For a Gauss-Newton matrix of rank 3, hutch++ and xtrace need six products for the exact trace."""
    torch.manual_seed(0)
    model = nn.Linear(6, 4).double()
    data = [(samples[0][:1], samples[1][:1])]  # one sample of four classes: rank 3
    exact = float(HessianOperator(model, CE, data).dense().trace())
    for method in ("hutch++", "xtrace"):
        found = hessian_trace(model, CE, data, method=method, num_matvecs=12)
        assert found.value == pytest.approx(exact, rel=1e-9)


def test_enough_products_are_exact(tiny, batches, dense) -> None:
    found = hessian_trace(tiny, CE, batches, num_matvecs=200)
    assert found.value == pytest.approx(float(dense.trace()), rel=1e-10)
    assert found.standard_error == 0
    assert found.num_products == 92


def test_stopping_by_the_standard_error(samples) -> None:
    """Products are doubled until the standard error is within the tolerance, or the budget spent."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 60), nn.Tanh(), nn.Linear(60, 4)).double()
    found = hessian_trace(model, CE, [samples], num_matvecs=6, tolerance=0.05, method="hutchinson")
    assert found.standard_error <= 0.05 * abs(found.value)
    assert found.num_products > 6
    stopped = hessian_trace(
        model, CE, [samples], num_matvecs=6, tolerance=1e-9, max_products=24, method="hutchinson"
    )
    assert stopped.num_products == 24


def test_density_moments(tiny, batches, dense) -> None:
    """Quadrature weights sum to one; the first two moments are those of the matrix within four errors."""
    found = spectral_density(tiny, CE, batches, num_probes=60, num_steps=20)
    torch.testing.assert_close(found.weights.sum(1), torch.ones(60, dtype=torch.float64))
    for power in (1, 2):  # of a unit vector's v^T A v the variance is known
        matrix = torch.linalg.matrix_power(dense, power)
        trace, square = float(matrix.trace()), float(matrix.square().sum())
        variance = 2 * (92 * square - trace**2) / (92**2 * 94)
        assert abs(found.moment(power) - trace / 92) < 4 * math.sqrt(variance / 60)
    area = torch.trapezoid(found.density, found.grid)
    assert float(area) == pytest.approx(1, abs=1e-3)  # the grid ends four widths beyond the last node
    assert bool((found.density >= 0).all())


def test_layer_traces_add_up(tiny, batches, dense) -> None:
    """Each layer's trace, and the Frobenius norm, within four standard errors of the dense blocks."""
    found = curvature_sizes(tiny, CE, batches, num_matvecs=400)
    exact = {"0": dense[:56, :56].trace(), "2": dense[56:, 56:].trace()}
    assert found.layer_traces.keys() == exact.keys()
    for name, trace in found.layer_traces.items():
        assert abs(trace.value - float(exact[name])) < 4 * trace.standard_error
    assert abs(found.frobenius_norm - float(dense.norm())) < 4 * found.frobenius_standard_error


def test_progress_is_told(tiny, batches) -> None:
    """What goes through the network at a time is told, with the most there will be, up to the end."""
    for method, matvecs, done in (("hutch++", 9, [3, 6, 9]), ("xtrace", 9, [4, 8]), ("hutchinson", 9, [9])):
        seen: list[tuple[int, int]] = []
        hessian_trace(
            tiny,
            CE,
            batches,
            method=method,
            num_matvecs=matvecs,
            progress=lambda done, most, seen=seen: seen.append((done, most)),
        )
        assert seen == [(count, done[-1]) for count in done]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m, d: top_eigenvalues(m, CE, d, k=0), "`k` must be in 1..92"),
        (lambda m, d: top_eigenvalues(m, CE, d, which="middle"), "`which` must be one of"),
        (lambda m, d: top_eigenvalues(m, CE, d, tolerance=0.0), "`tolerance` must be positive"),
        (lambda m, d: top_eigenvalues(m, CE, d, k=5, max_products=4), "`max_products` must be at least"),
        (lambda m, d: hessian_trace(m, CE, d, method="exact"), "`method` must be one of"),
        (lambda m, d: hessian_trace(m, CE, d, num_matvecs=2), "`num_matvecs` must be at least 6"),
        (lambda m, d: hessian_trace(m, CE, d, matrix="fisher"), "`matrix` must be one of"),
        (lambda m, d: spectral_density(m, CE, d, num_steps=1), "`num_steps` must be at least 2"),
        (lambda m, d: spectral_density(m, CE, d, width=-1.0), "`width` must be positive"),
        (lambda m, d: curvature_sizes(m, CE, d, num_matvecs=1), "`num_matvecs` must be at least 2"),
    ],
)
def test_bad_arguments(call, message, tiny, batches) -> None:
    with pytest.raises(InputError, match=message):
        call(tiny, batches)
