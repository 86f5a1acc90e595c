"""Calibration of detections by confidence, position and size, beside netcal: values and CPU time.

Run as ``python benchmarks/detection_peers.py`` in the environment of ``peers.txt``. Writes
``results/detection_peers.json``. The features and bins are those of netcal's own example of detection (its
data take a detector and its images): the confidence alone in 15 bins, with the centre in 5 bins an axis, with
centre and size in 3. 4000 detections are drawn, the less right the further left and the narrower they are.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from environment import environment, write
from netcal.metrics import ECE
from netcal.scaling import BetaCalibration, LogisticCalibration, LogisticCalibrationDependent

from calibrant.calibrators import fit_detections
from calibrant.evaluation import detection_calibration_error

COUNT, LEAST = 4000, 8
FEATURES = {"confidence": (0, 15), "and centre": (2, 5), "and size": (4, 3)}
METHODS = {
    "logistic": lambda: LogisticCalibration(detection=True, method="mle"),
    "dependent-logistic": lambda: LogisticCalibrationDependent(method="mle"),
    "beta": lambda: BetaCalibration(detection=True, method="mle"),
}


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What it gives, and CPU milliseconds."""
    start = time.process_time()
    found = call()
    return found, 1e3 * (time.process_time() - start)


def main() -> None:
    """Compare, and write."""
    rng = np.random.default_rng(0)
    stated, places = rng.uniform(0.02, 0.98, COUNT), rng.uniform(0.05, 0.95, (COUNT, 4))
    right = rng.random(COUNT) < stated**1.3 * (0.4 + 0.4 * places[:, 0] + 0.2 * places[:, 2])
    content: dict[str, Any] = {
        "environment": environment("calibrant", "torch", "netcal"),
        "detections": COUNT,
    }
    for name, (count, bins) in FEATURES.items():
        covariates = places[:, :count] if count else None
        table = np.column_stack([stated, places[:, :count]]) if count else stated
        theirs = ECE(bins, detection=True, sample_threshold=LEAST).measure(table, right.astype(int))
        ours = detection_calibration_error(
            stated, right, covariates, num_bins=bins, least=LEAST, num_draws=9
        ).value
        entry: dict[str, Any] = {"d_ece": ours, "d_ece_off": abs(ours - float(theirs)), "methods": {}}
        for method, make in METHODS.items():
            peer = make()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _, their_time = timed(lambda: peer.fit(table, right.astype(int)))  # noqa: B023
            fitted, our_time = timed(lambda: fit_detections(stated, right, covariates, method=method))  # noqa: B023
            probs, other = fitted.predict_proba(stated, covariates), np.asarray(peer.transform(table)).ravel()
            entry["methods"][method] = {
                "largest_difference": float(np.abs(probs - other).max()),
                "nll": _nll(probs, right),
                "netcal_nll": _nll(other, right),
                "cpu_milliseconds": our_time,
                "netcal_cpu_milliseconds": their_time,
            }
        content[name] = entry
        print(name, entry, flush=True)
    write("detection_peers", content)


def _nll(probs: Any, right: Any) -> float:
    return float(-np.log(np.where(right, probs, 1 - probs)).mean())


if __name__ == "__main__":
    main()
