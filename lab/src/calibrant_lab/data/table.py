"""A dataset before and after splitting, and its samples as network inputs."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.shapes import Float, Int
from calibrant_lab.data.lazy import LazyImages, feed

_BLOCK, _ENOUGH = 4096, 8192


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """Scaling of bytes to [0, 1], then standardisation of each channel (or feature)."""

    mean: Float[Tensor, " C"]
    std: Float[Tensor, " C"]

    @classmethod
    def fitted(cls, inputs: Tensor | LazyImages) -> Preparation:
        """Standardise by the training samples ``inputs``; a constant channel is not scaled.

        Lazy images are represented by 8192 evenly spaced ones.
        """
        if isinstance(inputs, LazyImages):
            inputs = inputs.chosen(evenly(len(inputs), _ENOUGH))
        count, total, squares = 0, 0.0, 0.0
        axes = (0, *range(2, inputs.ndim))
        for first in range(0, len(inputs), _BLOCK):  # a float64 copy of everything could be large
            wide = to_unit(inputs[first : first + _BLOCK]).double()
            total = total + wide.sum(axes)
            squares = squares + wide.square().sum(axes)
            count += wide.numel() // wide.shape[1]
        mean = torch.as_tensor(total) / count
        std = (torch.as_tensor(squares) / count - mean.square()).clamp(min=0).sqrt()
        return cls(mean=mean.float(), std=torch.where(std > 1e-6, std, 1.0).float())

    @classmethod
    def given(cls, mean: Sequence[float] | None, std: Sequence[float] | None, channels: int) -> Preparation:
        """Standardise by the given mean and deviation per channel; leave values unchanged without both.

        Raises:
            InputError: If only one is given, there are not as many as channels, or a deviation is not
                positive.
        """
        if mean is None and std is None:
            return cls.none(channels)
        if mean is None or std is None:
            raise InputError("`mean` and `std` go together; got one of them.")
        if len(mean) != channels or len(std) != channels or min(std, default=0) <= 0:
            raise InputError(
                f"`mean` and `std` must have one number for each of the {channels} channels, "
                f"and `std` positive ones; got {[*mean]} and {[*std]}."
            )
        return cls(mean=torch.tensor([*mean]), std=torch.tensor([*std]))

    @classmethod
    def none(cls, channels: int) -> Preparation:
        """Leave values in [0, 1] unchanged."""
        return cls(mean=torch.zeros(channels), std=torch.ones(channels))

    def to(self, device: torch.device) -> Preparation:
        """Move to another device."""
        return Preparation(mean=self.mean.to(device), std=self.std.to(device))

    def __call__(self, unit: Tensor) -> Tensor:
        """Prepare a batch of floats from :func:`to_unit`; word numbers are unchanged."""
        if not unit.is_floating_point():
            return unit
        shape = (1, -1, *(1,) * (unit.ndim - 2))
        return (unit - self.mean.view(shape)) / self.std.view(shape)


def evenly(total: int, wanted: int) -> Tensor:
    """Return ``wanted`` of ``total`` rows, evenly spaced; all if it is 0."""
    return torch.linspace(0, total - 1, wanted).long() if 0 < wanted < total else torch.arange(total)


def to_unit(inputs: Tensor) -> Tensor:
    """Divide bytes by 255; convert floats to float32; keep int32 (word numbers)."""
    if inputs.dtype == torch.int32:
        return inputs
    return inputs.float() / 255 if inputs.dtype == torch.uint8 else inputs.float()


RESIDENT_BYTES = 4 * 2**30  # a split of images that takes more than this is not decoded at once


@dataclass(frozen=True, kw_only=True)
class Part:
    """One split. Images are ``(N, C, H, W)``, uint8 or float; features ``(N, D)`` float.

    Texts ``(N, words)`` and trees ``(N, nodes, 5)`` are int32 and reach the network as they are.
    """

    inputs: Tensor | LazyImages
    """Images of a large split are decoded when they are chosen."""
    labels: Int[Tensor, " N"] | Int[Tensor, "N C"]
    """One label per sample; or, multilabel, 0 or 1 for each class."""
    groups: Int[Tensor, " N"] | None = None
    """Group of each sample, such as the patient of an image."""

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> Part:
        """Move the split to a device; lazy images stay."""
        inputs = self.inputs if isinstance(self.inputs, LazyImages) else self.inputs.to(device)
        return replace(self, inputs=inputs, labels=self.labels.to(device))

    def rows(self, rows: Int[Tensor, " n"] | None = None, *, memory: int = RESIDENT_BYTES) -> Part:
        """Select samples, by default all, and decode them if they take up to ``memory`` bytes."""
        rows = torch.arange(len(self)) if rows is None else rows
        inputs, groups = self.inputs, None if self.groups is None else self.groups[rows]
        chosen = inputs.resident(rows, memory) if isinstance(inputs, LazyImages) else inputs[rows]
        return Part(inputs=chosen, labels=self.labels[rows], groups=groups)


@dataclass(frozen=True, kw_only=True)
class RawData:
    """A dataset before splitting, with its own splits."""

    name: str
    train: Part
    calibration: Part | None = None
    test: Part | None = None
    class_names: tuple[str, ...]
    vocabulary: tuple[str, ...] = ()
    """The words of texts and trees; the first has the number 1."""

    @property
    def parts(self) -> dict[str, Part]:
        """Available splits by name."""
        parts = {"train": self.train, "calibration": self.calibration, "test": self.test}
        return {name: part for name, part in parts.items() if part is not None}


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Dataset ready for training.

    ``calibration`` monitors the training and fits the calibrators; an optional ``policy`` split drives
    losses that adapt to held-out data (AdaFocal), so that these use other samples.
    """

    name: str
    train: Part
    calibration: Part
    policy: Part | None
    test: Part
    class_names: tuple[str, ...]
    vocabulary: tuple[str, ...] = ()
    vectors: Float[Tensor, "V D"] | None = None
    """For texts, vectors of padding and of the words; NaN where a word has none."""

    @property
    def num_classes(self) -> int:
        """Number of classes or labels."""
        return len(self.class_names)

    @property
    def multilabel(self) -> bool:
        """True if a sample can have several labels, each 0 or 1."""
        return self.train.labels.ndim == 2

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.train.inputs.shape[1:])

    @property
    def parts(self) -> dict[str, Part]:
        """Available splits by name."""
        names = ("train", "calibration", "policy", "test")
        return {name: part for name in names if (part := getattr(self, name)) is not None}

    def sha256(self) -> str:
        """Fingerprint of all samples and labels.

        Lazy images count by their bytes in memory, or by the names and sizes of their files.
        """
        digest = hashlib.sha256()
        for name, part in self.parts.items():
            for each in (part.inputs, part.labels):
                digest.update(f"{name} {each.dtype} {tuple(each.shape)} ".encode())
                feed(digest, each)
        if self.vectors is not None:
            feed(digest, self.vectors)
        return digest.hexdigest()

    def summary(self) -> str:
        """Sizes and shapes in one line."""
        sizes = ", ".join(f"{len(part)} {name}" for name, part in self.parts.items())
        what = "labels" if self.multilabel else "classes"
        return f"{self.name}: {sizes}; {self.num_classes} {what}; inputs {self.input_shape}"


