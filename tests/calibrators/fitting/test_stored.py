"""Fits that read the scores in pieces."""

import numpy as np
import pytest
import torch

from calibrant import InputError, Predictions
from calibrant._math.errors import CalibrantWarning
from calibrant.calibrators import Calibrator, FocalTemperatureScaling, TemperatureScaling, build, shift_of
from calibrant.calibrators.fitting import passes as stored
from calibrant.evaluation.fitting.templates import Labelled, fit_quietly

_DRAWS = np.random.default_rng(0)
PROBS = _DRAWS.dirichlet(0.5 / np.arange(1, 13), 400)
LABELS = torch.from_numpy((PROBS.cumsum(1) < _DRAWS.random((400, 1))).sum(1).clip(max=11))
WEIGHTS = torch.from_numpy(_DRAWS.random(400))
SHARP = Predictions(logits=1.7 * np.log(PROBS + 1e-9), labels=LABELS)


@pytest.mark.parametrize("made", [TemperatureScaling(), FocalTemperatureScaling()])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
def test_a_fit_in_pieces_is_the_fit(made: Calibrator, weights, monkeypatch) -> None:
    """To the tolerance of the search, with weights and without, whatever the size of the pieces."""
    monkeypatch.setattr(stored, "PIECE", 12 * 37)
    pieces = made.unfitted().fit_in_pieces(SHARP, LABELS, weights=weights)
    whole = made.unfitted().fit(SHARP.scores, LABELS, weights=weights)
    found, wanted = pieces.fit_result_, whole.fit_result_
    assert found.parameters == pytest.approx(wanted.parameters, rel=2e-8)
    assert found.before == pytest.approx(wanted.before, abs=1e-12)
    assert found.after == pytest.approx(wanted.after, abs=1e-12)
    assert (found.num_samples, pieces.num_classes_, found.converged) == (400, 12, True)
    torch.testing.assert_close(pieces(SHARP.scores), whole(SHARP.scores), atol=1e-6, rtol=1e-6)
    assert found.profile == wanted.profile


@pytest.mark.parametrize("made", [TemperatureScaling(), FocalTemperatureScaling()])
def test_pieces_may_be_of_any_unit(made: Calibrator, monkeypatch) -> None:
    monkeypatch.setattr(stored, "PIECE", 12 * 37)
    large = Predictions(logits=1e7 * SHARP.scores.numpy().astype(np.float64), labels=LABELS)
    found = made.unfitted().fit_in_pieces(large, LABELS).fit_result_
    wanted = made.unfitted().fit(large.scores, LABELS).fit_result_
    assert found.parameters == pytest.approx(wanted.parameters, rel=1e-6)
    assert found.before == pytest.approx(wanted.before, rel=1e-9)
    assert found.after == pytest.approx(wanted.after, abs=1e-9)


def test_what_the_data_look_like_is_kept_unless_the_classes_are_very_many(monkeypatch) -> None:
    """So that a shift is noticed; otherwise ``shift_of`` says what is not known."""
    wide = Predictions(logits=np.tile(SHARP.scores.numpy(), (3, 1)), labels=LABELS.repeat(3))
    monkeypatch.setattr(stored, "PIECE", 12 * 37)
    found = TemperatureScaling().fit_in_pieces(
        wide, wide.labels
    )  # of whose 1200 rows 1024 would be looked at
    whole = TemperatureScaling().fit(wide.scores, wide.labels)
    assert found.fit_result_.profile == whole.fit_result_.profile
    assert not shift_of(found, wide.scores).found
    monkeypatch.setattr(stored, "PROFILED", 1024 * 12 - 1)
    found = TemperatureScaling().fit_in_pieces(wide, wide.labels)
    assert found.fit_result_.profile is None
    with pytest.raises(
        InputError, match="must know the data it was fitted on, which fits to very many classes"
    ):
        shift_of(found, wide.scores)


def test_probabilities_of_zero_count_as_tiny_ones() -> None:
    probs = PROBS.copy()
    probs[:, 3] = 0
    given = Predictions(probs=probs / probs.sum(axis=1, keepdims=True), labels=LABELS)
    found = TemperatureScaling().fit_in_pieces(given, LABELS).fit_result_
    with pytest.warns(CalibrantWarning, match="400 probabilities of exactly zero"):
        whole = TemperatureScaling().fit(given.scores, LABELS).fit_result_
    assert found.parameters == pytest.approx(whole.parameters, rel=1e-6)
    assert found.warnings == whole.warnings


