"""The laws that every metric of the roster obeys, and faults that they catch."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from calibrant._math.errors import InputError

CLOSED_FORM = 1e-12
TASKS = ("binary", "multiclass", "multilabel")


class Problem(NamedTuple):
    """Probabilities and labels of one task."""

    task: str
    probs: np.ndarray
    labels: np.ndarray

    def rows(self, index: Any) -> Problem:
        """The same task on some of the rows."""
        return Problem(self.task, self.probs[index], self.labels[index])


def draw_problem(task: str, num_samples: int, num_classes: int, seed: int, *, dyadic: bool) -> Problem:
    """Random probabilities; ``dyadic`` ones are multiples of 1/16: exact in any dtype, with ties, 0 and 1."""
    rng = np.random.default_rng(seed)
    if task == "multiclass":
        labels = rng.integers(0, num_classes, num_samples)
        probs = rng.dirichlet(np.full(num_classes, 0.5), num_samples)
        if dyadic:
            probs = np.stack([rng.multinomial(16, row) for row in probs]) / 16
        return Problem(task, probs, labels)
    shape = (num_samples,) if task == "binary" else (num_samples, num_classes)
    probs = rng.integers(0, 17, shape) / 16 if dyadic else rng.uniform(size=shape)
    return Problem(task, probs, (rng.uniform(size=shape) < 0.4).astype(np.int64))


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Problems of every task and many sizes."""
    return draw_problem(
        draw(st.sampled_from(TASKS)),
        draw(st.integers(1, 30)),
        draw(st.integers(2, 5)),
        draw(st.integers(0, 2**32 - 1)),
        dyadic=draw(st.booleans()),
    )


def defined(metric: Any, problem: Problem) -> bool:
    """Whether the metric has a value there."""
    if not metric.needs_both:
        return True
    if problem.task == "multiclass":
        return len(np.unique(problem.labels)) == problem.probs.shape[1] > 1
    means = problem.labels.mean(axis=0)
    return bool(((means > 0) & (means < 1)).all())


def value(metric: Any, problem: Problem, **more: Any) -> float:
    """The metric as a Python number."""
    return float(metric(torch.from_numpy(problem.probs), torch.from_numpy(problem.labels), **more))


def close(ours: float, expected: float, tolerance: float = CLOSED_FORM) -> bool:
    """Equal up to a tolerance, absolute or relative; infinities equal each other."""
    return ours == expected or abs(ours - expected) <= tolerance * max(1.0, abs(expected))


# One function per law. Each asserts, for a metric and, where it takes one, a problem.


def law_perfect(metric: Any) -> None:
    """A predictor that is certain and always right has the declared value."""
    labels = np.array([0, 1, 2, 0, 2, 1, 1])
    assert value(metric, Problem("multiclass", np.eye(3)[labels], labels)) == metric.perfect
    event = np.array([0, 1, 1, 0, 1])
    assert value(metric, Problem("binary", event.astype(float), event)) == metric.perfect
    columns = np.stack([event, 1 - event], axis=1)
    assert value(metric, Problem("multilabel", columns.astype(float), columns)) == metric.perfect


def law_worst(metric: Any) -> None:
    """A predictor that is certain and always wrong has the declared value: 0 and 1 fall in real bins."""
    labels = np.array([0, 1, 1, 0])
    assert value(metric, Problem("multiclass", 1 - np.eye(2)[labels], labels)) == metric.worst
    assert value(metric, Problem("binary", 1.0 - labels, labels)) == metric.worst_event


def law_constant(metric: Any) -> None:
    """A predictor that says the same of every sample has the value of the closed form."""
    q = np.array([0.15, 0.5, 0.05, 0.3])
    labels = np.repeat([0, 1, 2, 3], [3, 2, 4, 1]) if metric.needs_both else np.repeat([0, 1, 2], [3, 3, 4])
    frequencies = np.bincount(labels, minlength=4) / len(labels)
    table = Problem("multiclass", np.tile(q, (len(labels), 1)), labels)
    assert close(value(metric, table), metric.constant_classes(q, frequencies))
    for p in (0.2, 0.9, 1 / 3):
        event = np.array([1, 0, 0, 1, 0, 0, 0])
        assert close(value(metric, Problem("binary", np.full(7, p), event)), metric.constant_event(p, 2 / 7))


