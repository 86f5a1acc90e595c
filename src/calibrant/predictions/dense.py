"""Segmentation outputs: read and repaired image by image, as memory holds one, or one sample per position."""

from __future__ import annotations

import math
import os
import struct
import tempfile
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from calibrant._math.arrays import ArrayLike, as_float_tensor, as_label_tensor
from calibrant._math.checks import check_at_least, positions_of
from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, reason
from calibrant._math.text_form import plural
from calibrant.predictions.checks import as_groups, as_split
from calibrant.predictions.formats.mark import MARK, Source, notes_of_mark
from calibrant.predictions.table import Predictions

SPACES = ("logits", "probs")
Repair: TypeAlias = Callable[[NDArray[Any], str], NDArray[Any]]
"""Function from the scores ``(P, C)`` of one image, in a space, to probabilities ``(P, C)``."""


class ImageFiles:
    """Arrays in one file each, read on demand."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = [each.absolute() for each in paths]

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, place: int) -> NDArray[Any]:
        with damage_named(self._paths[place]):
            return np.load(self._paths[place], allow_pickle=False)


class MappedImages:
    """A memory-mapped array in a file; worker processes map it again."""

    def __init__(self, path: Path) -> None:
        self._path, self._array = path.absolute(), np.load(path, mmap_mode="r", allow_pickle=False)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, place: int) -> NDArray[Any]:
        return self._array[place]

    def __reduce__(self) -> tuple[type[MappedImages], tuple[Path]]:
        return MappedImages, (self._path,)


class ImagesOfArchive:
    """Images of an array in an archive; a compressed array is read once, in order."""

    def __init__(self, path: Path, name: str) -> None:
        self._path, self._name = path.absolute(), name
        with zipfile.ZipFile(path) as archive:
            self._shape, self._dtype, self._offset = header_of(archive, name)
            member = archive.getinfo(f"{name}.npy")
        self._start: int | None = None  # of the array's bytes, unless they are compressed
        if member.compress_type == zipfile.ZIP_STORED:
            with path.open("rb") as file:
                file.seek(member.header_offset + 26)  # its own header: two lengths, a name and more
                self._start = member.header_offset + 30 + sum(struct.unpack("<HH", file.read(4)))
        self.in_any_order = self._start is not None
        self._next = 0
        self._stream: Any = None

    def __len__(self) -> int:
        return self._shape[0]

    def __getitem__(self, place: int) -> NDArray[Any]:
        size = math.prod(self._shape[1:]) * self._dtype.itemsize
        with damage_named(self._path):
            if self._start is not None and place != self._next:  # in order the checksum of all is looked at
                with self._path.open("rb") as file:
                    file.seek(self._start + self._offset + place * size)
                    data = file.read(size)
            else:
                data = self._read_on(place, size)
        if len(data) < size:
            raise InputError(f"{self._path} was cut off: it ends within image {place}.")
        return np.frombuffer(data, self._dtype).reshape(self._shape[1:])

    def __del__(self) -> None:
        stream = getattr(self, "_stream", None)  # none if the file could not be opened
        if stream is not None:
            stream.close()

    def __reduce__(self) -> tuple[type[ImagesOfArchive], tuple[Path, str]]:
        return ImagesOfArchive, (self._path, self._name)

    def _read_on(self, place: int, size: int) -> bytes:
        if self._stream is None or place < self._next:
            self.__del__()
            with zipfile.ZipFile(self._path) as archive:  # which stays open as long as its member does
                self._stream = archive.open(f"{self._name}.npy")
            self._stream.read(self._offset)
            self._next = 0
        for _ in range(self._next, place):
            self._stream.read(size)
        self._next = place + 1
        return self._stream.read(size)


def header_of(archive: zipfile.ZipFile, name: str) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    npy = np.lib.format
    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    with archive.open(f"{name}.npy") as file:
        if (version := npy.read_magic(file)) not in readers:
            raise InputError(f"`{name}` must hold plain numbers.")
        shape, by_column, dtype = readers[version](file)
        if by_column or dtype.hasobject:
            raise InputError(f"`{name}` must hold plain numbers in C order.")
        return shape, dtype, file.tell()


@contextmanager
def damage_named(path: Path) -> Generator[None]:
    try:
        yield
    except (InputError, MemoryError, OSError):
        raise
    except DAMAGE as error:
        raise InputError(f"{path} is damaged: {reason(error)}.") from error


class Images(Protocol):
    """Numbered arrays, one per image: an array, a memory map, a list, or a reader."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Any: ...


