"""Grad-CAM against a computation by hand, the layer that is chosen, and the files of a run."""

import base64
import json
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from calibrant_lab import models
from calibrant_lab.training import Recipe, heat_maps, load_run, train
from command_line import call
from refusals import refused


@pytest.fixture
def tiny() -> nn.Sequential:
    """Two maps, their means, and a linear layer."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2, 3)
    ).double()


def test_grad_cam_by_hand(tiny) -> None:
    """Behind a mean over the cells the weight of a map is that of the linear layer by their number."""
    images = torch.rand(2, 1, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    maps = tiny[1](tiny[0](images)).detach()  # (2, 2, 3, 3)
    weights = tiny[4].weight.detach() / 9
    for label in range(3):
        by_hand = (weights[label][None, :, None, None] * maps).sum(dim=1).clamp(min=0)
        wide = nn.functional.interpolate(by_hand[:, None], (4, 4), mode="bilinear", align_corners=False)
        found = heat_maps.grad_cam(tiny, images, [label, label], layer=tiny[1])
        assert torch.allclose(found, wide[:, 0], rtol=0, atol=1e-12)
        pairs = heat_maps.grad_cam(tiny, images, [label, (label + 1) % 3], layer=tiny[1])
        assert torch.allclose(pairs[0], wide[0, 0], rtol=0, atol=1e-12)


def test_the_last_maps_before_they_are_pooled_are_chosen(tiny) -> None:
    """The activation after the last convolution; of a DenseNet all channels; none without convolutions."""
    assert heat_maps.last_maps(tiny, torch.zeros(1, 1, 4, 4, dtype=torch.float64)) == "1"
    dense = models.build("densenet(growth=2)", input_shape=(1, 32, 32), num_classes=2).eval()
    name = heat_maps.last_maps(dense, torch.zeros(1, 1, 32, 32))
    assert isinstance(dict(dense.named_modules())[name], nn.ReLU)
    assert name.startswith("pool")
    padded = nn.Conv2d(1, 2, 3)
    padded.padding_layer = nn.Identity()  # as networks made for TensorFlow's padding have it
    assert heat_maps.last_maps(nn.Sequential(padded, nn.Flatten()), torch.zeros(1, 1, 4, 4)) == "0"
    refused("networks with convolutions", heat_maps.last_maps, nn.Flatten(), torch.zeros(1, 1, 4, 4))


@pytest.fixture
def xrays(quick, tmp_path, rng) -> Recipe:
    """Small images of two classes on file, of which the network sees squares; one epoch."""
    images = rng.integers(0, 256, (40, 8, 8), dtype=np.uint8)
    names = np.array(["no finding", "mass"])
    np.savez(tmp_path / "a.npz", x_train=images, y_train=np.arange(40) % 2, class_names=names)
    small = ["model=cnn(width=2, hidden=4)", f"data.name={tmp_path / 'a.npz'}", "data.calibration=10"]
    return quick.with_settings([*small, "data.crop=6", "data.normalise=none"])


def test_heat_maps_of_a_run_are_files(tmp_path, xrays) -> None:
    """Image, map and overlay as PNG, named by image and class; the image is what the network sees."""
    with np.load(tmp_path / "a.npz") as archive:
        images = archive["x_train"]
    run = train(xrays, tmp_path / "run", report=False)
    done = call("heatmap", "run", "--samples", "2", "--label", "mass", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "run" / "heat-maps"
    files = sorted(file.name for file in folder.glob("*.png"))
    assert [file.rpartition("-")[2] for file in files] == ["image.png", "map.png", "overlay.png"] * 2
    assert all("-mass-" in file for file in files)
    shown = np.asarray(Image.open(tmp_path / "run" / "heat-maps" / files[0]))[:, :, 0]
    assert any(np.array_equal(shown, image[1:7, 1:7]) for image in images[1::2])
    heat = np.asarray(Image.open(tmp_path / "run" / "heat-maps" / files[1]))
    assert heat.shape == (6, 6)
    _, both = heat_maps.heat_maps(run, samples=30)
    assert len(both) == 8  # all test images
    section = heat_maps.heat_map_section(run.folder.path)
    assert [(each.caption[:6], each.note) for each in section.pictures] == [("mass, ", "labelled mass")] * 2
    for file, kind in ((files[0], "image"), (files[2], "overlay")):
        content = base64.b64encode((folder / file).read_bytes()).decode("ascii")
        assert content in str(section.pictures[0].svg), kind
    for settings, message in (
        ({"label": "nodule"}, "there is no class 'nodule'"),
        ({"layer": "nowhere"}, "has no layer 'nowhere'"),
    ):
        refused(message, heat_maps.heat_maps, load_run(tmp_path / "run"), samples=2, **settings)


def test_heat_maps_that_were_stopped_leave_their_mark(tmp_path) -> None:
    """So that the command may begin again in its folder; a report shows no maps of it."""

    class Stopped:
        def save(self, _folder) -> None:
            raise KeyboardInterrupt("stopped")

    with pytest.raises(KeyboardInterrupt, match="stopped"):
        heat_maps.write_heat_maps(tmp_path / "heat-maps", "1", [Stopped()])
    assert [path.name for path in (tmp_path / "heat-maps").iterdir()] == ["heat-maps.json"]
    assert heat_maps.heat_map_section(tmp_path) is None


@pytest.mark.usefixtures("short_reports")
def test_a_recipe_asks_for_heat_maps(tmp_path, xrays, monkeypatch) -> None:
    """They are there when the run is finished; without captum the report says how to get them."""
    run = train(xrays.with_settings(["evaluation.heat_maps=3"]), tmp_path / "run")
    content = json.loads((tmp_path / "run" / "heat-maps" / "heat-maps.json").read_text(encoding="utf-8"))
    assert len(content["maps"]) == 3
    section = heat_maps.heat_map_section(tmp_path / "run")
    assert "layer" in section.note
    monkeypatch.setitem(sys.modules, "captum.attr", None)
    assert (
        "pip install 'calibrant[heat-maps]'"
        in heat_maps.heat_map_facts(run, heat_maps.data_of(run))["heat maps"]
    )