def law_bounds(metric: Any, problem: Problem) -> None:
    """Values lie within the declared bounds and are never NaN."""
    upper = metric.upper_classes if problem.task == "multiclass" else metric.upper_event
    assert 0 <= value(metric, problem) <= upper + CLOSED_FORM


def law_order_of_rows(metric: Any, problem: Problem) -> None:
    """The order of the rows does not matter."""
    shuffled = problem.rows(np.random.default_rng(1).permutation(len(problem.probs)))
    assert close(value(metric, shuffled), value(metric, problem))
    reverse = problem.rows(slice(None, None, -1))
    assert close(float(metric(reverse.probs, reverse.labels)), value(metric, problem))


def law_names_of_classes(metric: Any, problem: Problem) -> None:
    """Renaming the classes does not matter (where no two are equally probable)."""
    new = np.random.default_rng(2).permutation(problem.probs.shape[1])
    renamed = Problem(problem.task, problem.probs[:, np.argsort(new)], new[problem.labels])
    assert close(value(metric, renamed), value(metric, problem))


def law_weights(metric: Any, problem: Problem) -> None:
    """Weights of one are no weights; their scale does not matter; a row of weight zero does not exist."""
    plain = value(metric, problem)
    ones = torch.ones(len(problem.probs))
    assert value(metric, problem, weights=ones) == plain
    assert close(value(metric, problem, weights=0.1 * ones), plain)
    weights = np.random.default_rng(3).integers(1, 4, len(ones)).astype(float)
    weighted = value(metric, problem, weights=weights)
    assert close(value(metric, problem, weights=weights / 7), weighted)
    doubled = problem.rows(
        np.repeat(np.arange(len(ones)), 2)
    )  # each row once as it is, once with weight zero
    assert close(value(metric, doubled, weights=np.stack([weights, 0 * weights], 1).ravel()), weighted)
    absurd = Problem(problem.task, np.concatenate([problem.probs, _never(problem)]), _once_more(problem))
    assert close(value(metric, absurd, weights=np.append(weights, 0.0)), weighted)


def law_replication(metric: Any, problem: Problem) -> None:
    """An integer weight is as many copies of the row."""
    weights = np.random.default_rng(4).integers(1, 4, len(problem.probs))
    copies = problem.rows(np.repeat(np.arange(len(weights)), weights))
    assert close(value(metric, problem, weights=weights), value(metric, copies))


def law_several_labels(metric: Any, problem: Problem) -> None:
    """With several labels per sample the value is the mean over the labels, each an event."""
    columns = range(problem.probs.shape[1])
    each = [value(metric, Problem("binary", problem.probs[:, k], problem.labels[:, k])) for k in columns]
    assert close(value(metric, problem), math.fsum(each) / len(each) if math.inf not in each else math.inf)
    if metric.per_label:
        apart = metric(problem.probs, problem.labels, average="none")
        assert all(close(float(ours), single) for ours, single in zip(apart, each, strict=True))


def _never(problem: Problem) -> np.ndarray:
    """A row that gives the first label of the problem probability zero."""
    if problem.task == "multiclass":
        return np.roll(np.eye(problem.probs.shape[1])[problem.labels[:1]], 1, axis=1)
    return 1.0 - problem.labels[:1]


def _once_more(problem: Problem) -> np.ndarray:
    return np.concatenate([problem.labels, problem.labels[:1]])


def test_perfect_predictor(metric: Any) -> None:
    """Certain and always right: the declared value, for every task."""
    law_perfect(metric)


def test_worst_predictor(metric: Any) -> None:
    """Certain and always wrong: the declared value."""
    law_worst(metric)


def test_constant_predictor(metric: Any) -> None:
    """The same probabilities for all: the closed form, also with a class that no label names."""
    law_constant(metric)


@given(problem=problems())
def test_bounds(metric: Any, problem: Problem) -> None:
    """Values stay within their declared bounds."""
    assume(defined(metric, problem))
    law_bounds(metric, problem)


@given(problem=problems())
def test_order_of_rows(metric: Any, problem: Problem) -> None:
    """Permuting the rows changes nothing, with ties as without."""
    assume(defined(metric, problem))
    law_order_of_rows(metric, problem)


@given(seed=st.integers(0, 2**32 - 1), num_classes=st.integers(2, 6))
def test_names_of_classes(metric: Any, seed: int, num_classes: int) -> None:
    """Permuting the classes, columns and labels alike, changes nothing."""
    problem = draw_problem("multiclass", 25, num_classes, seed, dyadic=False)
    assume(defined(metric, problem))
    law_names_of_classes(metric, problem)


