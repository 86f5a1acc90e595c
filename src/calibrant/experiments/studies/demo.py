"""The demo: a small classifier on real digits, trained on too little, judged and repaired."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from calibrant._math.files import atomic_write
from calibrant.calibrators import build
from calibrant.evaluation import Evaluation, evaluate
from calibrant.evaluation.arms import Labelled, fit_quietly
from calibrant.predictions import Predictions, load_predictions
from calibrant.reports import write_report

SETTING = (
    "The demo trains a small network for 300 epochs on 400 of scikit-learn's digits, shrunk to 4 × 4.\n"
    "So little data and so much training were chosen because they make a network over-confident."
)
NUM_TRAINING, NUM_CALIBRATION, NUM_EPOCHS, BATCH = 400, 600, 300, 50


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """What the demo found and where it wrote."""

    setting: str
    evaluation: Evaluation
    predictions: Path
    calibrator: Path
    report: Path
    json: Path


def run_demo(
    folder: Path,
    *,
    seed: int = 0,
    command: str | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> DemoResult:
    """Train, evaluate, repair; write predictions, calibrator, numbers and report into ``folder``."""
    tell = progress or (lambda _stage, _fraction: None)
    folder.mkdir(parents=True, exist_ok=True)
    result = {
        "predictions": folder / "predictions.npz",
        "calibrator": folder / "calibrator.safetensors",
        "report": folder / "report.html",
        "json": folder / "evaluation.json",
    }
    train_on_digits(seed=seed, progress=lambda fraction: tell("training", 0.5 * fraction)).save(
        result["predictions"]
    )
    predictions = load_predictions(result["predictions"])  # from the file, so that the report can name it
    evaluation = evaluate(
        predictions,
        seed=seed,
        command=command,
        progress=lambda stage, fraction: tell(stage, 0.5 + 0.4 * fraction),
    )
    repair = fit_quietly(build("focal-temperature"), Labelled.of(predictions.calibration))
    repair.save(result["calibrator"])
    tell("writing the report", 0.95)
    write_report(evaluation, result["report"])
    with atomic_write(result["json"]) as temporary:
        temporary.write_text(evaluation.to_json() + "\n", encoding="utf-8")
    return DemoResult(setting=SETTING, evaluation=evaluation, **result)


def train_on_digits(*, seed: int, progress: Callable[[float], None] | None = None) -> Predictions:
    """A network with two hidden layers, trained by cross-entropy; its logits on the images left over."""
    images, labels = small_digits()
    order = np.random.default_rng(seed).permutation(len(labels))
    training, held_out = torch.from_numpy(order[:NUM_TRAINING]), torch.from_numpy(order[NUM_TRAINING:])
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(
            nn.Linear(images.shape[1], 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 10)
        )
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    with one_thread():
        for epoch in range(NUM_EPOCHS):
            for batch in training[torch.randperm(NUM_TRAINING, generator=generator)].split(BATCH):
                optimiser.zero_grad()
                nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
                optimiser.step()
            if progress is not None:
                progress((epoch + 1) / NUM_EPOCHS)
        with torch.no_grad():
            logits = network(images[held_out])
    split = (np.arange(len(held_out)) >= NUM_CALIBRATION).astype(np.uint8)
    return Predictions(
        logits=logits, labels=labels[held_out], split=split, class_names=[str(digit) for digit in range(10)]
    )


@contextmanager
def one_thread() -> Generator[None]:
    """Sums in one order whatever the number of cores, so that a seed gives the same network everywhere."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def small_digits() -> tuple[Tensor, Tensor]:
    """scikit-learn's 1797 digits as ``(N, 16)`` floats in [0, 1], averaged over 2 × 2 pixels, and labels."""
    from sklearn.datasets import load_digits

    pixels, digits = load_digits(return_X_y=True)
    images = pixels.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, 16) / 16
    return torch.from_numpy(images).float(), torch.from_numpy(digits).long()
