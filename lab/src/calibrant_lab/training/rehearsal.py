"""What shows before the first epoch that a recipe cannot be carried out to its end."""

from __future__ import annotations

import copy
import os

import torch
from torch import nn

from calibrant._math.errors import InputError, clause
from calibrant.calibrators import build as build_calibrator
from calibrant_lab.data import Dataset
from calibrant_lab.training.batches import check_batches
from calibrant_lab.training.loss import LabelsParts
from calibrant_lab.training.recipe import Recipe
from calibrant_lab.training.recipe_sections import HardwareSection


def rehearse(
    recipe: Recipe, dataset: Dataset, model: nn.Module, loss: nn.Module, input_shape: tuple[int, ...]
) -> None:
    """Count processes, build the calibrators, and try a network and a loss that are not calibrant's own.

    Raises:
        InputError: If there are too many processes, or too few samples for them, a calibrator is unknown,
            the network fails or gives something else than logits, or the loss fails, gives something else
            than a number, or has parameters to train.
    """
    _check_processes(recipe.hardware)
    check_batches(recipe, len(dataset.train), model)
    for text in recipe.evaluation.calibrators:
        build_calibrator(text)
    if ":" in recipe.model:
        _check_answers(recipe.model, dataset, model, input_shape)
    if ":" in recipe.loss.partition("(")[0]:
        _check_loss(recipe, dataset, model, loss)


def _check_processes(hardware: HardwareSection) -> None:
    """Refuse more processes than a CPU has cores for; GPUs are counted by Fabric."""
    elsewhere = torch.cuda.is_available() or torch.backends.mps.is_available()
    cores = max(2, os.cpu_count() or 1)
    if (hardware.accelerator == "cpu" or not elsewhere) and hardware.devices > cores:
        raise InputError(
            f"`hardware.devices` must be at most {cores}, a process for each core; got {hardware.devices}."
        )


def _check_answers(name: str, dataset: Dataset, model: nn.Module, input_shape: tuple[int, ...]) -> None:
    rows = dataset.train.inputs[torch.arange(2)]
    inputs = rows if rows.dtype == torch.int32 else torch.zeros((2, *input_shape))
    training = model.training
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            logits = model.eval()(inputs)
    except Exception as error:
        raise InputError(
            f"{name} must take samples of shape {input_shape}; it fails: {clause(error)}."
        ) from error
    finally:
        model.train(training)
    shape = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
    if shape != (2, dataset.num_classes):
        raise InputError(
            f"{name} must give logits of shape (N, {dataset.num_classes}), one for each class of "
            f"{dataset.name}; for 2 samples it gives {shape}."
        )


def _check_loss(recipe: Recipe, dataset: Dataset, model: nn.Module, loss: nn.Module) -> None:
    name, classes = recipe.loss, dataset.num_classes
    trained = [key for key, each in loss.named_parameters() if each.requires_grad]
    if trained:
        raise InputError(
            f"{name} has parameters that no optimiser trains ({', '.join(trained)}); put them into the "
            "network, or make them buffers with register_buffer."
        )
    if isinstance(model, LabelsParts):  # only a training shows what its logits are of
        return
    size = min(recipe.training.batch_size, len(dataset.train))
    size -= size == classes  # (C, C) and (C,) would broadcast
    logits = torch.randn(size, classes, generator=torch.Generator().manual_seed(0), requires_grad=True)
    labels = "(N, C)" if dataset.multilabel else "(N,)"
    task = f"must map logits (N, {classes}) and labels {labels} to their loss"
    try:
        with torch.random.fork_rng(devices=[]):
            value = copy.deepcopy(loss)(logits, dataset.train.labels[:size])
    except Exception as error:
        raise InputError(f"{name} {task}; it fails: {clause(error)}.") from error
    if not isinstance(value, torch.Tensor) or value.shape != () or not value.requires_grad:
        shape = f"shape {tuple(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
        raise InputError(
            f"{name} {task}, one number (a tensor of shape ()) with a gradient: its mean over the samples; "
            f"it gives {shape}{'' if getattr(value, 'requires_grad', True) else ' without a gradient'}."
        )
