"""Does the theory of focal loss survive 200 classes?"""

import runpy
from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from calibrant import losses, theory
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import build
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.theory import closest_temperature
from calibrant_lab.data import Geometry, load
from calibrant_lab.data.lazy import LazyImages
from calibrant_lab.sweep.kept_runs import shortened
from calibrant_lab.theory import top_errors
from papers.analysis import HERE, Frames, Tables, beside, by_stage, means_only, ordered, pivot, relative
from papers.loss_rows import called
from papers.losses.run import BY_ECE, measured
from papers.runs import Records

SIZE = 128
"""Side of the images in pixels as the network gets them; their own is 64."""
SMALL_BATCH = 8
"""What stays in a core's cache; with larger batches a core is slower."""
EPOCHS, BATCH, RATE = (8, 24), 128, 1e-3
DRAWN = 0.8
"""The share of the training images, and of the calibration images, that a seed draws."""
GAMMA, WEIGHT, CLASSES = 3, 0.5, 200
OWN = "own"
"""The network's own last layer, of which 200 of its 1,000 classes are kept."""
LOSSES = called("cross-entropy", "focal, γ = 3", "FLSD-53", "FCL", "label smoothing", "Brier")
CALIBRATORS = {"with T": "temperature", "with focal T": "focal-temperature", "with T by ECE": BY_ECE}


def measure(folder: Path, seeds: str = "5") -> dict[str, Any]:
    given, records = features(folder), Records(folder / "heads.jsonl")
    arms = [(OWN, 0), *product(LOSSES, EPOCHS)]
    found = [
        records.get(f"{loss}, {epochs} epochs, seed {seed}", partial(head, given, loss, epochs, seed))
        for loss, epochs in arms
        for seed in range(int(seeds))
    ]
    runs = [{name: value for name, value in run.items() if name != "key"} for run in found]
    return {"runs": shortened(runs, 6)}


def features(folder: Path) -> Mapping[str, Tensor]:
    """Features and labels of all images, and the logits of the network's own last layer; computed once."""
    path = folder / "features.pt"
    if not path.is_file():
        example = runpy.run_path(str(HERE.parent / "examples" / "efficientnet_lite0.py"))
        network = example["tiny_imagenet"]().network.eval()
        parts, found = load("tiny_imagenet", geometry=Geometry(size=SIZE)).parts, dict[str, Tensor]()
        for name, part in (("train", parts["train"]), ("validation", parts["test"])):
            found |= {name: _seen(network, part.inputs), f"{name}_labels": part.labels}
        with torch.no_grad():
            found[OWN] = network._fc(found["validation"])[:, example["COLUMNS"]]
        folder.mkdir(parents=True, exist_ok=True)
        torch.save(found, path)
    return torch.load(path)


@torch.no_grad()
def _seen(network: Any, images: Tensor | LazyImages) -> Float[Tensor, "N D"]:
    network = network.to(memory_format=torch.channels_last)
    found = []
    for start in range(0, len(images), SMALL_BATCH):
        batch = (images[start : start + SMALL_BATCH].float() - 127) / 128
        batch = batch.contiguous(memory_format=torch.channels_last)
        found.append(network.extract_features(batch).mean((2, 3)))
    return torch.cat(found)


