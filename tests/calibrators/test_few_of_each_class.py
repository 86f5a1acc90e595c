"""Many classes and few samples of each: no calibrator is worse than none on samples held out."""

import math
import warnings

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from calibrant import CalibrantWarning
from calibrant.calibrators import Calibrator, available, build

HELD_OUT = 2000
EXCUSED = {("bayesian-binning", 50)}  # takes minutes
FREE_FORMS = ["isotonic", "venn-abers", "histogram", "scaling-binning"]
CASES = [
    (name, *size, *shape)
    for name in available()
    for size in [(10, 100), (50, 500)]
    for shape in [(1.0, 0.0), (1.8, 0.0), (0.6, 0.0), (1.3, 1.5)][:: size[0] // 20 + 1]
    if "multiclass" in build(name).kinds and (name, size[0]) not in EXCUSED
]

# Right shapes of few numbers are worse than none by about half a parameter over N; 100 over 1000 at most.
ESTIMATED = 0.05


def planted(
    num_classes: int, num_samples: int, *, stated: float = 1.0, falling: float = 0.0, seed: int = 0
) -> tuple[Tensor, Tensor]:
    """Logits ``stated`` times the true ones, and labels; class k is rarer by ``(k + 1) ** -falling``."""
    generator = torch.Generator().manual_seed(seed)
    rows = num_samples + HELD_OUT
    logits = 3 * torch.randn(rows, num_classes, generator=generator, dtype=torch.float64)
    logits -= falling * torch.arange(1, num_classes + 1).log()
    labels = torch.multinomial(logits.softmax(dim=1), 1, generator=generator)[:, 0]
    return stated * logits, labels


def fit(name: str, logits: Tensor, labels: Tensor, num_samples: int) -> Calibrator:
    """To the first samples, whatever there is to warn of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return build(name).fit(logits[:num_samples], labels[:num_samples])


def rise_and_error(calibrator: Calibrator, logits: Tensor, labels: Tensor) -> tuple[float, float]:
    """By how much log loss is higher than uncalibrated on the samples held out, and its standard error."""
    held, truth = logits[-HELD_OUT:], labels[-HELD_OUT:]
    losses = -calibrator.predict_proba(held).gather(1, truth[:, None])[:, 0].log()
    rises = losses - cross_entropy(held, truth, reduction="none")
    return float(rises.mean()), float(rises.std()) / math.sqrt(HELD_OUT)


@pytest.mark.parametrize(("name", "num_classes", "num_samples", "stated", "falling"), CASES)
@pytest.mark.usefixtures("few_points")
def test_no_worse_than_uncalibrated(
    name: str, num_classes: int, num_samples: int, stated: float, falling: float
) -> None:
    logits, labels = planted(num_classes, num_samples, stated=stated, falling=falling)
    rise, error = rise_and_error(fit(name, logits, labels, num_samples), logits, labels)
    assert rise < ESTIMATED + 3 * error


@pytest.mark.parametrize("name", FREE_FORMS)
def test_share_of_the_original_is_found_and_said(name: str) -> None:
    """All of it where logits are right; less where they are not, and then log loss falls."""
    logits, labels = planted(20, 400)
    with pytest.warns(CalibrantWarning, match="the rarest class has .* nothing was changed"):
        right = build(name).fit(logits[:400], labels[:400])
    assert right.fit_result_.parameters["original"] == 1
    logits = 2.5 * logits
    with pytest.warns(CalibrantWarning, match="of the probabilities as they came were mixed in"):
        over = build(name).fit(logits[:400], labels[:400])
    assert 0 < over.get_buffer("original") < 1
    rise, error = rise_and_error(over, logits, labels)
    assert rise < -3 * error


def test_kept_ties_are_kept() -> None:
    """Who asks that no share be mixed in gets none, and is told of the noise."""
    logits, labels = planted(20, 400, stated=2.5)
    with pytest.warns(CalibrantWarning, match="the rarest class has .* follows noise"):
        calibrator = build('isotonic(ties="kept")').fit(logits[:400], labels[:400])
    assert calibrator.fit_result_.parameters["original"] == 0


@pytest.mark.parametrize("name", FREE_FORMS)
def test_enough_of_each_class_is_left_alone(name: str) -> None:
    """At 30 samples of every class nothing is mixed in but what isotonic regression always does."""
    logits, labels = planted(10, 600, stated=2.5)
    assert labels[:600].bincount().min() >= 30
    share = fit(name, logits, labels, 600).fit_result_.parameters["original"]
    assert share == (1 / 601 if name == "isotonic" else 0)


@pytest.mark.parametrize("name", FREE_FORMS)
@pytest.mark.parametrize("seed", [0, 1])
def test_rare_classes_among_many_samples(name: str, seed: int) -> None:
    """Each class counts by itself: 40 samples a class on average leave too few of the rare ones."""
    logits, labels = planted(20, 800, stated=1.3, falling=1.5, seed=seed)
    with pytest.warns(CalibrantWarning, match="of the samples, few for a function of its own"):
        calibrator = build(name).fit(logits[:800], labels[:800])
    rise, error = rise_and_error(calibrator, logits, labels)
    assert rise < 2 * error


@pytest.mark.parametrize(("num_classes", "num_samples"), [(10, 100), (50, 500), (20, 300)])
@pytest.mark.parametrize("falling", [0.0, 1.5])
def test_shifts_of_few_samples_are_held(num_classes: int, num_samples: int, falling: float) -> None:
    for seed in range(3):
        logits, labels = planted(num_classes, num_samples, falling=falling, seed=seed)
        with pytest.warns(CalibrantWarning, match="parameters are many for .* samples, so"):
            calibrator = build("bias-corrected-temperature").fit(logits[:num_samples], labels[:num_samples])
        rise, error = rise_and_error(calibrator, logits, labels)
        assert rise < 0.02 + 2 * error


def test_shifts_of_many_samples_are_free() -> None:
    """From 20 samples a class on, mean probabilities are frequencies; fewer do show shifts that are large."""
    logits, labels = planted(10, 200)
    logits[:, 3] += 2
    for count in (200, 100):
        calibrator = fit("bias-corrected-temperature", logits, labels, count)
        means = calibrator.predict_proba(logits[:count]).mean(dim=0)
        off = (means - labels[:count].bincount(minlength=10) / count).abs().max()
        assert off < (1e-8 if count == 200 else 0.1)
        assert calibrator.get_buffer("bias").argmin() == 3


def test_weights_count_copies() -> None:
    """The share is that of the same rows written out: alike they are held out together."""
    logits, labels = planted(10, 80, stated=2.5)
    rows, weights = slice(80), torch.arange(80) % 2 + 1
    copies = torch.arange(80).repeat_interleave(weights)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        weighted = build("venn-abers").fit(logits[rows], labels[rows], weights=weights)
        written = build("venn-abers").fit(logits[copies], labels[copies])
    torch.testing.assert_close(weighted.predict_proba(logits), written.predict_proba(logits))
