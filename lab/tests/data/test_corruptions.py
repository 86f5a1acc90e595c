"""The fifteen corruptions: as strong as published, decided by the seed, for images of any size."""

import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from calibrant_lab import data
from calibrant_lab.data.images.corruptions import (
    CORRUPTIONS,
    CorruptedImages,
    constants,
    corrupt,
    moved,
    published_constants,
)
from refusals import refused

PUBLISHED = json.loads(
    (Path(__file__).parents[3] / "tests" / "golden" / "corruptions.json").read_text(encoding="utf-8")
)
GREY = torch.full((1, 1, 32, 32), 128, dtype=torch.uint8)


@pytest.fixture
def images(rng) -> torch.Tensor:
    return torch.from_numpy(rng.integers(0, 256, (4, 3, 32, 32), dtype=np.uint8))


def test_there_are_fifteen_with_five_severities_for_three_sizes() -> None:
    """Every corruption has its constants at 32, 64 and 224 pixels; the nearest size in ratio is taken."""
    assert len(CORRUPTIONS) == 15
    for table in published_constants().values():
        assert set(table) == set(CORRUPTIONS)
        assert all(len(levels) == 5 for levels in table.values())
    chosen = [constants("jpeg-compression", 5, side=side) for side in (28, 45, 46, 64, 119, 120, 512)]
    assert chosen == [40, 40, 25, 25, 25, 7, 7]


def test_the_constants_are_the_published_ones() -> None:
    """All fifteen at five severities, for 32 and for 224 pixels."""
    for side, table in PUBLISHED["constants"].items():
        mine = published_constants()[int(side)]
        assert set(table) == set(mine)
        for name, levels in table.items():
            scale = 224 if name == "elastic-transform" and side == "224" else 1  # pixels there, shares here
            found = scale * np.array(mine[name], dtype=float)
            np.testing.assert_allclose(found, np.array(levels, dtype=float), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("case", PUBLISHED["motion_blur"], ids=lambda case: f"{case['angle']}-degrees")
def test_motion_blur_is_imagemagicks(case) -> None:
    """A white point becomes the line that ImageMagick draws; its bytes are cut off where ours are floats."""
    point = np.zeros((33, 33, 1))
    point[16, 16] = 255
    theirs = np.zeros((33, 33))
    for row, column, value in case["pixels"]:
        theirs[row, column] = value
    mine = moved(point, case["radius"], case["sigma"], angle=case["angle"])[:, :, 0]
    assert np.abs(mine - theirs).max() < 1


@pytest.mark.parametrize("name", list(CORRUPTIONS))
def test_what_happens_is_decided_by_number_and_seed(images, name) -> None:
    """The same whether images are taken together or singly; images do not share their noise."""
    whole = corrupt(images, name, severity=2)
    lazy = CorruptedImages(images, name, severity=2)
    assert torch.equal(lazy[torch.tensor([2])][0], whole[2])
    assert whole.shape == images.shape
    assert whole.dtype == torch.uint8
    assert not torch.equal(whole, images)
    fixed = "defocus-blur zoom-blur brightness contrast pixelate jpeg-compression"
    drawn = name not in fixed.split()
    alike = corrupt(images[:1].expand(2, -1, -1, -1), name, severity=2)
    assert torch.equal(alike[0], alike[1]) != drawn
    assert torch.equal(corrupt(images, name, severity=2, seed=1), whole) != drawn


@pytest.mark.parametrize("name", list(CORRUPTIONS))
@pytest.mark.parametrize("shape", [(1, 1, 28, 28), (1, 3, 40, 56), (1, 1, 130, 120)])
def test_any_size_and_colour(name, shape) -> None:
    image = torch.linspace(0, 255, math.prod(shape)).reshape(shape).to(torch.uint8)
    assert corrupt(image, name, severity=5).shape == shape


@pytest.mark.parametrize("severity", [1, 5])
def test_noise_is_as_strong_as_published(severity) -> None:
    """On 128 of 255: deviation and shares are those of CIFAR-10-C (|z| < 4 at 25 600 values)."""
    many = GREY.expand(25, -1, -1, -1)
    level, count = 128 / 255, 25 * 32 * 32

    def moments(name: str) -> tuple[float, float]:
        found = corrupt(many, name, severity=severity).double() / 255
        return float(found.mean()), float(found.std())

    deviation = {1: 0.04, 5: 0.10}[severity]
    assert abs(moments("gaussian-noise")[1] / deviation - 1) < 4 / math.sqrt(2 * count)
    shot = math.sqrt(level / {1: 500, 5: 50}[severity])
    assert abs(moments("shot-noise")[1] / shot - 1) < 4 / math.sqrt(2 * count) + 1e-3  # cut to bytes
    hit = (corrupt(many, "impulse-noise", severity=severity) != 128).double().mean()
    share = {1: 0.01, 5: 0.07}[severity]
    assert abs(float(hit) - share) < 4 * math.sqrt(share * (1 - share) / count)


def test_tone_is_changed_as_published(images) -> None:
    """Contrast keeps 15 % of the deviation from the mean; brightness adds 0.3 to the largest channel."""
    unit = images.double() / 255
    mean = unit.mean(dim=(2, 3), keepdim=True)
    expected = (0.15 * (unit - mean) + mean) * 255
    assert (corrupt(images, "contrast", severity=5) - expected).abs().max() <= 1
    bright = corrupt(images, "brightness", severity=5).double()
    value = (unit.amax(dim=1) + 0.3).clamp(max=1) * 255
    assert (bright.amax(dim=1) - value).abs().max() <= 1
    assert torch.equal(bright.argmax(dim=1), unit.argmax(dim=1))


def test_pillow_does_what_it_did_for_the_authors(images) -> None:
    """JPEG at quality 40 and boxes of 65 % of the side, to the bit."""
    picture = Image.fromarray(images[0].permute(1, 2, 0).numpy())
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=40)
    boxes = picture.resize((20, 20), Image.Resampling.BOX).resize((32, 32), Image.Resampling.BOX)
    for name, expected in (("jpeg-compression", Image.open(file)), ("pixelate", boxes)):
        found = corrupt(images[:1], name, severity=5)[0].permute(1, 2, 0).numpy()
        np.testing.assert_array_equal(found, np.asarray(expected))


