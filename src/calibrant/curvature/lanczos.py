"""Lanczos tridiagonalisation of a symmetric matrix known by its products, with full reorthogonalisation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BREAKDOWN = 1e-10  # a new direction shorter than this, relative to the matrix, is rounding noise


@dataclass(frozen=True)
class Tridiagonal:
    """Orthonormal basis and tridiagonal matrix of a Krylov space."""

    basis: Tensor  # orthonormal rows, ``(m, P)``
    diagonal: list[float]
    below: list[float]  # off-diagonal entries; one fewer than the diagonal
    residual: float  # length of the last product's component outside the basis

    def eigen(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ritz values, ascending, and the tridiagonal matrix's eigenvectors as columns."""
        matrix = np.diag(self.diagonal) + np.diag(self.below, -1)
        values, vectors = np.linalg.eigh(matrix)  # reads the lower triangle only
        return values, vectors


class Lanczos:
    """Grows a :class:`Tridiagonal` by one product at a time.

    If the Krylov space closes (the starting vector is in an invariant subspace), it continues with a fresh
    random direction, and ``below`` is 0. So repeated eigenvalues are found as often as they occur.
    """

    def __init__(
        self, product: Callable[[Tensor], Tensor], start: Tensor, generator: torch.Generator
    ) -> None:
        self.product, self.generator = product, generator
        self._diagonal: list[float] = []
        self._below: list[float] = []
        self.direction: Tensor | None = start / start.norm()
        """Unit vector for the next product; None if the basis spans the whole space."""
        self._rows = torch.empty((0, start.numel()), dtype=start.dtype, device=start.device)

    def step(self) -> bool:
        """Make one more product; return False, without one, if the basis spans the whole space."""
        if self.direction is None:
            return False
        self.take(self.direction, self.product(self.direction))
        return True

    def take(self, vector: Tensor, image: Tensor) -> None:
        """Continue with a product of ``direction`` that was made elsewhere."""
        self._keep(vector)
        self._diagonal.append(float(vector @ image))
        image = self._away(image)
        length = float(torch.linalg.vector_norm(image))
        scale = max(abs(value) for value in [*self._diagonal, *self._below])
        if length > BREAKDOWN * scale:
            self.direction = image / length
            self._below.append(length)
        else:
            self.direction = self._fresh()
            self._below.append(0.0)

    @property
    def result(self) -> Tridiagonal:
        """Krylov space of all products so far."""
        used = len(self._diagonal)
        return Tridiagonal(
            basis=self._rows[:used],
            diagonal=self._diagonal,
            below=self._below[: used - 1],
            residual=self._below[-1],
        )

    def _keep(self, vector: Tensor) -> None:
        used = len(self._diagonal)
        if used == len(self._rows):
            size = min(max(8, 2 * used), vector.numel())
            rows = vector.new_empty((size, vector.numel()))
            rows[:used] = self._rows
            self._rows = rows
        self._rows[used] = vector

    def _away(self, vector: Tensor) -> Tensor:
        """Component of a vector orthogonal to the basis; two passes suffice (Parlett 1998, section 6.9)."""
        rows = self._rows[: len(self._diagonal)]
        for _ in range(2):
            vector = vector - rows.T @ (rows @ vector)
        return vector

    def _fresh(self) -> Tensor | None:
        """A random direction orthogonal to the basis; None if none remains."""
        size = self._rows.shape[1]
        if len(self._diagonal) >= size:
            return None
        vector = torch.randn(size, generator=self.generator, dtype=self._rows.dtype).to(self._rows.device)
        vector = self._away(vector)
        return vector / vector.norm()
