"""Every family of calibrators against its peers: CPU time of a fit, and log loss on held-out rows.

Run in the environment of ``benchmarks/peers.txt``: ``peers/bin/python benchmarks/calibrator_peers.py``; the
data lie in ``$CALIBRANT_DATA``. Fits take turns in one process, at one thread; one of two seconds runs once.
Every peer has its defaults. A peer that fails is named with its error. Medians and log losses are written to
``results/calibrator_peers.json``; a calibrator of ours is behind where a peer takes less time.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from environment import RESULTS, environment, write

PACKAGES = ("scikit-learn", "netcal", "probmetrics", "betacal", "dirichletcal", "splinecalib")
OURS = "calibrant"
FAMILIES = {
    "vector": "vector",
    "matrix": "matrix",
    "structured matrix": "structured-matrix",
    "Dirichlet": "dirichlet",
    "isotonic": "isotonic",
    "histogram, equal width": 'histogram(binning="width")',
    "histogram, equal mass": "histogram",
}
Split = tuple[np.ndarray, np.ndarray]
# Rows to fit and rows to judge: log loss on those.
Run = Callable[[Split, np.ndarray], Callable[[], np.ndarray]]


def tables() -> dict[str, tuple[Split, Split]]:
    """Log-probabilities and labels to fit and to judge: 10 classes and 100."""
    folder = Path(os.environ["CALIBRANT_DATA"])
    digits = np.load(folder / "logits_valtest_noisycal" / "mnist-10.npz")
    images = np.load(folder / "logits_netcal_cifar" / "wideresnet-16-4-cifar-100.npz")

    def digit_rows(part: str) -> Split:
        return digits[f"logits_{part}"], digits[f"labels_{part}"].astype(np.int64)

    wide, labels = np.log(images["probs"].clip(1e-30)), images["labels"].astype(np.int64)
    return {
        "5000 x 10": (digit_rows("val"), digit_rows("test")),
        "5000 x 100": ((wide[:5000], labels[:5000]), (wide[5000:], labels[5000:])),
    }


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Rows that sum to one in float64."""
    return torch.from_numpy(logits).double().softmax(dim=1).numpy()


def ours(name: str) -> Run:
    """A calibrator of calibrant."""
    from calibrant.calibrators import build

    def run(fit: Split, judged: np.ndarray) -> Callable[[], np.ndarray]:
        fitted = build(name).fit(*map(torch.from_numpy, fit))
        return lambda: fitted.predict_proba(torch.from_numpy(judged)).numpy()

    return run


