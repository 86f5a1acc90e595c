"""Scores come in any unit, with an offset, with some far out, in any dtype: the same, or a warning."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from calibrant import CalibrantWarning
from calibrant.calibrators import build
from calibrant.calibrators.fitting.data import SILENT
from rosters_calibrators import usual

pytestmark = pytest.mark.usefixtures("few_points")

Make = Callable[..., Any]

# Two descents to a gradient of 1e-8; free forms and errors of bins are a matter of single samples.
_SAME, _ABOUT = 1e-6, 0.02


def fitted(entry: Any, scores: Tensor, labels: Tensor) -> tuple[Any, list[str]]:
    """A fit, and what it warned of; it warns if it did not converge."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        calibrator = entry.build().fit(scores, labels)
    told = [str(warning.message) for warning in caught]
    assert calibrator.fit_result_.converged or told
    return calibrator, told


def assert_alike(entry: Any, one: Tensor, other: Tensor, labels: Tensor, *, exactly: bool = True) -> None:
    """The same probabilities, or of what single samples decide about, an objective that is about as low."""
    assert torch.isfinite(one).all()
    if entry.smooth and entry.exhaustive and exactly:
        torch.testing.assert_close(one, other, rtol=0, atol=_SAME)
    else:
        assert entry.metric(one, labels) < entry.metric(other, labels) + _ABOUT


def lenient(data: Any) -> tuple[Tensor, Tensor]:
    """Scores that are over-confident by 1.7."""
    return 1.7 * data.scores, data.labels


def test_probabilities_do_not_depend_on_the_unit(searching_entry: Any, kind: str, calibrated: Make) -> None:
    """Each kind is tried at two of three scales."""
    scores, labels, calibrator = usual(searching_entry, kind, calibrated)
    scales = {"binary": (1e-6, 1e8), "multiclass": (1e-6, 1e3), "multilabel": (1e3, 1e8)}
    for scale in scales[kind]:
        scaled, told = fitted(searching_entry, scale * scores, labels)
        if not told:
            found, wanted = scaled.predict_proba(scale * scores), calibrator.predict_proba(scores)
            assert_alike(searching_entry, found, wanted, labels)


def test_an_offset_says_nothing(searching_entry: Any, kind: str, calibrated: Make) -> None:
    """A number added to the logits of each sample, or to log-odds where there is an intercept."""
    scores, labels, calibrator = usual(searching_entry, kind, calibrated)
    if kind != "multiclass" and not searching_entry.build().mends_frequencies:
        pytest.skip("temperatures hold log-odds of zero where they are")
    generator = torch.Generator().manual_seed(0)
    offset: Tensor | float = -300.0
    if kind == "multiclass":
        offset = 300 * torch.randn(len(labels), 1, generator=generator, dtype=torch.float64)
    moved, told = fitted(searching_entry, scores + offset, labels)
    if not told:
        line = searching_entry.name == "beta"  # which is no curve far from zero
        found, wanted = moved.predict_proba(scores + offset), calibrator.predict_proba(scores)
        assert_alike(searching_entry, found, wanted, labels, exactly=not line)


@pytest.mark.parametrize("scale", [1.0, 1e3])
@pytest.mark.parametrize(
    "name", ["temperature", "focal-temperature", "smoothed-temperature", "ensemble-temperature"]
)
def test_an_offset_that_no_temperature_undoes_is_said(name: str, scale: float, calibrated: Make) -> None:
    """Margins around -300: the best temperature gives every sample about the share of positives."""
    scores, labels = calibrated("binary", 400)
    with pytest.warns(CalibrantWarning, match="far on one side of zero, so no temperature"):
        build(name).fit(scale * (scores - 300), labels)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(name).fit(scores - 3, torch.bernoulli(torch.sigmoid(scores - 3)).long())
    assert not any("one side of zero" in str(warning.message) for warning in caught)


def test_a_few_far_out_do_not_spoil_the_rest(searching_entry: Any, kind: str, calibrated: Make) -> None:
    """Two scores of 600 are larger by ten thousand times, and right."""
    scores, labels, calibrator = usual(searching_entry, kind, calibrated)
    outlying = scores.clone()
    outlying[:2] *= torch.tensor([1e4, 1e5]).reshape(2, *[1] * (scores.ndim - 1))
    labels = labels.clone()
    labels[:2] = scores[:2].argmax(dim=1) if kind == "multiclass" else (scores[:2] > 0).long()
    spoilt, told = fitted(searching_entry, outlying, labels)
    if not told:
        found, wanted = spoilt.predict_proba(outlying), calibrator.predict_proba(scores)
        assert_alike(searching_entry, found[2:], wanted[2:], labels[2:], exactly=False)


