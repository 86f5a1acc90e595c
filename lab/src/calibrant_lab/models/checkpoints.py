"""Read weights from files without unpickling, and load them into a network by name.

A checkpoint is a pickle, a small program, with the bytes of its tensors. Here an interpreter that cannot call
anything runs it, and makes only dictionaries, lists, tuples, numbers, texts and tensors. For other calls it
keeps the name (:class:`NotCalled`), so that weights can be read from files with more content.
"""

from __future__ import annotations

import io
import math
import os
import pickletools
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

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
_KEYS = (str, int, float, bytes, type(None))  # of dictionaries


@dataclass(frozen=True)
class NotCalled:
    """Name that a checkpoint would have called when unpickled."""

    name: str


@dataclass(frozen=True)
class _Storage:
    """Numbers behind tensors; in old files they follow the program."""

    dtype: torch.dtype
    key: str
    count: int


@dataclass(frozen=True)
class _View:
    """Shape of a tensor and its place in a storage, before the numbers are read."""

    storage: _Storage
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    def tensor(self, numbers: Tensor) -> Tensor:
        """Return the tensor; refuse a view larger than its numbers."""
        sides = (*self.size, *self.stride, self.offset)
        if len(self.size) != len(self.stride) or not all(type(each) is int and each >= 0 for each in sides):
            raise ValueError("a tensor has no shape")
        last = self.offset + sum((n - 1) * step for n, step in zip(self.size, self.stride, strict=True))
        if math.prod(self.size) > len(numbers) or (math.prod(self.size) and last >= len(numbers)):
            raise ValueError("a tensor is larger than what the file holds of it")
        return numbers.as_strided(self.size, self.stride, self.offset)


def read_checkpoint(path: Path) -> Any:
    """Return containers, numbers, texts and tensors of a ``torch.save`` file; errors of many kinds."""
    with path.open("rb") as file:
        if zipfile.is_zipfile(file):
            with zipfile.ZipFile(file) as archive:
                return _of_archive(archive)
        file.seek(0)
        return _of_old(file)


def _of_archive(archive: zipfile.ZipFile) -> Any:
    names = archive.namelist()
    (program,) = (name for name in names if name.endswith("/data.pkl") or name == "data.pkl")
    folder = program.removesuffix("data.pkl")
    order = f"{folder}byteorder"
    if order in names and _stored(archive, order) != b"little":
        raise ValueError("its numbers begin with their largest byte")

    def content(storage: _Storage) -> bytes:
        info = archive.getinfo(f"{folder}data/{storage.key}")
        expected = storage.count * storage.dtype.itemsize
        if info.file_size != expected:
            raise ValueError(f"the numbers of a tensor must be {expected} bytes; there are {info.file_size}")
        return _stored(archive, info.filename)

    return _filled(_result(io.BytesIO(_stored(archive, program))), content)


def _stored(archive: zipfile.ZipFile, name: str) -> bytes:
    """Read an uncompressed member, as torch writes; a compressed one could unpack to any size."""
    if archive.getinfo(name).compress_type != zipfile.ZIP_STORED:
        raise ValueError("its members must not be compressed")
    return archive.read(name)


def _of_old(file: BinaryIO) -> Any:
    """Read a file from before 2020: kind, versions, program, then the storages in order."""
    try:
        begins = _result(file)
    except ValueError:
        begins = None
    if begins != _OLD:
        raise InputError("it is not what torch.save writes.")
    _version, _system, found, keys = (_result(file) for _ in range(4))
    storages = {
        view.storage.key: view.storage
        for each in _containers([found])
        for view in (each.values() if isinstance(each, dict) else each)
        if isinstance(view, _View)
    }
    contents: dict[str, bytes] = {}
    for key in keys:
        count, storage = int.from_bytes(file.read(8), "little"), storages[key]
        if count != storage.count:
            raise ValueError(f"a tensor must have {storage.count} numbers; there are {count}")
        contents[key] = file.read(count * storage.dtype.itemsize)
    return _filled(found, lambda storage: contents[storage.key])


def _containers(value: Any) -> Iterator[dict[Any, Any] | list[Any] | tuple[Any, ...]]:
    """Yield all containers of a tree once, despite cycles and repeats."""
    rest, seen = [value], set[int]()
    while rest:
        each = rest.pop()
        if isinstance(each, dict | list | tuple) and id(each) not in seen:
            seen.add(id(each))
            yield each
            rest += each.values() if isinstance(each, dict) else each


def _filled(value: Any, content: Callable[[_Storage], bytes]) -> Any:
    """Replace views by tensors in a tree of dictionaries; leave other containers unchanged."""
    read: dict[_Storage, Tensor] = {}

    def tensor(view: _View) -> Tensor:
        if view.storage not in read:
            found = bytearray(content(view.storage))
            dtype = view.storage.dtype
            read[view.storage] = (
                torch.frombuffer(found, dtype=dtype) if found else torch.empty(0, dtype=dtype)
            )
        return view.tensor(read[view.storage])

    for each in _containers(value):
        if isinstance(each, dict):
            each |= {key: tensor(inner) for key, inner in each.items() if isinstance(inner, _View)}
    return tensor(value) if isinstance(value, _View) else value