@given(problem=problems())
def test_weights(metric: Any, problem: Problem) -> None:
    """Ones are none exactly, scale is immaterial, zero is absence; where there are no weights it is said."""
    assume(defined(metric, problem))
    if metric.weighted:
        law_weights(metric, problem)
    else:
        with pytest.raises(InputError, match="`weights` must be left out"):
            metric(problem.probs, problem.labels, weights=np.ones(len(problem.probs)))


@given(problem=problems())
def test_replication(metric: Any, problem: Problem) -> None:
    """Where declared, integer weights equal repeated rows."""
    assume(defined(metric, problem))
    if metric.weighted and metric.replicates:
        law_replication(metric, problem)


@given(seed=st.integers(0, 2**32 - 1), dyadic=st.booleans())
def test_several_labels(metric: Any, seed: int, dyadic: bool) -> None:
    """Several labels per sample: the mean over the columns, and each of them with ``average="none"``."""
    problem = draw_problem("multilabel", 20, 3, seed, dyadic=dyadic)
    assume(defined(metric, problem))
    law_several_labels(metric, problem)


@pytest.mark.parametrize("task", TASKS)
def test_dtypes(metric: Any, task: str) -> None:
    """Every dtype of probabilities and labels gives the float64 value of the same numbers, exactly."""
    problem = draw_problem(task, 40, 3, 5, dyadic=True)
    expected = value(metric, problem)
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        ours = metric(torch.from_numpy(problem.probs).to(dtype), problem.labels)
        assert ours.dtype == torch.float64
        assert ours.shape == ()
        assert ours.item() == expected
    for dtype in (np.int16, np.uint8, np.uint16, np.float32) + ((np.bool_,) if task != "multiclass" else ()):
        assert float(metric(problem.probs, problem.labels.astype(dtype))) == expected


@pytest.mark.parametrize("task", TASKS)
def test_containers(metric: Any, task: str) -> None:
    """Arrays, lists, strided and read-only memory and tensors that require gradients all give the same."""
    problem = draw_problem(task, 30, 4, 6, dyadic=False)
    expected = value(metric, problem)
    probs = torch.from_numpy(problem.probs).requires_grad_()
    ours = metric(probs, problem.labels)
    assert not ours.requires_grad
    assert ours.item() == expected
    assert float(metric(problem.probs.tolist(), problem.labels.tolist())) == expected
    assert float(metric(np.asfortranarray(problem.probs), problem.labels)) == pytest.approx(
        expected, abs=1e-12
    )
    frozen = problem.probs.copy()
    frozen.flags.writeable = False
    assert float(metric(frozen, problem.labels)) == expected
    every_other = np.repeat(problem.probs, 2, axis=0)[::2]
    assert float(metric(every_other, problem.labels)) == expected


@pytest.mark.parametrize("task", TASKS)
def test_arguments_are_left_alone(metric: Any, task: str) -> None:
    """No metric writes into its arguments."""
    problem = draw_problem(task, 30, 3, 7, dyadic=True)
    probs, labels = torch.from_numpy(problem.probs.copy()), torch.from_numpy(problem.labels.copy())
    weights = torch.ones(30, dtype=torch.float64)
    metric(probs, labels, **({"weights": weights} if metric.weighted else {}))
    assert torch.equal(probs, torch.from_numpy(problem.probs))
    assert torch.equal(labels, torch.from_numpy(problem.labels))
    assert torch.equal(weights, torch.ones(30, dtype=torch.float64))


@pytest.mark.parametrize("task", TASKS)
def test_one_sample(metric: Any, task: str) -> None:
    """One sample gives a number; AUROC, which needs two, says so."""
    problem = draw_problem(task, 1, 3, 8, dyadic=False)
    if metric.needs_both:
        with pytest.raises(InputError, match="AUROC is undefined"):
            value(metric, problem)
    else:
        assert math.isfinite(value(metric, problem))


def test_one_class(metric: Any) -> None:
    """Labels of one class only give a number; AUROC says that it is undefined."""
    problem = draw_problem("multiclass", 20, 4, 9, dyadic=False)
    only = Problem("multiclass", problem.probs, np.full(20, 2))
    if metric.needs_both:
        with pytest.raises(InputError, match="AUROC is undefined"):
            value(metric, only)
    else:
        assert math.isfinite(value(metric, only))


