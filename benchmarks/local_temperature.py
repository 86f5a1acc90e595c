"""Whether a temperature from covariates is worth it: scenes of digits, segmented by a small network.

Run as ``python benchmarks/local_temperature.py`` with ``CALIBRANT_DATA`` pointing to a folder that has
``mnist/mnist.npz`` (a minute of CPU for each of three seeds). A network is trained on 80 scenes of one
strength of noise, temperatures are fitted on 60 others and judged on 120 more, where the noise is that of
training (``same``) or varies from image to image (``varying``). Covariates follow from the logits alone: the
share of the 5 × 5 positions around that are predicted alike, their mean confidence, and that of the image.
Writes ``results/local_temperature.json``: negative log-likelihood, ECE over all positions, and the change of
the likelihood from one temperature to the local one, a mean over images with 1.96 standard errors.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from environment import environment, write
from torch import Tensor, nn
from torch.nn import functional

from calibrant.calibrators import TemperatureScaling, fit_local_temperature
from calibrant.metrics import expected_calibration_error, negative_log_likelihood

SIZE, DIGIT, CLASSES, EPOCHS, BATCH = 64, 28, 11, 50, 10
SPLITS = {"train": (80, 0, 800), "fit": (60, 30_000, 40_000), "judge": (120, 40_000, 60_000)}
NOISE = {"same": (0.25, 0.25), "varying": (0.1, 0.6)}
Scenes = tuple[Tensor, Tensor]


def scenes(digits: Any, names: Any, split: str, noise: str, rng: np.random.Generator) -> Scenes:
    """Images with two to five digits each, and the class of every position; 0 is the background."""
    count, low, high = SPLITS[split]
    images, labels = np.zeros((count, 1, SIZE, SIZE), np.float32), np.zeros((count, SIZE, SIZE), np.int64)
    for image, label in zip(images[:, 0], labels, strict=True):
        for place in rng.integers(low, high, rng.integers(2, 6)):
            row, column = rng.integers(0, SIZE - DIGIT, 2)
            window = slice(row, row + DIGIT), slice(column, column + DIGIT)
            image[window] = np.maximum(image[window], digits[place])
            label[window][digits[place] > 0.4] = names[place] + 1
        image += rng.uniform(*NOISE[noise]) * rng.normal(size=image.shape)
    return torch.from_numpy(images), torch.from_numpy(labels)


def network() -> nn.Sequential:
    """A few convolutions with wide views."""
    layers: list[nn.Module] = []
    for before, after, stride, dilation in (
        (1, 24, 1, 1),
        (24, 32, 2, 1),
        (32, 48, 1, 2),
        (48, 48, 1, 3),
        (48, 48, 1, 2),
    ):
        layers += [nn.Conv2d(before, after, 3, stride, dilation, dilation), nn.ReLU()]
    return nn.Sequential(*layers, nn.Upsample(scale_factor=2, mode="bilinear"), nn.Conv2d(48, CLASSES, 1))


def covariates(logits: Tensor) -> Tensor:
    """Of each position ``(N, 3, H, W)``."""
    confidence, predicted = logits.double().softmax(dim=1).max(dim=1)
    alike = functional.one_hot(predicted, CLASSES).movedim(-1, 1).double()
    nearby = {"kernel_size": 5, "stride": 1, "padding": 2, "count_include_pad": False}
    share = functional.avg_pool2d(alike, **nearby).gather(1, predicted[:, None])
    around = functional.avg_pool2d(confidence[:, None], **nearby)
    return torch.cat([share, around, confidence.mean(dim=(1, 2), keepdim=True)[:, None].expand_as(around)], 1)


def judged(net: nn.Module, fit: Scenes, judge: Scenes) -> dict[str, Any]:
    """As it came, with one temperature and with the local one."""
    with torch.no_grad():
        fitted_on, seen = net(fit[0]), net(judge[0])
    one = TemperatureScaling().fit(fitted_on, fit[1])
    local = fit_local_temperature(
        fitted_on, fit[1], covariates(fitted_on), names=("alike", "around", "image")
    )
    maps = {
        "as it came": seen.double().softmax(dim=1),
        "one temperature": one.predict_proba(seen),
        "local temperature": local.predict_proba(seen, covariates(seen)),
    }
    losses = [-maps[name].gather(1, judge[1][:, None]).log().mean(dim=(1, 2, 3)) for name in list(maps)[1:]]
    change = losses[1] - losses[0]
    found: dict[str, Any] = {
        name: {
            "nll": float(negative_log_likelihood(probs, judge[1])),
            "ece": float(expected_calibration_error(probs, judge[1])),
        }
        for name, probs in maps.items()
    }
    found["change_of_nll"] = float(change.mean())
    found["change_within"] = 1.96 * float(change.std()) / len(change) ** 0.5
    return found | {"temperature": float(one.temperature), "weights": local.weights}


def run(seed: int, digits: Any, names: Any) -> dict[str, Any]:
    """One network, judged on both kinds of images."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    images, labels = scenes(digits, names, "train", "same", rng)
    net = network()
    optimizer = torch.optim.Adam(net.parameters(), 2e-3)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(images)).split(BATCH):
            optimizer.zero_grad()
            functional.cross_entropy(net(images[chosen]), labels[chosen]).backward()
            optimizer.step()
    return {
        noise: judged(net, *(scenes(digits, names, s, noise, rng) for s in ("fit", "judge")))
        for noise in NOISE
    }


def main() -> None:
    """Train, judge, write."""
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--seeds", type=int, default=3)
    given = options.parse_args()
    with np.load(Path(os.environ["CALIBRANT_DATA"]) / "mnist" / "mnist.npz") as file:
        digits, names = file["x_train"].astype(np.float32) / 255, file["y_train"].astype(np.int64)
    seeds = {}
    for seed in range(given.seeds):
        seeds[str(seed)] = run(seed, digits, names)
        print(seed, seeds[str(seed)], flush=True)
    content = {"environment": environment("calibrant", "torch", "numpy"), "seeds": seeds}
    print("written:", write("local_temperature", content))


if __name__ == "__main__":
    main()
