"""Train many small networks at once: every loss and seed is a slice of batched products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from calibrant import losses
from calibrant._math.machine import threads_for
from calibrant._math.shapes import Float, Int
from calibrant.losses import AdaFocalLoss

WIDTHS = (64, 64)
LEARNING_RATE = 1e-2
NUM_CLASSES = 10


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Amount of data and length of training."""

    side: int
    """Side of the square images, in pixels."""
    num_training: int
    num_calibration: int
    num_epochs: int
    batch_size: int


@dataclass(frozen=True, kw_only=True)
class Digits:
    """One split of the images per seed."""

    images: Float[Tensor, "N P"]
    labels: Int[Tensor, " N"]
    training: Int[Tensor, "S n"]
    calibration: Int[Tensor, "S m"]
    test: Int[Tensor, "S k"]


def read_digits() -> tuple[Float[np.ndarray, "N P"], Int[np.ndarray, " N"]]:
    """Return 1797 images of handwritten digits, 64 pixels from 0 to 16, and their digits.

    References:
        Alpaydin and Kaynak, "Optical Recognition of Handwritten Digits", UCI ML Repository 1998,
        doi:10.24432/C50P49 (CC BY 4.0); the test part, as in scikit-learn's ``load_digits``.

    Example:
        >>> pixels, labels = read_digits()
        >>> pixels.shape, pixels.max(), labels[:3]
        ((1797, 64), np.float64(16.0), array([0, 1, 2]))
    """
    with np.load(Path(__file__).with_name("digits.npz"), allow_pickle=False) as archive:
        return archive["pixels"].astype(np.float64), archive["labels"].astype(np.int64)


def digits(setting: Setting, seeds: Sequence[int]) -> Digits:
    """Return the 1797 digits in [0, 1], averaged over squares of pixels, split for each seed."""
    pixels, answers = read_digits()
    side, factor = setting.side, 8 // setting.side
    images = pixels.reshape(-1, side, factor, side, factor).mean(axis=(2, 4)).reshape(-1, side * side) / 16
    orders = torch.from_numpy(
        np.stack([np.random.default_rng(seed).permutation(len(answers)) for seed in seeds])
    )
    ends = setting.num_training, setting.num_training + setting.num_calibration
    return Digits(
        images=torch.from_numpy(images).float(),
        labels=torch.from_numpy(answers),
        training=orders[:, : ends[0]],
        calibration=orders[:, ends[0] : ends[1]],
        test=orders[:, ends[1] :],
    )


def train_together(
    setting: Setting,
    data: Digits,
    texts: Sequence[str],
    seeds: Sequence[int],
    *,
    progress: Callable[[float], None] | None = None,
) -> Float[Tensor, "L S k C"]:
    """Train a network with two hidden layers for every loss and seed; return held-out logits.

    For one seed, all losses start from equal weights and see equal samples in equal order. AdaFocal uses the
    calibration samples after each epoch, as its authors do.

    Returns:
        Logits, first on the calibration and then on the test samples.
    """
    num_losses, num_seeds = len(texts), len(seeds)
    layers = _layers(data.images.shape[1], seeds, num_losses)
    modules = [_modules(text, num_seeds) for text in texts]
    parameters = [parameter.requires_grad_() for layer in layers for parameter in layer]
    optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE, fused=True)
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    with threads_for(0):  # sums in one order on any number of cores: a seed gives the same network everywhere
        for epoch in range(setting.num_epochs):
            orders = torch.stack(
                [torch.randperm(setting.num_training, generator=each) for each in generators]
            )
            for places in orders.split(setting.batch_size, dim=1):
                rows = data.training.gather(1, places)  # (S, B)
                logits = _logits(layers, data.images[rows], num_losses)
                total = sum(
                    _loss(each, part, data.labels[rows])
                    for each, part in zip(modules, logits.unflatten(0, (num_losses, num_seeds)), strict=True)
                )
                optimiser.zero_grad()
                torch.as_tensor(total).backward()
                optimiser.step()
            _let_follow(modules, layers, data)
            if progress is not None:
                progress((epoch + 1) / setting.num_epochs)
        held_out = torch.cat([data.calibration, data.test], dim=1)
        with torch.no_grad():
            return _logits(layers, data.images[held_out], num_losses).unflatten(0, (num_losses, num_seeds))


Layer = tuple[Tensor, Tensor]
"""Weights ``(L S, in, out)`` and biases ``(L S, 1, out)``."""


def _layers(num_inputs: int, seeds: Sequence[int], num_losses: int) -> list[Layer]:
    """Initialise layers like ``nn.Linear``: uniform within one over the root of the number of inputs."""
    generators = [torch.Generator().manual_seed(2**32 + seed) for seed in seeds]
    made: list[Layer] = []
    sizes = (num_inputs, *WIDTHS, NUM_CLASSES)
    for before, after in pairwise(sizes):
        drawn = torch.stack([torch.rand(before + 1, after, generator=each) for each in generators])
        weights = ((2 * drawn - 1) / math.sqrt(before)).repeat(num_losses, 1, 1)  # (L S, in + 1, out)
        made.append((weights[:, :-1].contiguous(), weights[:, -1:].contiguous()))
    return made


def _logits(layers: Sequence[Layer], images: Float[Tensor, "S B P"], num_losses: int) -> Tensor:
    hidden = images.repeat(num_losses, 1, 1)
    for weights, biases in layers[:-1]:
        hidden = torch.baddbmm(biases, hidden, weights).relu()
    weights, biases = layers[-1]
    return torch.baddbmm(biases, hidden, weights)


def _modules(text: str, num_seeds: int) -> list[nn.Module]:
    """Return one loss for all seeds, or one per seed if it has a state."""
    first = losses.build(text)
    return [losses.build(text) for _ in range(num_seeds)] if isinstance(first, AdaFocalLoss) else [first]


def _loss(modules: Sequence[nn.Module], logits: Float[Tensor, "S B C"], labels: Int[Tensor, "S B"]) -> Tensor:
    """Return the sum over seeds of each mean, which keeps their gradients apart."""
    if len(modules) == 1:
        return modules[0](logits.flatten(0, 1), labels.flatten()) * len(labels)
    pairs = zip(modules, logits, labels, strict=True)
    return torch.stack([module(mine, right) for module, mine, right in pairs]).sum()


def _let_follow(modules: Sequence[Sequence[nn.Module]], layers: Sequence[Layer], data: Digits) -> None:
    """Update adaptive losses with confidence and accuracy on the calibration samples."""
    num_seeds = len(data.training)
    images, labels = data.images[data.calibration], data.labels[data.calibration]
    for place, each in enumerate(modules):
        if not isinstance(each[0], AdaFocalLoss):
            continue
        mine = slice(place * num_seeds, (place + 1) * num_seeds)
        with torch.no_grad():
            logits = _logits([(weights[mine], biases[mine]) for weights, biases in layers], images, 1)
        confidences, predicted = logits.double().softmax(dim=2).max(dim=2)
        for loss, sure, right in zip(each, confidences, predicted == labels, strict=True):
            if isinstance(loss, AdaFocalLoss):
                loss.update(sure, right)
