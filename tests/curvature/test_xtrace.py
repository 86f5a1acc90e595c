"""XTrace against its definition, and its standard error against the truth."""

import math

import pytest
import torch
from torch import Tensor, nn

from calibrant.curvature import HessianOperator, hessian_trace
from calibrant.curvature.trace import Sketch, mean_and_error

SIZE = 40
CE = nn.CrossEntropyLoss()


def problem(num_probes: int) -> tuple[Tensor, Tensor]:
    """A symmetric matrix with a few large eigenvalues of either sign, and probes of length sqrt(size)."""
    generator = torch.Generator().manual_seed(0)
    basis, _ = torch.linalg.qr(torch.randn(SIZE, SIZE, generator=generator, dtype=torch.float64))
    values = 0.7 ** torch.arange(SIZE, dtype=torch.float64)
    values[1::3] *= -0.5
    probes = torch.randn(SIZE, num_probes, generator=generator, dtype=torch.float64)
    return basis @ torch.diag(values) @ basis.T, probes * math.sqrt(SIZE) / probes.norm(dim=0)


def sketch(matrix: Tensor, probes: Tensor) -> Sketch:
    images = matrix @ probes
    basis, upper = torch.linalg.qr(images)
    return Sketch(SIZE, upper, basis.T @ matrix @ basis, basis.T @ probes, (probes * images).sum(0))


def by_definition(matrix: Tensor, probes: Tensor) -> Tensor:
    """For each probe: the range of the others, the trace in it, and the probe's part outside, lengthened."""
    values: list[Tensor] = []
    count = probes.shape[1]
    for place in range(count):
        others = torch.cat([probes[:, :place], probes[:, place + 1 :]], dim=1)
        basis, _ = torch.linalg.qr(matrix @ others)
        outside = probes[:, place] - basis @ (basis.T @ probes[:, place])
        factor = (SIZE - count + 1) / outside.square().sum()
        values.append((basis.T @ matrix @ basis).trace() + factor * (outside @ matrix @ outside))
    return torch.stack(values)


@pytest.mark.parametrize("num_probes", [3, 4, 11])
def test_values(num_probes) -> None:
    matrix, probes = problem(num_probes)
    expected = by_definition(matrix, probes)
    torch.testing.assert_close(sketch(matrix, probes).values(), expected, rtol=1e-9, atol=1e-9)


def test_without_some_probes() -> None:
    matrix, probes = problem(7)
    left_out = torch.tensor([[0, 3], [6, 0], [2, 4]])
    found = sketch(matrix, probes).without(left_out).values()
    for row, some in zip(found, left_out.tolist(), strict=True):
        kept = [place for place in range(7) if place not in some]
        torch.testing.assert_close(row, by_definition(matrix, probes[:, kept]), rtol=1e-9, atol=1e-9)


def test_error_is_between_the_spread_and_the_jackknife() -> None:
    matrix, probes = problem(9)
    value, error = mean_and_error(sketch(matrix, probes))
    values = by_definition(matrix, probes)
    means = torch.stack(
        [
            by_definition(matrix, torch.cat([probes[:, :place], probes[:, place + 1 :]], dim=1)).mean()
            for place in range(9)
        ]
    )
    spread = values.var() / 9
    jackknife = 8 / 9 * (means - means.mean()).square().sum()
    assert value == pytest.approx(float(values.mean()), rel=1e-10)
    assert error == pytest.approx(float((spread * jackknife).sqrt().sqrt()), rel=1e-9)


@pytest.mark.parametrize("num_probes", [16, 17, 30])
def test_many_probes_are_left_out_in_groups(num_probes) -> None:
    """However many there are, the error is finite and of the size of the spread."""
    matrix, probes = problem(num_probes)
    found = sketch(matrix, probes)
    _, error = mean_and_error(found)
    spread = float(found.values().std()) / math.sqrt(num_probes)
    assert spread / 2 < error < 4 * spread


def test_standard_error_is_honest() -> None:
    """Over 100 seeds the errors in units of the stated ones have a root mean square near one, not above.

    The spread of the estimates alone would give 1.2 to 1.4: they depend on each other.
    """
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4)).double()
    inputs = torch.randn(60, 6, dtype=torch.float64)
    labels = inputs[:, :4].argmax(1)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(60):
        optimiser.zero_grad()
        CE(model(inputs), labels).backward()
        optimiser.step()
    data = [(inputs, labels)]
    truth = float(HessianOperator(model, CE, data).dense().trace())
    found = [hessian_trace(model, CE, data, num_matvecs=20, seed=seed) for seed in range(100)]
    ratios = torch.tensor([(one.value - truth) / one.standard_error for one in found], dtype=torch.float64)
    assert 0.6 < float(ratios.square().mean().sqrt()) < 1.2
    # |z| < 4 of a mean of 100
    assert abs(float(ratios.mean())) < 4 * float(ratios.std()) / 10


def test_it_is_the_default(tiny, batches) -> None:
    """Without a method XTrace is taken; of an odd number of products it makes one less."""
    found = hessian_trace(tiny, CE, batches, num_matvecs=13)
    assert found == hessian_trace(tiny, CE, batches, method="xtrace", num_matvecs=12)
    assert found != hessian_trace(tiny, CE, batches, method="hutch++", num_matvecs=12)
    assert found.num_products == 12
