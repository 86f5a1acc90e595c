"""Which batches an epoch has, and what of it a report tells."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.shapes import Int
from calibrant.losses._module import BatchLossModule
from calibrant_lab.training.recipe import Recipe

_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


def least_batch(model: nn.Module, processes: int) -> int:
    """The samples that a batch must have: one for each process, and two where batches are normalised."""
    normalised = any(isinstance(module, _NORMS) for module in model.modules())
    return 2 * processes if normalised else max(2, processes)


def batches_in(order: Int[Tensor, " N"], recipe: Recipe, *, least: int) -> list[Int[Tensor, " B"]]:
    """An epoch's samples in batches; a last one that is too small is left out."""
    size = recipe.training.batch_size
    batches = list(order.split(size))
    needed = size if recipe.training.drop_last else least
    if len(batches) > 1 and len(batches[-1]) < needed:
        batches.pop()
    return batches


def check_batches(recipe: Recipe, samples: int, model: nn.Module) -> None:
    processes = recipe.hardware.devices * recipe.hardware.nodes
    least = least_batch(model, processes)
    if min(recipe.training.batch_size, samples) < least:
        raise InputError(
            f"`training.batch_size` must be at least {least}, and so must the number of training samples: "
            f"each of {processes} processes needs {least // processes} of every batch; got "
            f"{recipe.training.batch_size} and {samples}."
        )


def batch_facts(recipe: Recipe, samples: int, model: nn.Module, loss: nn.Module, *, processes: int) -> str:
    """What of the batches is not as it looks, to follow their size; empty where nothing is."""
    least, said = least_batch(model, processes), ""
    left = samples - sum(map(len, batches_in(torch.arange(samples), recipe, least=least)))
    if left:
        why = "training.drop_last" if recipe.training.drop_last else f"a batch needs {least}"
        said = f"; the last {left} of {samples} samples of every epoch are left out ({why})"
    if processes > 1 and (isinstance(loss, BatchLossModule) or ":" in recipe.loss.partition("(")[0]):
        said += f"; each of {processes} processes computes it on its share of the batch"
    return said