@pytest.mark.parametrize(("made", "passes"), [(TemperatureScaling(), 4), (FocalTemperatureScaling(), 7)])
def test_some_passes_over_the_scores_are_enough(made: Calibrator, passes: int, monkeypatch) -> None:
    """All that is read is these, and the rows that say where to begin; the fit tells both."""
    monkeypatch.setattr(stored, "PIECE", 12 * 37)
    monkeypatch.setattr(stored, "PROFILED", 0)
    read: list[int] = []

    class Counted:
        num_samples, num_classes = 400, 12

        def scores_of(self, rows: slice) -> torch.Tensor:
            read.append(len(SHARP.scores[rows]))
            return SHARP.scores[rows]

    result = made.unfitted().fit_in_pieces(Counted(), LABELS).fit_result_
    some = 400 // 8
    assert sum(read) == passes * 400 + some + 1  # a row is looked at first, to see whether there are columns
    assert max(read) == 37
    assert result.steps == passes
    assert result.message.endswith(f"; {passes} passes over the scores, and 12.50% of them again")


@pytest.mark.parametrize("name", ["all-right", "none-right", "noise", "one-wrong", "cosines", "flat"])
@pytest.mark.parametrize("made", [TemperatureScaling(), FocalTemperatureScaling()])
def test_odd_data_take_more_passes_and_end_where_they_do_in_memory(made, name, monkeypatch) -> None:
    monkeypatch.setattr(stored, "PIECE", 12 * 37)
    scores, top = SHARP.scores, SHARP.scores.argmax(1)
    labels = {
        "all-right": top,
        "none-right": (top + 1) % 12,
        "noise": torch.from_numpy(np.random.default_rng(1).integers(0, 12, 400)),
        "one-wrong": torch.where(torch.arange(400) == 5, (top + 3) % 12, top),
    }.get(name, LABELS)
    scores = scores * {"cosines": 1 / 300, "flat": 0}.get(name, 1)
    found = made.unfitted().fit_in_pieces(Predictions(logits=scores, labels=labels), labels).fit_result_
    wanted = fit_quietly(made.unfitted(), Labelled(scores, labels, None)).fit_result_
    assert found.after <= wanted.after + 1e-12
    assert found.before == pytest.approx(wanted.before, abs=1e-12)
    assert (found.warnings, found.converged) == (wanted.warnings, wanted.converged)
    assert found.steps <= 20


def test_rows_in_any_order() -> None:
    samples = stored.StoredSamples(SHARP, LABELS, None)
    rows = torch.from_numpy(_DRAWS.integers(0, 400, 90))
    assert torch.equal(samples.read(rows)[0], SHARP.scores[rows])


def test_what_cannot_is_refused() -> None:
    with pytest.raises(InputError, match=r"temperature\(objective=\"ece\"\) needs all scores at once"):
        build('temperature(objective="ece")').fit_in_pieces(SHARP, LABELS)
    assert not build("vector").fits_in_pieces
    event = Predictions(probs=[0.2, 0.7], labels=[0, 1])
    with pytest.raises(InputError, match=r"`source` must hold scores \(N, C\)"):
        TemperatureScaling().fit_in_pieces(event, [0, 1])

    class Broken:
        """Rows of which one holds what is no score."""

        num_samples, num_classes = 400, 12

        def scores_of(self, rows: slice) -> torch.Tensor:
            scores = SHARP.scores.clone()
            scores[7, 1] = torch.nan
            return scores[rows]

    with pytest.raises(InputError, match="row 7"):
        TemperatureScaling().fit_in_pieces(Broken(), LABELS)


@pytest.mark.parametrize(
    ("labels", "weights", "said"),
    [
        (LABELS + 1, None, r"`labels` must be in 0\.\.11; row"),
        (LABELS[:9], None, r"`labels` must have shape \(400,\)"),
        (LABELS.tolist(), WEIGHTS[:9], r"`weights` must have shape \(400,\)"),
        (LABELS, -WEIGHTS, "`weights` must be finite and not negative"),
    ],
)
def test_labels_and_weights_are_checked(labels, weights, said) -> None:
    with pytest.raises(InputError, match=said):
        TemperatureScaling().fit_in_pieces(SHARP, labels, weights=weights)


def test_samples_without_weight_are_left_out() -> None:
    weights = torch.where(torch.arange(400) < 300, WEIGHTS, 0.0)
    found = TemperatureScaling().fit_in_pieces(SHARP, LABELS.tolist(), weights=weights.tolist()).fit_result_
    wanted = TemperatureScaling().fit(SHARP.scores, LABELS, weights=weights).fit_result_
    assert found.parameters == pytest.approx(wanted.parameters, rel=1e-6)
    assert found.num_samples == wanted.num_samples
