"""Calibrators on the logits and probabilities of public networks."""

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from calibrant import CalibrantWarning, metrics
from calibrant.calibrators import FocalTemperatureScaling, PlattScaling, TemperatureScaling, shift_of

pytestmark = pytest.mark.real_data

FILES = {
    "ham10000": "logits_valtest_noisycal/ham10000.npz",
    "mnist-10": "logits_valtest_noisycal/mnist-10.npz",
    "eurosat": "logits_eurosat_rgb/eurosat_rgb.npz",
    "lenet-5": "logits_netcal_cifar/lenet-5-cifar-10.npz",
    "wideresnet": "logits_netcal_cifar/wideresnet-16-4-cifar-100.npz",
    "vgg16": "logits_cifar10_vgg16_probs/cifar10_vgg16.npz",
    "20news": "probs_crossval_cleanlab/20news_test.npz",
    "kitti-network": "probs_pycalib_small/kitti_1layer_NN.npz",
    "kitti-xgboost": "probs_pycalib_small/kitti_XGBoost.npz",
    "ecg": "probs_ecg_chagas/ecg_chagas.npz",
    "chest": "logits_chestxray14_multilabel/chestxray14_densenet121.npz",
}
MOST = 2000  # samples that searches over thousands of points are tried on


class Halves(NamedTuple):
    """Scores and labels to fit on, and to test on."""

    calibration: tuple[Any, Any]
    test: tuple[Any, Any]


@pytest.fixture(scope="session")
def real(data_folder: Path) -> Callable[[str], Halves]:
    """Read the scores of a file; of probabilities their logarithms, or log-odds."""

    def scores_of(table: Any) -> Any:
        table = table.astype(np.float64)
        with np.errstate(divide="ignore"):
            return np.log(table) if table.ndim == 2 else np.log(table) - np.log1p(-table)

    @functools.cache
    def read(name: str) -> Halves:
        arrays = np.load(data_folder / FILES[name], allow_pickle=False)
        kind = "logits" if any(key.startswith("logits") for key in arrays) else "probs"
        convert = scores_of if kind == "probs" else np.asarray
        if "split" in arrays:
            parts = [arrays["split"] == part for part in (0, 1)]
            return Halves(*((convert(arrays[kind][part]), arrays["labels"][part]) for part in parts))
        parts = ("val", "test")
        return Halves(*((convert(arrays[f"{kind}_{part}"]), arrays[f"labels_{part}"]) for part in parts))

    return read


def quietly(calibrator: Any, data: tuple[Any, Any]) -> Any:
    """Fit, whatever there is to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return calibrator.fit(*data)


@pytest.fixture(scope="session")
def fitted_on(real: Callable[[str], Halves]) -> Callable[..., Any]:
    """A calibrator fitted on the first half of a file, to be read only: several tests look at one fit."""

    @functools.cache
    def fit(name: str, kind: type, **settings: Any) -> Any:
        return quietly(kind(**settings), real(name).calibration)

    return fit


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("objective", ["nll", "brier"])
def test_focal_never_worse_on_smooth_objectives(
    fitted_on: Callable[..., Any], name: str, objective: Any
) -> None:
    simple = fitted_on(name, TemperatureScaling, objective=objective).fit_result_
    focal = fitted_on(name, FocalTemperatureScaling, objective=objective).fit_result_
    assert focal.after <= simple.after <= simple.before
    assert simple.converged
    assert focal.converged
    assert focal.certificate["gradient"] < 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("objective", ["ece", "adaptive_ece"])
def test_focal_never_worse_on_binned_objectives(
    real: Callable[[str], Halves], name: str, objective: Any
) -> None:
    """Never above temperature scaling or the paper's grid, and the value is the metric of the predictions."""
    scores, labels = real(name).calibration
    if name == "chest":  # one column tells what fourteen do
        scores, labels = scores[:, 3], labels[:, 3]
    some = slice(None, None, -(-len(labels) // MOST))
    scores, labels = scores[some], labels[some]
    simple = quietly(TemperatureScaling(objective=objective), (scores, labels)).fit_result_
    fitted = quietly(FocalTemperatureScaling(objective=objective), (scores, labels))
    grid = quietly(FocalTemperatureScaling(objective=objective, search="grid"), (scores, labels)).fit_result_
    focal = fitted.fit_result_
    assert focal.after <= simple.after <= simple.before
    assert focal.after <= grid.after
    binning = "width" if objective == "ece" else "mass"
    probs = fitted.predict_proba(scores)
    metric = metrics.expected_calibration_error(probs, labels, binning=binning)
    assert float(metric) == pytest.approx(focal.after, rel=1e-9)


@pytest.mark.parametrize("name", ["lenet-5", "vgg16", "mnist-10", "20news"])
def test_calibration_carries_over(
    real: Callable[[str], Halves], fitted_on: Callable[..., Any], name: str
) -> None:
    scores, labels = real(name).test
    fitted = fitted_on(name, FocalTemperatureScaling, objective="nll")
    before = torch.softmax(torch.as_tensor(scores, dtype=torch.float64), dim=1).clamp(min=1e-12)
    after = fitted.predict_proba(scores)
    assert torch.equal(before.argmax(dim=1), after.argmax(dim=1))
    losses = [
        float(-p.gather(1, torch.as_tensor(labels).long()[:, None]).log().mean()) for p in (before, after)
    ]
    assert losses[1] < losses[0] - 0.01


def test_platt_mends_a_prior_shift(real: Callable[[str], Halves], fitted_on: Callable[..., Any]) -> None:
    """Trained on balanced classes, used at 2 %: the intercept mends what no temperature can."""
    calibration, (scores, labels) = real("ecg")
    simple, focal = (
        fitted_on("ecg", kind, objective="nll") for kind in (TemperatureScaling, FocalTemperatureScaling)
    )
    errors = {}
    for calibrator in (simple, focal, quietly(PlattScaling(), calibration)):
        probs = calibrator.predict_proba(scores)
        errors[calibrator.name] = float(metrics.expected_calibration_error(probs, labels))
    assert errors["platt"] < 0.01
    assert min(errors["temperature"], errors["focal-temperature"]) > 0.2


@pytest.mark.parametrize("name", FILES)
def test_test_halves_look_like_calibration_halves(
    real: Callable[[str], Halves], fitted_on: Callable[..., Any], name: str
) -> None:
    """The halves of a real file count as alike; sharper logits, or half of the classes, as different."""
    calibrator = fitted_on(name, TemperatureScaling, objective="nll")
    scores, labels = real(name).test
    found = shift_of(calibrator, scores)
    assert not found.found
    assert found.distance < found.noise
    assert shift_of(calibrator, 2.5 * scores).found
    if scores.ndim == 2 and labels.ndim == 1:
        assert shift_of(calibrator, scores[labels >= scores.shape[1] // 2]).found
