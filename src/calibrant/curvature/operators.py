"""Products of vectors with the Hessian, or the generalised Gauss-Newton matrix, of a mean loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant.curvature.differentiation import Together, check_mean_loss, gradient
from calibrant.curvature.lanczos import Lanczos
from calibrant.curvature.parametric_model import Batches, Loss, Mode, ParametricModel, check_batches

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

Matrix: TypeAlias = Literal["hessian", "gauss-newton"]
_Product: TypeAlias = Callable[[Tensor], Tensor]


class _Batch(NamedTuple):
    product: _Product
    slope: Callable[[], Tensor]  # the gradient by the parameters
    samples: int


# Memory for directions taken together: on a CPU about its cache.
_MOST_NUMBERS, _MOST_ELSEWHERE = 2**21, 2**24


class CurvatureOperator(ABC):
    r"""A symmetric matrix known by its products with vectors.

    .. math:: H = \nabla_\theta^2 \frac1N \sum_b n_b\, \ell_b(\theta), \qquad N = \sum_b n_b

    with :math:`\ell_b` the mean loss of batch *b* and :math:`n_b` its number of labels, so that batches of
    unequal size count by their samples. Sums over batches are taken in float64 (on a device that has it).

    The derivatives of a single batch are kept from one product to the next, and those of several batches if
    the network keeps at most two million numbers for them, 16 million on a GPU. With larger data only one
    batch is held at a time, so that memory does not grow. Columns go through the network several at a
    time: at least one, and others up to the same limit. They go one by one if the network or the loss
    cannot do that, or its memory cannot be predicted. The result is the same up to rounding.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        data: Batches,
        *,
        parameters: str | Iterable[str] | None = None,
        mode: Mode = "eval",
    ) -> None:
        check_batches(data)
        self.model = ParametricModel(model, parameters=parameters, mode=mode)
        self.loss = loss
        self.data = data
        self.num_products = 0
        """Products with single vectors so far."""
        self._kept: list[_Batch] = []
        self._too_large = False
        self._together = Together()

    @property
    def size(self) -> int:
        """Number of rows, and columns, of the matrix."""
        return self.model.size

    @property
    def dtype(self) -> torch.dtype:
        """float64, or float32 on a device without it."""
        return torch.float32 if self.model.device.type == "mps" else torch.float64

    def __matmul__(self, vectors: Tensor) -> Tensor:
        """Product with a vector ``(P,)`` or with the columns of ``(P, m)``, in the operator's dtype.

        Raises:
            InputError: If the shape is another, or there are no batches.
        """
        if vectors.ndim not in {1, 2} or vectors.shape[0] != self.size:
            raise InputError(
                f"`vectors` must have shape ({self.size},) or ({self.size}, m); got {tuple(vectors.shape)}."
            )
        rows = vectors.mT if vectors.ndim == 2 else vectors
        rows = rows.to(device=self.model.device, dtype=self.dtype).contiguous()
        total = torch.zeros_like(rows)
        samples = 0
        for product, _, count in self._batches():
            samples += count
            if rows.ndim == 1:
                total.add_(product(rows), alpha=count)
                continue
            step = self._step(len(rows), count)
            for start in range(0, len(rows), step):
                some = slice(start, start + step)
                total[some].add_(self._together(product, rows[some]), alpha=count)
        self.num_products += rows.numel() // self.size
        total /= samples
        return total if rows.ndim == 1 else total.mT

    @property
    def block(self) -> int:
        """Number of columns that go through the network together, for the first batch."""
        return self._most_at_once(self._first_batch[1])

    def dense(self) -> Tensor:
        """The whole matrix ``(P, P)``, symmetrised: for tiny networks."""
        matrix = self @ torch.eye(self.size, dtype=self.dtype, device=self.model.device)
        return (matrix + matrix.T) / 2

    def to_scipy(self) -> LinearOperator:
        """The operator as a SciPy ``LinearOperator`` on float64 arrays."""
        from scipy.sparse.linalg import LinearOperator

        def product(array: Any) -> Any:
            return (self @ torch.as_tensor(array, dtype=self.dtype)).cpu().double().numpy()

        shape = (self.size, self.size)
        make: Any = LinearOperator
        return make(shape, matvec=lambda x: product(x.reshape(-1)), matmat=product, dtype="float64")

    def signs(self, count: int, generator: torch.Generator) -> Tensor:
        """Random signs, ``(P, count)``, on the parameters' device."""
        signs = torch.randint(0, 2, (self.size, count), generator=generator, dtype=torch.int8)
        return (2 * signs.to(self.dtype) - 1).to(self.model.device)

    def krylov(self, generator: torch.Generator, *, along_gradient: bool = False) -> Lanczos:
        """Lanczos from a random direction, or from one near the gradient, before any step."""
        start = torch.randn(self.size, generator=generator, dtype=self.dtype).to(self.model.device)
        if along_gradient:
            slope = sum(batch.samples * batch.slope() for batch in self._batches())
            start = normalize(start, dim=0) + 10 * normalize(torch.as_tensor(slope), dim=0)
        return Lanczos(lambda vector: self @ vector, start, generator)

    def _most_at_once(self, count: int) -> int:
        return max(1, int(self._fitting(1, count)))

    def _fitting(self, batches: int, count: int) -> float:
        """How many times the memory holds what these batches of ``count`` samples together need."""
        kept, samples = self._first_batch
        most = _MOST_NUMBERS if self.model.device.type == "cpu" else _MOST_ELSEWHERE
        return most / (batches * self.size + kept * count / samples)

    def _step(self, columns: int, count: int) -> int:
        """Columns per part: at most the limit for such a batch, for parts of equal size."""
        if columns < 2:
            return 1
        parts = math.ceil(columns / self._most_at_once(count))
        return math.ceil(columns / parts)

    @cached_property
    def _first_batch(self) -> tuple[float, int]:
        """Numbers that the network keeps of the first non-empty batch, and its samples."""
        for batch in self.data:
            inputs, labels = self.model.to_device(batch)
            if labels.numel() > 0:
                return self.model.numbers_kept(inputs), labels.numel()
        return 0, 1

    def _batches(self) -> Iterator[_Batch]:
        """The batches that are not empty; kept if there is one, or all fit into the memory together."""
        if self._kept:
            yield from self._kept
            return
        made: list[_Batch] = []
        samples = 0
        for inputs, labels in map(self.model.to_device, self.data):
            count = labels.numel()
            if count == 0:
                continue
            samples += count
            if made and self._fitting(len(made) + 1, samples) < 1:
                self._too_large = True
                made.clear()
            batch = _Batch(*self._derivatives(inputs, labels), count)
            if not self._too_large:
                made.append(batch)
            yield batch
        if samples == 0:
            raise InputError("`data` must hold at least one batch; got none.")
        self._kept = made

    @abstractmethod
    def _derivatives(self, inputs: Any, labels: Tensor) -> tuple[_Product, Callable[[], Tensor]]: ...

    def _flat(self, pieces: Iterable[Tensor]) -> Tensor:
        return torch.cat([piece.reshape(-1) for piece in pieces]).to(self.dtype)