@dataclass(frozen=True, kw_only=True)
class Image:
    """One image: its scores ``(C, P)`` and labels ``(P,)`` at the positions that count."""

    name: str
    scores: NDArray[np.floating[Any]]
    labels: NDArray[np.int64]


class DensePredictions:
    """Scores ``(C, H, W)`` and labels ``(H, W)`` of many images, or of signals of any other dimension.

    :func:`calibrant.evaluate` holds one image in memory, and resamples whole images, since pixels of one
    image are dependent. :meth:`sample` returns some pixels of each image, to fit a calibrator.

    Args:
        logits: Scores before the softmax: an array ``(N, C, d1, ...)``, which may be a memory map, or a
            sequence of arrays ``(C, d1, ...)``, which may differ in size. A single channel, or images
            ``(H, W)`` without one, are scores of class 1 of two.
        probs: Probabilities in the same form, instead of ``logits``.
        labels: Classes, ``(N, d1, ...)`` or a sequence of ``(d1, ...)``, with or without a channel.
        ignore_index: Positions with this label are left out.
        split: 0 or ``"calibration"`` for images to fit on, 1 or ``"test"`` for test images, ``(N,)``.
        class_names: One name per class.
        names: One name per image.
        source: The file or folder.

    Raises:
        InputError: If numbers of images differ, or shapes of the first image do not fit together.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> dense = DensePredictions(
        ...     logits=rng.normal(size=(4, 3, 8, 8)), labels=rng.integers(0, 3, (4, 8, 8)), ignore_index=0
        ... )
        >>> dense.num_images, dense.num_classes, dense.sample(5).num_samples
        (4, 3, 20)
    """

    def __init__(
        self,
        *,
        logits: Images | None = None,
        probs: Images | None = None,
        labels: Images,
        ignore_index: int | None = None,
        split: Sequence[int | str] | NDArray[Any] | None = None,
        class_names: Sequence[str] | None = None,
        names: Sequence[str] | None = None,
        source: Source | None = None,
    ) -> None:
        given = probs if logits is None else logits
        if given is None or (logits is not None and probs is not None):
            raise InputError("give exactly one of `logits` and `probs`.")
        self.space: Literal["logits", "probs"] = "probs" if logits is None else "logits"
        self._scores, self._labels = given, labels
        if len(given) != len(labels):
            raise InputError(f"`labels` must hold {len(given)} images; got {len(labels)}.")
        check_at_least("the number of images", len(given), 1)
        shape = np.shape(given[0])
        if len(shape) < 2:
            raise InputError(
                f"`{self.space}` must have shape (N, C, d1, ...), or be a sequence of (C, d1, ...); an image "
                f"has shape {shape}."
            )
        self._is_event = shape[0] == 1 or (len(shape) == 2 and shape == np.shape(labels[0]))
        self.num_classes = 2 if self._is_event else int(shape[0])
        self.ignore_index = ignore_index
        self.class_names = None if class_names is None else tuple(str(each) for each in class_names)
        if self.class_names is not None and len(self.class_names) != self.num_classes:
            raise InputError(
                f"`class_names` must hold {self.num_classes} names; got {len(self.class_names)}."
            )
        self.names = tuple(str(each) for each in (names or range(len(given))))
        if not len(set(self.names)) == len(self.names) == len(given):
            raise InputError(
                f"`names` must hold {len(given)} different names; got {len(self.names)} names, "
                f"{len(set(self.names))} of them different."
            )
        self.split = None if split is None else as_split(split, len(given)).numpy()
        self.source = source

    @property
    def kind(self) -> Literal["binary", "multiclass"]:
        """Kind of predictions; two classes are evaluated as one event."""
        return "binary" if self.num_classes == 2 else "multiclass"

    @property
    def in_any_order(self) -> bool:
        """True if images can be read in any order, as from anything but a compressed archive."""
        return all(getattr(each, "in_any_order", True) for each in (self._scores, self._labels))

    @property
    def has_split(self) -> bool:
        """True if some images are marked for fitting and others for the test."""
        return self.split is not None and len(np.unique(self.split)) == 2

    @property
    def test_images(self) -> list[int]:
        """Numbers of the test images: the marked ones, or all."""
        if self.split is None or not (self.split == 1).any():
            return list(range(self.num_images))
        return np.flatnonzero(self.split == 1).tolist()

    @property
    def num_images(self) -> int:
        """Number of images."""
        return len(self.names)

    def images(self, which: Iterable[int] | None = None) -> Iterator[Image]:
        """Yield all images, or a selection, without ignored positions.

        Raises:
            InputError: If a shape does not fit, a label is out of range, or a score is not a number.
        """
        yield from map(self._image, range(self.num_images) if which is None else which)

    def sample(self, num_positions: int, which: Iterable[int] | None = None, *, seed: int = 0) -> Predictions:
        """Return random positions of each image as predictions whose clusters are the images.

        Args:
            num_positions: How many of each image; all, where it has fewer.
            which: The images to take them from; by default all.
            seed: Random seed.

        Raises:
            InputError: If the number is below 1, no position counts, or an image is wrong.
        """
        check_at_least("num_positions", num_positions, 1)
        rng = np.random.default_rng(seed)
        scores: list[NDArray[Any]] = []
        labels: list[NDArray[np.int64]] = []
        clusters: list[str] = []
        for image in self.images(which):
            count = min(num_positions, len(image.labels))
            chosen = np.sort(rng.choice(len(image.labels), count, replace=False))
            scores.append(image.scores[:, chosen].T)
            labels.append(image.labels[chosen])
            clusters += [image.name] * count
        if not clusters:
            raise InputError(f"no position counts: all have the label {self.ignore_index}.")
        given: dict[str, Any] = {self.space: torch.from_numpy(np.concatenate(scores))}
        return Predictions(
            **given,
            labels=torch.from_numpy(np.concatenate(labels)),
            class_names=self.class_names,
            clusters=clusters,
            source=self.source,
        )

    def _image(self, place: int) -> Image:
        name = self.names[place]
        scores, labels = np.asarray(self._scores[place]), np.asarray(self._labels[place])
        if self._is_event:
            scores = of_two_classes(scores if scores.shape[0] == 1 else scores[None], self.space)
        if labels.ndim == scores.ndim and labels.shape[0] == 1:
            labels = labels[0]
        if scores.shape[0] != self.num_classes or scores.shape[1:] != labels.shape:
            remedy = ""
            if not labels.ndim:
                remedy = f"; for samples that are not images, `{self.space}` must have shape (N, C)"
            elif labels.shape == scores.shape:
                remedy = (
                    f"; pass `labels.argmax(1)` if they are one-hot, or `{self.space}[:, None]` if each "
                    "position is one event"
                )
            raise InputError(
                f"`labels` must have the shape of `{self.space}` without the classes, of which there are "
                f"{self.num_classes}; image {name!r} has {scores.shape} and {labels.shape}{remedy}."
            )
        flat, target = scores.reshape(self.num_classes, -1), _whole(labels.reshape(-1), name)
        if self.ignore_index is not None:
            counts = target != self.ignore_index
            if not counts.all():
                flat, target = flat[:, counts], target[counts]
        if len(target) and not (target.min() >= 0 and target.max() < self.num_classes):
            wrong = int(target[(target < 0) | (target >= self.num_classes)][0])
            remedy = f"pass ignore_index={wrong} (--ignore-index {wrong}) if it means no label"
            if wrong == self.num_classes:
                remedy += ", or subtract 1 if classes are numbered from 1"
            elif self.num_classes == 2 and wrong > 0 and (target[target != 0] == wrong).all():
                remedy += ", or write 1 if it marks class 1"
            raise InputError(
                f"`labels` must be in 0..{self.num_classes - 1}; image {name!r} holds {wrong}; {remedy}."
            )
        return Image(name=name, scores=flat, labels=target)

    def __repr__(self) -> str:
        return (
            f"DensePredictions({plural(self.num_images, 'image')}, {self.num_classes} classes, {self.space})"
        )