BAD_ARGUMENTS = {
    "no samples": ({"probs": np.empty((0, 3)), "labels": np.empty(0, int)}, "at least one sample"),
    "NaN": ({"probs": [[0.5, 0.5], [np.nan, 0.5]]}, r"row 1 holds nan"),
    "negative": ({"probs": [[0.5, 0.5], [-0.5, 1.5]]}, r"row 1 holds -0.5"),
    "infinite": ({"probs": [0.5, np.inf]}, r"row 1 holds inf"),
    "logits": ({"probs": [[3.0, -2.0], [1.0, 4.0]]}, r"row 0 holds 3; if these are logits"),
    "row sum": ({"probs": [[0.5, 0.5], [0.3, 0.33]]}, r"row 1 sums to 0.63"),
    "one column": ({"probs": [[0.5], [0.3]]}, r"`probs\[:, 0\]`"),
    "label too large": ({"labels": [0, 2]}, r"must be 0 or 1; row 1 holds 2"),
    "label negative": ({"labels": [-1, 1]}, r"must be 0 or 1; row 0 holds -1"),
    "label not whole": ({"labels": [0.0, 0.5]}, r"whole numbers; row 1 holds 0.5"),
    "shapes": ({"labels": [0, 1, 1]}, r"`labels` must have shape \(2,\).*got \(3,\)"),
    "weights": ({"weights": [1.0, -1.0]}, r"`weights` must be finite and not negative; row 1 holds -1"),
    "no labels": ({"labels": None}, "`labels` must"),
}


@pytest.mark.parametrize("bad", BAD_ARGUMENTS)
def test_bad_arguments(metric: Any, bad: str) -> None:
    """Bad numbers and shapes are refused in one sentence that names the row."""
    change, message = BAD_ARGUMENTS[bad]
    arguments = {"probs": [[0.5, 0.5], [0.25, 0.75]], "labels": [0, 1]} | change
    if bad == "no labels" and metric.name == "entropy":
        assert math.isfinite(float(metric(**arguments)))  # does not need any
        return
    with pytest.raises((InputError, TypeError), match=message):
        metric(**arguments)


# --------------------------------------------------------------------------------------- planted faults


