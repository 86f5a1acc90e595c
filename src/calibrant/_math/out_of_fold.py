"""Cross-validation loop: scores for each sample from fits that exclude it."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.machine import in_threads
from calibrant._math.shapes import Bool, Int, Shaped


def out_of_fold(
    folds: Int[Tensor, " N"],
    judge: Callable[[Bool[Tensor, " N"]], Shaped[Tensor, "n ..."]],
    *,
    threads: int | None = 1,
) -> Shaped[Tensor, "N ..."]:
    """Result for each sample from a fit to the other folds.

    ``judge`` takes the mask of a fold, fits to the other samples, and returns one row per sample inside.
    ``threads`` is the number of folds processed at once; None for the number of processors.

    Example:
        >>> import torch
        >>> values = torch.tensor([1.0, 2.0, 3.0, 6.0])
        >>> out_of_fold(torch.tensor([0, 0, 1, 1]), lambda inside: values[~inside].mean().expand(2))
        tensor([4.5000, 4.5000, 1.5000, 1.5000])
    """

    def one(fold: int) -> tuple[Tensor, Tensor]:
        inside = folds == fold
        return inside, judge(inside)

    found: Tensor | None = None
    for inside, values in in_threads(one, folds.unique().tolist(), most=threads):
        if found is None:
            found = values.new_empty((len(folds), *values.shape[1:]))
        found[inside] = values
    if found is None:
        raise InputError("`folds` must hold a sample or more; got none.")
    return found