def of_two_classes(scores: NDArray[Any], space: str) -> NDArray[Any]:
    """Return scores ``(2, d1, ...)`` from the single channel ``(1, d1, ...)`` of class 1."""
    return np.concatenate([np.zeros_like(scores) if space == "logits" else 1 - scores, scores])


def load_dense(
    path: str | os.PathLike[str], *, ignore_index: int | None = None, class_names: Sequence[str] | None = None
) -> DensePredictions:
    """Open the segmentation outputs of a folder or archive, which are read image by image.

    - A folder with ``logits.npy`` (or ``probs.npy``) of shape ``(N, C, H, W)`` and ``labels.npy`` of shape
      ``(N, H, W)``, which are mapped and not read; scores of one event may do without ``C``.
    - A folder with the folders ``logits`` (or ``probs``) and ``labels``, in which files of the same names
      hold one image each: ``(C, H, W)`` and ``(H, W)``, ``.npy``.
    - A file ``.npz`` with ``logits`` (or ``probs``) and ``labels``, whose images are read in their order.

    Args:
        path: The folder or file.
        ignore_index: Positions with this label are left out.
        class_names: One name per class.

    Raises:
        InputError: If it holds no such arrays.
        OSError: If it cannot be opened.
    """
    path = Path(path)
    with damage_named(path):
        scores, labels, space, names = _dense_in(path)
    further: dict[str, Any] = {space: scores}
    return DensePredictions(
        **further,
        labels=labels,
        ignore_index=ignore_index,
        class_names=class_names,
        names=names,
        source=Source(name=path.name, sha256="", format="dense", path=str(path)),
    )


