"""What the network sees of an image: random squares in training, ten squares when it is judged."""

import numpy as np
import pytest
import torch
from torch import nn

from calibrant_lab.data import build_augmentation
from calibrant_lab.training import Recipe, train
from calibrant_lab.training.samples import averaged, middle, ten_crops
from refusals import refused

pytestmark = pytest.mark.usefixtures("short_reports")


def means(input_shape: tuple[int, ...], num_classes: int) -> nn.Module:
    """A network whose logits are the first pixel of what it sees, times 0, 3 and 6."""

    class Means(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            assert input_shape == (1, 3, 3)
            self.bias = nn.Parameter(torch.zeros(num_classes))

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            assert inputs.shape[1:] == input_shape
            return inputs[:, 0, :1, 0] * torch.arange(num_classes) * 3 + 0 * self.bias

    return Means()


def test_ten_crops_are_corners_middle_and_mirrors() -> None:
    """Each is a window of the image or its mirror image, and no two are alike."""
    image = torch.arange(20.0).reshape(1, 1, 4, 5)
    views = list(ten_crops(image, 2))
    assert [view[0, 0].flatten().tolist() for view in views[:5]] == [
        [0, 1, 5, 6], [3, 4, 8, 9], [10, 11, 15, 16], [13, 14, 18, 19], [7, 8, 12, 13],
    ]  # fmt: skip
    assert all(torch.equal(view.flip(3), other) for view, other in zip(views[:5], views[5:], strict=True))
    assert torch.equal(middle(image, 2), views[4])
    assert torch.equal(middle(image, 0), image)


def test_probabilities_are_averaged_and_not_logits() -> None:
    views = torch.randn(10, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 5
    labels, classes = (averaged(list(views), multilabel=several) for several in (True, False))
    assert torch.allclose(labels.sigmoid(), views.sigmoid().mean(dim=0), rtol=1e-12)
    assert torch.allclose(classes.softmax(dim=1), views.softmax(dim=2).mean(dim=0), rtol=1e-12)
    assert not torch.allclose(labels, views.mean(dim=0), atol=0.1)
    far = averaged([torch.tensor([[-200.0, 200.0]])] * 2, multilabel=True)
    assert far.tolist() == [[-200.0, 200.0]]


@pytest.mark.parametrize("several", [True, False])
def test_ten_crops_are_averaged_before_anything_is_stored(quick, tmp_path, rng, several) -> None:
    """The file holds the logits of the mean probabilities over ten views of each image."""
    images = rng.integers(0, 256, (40, 4, 4), dtype=np.uint8)
    labels = rng.integers(0, 2, (40, 3)) if several else rng.integers(0, 3, 40)
    np.savez(tmp_path / "a.npz", x_train=images, y_train=labels)
    loss = "multilabel-focal(gamma=0)" if several else "cross-entropy"
    data = [f"data.name={tmp_path / 'a.npz'}", "data.crop=3", "data.normalise=none", "data.calibration=10"]
    judged = ["evaluation.views=ten-crop", "evaluation.batch_size=3"]
    recipe = quick.with_settings([f"model={__name__}:means", f"loss={loss}", *data, *judged])
    predictions = train(recipe, tmp_path / "run", report=False).predictions
    pixels = torch.from_numpy(images).double() / 255
    corners = ((0, 0), (0, 1), (1, 0), (1, 1), (0, 0), (0, 2), (0, 3), (1, 2), (1, 3), (0, 2))
    seen = torch.stack([pixels[:, row, column] for row, column in corners])  # the last five are mirrored
    views = seen[:, :, None] * torch.arange(3) * 3  # (10, 40, 3)
    probs = views.sigmoid().mean(dim=0) if several else views.softmax(dim=2).mean(dim=0)
    found = predictions.scores.double()
    found = found.sigmoid() if several else found.softmax(dim=1)
    distances = (found[:, None] - probs[None]).abs().amax(dim=2)  # (18, 40)
    assert float(distances.min(dim=1).values.max()) < 1e-6
    assert len(set(distances.argmin(dim=1).tolist())) == len(found)


def test_random_squares_are_shares_of_the_image(rng) -> None:
    """A resized crop of all is the image; shares and shapes keep their bounds; windows are windows."""
    images = torch.from_numpy(rng.random((6, 1, 8, 8), dtype=np.float32))
    (whole,) = build_augmentation(["resized-crop(area=(1.0, 1.0))"], (1, 8, 8), side=8)
    drawn = torch.full((6, 40), 2**23)  # shape 1 : 1
    assert torch.allclose(whole.apply(images, drawn), images)
    flip, window = build_augmentation(["flip"], (1, 8, 8), side=5)
    drawn = window.draw(6, torch.Generator().manual_seed(0))
    cut = window.apply(images, drawn)
    windows = images.unfold(2, 5, 1).unfold(3, 5, 1).reshape(6, 16, 5, 5)
    assert bool((windows == cut).all(dim=(2, 3)).any(dim=1).all())
    assert torch.equal(window.apply(images[::2], drawn[::2]), cut[::2])
    assert type(flip).__name__ == "Flip"
    (crop,) = build_augmentation(["resized-crop"], (1, 8, 8), side=4)
    numbers = torch.rand(200, 4, generator=torch.Generator().manual_seed(1)).tolist()
    for number in numbers:
        top, left, high, wide = crop._rectangle([number] * 10, 90, 120)
        assert 0 <= top <= 90 - high
        assert 0 <= left <= 120 - wide
        if (top, left, high, wide) != (0, 0, 90, 120):
            assert 0.07 < high * wide / (90 * 120) <= 1.0
            assert 0.7 < wide / high < 1.4


def test_squares_need_images_that_are_large_enough(tmp_path) -> None:
    refused(r"ten-crop needs `data\.crop`", Recipe.read, {"evaluation": {"views": "ten-crop"}})
    refused(r"resized-crop needs data\.crop", build_augmentation, ["resized-crop"], (1, 8, 8))
    refused(
        "`area` must be two shares", build_augmentation, ["resized-crop(area=(0.5, 0.1))"], (1, 8, 8), side=4
    )
    words = r"at most the sides of the images; got 9 .* \(1, 8, 8\)"
    refused(words, train, Recipe.read({"data": {"crop": 9}}), tmp_path / "run")
