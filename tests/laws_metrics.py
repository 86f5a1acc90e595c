"""The laws of metrics: functions of a roster entry and, where they take one, a problem, that assert."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from calibrant._math.errors import InputError
from closed_forms import Problem
from rosters import CLOSED_FORM, TASKS, Metric


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


def value(metric: Metric, problem: Problem, **more: Any) -> float:
    return float(metric(torch.from_numpy(problem.probs), torch.from_numpy(problem.labels), **more))


def close(metric: Metric, ours: float, expected: float) -> bool:
    """Equal to rounding, or to the accuracy that the metric states; infinities equal each other."""
    tolerance = CLOSED_FORM if metric.tolerance is None else metric.tolerance
    return ours == expected or abs(ours - expected) <= tolerance * max(1.0, abs(expected))


def same(metric: Metric, ours: float, expected: float) -> bool:
    """Equal to the last bit, unless the metric states an accuracy."""
    return ours == expected if metric.tolerance is None else close(metric, ours, expected)


def law_perfect(metric: Metric) -> None:
    """A predictor that is certain and always right has the declared value."""
    labels, event = np.array([0, 1, 2, 0, 2, 1, 1]), np.array([0, 1, 1, 0, 1])
    columns = np.stack([event, event[::-1]], axis=1)
    for problem in (
        Problem("multiclass", np.eye(3)[labels], labels),
        Problem("binary", event.astype(float), event),
        Problem("multilabel", columns.astype(float), columns),
    ):
        if problem.task in metric.tasks:
            assert same(metric, value(metric, problem), metric.perfect)


def law_worst(metric: Metric) -> None:
    """A predictor that is certain and always wrong has the declared value: 0 and 1 fall in real bins."""
    labels = np.array([0, 1, 1, 0])
    assert same(metric, value(metric, Problem("multiclass", 1 - np.eye(2)[labels], labels)), metric.worst)
    if "binary" in metric.tasks:
        assert same(metric, value(metric, Problem("binary", 1.0 - labels, labels)), metric.worst_event)


def law_constant(metric: Metric) -> None:
    """A predictor that says the same of every sample has the value of the closed form."""
    q = np.array([0.15, 0.5, 0.05, 0.3])
    labels = np.repeat([0, 1, 2], [3, 3, 4]) if metric.one_class else np.repeat([0, 1, 2, 3], [3, 2, 4, 1])
    frequencies = np.bincount(labels, minlength=4) / len(labels)
    table = Problem("multiclass", np.tile(q, (len(labels), 1)), labels)
    assert close(metric, value(metric, table), metric.constant_classes(q, frequencies))
    event = np.array([1, 0, 0, 1, 0, 0, 0])
    for p in (0.2, 0.9, 1 / 3) if "binary" in metric.tasks else ():
        found = value(metric, Problem("binary", np.full(7, p), event))
        assert close(metric, found, metric.constant_event(p, 2 / 7))


def law_bounds(metric: Metric, problem: Problem) -> None:
    """Values lie within the declared bounds and are never NaN."""
    upper = metric.upper_classes if problem.task == "multiclass" else metric.upper_event
    found = value(metric, problem)
    assert metric.lower - CLOSED_FORM <= found <= upper + CLOSED_FORM
    assert found >= metric.lower or metric.tolerance is not None


def law_order_of_rows(metric: Metric, problem: Problem) -> None:
    plain = value(metric, problem)
    shuffled = problem.rows(np.random.default_rng(1).permutation(len(problem.probs)))
    assert close(metric, value(metric, shuffled), plain)
    reverse = problem.rows(slice(None, None, -1))
    assert close(metric, float(metric(reverse.probs, reverse.labels)), plain)


def law_names_of_classes(metric: Metric, problem: Problem) -> None:
    """Renaming the classes does not matter (where no two are equally probable)."""
    new = np.random.default_rng(2).permutation(problem.probs.shape[1])
    renamed = Problem(problem.task, problem.probs[:, np.argsort(new)], new[problem.labels])
    assert close(metric, value(metric, renamed), value(metric, problem))


def law_several_labels(metric: Metric, problem: Problem) -> None:
    """With several labels per sample the value is the mean over the labels, each an event."""
    columns = range(problem.probs.shape[1])
    each = [value(metric, Problem("binary", problem.probs[:, k], problem.labels[:, k])) for k in columns]
    mean = math.fsum(each) / len(each) if math.inf not in each else math.inf
    assert close(metric, value(metric, problem), mean)
    if metric.per_label:
        apart = metric(problem.probs, problem.labels, average="none")
        assert all(close(metric, float(ours), single) for ours, single in zip(apart, each, strict=True))


def law_labels_are_joint(metric: Metric) -> None:
    """Where several labels are said to be judged together, the value is not the mean over them."""
    problem = draw_problem("multilabel", 20, 3, 1, dyadic=False)
    each = [value(metric, Problem("binary", problem.probs[:, k], problem.labels[:, k])) for k in range(3)]
    assert abs(value(metric, problem) - sum(each) / 3) > 1e-4


def law_ignored(metric: Metric) -> None:
    """Rows with the label that is ignored do not exist, whatever they hold; positions neither."""
    task = metric.tasks[0]
    problem = draw_problem(task, 12, 3, 1, dyadic=True)
    junk = Problem(
        task,
        np.concatenate([np.full_like(problem.probs[:3], np.nan), problem.probs]),
        np.concatenate([np.full_like(problem.labels[:3], 255), problem.labels]),
    )
    plain = value(metric, problem)
    assert same(metric, value(metric, junk, ignore_index=255), plain)
    if task == "multiclass":
        image = metric(junk.probs.T[None], junk.labels[None], ignore_index=255)
        assert close(metric, float(image), plain)


def law_weights(metric: Metric, problem: Problem) -> None:
    """Weights of one are no weights; their scale does not matter; a row of weight zero does not exist."""
    plain = value(metric, problem)
    ones = torch.ones(len(problem.probs))
    assert same(metric, value(metric, problem, weights=ones), plain)
    assert close(metric, value(metric, problem, weights=0.1 * ones), plain)
    weights = np.random.default_rng(3).integers(1, 4, len(ones)).astype(float)
    weighted = value(metric, problem, weights=weights)
    assert close(metric, value(metric, problem, weights=weights / 7), weighted)
    doubled = problem.rows(np.repeat(np.arange(len(ones)), 2))  # once as it is, once with weight zero
    zeros = np.stack([weights, 0 * weights], 1).ravel()
    assert close(metric, value(metric, doubled, weights=zeros), weighted)
    absurd = Problem(
        problem.task,
        np.concatenate([problem.probs, _never(problem)]),
        np.concatenate([problem.labels, problem.labels[:1]]),
    )
    assert close(metric, value(metric, absurd, weights=np.append(weights, 0.0)), weighted)


def law_weights_are_copies(metric: Metric, problem: Problem) -> None:
    """An integer weight is as many copies of the row."""
    weights = np.random.default_rng(4).integers(1, 4, len(problem.probs))
    copies = problem.rows(np.repeat(np.arange(len(weights)), weights))
    assert close(metric, value(metric, problem, weights=weights), value(metric, copies))


def _never(problem: Problem) -> np.ndarray:
    """A row that gives the first label of the problem probability zero."""
    if problem.task == "multiclass":
        return np.roll(np.eye(problem.probs.shape[1])[problem.labels[:1]], 1, axis=1)
    return 1.0 - problem.labels[:1]


def law_weights_are_no_copies(metric: Metric) -> None:
    """Where an integer weight is said to differ from copies, some problem shows it."""
    for seed in range(60):
        problem = draw_problem(metric.tasks[0], 2 + seed % 20, 3, seed, dyadic=False)
        weights = np.random.default_rng(4).integers(1, 4, len(problem.probs))
        copies = problem.rows(np.repeat(np.arange(len(weights)), weights))
        if abs(value(metric, problem, weights=weights) - value(metric, copies)) > 1e-4:
            return
    pytest.fail("weights were as good as copies 60 times")


def law_weights_are_refused(metric: Metric) -> None:
    problem = draw_problem(metric.tasks[0], 20, 3, 1, dyadic=False)
    with pytest.raises(InputError, match="`weights` must be left out"):
        value(metric, problem, weights=np.ones(20))


def law_tasks_are_refused(metric: Metric) -> None:
    for task in set(TASKS) - set(metric.tasks):
        with pytest.raises(InputError, match="must have shape"):
            value(metric, draw_problem(task, 20, 3, 1, dyadic=False))


def law_no_value_per_label(metric: Metric) -> None:
    """A metric without a value per label has no argument that asks for one."""
    problem = draw_problem("multilabel", 20, 3, 1, dyadic=False)
    with pytest.raises(TypeError, match="average"):
        metric(problem.probs, problem.labels, average="none")


def law_undefined(metric: Metric) -> None:
    """One sample, or samples of one class only, give a number, or the error that is declared."""
    one = [draw_problem(task, 1, 3, 8, dyadic=False) for task in metric.tasks]
    table = draw_problem("multiclass", 20, 4, 9, dyadic=False).probs
    alike = Problem("multiclass", table, np.full(20, 2))
    for problem, is_defined in (*((p, metric.one_sample) for p in one), (alike, metric.one_class)):
        if is_defined:
            assert math.isfinite(value(metric, problem))
        else:
            with pytest.raises(InputError, match=metric.undefined):
                value(metric, problem)


def law_dtypes(metric: Metric, task: str) -> None:
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


def law_containers(metric: Metric, task: str) -> None:
    """Arrays, lists, strided and read-only memory and tensors that require gradients all give the same."""
    problem = draw_problem(task, 30, 4, 6, dyadic=False)
    expected = value(metric, problem)
    probs = torch.from_numpy(problem.probs).requires_grad_()
    ours = metric(probs, problem.labels)
    assert not ours.requires_grad
    assert ours.item() == expected
    assert float(metric(problem.probs.tolist(), problem.labels.tolist())) == expected
    assert close(metric, float(metric(np.asfortranarray(problem.probs), problem.labels)), expected)
    frozen = problem.probs.copy()
    frozen.flags.writeable = False
    assert float(metric(frozen, problem.labels)) == expected
    every_other = np.repeat(problem.probs, 2, axis=0)[::2]
    assert float(metric(every_other, problem.labels)) == expected


def law_arguments_are_left_alone(metric: Metric, task: str) -> None:
    problem = draw_problem(task, 30, 3, 7, dyadic=True)
    probs, labels = torch.from_numpy(problem.probs.copy()), torch.from_numpy(problem.labels.copy())
    weights = torch.ones(30, dtype=torch.float64)
    metric(probs, labels, **({"weights": weights} if metric.weighted else {}))
    assert torch.equal(probs, torch.from_numpy(problem.probs))
    assert torch.equal(labels, torch.from_numpy(problem.labels))
    assert torch.equal(weights, torch.ones(30, dtype=torch.float64))


BAD_ARGUMENTS = {
    "no samples": ({"probs": np.empty((0, 3)), "labels": np.empty(0, int)}, "at least one sample"),
    "NaN": ({"probs": [[0.5, 0.5], [np.nan, 0.5]]}, r"row 1 holds nan"),
    "negative": ({"probs": [[0.5, 0.5], [-0.5, 1.5]]}, r"row 1 holds -0.5"),
    "infinite": ({"probs": [0.5, np.inf]}, r"row 1 holds inf"),
    "logits": ({"probs": [[3.0, -2.0], [1.0, 4.0]]}, r"row 0 holds 3; if they are logits"),
    "row sum": ({"probs": [[0.5, 0.5], [0.3, 0.33]]}, r"row 1 sums to 0.63"),
    "one column": ({"probs": [[0.5], [0.3]]}, r"`probs\[:, 0\]`"),
    "label too large": ({"labels": [0, 2]}, r"must be 0 or 1; row 1 holds 2"),
    "label negative": ({"labels": [-1, 1]}, r"must be 0 or 1; row 0 holds -1"),
    "label not whole": ({"labels": [0.0, 0.5]}, r"whole numbers; row 1 holds 0.5"),
    "shapes": ({"labels": [0, 1, 1]}, r"`labels` must have shape \(2,\).*got \(3,\)"),
    "weights": ({"weights": [1.0, -1.0]}, r"`weights` must be finite and not negative; row 1 holds -1"),
    "no labels": ({"labels": None}, "`labels` must"),
}


def law_bad_arguments(metric: Metric, bad: str) -> None:
    """Bad numbers and shapes are refused in one sentence that names the row; so is the lack of labels."""
    change, message = BAD_ARGUMENTS[bad]
    arguments = {"probs": [[0.5, 0.5], [0.25, 0.75]], "labels": [0, 1]} | change
    if bad == "no labels" and not metric.needs_labels:
        assert math.isfinite(float(metric(**arguments)))
        return
    with pytest.raises((InputError, TypeError), match=message):
        metric(**arguments)


# The laws, and the metrics that each is asked of.
OF_METRICS: dict[Callable[[Metric], None], Callable[[Metric], bool]] = {
    law_perfect: lambda _: True,
    law_worst: lambda _: True,
    law_constant: lambda _: True,
    law_ignored: lambda _: True,
    law_labels_are_joint: lambda metric: "multilabel" in metric.tasks and not metric.labels_apart,
    law_weights_are_no_copies: lambda metric: metric.weighted and not metric.replicates,
    law_weights_are_refused: lambda metric: not metric.weighted,
    law_tasks_are_refused: lambda _: True,
    law_no_value_per_label: lambda metric: not metric.per_label,
    law_undefined: lambda _: True,
}
OF_PROBLEMS: dict[Callable[[Metric, Problem], None], Callable[[Metric, Problem], bool]] = {
    law_bounds: lambda _metric, _: True,
    law_order_of_rows: lambda _metric, _: True,
    law_names_of_classes: lambda _, problem: problem.task == "multiclass" and not _is_tied(problem),
    law_several_labels: lambda metric, problem: problem.task == "multilabel" and metric.labels_apart,
    law_weights: lambda metric, _: metric.weighted,
    law_weights_are_copies: lambda metric, _: metric.weighted and metric.replicates,
}
OF_TASKS = (law_dtypes, law_containers, law_arguments_are_left_alone)


def _is_tied(problem: Problem) -> bool:
    return any(len(set(row)) < len(row) for row in problem.probs.tolist())
