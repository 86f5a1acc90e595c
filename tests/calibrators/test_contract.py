"""The laws that every calibrator keeps, and that each of them catches a calibrator that does not."""

from __future__ import annotations

import copy
import math
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from calibrant import CalibrantWarning, InputError, NotFittedError, load_calibrator
from calibrant.calibrators import Calibrator, PlattScaling, TemperatureScaling, available
from calibrant.calibrators.fitting.samples import Samples
from rosters_calibrators import CALIBRATORS, Entry, in_turns, usual

pytestmark = [
    # Fits on little data have reason to warn; what they warn of is tested where it belongs.
    pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning"),
    pytest.mark.usefixtures("few_points"),
]

Make = Callable[..., Any]


@dataclass(frozen=True)
class Planted:
    """What a law asks of an entry of the roster, for a calibrator with a fault."""

    build: Callable[[], Calibrator]
    distort: Callable[[Tensor, str], Tensor] = lambda scores, _: 1.8 * scores
    metric: Callable[..., Tensor] = lambda probs, labels: torch.nn.functional.nll_loss(probs.log(), labels)
    smooth: bool = True
    allowance: Callable[[int], float] = lambda _: 0.0
    learns_from_equal_scores: bool = False


def identity_is_recovered(entry: Any, kind: str, calibrated: Make) -> None:
    """Calibrated data are left as they are."""
    scores, labels = calibrated(kind, 4000)
    probs = entry.build().fit(scores, labels).predict_proba(scores)
    # Sampling error: 4000 samples tell a temperature to 2 %, which moves probabilities by half of that.
    assert (probs - stated(scores, kind)).abs().mean() < 0.015


def planted_map_is_recovered(entry: Any, kind: str, calibrated: Make) -> None:
    scores, labels = calibrated(kind, 4000)
    distorted = entry.distort(scores, kind)
    probs = entry.build().fit(distorted, labels).predict_proba(distorted)
    assert (stated(distorted, kind) - stated(scores, kind)).abs().mean() > 0.03
    assert (probs - stated(scores, kind)).abs().mean() < 0.015  # as above


def coarse_searches_undo_a_planted_map(entry: Any, kind: str, calibrated: Make) -> None:
    """Steps and jumping objectives bring probabilities back, or warn that they won by making all alike.

    Fifteen bins of equal width are the coarsest: of four classes they leave 62 % of the distance.
    """
    scores, labels = calibrated(kind, 4000)
    distorted, truth = entry.distort(scores, kind), stated(scores, kind)
    before = (stated(distorted, kind) - truth).abs().mean()
    fitted = entry.build().fit(distorted, labels)
    after = (fitted.predict_proba(distorted) - truth).abs().mean()
    assert before > 0.03
    collapsed = any("they barely differ" in warning for warning in fitted.fit_result_.warnings)
    assert collapsed or after < 0.7 * before
    assert not collapsed or (kind != "multiclass" and "temperature" in entry.name)


def objective_is_never_above_the_identity(entry: Any, kind: str, calibrated: Make) -> None:
    """The objective falls, and is the metric of the predictions."""
    for seed, scale in enumerate((0.3, 2.0, 8.0)):
        scores, labels = calibrated(kind, 120, scale=scale, seed=seed)
        calibrator = entry.build().fit(2 - scores if seed == 1 else scores, labels)
        result = calibrator.fit_result_
        # The coarse grid's T = 1 is a sum of ten tenths, 1e-16 off.
        assert result.after <= result.before + 1e-12 + entry.allowance(len(labels))
        probs = calibrator.predict_proba(2 - scores if seed == 1 else scores)
        assert math.isclose(float(entry.metric(probs, labels)), result.after, rel_tol=1e-9, abs_tol=1e-12)


def argmax_is_kept(entry: Any, kind: str, calibrated: Make) -> None:
    scores, _, fitted = usual(entry, kind, calibrated)
    probs = fitted.predict_proba(scores)
    if kind == "multiclass":
        assert torch.equal(probs.argmax(dim=1), scores.argmax(dim=1))
        order = scores.argsort(dim=1)
        assert (probs.gather(1, order).diff(dim=1) >= 0).all()
    else:
        assert torch.equal(probs > 0.5, scores > 0)


