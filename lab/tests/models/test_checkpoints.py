"""Checkpoints are read as torch reads them, and nothing that they name is called."""

from __future__ import annotations

import io
import os
import pickle
import re
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from calibrant import InputError
from calibrant_lab.models.checkpoints import NotCalled, read_checkpoint
from calibrant_lab.models.weights import read_weights


def network() -> nn.Module:
    """One with buffers, of which one is an integer."""
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))


def saved(path: Path, content: Any, **how: Any) -> Path:
    """What ``torch.save`` writes."""
    torch.save(content, path, **how)
    return path


@pytest.mark.parametrize("how", [{}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 4}])
def test_state_dictionaries_are_those_of_torch(how, tmp_path) -> None:
    """New and old files give the tensors, numbers and texts that ``torch.load`` gives."""
    weights = network().state_dict()
    content = {
        "state_dict": OrderedDict((f"module.{name}", value) for name, value in weights.items()),
        "kinds": {str(kind): torch.arange(6).to(kind) for kind in (torch.half, torch.bfloat16, torch.bool)},
        "views": {
            "part": torch.arange(12.0).reshape(3, 4)[1:, ::2],
            "turned": torch.arange(6.0).reshape(2, 3).T,
        },
        "parameter": {"p": nn.Parameter(torch.ones(2)), "empty": torch.empty(0), "one": torch.tensor(3.5)},
        "epoch": 7,
        "best": 0.25,
        "rest": {"list": [1, None, True], "pair": (2, "two"), 3: -(2**70)},
    }
    path = saved(tmp_path / "c.pt", content, **how)
    found, expected = read_checkpoint(path), torch.load(path, weights_only=False)
    for name in ("state_dict", "kinds", "views", "parameter"):
        assert found[name].keys() == expected[name].keys()
        for key, value in found[name].items():
            assert value.dtype == expected[name][key].dtype
            assert torch.equal(value, expected[name][key])
    for name in ("epoch", "best", "rest"):
        assert found[name] == expected[name]


def test_a_dictionary_of_python_2() -> None:
    """An ordered dictionary that Python 2 wrote, a call with pairs, is a dictionary."""
    from calibrant_lab.models import checkpoints

    program = b"\x80\x02ccollections\nOrderedDict\n](](U\x01aK\x01e](U\x01bK\x02ee\x85R."
    assert checkpoints._result(io.BytesIO(program)) == {"a": 1, "b": 2}


class Runs:
    """What makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> Any:
        """Call ``os.mkdir``."""
        return (os.mkdir, (str(self._folder),))


@pytest.mark.parametrize("new", [True, False])
def test_nothing_is_called(new, tmp_path) -> None:
    """What stands beside weights is remembered by its name; weights that would be called are refused."""
    runs = Runs(tmp_path / "ran")
    content = {"state_dict": {"x": torch.ones(2)}, "arguments": runs}
    path = saved(tmp_path / "c.pt", content, _use_new_zipfile_serialization=new)
    assert read_checkpoint(path)["arguments"] == NotCalled(f"{os.mkdir.__module__}.mkdir")
    assert read_weights(path)["x"].tolist() == [1, 1]
    saved(path, {"x": runs}, _use_new_zipfile_serialization=new)
    with pytest.raises(InputError, match=f"it would call {os.mkdir.__module__}.mkdir, which is not done"):
        read_weights(path)
    assert not (tmp_path / "ran").exists()


def archive(
    program: bytes, numbers: bytes = bytes(8), method: int = zipfile.ZIP_STORED, order: bytes = b""
) -> bytes:
    """A file as ``torch.save`` writes it, with a program of somebody else; byte order is compressed."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as packed:
        packed.writestr("a/data.pkl", program)
        packed.writestr("a/data/0", numbers)
        if order:
            packed.writestr("a/byteorder", order, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def tensor(size: bytes, stride: bytes) -> bytes:
    """The program of ``{"x": a tensor of two float32}``."""
    storage = b"(U\x07storagectorch\nFloatStorage\nU\x010U\x03cpuK\x02tQ"
    return (
        b"\x80\x02}U\x01xctorch._utils\n_rebuild_tensor_v2\n("
        + storage
        + b"K\x00"
        + size
        + stride
        + b"\x89NtRs."
    )


HOSTILE = {
    "text": b"hello",
    "nothing": b"",
    "cut": archive(tensor(b"K\x02\x85", b"K\x01\x85")[:-9]),
    "not a tensor file": pickle.dumps({"x": 1}),
    "too large": archive(tensor(b"K\x03\x85", b"K\x01\x85")),
    "one number many times": archive(tensor(b"J\xff\xff\xff\x7f\x85", b"K\x00\x85")),
    "no shape": archive(tensor(b"J\xff\xff\xff\xff\x85", b"K\x01\x85")),
    "too few numbers": archive(tensor(b"K\x02\x85", b"K\x01\x85"), bytes(4)),
    "compressed": archive(tensor(b"K\x02\x85", b"K\x01\x85"), bytes(8), zipfile.ZIP_DEFLATED),
    "compressed order of bytes": archive(tensor(b"K\x02\x85", b"K\x01\x85"), order=b"little"),
    "a list as key": archive(b"\x80\x02}]K\x01s."),
    "endless pops": archive(b"\x80\x02" + b"a" * 9 + b"."),
    "itself": archive(b"\x80\x02}q\x00K\x01h\x00s."),
    "deep": archive(b"\x80\x02" + b")" + b"\x85" * 200_000 + b"."),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name, tmp_path) -> None:
    """Whatever is no file of weights is refused in one sentence."""
    path = tmp_path / "c.pt"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(
        InputError, match=f"^{re.escape(str(path))} (cannot be read as weights: |must hold).*$"
    ):
        read_weights(path)


def test_the_hostile_tensor_is_one(tmp_path) -> None:
    """The program that the hostile files vary is a tensor where nothing is wrong with it."""
    path = tmp_path / "c.pt"
    path.write_bytes(archive(tensor(b"K\x02\x85", b"K\x01\x85")))
    assert read_weights(path)["x"].tolist() == [0, 0]
