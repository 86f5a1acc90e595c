"""Reading data from files."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest
from calibrant.data.table import RawData, RawPart

Array = np.ndarray[Any, Any]

_PICTURES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff"})
_SPLITS: dict[str, tuple[str, ...]] = {
    "train": ("train", "training"),
    "calibration": ("val", "valid", "validation", "calibration"),
    "test": ("test",),
}


def read_npz(
    path: Path, *, name: str | None = None, class_names: Sequence[str] | None = None, keys: str = "x_{} y_{}"
) -> RawData:
    """Read images or features with labels from an ``.npz`` file; ``keys`` says what its arrays are called.

    Raises:
        InputError: If the file cannot be read, lacks the training data, or its arrays do not fit together.
    """
    arrays = _arrays(path)
    found: dict[str, RawPart] = {}
    for split, words in _SPLITS.items():
        for word in words:
            x, y = (key.format(word) for key in keys.split())
            if x in arrays and y in arrays and split not in found:
                found[split] = _raw_part(arrays[x], arrays[y], path, x, y)
            elif x in arrays and split not in found:
                raise InputError(f"{path.name} has {x!r} but no labels {y!r}.")
        if "{}" not in keys:  # one part only
            break
    if "train" not in found:
        x, y = (key.format("train") for key in keys.split())
        raise InputError(f"{path.name} must hold {x!r} and {y!r}; it holds {', '.join(arrays) or 'nothing'}.")
    if class_names is None:
        class_names = _class_names(arrays, found)
    _check_parts(found, len(class_names), path.name)
    return RawData(name=name or path.stem, class_names=tuple(class_names), **found)


def read_folder(path: Path) -> RawData:
    """Read ``train/CLASS/*.png`` (with ``val`` and ``test`` alongside), or ``CLASS/*.png``.

    Raises:
        InputError: If there are no images, they differ in size, or a class is not among the training ones.
    """
    splits = {
        split: path / word for split, words in _SPLITS.items() for word in words if (path / word).is_dir()
    } or {"train": path}
    if "train" not in splits:
        raise InputError(f"{path} has folders of splits but none called train.")
    class_names = tuple(sorted(folder.name for folder in splits["train"].iterdir() if folder.is_dir()))
    if len(class_names) < 2:
        raise InputError(f"{splits['train']} must hold a folder of images for each of at least two classes.")
    listed = {split: _listed(folder, class_names) for split, folder in splits.items()}
    grey = all(_is_grey(file) for files in listed.values() for file, _ in files)
    found = {
        split: RawPart(
            inputs=_pictures([file for file, _ in files], "L" if grey else "RGB", splits[split]),
            labels=torch.tensor([label for _, label in files]),
        )
        for split, files in listed.items()
    }
    _check_parts(found, len(class_names), path.name)
    return RawData(name=path.name, class_names=class_names, **found)


def read_jpeg_archive(path: Path, *, name: str, class_names: Sequence[str]) -> RawData:
    """Read an ``.npz`` file of JPEG bytes laid end to end; an image is decoded when it is chosen.

    Raises:
        InputError: If the file cannot be read or lacks an array.
    """
    arrays = _arrays(path)
    found: dict[str, RawPart] = {}
    for split in ("train", "test"):
        wanted = [f"{word}_{split}" for word in ("jpeg", "offset", "y")]
        missing = [key for key in wanted if key not in arrays]
        if missing:
            raise InputError(f"{path.name} has no {missing[0]!r}; it holds {', '.join(arrays)}.")
        bytes_, offsets, labels = (arrays[key] for key in wanted)
        found[split] = RawPart(
            inputs=JpegImages(bytes_, offsets), labels=torch.from_numpy(labels.astype(np.int64))
        )
    return RawData(name=name, class_names=tuple(class_names), **found)


class JpegImages:
    """Images of one size as JPEG bytes: image i is ``content[offsets[i]:offsets[i + 1]]``."""

    def __init__(self, content: Array, offsets: Array) -> None:
        self.content, self.offsets = content, offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: Tensor) -> Tensor:
        """Decode some images to uint8 ``(n, 3, H, W)``."""
        from PIL import Image

        decoded: list[Array] = []
        for row in rows.tolist():
            content = self.content[self.offsets[row] : self.offsets[row + 1]].tobytes()
            with Image.open(io.BytesIO(content)) as image:
                decoded.append(np.asarray(image.convert("RGB")))
        return torch.from_numpy(np.stack(decoded)).permute(0, 3, 1, 2).contiguous()


def _arrays(path: Path) -> Mapping[str, Array]:
    if not path.is_file():
        raise InputError(f"{path} does not exist.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise InputError(f"{path} cannot be read as .npz: {error}.") from error


def _raw_part(inputs: Array, labels: Array, path: Path, x: str, y: str) -> RawPart:
    """Images with channels first, or features, and int64 labels."""
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1 or labels.dtype.kind not in "biu":
        raise InputError(
            f"{path.name}: {y!r} must hold one whole number per sample; "
            f"got shape {labels.shape} of {labels.dtype}."
        )
    if len(inputs) != len(labels):
        raise InputError(f"{path.name}: {x!r} has {len(inputs)} samples, {y!r} has {len(labels)}.")
    if inputs.ndim not in (2, 3, 4) or inputs.dtype.kind not in "biuf":
        raise InputError(
            f"{path.name}: {x!r} must be images (N, H, W[, C]) or features (N, D); "
            f"got shape {inputs.shape} of {inputs.dtype}."
        )
    if inputs.dtype != np.uint8:
        inputs = inputs.astype(np.float32)
        bad = ~np.isfinite(inputs).reshape(len(inputs), -1).all(axis=1)
        if bad.any():
            raise InputError(f"{path.name}: {x!r} must be finite; row {int(bad.argmax())} is not.")
    elif inputs.ndim == 2:
        inputs = inputs.astype(np.float32)  # counts, not pixels
    tensor = torch.from_numpy(inputs)
    if inputs.ndim == 3:
        tensor = tensor[:, None]
    elif inputs.ndim == 4:
        tensor = tensor.permute(0, 3, 1, 2).contiguous()
    return RawPart(inputs=tensor, labels=torch.from_numpy(labels.astype(np.int64)))


def _class_names(arrays: Mapping[str, Array], found: Mapping[str, RawPart]) -> tuple[str, ...]:
    """The names in the file, or numbers."""
    if "class_names" in arrays:
        return tuple(str(name) for name in arrays["class_names"].tolist())
    return tuple(str(number) for number in range(max(int(part.labels.max()) for part in found.values()) + 1))


def _check_parts(found: Mapping[str, RawPart], num_classes: int, file: str) -> None:
    """Refuse labels out of range."""
    if num_classes < 2:
        raise InputError(f"{file} must have at least two classes; got {num_classes}.")
    for split, part in found.items():
        low, high = int(part.labels.min()), int(part.labels.max())
        if low < 0 or high >= num_classes:
            raise InputError(
                f"{file}: labels must lie in 0 … {num_classes - 1}; the {split} split has {low} … {high}."
            )


def _listed(folder: Path, class_names: Sequence[str]) -> list[tuple[Path, int]]:
    """Every picture with the number of its class, in the order of names."""
    files: list[tuple[Path, int]] = []
    for kind in sorted(entry for entry in folder.iterdir() if entry.is_dir()):
        if kind.name not in class_names:
            raise InputError(f"{kind} is not a class of the training images{nearest(kind.name, class_names)}")
        label = class_names.index(kind.name)
        pictures = sorted(file for file in kind.iterdir() if file.suffix.lower() in _PICTURES)
        if not pictures:
            raise InputError(f"{kind} holds no images ({', '.join(sorted(_PICTURES))}).")
        files += [(file, label) for file in pictures]
    return files


def _is_grey(file: Path) -> bool:
    from PIL import Image

    with Image.open(file) as image:
        return image.mode in {"1", "L"}


def _pictures(files: Sequence[Path], mode: str, folder: Path) -> Tensor:
    """Decode pictures of the same size to uint8 ``(N, C, H, W)``."""
    from PIL import Image

    decoded: list[Array] = []
    for file in files:
        with Image.open(file) as image:
            decoded.append(np.asarray(image.convert(mode)))
        if decoded[-1].shape != decoded[0].shape:
            (height, width), (first, second) = decoded[-1].shape[:2], decoded[0].shape[:2]
            raise InputError(
                f"the images in {folder} must all have the same size: {files[0].name} has {second} × {first} "
                f"pixels, {file.name} has {width} × {height}; scale them first."
            )
    stacked = torch.from_numpy(np.stack(decoded))
    return stacked[:, None] if stacked.ndim == 3 else stacked.permute(0, 3, 1, 2).contiguous()