def relabelling_changes_nothing(entry: Any, kind: str, calibrated: Make) -> None:
    """Classes in another order give the same, in that order."""
    scores, labels, fitted = usual(entry, kind, calibrated)
    probs = fitted.predict_proba(scores)
    if kind == "binary":
        other = 1 - entry.build().fit(-scores, 1 - labels).predict_proba(-scores)
    else:
        order = torch.tensor([2, 0, 3, 1] if kind == "multiclass" else [1, 0])
        moved = labels[:, order] if kind == "multilabel" else order.argsort()[labels]
        other = entry.build().fit(scores[:, order], moved).predict_proba(scores[:, order])[:, order.argsort()]
    if entry.smooth:
        torch.testing.assert_close(other, probs, rtol=0, atol=1e-7)  # two descents to a gradient of 1e-8
    else:  # equal-width bins are closed on the right, so events and their opposites differ where a bin ends
        assert (other - probs).abs().mean() < 0.02


def fit_arrives(entry: Any, kind: str, calibrated: Make) -> None:
    """On data that ask for nothing unusual a fit has converged, and says so."""
    assert usual(entry, kind, calibrated).fitted.fit_result_.converged


def rows_may_come_in_any_order(entry: Any, kind: str, calibrated: Make) -> None:
    """Samples in another order give the same."""
    scores, labels, one = usual(entry, kind, calibrated)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))
    other = entry.build().fit(scores[order], labels[order])
    torch.testing.assert_close(one.predict_proba(scores), other.predict_proba(scores), rtol=0, atol=1e-7)


def file_predicts_the_same_bits(entry: Any, kind: str, calibrated: Make) -> None:
    scores, _, fitted = usual(entry, kind, calibrated)
    calibrator = copy.deepcopy(fitted)
    calibrator.class_names_ = ("a", "b", "c", "d") if kind == "multiclass" else ("a", "b")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fitted.safetensors"
        calibrator.save(path)
        loaded = load_calibrator(path)
    assert torch.equal(loaded.predict_proba(scores), calibrator.predict_proba(scores))
    assert torch.equal(loaded(scores.float()), calibrator(scores.float()))
    assert type(loaded) is type(calibrator)
    for name in ("settings", "fit_result_", "kind_", "num_classes_", "class_names_"):
        assert getattr(loaded, name) == getattr(calibrator, name)


def gradients_are_finite(entry: Any, kind: str, calibrated: Make) -> None:
    """Of scores of any size, with classes far apart, level or far behind: no infinity times 0."""
    fitted = usual(entry, kind, calibrated).fitted
    for size in (15.0, 40.0, 1e3, 1e4):
        rows = torch.tensor([[1.0, 0.02, 0.01, 0.0], [1.0, 1.0, -1.0, 0.0], [-1.0, 0.0, 1.0, 0.3]])
        scores = size * rows.double()[:, : {"binary": 1, "multilabel": 2}.get(kind, 4)]
        scores = (scores[:, 0] if kind == "binary" else scores).requires_grad_()
        for output in fitted(scores).reshape(-1):
            (gradient,) = torch.autograd.grad(output, scores, retain_graph=True)
            assert bool(gradient.isfinite().all()), size


def unfitted_is_refused(entry: Any, kind: str, calibrated: Make) -> None:
    """Use before ``fit`` is refused."""
    scores, _ = calibrated(kind, 10)
    with pytest.raises(NotFittedError, match="call fit"):
        entry.build()(scores)
    with pytest.raises(NotFittedError, match="call fit"):
        entry.build().predict_proba(scores)


def refit_is_a_fit(entry: Any, kind: str, calibrated: Make) -> None:
    """A refit to other data is as good as a fit to them; the first stays, and a next one knows of none."""
    usual_scores, usual_labels, first = usual(entry, kind, calibrated)
    scores, labels = usual_scores[60:], usual_labels[60:]
    before = first.predict_proba(scores)
    again, fresh = first.refit(scores, labels), entry.build().fit(scores, labels)
    assert math.isclose(again.fit_result_.after, fresh.fit_result_.after, rel_tol=1e-9, abs_tol=1e-12)
    assert again.fit_result_.data_sha256 == fresh.fit_result_.data_sha256
    assert again.fit(usual_scores, usual_labels).fit_result_ == first.fit_result_  # the start is forgotten
    assert torch.equal(again.predict_proba(scores), before)
    assert torch.equal(first.predict_proba(scores), before)