Rows = np.ndarray[Any, np.dtype[np.int64]]
Size = int | float  # a number of samples, or (below one) a share of them


def split(
    raw: RawData,
    *,
    calibration: Size = 0.1,
    test: Size = 0.2,
    policy: Size = 0,
    train: int | None = None,
    imbalance: float = 1.0,
    downsample: int = 1,
    seed: int = 0,
    memory: int = RESIDENT_BYTES,
) -> Dataset:
    r"""Split off from the training samples whatever ``raw`` lacks.

    Every cut is stratified, so each class has its share to within one sample, and depends on ``seed``
    alone: the test split is cut first, then calibration, then policy, and what is left trains. If samples
    come in groups, such as the images of a patient, whole groups are drawn, so that no group is in two
    splits. Sizes are met as closely as groups allow, and classes have their shares only on average.
    Multilabel samples are drawn without regard to their labels.

    Args:
        raw: The data as they came.
        calibration: Number of training samples (a share if below 1) to hold out without such a split.
        test: Size of the test split, counted likewise.
        policy: Size of the split that drives AdaFocal, counted likewise; 0 for none.
        train: Keep only this number of training samples.
        imbalance: Make the training samples long-tailed: class :math:`c` of :math:`C` keeps
            :math:`\rho^{-c / (C - 1)}` times the first class's number, :math:`\rho` being this value.
        downsample: Shrink images by this factor, averaging.
        seed: Decides which samples go where; not the seed of the training.
        memory: A split of images with more bytes is decoded on demand.

    Raises:
        InputError: If a size is out of range or leaves too little.

    Example:
        >>> from calibrant_lab.data import load
        >>> data = split(load("digits"), calibration=200, test=0.25, seed=1)
        >>> data.summary()
        'digits: 1148 train, 200 calibration, 449 test; 10 classes; inputs (1, 8, 8)'
    """
    rng = np.random.default_rng(seed)
    left: Rows = np.arange(len(raw.train.labels))
    labels = raw.train.labels.numpy()
    groups = None if raw.train.groups is None else raw.train.groups.numpy()

    def cut(left: Rows, size: int) -> Any:
        return _cut(labels[left], None if groups is None else groups[left], size, rng)

    cuts: dict[str, Part | None] = {}
    for name, given, size in (
        ("test", raw.test, test),
        ("calibration", raw.calibration, calibration),
        ("policy", None, policy),
    ):
        if given is not None:
            cuts[name] = given.rows(memory=memory)
        elif name == "policy" and size == 0:
            cuts[name] = None
        else:
            chosen = cut(left, _count(name, size, len(left)))
            cuts[name] = raw.train.rows(torch.from_numpy(left[chosen]), memory=memory)
            left = left[~chosen]
    left = _long_tail(left, labels, imbalance, rng)
    if train is not None:
        if not 1 <= train <= len(left):
            raise InputError(
                f"`train` must be between 1 and the {len(left)} samples that are left; got {train}."
            )
        left = left[cut(left, train)]
    parts = {"train": raw.train.rows(torch.from_numpy(left), memory=memory), **cuts}
    shrunk = {name: None if part is None else shrink(part, downsample) for name, part in parts.items()}
    for name, part in shrunk.items():
        if part is not None and len(part) < 2:
            raise InputError(f"the {name} split must hold at least two samples; got {len(part)}.")
    about: Any = shrunk
    return Dataset(name=raw.name, class_names=raw.class_names, vocabulary=raw.vocabulary, **about)


