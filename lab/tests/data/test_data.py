"""Reading data, cutting it into splits, preparing and augmenting it."""

import numpy as np
import pytest
import torch
from PIL import Image

from calibrant_lab import data
from calibrant_lab.data.table import to_unit
from refusals import not_loaded, refused


def save(path, **arrays) -> str:
    np.savez(path, **arrays)
    return str(path)


@pytest.fixture
def pixels(rng) -> dict[str, np.ndarray]:
    """Images of three classes, 20 of each, with the number of the image in its first pixel."""
    images = rng.integers(0, 255, (60, 6, 4), dtype=np.uint8)
    images[:, 0, 0] = np.arange(60)
    return {"x_train": images, "y_train": np.repeat([0, 1, 2], 20)}


def numbers(part: data.Part) -> set[int]:
    return set(part.inputs[:, 0, 0, 0].tolist())


def test_splits_are_stratified_disjoint_and_complete(tmp_path, pixels) -> None:
    """Every sample is in one split, and every class has its share to within one."""
    raw = data.load(save(tmp_path / "a.npz", **pixels))
    found = data.split(raw, test=0.25, calibration=9, policy=7, seed=3)
    parts = [numbers(part) for part in found.parts.values()]
    assert [len(part) for part in parts] == [29, 9, 7, 15]
    assert set().union(*parts) == set(range(60))
    assert sum(map(len, parts)) == 60
    for part in found.parts.values():
        counts = torch.bincount(part.labels, minlength=3)
        assert counts.max() - counts.min() <= 1
        assert torch.equal(part.labels, torch.tensor([int(n) // 20 for n in part.inputs[:, 0, 0, 0]]))


def test_the_seed_alone_decides_the_split(tmp_path, pixels) -> None:
    raw = data.load(save(tmp_path / "a.npz", **pixels))
    first, again, other = (data.split(raw, seed=seed) for seed in (1, 1, 2))
    assert first.sha256() == again.sha256() != other.sha256()
    assert numbers(first.test) == numbers(again.test) != numbers(other.test)


def test_given_splits_are_kept(tmp_path, pixels) -> None:
    """Validation and test data of a file stay what they are, and training loses nothing."""
    more = {"x_val": pixels["x_train"][:9], "y_val": pixels["y_train"][:9]}
    more |= {"x_test": pixels["x_train"][50:], "y_test": pixels["y_train"][50:]}
    found = data.split(data.load(save(tmp_path / "a.npz", **pixels, **more)))
    assert numbers(found.calibration) == set(range(9))
    assert numbers(found.test) == set(range(50, 60))
    assert len(found.train) == 60


def test_a_long_tail_thins_the_later_classes(tmp_path, pixels) -> None:
    """With a ratio of 4 the three classes keep 1, 1/2 and 1/4 of the first one's samples."""
    raw = data.load(save(tmp_path / "a.npz", **pixels))
    found = data.split(raw, test=15, calibration=9, imbalance=4)
    assert torch.bincount(found.train.labels).tolist() == [12, 6, 3]


def test_images_get_their_channels_first(tmp_path, rng) -> None:
    """``(N, H, W, C)`` becomes ``(N, C, H, W)``, ``(N, H, W)`` one channel, features stay."""
    images = rng.integers(0, 255, (30, 5, 4, 3), dtype=np.uint8)
    labels = np.arange(30) % 2
    raw = data.load(save(tmp_path / "a.npz", x_train=images, y_train=labels))
    part = raw.train.rows(torch.arange(30))
    assert part.inputs.dtype == torch.uint8
    np.testing.assert_array_equal(part.inputs.numpy(), images.transpose(0, 3, 1, 2))
    features = data.load(save(tmp_path / "b.npz", x_train=images[:, :, 0, 0].astype(float), y_train=labels))
    assert data.split(features).input_shape == (5,)


def test_folders_of_images_are_read(tmp_path, rng) -> None:
    for split, count in (("train", 12), ("test", 3)):
        for kind in ("cat", "ant"):
            (tmp_path / split / kind).mkdir(parents=True)
            for place in range(count):
                pixels = rng.integers(0, 255, (7, 5), dtype=np.uint8)
                pixels[0, 0] = 200 if kind == "cat" else 10
                Image.fromarray(pixels).save(tmp_path / split / kind / f"{place:02}.png")
    found = data.split(data.load(str(tmp_path)), calibration=4)
    assert found.class_names == ("ant", "cat")
    assert (len(found.train), len(found.calibration), len(found.test)) == (20, 4, 6)
    assert found.input_shape == (1, 7, 5)
    assert torch.equal(found.test.inputs[:, 0, 0, 0] > 100, found.test.labels == 1)
    Image.fromarray(np.zeros((3, 3), dtype=np.uint8)).save(tmp_path / "train" / "cat" / "zz.png")
    not_loaded(r"must all have the same size: 00.png has 5 × 7 pixels, zz.png has 3 × 3", tmp_path)


def test_downsampling_averages_squares() -> None:
    raw = data.load("digits")
    whole, half = data.split(raw), data.split(raw, downsample=2)
    assert half.input_shape == (1, 4, 4)
    expected = whole.test.inputs.reshape(-1, 1, 4, 2, 4, 2).mean(dim=(3, 5))
    torch.testing.assert_close(half.test.inputs, expected, rtol=0, atol=1e-6)


def test_preparation_standardises_what_it_was_fitted_on(rng) -> None:
    """Bytes come out with mean 0 and deviation 1 per channel; a constant channel stays finite."""
    images = torch.from_numpy(rng.integers(0, 255, (500, 3, 4, 4), dtype=np.uint8))
    images[:, 2] = 7
    prepared = data.Preparation.fitted(images)(to_unit(images))
    torch.testing.assert_close(prepared.mean(dim=(0, 2, 3)), torch.zeros(3), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        prepared.std(dim=(0, 2, 3), correction=0), torch.tensor([1.0, 1.0, 0.0]), rtol=0, atol=1e-5
    )


def test_crops_are_windows_of_the_padded_image(rng) -> None:
    images = torch.from_numpy(rng.random((20, 3, 6, 5))).float()
    crop = data.Crop(padding=2)
    drawn = crop.draw(20, torch.Generator().manual_seed(0))
    cropped, padded = crop.apply(images, drawn), torch.nn.functional.pad(images, (2, 2, 2, 2))
    assert drawn.min() == 0
    assert drawn.max() == 4
    for place, (down, right) in enumerate(drawn.tolist()):
        assert torch.equal(cropped[place], padded[place, :, down : down + 6, right : right + 5])


def test_a_share_of_the_batch_is_augmented_as_in_the_whole(rng) -> None:
    """Several processes, each with its rows of what was drawn, make the batch that one would."""
    images = torch.from_numpy(rng.random((9, 1, 4, 4))).float()
    for augmentation in data.build_augmentation(["crop(padding=1)", "flip"], (1, 4, 4)):
        drawn = augmentation.draw(9, torch.Generator().manual_seed(1))
        whole = augmentation.apply(images, drawn)
        assert not torch.equal(whole, images)
        assert torch.equal(augmentation.apply(images[1::2], drawn[1::2]), whole[1::2])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"calibration": 0}, "`calibration`"),
        ({"test": 2000}, "`test`"),
        ({"calibration": 1.5}, "whole number"),
        ({"train": 5000}, "`train`"),
        ({"imbalance": 0.5}, "`imbalance`"),
        ({"downsample": 3}, "`downsample`"),
        ({"calibration": 1}, "at least two samples"),
    ],
)
def test_sizes_out_of_range_are_named(settings, words) -> None:
    refused(words, data.split, data.load("digits"), **settings)


