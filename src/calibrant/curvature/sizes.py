"""What random probes tell besides the whole trace: the trace of each layer, and the Frobenius norm."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import nn

from calibrant._math.checks import check_at_least
from calibrant.curvature.operators import Matrix, curvature_operator
from calibrant.curvature.parametric_model import Batches, Loss, Mode
from calibrant.curvature.trace import Trace, standard_error


@dataclass(frozen=True, kw_only=True)
class CurvatureSizes:
    """Traces of the diagonal blocks, and the Frobenius norm, all from the same products."""

    layer_traces: dict[str, Trace]
    """By module: the trace of the block of its own parameters; they add up to the whole trace."""
    frobenius_norm: float
    frobenius_standard_error: float
    num_products: int


def curvature_sizes(
    model: nn.Module,
    loss: Loss,
    data: Batches,
    *,
    num_matvecs: int = 60,
    matrix: Matrix = "hessian",
    parameters: str | Iterable[str] | None = None,
    mode: Mode = "eval",
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> CurvatureSizes:
    r"""Trace of every layer's block of the Hessian, and its Frobenius norm.

    For random signs *v*, :math:`\mathbb E\, v_l^\top (Hv)_l = \operatorname{Tr} H_{ll}` for every layer *l*
    at once, and :math:`\mathbb E \|Hv\|^2 = \|H\|_F^2`: one product serves every estimate.

    Args:
        model: Any network; left as it is.
        loss: Logits and labels to the mean loss of a batch.
        data: Pairs of inputs and labels, iterable many times.
        num_matvecs: Products to spend.
        matrix: "hessian", or "gauss-newton".
        parameters: Names of parameters or modules; default all that are not frozen.
        mode: "eval" or "train", see :class:`HessianOperator`.
        seed: Seed of the probes.
        progress: Called with the products done and the most there will be.

    Returns:
        Traces by layer, each with its standard error, and the norm with its own (by the delta method).

    Raises:
        InputError: If fewer than two products are to be spent.

    References:
        Hutchinson, "A stochastic estimator of the trace of the influence matrix", 1990.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from calibrant.curvature import curvature_sizes
        >>> model = nn.Linear(1, 2, bias=False).double()
        >>> _ = nn.init.zeros_(model.weight)
        >>> data = [(torch.ones(4, 1).double(), torch.tensor([0, 1, 0, 1]))]
        >>> found = curvature_sizes(model, nn.functional.cross_entropy, data)
        >>> abs(found.frobenius_norm - 0.5) < 4 * found.frobenius_standard_error
        True
    """
    check_at_least("num_matvecs", num_matvecs, 2)
    operator = curvature_operator(model, loss, data, matrix=matrix, parameters=parameters, mode=mode)
    generator = torch.Generator().manual_seed(seed)
    layers = operator.model.layers()
    traces: dict[str, list[float]] = {name: [] for name in layers}
    squares: list[float] = []
    for start in range(0, num_matvecs, operator.block):
        count = min(operator.block, num_matvecs - start)
        probes = torch.cat([operator.signs(1, generator) for _ in range(count)], dim=1)  # (P, m)
        images = operator @ probes
        products = probes * images
        squares += images.square().sum(0).tolist()
        for name, places in layers.items():
            traces[name] += torch.cat([products[place] for place in places]).sum(0).tolist()
        if progress is not None:
            progress(start + count, num_matvecs)
    mean, error = _mean(squares)
    norm = math.sqrt(mean)
    found = {name: _mean(values) for name, values in traces.items()}
    return CurvatureSizes(
        layer_traces={
            name: Trace(value=value, standard_error=spread, num_products=num_matvecs)
            for name, (value, spread) in found.items()
        },
        frobenius_norm=norm,
        frobenius_standard_error=error / (2 * norm) if norm > 0 else 0.0,
        num_products=operator.num_products,
    )


def _mean(values: list[float]) -> tuple[float, float]:
    """Mean and standard error."""
    numbers = torch.tensor(values, dtype=torch.float64)
    return float(numbers.mean()), standard_error(numbers)
