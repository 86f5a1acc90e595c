"""Do the probabilities of networks on chest X-rays need a repair?"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from calibrant.calibrators import PlattScaling
from calibrant.evaluation import evaluate
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.evaluation.result import Estimate
from calibrant.predictions import Predictions, load_predictions
from calibrant_lab.sweep.published import facts
from calibrant_lab.sweep.tasks.task import RunResult
from calibrant_lab.training.run_report import label_rows
from papers.analysis import Frames, Tables, flat_runs, ordered

PUBLIC = Path("logits_chestxray14_multilabel", "chestxray14_densenet121.npz")
RESAMPLES = 1000
SHOWN = ("accuracy", "nll", "ece", "smce")
DIGITS = 8
LOSSES = {
    "cross-entropy": "cross-entropy",
    "focal(gamma=3)": "focal, γ = 3",
    "focal-calibration(gamma=3, calibration_weight=0.5)": "FCL, γ = 3, λ = 0.5",
}


def keep(result: RunResult) -> dict[str, Any]:
    """Each number of the test images with its interval over patients, before and after a temperature."""
    given = load_predictions(result.file("predictions.npz"))
    return {"cpu_seconds": result.cpu_seconds, **judged(given)}


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
    columns = names, whole, raw, repaired
    return {
        "num": given.num_samples,
        "num_test": test.num_samples,
        "labels": [
            {
                "label": name,
                "positives": every.num_positives,
                "auroc": _interval(every.auroc),
                "mean": float(probs.mean()),
                "before": _interval(before.ece),
                "after": _interval(after.ece),
            }
            for name, every, before, after, probs in zip(*columns, given.probs.unbind(1), strict=True)
        ],
    }


def _interval(found: Estimate) -> list[float | None]:
    return [found.value, found.low, found.high]


def frames(results: Mapping[str, Any]) -> Frames:
    """``judged`` by loss and stage, and the fourteen ``labels``; a number has its interval beside it."""
    judged = [
        {"loss": run["loss"], "seed": run["seed"], "stage": stage, "auroc": run["pair"]["auroc"], **run[of]}
        for run in flat_runs(results)
        for stage, of in (("as trained", "before"), ("with T", "after"))
    ]
    labels = pd.DataFrame(results["also"]["labels"])
    return {
        "judged": ordered(pd.DataFrame(judged), "loss", LOSSES),
        "labels": labels.assign(label=labels.label.str.replace("_", " "), num=results["also"]["num"]),
    }


def tables(found: Frames) -> Tables:
    means = _means(found["labels"])
    wide = found["judged"].set_index(["loss", "stage"])[["ece", "nll", "auroc"]].map(_cell).unstack("stage")
    short = pd.DataFrame(
        {
            "ECE, as trained": wide["ece", "as trained"],
            "ECE, repaired": wide["ece", "with T"],
            "log loss, as trained": wide["nll", "as trained"],
            "log loss, repaired": wide["nll", "with T"],
            "AUROC": wide["auroc", "as trained"],
        }
    )
    short.loc["public predictions, mean"] = [means["before"], means["after"], "–", "–", means["auroc"]]
    printed = [fact.value for fact in facts("focal-calibration-loss-2025") if fact.table == "9"]
    means = pd.DataFrame({"mean": [*means.values(), *printed]})
    return {"short": short.rename_axis("network"), "means": means}


def _means(labels: pd.DataFrame) -> dict[str, str]:
    values = {name: labels[name].str[0] for name in ("auroc", "before", "after")}
    values |= {"mean": labels["mean"], "positives": labels.positives / labels.num}
    return {name: f"{of.mean():.3f}" for name, of in values.items()}


def _cell(found: Sequence[float | None]) -> str:
    value, low, high = found
    return "–" if value is None else f"{value:.3f} ({low:.3f} to {high:.3f})"