class HessianOperator(CurvatureOperator):
    """Products with the Hessian of the mean loss, by two reverse passes (Pearlmutter 1994).

    Args:
        model: Any network; its parameters, buffers, gradients and mode stay as they are. It may return a
            tensor of logits or something with ``.logits``.
        loss: Logits and labels to the mean loss of a batch; nothing else is known of it.
        data: Pairs of inputs and labels, iterable many times: a list, or a ``DataLoader`` without random
            augmentation. Inputs are a tensor, a tuple of arguments or a mapping of keyword arguments.
        parameters: Names of parameters or modules to differentiate by; default all that are not frozen.
        mode: "eval" (running statistics) or "train" (batch statistics; without dropout's noise, and
            without changing the running ones).

    Raises:
        InputError: If nothing is trained, a name is unknown, or ``data`` is an iterator.

    Note:
        A product costs about four evaluations of the network, three where there is a single batch. Parameters
        in float32 give products with rounding errors of about 1e-6 of the largest; convert the model to
        float64 for more.

    References:
        Pearlmutter, "Fast exact multiplication by the Hessian", Neural Computation 6, 1994.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from calibrant.curvature import HessianOperator
        >>> model = nn.Linear(1, 2, bias=False).double()
        >>> _ = nn.init.zeros_(model.weight)
        >>> data = [(torch.ones(4, 1).double(), torch.tensor([0, 1, 0, 1]))]
        >>> HessianOperator(model, nn.functional.cross_entropy, data).dense()
        tensor([[ 0.2500, -0.2500],
                [-0.2500,  0.2500]], dtype=torch.float64)
    """

    def _derivatives(self, inputs: Any, labels: Tensor) -> tuple[_Product, Callable[[], Tensor]]:
        values = self.model.values
        loss = self.loss(self.model.logits(inputs), labels)
        check_mean_loss(loss)
        slope = torch.cat([piece.reshape(-1) for piece in gradient(loss, values, create_graph=True)])

        def product(vector: Tensor) -> Tensor:
            return self._flat(gradient((slope,), values, along=(vector.to(slope.dtype),)))

        return product, lambda: slope.detach().to(self.dtype)


