"""Checkpoints of CheXNet become files of weights."""

from __future__ import annotations

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


def test_the_weights_are_the_same(tmp_path) -> None:
    """The converted weights are those of the checkpoint, by the names that networks here have."""
    given = {original_name(name): value for name, value in weights().items()}
    torch.save({"epoch": 3, "state_dict": given, "best_loss": 0.1}, tmp_path / "model.pth.tar")
    assert convert_chexnet(tmp_path / "model.pth.tar", tmp_path / "w.safetensors") == 14
    found = load_file(tmp_path / "w.safetensors")
    assert found.keys() == weights().keys()
    assert all(torch.equal(value, found[name]) for name, value in weights().items())


def test_another_network_is_refused(tmp_path) -> None:
    """Nothing is written."""
    torch.save({"layer.weight": torch.ones(1)}, tmp_path / "other.pt")
    with pytest.raises(InputError, match="must hold the weights of a DenseNet"):
        convert_chexnet(tmp_path / "other.pt", tmp_path / "w.safetensors")
    assert not (tmp_path / "w.safetensors").exists()