def test_unknown_data_are_named(monkeypatch, tmp_path) -> None:
    """The nearest name is offered, and where real sets would have to be is said."""
    not_loaded("did you mean 'digits'", "digts")
    not_loaded("data set 'svhn' has no setting 'more'; choose 'extra'", "svhn(more=1)", tmp_path)
    monkeypatch.delenv("CALIBRANT_DATA", raising=False)
    monkeypatch.setenv("CALIBRANT_CACHE", str(tmp_path))
    not_loaded(r"set CALIBRANT_DATA .* can be downloaded from .* not while offline", "mnist")
    not_loaded("no such file", "pneumoniamnist", tmp_path)
    refused("no augmentation 'flop'", data.build_augmentation, ["flop"], (1, 4, 4))
    (tmp_path / "a.npz").write_bytes(b"nonsense")
    not_loaded(r"cannot be read as \.npz", tmp_path / "a.npz")


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("name", "shape", "sizes", "mean"),
    [
        ("fashion_mnist", (1, 28, 28), (54000, 6000, 10000), [0.2860]),
        ("mnist", (1, 28, 28), (54000, 6000, 10000), [0.1307]),
        ("pneumoniamnist", (1, 28, 28), (3882, 524, 624), None),
        ("notmnist_ood", (1, 28, 28), (7200, 800, 2000), None),
    ],
)
def test_real_sets_are_what_they_are_known_to_be(data_folder, name, shape, sizes, mean) -> None:
    """Sizes, and mean pixels as published (to the 1e-3 by which a stratified part may differ)."""
    found = data.split(data.load(name, folder=data_folder))
    assert found.input_shape == shape
    assert (len(found.train), len(found.calibration), len(found.test)) == sizes
    if mean is not None:
        assert data.Preparation.fitted(found.train.inputs).mean.tolist() == pytest.approx(mean, abs=1e-3)


