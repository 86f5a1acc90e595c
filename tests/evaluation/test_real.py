"""Real predictions of public models: every file ends in a verdict, and the known ones in the known one."""

from pathlib import Path

import pytest

from calibrant.evaluation import evaluate
from calibrant.predictions import load_predictions

pytestmark = pytest.mark.real_data

# Mean confidence, accuracy and prevalence of these files stand in their README; the direction follows, except
# where the error is so near to what chance gives that the draws decide.
KNOWN = {
    "logits_cifar10_vgg16_probs/cifar10_vgg16.npz": ("over-confident", True),
    "logits_eurosat_rgb/eurosat_rgb.npz": (None, None),
    "logits_netcal_cifar/lenet-5-cifar-10.npz": ("over-confident", True),
    "logits_netcal_cifar/wideresnet-16-4-cifar-100.npz": ("over-confident", True),
    "logits_valtest_noisycal/ham10000.npz": ("under-confident", True),
    "logits_valtest_noisycal/mnist-10.npz": ("under-confident", True),
    "probs_crossval_cleanlab/20news_test.npz": ("under-confident", True),
    "probs_pycalib_small/kitti_1layer_NN.npz": (None, None),
    "probs_pycalib_small/kitti_XGBoost.npz": ("over-predicting", True),
    "probs_ecg_chagas/ecg_chagas.npz": ("over-predicting", True),
    "logits_chestxray14_multilabel/chestxray14_densenet121.npz": ("over-predicting", True),
    "toplabel_confidences/markus93__probs_resnet110_c100_logits.npz": ("over-confident", None),
    "toplabel_confidences/ImageNet_pytorch_image_models__efficientnet_b3a.npz": ("under-confident", None),
    "toplabel_confidences/other__snacks.npz": (None, None),
}


MOST = 2000  # samples of a file, which are enough for each verdict
LARGER = {  # 5000
    "logits_netcal_cifar/wideresnet-16-4-cifar-100.npz",
    "logits_valtest_noisycal/ham10000.npz",
    "logits_valtest_noisycal/mnist-10.npz",
}
# Of a hundred classes, or of fourteen labels, the calibrators are most of the time.
MORE = {
    "logits_netcal_cifar/wideresnet-16-4-cifar-100.npz": {"calibrators": ["temperature", "isotonic"]},
    "logits_chestxray14_multilabel/chestxray14_densenet121.npz": {"calibrators": ["platt"]},
}


@pytest.mark.parametrize("name", KNOWN)
def test_a_real_file_ends_in_a_verdict(data_folder, name) -> None:
    """The direction is the known one, and where repair is due it lowers smooth calibration error and NLL."""
    direction, repaired = KNOWN[name]
    predictions = load_predictions(data_folder / name)
    most = 5000 if name in LARGER else MOST
    some = predictions.rows(slice(None, None, -(-predictions.num_samples // most)))
    found = evaluate(some, bootstrap=100, null_draws=80, **MORE.get(name, {}))
    verdict = found.verdict
    if direction is not None:
        assert verdict.direction == direction
    if repaired:
        arm, first = found.arm(verdict.recommended), found.arms[0]
        metric = "event_smce" if found.kind == "binary" else "smce"
        assert arm.change[metric].high < 0
        assert arm.metrics["nll"].value < (first.metrics["nll"].value or float("inf"))
    assert found.source.name == Path(name).name


def test_the_error_in_bins_is_not_all(data_folder) -> None:
    """EuroSAT's ECE can be chance; the test over the whole scale and the classes find errors."""
    name = "logits_eurosat_rgb/eurosat_rgb.npz"
    found = evaluate(load_predictions(data_folder / name), calibrators=["temperature"], bootstrap=20)
    null = {each.metric: each.p_value for each in found.arms[0].null}
    assert null["ece"] > 0.05
    assert [part.name for part in found.arms[0].parts if not part.holds] == ["top label", "classes"]
    assert found.verdict.direction == "miscalibrated"
    assert "Industrial: 8." in found.verdict.checks[1].text