def is_dense(path: str | os.PathLike[str]) -> bool:
    """Return True if a file or folder holds segmentation outputs, judging by names and shapes."""
    path = Path(path)
    try:
        if path.is_dir():
            found = _scores_in(path)
            if found is not None and found[1].is_dir():
                return (path / "labels").is_dir()
            return found is not None and _mapped(found[1]).ndim > 2
        if path.suffix != ".npz" or not zipfile.is_zipfile(path):
            return False
        with zipfile.ZipFile(path) as archive:
            space = _space_in(archive)
            return space is not None and len(header_of(archive, space)[0]) > 2
    except (OSError, ValueError, zipfile.BadZipFile):
        return False


def holds_images(path: Path) -> bool:
    """Return True if a folder or an archive holds scores of images, with or without labels."""
    if not path.is_dir():
        return is_dense(path)
    found = _scores_in(path)
    return found is not None and (found[1].is_dir() or _mapped(found[1]).ndim > 2)


def _scores_in(folder: Path) -> tuple[str, Path] | None:
    for space in SPACES:
        for place in (folder / f"{space}.npy", folder / space):
            if place.is_file() if place.suffix else place.is_dir():
                return space, place
    return None


def _files_in(folder: Path) -> list[Path]:
    if files := sorted(folder.glob("*.npy")):
        return files
    raise InputError(f"{folder} must hold an .npy file for each image; it has none.")


def _space_in(archive: zipfile.ZipFile) -> str | None:
    return next((space for space in SPACES if f"{space}.npy" in archive.namelist()), None)


def _dense_in(path: Path) -> tuple[Images, Images, str, list[str] | None]:
    """Return scores, labels, the space of the scores, and image names if files have them."""
    if path.suffix == ".npz":
        with zipfile.ZipFile(path) as archive:
            space = _space_in(archive)
            known = {name.removesuffix(".npy") for name in archive.namelist()}
        if space is None or "labels" not in known:
            raise InputError(
                f"{path} must hold `logits` (or `probs`) and `labels`; it holds {sorted(known)}."
            )
        return ImagesOfArchive(path, space), ImagesOfArchive(path, "labels"), space, None
    found = _scores_in(path)
    if found is None:
        raise InputError(f"{path} must hold logits.npy (or a folder logits) and the same for labels.")
    space, place = found
    if not place.is_dir():
        return MappedImages(place), MappedImages(path / "labels.npy"), space, None
    files = _files_in(place)
    truth = [path / "labels" / each.name for each in files]
    absent = next((each for each in truth if not each.is_file()), None)
    if absent is not None:
        raise InputError(f"{path} must hold a file of labels for each of scores; no {absent}.")
    return ImageFiles(files), ImageFiles(truth), space, [each.stem for each in files]


def _mapped(file: Path) -> NDArray[Any]:
    with damage_named(file):
        return np.load(file, mmap_mode="r", allow_pickle=False)


def _whole(labels: NDArray[Any], name: str) -> NDArray[np.int64]:
    if labels.dtype.kind not in "biuf":
        raise InputError(f"`labels` must be integers; image {name!r} holds {labels.dtype}.")
    if labels.dtype.kind == "f":
        wrong = labels[(labels != np.floor(labels)) | np.isinf(labels)]  # NaN, too
        if len(wrong):
            raise InputError(f"`labels` must be integers; image {name!r} holds {wrong[0]:g}.")
    return labels.astype(np.int64)


def marks_in(folder: Path) -> tuple[str, ...]:
    file = folder / f"{MARK}.npy"
    return notes_of_mark(_mapped(file)) if file.is_file() else ()


def repair_images(folder: Path, out: Path, repair: Repair, *, num_classes: int | None, mark: str) -> int:
    """Write repaired probabilities in a new folder of the same layout, image by image, whole or not at all.

    Labels are not needed, and not copied; ``mark`` says in the folder that it is calibrated.
    """
    if not folder.is_dir():
        raise InputError(f"{folder} must be a folder that holds `logits.npy` or `probs.npy`.")
    if out.exists():
        raise InputError(f"--out {out} exists, and folders are not replaced; give another name.")
    parent = out.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{out.name}."
    with tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True) as name:
        temporary = Path(name)
        count = _written(folder, temporary, repair, num_classes)
        np.save(temporary / f"{MARK}.npy", np.array([mark]))
        temporary.chmod(0o755)
        temporary.replace(out)
    return count