@pytest.mark.real_data
def test_a_slice_of_cifar10_is_decoded(data_folder) -> None:
    """Only the chosen images are decoded; channel means are CIFAR-10's, to two standard errors of 500."""
    raw = data.load("cifar10_jpeg", folder=data_folder)
    part = raw.train.rows(torch.arange(500))
    assert part.inputs.shape == (500, 3, 32, 32)
    assert part.inputs.dtype == torch.uint8
    mean = data.Preparation.fitted(part.inputs).mean
    assert mean.tolist() == pytest.approx([0.4914, 0.4822, 0.4465], abs=0.02)


def test_a_factory_of_your_own(tmp_path, monkeypatch) -> None:
    """It gives what a file with its arrays gives, be it as tensors or :class:`RawData`."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "my_own_data.py").write_text(
        "import numpy as np\n"
        "import torch\n"
        "from calibrant_lab import data\n"
        "def arrays(count=8):\n"
        "    labels = torch.arange(count) % 2\n"
        "    return {'x_train': np.ones((count, 2)), 'y_train': labels, 'class_names': ['a', 'b']}\n"
        "def raw():\n    return data.load('my_own_data:arrays')\n"
        "def nothing():\n    return [1]\n"
        "def partial():\n    return {'x_train': np.ones((2, 2))}\n"
    )
    np.savez(tmp_path / "file.npz", x_train=np.ones((6, 2)), y_train=np.arange(6) % 2, class_names=["a", "b"])
    found, filed = data.load("my_own_data:arrays(count=6)"), data.load(str(tmp_path / "file.npz"))
    assert found.name == "my_own_data:arrays(count=6)"
    assert found.class_names == filed.class_names == ("a", "b")
    assert torch.equal(found.train.inputs, filed.train.inputs)
    assert torch.equal(found.train.labels, filed.train.labels)
    assert len(data.load("my_own_data:raw").train) == 8
    for name, words in (
        ("nothing", "must give RawData, or a dictionary with x_train and y_train; got list"),
        ("partial", "my_own_data:partial has 'x_train' but no labels 'y_train'"),
        ("array", "my_own_data has no function 'array'; did you mean 'arrays'"),
    ):
        not_loaded(words, f"my_own_data:{name}")
