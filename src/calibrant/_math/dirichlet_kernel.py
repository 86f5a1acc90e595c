r"""Regression of the labels on the whole vector of probabilities, by a kernel that lives on the simplex.

The kernel of sample i with bandwidth h is the Dirichlet density of parameters :math:`p_i / h + 1`, whose mode
is :math:`p_i`:

.. math:: \log k_h(p; p_i) = \log \Gamma(1/h + C) - \sum_k \log \Gamma(p_{ik}/h + 1)
          + \frac1h \sum_k p_{ik} \log p_k .

The last sum does not depend on h: one matrix product serves every bandwidth.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.shapes import Bool, Float, Int

CANDIDATES = (*torch.logspace(-5, -1, 15, dtype=torch.float64).tolist(), 0.2, 0.4, 0.6, 0.8, 1.0)

_CACHED = 2**17  # entries of the kernel matrix held at a time: 1 MiB
# Stands for log 0: its product with a zero is zero. For other probabilities no product is below -745.
_LOG_OF_ZERO = -1e30
_IMPOSSIBLE = -1e4
# Densities this far below the largest, on the logarithmic scale, count as nothing. (Smaller ones would be
# subnormal numbers, with which processors are slow.)
_NEGLIGIBLE = -600.0
_JUDGES = 2000  # samples at most whose likelihood decides on the bandwidth


class Regression(NamedTuple):
    """Frequencies of the classes around each sample, without its own label."""

    frequencies: Float[Tensor, "N C"]
    known: Bool[Tensor, " N"]  # whether any other sample has a density there


def regress(
    probs: Float[Tensor, "N C"],
    labels: Int[Tensor, " N"],
    bandwidth: float,
    weights: Float[Tensor, " N"] | None = None,
) -> Regression:
    """Kernel-weighted mean of the other samples' labels at every sample."""
    frequencies = torch.zeros_like(probs)
    known = torch.zeros(len(probs), dtype=torch.bool, device=probs.device)
    terms = _own_terms(probs, bandwidth, weights)
    one_hot = torch.nn.functional.one_hot(labels, probs.shape[1]).to(torch.float64)
    everyone = torch.arange(len(probs), device=probs.device)
    for rows, products in _products(probs, everyone):
        known[rows] = _has_neighbours(products)
        density = products.div_(bandwidth).add_(terms)
        density.sub_(density.amax(dim=1, keepdim=True))
        torch.threshold_(density, _NEGLIGIBLE, -torch.inf).exp_()
        frequencies[rows] = density @ one_hot / density.sum(dim=1, keepdim=True)
    return Regression(frequencies, known)


def likeliest_bandwidth(probs: Float[Tensor, "N C"], weights: Float[Tensor, " N"] | None = None) -> float:
    """The one of ``CANDIDATES`` under which the samples are likeliest, each given the others.

    At most 2000 samples are judged, evenly spaced in the order of their largest probabilities.
    """
    judges = torch.arange(len(probs), device=probs.device)
    if len(probs) > _JUDGES:
        places = torch.arange(_JUDGES, device=probs.device) * len(probs) // _JUDGES
        judges = probs.amax(dim=1).argsort(stable=True)[places]
    shares = (torch.ones_like(probs[:, 0]) if weights is None else weights)[judges]
    terms = [_own_terms(probs, bandwidth, weights) for bandwidth in CANDIDATES]
    totals = torch.zeros(len(CANDIDATES), dtype=torch.float64, device=probs.device)
    for rows, products in _products(probs, judges):
        known = _has_neighbours(products)
        for index, bandwidth in enumerate(CANDIDATES):
            density = torch.logsumexp((products / bandwidth).add_(terms[index]), dim=1)
            totals[index] += density.where(known, 0.0) @ shares[rows]
    return CANDIDATES[int(totals.argmax())]


def _has_neighbours(products: Float[Tensor, "n N"]) -> Bool[Tensor, " n"]:
    """Whether any other sample has a density there; that is so under every bandwidth, or under none."""
    return products.amax(dim=1) > _IMPOSSIBLE


def _own_terms(
    probs: Float[Tensor, "N C"], bandwidth: float, weights: Float[Tensor, " N"] | None
) -> Float[Tensor, " N"]:
    """What of the logarithm of its kernel belongs to a sample, its weight included."""
    constant = torch.lgamma(torch.tensor(1 / bandwidth + probs.shape[1], dtype=torch.float64))
    terms = constant.to(probs.device) - torch.lgamma(probs / bandwidth + 1).sum(dim=1)
    return terms if weights is None else terms + weights.log()


def _products(
    probs: Float[Tensor, "N C"], judges: Int[Tensor, " M"]
) -> Iterator[tuple[slice, Float[Tensor, "n N"]]]:
    """Slices of ``judges``, and the sums over k of p_ik log p_k there for all i; their own is impossible."""
    step = max(1, _CACHED // len(probs))
    for start in range(0, len(judges), step):
        rows = slice(start, min(start + step, len(judges)))
        own = judges[rows]
        products = probs[own].log().clamp(min=_LOG_OF_ZERO) @ probs.t()
        products.scatter_(1, own[:, None], _LOG_OF_ZERO)
        yield rows, products
