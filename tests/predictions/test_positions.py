"""Segmentation: every position is a sample."""

import numpy as np
import pytest
import torch

from calibrant import InputError, metrics
from calibrant.calibrators import TemperatureScaling
from calibrant.predictions import predictions_of_positions


def pictures(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three pictures of 4 × 5 pixels, four classes; the first row of each picture is not labelled."""
    probs = rng.dirichlet(np.ones(4), size=(3, 4, 5)).transpose(0, 3, 1, 2)
    labels = rng.integers(0, 4, size=(3, 4, 5))
    labels[:, 0] = 255
    return probs, labels


def test_each_labelled_pixel_is_a_sample(rng) -> None:
    """Scores, labels, weights, groups and split follow their pixel; the rest is left out and said."""
    probs, labels = pictures(rng)
    counted = [place for place in np.ndindex(labels.shape) if labels[place] != 255]
    rows, truth = [probs[n, :, i, j] for n, i, j in counted], [labels[place] for place in counted]
    picture = [n for n, _, _ in counted]
    found = predictions_of_positions(
        probs=probs,
        labels=labels,
        ignore_index=255,
        weights=[1.0, 2.0, 3.0],
        groups=["a", "b", "a"],
        split=[0, 1, 1],
    )
    assert np.array_equal(found.values.numpy(), np.array(rows))
    assert found.labels.tolist() == truth
    assert found.weights.tolist() == [picture_number + 1.0 for picture_number in picture]
    assert list(found.groups) == ["aba"[n] for n in picture]
    assert found.split.tolist() == [min(n, 1) for n in picture]
    assert found.clusters == tuple(str(n) for n in picture)
    one = predictions_of_positions(probs=probs[:1], labels=labels[:1], ignore_index=255)
    assert (one.clusters, "too short" in one.notes[0]) == (None, True)
    assert found.notes[0].startswith("Every position counts as a sample of its own (3 samples, 45 positions)")


def test_weights_of_pixels_and_several_labels(rng) -> None:
    """Weights may be one per pixel; labels of the shape of the scores are several per pixel."""
    probs, labels = pictures(rng)
    mass = rng.random(labels.shape)
    found = predictions_of_positions(logits=probs, labels=labels, ignore_index=255, weights=mass)
    assert found.weights.numpy() == pytest.approx(mass[labels != 255])
    several = rng.integers(0, 2, size=probs.shape)
    found = predictions_of_positions(logits=probs, labels=several)
    assert found.kind == "multilabel"
    assert torch.equal(found.labels[7], torch.from_numpy(several[0, :, 1, 2]))


def test_metrics_take_the_same_shapes(rng) -> None:
    """``probs (N, C, d1, d2)`` give what their rows give, also with a weight per picture."""
    probs, labels = pictures(rng)
    labels[labels == 255] = 0
    rows = probs.transpose(0, 2, 3, 1).reshape(-1, 4)
    mass = np.array([1.0, 0.0, 2.0])
    for metric in (
        metrics.expected_calibration_error,
        metrics.classwise_calibration_error,
        metrics.smooth_calibration_error,
        metrics.negative_log_likelihood,
        metrics.accuracy,
    ):
        assert torch.equal(metric(probs, labels), metric(rows, labels.reshape(-1)))
        weighted = metric(rows, labels.reshape(-1), weights=np.repeat(mass, 20))
        assert torch.equal(metric(probs, labels, weights=mass), weighted)
    chosen = labels != 3
    streamed = metrics.CalibrationError(num_classes=4, ignore_index=3)
    streamed.update(torch.from_numpy(probs), torch.from_numpy(labels))
    by_hand = metrics.expected_calibration_error(np.moveaxis(probs, 1, -1)[chosen], labels[chosen])
    assert streamed.compute().item() == pytest.approx(by_hand.item(), abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "weights", "said"),
    [
        ([1, 0], None, r"`labels` must have shape \(3,\)"),
        (torch.tensor(1), None, r"`labels` must have shape \(3,\)"),
        ([[1], [0], [1]], None, r"pass `labels\[:, 0\]`"),
        ([1, 0, -1], [1.0, 2.0], r"`weights` must have shape \(3,\), one per sample; got \(2,\)"),
    ],
)
def test_shapes_are_checked_before_labels_are_ignored(labels, weights, said) -> None:
    """A metric and a fit say what does not go together, with an index to ignore as without."""
    probs = torch.tensor([[0.2, 0.8], [0.6, 0.4], [0.5, 0.5]])
    with pytest.raises(InputError, match=said):
        metrics.expected_calibration_error(probs, labels, weights=weights, ignore_index=-1)
    with pytest.raises(InputError, match=said):
        TemperatureScaling().fit(probs.log(), labels, weights=weights, ignore_index=-1)
