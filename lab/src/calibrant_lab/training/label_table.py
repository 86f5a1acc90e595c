"""Each label of the test samples, with intervals over the patients that the samples come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from torch.nn.functional import one_hot

from calibrant.calibrators import PlattScaling, TemperatureScaling
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly
from calibrant.evaluation.over_groups import label_rows
from calibrant.evaluation.result import Estimate
from calibrant.predictions import Predictions
from calibrant.reports.sections import Section, SectionTable
from calibrant.reports.words import AS_TRAINED, number, with_interval


def label_table(
    predictions: Predictions, *, num_bins: int, num_resamples: int, seed: int
) -> dict[str, Any] | None:
    """Every label before and after a calibrator of the calibration samples, as plain data.

    None where samples do not belong together in groups. Labels are calibrated by Platt scaling, classes by
    temperature scaling.
    """
    test = predictions.test
    if test.groups is None or test.labels is None or len(set(test.groups)) < 2:
        return None
    calibrator = fit_quietly(
        PlattScaling() if test.kind == "multilabel" else TemperatureScaling(),
        Labelled.of(predictions.calibration),
    )
    names = test.class_names or tuple(str(number) for number in range(test.num_classes or 0))
    truth = test.labels if test.labels.ndim == 2 else one_hot(test.labels, test.num_classes or 0)
    states = {AS_TRAINED: test.probs, calibrator.title.lower(): calibrator.predict_proba(test.scores)}
    rows = {
        state: label_rows(
            probs.double().numpy(),
            (truth == 1).numpy(),
            test.groups,
            names,
            num_bins=num_bins,
            num_resamples=num_resamples,
            seed=seed,
        )
        for state, probs in states.items()
    }
    return {
        "num_test": test.num_samples,
        "num_groups": len(set(test.groups)),
        "num_bins": num_bins,
        "num_resamples": num_resamples,
        "level": 0.95,
        "states": {state: [asdict(row) for row in each] for state, each in rows.items()},
    }


def label_section(found: Mapping[str, Any]) -> Section:
    (before, rows), (after, repaired) = found["states"].items()

    def shown(estimate: Mapping[str, Any], *, signed: bool = False) -> str:
        return with_interval(Estimate(**estimate), signed=signed)

    cells = tuple(
        (
            row["name"],
            str(row["num_positives"]),
            shown(row["auroc"]),
            *(
                text
                for each in (row, other)
                for text in (shown(each["ece"]), shown(each["gap"], signed=True))
            ),
        )
        for row, other in zip(rows, repaired, strict=True)
    )
    areas = [row["auroc"]["value"] for row in rows if row["auroc"]["value"] is not None]
    mean = f"Mean AUROC: {number(float(np.mean(areas)))}. " if areas else ""
    return Section(
        title="Each label, over patients",
        text=(
            f"{found['num_test']} test images of {found['num_groups']} patients.",
            "Images of one patient resemble each other, so intervals come from resampled patients.",
        ),
        table=SectionTable(
            label="AUROC and calibration of each label",
            groups=(("", 2), (before, 3), (after, 2)),
            columns=("Label", "Positives", "AUROC", "ECE", "Gap", "ECE", "Gap"),
            rows=cells,
        ),
        note=f"{mean}Intervals cover {found['level']:.0%} of {found['num_resamples']} resamples, centred on "
        "the value, and take network and calibrator as given. The gap is the mean probability less the share "
        f"of positives, the ECE that of {found['num_bins']} bins. All other intervals of this page are over "
        "images and may be too short.",
    )
