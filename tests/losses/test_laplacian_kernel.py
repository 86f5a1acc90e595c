"""Sums over pairs without the pairs."""

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from calibrant.losses.mmce import laplacian_pair_sum


def by_pairs(points: Tensor, left: Tensor, right: Tensor, bandwidth: float) -> Tensor:
    kernel = (-(points[:, None] - points[None, :]).abs() / bandwidth).exp()
    return left @ kernel @ right


@given(st.integers(1, 40), st.integers(0, 10**6), st.floats(0.2, 3), st.booleans())
def test_agrees_with_the_matrix_of_pairs(size: int, seed: int, bandwidth: float, with_ties: bool) -> None:
    """Value and gradients are those of the definition; equal points do not move each other."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(size, generator=generator, dtype=torch.float64)
    if with_ties:
        points = (points * 5).round() / 5
    weights = torch.randn(2, size, generator=generator, dtype=torch.float64)
    leaves = [leaf.requires_grad_() for leaf in (points, *weights)]
    found = laplacian_pair_sum(*leaves, bandwidth=bandwidth)
    expected = by_pairs(*leaves, bandwidth)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    for ours, theirs in zip(
        torch.autograd.grad(found, leaves), torch.autograd.grad(expected, leaves), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-10)


def test_second_derivative() -> None:
    points, left, right = torch.rand(3, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    leaf = points.requires_grad_()
    assert torch.autograd.gradgradcheck(lambda x: laplacian_pair_sum(x, left, right, bandwidth=0.4), leaf)
