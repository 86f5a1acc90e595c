"""``calibrant predict``: any network on any data set."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from calibrant._math.errors import InputError
from calibrant.predictions import load_predictions
from calibrant_lab import data
from calibrant_lab.training.prediction import predict
from command_line import call, one_line

FACTORIES = """
import torch
from torch import nn


def bright(input_shape, num_classes):
    channels, height, width = input_shape
    network = nn.Sequential(nn.Flatten(), nn.Linear(channels * height * width, num_classes))
    with torch.no_grad():
        network[1].weight.fill_(1.0)
        network[1].weight[0] = 0.0
        network[1].bias.zero_()
    return network


def wide():
    return nn.Sequential(nn.Flatten(), nn.LazyLinear(7))
"""


@pytest.fixture
def folder(tmp_path, rng, monkeypatch):
    """Images of two classes, dark and light, of 12 × 8 pixels, and a module of factories."""
    for kind, level in (("dark", 20), ("light", 220)):
        (tmp_path / "images" / kind).mkdir(parents=True)
        for number in range(10):
            pixels = np.clip(level + rng.integers(-9, 9, (12, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "images" / kind / f"{number}.png")
    (tmp_path / "factories_of_test.py").write_text(FACTORIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("factories_of_test", None)


def test_a_folder_of_images_is_predicted(folder) -> None:
    """Size, mean and deviation are applied; the share for calibration is marked; classes are the folders."""
    options = "--size 4 --calibration-size 0.25 --mean 0.5,0.5,0.5 --std 0.5,0.5,0.25 --batch-size 7"
    command = f"predict factories_of_test:bright images -o p.npz {options} --device cpu"
    done = call(*command.split(), folder=folder)
    assert done.returncode == 0, done.stderr
    assert "20 samples, 5 of them for calibration; 2 classes" in done.stdout
    found = load_predictions(folder / "p.npz")
    assert found.class_names == ("dark", "light")
    assert (found.calibration.num_samples, found.test.num_samples) == (5, 15)
    assert bool((found.scores.argmax(1) == found.labels).all())
    inputs = data.load(str(folder / "images"), geometry=data.Geometry(size=4)).train.inputs[torch.arange(20)]
    unit = (inputs / 255 - 0.5) / torch.tensor([0.5, 0.5, 0.25])[:, None, None]
    mine, theirs = unit.sum(dim=(1, 2, 3)).sort().values, found.scores[:, 1].float().sort().values
    torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-3)


def test_weights_are_loaded_by_name(folder) -> None:
    weights = {"1.weight": torch.zeros(2, 288), "1.bias": torch.tensor([3.0, -3.0])}
    torch.save(weights, folder / "w.pt")
    options = "-o p.npz --weights w.pt --calibration-size 0 -q"
    done = call("predict", "factories_of_test:bright", "images", *options.split(), folder=folder)
    assert done.returncode == 0, done.stderr
    found = load_predictions(folder / "p.npz")
    assert found.split is None
    assert found.scores.unique(dim=0).tolist() == [[3.0, -3.0]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("wide images", "one logit for each of the 2 classes of images; it gives shape (20, 7)"),
        ("bright images --mean 0.5", "--mean and --std go together"),
        ("bright images --mean a --std b", "--mean must be numbers"),
        ("bright images --device abacus", "the device 'abacus' cannot be used"),
        ("bright images --split test", "must name a split of images (train) or all"),
        ("bright image", "there is no data set 'image'"),
        ("bright images --crop 10", "--crop must be at most the shorter side"),
        ("bright images --channels 2", "--channels must be 1, 3, or 0"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(folder, arguments, words) -> None:
    done = call("predict", *f"factories_of_test:{arguments} -o p.npz".split(), folder=folder)
    assert done.returncode == 2
    assert words in one_line(done.stderr)
    assert one_line(done.stderr).count("\n") == 1
    assert not (folder / "p.npz").exists()


class Table(nn.Module):
    """Gives stored logits in turn, as an object that holds them."""

    def __init__(self, logits: torch.Tensor) -> None:
        super().__init__()
        self.rows, self.place = logits, 0

    def forward(self, inputs: torch.Tensor) -> dict[str, torch.Tensor]:
        self.place += len(inputs)
        return {"logits": self.rows[self.place - len(inputs) : self.place]}


def raw(rng, *, splits: tuple[str, ...], labels: torch.Tensor, groups: bool = False) -> data.RawData:
    """Features with the number of the sample in them."""
    numbers = torch.arange(len(labels))
    pairs = numbers // 2 if groups else None
    part = data.table.Part(inputs=numbers.float()[:, None], labels=labels, groups=pairs)
    names = tuple("abc")[: 3 if labels.ndim == 1 else labels.shape[1]]
    return data.RawData(name="set", class_names=names, **dict.fromkeys(splits, part))


@pytest.mark.parametrize(
    ("splits", "split", "sizes"),
    [
        (("train",), None, (6, 24)),
        (("train", "test"), None, (6, 24)),
        (("train", "calibration", "test"), None, (30, 30)),
        (("train", "calibration", "test"), "all", (30, 60)),
        (("train", "calibration", "test"), "calibration", (6, 24)),
        (("train", "test"), "train", (6, 24)),
    ],
)
def test_calibration_samples_are_the_datas_own_or_set_apart(rng, splits, split, sizes) -> None:
    """A split of that name is marked; else a share of the samples asked for, never of others."""
    made = raw(rng, splits=splits, labels=torch.arange(30) % 3)
    found = predict(Table(torch.randn(90, 3)), made, split=split, batch_size=7)
    assert (found.calibration.num_samples, found.test.num_samples) == sizes
    assert found.labels.tolist() == [0, 1, 2] * (found.num_samples // 3)  # in the order of the data


def test_patients_and_labels_of_several_kinds_are_kept(rng) -> None:
    """Groups stay together and are written; a matrix of labels is multilabel; one column is an event."""
    many = torch.randint(0, 2, (30, 3), generator=torch.Generator().manual_seed(0))
    made = raw(rng, splits=("train",), labels=many, groups=True)
    found = predict(Table(torch.randn(30, 3)), made)
    assert found.kind == "multilabel"
    assert found.groups is None
    one, other = (set(part.clusters) for part in (found.calibration, found.test))
    assert not one & other
    assert len(one | other) == 15
    event = replace(made, class_names=("no", "yes"), train=replace(made.train, labels=many[:, 0]))
    network = Table(torch.randn(30, 1))
    assert predict(network, event, calibration=0).scores.shape == (30,)
    network.forward = lambda _inputs: {}
    with pytest.raises(InputError, match="it gives a NoneType"):
        predict(network, event)
