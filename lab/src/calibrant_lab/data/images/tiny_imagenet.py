"""Tiny-ImageNet-200 from its archive or folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import torch

from calibrant._math.errors import InputError
from calibrant_lab.data.images.archives import Files, opened
from calibrant_lab.data.images.encoded import EncodedImages, read_jpeg_archive
from calibrant_lab.data.table import RawData, RawPart

__all__ = ["read_tiny_imagenet"]


def read_tiny_imagenet(path: Path, *, name: str = "tiny_imagenet") -> RawData:
    """Read ``tiny-imagenet-200.zip``, the folder that it unpacks to, or an ``.npz`` file of its JPEG bytes.

    Its validation images become the test split, as usual: the labels of its test images were never published.
    The JPEG bytes (some 240 MB) are kept in memory, and decoded when an image is chosen.

    Args:
        path: The archive or the folder.
        name: What to call the data.

    Raises:
        InputError: If a file is missing or damaged, or an image has no label.
    """
    if path.suffix == ".npz":
        return read_jpeg_archive(path, name=name, splits=("train", "val"))
    with opened(path) as files:
        wnids = files.content("wnids.txt", what="the list of classes").decode().split()
        words = dict(
            line.split("\t", 1)
            for line in files.content("words.txt", what="the names of the classes").decode().splitlines()
            if "\t" in line
        )
        number = {wnid: place for place, wnid in enumerate(sorted(wnids))}
        train = _train(files, number)
        return RawData(
            name=name,
            train=_part(files, train, "train"),
            test=_part(files, _validation(files, number), "val"),
            class_names=tuple(words.get(wnid, wnid).split(",")[0].strip() for wnid in number),
        )


def _train(files: Files, number: Mapping[str, int]) -> list[tuple[str, int]]:
    """Images of ``train/WNID/images``."""
    found: list[tuple[str, int]] = []
    for name in files.names():
        parts = PurePosixPath(name).parts
        if parts[-4:-3] == ("train",) and parts[-2] == "images" and parts[-3] in number:
            found.append((name, number[parts[-3]]))
    there = {label for _, label in found}
    without = [wnid for wnid, label in number.items() if label not in there]
    if without:
        raise InputError(
            f"{files.path} has no train images of {len(without)} of the {len(number)} classes, such as "
            f"{without[0]}; get or unpack all of it again."
        )
    return found


def _validation(files: Files, number: Mapping[str, int]) -> list[tuple[str, int]]:
    """Images of ``val/images``, whose labels are in a table."""
    table = files.content("val_annotations.txt", what="the labels of the validation images").decode()
    labels = dict(line.split("\t")[:2] for line in table.splitlines() if "\t" in line)
    found: list[tuple[str, int]] = []
    for name in files.names():
        parts = PurePosixPath(name).parts
        if parts[-3:-1] == ("val", "images"):
            wnid = labels.get(parts[-1])
            if wnid is None or wnid not in number:
                raise InputError(
                    f"{files.path}: val_annotations.txt names no class of wnids.txt for {parts[-1]}."
                )
            found.append((name, number[wnid]))
    return found


def _part(files: Files, listed: Sequence[tuple[str, int]], split: str) -> RawPart:
    if not listed:
        raise InputError(f"{files.path} has no {split} images, so a split is missing; get all of it again.")
    pieces = [files.read(name) for name, _ in listed]
    offsets = np.concatenate([[0], np.cumsum([len(piece) for piece in pieces])])
    content = np.frombuffer(bytearray().join(pieces), dtype=np.uint8)
    return RawPart(
        inputs=EncodedImages(content, offsets), labels=torch.tensor([label for _, label in listed])
    )