def weights_count_copies(entry: Any, kind: str, calibrated: Make) -> None:
    scores, labels = calibrated(kind, 120)
    counts = torch.randint(0, 4, (120,), generator=torch.Generator().manual_seed(2))
    weighted = entry.build().fit(1.6 * scores, labels, weights=counts)
    copied = entry.build().fit(1.6 * scores.repeat_interleave(counts, 0), labels.repeat_interleave(counts, 0))
    assert math.isclose(weighted.fit_result_.before, copied.fit_result_.before, rel_tol=1e-12)
    assert math.isclose(weighted.fit_result_.after, copied.fit_result_.after, rel_tol=1e-9, abs_tol=1e-12)
    if entry.smooth:
        difference = weighted.predict_proba(scores) - copied.predict_proba(scores)
        assert difference.abs().max() < 1e-7  # two descents to a gradient of 1e-8


def hard_data_is_survived(entry: Any, kind: str, calibrated: Make) -> None:
    """Finite, and never worse than the identity, on hard data; where little can be learned, a warning."""
    for name, scores, labels in hard_cases(kind, calibrated):
        calibrator = entry.build().fit(scores, labels)
        result, probs = calibrator.fit_result_, calibrator.predict_proba(scores)
        assert torch.isfinite(probs).all(), name
        assert result.after <= result.before + 1e-12 + entry.allowance(len(labels)), name
        assert all(math.isfinite(value) for value in result.certificate.values()), name
        told = name in {"one class only", "every sample right", "five samples"}
        if told or (name == "constant logits" and not entry.learns_from_equal_scores):
            assert result.warnings, name
        if kind == "multiclass":
            torch.testing.assert_close(probs.sum(dim=1), torch.ones(len(probs), dtype=torch.float64))


def nan_is_refused(entry: Any, kind: str, calibrated: Make) -> None:
    scores, labels, fitted = usual(entry, kind, calibrated)
    spoilt = scores.clone()
    spoilt[17] = math.nan
    with pytest.raises(InputError, match="row 17"):
        entry.build().fit(spoilt, labels)
    with pytest.raises(InputError, match="row 17"):
        fitted.predict_proba(spoilt)
    with pytest.raises(InputError, match="row 17"):
        fitted(spoilt)


def objective_is_smooth(entry: Any, kind: str, calibrated: Make) -> None:
    """The objective has derivatives by the scale of the scores: halved steps quarter second differences."""
    assert bends(entry, kind, calibrated) < 0.3


def objective_bends(entry: Any, kind: str, calibrated: Make) -> None:
    """What is said to have no derivatives has corners, which halve with the step, or jumps, which stay."""
    assert bends(entry, kind, calibrated) > 0.35


def bends(entry: Any, kind: str, calibrated: Make) -> float:
    """By how much the largest second difference falls when the step is halved: as stated, or as fitted."""
    found: list[float] = []
    for num_samples, fit in ((60, False), (200, True)):
        scores, labels = calibrated(kind, num_samples, scale=1.5)
        fitted = entry.build().fit(1.3 * scores, labels) if fit else None
        say = fitted.predict_proba if fitted is not None else lambda scores: stated(scores, kind)
        scales = torch.linspace(0.7, 2.4, 121, dtype=torch.float64)
        values = torch.stack([entry.metric(say(scale * scores), labels) for scale in scales])
        found.append(float(values.diff(n=2).abs().max() / values[::2].diff(n=2).abs().max()))
    return max(found)


def argmax_is_moved(entry: Any, kind: str, calibrated: Make) -> None:
    """Where the order of the classes is not promised to stay, it changes on some data."""
    with pytest.raises(AssertionError):  # noqa: PT011, PT012
        for seed in range(4):
            scores, labels = calibrated(kind, 300, seed=seed)
            distorted = entry.distort(scores, kind) + (0.7 if kind != "multiclass" else 0.0)
            argmax_is_kept(entry, kind, lambda *_, data=(distorted, labels): data)


