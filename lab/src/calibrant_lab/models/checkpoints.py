"""Read weights from files that may call anything, and load them into a network by name.

A checkpoint is a pickle, a small program, with the bytes of its tensors. The unpickler here knows tensors and
dictionaries only, and calls nothing else: it keeps the name (:class:`NotCalled`), so that weights can be read
from files with more content.
"""

from __future__ import annotations

import io
import math
import os
import pickle
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE, reason

_SHOWN = 3  # so many names of each kind stand in a message


def load_weights(
    model: nn.Module,
    path: str | os.PathLike[str],
    *,
    rename: Mapping[str, str] | Callable[[str], str] | None = None,
    skip: Sequence[str] = (),
) -> None:
    """Load the weights of a file into a network, by name.

    The networks of this package also know the names that the original code gives their parameters:
    torchvision's for ``densenet``, Hugging Face's for ``vit``, and those of Mukhoti et al. (2020) for the
    others. A ``module.`` before every name is dropped.

    Args:
        model: The network, changed in place, on its device and in its precision.
        path: A ``.safetensors`` file, or a state dictionary that ``torch.save`` wrote.
        rename: Translation of the file's names into the network's: a function, or regular expressions with
            their replacements, applied in order.
        skip: Parameters or modules that keep the weights they have, whatever the file holds, such as
            ``("classifier",)`` for other classes.

    Raises:
        InputError: If the file cannot be read or holds something else, or its names and shapes are not those
            of the network; nothing is changed then.

    Example:
        >>> import tempfile, torch
        >>> from calibrant_lab.models import MLP
        >>> network = MLP((2,), 3, widths=())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     torch.save({"fc.weight": torch.ones(3, 2), "fc.bias": torch.zeros(3)}, folder + "/model.pt")
        ...     load_weights(network, folder + "/model.pt", rename={"^fc": "layers.1"})
        >>> network(torch.tensor([[1.0, 2.0]])).tolist()
        [[3.0, 3.0, 3.0]]
    """
    found = read_weights(path)
    if all(name.startswith("module.") for name in found):
        found = {name.removeprefix("module."): value for name, value in found.items()}
    own = model.state_dict()
    names = {name: _name(name, model, rename, own) for name in found}
    given = {ours: found[theirs] for theirs, ours in names.items() if not _skipped(ours, skip)}
    counted = Counter(names.values())
    wanted = [
        name for name in own if not _skipped(name, skip) and not name.endswith("num_batches_tracked")
    ]  # batch normalisation of old files does not count its batches
    wrong = {
        "missing": [name for name in wanted if name not in given],
        "not of the network": [name for name in given if name not in own],
        "of another shape": [
            f"{name} {tuple(value.shape)} for {tuple(own[name].shape)}"
            for name, value in given.items()
            if name in own and value.shape != own[name].shape
        ],
        "there twice": [ours for ours in given if counted[ours] > 1],
    }
    if any(wrong.values()):
        said = ", ".join(f"{_listed(each)} {what}" for what, each in wrong.items() if each)
        other = (*wrong["of another shape"], *wrong["missing"], "head.weight")[0].partition(" ")[0]
        raise InputError(
            f"{os.fspath(path)} must hold the weights of this {type(model).__name__}; {said}; "
            "calibrant_lab.models.load_weights takes `rename`, which changes names, and `skip`, such as "
            f'("{other.rpartition(".")[0]}",), which leaves out what is to keep its weights.'
        )
    model.load_state_dict(given, strict=False)


def read_weights(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Return the tensors of a file by name, without executing anything in it.

    It is a ``.safetensors`` or ``torch.save`` file: tensors by name, or a dictionary with them under
    ``model`` or ``state_dict``.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"there is no file of weights {path}.")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        found: Any = read_checkpoint(path)
    except (*DAMAGE, InputError) as error:
        raise InputError(f"{path} cannot be read as weights: {reason(error)}.") from error
    if isinstance(found, Mapping):
        for key in ("model", "state_dict"):
            found = found[key] if isinstance(found.get(key), Mapping) else found
    values = found.values() if isinstance(found, Mapping) else (found,)
    called = next((each.name for each in values if isinstance(each, NotCalled)), None)
    if called is not None:
        raise InputError(
            f"{path} cannot be read as weights: it would call {called}, which is not done; save "
            "model.state_dict() instead."
        )
    if not isinstance(found, Mapping) or not all(isinstance(value, Tensor) for value in found.values()):
        raise InputError(f"{path} must hold tensors by name, as model.state_dict() gives them.")
    return dict(found)


def _name(
    name: str,
    model: nn.Module,
    rename: Mapping[str, str] | Callable[[str], str] | None,
    own: Mapping[str, Tensor],
) -> str:
    if isinstance(rename, Mapping):
        for pattern, replacement in rename.items():
            name = re.sub(pattern, replacement, name)
    elif rename is not None:
        name = rename(name)
    translate: Callable[[str], str] | None = getattr(model, "own_name", None)
    return name if translate is None or name in own else translate(name)


