r"""Sums over all pairs of points on a line under the kernel exp(-|x - y| / h), without the pairs.

Sorted, :math:`e^{-|x_i - x_j|/h} = e^{x_j/h} e^{-x_i/h}` for :math:`x_j \le x_i`: one cumulative sum serves
every i. Exact; O(N log N) time and O(N) memory where the matrix of pairs needs the square.
"""

from __future__ import annotations

import torch
from torch import Tensor

from calibrant._math.shapes import Float


def laplacian_pair_sum(
    points: Float[Tensor, " N"],
    left: Float[Tensor, " N"],
    right: Float[Tensor, " N"] | None = None,
    *,
    bandwidth: float,
) -> Float[Tensor, ""]:
    r""":math:`\sum_{ij} l_i r_j e^{-|x_i - x_j| / h}`, for points within a few bandwidths of each other.

    Without ``right`` it is ``left``. Differentiable any number of times; as with the matrix of pairs, equal
    points do not move each other.
    """
    points, order = points.sort()
    left = left[order]
    place = torch.arange(len(points), device=points.device)
    # Where the run of equal points begins that a point is in: what is before that is at a distance.
    begins = torch.cat([place[:1] == 0, points[1:] > points[:-1]])
    start = torch.where(begins, place, 0).cummax(0).values
    growth = ((points - points[:1].detach()) / bandwidth).exp()

    def with_earlier(here: Tensor, there: Tensor) -> Tensor:
        at_a_distance = _before(there * growth)[start] / growth
        equal = _before(there)
        return (here * (at_a_distance + equal - equal[start])).sum()

    if right is None:
        return (left * left).sum() + 2 * with_earlier(left, left)
    right = right[order]
    return (left * right).sum() + with_earlier(left, right) + with_earlier(right, left)


def _before(values: Float[Tensor, " N"]) -> Float[Tensor, " N"]:
    """The sum of all earlier values, at each place."""
    return values.cumsum(0) - values