def weights_are_no_copies(entry: Any, kind: str, calibrated: Make) -> None:
    """Where weights are not said to count copies, some data show that they do not."""
    with pytest.raises(AssertionError):  # noqa: PT011, PT012
        for seed in range(8):
            weights_count_copies(entry, kind, lambda *args, seed=seed: calibrated(*args, seed=seed))


def search_is_coarse(entry: Any, kind: str, calibrated: Make) -> None:
    """What searches a grid finds the same place for data that hardly differ."""
    scores, labels = calibrated(kind, 200)
    one, other = (entry.build().fit(factor * scores, labels) for factor in (1.6, 1.60001))
    assert torch.equal(one.predict_proba(scores), other.predict_proba(scores))


def allowance_is_needed(entry: Any, kind: str, calibrated: Make) -> None:
    """What may end above the identity does so on some data."""
    scores, _ = calibrated(kind, 120, scale=900.0)
    best = scores.argmax(dim=1) if kind == "multiclass" else (scores > 0).to(torch.int64)
    result = entry.build().fit(scores, best).fit_result_
    assert result.after > result.before + 1e-9


def other_kinds_are_refused(entry: Any, kind: str, calibrated: Make) -> None:
    with pytest.raises(InputError, match="needs"):
        entry.build().fit(*calibrated(kind, 60))


def stated(scores: Tensor, kind: str) -> Tensor:
    return torch.softmax(scores, dim=1) if kind == "multiclass" else torch.sigmoid(scores)


def hard_cases(kind: str, calibrated: Make) -> list[tuple[str, Tensor, Tensor]]:
    """Data on which fits have come to grief."""
    scores, labels = calibrated(kind, 60)
    best = scores.argmax(dim=1) if kind == "multiclass" else (scores > 0).to(torch.int64)
    worst = scores.argmin(dim=1) if kind == "multiclass" else (scores < 0).to(torch.int64)
    return [
        ("one class only", scores, torch.zeros_like(labels)),
        ("every sample right", scores, best),
        ("every sample wrong", scores, worst),
        ("constant logits", torch.zeros_like(scores), labels),
        ("equal rows", scores[:1].expand_as(scores), labels),
        ("five samples", scores[:5], labels[:5]),
        ("one sample", scores[:1], labels[:1]),
        ("huge logits", 1e6 * scores, labels),
        ("tiny logits", 1e-9 * scores, labels),
        ("few distinct values", scores.round(), labels),
        ("probabilities of zero", torch.where(scores < -3, -math.inf, scores), labels),
    ]


def of_kinds(entry: Any) -> tuple[str, ...]:
    return entry.kinds


def of_one_label(entry: Any) -> tuple[str, ...]:
    """All but several labels, whose columns are fitted one by one as events are."""
    return tuple(kind for kind in entry.kinds if kind != "multilabel")


def of_one_kind(entry: Any) -> tuple[str, ...]:
    """The first of them, which tells as much as the others."""
    return entry.kinds[:1]


def of_other_kinds(entry: Any) -> tuple[str, ...]:
    return tuple(kind for kind in Entry.kinds if kind not in entry.build().kinds)


# Each law, the entries that claim (or deny) it, and the kinds of predictions that it is asked about.
LAWS: list[tuple[Callable[..., None], Callable[[Any], bool], Callable[[Any], tuple[str, ...]]]] = [
    (identity_is_recovered, lambda entry: entry.smooth and entry.exhaustive, of_one_label),
    (planted_map_is_recovered, lambda entry: entry.smooth and entry.exhaustive, of_kinds),
    (coarse_searches_undo_a_planted_map, lambda entry: not (entry.smooth and entry.exhaustive), of_kinds),
    (objective_is_never_above_the_identity, lambda _: True, of_one_label),
    (argmax_is_kept, lambda entry: entry.keeps_argmax, of_kinds),
    (argmax_is_moved, lambda entry: not entry.keeps_argmax, of_kinds),
    (relabelling_changes_nothing, lambda _: True, of_kinds),
    (fit_arrives, lambda _: True, of_kinds),
    (rows_may_come_in_any_order, lambda _: True, of_kinds),
    (file_predicts_the_same_bits, lambda entry: not entry.searched_as_another, of_kinds),
    (gradients_are_finite, lambda _: True, of_kinds),
    (unfitted_is_refused, lambda _: True, of_kinds),
    (refit_is_a_fit, lambda entry: not entry.searched_as_another, of_kinds),
    (weights_count_copies, lambda entry: entry.replicates, of_kinds),
    (weights_are_no_copies, lambda entry: not entry.replicates, of_one_kind),
    (hard_data_is_survived, lambda entry: not entry.searched_as_another, of_one_label),
    (nan_is_refused, lambda _: True, of_kinds),
    (objective_is_smooth, lambda entry: entry.smooth, of_one_kind),
    (objective_bends, lambda entry: not entry.smooth, of_one_kind),
    (search_is_coarse, lambda entry: not entry.exhaustive, of_one_kind),
    (allowance_is_needed, lambda entry: entry.allowance(100) > 0, of_kinds),
    (other_kinds_are_refused, lambda _: True, of_other_kinds),
]