def test_dtype_does_not_matter(searching_entry: Any, kind: str, calibrated: Make) -> None:
    """A fit to rounded scores is that to the same numbers in float64; each kind has a dtype of its own."""
    scores, labels = lenient(calibrated(kind, 150))
    dtypes = {"binary": torch.float16, "multiclass": torch.float32, "multilabel": torch.bfloat16}
    rounded = scores.to(dtypes[kind])
    one, told = fitted(searching_entry, rounded, labels)
    other, expected = fitted(searching_entry, rounded.double(), labels)
    assert told == expected
    found, wanted = one.predict_proba(rounded), other.predict_proba(rounded.double())
    assert_alike(searching_entry, found, wanted, labels)


def test_digits_lost_to_an_offset_are_said(class_entry: Any, kind: str, calibrated: Make) -> None:
    """Half precision knows few numbers about 1000, so that scores of order one become alike."""
    scores, labels = lenient(calibrated(kind, 200))
    dtype = torch.bfloat16 if kind == "multiclass" else torch.float16
    _, told = fitted(class_entry, (scores + 1000).to(dtype), labels)
    assert any("rounds them to" in text for text in told)


def test_no_fit_stops_early_in_silence(
    searching_entry: Any, kind: str, calibrated: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where steps run out, ``converged`` is false and a warning says so."""
    monkeypatch.setattr("calibrant._math.newton.MAX_STEPS", 2)
    monkeypatch.setattr("calibrant._math.convex_minimum.MAX_STEPS", 2)
    monkeypatch.setattr("calibrant.calibrators.fitting.regression._MAX_STEPS", 1)
    scores, labels = calibrated(kind, 150, scale=6.0)
    calibrator, told = fitted(searching_entry, scores, labels)
    if not calibrator.fit_result_.converged:
        assert any("stopped before it arrived" in text for text in told)


def test_calibrators_that_read_log_probabilities_say_when_they_are_none(calibrated: Make) -> None:
    """Beta, Dirichlet and free forms of several classes are maps of probabilities: the unit matters."""
    scores, labels = lenient(calibrated("multiclass", 300))
    names = "dirichlet", "isotonic", "histogram", "venn-abers", "bayesian-binning", "ensemble-temperature"
    for name in names:
        for scale, found in ((1e3, "above 50"), (1e-3, "below 0.02")):
            with pytest.warns(CalibrantWarning, match=f"the best temperature is {found}"):
                build(name).fit(scale * scores, labels)


def test_a_class_that_never_occurs_is_named_by_every_calibrator(
    class_entry: Any, kind: str, calibrated: Make
) -> None:
    scores, labels = calibrated(kind, 300)
    absent = 2 if kind == "multiclass" else 1
    there = labels != absent if kind != "multilabel" else torch.ones(300, dtype=torch.bool)
    labels = labels.clone()
    if kind == "multilabel":
        labels[:, 1] = 0
    calibrator, _ = fitted(class_entry, scores[there], labels[there])
    of_label = "label 1: " if kind == "multilabel" else ""
    sentence = (
        f"{of_label}class {absent} never occurs among the labels, so the fit can't know how probable it is"
    )
    assert calibrator.fit_result_.warnings.count(sentence) == 1


def test_many_classes_that_never_occur_are_counted() -> None:
    logits = torch.randn(50, 20, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with pytest.warns(CalibrantWarning, match="classes 2, 3, 4, 5, 6 and 13 more never occur"):
        build("temperature").fit(logits, torch.arange(50) % 2)


def test_scores_that_rank_the_wrong_way_are_told_by_every_calibrator(
    searching_entry: Any, kind: str, calibrated: Make
) -> None:
    scores, labels = calibrated(kind, 300)
    calibrator, _ = fitted(searching_entry, -scores, labels)
    told = [text for text in calibrator.fit_result_.warnings if text.endswith(SILENT)]
    assert len(told) == (2 if kind == "multilabel" else 1)
    right = usual(searching_entry, kind, calibrated).fitted.fit_result_
    assert not any(text.endswith(SILENT) for text in right.warnings)


def test_weights_that_sum_to_one_count_as_many_samples(class_entry: Any, kind: str, calibrated: Make) -> None:
    """Shares of 1 / N are no counts: with them a fit is that without weights, and it says so."""
    scores, labels, calibrator = usual(class_entry, kind, calibrated)
    with pytest.warns(CalibrantWarning, match="the `weights` sum to 1, so they were divided by"):
        shared = class_entry.build().fit(scores, labels, weights=torch.full((400,), 1 / 400))
    found, wanted = shared.predict_proba(scores), calibrator.predict_proba(scores)
    assert_alike(class_entry, found, wanted, labels)
    assert (found - wanted).abs().mean() < _ABOUT
