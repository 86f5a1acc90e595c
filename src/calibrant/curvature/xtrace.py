"""XTrace: a trace for which every random vector serves both to find the range and to test the rest."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from calibrant._math.shapes import Float, Int

_MOST_GROUPS = 16  # of probes, left out in turn


class Sketch(NamedTuple):
    """The images of m probes under a symmetric matrix A of ``size`` rows, in coordinates of their span.

    Omega holds the probes as columns of length sqrt(size), and A Omega = Q R. Leading dimensions of the
    fields, if any, are several such sketches.
    """

    size: int
    upper: Float[Tensor, "*S k m"]
    """R, or any other coordinates of A Omega by an orthonormal basis."""
    core: Float[Tensor, "*S k k"]
    """Q^T A Q."""
    inner: Float[Tensor, "*S k m"]
    """Q^T Omega."""
    quadratic: Float[Tensor, "*S m"]
    """w^T A w of each probe w."""

    def values(self) -> Float[Tensor, "*S m"]:
        """Each probe's estimate: the trace in the range that the others span, and the probe's on the rest.

        That range is Q (I - s s^T) Q^T with s the normalised column of R^-T (Epperly et al. 2024, section 2);
        R must be square and regular.
        """
        out = torch.linalg.inv(self.upper).mT
        out = out / out.norm(dim=-2, keepdim=True)  # columns s
        # coordinates of the probe's part in the others' range
        shadow = self.inner - out * (out * self.inner).sum(-2, keepdim=True)
        whole = self.core.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True)
        inside = whole - (out * (self.core @ out)).sum(-2)
        outside = self.quadratic - (shadow * (2 * self.upper - self.core @ shadow)).sum(-2)
        # a probe's part outside is as long as that of a random vector of that space is to be
        num_probes = self.upper.shape[-1]
        return inside + outside * (self.size - num_probes + 1) / (self.size - shadow.square().sum(-2))

    def without(self, left_out: Int[Tensor, "S g"]) -> Sketch:
        """The sketches without these probes."""
        groups, few = left_out.shape
        num_probes = self.upper.shape[-1]
        kept = torch.ones((groups, num_probes), dtype=torch.bool, device=self.upper.device)
        kept.scatter_(1, left_out.to(kept.device), value=False)
        places = kept.nonzero()[:, 1].view(groups, num_probes - few)
        images = self.upper[:, places].movedim(1, 0)  # (S, m, m - g)
        basis, upper = torch.linalg.qr(images)
        return Sketch(
            self.size,
            upper,
            basis.mT @ self.core @ basis,
            basis.mT @ self.inner[:, places].movedim(1, 0),
            self.quadratic[places],
        )


def mean_and_error(sketch: Sketch) -> tuple[float, float]:
    r"""Mean of the probes' estimates, and its standard error.

    The estimates are not independent, as each uses the others' probes: the spread between them, taken as if
    they were, states about a fifth too little. The jackknife states too much. Let :math:`V_k` be what
    interactions of k probes contribute to the variance (Hoeffding). Given the others a probe's estimate is
    unbiased, so all of its interactions have the probe itself in them; the first then tells
    :math:`\sum_k V_k / k` at least, and the second :math:`\sum_k k V_k` (Efron and Stein 1981). By the
    Cauchy-Schwarz inequality the geometric mean of these is no less than the variance.
    """
    values = sketch.values()
    count = len(values)
    few = math.ceil(count / _MOST_GROUPS)
    groups = math.ceil(count / few)
    left_out = torch.arange(groups * few).remainder(count).view(groups, few)
    others = sketch.without(left_out).values().mean(-1)
    apart = values.var() / count
    jackknife = (groups - 1) / groups * (others - others.mean()).square().sum()
    return float(values.mean()), float((apart * jackknife) ** 0.25)
