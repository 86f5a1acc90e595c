"""Named tensors, ``.safetensors``; texts are JSON lists in the metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from calibrant._math.errors import InputError
from calibrant._math.files import DAMAGE
from calibrant.predictions.formats.arrays import fields_of_arrays
from calibrant.predictions.formats.contents import Arrays, FileContents, damaged, disk_errors
from calibrant.predictions.formats.mark import MARK


def read(path: Path) -> FileContents:
    """Read those tensors and texts that are used."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata: dict[str, str] = file.metadata() or {}
            named = ("class_names", "groups", "clusters", "kind", MARK)
            texts = {name: metadata[name] for name in named if name in metadata}
            names = [*file.keys(), *texts]

            def one(name: str) -> Any:
                return _from_json(name, texts[name]) if name in texts else file.get_tensor(name)

            return FileContents(fields=fields_of_arrays(names, one))
    except InputError:
        raise
    except (SafetensorError, *DAMAGE) as error:
        raise InputError(damaged("a .safetensors file", error)) from error


def write(arrays: Arrays, path: Path) -> None:
    """Write tensors, and texts as JSON lists into the metadata."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    tensors = {name: each.contiguous() for name, each in arrays.items() if isinstance(each, torch.Tensor)}
    texts = {
        name: json.dumps(each, ensure_ascii=False) for name, each in arrays.items() if name not in tensors
    }
    with disk_errors(SafetensorError):
        save_file(tensors, path, metadata=texts)


def _from_json(name: str, text: str) -> list[Any]:
    """A list of texts that was written as JSON."""
    try:
        listed = json.loads(text)
    except ValueError:
        listed = None
    if not isinstance(listed, list):
        raise InputError(f'`{name}` in the metadata must be a JSON list, such as ["cat", "dog"].')
    return listed
