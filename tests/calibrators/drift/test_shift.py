"""What a calibrator remembers of the data of its fit, and when new data count as different."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from calibrant import InputError, NotFittedError, load_calibrator
from calibrant.calibrators import PlattScaling, TemperatureScaling, build, shift_of
from calibrant.calibrators.drift import FALSE_ALARMS
from calibrant.calibrators.fitting.results import NUM_BINS, profile_of

pytestmark = pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")

KEY = "calibrant.calibrator"


def draw(kind: str, num_samples: int, seed: int, *, scale: float = 2.0, shift: float = 0.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    shape = {"binary": (num_samples,), "multiclass": (num_samples, 4), "multilabel": (num_samples, 3)}[kind]
    scores = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
    if kind == "multiclass":
        scores[:, 0] += shift
        return scores
    return scores + shift


def fit(kind: str, scores: Tensor, **settings: Any) -> Any:
    """A temperature fitted on labels drawn from the scores."""
    generator = torch.Generator().manual_seed(99)
    if kind == "multiclass":
        labels = torch.multinomial(scores.softmax(dim=1), 1, generator=generator)[:, 0]
    else:
        labels = torch.bernoulli(scores.sigmoid(), generator=generator).long()
    return TemperatureScaling().fit(scores, labels, **settings)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_profile_is_what_numpy_says(kind: str) -> None:
    scores = draw(kind, 500, 0)
    generator = torch.Generator().manual_seed(99)
    table = scores.numpy()
    if kind == "multiclass":
        probs = np.exp(table) / np.exp(table).sum(axis=1, keepdims=True)
        labels = torch.multinomial(scores.softmax(dim=1), 1, generator=generator)[:, 0]
        prior, confidence = np.bincount(labels, minlength=4) / 500, probs.max(axis=1)
    else:
        probs = confidence = 1 / (1 + np.exp(-table))
        labels = torch.bernoulli(scores.sigmoid(), generator=generator).long()
        prior = labels.double().mean(dim=0).numpy()
        if kind == "binary":
            probs, prior = np.stack([1 - probs, probs], axis=1), np.array([1 - prior, prior])
    profile = TemperatureScaling().fit(scores, labels).fit_result_.profile
    np.testing.assert_allclose(profile.class_prior, prior, atol=1e-12)
    np.testing.assert_allclose(profile.mean_probs, probs.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(profile.spreads, probs.std(axis=0), atol=1e-12)
    edges = 1 / (1 + np.exp(-np.array(profile.edges)))
    counts = np.histogram(confidence, [0, *edges, 1])[0] / confidence.size
    np.testing.assert_allclose(profile.shares, counts, atol=1e-12)
    np.testing.assert_allclose(profile.shares, 1 / NUM_BINS, atol=1 / 500 + 1e-12)
    assert profile.num_rows == pytest.approx(500)
    counted = torch.arange(500) % 3
    weighted = TemperatureScaling().fit(scores, labels, weights=counted).fit_result_.profile
    copied = TemperatureScaling().fit(
        scores.repeat_interleave(counted, 0), labels.repeat_interleave(counted, 0)
    )
    for name in ("class_prior", "mean_probs", "spreads"):
        np.testing.assert_allclose(
            getattr(weighted, name), getattr(copied.fit_result_.profile, name), atol=1e-12
        )


def test_files_of_older_versions_are_read(tmp_path: Path) -> None:
    """A file without a profile loads and predicts; only the comparison is refused, with the remedy."""
    path = tmp_path / "c.safetensors"
    scores = draw("binary", 300, 0)
    calibrator = fit("binary", scores)
    calibrator.save(path)
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()[KEY])
    del header["fit"]["profile"]
    header["format_version"] = 1
    save_file(load_file(path), path, metadata={KEY: json.dumps(header)})
    loaded = load_calibrator(path)
    assert torch.equal(loaded.predict_proba(scores), calibrator.predict_proba(scores))
    with pytest.raises(InputError, match=r"must know the data it was fitted on.*fit it again"):
        shift_of(loaded, scores)


@pytest.mark.parametrize(
    ("kind", "num_before", "num_after"),
    [("binary", 100, 100), ("multiclass", 1000, 200), ("multilabel", 200, 2000)],
)
def test_chance_alone_raises_no_alarm(kind: str, num_before: int, num_after: int) -> None:
    """Of 60 pairs of samples of one origin none counts as shifted, and few exceed the noise."""
    beyond = [0, 0]
    for seed in range(60):
        found = shift_of(fit(kind, draw(kind, num_before, seed)), draw(kind, num_after, 1000 + seed))
        assert not found.found
        beyond[0] += found.distance > found.noise
        beyond[1] += found.class_distance > found.class_noise
    # Binomial with p = 1e-3: more than 2 of 60 have a probability of 3e-5.
    assert FALSE_ALARMS == 1e-3
    assert max(beyond) <= 2


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_rows_that_take_turns_are_seen_as_they_are(kind: str) -> None:
    """Labels in a rhythm do not make the rows that a profile looks at unlike the rest."""
    generator = torch.Generator().manual_seed(0)
    num_classes = 2 if kind == "binary" else 10
    labels = torch.arange(20_000) % num_classes
    if kind == "binary":
        scores = 2.0 * (2 * labels - 1) + torch.randn(len(labels), generator=generator)
    else:
        scores = 3 * torch.nn.functional.one_hot(labels, num_classes) + torch.randn(
            len(labels), num_classes, generator=generator
        )
    found = profile_of(scores, labels, None, kind)
    np.testing.assert_allclose(found.mean_probs, found.class_prior, atol=0.03)


def test_noise_is_no_more_than_need_be() -> None:
    """The bound is within a factor of two and a half of the distances that do occur: it is not just large."""
    distances, bounds = [], []
    for seed in range(100):
        found = shift_of(fit("binary", draw("binary", 1000, seed)), draw("binary", 1000, 500 + seed))
        distances.append(found.distance)
        bounds.append(found.noise)
    assert max(bounds) < 2.5 * np.quantile(distances, 0.99)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_shifts_are_found(kind: str) -> None:
    calibrator = fit(kind, draw(kind, 2000, 0))
    sharper = shift_of(calibrator, draw(kind, 1000, 1, scale=6.0))
    assert sharper.found
    assert not sharper.changes
    assert "confidences differ" in sharper.sentences[0]
    moved = shift_of(calibrator, draw(kind, 1000, 1, shift=2.0))
    assert moved.found
    first = {"binary": "class 1", "multiclass": "class 0", "multilabel": "label 0"}[kind]
    assert first in {change.name for change in moved.changes}
    assert len(moved.changes) == {"binary": 1, "multiclass": 1, "multilabel": 3}[kind]
    assert "mean probability" in str(moved)


def test_rare_classes_that_double_are_found() -> None:
    """A class at 1 % that comes to 4 % is a shift, though confidences hardly differ."""
    scores = draw("binary", 20_000, 0, scale=1.0, shift=-5.0)
    generator = torch.Generator().manual_seed(0)
    calibrator = PlattScaling().fit(scores, torch.bernoulli(scores.sigmoid(), generator=generator).long())
    calibrator.class_names_ = ("well", "ill")
    new = draw("binary", 20_000, 1, scale=1.0, shift=-5.0)
    new[:600] = 3.0
    found = shift_of(calibrator, new)
    assert found.distance - found.noise < 0.1
    assert found.class_distance < 0.05
    assert [change.name for change in found.changes] == ["ill"]
    assert "The mean probability of ill is 0.03" in str(found)


def test_the_noise_of_a_class_is_the_empirical_bernstein_bound() -> None:
    """Maurer and Pontil's for either sample, for both sides of four classes in two samples."""
    scores, new = draw("multiclass", 300, 0), draw("multiclass", 200, 1, shift=4.0)
    (change,) = shift_of(fit("multiclass", scores), new).changes
    exponent = math.log(4 * 4 / FALSE_ALARMS)
    expected = sum(
        math.sqrt(2 * exponent / len(each)) * each.softmax(dim=1)[:, 0].std(correction=1).item()
        + 7 * exponent / (3 * (len(each) - 1))
        for each in (scores, new)
    )
    assert change.noise == pytest.approx(expected, rel=1e-9)