def ours_one_vs_rest(fit: Split, judged: np.ndarray) -> Callable[[], np.ndarray]:
    """Our beta calibration of each class's log-odds, normalised."""
    from calibrant.calibrators import BetaCalibration

    def log_odds(logits: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(probabilities(logits)).logit(eps=1e-15)

    events = torch.nn.functional.one_hot(torch.from_numpy(fit[1]), fit[0].shape[1])
    fitted = BetaCalibration().fit(log_odds(fit[0]), events)

    def apply() -> np.ndarray:
        found = fitted.predict_proba(log_odds(judged))
        return (found / found.sum(dim=1, keepdim=True)).numpy()

    return apply


def of_probabilities(make: Callable[[], Any], ending: str) -> Run:
    """A peer that takes probabilities, and gives new ones by the method ``ending``."""

    def run(fit: Split, judged: np.ndarray) -> Callable[[], np.ndarray]:
        peer = make()
        peer.fit(probabilities(fit[0]), fit[1])
        return lambda: getattr(peer, ending)(probabilities(judged))

    return run


def sklearn_isotonic(fit: Split, judged: np.ndarray) -> Callable[[], np.ndarray]:
    """One isotonic regression for each class, normalised, as ``CalibratedClassifierCV`` does."""
    from sklearn.isotonic import IsotonicRegression

    probs = probabilities(fit[0])
    peers = [
        IsotonicRegression(out_of_bounds="clip").fit(probs[:, k], fit[1] == k) for k in range(probs.shape[1])
    ]

    def apply() -> np.ndarray:
        found = probabilities(judged)
        found = np.stack([peer.predict(found[:, k]) for k, peer in enumerate(peers)], axis=1)
        return found / found.sum(axis=1, keepdims=True).clip(1e-300)

    return apply


def betacal_one_vs_rest(fit: Split, judged: np.ndarray) -> Callable[[], np.ndarray]:
    """One binary beta calibration for each class, normalised."""
    from betacal import BetaCalibration

    probs = probabilities(fit[0])
    peers = [
        BetaCalibration("abm").fit(probs[:, k : k + 1], (fit[1] == k).astype(int))
        for k in range(probs.shape[1])
    ]

    def apply() -> np.ndarray:
        found = probabilities(judged)
        found = np.stack([peer.predict(found[:, k : k + 1]) for k, peer in enumerate(peers)], axis=1)
        return found / found.sum(axis=1, keepdims=True)

    return apply


def peers() -> dict[str, dict[str, Run]]:
    """The peers that have each family."""
    from dirichletcal.calib.fulldirichlet import FullDirichletCalibrator
    from netcal.binning import HistogramBinning, IsotonicRegression
    from netcal.scaling import BetaCalibration
    from probmetrics import calibrators as theirs
    from splinecalib import SplineCalib

    def probmetrics(make: Callable[[], Any]) -> Run:
        return of_probabilities(make, "predict_proba")

    def one_vs_rest(make: Callable[[], Any]) -> Run:
        return probmetrics(lambda: theirs.MulticlassOneVsRestCalibrator(make()))

    return {
        "vector": {"probmetrics": probmetrics(theirs.VectorScalingCalibrator)},
        "matrix": {"probmetrics": probmetrics(theirs.MatrixScalingCalibrator)},
        "structured matrix": {
            "probmetrics": probmetrics(lambda: theirs.SMSCalibrator(print_init_info=False))
        },
        "Dirichlet": {
            "dirichletcal": of_probabilities(
                lambda: FullDirichletCalibrator(reg_lambda=1e-3, reg_mu=1e-3), "predict_proba"
            )
        },
        "beta": {
            "betacal": betacal_one_vs_rest,
            "netcal": of_probabilities(BetaCalibration, "transform"),
        },
        "isotonic": {
            "scikit-learn": sklearn_isotonic,
            "netcal": of_probabilities(IsotonicRegression, "transform"),
        },
        "histogram, equal width": {
            "netcal": of_probabilities(lambda: HistogramBinning(bins=15), "transform"),
            "probmetrics": one_vs_rest(lambda: theirs.BinaryHistogramBinningCalibrator(n_bins=15)),
        },
        "histogram, equal mass": {
            "probmetrics": one_vs_rest(lambda: theirs.BinaryHistogramBinningCalibrator(15, "quantile"))
        },
        "spline": {"splinecalib": of_probabilities(SplineCalib, "calibrate")},
    }


def log_loss(probs: np.ndarray, labels: np.ndarray) -> float:
    """Mean negative log-likelihood; a label of probability 0 counts as 1e-12."""
    return float(-np.log(probs[np.arange(len(labels)), labels].clip(1e-12)).mean())


def compared(runs: dict[str, Run], fit: Split, judged: Split, repeats: int) -> dict[str, dict[str, Any]]:
    """Median CPU milliseconds and held-out log loss, or the error of what does not run."""
    found: dict[str, dict[str, Any]] = {}
    seconds: dict[str, list[float]] = {}
    for turn in range(repeats + 1):
        for name, run in runs.items():
            if "error" in found.get(name, {}) or (seconds.get(name) and seconds[name][0] > 2):
                continue
            begun = time.process_time()
            try:
                apply = run(fit, judged[0])
                took = time.process_time() - begun
                if turn == 0:  # warms up
                    found[name] = {"log_loss": log_loss(apply(), judged[1])}
            except Exception as error:  # a peer's fault is its row
                found[name] = {"error": f"{type(error).__name__}: {error}"[:200]}
                continue
            if turn > 0 or took > 2:
                seconds.setdefault(name, []).append(took)
    for name, times in seconds.items():
        found[name] |= {"cpu_milliseconds": 1e3 * statistics.median(times), "repeats": len(times)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", help="families to measure again; the others' results stay")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    known = {family: {OURS: ours(name)} for family, name in FAMILIES.items()}
    known["beta"] = {OURS: ours_one_vs_rest}
    path = RESULTS / "calibrator_peers.json"
    results = json.loads(path.read_text(encoding="utf-8"))["tables"] if path.exists() else {}
    for size, (fit, judged) in tables().items():
        for family, theirs in peers().items():
            if family in (arguments.only or [family]):
                found = compared(known.get(family, {}) | theirs, fit, judged, arguments.repeats)
                results.setdefault(size, {})[family] = found
                print(size, family, found, flush=True)
                write("calibrator_peers", {"environment": environment(*PACKAGES), "tables": results})


if __name__ == "__main__":
    main()