def _result(file: BinaryIO) -> Any:
    """Return the top of the stack after the next program in a file."""
    machine = _Machine()
    for opcode, given, _ in pickletools.genops(file):
        if opcode.name == "STOP":
            return machine.stack.pop()
        step = machine.steps.get(opcode.name)
        if step is not None:
            step(given)
        elif isinstance(given, str | int | float | bytes) and not opcode.stack_before:
            machine.stack.append(given)
        else:
            raise ValueError(f"it is no file of weights ({opcode.name})")
    raise ValueError("it was cut off")


class _Machine:
    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        push, pop = self.stack.append, self.stack.pop
        self.steps: dict[str, Callable[[Any], object]] = {
            "PROTO": lambda _: None,
            "FRAME": lambda _: None,
            "MARK": lambda _: self._marks.append(len(self.stack)),
            "NONE": lambda _: push(None),
            "NEWTRUE": lambda _: push(True),
            "NEWFALSE": lambda _: push(False),
            "EMPTY_TUPLE": lambda _: push(()),
            "EMPTY_LIST": lambda _: push([]),
            "EMPTY_DICT": lambda _: push({}),
            "TUPLE": lambda _: push(tuple(self._above_mark())),
            "TUPLE1": lambda _: push(self._last(1)),
            "TUPLE2": lambda _: push(self._last(2)),
            "TUPLE3": lambda _: push(self._last(3)),
            "LIST": lambda _: push(self._above_mark()),
            "DICT": lambda _: push(_put({}, self._above_mark())),
            "MEMOIZE": lambda _: self._keep(len(self._memo)),
            "APPEND": lambda _: self._onto(_extend, self._last(1)),
            "APPENDS": lambda _: self._onto(_extend, self._above_mark()),
            "SETITEM": lambda _: self._onto(_put, self._last(2)),
            "SETITEMS": lambda _: self._onto(_put, self._above_mark()),
            "GLOBAL": lambda given: push(NotCalled(given.replace(" ", "."))),
            "STACK_GLOBAL": lambda _: push(NotCalled(".".join(map(str, self._last(2))))),
            "BINPERSID": lambda _: push(_storage(pop())),
            "BUILD": lambda _: pop(),  # attributes, such as the versions of modules
            "REDUCE": lambda _: push(_made(*self._last(2))),
            "NEWOBJ": lambda _: push(_made(*self._last(2))),
        }
        self.steps |= dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), self._keep)
        self.steps |= dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), lambda given: push(self._memo[given]))

    def _keep(self, place: int) -> None:
        self._memo[place] = self.stack[-1]

    def _last(self, count: int) -> tuple[Any, ...]:
        found = tuple(self.stack[-count:])
        del self.stack[-count:]
        return found

    def _above_mark(self) -> list[Any]:
        start = self._marks.pop()
        found = self.stack[start:]
        del self.stack[start:]
        return found

    def _onto(self, put: Callable[[Any, Sequence[Any]], object], added: Sequence[Any]) -> None:
        put(self.stack[-1], added)


def _extend(target: Any, items: Sequence[Any]) -> None:
    if not isinstance(target, list):
        raise TypeError("something is appended to what is no list")
    target.extend(items)


def _put(target: Any, items: Sequence[Any]) -> Any:
    """Put alternating keys and values into a dictionary."""
    for key, value in zip(items[::2], items[1::2], strict=True):
        if not isinstance(key, _KEYS):
            raise TypeError(f"a key must be a text or a number; got {type(key).__name__}")
        if isinstance(target, dict):
            target[key] = value
        elif not isinstance(target, NotCalled):
            raise TypeError("items are put into what is no dictionary")
    return target


def _storage(given: Any) -> _Storage:
    kind, named, key, _, count = given[:5]
    dtype = _DTYPES.get(named.name.rpartition(".")[2]) if isinstance(named, NotCalled) else None
    if kind != "storage" or dtype is None or not isinstance(key, str) or type(count) is not int or count < 0:
        raise ValueError("it holds numbers of a kind that is not read")
    return _Storage(dtype, key, count)


def _made(function: Any, args: Any) -> Any:
    """Return the result of a call that makes a tensor or a dictionary; else the name not called."""
    name = function.name if isinstance(function, NotCalled) else "?"
    match name, args:
        case "torch._utils._rebuild_tensor" | "torch._utils._rebuild_tensor_v2", (_Storage() as storage, *_):
            return _View(storage, args[1], tuple(args[2]), tuple(args[3]))
        case "torch._utils._rebuild_parameter", (_View() as view, *_):
            return view
        case "collections.OrderedDict", ():
            return {}
        case "collections.OrderedDict", (list() as pairs,):  # written by Python 2
            return _put({}, [each for pair in pairs for each in pair])
        case _:
            return NotCalled(name)