@pytest.mark.parametrize(
    ("law", "entry", "kind"),
    [
        pytest.param(law, entry, kind, id=f"{law.__name__}-{entry.name}-{kind}")
        for turn, (law, wanted, kinds) in enumerate(LAWS)
        for entry in filter(wanted, CALIBRATORS)
        for kind in in_turns(entry, kinds(entry), turn)
    ],
)
def test_law(law: Callable[..., None], entry: Any, kind: str, calibrated: Make) -> None:
    law(entry, kind, calibrated)


def test_no_rows_give_none(searching_entry: Any, kind: str, calibrated: Make) -> None:
    scores, _, calibrator = usual(searching_entry, kind, calibrated)
    assert calibrator.predict_proba(scores[:0]).shape == scores[:0].shape
    assert calibrator(scores[:0].float()).dtype == torch.float32
    if kind != "binary":
        with pytest.raises(InputError, match=r"must have the shape \(N, "):
            calibrator.predict_proba(scores[:0, :1])


def transforming(transform: Callable[..., Tensor]) -> type[TemperatureScaling]:
    """Temperature scaling with a fault; ``transform`` gets it, its usual map, and scores."""

    class Faulty(TemperatureScaling):
        def _transform(self, scores: Tensor) -> Tensor:
            return transform(self, super()._transform, scores)

    return Faulty


Colder = transforming(lambda _, usual, scores: usual(1.3 * scores))
Untouched = transforming(lambda self, usual, scores: usual(scores * self.temperature.to(scores)))
Reversed = transforming(lambda _, usual, scores: usual(-scores))
Biased = transforming(lambda _, usual, scores: usual(scores + 0.5 * torch.eye(4).to(scores)[0]))
Stepping = transforming(lambda _, usual, scores: (16 * usual(scores)).round() / 16)
Overflowing = transforming(
    lambda self, _, scores: torch.nn.functional.normalize((scores / self.temperature).exp(), p=1).log()
)


class Rounding(TemperatureScaling):
    """Keeps its parameters in half precision in files."""

    def restore(self, parameters: Any, *args: Any, **keywords: Any) -> None:
        narrow = {name: value.half().double() for name, value in parameters.items()}
        fresh = "fit_result_" not in self.__dict__ and keywords.get("class_names")
        super().restore(narrow if fresh else parameters, *args, **keywords)


