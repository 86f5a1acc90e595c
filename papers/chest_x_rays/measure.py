"""What is measured of the networks on chest X-rays, and of public predictions of fourteen labels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch

from calibrant.calibrators import PlattScaling
from calibrant.evaluation import evaluate
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.evaluation.over_groups import label_rows
from calibrant.evaluation.result import Estimate
from calibrant.predictions import Predictions, load_predictions
from calibrant_lab.sweep.result import RunResult

PUBLIC = Path("logits_chestxray14_multilabel", "chestxray14_densenet121.npz")
RESAMPLES = 1000
SHOWN = ("accuracy", "nll", "ece", "smce")


def keep(result: RunResult) -> dict[str, Any]:
    """Each number of the test images with its interval over patients, before and after a temperature."""
    given = load_predictions(result.file("predictions.npz"))
    return {"cpu_seconds": result.cpu_seconds, **judged(given.with_clusters(given.groups))}


def judged(given: Predictions) -> dict[str, Any]:
    """An evaluation's numbers, and how well pneumonia is told from no finding."""
    found = evaluate(given, calibrators=["temperature"], bootstrap=RESAMPLES)
    test = given.test
    chosen = np.asarray(test.labels) != 0  # COVID-19, whose images come from elsewhere
    probs = torch.softmax(test.scores[torch.from_numpy(chosen)][:, 1:], dim=1)[:, 1:].double().numpy()
    outcomes = (np.asarray(test.labels)[chosen] == 2)[:, None]
    patients = np.asarray(test.clusters)[chosen].astype(str).tolist()
    (pair,) = label_rows(probs, outcomes, patients, ["pneumonia"], num_resamples=RESAMPLES)
    return {
        "num_test": found.num_test,
        "num_calibration": found.num_calibration,
        "num_patients": len(set(np.asarray(test.clusters).tolist())),
        "temperature": found.arms[1].parameters["temperature"],
        "before": {name: _interval(found.arms[0].metrics[name]) for name in SHOWN},
        "after": {name: _interval(found.arms[1].metrics[name]) for name in SHOWN},
        "pair": {"num": int(chosen.sum()), "auroc": _interval(pair.auroc)},
    }


def also() -> dict[str, Any]:
    """Each label of the public predictions: AUROC, and calibration error before and after Platt scaling.

    Nothing where ``CALIBRANT_DATA`` names no folder that holds them.
    """
    path = Path(os.environ.get("CALIBRANT_DATA", "")) / PUBLIC
    return labels_of(load_predictions(path)) if path.is_file() else {}


def labels_of(given: Predictions) -> dict[str, Any]:
    """The numbers of each label, on all images or on those that did not fit Platt scaling."""
    names, test = [str(each) for each in given.class_names or ()], given.test
    scaled = fit_quietly(PlattScaling(), Labelled.of(given.calibration))
    probs = torch.as_tensor(scaled.predict_proba(test.scores)).double().numpy()
    whole, raw, repaired = (
        label_rows(p, np.asarray(y) > 0, [str(row) for row in range(len(p))], names, num_resamples=RESAMPLES)
        for p, y in (
            (given.probs.double().numpy(), given.labels),
            (test.probs.double().numpy(), test.labels),
            (probs, test.labels),
        )
    )
    return {
        "num": given.num_samples,
        "num_test": test.num_samples,
        "labels": [
            {
                "label": name,
                "positives": every.num_positives,
                "auroc": _interval(every.auroc),
                "mean": float(given.probs[:, place].mean()),
                "before": _interval(before.ece),
                "after": _interval(after.ece),
            }
            for place, (name, every, before, after) in enumerate(
                zip(names, whole, raw, repaired, strict=True)
            )
        ],
    }


def _interval(found: Estimate) -> list[float | None]:
    return [found.value, found.low, found.high]