def test_the_noise_of_the_confidences_is_mcdiarmids_bound() -> None:
    """Of two samples alike: half the sum of the deviations of the shares, and what a row may move."""
    scores = draw("binary", 400, 0)
    calibrator = fit("binary", scores)
    found = shift_of(calibrator, scores.repeat(2))
    shares, variance = np.array(calibrator.fit_result_.profile.shares), 1 / 400 + 1 / 800
    deviations = np.sqrt(shares * (1 - shares) * variance)
    expected = deviations.sum() / 2 + math.sqrt(variance / 2 * math.log(1 / FALSE_ALARMS))
    assert found.distance == pytest.approx(0, abs=1e-12)
    assert found.noise == pytest.approx(expected, rel=1e-9)


def test_missing_classes_are_found() -> None:
    """Of ten classes half are gone: no confidence tells, no single class changed much, together they did."""
    labels = torch.arange(6000) % 10
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(6000, 10, generator=generator) + 4 * torch.nn.functional.one_hot(labels, 10)
    calibrator = TemperatureScaling().fit(scores[:3000], labels[:3000])
    new = scores[3000:]
    assert not shift_of(calibrator, new).found
    found = shift_of(calibrator, new[labels[3000:] < 5])
    assert found.distance - found.noise < 0.1
    assert found.class_distance - found.class_noise > 0.1
    assert "mean class probabilities differ" in str(found)


def test_equal_scores_stay_in_their_bin() -> None:
    """Coarse scores, and the same rounded to float32, look the same."""
    scores = draw("binary", 2000, 0).mul(2).round() / 3
    calibrator = fit("binary", scores)
    assert shift_of(calibrator, scores).distance < 1e-12
    assert shift_of(calibrator, scores.float()).distance < 1e-12
    assert sum(calibrator.fit_result_.profile.shares) == pytest.approx(1)


def test_hard_data_are_survived() -> None:
    """One sample, all samples alike, and probabilities of zero have a profile, and JSON takes it."""
    for scores in (
        torch.zeros(1, 3),
        torch.zeros(50, 3),
        torch.tensor([[0.0, -math.inf, 1.0]] * 20),
        torch.tensor([[0.0, 1e8, 1.0]] * 20),
    ):
        calibrator = build("temperature").fit(scores, torch.zeros(len(scores)))
        profile = calibrator.fit_result_.profile
        assert all(math.isfinite(edge) for edge in profile.edges)
        assert sum(profile.shares) == pytest.approx(1)
        assert not shift_of(calibrator, scores).found


def test_another_number_of_classes_is_refused(calibrated: Callable[..., Any]) -> None:
    calibrator = TemperatureScaling().fit(*calibrated("multiclass", 100))
    with pytest.raises(InputError, match="the 4 columns that temperature was fitted on; got 3"):
        shift_of(calibrator, torch.zeros(5, 3))
    with pytest.raises(NotFittedError, match="call fit"):
        shift_of(TemperatureScaling(), torch.zeros(5, 3))
