"""Weights from files: as torch reads them, by name, all or nothing, and nothing that they name is called."""

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
from safetensors.torch import load_file
from torch import Tensor, nn

from calibrant_lab import models
from calibrant_lab.models import DenseNet
from calibrant_lab.models.checkpoints import NotCalled, read_checkpoint, read_weights
from calibrant_lab.web.model import convert_chexnet
from refusals import refused


def network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))


def saved(path: Path, content: Any, **how: Any) -> Path:
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


def test_a_dictionary_of_python_2(tmp_path) -> None:
    """An ordered dictionary that Python 2 wrote, a call with pairs, is a dictionary."""
    program = b"\x80\x02ccollections\nOrderedDict\n](](U\x01aK\x01e](U\x01bK\x02ee\x85R."
    (tmp_path / "c.pt").write_bytes(archive(program))
    assert read_checkpoint(tmp_path / "c.pt") == {"a": 1, "b": 2}


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
    found = read_checkpoint(path)["arguments"]
    assert (isinstance(found, NotCalled), found.name) == (True, f"{os.mkdir.__module__}.mkdir")
    assert read_weights(path)["x"].tolist() == [1, 1]
    saved(path, {"x": runs}, _use_new_zipfile_serialization=new)
    refused(f"it would call {os.mkdir.__module__}.mkdir, which is not done", read_weights, path)
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
    call = b"\x80\x02}U\x01xctorch._utils\n_rebuild_tensor_v2\n("
    return call + storage + b"K\x00" + size + stride + b"\x89NtRs."


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
    path = tmp_path / "c.pt"
    path.write_bytes(HOSTILE[name])
    refused(f"^{re.escape(str(path))} (cannot be read as weights: |must hold).*$", read_weights, path)


def test_the_hostile_tensor_is_one(tmp_path) -> None:
    """The program that the hostile files vary is a tensor where nothing is wrong with it."""
    path = tmp_path / "c.pt"
    path.write_bytes(archive(tensor(b"K\x02\x85", b"K\x01\x85")))
    assert read_weights(path)["x"].tolist() == [0, 0]


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
    model = DenseNet((3, 32, 32), 14, growth=1)
    models.load_weights(model, tmp_path / "model.pth.tar")
    assert torch.equal(model.classifier.bias, found["classifier.bias"])
    assert all(torch.equal(value, found[name]) for name, value in weights().items())


def test_another_network_is_refused(tmp_path) -> None:
    torch.save({"layer.weight": torch.ones(1)}, tmp_path / "other.pt")
    words = "must hold the weights of a DenseNet"
    refused(words, convert_chexnet, tmp_path / "other.pt", tmp_path / "w.safetensors")
    assert not (tmp_path / "w.safetensors").exists()


@pytest.fixture
def model() -> nn.Module:
    return models.build("mlp(widths=(4,))", input_shape=(3,), num_classes=2)


def test_weights_of_every_form(model, tmp_path) -> None:
    from safetensors.torch import save_file

    state = model.state_dict()
    torch.save({"epoch": 3, "model": state}, tmp_path / "checkpoint.pt")
    save_file(state, tmp_path / "weights.safetensors")
    for name in ("checkpoint.pt", "weights.safetensors"):
        found = read_weights(tmp_path / name)
        assert found.keys() == state.keys()
        assert all(torch.equal(found[key], state[key]) for key in state)
    torch.save([1, 2], tmp_path / "list.pt")
    refused("must hold tensors by name", read_weights, tmp_path / "list.pt")
    refused("there is no file of weights", read_weights, tmp_path / "nothing.pt")


def other_words(name: str) -> str:
    return name.replace("layers.", "body.").replace("weight", "kernel")


@pytest.mark.parametrize(
    "rename",
    [
        {r"^body\.": "layers.", r"\.kernel$": ".weight"},
        lambda name: name.replace("body", "layers").replace("kernel", "weight"),
    ],
)
def test_renaming_by_patterns_or_a_function(model, rename, tmp_path) -> None:
    state = model.state_dict()
    torch.save({other_words(name): torch.full_like(state[name], 2.0) for name in state}, tmp_path / "w.pt")
    models.load_weights(model, tmp_path / "w.pt", rename=rename)
    assert all((value == 2).all() for value in model.state_dict().values())


def test_what_is_skipped_keeps_its_weights(model, tmp_path) -> None:
    """A last layer for other classes stays as it was; the rest is the file's, in the network's precision."""
    other = models.build("mlp(widths=(4,))", input_shape=(3,), num_classes=9).double()
    torch.save(other.state_dict(), tmp_path / "nine.pt")
    before = model.get_parameter("layers.3.weight").detach().clone()
    refused(
        r'of another shape.*skip`, such as \("layers.3",\)', models.load_weights, model, tmp_path / "nine.pt"
    )
    models.load_weights(model, tmp_path / "nine.pt", skip=("layers.3",))
    assert torch.equal(model.get_parameter("layers.3.weight"), before)
    found = model.get_parameter("layers.1.weight")
    assert found.dtype == torch.float32
    assert torch.equal(found, other.get_parameter("layers.1.weight").float())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda state: state.pop("layers.1.bias"), r"1 \(layers.1.bias\) is missing"),
        (lambda state: state.update(more=torch.zeros(1)), r"1 \(more\) is not of the network"),
        (
            lambda state: state.update({"layers.1.bias": torch.zeros(5)}),
            r"1 \(layers.1.bias \(5,\) for \(4,\)\) is of another shape",
        ),
        (dict.clear, r"4 \(layers.1.weight, layers.1.bias, layers.3.weight, …\) are missing"),
    ],
)
def test_files_that_do_not_fit_are_named_and_change_nothing(model, change, words, tmp_path) -> None:
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = {name: value + 1 for name, value in before.items()}
    change(state)
    torch.save(state, tmp_path / "w.pt")
    refused(words, models.load_weights, model, tmp_path / "w.pt")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_two_names_for_one_parameter_are_refused(model, tmp_path) -> None:
    torch.save(model.state_dict(), tmp_path / "w.pt")
    twice = {r"layers\.3\.bias": "layers.1.bias"}
    refused("there twice", models.load_weights, model, tmp_path / "w.pt", rename=twice)