def test_blurs_spread_a_point_as_far_as_published() -> None:
    """A white point becomes a disk of radius 1.5, and a zoom leaves grey as it is."""
    point = torch.zeros((1, 1, 32, 32), dtype=torch.uint8)
    point[0, 0, 16, 16] = 255
    disk = corrupt(point, "defocus-blur", severity=5)[0, 0]
    assert torch.equal(disk.nonzero().amin(0), torch.tensor([15, 15]))
    assert int((disk > 0).sum()) == 9  # the pixels within 1.5 of the middle
    flat = corrupt(GREY, "zoom-blur", severity=5)
    assert torch.equal(flat, GREY)


def test_glass_copies_near_pixels(images) -> None:
    """Without its blurs, glass only takes values from at most 1 pixel away, and the border stays."""
    image = np.arange(32 * 32, dtype=float).reshape(32, 32, 1) / 1023
    found = CORRUPTIONS["glass-blur"](image, (1e-6, 1, 1), np.random.default_rng(0))
    source = np.rint(np.floor(image * 255)) / 255
    assert np.array_equal(found[:2], source[:2])
    assert (found != source).mean() > 0.2


def test_what_cannot_be_corrupted_is_named() -> None:
    refused(r"1 or 3 channels .* \(7,\)", corrupt, torch.zeros(4, 7), "fog", severity=1)
    refused(r"must be between 0 and 1", corrupt, torch.full((1, 1, 4, 4), 1.5), "fog", severity=1)
    refused("no corruption 'frog'; did you mean 'fog'", corrupt, GREY, "frog", severity=1)
    refused("`severity` must be", corrupt, GREY, "fog", severity=6)


def test_lazy_images_are_corrupted_as_decoded_ones(images) -> None:
    whole = corrupt(images, "snow", severity=3)
    assert torch.equal(corrupt(images / 255, "snow", severity=3), whole)
    lazy = data.lazy.StoredImages(images)
    assert torch.equal(CorruptedImages(lazy, "snow", severity=3)[:], whole)
