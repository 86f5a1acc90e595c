"""Reading and writing predictions: the ending chooses the format."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from calibrant._math.errors import InputError
from calibrant._math.files import atomic_write, said_of
from calibrant.predictions import array_files, column_files, npy_pairs
from calibrant.predictions.checks import Kind
from calibrant.predictions.table import Predictions, Source

READERS: dict[str, Callable[[Path, Source, Kind | None], Predictions]] = {
    ".npz": array_files.read_npz,
    ".csv": column_files.read_csv,
    ".csv.gz": column_files.read_csv,
    ".parquet": column_files.read_parquet,
    ".safetensors": array_files.read_safetensors,
    ".pt": array_files.read_pt,
    ".npy": lambda path, _, kind: npy_pairs.read_pairs(path, kind),
}
WRITERS = {
    ".npz": array_files.write_npz,
    ".csv": column_files.write_csv,
    ".csv.gz": column_files.write_csv,
    ".parquet": column_files.write_parquet,
    ".safetensors": array_files.write_safetensors,
    ".pt": array_files.write_pt,
}


_MOST_NAMED = 3  # files of a folder


def load_predictions(path: str | os.PathLike[str], *, kind: Kind | None = None) -> Predictions:
    r"""Read predictions from a file and check them.

    Arrays (``.npz``, never unpickled; ``.safetensors``, texts as JSON lists in the metadata; ``.pt``, a
    dictionary loaded with ``weights_only=True``) go by these names:

    - ``logits`` or ``probs``, beside it ``labels`` (may be absent), ``split``, ``class_names``, ``weights``,
      ``groups``, all as in :class:`Predictions`;
    - ``logits_val, labels_val, logits_test, labels_test``, or the same with ``probs``: two splits (also
      ``weights_val`` and so on);
    - ``confidence`` with ``correct``, or with ``true_label`` and ``pred_label``: the predicted class only;
    - ``kind``: ``"multilabel"`` where there are no labels to say so.

    Such arrays may also stand in ``.npy`` files of their own: give the folder that holds ``logits.npy``,
    ``labels.npy`` and so on, or the file ``logits.npy``, beside which the others are looked for.

    Tables (``.csv``, also packed as ``.csv.gz``: UTF-8, cells parted by commas, or by semicolons, tabs or
    bars if these part the header into more cells, and then decimal commas will do; ``.parquet``: needs
    pyarrow) have one row per sample and these columns:

    - ``logit_0, logit_1, …`` or ``prob_0, prob_1, …``, in any order, or named as ``prob_cat, prob_dog``;
      names become ``class_names``, and labels may then be names as well;
    - ``logit`` or ``prob`` alone: log-odds or probability of class 1; ``negative_class`` and
      ``positive_class``, constant columns, name the two classes;
    - ``label`` (of a binary model, the words yes and no will do), or one column per class ``label_0,
      label_1, …`` (``label_cat, …``) of 0 and 1 for several labels at once; a label column that is empty
      throughout is no labels;
    - ``confidence`` with ``correct``, or with ``true_label`` and ``pred_label``;
    - ``split``, ``weight``, ``group``; ``labels``, ``weights`` and ``groups`` will do as well.

    What is there and not used is named in ``notes``.

    Args:
        path: A file that ends in ``.npz``, ``.csv``, ``.csv.gz``, ``.parquet``, ``.safetensors``, ``.pt`` or
            ``.npy``, or a folder of ``.npy`` files.
        kind: What the file must hold; needed only for ``"multilabel"`` where neither labels nor the file say
            so.

    Returns:
        Predictions with the file's name, SHA-256 and format in ``source``; the floats keep the file's dtype
        (``.csv``: float64).

    Raises:
        InputError: If the file is not such a file, its content is wrong or of another ``kind``; one sentence
            with the path.
        OSError: If it cannot be opened; one sentence with the path.

    Note:
        Peak memory is the used arrays and at most one more copy of the largest.

    Example:
        >>> import tempfile, pathlib
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "pets.csv"
        ...     _ = path.write_text("label,prob_cat,prob_dog\ncat,0.9,0.1\ndog,0.4,0.6\n")
        ...     p = load_predictions(path)
        >>> p.class_names, p.labels.tolist()
        (('cat', 'dog'), [0, 1])
    """
    path = Path(path)
    with said_of(path, "opened"):
        is_folder = path.is_dir()
    if is_folder:
        if any(path.glob("*.npy")):
            return _read(path, lambda: npy_pairs.read_pairs(path, kind))
        raise _no_file(path)
    try:
        with said_of(path, "opened"), path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no file {path}.") from error
    ending = _known_ending(path, READERS)
    if path.stat().st_size == 0:
        raise InputError(f"{path}: it is empty (0 bytes).")
    source = Source(name=path.name, sha256=digest, format=ending[1:], path=str(path))
    return _read(path, lambda: READERS[ending](path, source, kind))


def _no_file(folder: Path) -> IsADirectoryError:
    """That a folder was given, and which of its files hold predictions, as far as their names tell."""
    files = sorted(
        each for each in folder.iterdir() if any(each.name.lower().endswith(end) for end in WRITERS)
    )
    named = [each for each in files if each.stem == "predictions"] or files
    shown = " or ".join(str(each) for each in named[:_MOST_NAMED])
    remedy = f"; name one in it: {shown}" + (", …" if len(named) > _MOST_NAMED else "") if named else ""
    return IsADirectoryError(f"{folder} is a directory, not a file of predictions{remedy}.")


def _read(path: Path, read: Callable[[], Predictions]) -> Predictions:
    """What a reader gives; what it objects to in one sentence with the path."""
    try:
        return read()
    except (InputError, TypeError) as error:  # TypeError: an array of texts, say, where numbers belong
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error


def save_predictions(predictions: Predictions, path: str | os.PathLike[str]) -> None:
    """Write predictions in the format that the ending chooses, whole or not at all."""
    path = Path(path)
    write = WRITERS[_known_ending(path, WRITERS)]
    with atomic_write(path) as temporary:
        try:
            write(predictions, temporary)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error


def _known_ending(path: Path, known_ones: Iterable[str]) -> str:
    ending = "".join(path.suffixes[-2:]).lower()
    if ending not in known_ones:  # .csv.gz is, and v1.npz is no ending
        ending = path.suffix.lower()
    if ending not in known_ones:
        known = ", ".join(known_ones)
        raise InputError(f"{path} must end in one of {known}; got {ending or 'no ending'!r}.")
    return ending
