"""Real files, read as they are; the numbers are those that their READMEs give."""

import pytest

from calibrant._math.errors import InputError
from calibrant.predictions import Predictions, load_predictions

pytestmark = pytest.mark.real_data

NOISY = ("Not used: `noisy_labels_val`, `noisy_labels_test`.",)
# file, samples, classes, accuracy, mean confidence; half of the samples are for calibration
CLASSES = [
    ("logits_cifar10_vgg16_probs/cifar10_vgg16", 10000, 10, 0.9359, 0.9756),
    ("logits_eurosat_rgb/eurosat_rgb", 7589, 10, 0.9369, 0.9427),
    ("logits_netcal_cifar/lenet-5-cifar-10", 10000, 10, 0.5308, 0.6387),
    ("probs_crossval_cleanlab/20news_test", 7532, 20, 0.9234, 0.7223),
    ("probs_pycalib_small/kitti_1layer_NN", 9090, 2, 0.9617, 0.9603),
]
TOP_LABELS = [
    ("ImageNet_torchvision__densenet161", 50000, 0.7714, 0.8278),
    ("ImageNet_pytorch_image_models__efficientnet_b3a", 50000, 0.8187, 0.6950),
    ("markus93__probs_densenet40_c10_logits", 10000, 0.9242, 0.9791),
    ("other__snacks", 952, 0.8634, 0.8665),
]
HALF_A_DIGIT = 5.1e-5  # the READMEs give four decimals


def means(predictions: Predictions) -> tuple[float, float]:
    return predictions.correct.double().mean().item(), predictions.confidence.mean().item()


@pytest.mark.parametrize(("name", "num_samples", "num_classes", "accuracy", "confidence"), CLASSES)
def test_real_classes(data_folder, name, num_samples, num_classes, accuracy, confidence) -> None:
    found = load_predictions(data_folder / f"{name}.npz")
    assert (found.kind, found.num_samples, found.num_classes) == ("multiclass", num_samples, num_classes)
    assert found.notes == ()
    assert means(found) == pytest.approx((accuracy, confidence), abs=HALF_A_DIGIT)
    assert found.calibration.num_samples == num_samples // 2
    assert found.test.num_samples == num_samples - num_samples // 2


@pytest.mark.parametrize(("name", "num_samples", "accuracy", "confidence"), TOP_LABELS)
def test_real_top_labels(data_folder, name, num_samples, accuracy, confidence) -> None:
    found = load_predictions(data_folder / "toplabel_confidences" / f"{name}.npz")
    assert (found.kind, found.num_samples, found.num_classes) == ("top_label", num_samples, None)
    assert (found.notes, found.has_calibration) == ((), False)
    assert means(found) == pytest.approx((accuracy, confidence), abs=HALF_A_DIGIT)


@pytest.mark.parametrize(
    ("name", "size", "num_classes", "calibration", "test"),
    [
        ("mnist-10", 5000, 10, (0.9476, 0.9033), (0.9468, 0.9052)),
        ("ham10000", 2341, 8, (0.7339, 0.6951), (0.7527, 0.7018)),
    ],
)
def test_real_pairs(data_folder, name, size, num_classes, calibration, test) -> None:
    """The paired form gives both splits with their own accuracies; the noisy labels are named as not used."""
    found = load_predictions(data_folder / "logits_valtest_noisycal" / f"{name}.npz")
    assert (found.kind, found.num_classes, found.notes) == ("multiclass", num_classes, NOISY)
    for part, expected in ((found.calibration, calibration), (found.test, test)):
        assert part.num_samples == size
        assert means(part) == pytest.approx(expected, abs=HALF_A_DIGIT)


def test_real_binary(data_folder) -> None:
    found = load_predictions(data_folder / "probs_ecg_chagas" / "ecg_chagas.npz")
    assert (found.kind, found.num_classes, found.notes) == ("binary", 2, ())
    for part, size, positives, mean in (
        (found.calibration, 19904, 365, 0.3151),
        (found.test, 59700, 1215, 0.3134),
    ):
        assert (part.num_samples, int(part.labels.sum())) == (size, positives)
        assert part.probs.mean().item() == pytest.approx(mean, abs=HALF_A_DIGIT)


def test_real_multilabel(data_folder) -> None:
    path = data_folder / "logits_chestxray14_multilabel" / "chestxray14_densenet121.npz"
    found = load_predictions(path)
    assert (found.kind, found.num_samples, found.num_classes, found.notes) == ("multilabel", 16082, 14, ())
    for label, positives, mean in (("Atelectasis", 1576, 0.4268), ("Hernia", 40, 0.1688)):
        column = found.class_names.index(label)
        assert int(found.labels[:, column].sum()) == positives
        assert found.probs[:, column].mean().item() == pytest.approx(mean, abs=HALF_A_DIGIT)


def test_real_files_that_hold_no_predictions(data_folder) -> None:
    """The five largest probabilities of each sample are not enough, and images are no predictions."""
    with pytest.raises(InputError, match="only the largest probabilities of each sample"):
        load_predictions(data_folder / "top5_imagenet_cifar10" / "resnet18_pytorch_cifar10.npz")
    with pytest.raises(InputError, match="found no predictions in `x_train`, `y_train`, `x_test`, `y_test`"):
        load_predictions(data_folder / "mnist" / "mnist.npz")


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".safetensors", ".pt"])
@pytest.mark.parametrize(
    "name",
    [
        "probs_crossval_cleanlab/20news_test",
        "logits_valtest_noisycal/ham10000",
        "toplabel_confidences/other__snacks",
    ],
)
def test_real_round_trip(data_folder, tmp_path, name, ending, assert_same) -> None:
    found = load_predictions(data_folder / f"{name}.npz")
    found.save(tmp_path / f"p{ending}")
    again = load_predictions(tmp_path / f"p{ending}")
    assert_same(again, found, dtype=again.values.dtype if ending == ".csv" else None)
    assert again.notes == ()
