"""Images that are decoded when they are chosen, or ahead of it: the same pixels, in bounded memory."""

import pickle
import threading

import numpy as np
import pytest
import torch
from PIL import Image

from calibrant._math.errors import InputError
from calibrant_lab import data
from calibrant_lab.data.lazy import AHEAD, Plan, StoredImages, in_turn
from refusals import not_loaded, refused


@pytest.fixture
def folder(tmp_path, rng):
    """Coloured images of two classes and of differing sizes."""
    for kind in ("ant", "cat"):
        (tmp_path / kind).mkdir()
        for number in range(6):
            pixels = rng.integers(0, 256, (8 + number, 10, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / kind / f"{number}.png")
    return tmp_path


def test_lazy_and_resident_images_are_the_same(folder) -> None:
    """Whether a split fits into the memory that it may take decides when it is decoded, and nothing else."""
    raw = data.load(str(folder), geometry=data.Geometry(size=6))
    resident, lazy = (data.split(raw, memory=memory, test=4, calibration=2) for memory in (10**9, 0))
    assert isinstance(resident.train.inputs, torch.Tensor)
    for name, part in lazy.parts.items():
        assert isinstance(part.inputs, data.LazyImages)
        assert torch.equal(part.inputs[:], resident.parts[name].inputs)
        assert torch.equal(part.inputs[torch.tensor([1, 0])], resident.parts[name].inputs[[1, 0]])
    assert torch.equal(pickle.loads(pickle.dumps(lazy.test.inputs))[1], resident.test.inputs[1])
    prepared = data.Preparation.fitted(lazy.train.inputs).mean
    torch.testing.assert_close(prepared, data.Preparation.fitted(resident.train.inputs).mean)


def test_the_fingerprint_of_lazy_images_tells_sets_apart(folder) -> None:
    """Another size, another seed or another file give another fingerprint; the same set the same."""

    def fingerprint(size: int = 6, seed: int = 0) -> str:
        raw = data.load(str(folder), geometry=data.Geometry(size=size))
        return data.split(raw, memory=0, seed=seed, test=4, calibration=2).sha256()

    first = fingerprint()
    assert first == fingerprint()
    assert len({first, fingerprint(size=5), fingerprint(seed=1)}) == 3
    Image.fromarray(np.zeros((40, 50, 3), np.uint8)).save(folder / "ant" / "0.png")
    assert fingerprint() != first


def test_sixteen_bits_keep_their_shades(tmp_path) -> None:
    for kind in ("ant", "cat"):
        (tmp_path / kind).mkdir()
        for number in range(2):
            levels = (np.arange(16, dtype=np.uint16) * 4096 + number).reshape(4, 4)
            Image.fromarray(levels).save(tmp_path / kind / f"{number}.png")
    images = data.load(str(tmp_path)).train.inputs
    np.testing.assert_array_equal(np.asarray(images[0]).ravel(), np.arange(16) * 16)


def test_geometry_is_pillows(rng) -> None:
    pixels = rng.integers(0, 256, (2, 3, 20, 30), dtype=np.uint8)
    images = StoredImages(
        torch.from_numpy(pixels), geometry=data.Geometry(resize=10, crop=8, size=4, channels=1)
    )
    image = Image.fromarray(pixels[1].transpose(1, 2, 0)).convert("L")
    expected = image.resize((15, 10), Image.Resampling.BILINEAR).crop((3, 1, 11, 9))
    expected = np.asarray(expected.resize((4, 4), Image.Resampling.BILINEAR))
    assert images.shape == (2, 1, 4, 4)
    np.testing.assert_array_equal(images[1][0].numpy(), expected)


def test_what_cannot_be_decoded_is_named(folder) -> None:
    not_loaded(r"0.png has 10 × 8 pixels, 1.png has 10 × 9; scale them with data.size", folder)
    crop = data.Geometry(crop=9)
    not_loaded("`crop` must be at most the shorter side of the images, 8; got 9", folder, geometry=crop)
    refused("`size` must be 0 or more; got -1", data.Geometry, size=-1)
    not_loaded("only images of bytes can be scaled", "digits", geometry=data.Geometry(size=4))
    file = folder / "cat" / "3.png"
    file.write_bytes(file.read_bytes()[:-40])
    refused(r"3.png cannot be decoded", data.split, data.load(str(folder), geometry=data.Geometry(size=4)))


def test_many_images_are_decoded_by_threads(monkeypatch, rng) -> None:
    pixels = torch.from_numpy(rng.integers(0, 256, (50, 1, 5, 5), dtype=np.uint8))
    monkeypatch.setattr("calibrant_lab.data.lazy.available_cores", lambda: 3)
    assert torch.equal(StoredImages(pixels)[:], pixels)


class Counted(StoredImages):
    """Counts what was decoded, and by whom; one image may be damaged."""

    damaged = -1

    def one(self, row: int):
        self.seen = [*getattr(self, "seen", []), (row, threading.current_thread())]
        if row == self.damaged:
            raise InputError(f"image {row} cannot be decoded.")
        return super().one(row)


@pytest.fixture
def pixels(rng) -> torch.Tensor:
    return torch.arange(20, dtype=torch.uint8).reshape(20, 1, 1, 1)


def test_batches_come_in_order_and_few_ahead(pixels) -> None:
    """The same batches as from a tensor, decoded elsewhere, no more than a few before they are used."""
    batches = list(torch.randperm(20, generator=torch.Generator().manual_seed(0)).split(2))
    lazy = Counted(pixels)
    stream = in_turn(lazy, batches)
    first = next(stream)
    rest = list(stream)
    assert torch.equal(torch.cat([first, *rest]), torch.cat(list(in_turn(pixels, batches))))
    assert all(thread is not threading.main_thread() for _, thread in lazy.seen)
    some = Counted(pixels)
    begun = in_turn(some, batches)
    next(begun)
    begun.close()
    assert len(getattr(some, "seen", [])) <= 2 * (AHEAD + 1)


def test_errors_reach_the_one_who_asks(pixels) -> None:
    """A damaged image is told when its batch is due, and the batches before it come."""
    lazy = Counted(pixels)
    lazy.damaged = 5
    stream = in_turn(lazy, list(torch.arange(20).split(4)))
    assert len(next(stream)) == 4
    refused("image 5 cannot be decoded", next, stream)


def test_a_plan_is_kept_where_it_fits(pixels) -> None:
    lazy = Counted(pixels)
    batches = list(torch.arange(20).split(5))
    plan = Plan(lazy, batches)
    assert torch.equal(plan.take(batches[0]), pixels[:5])
    assert torch.equal(plan.take(torch.tensor([19, 3])), pixels[[19, 3]])
    assert torch.equal(torch.cat([plan.take(rows) for rows in batches[1:]]), pixels[5:])
    assert torch.equal(plan.take(batches[0]), pixels[:5])
    rows = [row for row, _ in lazy.seen]
    assert sorted(rows) == sorted([*range(20), 19, 3, *range(5)])