def _count(name: str, size: Size, total: int) -> int:
    number = round(size * total) if isinstance(size, float) and size < 1 else size
    if number != math.floor(number) or not 1 <= number < total:
        raise InputError(
            f"`{name}` must be a share below 1 or a whole number below the {total} samples there are; "
            f"got {size}."
        )
    return int(number)


def chosen_for_calibration(part: Part, share: Size, *, seed: int) -> Any:
    """Return the mask of the samples that :func:`split` would use for calibration."""
    groups = None if part.groups is None else part.groups.numpy()
    size = _count("calibration", share, len(part.labels))
    return _cut(part.labels.numpy(), groups, size, np.random.default_rng(seed))


def _cut(labels: np.ndarray, groups: np.ndarray | None, size: int, rng: np.random.Generator) -> Any:
    """Return a mask of ``size`` samples by class (largest remainders), or about so many in whole groups."""
    if groups is not None:
        names, counts = np.unique(groups, return_counts=True)
        order = rng.permutation(len(names))
        number = 1 + int(np.argmin(np.abs(np.cumsum(counts[order]) - size)))
        return np.isin(groups, names[order[: min(number, len(names) - 1)]])
    mask = np.zeros(len(labels), dtype=bool)
    if labels.ndim > 1:  # multilabel
        mask[rng.permutation(len(labels))[:size]] = True
        return mask
    classes, counts = np.unique(labels, return_counts=True)
    wanted = counts * (size / len(labels))
    shares = np.floor(wanted).astype(np.int64)
    remainders = wanted - shares
    order = np.lexsort((rng.random(len(classes)), -remainders))  # equal remainders are drawn for
    shares[order[: size - shares.sum()]] += 1
    for value, share in zip(classes, shares, strict=True):
        mask[rng.permutation(np.flatnonzero(labels == value))[:share]] = True
    return mask


def _long_tail(left: Any, labels: Any, ratio: float, rng: np.random.Generator) -> Any:
    if not math.isfinite(ratio) or ratio < 1:
        raise InputError(f"`imbalance` must be 1 (none) or more; got {ratio}.")
    if ratio == 1:
        return left
    if labels.ndim > 1:
        raise InputError(f"`imbalance` must be 1 for multilabel data; got {ratio}.")
    classes, counts = np.unique(labels[left], return_counts=True)
    kept: list[Any] = []
    for place, value in enumerate(classes):
        wanted = max(1, round(counts[0] * ratio ** (-place / max(1, len(classes) - 1))))
        rows = left[labels[left] == value]
        kept.append(rng.permutation(rows)[: min(wanted, len(rows))])
    return np.sort(np.concatenate(kept))


def shrink(part: Part, factor: int) -> Part:
    """Average images over squares of ``factor`` pixels.

    Raises:
        InputError: If the samples are not images, or the factor does not divide their sides.
    """
    if factor == 1:
        return part
    inputs = part.inputs
    if isinstance(inputs, LazyImages):
        raise InputError("`downsample` is for decoded images; set data.size for large ones.")
    if inputs.ndim != 4 or factor < 1 or any(side % factor for side in inputs.shape[2:]):
        raise InputError(
            f"`downsample` must divide the sides of images; got {factor} for {tuple(inputs.shape[1:])}."
        )
    return replace(part, inputs=torch.nn.functional.avg_pool2d(to_unit(inputs), factor))
