"""Read weights safely from files, and load them into a network by name."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant_lab.models.checkpoints import NotCalled, read_checkpoint

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
        said = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
        raise InputError(f"{path} cannot be read as weights: {said}.") from error
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
