"""Checkpoints of CheXNet become files from which nothing can run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from calibrant import InputError
from calibrant_lab.models import DenseNet
from calibrant_lab.web.model import convert_chexnet


def original_name(name: str) -> str:
    """As old versions of torchvision, wrapped by CheXNet and ``DataParallel``, call a parameter."""
    for kind in ("norm", "conv"):
        for number in "12":
            name = name.replace(f".{kind}{number}.", f".{kind}.{number}.") if "denselayer" in name else name
    return "module.densenet121." + name.replace("classifier.", "classifier.0.")


def weights() -> dict[str, Tensor]:
    """Numbers for every parameter of a DenseNet with fourteen outputs, by our names."""
    with torch.device("meta"):
        network = DenseNet((3, 32, 32), 14, growth=1)
    shapes = {name: value.shape for name, value in network.state_dict().items() if value.ndim}
    return {name: torch.full(shape, float(number)) for number, (name, shape) in enumerate(shapes.items())}


def test_the_weights_are_the_same(tmp_path: Path) -> None:
    """The converted weights are those of the checkpoint, by the names that networks here have."""
    given = {original_name(name): value for name, value in weights().items()}
    torch.save({"epoch": 3, "state_dict": given, "best_loss": 0.1}, tmp_path / "model.pth.tar")
    assert convert_chexnet(tmp_path / "model.pth.tar", tmp_path / "w.safetensors") == 14
    found = load_file(tmp_path / "w.safetensors")
    assert found.keys() == weights().keys()
    assert all(torch.equal(value, found[name]) for name, value in weights().items())


class Runs:
    """What makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __reduce__(self) -> Any:
        """Call ``os.mkdir``."""
        return (os.mkdir, (str(self._folder),))


def test_nothing_runs(tmp_path: Path) -> None:
    """A checkpoint that would run something is refused, and it did not run; nor is another network taken."""
    torch.save({"state_dict": {"x": Runs(tmp_path / "ran")}}, tmp_path / "evil.pth.tar")
    with pytest.raises(InputError, match="cannot be read as weights"):
        convert_chexnet(tmp_path / "evil.pth.tar", tmp_path / "w.safetensors")
    torch.save({"layer.weight": torch.ones(1)}, tmp_path / "other.pt")
    with pytest.raises(InputError, match="must hold the weights of a DenseNet"):
        convert_chexnet(tmp_path / "other.pt", tmp_path / "w.safetensors")
    assert not (tmp_path / "ran").exists()
    assert not (tmp_path / "w.safetensors").exists()
