"""A data set before and after it is cut into splits."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from calibrant._math.shapes import Float, Int
from calibrant_lab.data.lazy import LazyImages, feed

RESIDENT_BYTES = 4 * 2**30
"""A split of images that takes more than this is not decoded at once."""


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
    """Which samples belong together, such as the images of a patient."""

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> Part:
        """The same on another device; what is not decoded stays where it is."""
        inputs = self.inputs if isinstance(self.inputs, LazyImages) else self.inputs.to(device)
        return replace(self, inputs=inputs, labels=self.labels.to(device))

    def rows(self, rows: Int[Tensor, " n"] | None = None, *, memory: int = RESIDENT_BYTES) -> Part:
        """Some of the samples, by default all, decoded if they take up to ``memory`` bytes."""
        rows = torch.arange(len(self)) if rows is None else rows
        inputs, groups = self.inputs, None if self.groups is None else self.groups[rows]
        chosen = inputs.resident(rows, memory) if isinstance(inputs, LazyImages) else inputs[rows]
        return Part(inputs=chosen, labels=self.labels[rows], groups=groups)


@dataclass(frozen=True, kw_only=True)
class RawData:
    """A data set as it came, with the splits that it has."""

    name: str
    train: Part
    calibration: Part | None = None
    test: Part | None = None
    class_names: tuple[str, ...]
    vocabulary: tuple[str, ...] = ()
    """The words of texts and trees; the first has the number 1."""

    @property
    def parts(self) -> dict[str, Part]:
        """The splits that there are, by name."""
        parts = {"train": self.train, "calibration": self.calibration, "test": self.test}
        return {name: part for name, part in parts.items() if part is not None}


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
    vectors: Float[Tensor, "V D"] | None = None
    """For texts, vectors of padding and of the words; NaN where a word has none."""

    @property
    def num_classes(self) -> int:
        """C."""
        return len(self.class_names)

    @property
    def multilabel(self) -> bool:
        """Whether a sample may have several labels, each 0 or 1."""
        return self.train.labels.ndim == 2

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Shape of one sample."""
        return tuple(self.train.inputs.shape[1:])

    @property
    def parts(self) -> dict[str, Part]:
        """The splits that there are, by name."""
        names = ("train", "calibration", "policy", "test")
        return {name: part for name in names if (part := getattr(self, name)) is not None}

    def sha256(self) -> str:
        """Fingerprint of every sample and label of every split.

        Images that are decoded when they are needed count by the bytes in memory, or by the names and sizes
        of their files.
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
