"""Do newer measures of calibration change what the ECE says of public models?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from calibrant import metrics
from calibrant._math.errors import without_warnings
from calibrant.calibrators import out_of_fold_probs
from calibrant.evaluation.arguments import as_judged
from papers.analysis import Frames, Tables
from papers.prediction_files import data_folder, prediction_files

MEASURES = {
    "ECE": metrics.expected_calibration_error,
    "averaged two-bin error": metrics.averaged_two_bin_error,
    "decision loss": metrics.calibration_decision_loss,
}
VARIATIONAL = "variational error"
LEVEL, DRAWN = 0.05, 199
SIZE, PARTS = 500, 4
ALL, FEW = "all samples", f"{SIZE} samples"


def measure(_folder: Path) -> dict[str, Any]:
    """Return the p-values of each measure, by file: of all samples, and of four parts without overlap."""
    runs = []
    for name, given in prediction_files(data_folder()):
        one = as_judged(given.with_split(None))
        probs, labels = _event(one)
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(len(probs), generator=generator)
        parts = order[: len(order) // SIZE * SIZE].split(SIZE)[:PARTS]
        of = [(ALL, slice(None)), *((FEW, part) for part in parts if len(order) > PARTS * SIZE)]
        for size, rows in of:
            found = _p_values(probs[rows], labels[rows], generator)
            runs.append({"file": name, "size": size, **found})
    return {"runs": runs}


def _event(one: Any) -> tuple[Tensor, Tensor]:
    if one.kind in {"top_label", "multiclass"}:
        return one.confidence.double().clamp(max=1), one.correct.long()
    probs, labels = one.probs.double(), one.labels.long()
    return (probs[:, 0], labels[:, 0]) if one.kind == "multilabel" else (probs, labels)


def _p_values(probs: Tensor, labels: Tensor, generator: torch.Generator) -> dict[str, float]:
    drawn = [torch.bernoulli(probs, generator=generator).long() for _ in range(DRAWN)]
    found = {
        name: (1 + sum(of(probs, each) >= of(probs, labels) for each in drawn)) / (1 + DRAWN)
        for name, of in MEASURES.items()
    }
    with without_warnings():
        others = out_of_fold_probs("beta", probs.logit(eps=1e-12), labels)
    bound = metrics.variational_calibration_error(probs, others, labels)
    above = torch.special.ndtr(-torch.as_tensor(bound.value / bound.standard_error))
    return {name: round(float(p), 4) for name, p in {**found, VARIATIONAL: above}.items()}


def frames(results: Mapping[str, Any]) -> Frames:
    """``off``: which measures find an error, a row for each set of samples and measure."""
    found = pd.DataFrame(results["runs"]).melt(["file", "size"], var_name="measure", value_name="p")
    found["off"] = found.p.le(LEVEL)
    return {"off": found}


def tables(found: Frames) -> Tables:
    wide = found["off"].assign(row=lambda of: of.groupby(["measure", "size"], sort=False).cumcount())
    wide = wide.pivot(index=["size", "row"], columns="measure", values="off")
    columns = {}
    for size, of in wide.groupby(level="size"):
        columns[f"{size}: off of {len(of)}"] = of.sum()
        columns[f"{size}: as the ECE"] = of.eq(of["ECE"], axis=0).sum()
    return {"short": pd.DataFrame(columns).loc[[*MEASURES, VARIATIONAL]].map("{:.0f}".format)}