def _faulty_ece(
    *, signed: bool = False, last_open: bool = False, mean_of_bins: bool = False
) -> Callable[..., torch.Tensor]:
    """Expected calibration error with a fault in it."""

    def measure(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
        probs, labels = np.asarray(probs), np.asarray(labels)
        confidence, outcome = probs, labels
        if probs.ndim == 2:
            confidence, outcome = probs.max(1), probs.argmax(1) == labels
        index = np.maximum(np.searchsorted(np.arange(16) / 15, confidence) - 1, 0)
        if last_open:
            index[confidence >= 1] = 15
        sums = np.bincount(index, confidence - outcome, minlength=16)[:15]
        gaps = sums if signed else np.abs(sums)
        return torch.tensor(gaps.sum() / (15 if mean_of_bins else len(confidence)))

    return measure


def _untied_mass_ece(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    """Equal-mass error that lets the order of tied rows decide."""
    probs, labels = np.asarray(probs), np.asarray(labels)
    order = np.argsort(probs, kind="stable")
    residuals = np.array_split((probs - labels)[order], 5)
    return torch.tensor(sum(abs(part.sum()) for part in residuals) / len(probs))


def _deaf_to_weights(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    probs, labels = torch.as_tensor(probs), torch.as_tensor(labels)
    return (probs.argmax(1) == labels).double().mean()


def _brier(probs: Any, labels: Any, *, mean_of_classes: bool = False, total: bool = False) -> torch.Tensor:
    squares = (np.asarray(probs) - np.eye(np.shape(probs)[1])[np.asarray(labels)]) ** 2
    per_row = squares.mean(1) if mean_of_classes else squares.sum(1)
    return torch.tensor(per_row.sum() if total else per_row.mean())


def _classwise_of_seen_classes(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    """Classwise error over the classes up to the largest label, as in the original code."""
    from calibrant import metrics

    each = metrics.classwise_calibration_error(probs, labels, average="none")
    return each[: int(np.max(np.asarray(labels))) + 1].mean()


def _score_less_uncertainty(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    """Miscalibration that takes the base rate for the best recalibration."""
    from calibrant import metrics

    parts = metrics.score_decomposition(probs, labels)
    return parts.score - parts.uncertainty


def _thresholded_over_all(probs: Any, labels: Any, **_: Any) -> torch.Tensor:
    """Thresholded error divided by the number of all samples, not of those that count."""
    from calibrant import metrics

    each = metrics.thresholded_calibration_error(probs, labels)
    return each * (np.asarray(probs) >= 0.01).mean()


def _planted(name: str) -> Callable[..., torch.Tensor]:
    """Another metric in place of the right one."""
    from calibrant import metrics

    return getattr(metrics, name)


PLANTED: dict[str, tuple[str, Callable[..., Any], Callable[..., None], Problem | None]] = {
    "sign flipped": (
        "ece",
        _faulty_ece(signed=True),
        law_bounds,
        Problem("binary", np.array([0.2, 0.3]), np.array([1, 1])),
    ),
    "last bin open": ("ece", _faulty_ece(last_open=True), law_worst, None),
    "mean over bins": ("ece", _faulty_ece(mean_of_bins=True), law_constant, None),
    "order of ties": (
        "ece_mass",
        _untied_mass_ece,
        law_order_of_rows,
        Problem("binary", np.full(20, 0.5), np.repeat([0, 1], 10)),
    ),
    "deaf to weights": (
        "accuracy",
        _deaf_to_weights,
        law_weights,
        draw_problem("multiclass", 20, 3, 1, dyadic=False),
    ),
    "weights are no copies": (
        "accuracy",
        _deaf_to_weights,
        law_replication,
        draw_problem("multiclass", 20, 3, 1, dyadic=False),
    ),
    "mean over classes": ("brier", lambda p, y: _brier(p, y, mean_of_classes=True), law_constant, None),
    "sum for mean": ("brier", lambda p, y: _brier(p, y, total=True), law_constant, None),
    "bias left in": (
        "ece_l2_debiased",
        lambda p, y: _planted("expected_calibration_error")(p, y, norm="l2"),
        law_constant,
        None,
    ),
    "bias of the size left in": (
        "adaptive_debiased",
        _planted("expected_calibration_error"),
        law_constant,
        None,
    ),
    "halves exchanged": ("over_confidence", _planted("under_confidence_error"), law_worst, None),
    "other half too": ("under_confidence", _planted("expected_calibration_error"), law_constant, None),
    "no sweep": ("sweep", _planted("adaptive_calibration_error"), law_worst, None),
    "no sweep in equal width": ("sweep_width", _planted("expected_calibration_error"), law_worst, None),
    "negligible ones counted": ("thresholded", _thresholded_over_all, law_worst, None),
    "base rate for isotonic fit": ("miscalibration_brier", _score_less_uncertainty, law_perfect, None),
    "squares for logarithms": (
        "miscalibration_nll",
        lambda p, y: _planted("score_decomposition")(p, y).miscalibration,
        law_constant,
        None,
    ),
    "unseen classes left out": ("classwise", _classwise_of_seen_classes, law_constant, None),
    "a class of its own": (
        "accuracy",
        lambda _, y: (torch.as_tensor(y) == 0).double().mean(),
        law_names_of_classes,
        draw_problem("multiclass", 20, 3, 1, dyadic=False),
    ),
}


@pytest.mark.parametrize("fault", PLANTED)
def test_laws_bite(fault: str, rosters: Any) -> None:
    """Each planted fault breaks the law that is there to catch it."""
    name, function, law, problem = PLANTED[fault]
    entry = next(entry for entry in rosters.METRICS if entry.name == name)
    planted = dataclasses.replace(entry, function=function, options={})
    with pytest.raises(AssertionError, match="assert"):
        law(planted, *([] if problem is None else [problem]))


def test_sound_metrics_pass_where_the_planted_faults_fail(rosters: Any) -> None:
    """The laws pass for the real metric on the very inputs on which they caught the fault."""
    for name, _, law, problem in PLANTED.values():
        entry = next(entry for entry in rosters.METRICS if entry.name == name)
        law(entry, *([] if problem is None else [problem]))


@settings(max_examples=20)
@given(seed=st.integers(0, 2**32 - 1), num_classes=st.integers(2, 9))
def test_entropy_is_at_most_that_of_the_uniform(seed: int, num_classes: int) -> None:
    """Entropy lies in [0, log C]."""
    from calibrant.metrics import predictive_entropy

    problem = draw_problem("multiclass", 10, num_classes, seed, dyadic=True)
    assert 0 <= predictive_entropy(problem.probs).item() <= math.log(num_classes) + CLOSED_FORM