class GaussNewtonOperator(CurvatureOperator):
    r"""Products with the generalised Gauss-Newton matrix :math:`J^\top \nabla_z^2 \ell\, J`.

    The network is replaced by its linearisation: the Hessian without the curvature of the network itself.
    Positive semi-definite where the loss is convex in the logits (cross-entropy: yes, focal: no).
    Arguments and errors as for :class:`HessianOperator`.

    References:
        Schraudolph, "Fast curvature matrix-vector products for second-order gradient descent", 2002.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from calibrant.curvature import GaussNewtonOperator
        >>> model = nn.Linear(1, 2, bias=False).double()
        >>> _ = nn.init.zeros_(model.weight)
        >>> data = [(torch.ones(4, 1).double(), torch.tensor([0, 1, 0, 1]))]
        >>> GaussNewtonOperator(model, nn.functional.cross_entropy, data) @ torch.tensor([1.0, 0.0])
        tensor([ 0.2500, -0.2500], dtype=torch.float64)
    """

    def _derivatives(self, inputs: Any, labels: Tensor) -> tuple[_Product, Callable[[], Tensor]]:
        values = self.model.values
        logits = self.model.logits(inputs)
        place = logits.detach().requires_grad_()
        loss = self.loss(place, labels)
        check_mean_loss(loss)
        (slope,) = gradient(loss, (place,), create_graph=True)
        # J v is the derivative of J^T u with respect to u, in direction v.
        dual = torch.zeros_like(logits, requires_grad=True)
        pulled = gradient((logits,), values, along=(dual,), create_graph=True)

        def pulled_back(vector: Tensor) -> Tensor:
            return self._flat(gradient((logits,), values, along=(vector,)))

        def product(vector: Tensor) -> Tensor:
            (pushed,) = gradient(pulled, (dual,), along=self.model.split(vector))
            (bent,) = gradient((slope,), (place,), along=(pushed,))
            return pulled_back(bent)

        return product, lambda: pulled_back(slope.detach())


def curvature_operator(
    model: nn.Module,
    loss: Loss,
    data: Batches,
    *,
    matrix: Matrix = "hessian",
    parameters: str | Iterable[str] | None = None,
    mode: Mode = "eval",
) -> CurvatureOperator:
    """Operator for the name ``matrix``."""
    check_choice("matrix", matrix, ("hessian", "gauss-newton"))
    make = HessianOperator if matrix == "hessian" else GaussNewtonOperator
    return make(model, loss, data, parameters=parameters, mode=mode)
