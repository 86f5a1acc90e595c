"""Segmentation outputs repaired image by image."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, reason
from calibrant.predictions.dense import is_dense, of_two_classes
from calibrant.predictions.formats.mark import MARK, notes_of_mark

SPACES = ("logits", "probs")
Repair = Callable[[NDArray[Any], str], NDArray[Any]]
"""What makes probabilities ``(P, C)`` of the scores ``(P, C)`` of one image, in a space."""


def holds_images(folder: Path) -> bool:
    """Whether a folder, or an archive, holds scores of images, with labels or without."""
    if not folder.is_dir():
        return is_dense(folder)
    if any((folder / space).is_dir() for space in SPACES):
        return True
    found = [folder / f"{space}.npy" for space in SPACES if (folder / f"{space}.npy").is_file()]
    return bool(found) and _opened(found[0]).ndim > 2


def marks_in(folder: Path) -> tuple[str, ...]:
    """The note on images that are calibrated already."""
    file = folder / f"{MARK}.npy"
    return notes_of_mark(_opened(file)) if file.is_file() else ()


def repair_images(folder: Path, out: Path, repair: Repair, *, num_classes: int | None, mark: str) -> int:
    """Write a folder of probabilities of the same layout, with one image in memory, whole or not at all.

    Args:
        folder: With ``logits.npy`` (or ``probs.npy``) of shape ``(N, C, d1, ...)``, or with a folder
            ``logits`` (or ``probs``) of files ``(C, d1, ...)``. Labels are not needed, and not copied.
        out: The new folder: ``probs.npy``, or ``probs`` with files of the same names.
        repair: Makes probabilities of scores.
        num_classes: C.
        mark: What says in the new folder that it is calibrated.

    Returns:
        The number of images.

    Raises:
        InputError: If ``folder`` is none, ``out`` exists, or an image is damaged or of another shape.
    """
    if not folder.is_dir():
        raise InputError(
            f"{folder} must be a folder to be repaired image by image; save its images as `logits.npy` (or "
            "`probs.npy`) in a folder."
        )
    if out.exists():
        raise InputError(f"--out {out} exists, and folders are not replaced; give another name.")
    parent = out.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{out.name}.", dir=parent))
    try:
        count = _written(folder, temporary, repair, num_classes)
        np.save(temporary / f"{MARK}.npy", np.array([mark]))
        temporary.chmod(0o755)
        temporary.replace(out)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return count


def _written(folder: Path, out: Path, repair: Repair, num_classes: int | None) -> int:
    for space in SPACES:
        if (folder / space).is_dir():
            files = sorted((folder / space).glob("*.npy"))
            if not files:
                raise InputError(f"{folder / space} must hold an .npy file for each image; it has none.")
            (out / "probs").mkdir()
            for file in files:
                image = _opened(file)
                np.save(out / "probs" / file.name, _repaired(image, space, repair, num_classes, str(file)))
            return len(files)
        if (folder / f"{space}.npy").is_file():
            file = folder / f"{space}.npy"
            images = _opened(file)
            dtype = np.result_type(images.dtype, np.float32)
            probs = np.lib.format.open_memmap(out / "probs.npy", "w+", dtype=dtype, shape=images.shape)
            for place, image in enumerate(images):
                probs[place] = _repaired(image, space, repair, num_classes, f"{file}, image {place},")
            probs.flush()
            return len(images)
    raise InputError(f"{folder} must hold `logits` or `probs`, as a folder or an .npy file.")


def _repaired(
    image: NDArray[Any], space: str, repair: Repair, num_classes: int | None, name: str
) -> NDArray[Any]:
    if num_classes == 2 and (image.shape[:1] == (1,) or (image.ndim == 2 and len(image) != 2)):
        scores = of_two_classes(image.reshape(1, -1), space)
        return _repaired(scores, space, repair, num_classes, name)[1].reshape(image.shape)
    if image.ndim < 2 or image.shape[0] != num_classes:
        raise InputError(
            f"{name} must have shape (C, d1, ...) with {num_classes} classes, as many as the calibrator was "
            f"fitted on; got {image.shape}."
        )
    rows = np.ascontiguousarray(image.reshape(image.shape[0], -1).T)
    dtype = np.result_type(image.dtype, np.float32)
    try:
        probs = repair(rows, space)
    except InputError as error:
        raise InputError(f"{name.rstrip(',')}: {error}") from error
    return np.ascontiguousarray(probs.T, dtype=dtype).reshape(image.shape)


def _opened(file: Path) -> NDArray[Any]:
    try:
        return np.load(file, mmap_mode="r", allow_pickle=False)
    except OSError:
        raise
    except DAMAGE as error:
        raise InputError(f"{file} is damaged: {reason(error)}.") from error
