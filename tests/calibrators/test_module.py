"""Calibrators as modules: types, devices, gradients, copies, and what may be passed to them."""

import copy
import functools
import pickle
import re
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from calibrant import CalibrantWarning, InputError
from calibrant.calibrators import FocalTemperatureScaling, TemperatureScaling, build
from calibrant.calibrators.fitting.samples import LOG_ODDS_LIMIT, floor_zero_probabilities

KINDS = ("binary", "multiclass", "multilabel")


@functools.cache
def fitted(name: str, kind: str, calibrated: Callable[..., Any]) -> tuple[Any, Tensor]:
    """A calibrator fitted on over-confident predictions, and these; both are read only."""
    scores, labels = calibrated(kind, 200)
    return build(name).fit(3 * scores, labels), 3 * scores


@pytest.fixture(
    params=[*product(("temperature", "focal-temperature"), KINDS), ("matrix", "multiclass")], ids=str
)
def case(request: pytest.FixtureRequest, calibrated: Callable[..., Any]) -> tuple[Any, Tensor]:
    return fitted(*request.param, calibrated)


def probabilities(calibrator: Any, scores: Tensor) -> Tensor:
    """What the forward pass says, as probabilities."""
    return calibrator(scores).exp() if calibrator.kind_ == "multiclass" else calibrator(scores).sigmoid()


def test_forward_and_predict_proba_agree(case: tuple[Any, Tensor]) -> None:
    calibrator, scores = case
    probs = calibrator.predict_proba(scores)
    assert probs.shape == scores.shape
    assert probs.dtype == torch.float64
    torch.testing.assert_close(probabilities(calibrator, scores), probs, rtol=1e-12, atol=1e-15)
    if calibrator.kind_ == "multiclass":
        torch.testing.assert_close(probs.sum(dim=1), torch.ones(200, dtype=torch.float64), rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    # float32 is computed in float32; the halves are rounded to their 11 and 8 bits, of logits up to 20.
    [(torch.float32, 1e-5), (torch.float16, 1e-2), (torch.bfloat16, 1e-1)],
)
def test_forward_keeps_the_type(case: tuple[Any, Tensor], dtype: torch.dtype, tolerance: float) -> None:
    """The forward pass returns what it was given, predict_proba float64."""
    calibrator, scores = case
    narrow = scores.to(dtype)
    assert calibrator(narrow).dtype == dtype
    assert calibrator.predict_proba(narrow).dtype == torch.float64
    expected = calibrator.predict_proba(narrow)
    assert (probabilities(calibrator, narrow).double() - expected).abs().max() < tolerance


def test_arrays_and_lists_are_taken(case: tuple[Any, Tensor]) -> None:
    calibrator, scores = case
    expected = calibrator.predict_proba(scores)
    assert torch.equal(calibrator.predict_proba(scores.numpy()), expected)
    assert torch.equal(calibrator.predict_proba(scores.tolist()), expected)
    assert torch.equal(
        calibrator.predict_proba(scores.int()), calibrator.predict_proba(scores.int().double())
    )
    assert calibrator(scores.int().numpy()).dtype == torch.float64