def _skipped(name: str, skip: Sequence[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in skip)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_SHOWN]) + (", …" if len(names) > _SHOWN else "")
    return f"{len(names)} ({shown}) {'is' if len(names) == 1 else 'are'}"


_DTYPES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
}
_OLD = 0x1950A86A20F9469CFC6C  # the number that files without a ZIP archive begin with


class NotCalled:
    """Stands for what a checkpoint would have called when unpickled; a subclass has its name."""

    name: ClassVar[str]

    def __new__(cls, *_: object, **_others: object) -> NotCalled:
        return object.__new__(cls)

    def _ignore(self, *_: object) -> None: ...

    __setstate__ = __setitem__ = append = extend = _ignore


class _Names(dict[Any, Any]):
    """An ordered dictionary; attributes of it, such as the versions of modules, are ignored."""

    def __setstate__(self, _state: object) -> None: ...


def _view(numbers: Tensor, offset: int, size: Sequence[int], stride: Sequence[int], *_: object) -> Tensor:
    if math.prod(size) > len(numbers):
        raise ValueError("a tensor is larger than what the file holds of it")
    return numbers.as_strided(tuple(size), tuple(stride), offset)  # which checks that all of it is inside


_KNOWN: Mapping[str, Any] = {
    **{f"torch.{name}": dtype for name, dtype in _DTYPES.items()},
    "torch._utils._rebuild_tensor": _view,
    "torch._utils._rebuild_tensor_v2": _view,
    "torch._utils._rebuild_parameter": lambda view, *_: view,
    "collections.OrderedDict": _Names,
}


class _Unpickler(pickle.Unpickler):
    """Make containers, numbers, texts and tensors over ``numbers``, by the key of each storage."""

    def __init__(self, file: IO[bytes], read: Callable[[str, Tensor], object], most: int) -> None:
        super().__init__(file, encoding="utf-8")
        self._read, self._most = read, most
        self.numbers: dict[str, Tensor] = {}

    def find_class(self, module: str, name: str) -> Any:
        full = f"{module}.{name}"
        return _KNOWN.get(full) or type("NotCalled", (NotCalled,), {"name": full})

    def persistent_load(self, pid: Any) -> Tensor:
        kind, dtype, key, _, count = pid[:5]
        if kind != "storage" or not isinstance(dtype, torch.dtype):
            raise ValueError("it holds numbers of a kind that is not read")
        if not 0 <= count * dtype.itemsize <= self._most:
            raise ValueError(f"the numbers of a tensor must fit into the file; there are {count}")
        if key not in self.numbers:
            self.numbers[key] = torch.zeros(count, dtype=dtype)
            self._read(key, self.numbers[key])
        if self.numbers[key].dtype != dtype or len(self.numbers[key]) != count:
            raise ValueError("two tensors differ in what numbers they share")
        return self.numbers[key]


def _fill(numbers: Tensor, content: bytes) -> None:
    if len(content) != numbers.nbytes:
        raise ValueError(f"the numbers of a tensor must be {numbers.nbytes} bytes; there are {len(content)}")
    if content:
        numbers.copy_(torch.frombuffer(bytearray(content), dtype=numbers.dtype))


def read_checkpoint(path: Path) -> Any:
    """Return containers, numbers, texts and tensors of a ``torch.save`` file; errors of many kinds."""
    with path.open("rb") as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                return _of_archive(archive, path.stat().st_size)
        file.seek(0)
        return _of_old(file, path.stat().st_size)


def _of_archive(archive: zipfile.ZipFile, most: int) -> Any:
    if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
        raise ValueError("its members must not be compressed")  # one could unpack to any size
    names = archive.namelist()
    (program,) = (name for name in names if name.endswith("/data.pkl") or name == "data.pkl")
    folder = program.removesuffix("data.pkl")
    if f"{folder}byteorder" in names and archive.read(f"{folder}byteorder") != b"little":
        raise ValueError("its numbers begin with their largest byte")

    def read(key: str, numbers: Tensor) -> None:
        _fill(numbers, archive.read(f"{folder}data/{key}"))

    return _Unpickler(io.BytesIO(archive.read(program)), read, most).load()


def _of_old(file: IO[bytes], most: int) -> Any:
    """Read a file from before 2020: kind, versions, program, then the storages in order."""
    first, *others = (_Unpickler(file, lambda *_: None, most) for _ in range(5))
    begins = None
    with suppress(*DAMAGE):
        begins = first.load()
    if begins != _OLD:
        raise InputError("it is not what torch.save writes.")
    _version, _system, found, keys = (each.load() for each in others)
    numbers = others[2].numbers
    for key in keys:
        if int.from_bytes(file.read(8), "little") != len(numbers[key]):
            raise ValueError("a tensor has another size than its numbers")
        _fill(numbers[key], file.read(numbers[key].nbytes))
    return found
