"""A data set before and after it is cut into splits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from calibrant._math.shapes import Float, Int


class Inputs(Protocol):
    """Samples that can be chosen by number: a tensor, or images that are decoded when they are chosen."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: Tensor, /) -> Tensor: ...


@dataclass(frozen=True, kw_only=True)
class RawPart:
    """One split as it is stored, with its labels."""

    inputs: Inputs
    labels: Int[Tensor, " N"]

    def rows(self, rows: Int[Tensor, " n"]) -> Part:
        """Some of the samples, decoded."""
        return Part(inputs=self.inputs[rows], labels=self.labels[rows])


@dataclass(frozen=True, kw_only=True)
class Part:
    """One split. Images are ``(N, C, H, W)``, uint8 or float; features ``(N, D)`` float.

    Texts ``(N, words)`` and trees ``(N, nodes, 5)`` are int32 and reach the network as they are.
    """

    inputs: Tensor
    labels: Int[Tensor, " N"]

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> Part:
        """The same on another device."""
        return Part(inputs=self.inputs.to(device), labels=self.labels.to(device))


@dataclass(frozen=True, kw_only=True)
class RawData:
    """A data set as it came, with the splits that it has."""

    name: str
    train: RawPart
    calibration: RawPart | None = None
    test: RawPart | None = None
    class_names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RawTexts(RawData):
    """Texts or parse trees as they came, their words as numbers."""

    vocabulary: tuple[str, ...]
    """The words; the first has the number 1."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """Data ready for training.

    ``calibration`` watches the training and fits the calibrators; ``policy``, where there is one, drives
    losses that adapt to held-out data (AdaFocal), so that the same samples need not do both.
    """

    name: str
    train: Part
    calibration: Part
    policy: Part | None
    test: Part
    class_names: tuple[str, ...]
    vocabulary: tuple[str, ...] = ()
    """The words of texts; the first has the number 1."""
    vectors: Float[Tensor, "V D"] | None = None
    """For texts, vectors of padding and of the words; NaN where a word has none."""

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.class_names)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.train.inputs.shape[1:])

    @property
    def parts(self) -> dict[str, Part]:
        """The splits that there are, by name."""
        parts = {
            "train": self.train,
            "calibration": self.calibration,
            "policy": self.policy,
            "test": self.test,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def sha256(self) -> str:
        """Fingerprint of every sample and label of every split."""
        digest = hashlib.sha256()
        for name, part in self.parts.items():
            for tensor in (part.inputs, part.labels):
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
                digest.update(tensor.cpu().contiguous().view(torch.uint8).numpy().data)
        if self.vectors is not None:
            digest.update(self.vectors.contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def summary(self) -> str:
        """Sizes and shapes in one line."""
        sizes = ", ".join(f"{len(part)} {name}" for name, part in self.parts.items())
        return f"{self.name}: {sizes}; {self.num_classes} classes; inputs {self.input_shape}"