def test_fit_takes_arrays(calibrated: Callable[..., Any]) -> None:
    scores, labels = calibrated("binary", 100)
    expected = TemperatureScaling().fit(scores, labels).temperature
    for others in (labels.numpy(), labels.tolist(), labels.double(), labels.bool().numpy()):
        assert torch.equal(TemperatureScaling().fit(scores.numpy(), others).temperature, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_in_place_of_logits_are_noticed(kind: str, calibrated: Callable[..., Any]) -> None:
    """A fit to probabilities goes through, as they might be logits, but says so; a fit to logits does not."""
    scores, labels = calibrated(kind, 400)
    probs = scores.softmax(dim=1) if kind == "multiclass" else scores.sigmoid()
    with pytest.warns(CalibrantWarning, match="as probabilities do: pass their log"):
        TemperatureScaling().fit(probs, labels)
    told = TemperatureScaling().fit(scores, labels).fit_result_.warnings
    assert not any("as probabilities do" in text for text in told)


def test_weak_log_odds_are_not_taken_for_probabilities() -> None:
    """Those of a model that is never sure may all lie in 0..1."""
    generator = torch.Generator().manual_seed(0)
    weak = 0.5 + 0.15 * torch.randn(4000, generator=generator).clamp(-2.5, 2.5)
    labels = torch.bernoulli((3 * (weak - 0.3)).sigmoid(), generator=generator).long()
    told = TemperatureScaling().fit(weak, labels).fit_result_.warnings
    assert not any("as probabilities do" in text for text in told)


def test_many_rows_are_calibrated_in_blocks(
    case: tuple[Any, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrator, scores = case
    whole, forward = calibrator.predict_proba(scores), calibrator(scores)

    def three_rows(table: Tensor) -> Any:
        return (slice(start, start + 3) for start in range(0, len(table), 3))

    monkeypatch.setattr("calibrant.calibrators.base.row_slices", three_rows)
    torch.testing.assert_close(calibrator.predict_proba(scores), whole, rtol=1e-13, atol=0)
    torch.testing.assert_close(calibrator(scores), forward, rtol=1e-12, atol=1e-15)


def test_gradients_reach_the_logits(case: tuple[Any, Tensor]) -> None:
    """The forward pass can stand at the end of a network that is trained, or explained."""
    calibrator, scores = case
    few = scores[:6].clone().requires_grad_()
    assert torch.autograd.gradcheck(calibrator, (few,))


def test_state_of_an_unfitted_one_unfits() -> None:
    calibrator = TemperatureScaling().fit([1.0, -1.0, 2.0, 0.5] * 3, [1, 0, 0, 1] * 3)
    calibrator.load_state_dict(TemperatureScaling().state_dict())
    assert not hasattr(calibrator, "fit_result_")


def test_copies_predict_the_same(case: tuple[Any, Tensor]) -> None:
    calibrator, scores = case
    for other in (copy.deepcopy(calibrator), pickle.loads(pickle.dumps(calibrator))):
        assert torch.equal(other.predict_proba(scores), calibrator.predict_proba(scores))
        assert other.fit_result_ == calibrator.fit_result_


def test_parameters_stay_double(case: tuple[Any, Tensor]) -> None:
    calibrator, scores = case
    before = calibrator.predict_proba(scores)
    for narrow in (calibrator.half, lambda: calibrator.to(torch.float32)):
        narrowed = narrow()
        assert list(narrowed.parameters()) == []  # nothing to train by accident
        assert {value.dtype for value in narrowed.buffers()} == {torch.float64}
        assert torch.equal(narrowed.predict_proba(scores), before)


def test_parameters_follow_the_device(calibrated: Callable[..., Any]) -> None:
    """``.to(device)`` moves them (the meta device stands for any other)."""
    calibrator = copy.deepcopy(fitted("focal-temperature", "multilabel", calibrated)[0])
    calibrator.to("meta")
    assert {value.device.type for value in calibrator.buffers()} == {"meta"}


def test_representation_tells_settings_and_fit() -> None:
    """What is printed is the call that makes it, and after a fit its parameters."""
    assert (
        repr(build('temperature(objective="ece")'))
        == "TemperatureScaling(objective='ece', search='continuous')"
    )
    calibrator = TemperatureScaling().fit(torch.full((12,), 2.0), [1, 1, 1, 0] * 3)
    assert f"temperature={calibrator.fit_result_.parameters['temperature']}" in repr(calibrator)


@pytest.mark.parametrize("name", ["temperature", "focal-temperature"])
def test_scores_of_another_form_are_refused(name: str, calibrated: Callable[..., Any]) -> None:
    calibrator, scores = fitted(name, "multiclass", calibrated)
    with pytest.raises(InputError, match=f"the 4 columns that {name} was fitted on; got 3"):
        calibrator.predict_proba(scores[:, :3])
    with pytest.raises(InputError, match="must be multiclass; got binary"):
        calibrator(scores[:, 0])
    calibrator, scores = fitted(name, "binary", calibrated)
    with pytest.raises(InputError, match="must be binary"):
        calibrator.predict_proba(scores[:, None].expand(-1, 3))


def test_the_callers_tensors_are_left_alone(calibrated: Callable[..., Any]) -> None:
    scores, labels = calibrated("multiclass", 60)
    before = scores.clone(), labels.clone()
    calibrator = FocalTemperatureScaling(objective="ece").fit(scores.requires_grad_(), labels)
    assert not any(value.requires_grad for value in calibrator.buffers())
    assert calibrator(scores).requires_grad
    assert not calibrator.predict_proba(scores).requires_grad
    assert torch.equal(scores, before[0])
    assert torch.equal(labels, before[1])


def test_zero_probabilities_are_floored() -> None:
    """In logits, log 1e-12 of the row; in log-odds, that of 1e-12 or of 1 - 1e-12."""
    scores = torch.tensor([[0.0, -torch.inf], [3.0, 3.0]], dtype=torch.float64)
    floored, count = floor_zero_probabilities(scores, "multiclass")
    assert count == 1
    assert floored[0].tolist() == [0.0, pytest.approx(np.log(1e-12), rel=1e-14)]
    assert floored[1].tolist() == [3.0, 3.0]
    odds, count = floor_zero_probabilities(torch.tensor([torch.inf, -torch.inf, 50.0]), "binary")
    assert count == 2
    np.testing.assert_allclose(odds.numpy(), [LOG_ODDS_LIMIT, -LOG_ODDS_LIMIT, 50.0], rtol=1e-7)
    # None passes a class whose probability is positive, however small.
    scores = torch.tensor([[0.0, -40.0, -torch.inf, -35.0]], dtype=torch.float64)
    assert floor_zero_probabilities(scores, "multiclass")[0].tolist() == [[0.0, -40.0, -40.0, -35.0]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("temprature", "there is no calibrator 'temprature'; did you mean 'temperature'?"),
        ("focal_temperature", "did you mean 'focal-temperature'?"),
        ("xyz", "choose 'temperature', 'focal-temperature', 'platt'"),
        ("temperature(objektive='nll')", "has no setting 'objektive'; did you mean 'objective'?"),
        ("temperature(objective='nil')", '`objective` must be one of "nll", "ece", "adaptive_ece", "brier"'),
        ("temperature(search='full')", '`search` must be one of "continuous", "grid"'),
        ("focal-temperature(selection='always')", "`selection` must be one of"),
        ("isotonic(ties='some')", "`ties` must be"),
        ("isotonic(functions='one')", "`functions` must be"),
        ("histogram(num_bins=0)", "`num_bins` must be"),
        ("histogram(prior=-1.0)", "`prior` must be"),
        ("histogram(prior=1e999)", "`prior` must be"),
        ("scaling-binning(num_bins=0)", "`num_bins` must be"),
        ("dirichlet(off_diagonal=-1.0)", "`off_diagonal` must be"),
        ("structured-matrix(strength=0.0)", "`strength` must be"),
        ("structured-matrix(structure='full')", "`structure` must be"),
        ("venn-abers(folds=1)", "`folds` must be 0 for none, or at least 2; got 1"),
        ("platt(a=1)", "calibrator 'platt' has no setting 'a'"),
    ],
)
def test_build_says_what_is_wrong(text: str, message: str) -> None:
    """A wrong name or setting is answered with the nearest right one, or with all."""
    with pytest.raises(InputError, match=re.escape(message)):
        build(text)
