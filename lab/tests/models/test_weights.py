"""Weights from files: by name, all or nothing, and one sentence where they do not fit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from calibrant._math.errors import InputError
from calibrant_lab import models
from calibrant_lab.models.weights import read_weights


@pytest.fixture
def model() -> nn.Module:
    """A perceptron with two linear layers."""
    return models.build("mlp(widths=(4,))", input_shape=(3,), num_classes=2)


def test_weights_of_every_form(model, tmp_path) -> None:
    """A state dictionary, one inside a checkpoint, and safetensors; other files are refused."""
    from safetensors.torch import save_file

    state = model.state_dict()
    torch.save({"epoch": 3, "model": state}, tmp_path / "checkpoint.pt")
    save_file(state, tmp_path / "weights.safetensors")
    for name in ("checkpoint.pt", "weights.safetensors"):
        found = read_weights(tmp_path / name)
        assert found.keys() == state.keys()
        assert all(torch.equal(found[key], state[key]) for key in state)
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "text.pt").write_text("no weights")
    with pytest.raises(InputError, match="must hold tensors by name"):
        read_weights(tmp_path / "list.pt")
    with pytest.raises(InputError, match="cannot be read as weights"):
        read_weights(tmp_path / "text.pt")
    with pytest.raises(InputError, match="there is no file of weights"):
        read_weights(tmp_path / "nothing.pt")


def other_words(name: str) -> str:
    """What the file calls a parameter."""
    return name.replace("layers.", "body.").replace("weight", "kernel")


@pytest.mark.parametrize(
    "rename",
    [
        {r"^body\.": "layers.", r"\.kernel$": ".weight"},
        lambda name: name.replace("body", "layers").replace("kernel", "weight"),
    ],
)
def test_renaming_by_patterns_or_a_function(model, rename, tmp_path) -> None:
    """Patterns are replaced one after the other; a function gives the new name."""
    state = model.state_dict()
    torch.save({other_words(name): torch.full_like(state[name], 2.0) for name in state}, tmp_path / "w.pt")
    models.load_weights(model, tmp_path / "w.pt", rename=rename)
    assert all((value == 2).all() for value in model.state_dict().values())


def test_what_is_skipped_keeps_its_weights(model, tmp_path) -> None:
    """A last layer for other classes stays as it was; the rest is the file's, in the network's precision."""
    other = models.build("mlp(widths=(4,))", input_shape=(3,), num_classes=9).double()
    torch.save(other.state_dict(), tmp_path / "nine.pt")
    before = model.get_parameter("layers.3.weight").detach().clone()
    with pytest.raises(InputError, match=r'of another shape.*skip`, such as \("layers.3",\)'):
        models.load_weights(model, tmp_path / "nine.pt")
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
        (
            lambda state: state.clear(),
            r"4 \(layers.1.weight, layers.1.bias, layers.3.weight, …\) are missing",
        ),
    ],
)
def test_files_that_do_not_fit_are_named_and_change_nothing(model, change, words, tmp_path) -> None:
    """One sentence with the names; the network keeps what it had."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = {name: value + 1 for name, value in before.items()}
    change(state)
    torch.save(state, tmp_path / "w.pt")
    with pytest.raises(InputError, match=words):
        models.load_weights(model, tmp_path / "w.pt")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_two_names_for_one_parameter_are_refused(model, tmp_path) -> None:
    """Which of the two would win is nobody's guess."""
    torch.save(model.state_dict(), tmp_path / "w.pt")
    with pytest.raises(InputError, match="there twice"):
        models.load_weights(model, tmp_path / "w.pt", rename={r"layers\.3\.bias": "layers.1.bias"})