class Eager(TemperatureScaling):
    """Answers before it was asked to fit."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.kind_, self.num_classes_, self.temperature = "multiclass", 4, torch.ones((), dtype=torch.float64)
        self.class_names_ = None


class Remembering(TemperatureScaling):
    """Starts where the last fit ended and stops half-way."""

    def restore(self, parameters: Any, *args: Any, **keywords: Any) -> None:
        before = self.temperature if "fit_result_" in self.__dict__ else None
        super().restore(parameters, *args, **keywords)
        self.temperature = self.temperature if before is None else (before + self.temperature) / 2


class Lazy(TemperatureScaling):
    def _solve_near(self, start: Any, samples: Samples) -> Any:
        solution = self._solve(samples)
        reached = torch.nn.functional.cross_entropy(samples.scores / start["temperature"], samples.labels)
        return replace(solution, after=float(reached))


class Unweighted(TemperatureScaling):
    """Forgets the weights, but for those of zero."""

    def _solve(self, samples: Samples) -> Any:
        return super()._solve(Samples(samples.scores, samples.labels, None))


class Restless(TemperatureScaling):
    def _solve(self, samples: Samples) -> Any:
        return replace(super()._solve(samples), converged=False)


class FirstRows(TemperatureScaling):
    def _solve(self, samples: Samples) -> Any:
        half = -(-len(samples.labels) // 2)
        return super()._solve(Samples(samples.scores[:half], samples.labels[:half], samples.weights))


class Careless(TemperatureScaling):
    def fit(self, logits: Any, labels: Any, *, weights: Any = None) -> Careless:
        """Fit on zeros in place of NaN."""
        super().fit(torch.as_tensor(logits).nan_to_num(0.0), labels, weights=weights)
        return self


@pytest.mark.parametrize(
    ("law", "fault"),
    [
        (identity_is_recovered, Colder),
        (planted_map_is_recovered, Untouched),
        (coarse_searches_undo_a_planted_map, Untouched),
        (objective_is_never_above_the_identity, Colder),
        (argmax_is_kept, Reversed),
        (relabelling_changes_nothing, Biased),
        (fit_arrives, Restless),
        (rows_may_come_in_any_order, FirstRows),
        (gradients_are_finite, Overflowing),
        (unfitted_is_refused, Eager),
        (refit_is_a_fit, Remembering),
        (refit_is_a_fit, Lazy),
        (weights_count_copies, Unweighted),
        (hard_data_is_survived, Overflowing),
        (nan_is_refused, Careless),
        (objective_is_smooth, Stepping),
        # what is denied although it holds
        (objective_bends, TemperatureScaling),
        (argmax_is_moved, TemperatureScaling),
        (weights_are_no_copies, TemperatureScaling),
        (search_is_coarse, TemperatureScaling),
        (allowance_is_needed, TemperatureScaling),
        (other_kinds_are_refused, TemperatureScaling),
    ],
    ids=lambda value: value.__name__,
)
def test_law_bites(law: Callable[..., None], fault: type[Calibrator], calibrated: Make) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception), match=r"."):
        law(Planted(fault), "multiclass", calibrated)


def test_every_law_bites() -> None:
    """No law is without a fault that it catches; that of files has its own below."""
    (mark,) = test_law_bites.pytestmark  # pyright: ignore[reportFunctionMemberAccess]
    assert {law for law, *_ in LAWS} - {law for law, _ in mark.args[1]} == {file_predicts_the_same_bits}


def test_law_of_files_bites(calibrated: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    from calibrant.calibrators import roster

    monkeypatch.setitem(roster.CALIBRATORS, "temperature", Rounding)
    with pytest.raises(AssertionError, match="equal"):
        file_predicts_the_same_bits(Planted(Rounding), "multiclass", calibrated)


def test_platt_law_bites(calibrated: Make) -> None:
    """Recovering a planted shift fails for a Platt scaling that forgets its intercept."""

    class Centred(PlattScaling):
        def _transform(self, scores: Tensor) -> Tensor:
            return scores * self.slope.to(scores)

    entry = Planted(Centred, distort=lambda scores, _: 1.8 * (scores + 1.2))
    with pytest.raises(AssertionError, match="mean"):
        planted_map_is_recovered(entry, "binary", calibrated)


def test_warnings_are_given_and_kept() -> None:
    """What a fit warns of stands in its result too, and stays with copies of the calibrator."""
    scores, labels = torch.tensor([1.0, 2.0, -1.0]), torch.tensor([1, 1, 0])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = TemperatureScaling().fit(scores, labels)
    assert len(fitted.fit_result_.warnings) == 2
    (told,) = (str(warning.message) for warning in caught if warning.category is CalibrantWarning)
    assert told == f"temperature: {'; '.join(fitted.fit_result_.warnings)}."
    assert copy.deepcopy(fitted).fit_result_ == fitted.fit_result_


def test_every_calibrator_is_in_the_roster() -> None:
    """Nothing escapes the laws, and the roster promises no kind that a calibrator is not for."""
    missing = sorted(set(available()) - {entry.build().name for entry in CALIBRATORS})
    assert not missing, f"add an Entry(...) for {', '.join(missing)} to tests/rosters_calibrators.py"
    assert all(set(entry.kinds) <= set(entry.build().kinds) for entry in CALIBRATORS)