def head(given: Mapping[str, Tensor], loss: str, epochs: int, seed: int) -> dict[str, Any]:
    """One head, trained, and judged on half of the validation images; of the others a seed draws some."""
    labels = given["validation_labels"]
    halves, error = labels.argsort(stable=True), None  # every second image of a class tests
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        held_out, test = halves[::2][_drawn(len(labels) // 2)], halves[1::2]
        logits = given[OWN]
        if loss != OWN:
            rows = _drawn(len(given["train"]))
            layer, error = trained(given["train"][rows], given["train_labels"][rows], loss, epochs)
            logits = layer(given["validation"]).detach()
    half = Labelled(logits[held_out], labels[held_out], None)
    fitted = {stage: fit_quietly(build(name), half) for stage, name in CALIBRATORS.items()}
    probs = {"as trained": logits[test].double().softmax(1)}
    probs |= {stage: each.predict_proba(logits[test]).double() for stage, each in fitted.items()}
    return {
        "loss": loss,
        "epochs": epochs,
        "seed": seed,
        "train_error": error,
        "stages": {stage: measured(each, labels[test]) for stage, each in probs.items()},
        **{stage: each.fit_result_.parameters["temperature"] for stage, each in fitted.items()},
        "map": of_the_map(probs["as trained"], labels[test]),
        "theorem": of_the_theorem(probs["with T"][::5]),
    }


def _drawn(count: int) -> Int[Tensor, " M"]:
    return torch.randperm(count)[: round(DRAWN * count)]


def trained(
    inputs: Float[Tensor, "N D"], labels: Int[Tensor, " N"], loss: str, epochs: int
) -> tuple[nn.Module, float]:
    """A linear layer after Adam with a rate that falls to 0, and the share of errors in the last epoch."""
    layer, criterion, wrong = nn.Linear(inputs.shape[1], CLASSES), losses.build(loss), 0
    optimiser = torch.optim.Adam(layer.parameters(), lr=RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, epochs * -(-len(labels) // BATCH))
    for _ in range(epochs):
        wrong = 0
        for rows in torch.randperm(len(labels)).split(BATCH):
            logits = layer(inputs[rows])
            optimiser.zero_grad()
            criterion(logits, labels[rows]).backward()
            optimiser.step()
            schedule.step()
            wrong += int((logits.argmax(1) != labels[rows]).sum())
    return layer, wrong / len(labels)


def of_the_map(probs: Float[Tensor, "N C"], labels: Int[Tensor, " N"]) -> dict[str, dict[str, float]]:
    """Images whose top probability the focal calibration map lowers, and raises: their share and three means.

    At focal loss's minimiser the mapped probabilities are the true ones.
    """
    top, predicted = probs.max(1)
    mapped = theory.focal_calibration_map_logits(probs.log(), gamma=GAMMA).softmax(1).amax(1)
    told = torch.stack([top, mapped, (predicted == labels).double()])

    def of(part: Tensor) -> dict[str, float]:
        top, mapped, right = told[:, part].mean(1).nan_to_num().tolist()
        return {"share": part.double().mean().item(), "top": top, "mapped": mapped, "right": right}

    return {"lowered": of(mapped < top), "raised": of(mapped >= top)}


def of_the_theorem(posterior: Float[Tensor, "N C"]) -> dict[str, float]:
    """How often FCL's minimiser is further from the top probability than focal loss's, and both means."""
    errors = top_errors(posterior, gamma=GAMMA, calibration_weight=WEIGHT)
    focal, both = errors.focal.abs(), errors.focal_calibration.abs()
    further = float((both > focal + 1e-9).double().mean())
    return {"further": further, "focal": float(focal.mean()), "fcl": float(both.mean())}


CE, FOCAL = "cross-entropy", "focal, γ = 3"
ROWS = {**LOSSES, OWN: "none: its own head"}
WAYS = {8: "8 epochs", 24: "24 epochs", 0: "ImageNet"}
METRICS = {"error": "error", "NLL": "nll", "ECE": "ece", "classwise ECE": "classwise_ece", "smCE": "smce"}
PARTS = {"share": "images", "top": "top probability", "right": "accuracy", "mapped": "mapped"}
"""Means over the images whose top probability the map lowers, or raises."""


def frames(results: Mapping[str, Any]) -> Frames:
    """``errors`` by stage and metric, one row for each of the ``heads``, and ``parts`` of the images."""
    errors, parts, heads = list[dict[str, Any]](), list[dict[str, Any]](), list[dict[str, Any]]()
    for run in results["runs"]:
        key = {"way": run["epochs"], "loss": run["loss"], "seed": run["seed"]}
        stages = {stage: stage for stage in run["stages"]}
        errors += by_stage(key, run["stages"], stages, METRICS)
        both = ((part, of, of["top"] - of["right"]) for part, of in run["map"].items())
        parts += [{**key, "part": part, **of, "gap": gap} for part, of, gap in both]
        lowered, fitted = run["map"]["lowered"]["share"], run["with T"]
        heads.append({**key, **run["theorem"], "lowered": lowered, "T": fitted, "error": run["train_error"]})
    found = {"errors": errors, "parts": parts, "heads": heads}
    tidy = {name: ordered(pd.DataFrame(rows), "loss", ROWS) for name, rows in found.items()}
    tidy = {name: ordered(frame, "way", WAYS) for name, frame in tidy.items()}
    heads = tidy["heads"]
    closest = closest_temperature(GAMMA, CLASSES).temperature
    base = beside(heads, heads[heads.loss == CE], ["way", "seed"])["T"]
    trained = tidy["errors"].query("stage == 'as trained' and metric == 'error' and way != 'ImageNet'")
    heads = heads.assign(factor=heads["T"] / (base * closest) - 1, nearer=heads.fcl - heads.focal)
    heads["from_one"] = np.log(heads["T"]).abs()
    return {**tidy, "heads": heads, "relative": relative(trained, ["way", "seed"])}


def tables(of: Frames) -> Tables:
    rows = ["way", "loss"]
    errors = of["errors"].query("stage in ['as trained', 'with T'] and way != 'ImageNet'")
    errors = errors[errors.metric.isin(["error", "ECE"]) & errors.loss.ne("FLSD-53")]
    wide = pivot(errors, rows, ["metric", "stage"], "value").drop(columns=[("error", "with T")])
    short = wide.set_axis(["error", "ECE as trained", "ECE with T"], axis=1)
    fitted = pivot(of["heads"], rows, [], "T", scale=1)
    parts = of["parts"][of["parts"].loss == FOCAL].melt(["way", "part", "seed"], list(PARTS), "what")
    parts = pivot(ordered(parts, "what", PARTS), ["way", "part"], ["what"], "value", digits=1)
    short = means_only(short.join(fitted), "ECE as trained")
    return {"short": short, "parts": means_only(parts, "accuracy")}