def _written(folder: Path, out: Path, repair: Repair, num_classes: int | None) -> int:
    found = _scores_in(folder)
    if found is None:
        raise InputError(f"{folder} must hold `logits` or `probs`, as a folder or an .npy file.")
    space, place = found
    if place.is_dir():
        files = _files_in(place)
        (out / "probs").mkdir()
        for file in files:
            image = _mapped(file)
            np.save(out / "probs" / file.name, _repaired(image, space, repair, num_classes, str(file)))
        return len(files)
    images = _mapped(place)
    dtype = np.result_type(images.dtype, np.float32)
    probs = np.lib.format.open_memmap(out / "probs.npy", "w+", dtype=dtype, shape=images.shape)
    for number, image in enumerate(images):
        probs[number] = _repaired(image, space, repair, num_classes, f"{place}, image {number},")
    probs.flush()
    return len(images)


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


def predictions_of_positions(
    *,
    logits: ArrayLike | None = None,
    probs: ArrayLike | None = None,
    labels: ArrayLike,
    ignore_index: int | None = None,
    weights: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    split: ArrayLike | None = None,
    class_names: ArrayLike | None = None,
) -> Predictions:
    """Predictions with one sample per position, such as each pixel of each image.

    Args:
        logits: Scores before the softmax, shape ``(N, C, d1, ...)``.
        probs: Probabilities of the same shape.
        labels: Classes, shape ``(N, d1, ...)``; or 0 and 1 of the shape of the scores, for several labels.
        ignore_index: Positions with this label are left out (several labels: where any is).
        weights: One per sample ``(N,)`` or one per position ``(N, d1, ...)``.
        groups: Group of each sample ``(N,)``, such as the origin of the image.
        split: Split of each sample ``(N,)``, so that no image is on both sides.
        class_names: One name per class.

    Returns:
        Predictions of the positions that count, in the order of the labels; a note says how many. Samples are
        the clusters, so intervals are by images; :class:`DensePredictions` takes more than memory holds.

    Raises:
        InputError: If shapes disagree or no position counts.

    Example:
        >>> import torch
        >>> labels = torch.tensor([[[0, 1], [255, 1]], [[1, 1], [0, 255]]])
        >>> p = predictions_of_positions(logits=torch.randn(2, 3, 2, 2), labels=labels, ignore_index=255)
        >>> p.kind, p.num_samples, p.labels.tolist()
        ('multiclass', 6, [0, 1, 1, 1, 1, 0])
    """
    name, given = ("probs", probs) if logits is None else ("logits", logits)
    if given is None or (logits is not None and probs is not None):
        raise InputError("give exactly one of `logits` and `probs`.")
    scores = as_float_tensor(given, name=name).cpu()
    if scores.ndim < 3:
        raise InputError(f"`{name}` must have shape (N, C, d1, ...); got {tuple(scores.shape)}.")
    target = as_label_tensor(labels, name="labels").cpu()
    mass = None if weights is None else as_float_tensor(weights, name="weights").cpu()
    flat, found, spread = positions_of(name, scores, target, mass)
    num_samples = scores.shape[0]
    counts = torch.ones(len(flat), dtype=torch.bool)
    if ignore_index is not None:
        kept = found != ignore_index
        counts = kept if kept.ndim == 1 else kept.all(dim=1)
    if not bool(counts.any()):
        raise InputError(f"`labels` must not all be {ignore_index}; no position is left.")
    sample = torch.arange(num_samples).repeat_interleave(len(flat) // num_samples)[counts]
    fields: dict[str, Any] = {name: flat[counts]}
    if (names := as_groups(groups, num_samples)) is not None:
        fields["groups"] = [names[k] for k in sample.tolist()]
    if split is not None:
        fields["split"] = torch.as_tensor(split)[sample]
    so = "intervals of one image are too short"
    if len(sample.unique()) > 1:
        fields["clusters"], so = sample, "whole samples are resampled"
    count = f"({num_samples:,} samples, {len(sample):,} positions): neighbours are alike, so {so}."
    return Predictions(
        **fields,
        labels=found[counts],
        weights=None if spread is None else spread[counts],
        class_names=class_names,
        notes=(f"Every position counts as a sample of its own {count}",),
    )
