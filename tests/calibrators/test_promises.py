"""What every calibrator promises beyond the laws: coarse ones mend too, faults and hard data are told."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from calibrant import CalibrantWarning, InputError
from calibrant.calibrators import Calibrator, available, build

Make = Callable[..., Any]


def stated(scores: Tensor, kind: str) -> Tensor:
    return torch.softmax(scores, dim=1) if kind == "multiclass" else torch.sigmoid(scores)


def overdone(name: str) -> Calibrator:
    """The calibrator of that name with a fault: log-odds of what it says are divided by 6."""
    kind: Any = type(build(name))

    class Overdone(kind):
        def _transform(self, scores: Tensor) -> Tensor:
            mapped = super()._transform(scores) / 6  # a map without a slope leaves them 3 times too large
            return torch.log_softmax(mapped, dim=1) if self.kind_ == "multiclass" else mapped

    return Overdone()


@pytest.mark.usefixtures("few_points")
@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
def test_coarse_ones_undo_a_planted_map(coarse_entry: Any, kind: str, calibrated: Make) -> None:
    """Steps and jumping objectives bring probabilities back, or warn that they won by making all alike.

    Fifteen bins of equal width are the coarsest: of four classes they leave 62 % of the distance.
    """
    scores, labels = calibrated(kind, 4000)
    distorted = coarse_entry.distort(scores, kind)
    truth = stated(scores, kind)
    before = (stated(distorted, kind) - truth).abs().mean()
    fitted = coarse_entry.build().fit(distorted, labels)
    after = (fitted.predict_proba(distorted) - truth).abs().mean()
    assert before > 0.03
    collapsed = any("they barely differ" in warning for warning in fitted.fit_result_.warnings)
    assert collapsed or after < 0.7 * before
    assert not collapsed or (kind != "multiclass" and "temperature" in coarse_entry.name)


@pytest.mark.parametrize("name", available())
def test_every_over_correction_is_said(name: str, calibrated: Make) -> None:
    kind = build(name).kinds[0]
    scores, labels = calibrated(kind, 2000)
    with pytest.warns(CalibrantWarning, match="it over-corrects: on held-out folds it says"):
        overdone(name).fit(3 * scores, labels, folds=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        build(name).fit(3 * scores, labels, folds=3)
    assert not any("over-corrects" in str(warning.message) for warning in caught)


@pytest.mark.parametrize("case", ["every sample right", "one class only", "constant", "five samples"])
@pytest.mark.parametrize("name", available())
def test_hard_data_is_told(name: str, case: str, calibrated: Make) -> None:
    """Separable, one class, constant, few: a warning that stays in the result, or an error; never silence."""
    for kind in build(name).kinds:
        scores, labels = calibrated(kind, 60)
        best = scores.argmax(dim=1) if kind == "multiclass" else (scores > 0).to(torch.int64)
        data = {
            "every sample right": (scores, best),
            "one class only": (scores, torch.zeros_like(labels)),
            "constant": (torch.zeros_like(scores), labels),
            "five samples": (scores[:5], labels[:5]),
        }[case]
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                fitted = build(name).fit(*data)
            except InputError:
                continue
        assert fitted.fit_result_.warnings, kind
        assert any(warning.category is CalibrantWarning for warning in caught), kind
        assert torch.isfinite(fitted.predict_proba(data[0])).all()
