"""Streaming classes: whatever the batches, instances and processes, they have the value of the function."""

import json
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from copy import deepcopy
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import two_processes
from calibrant import CalibrantWarning, InputError, metrics
from calibrant._math.binning import mass_bin_sums, sketch_bins, sketch_error_bound, sketch_sums
from rosters_streaming import STREAMING, Streaming

CLOSED_FORM = 1e-12
TASKS = ("multiclass", "binary", "multilabel")


class Stream(NamedTuple):
    """Samples of one task, and where they are cut into batches."""

    task: str
    probs: torch.Tensor
    labels: torch.Tensor
    weights: torch.Tensor | None
    cuts: tuple[int, ...] = ()

    def batches(self) -> list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]:
        """Probabilities, labels and weights of each batch; some may be empty."""
        ends = [0, *sorted(self.cuts), len(self.probs)]
        weights = self.weights
        return [
            (self.probs[i:j], self.labels[i:j], None if weights is None else weights[i:j])
            for i, j in pairwise(ends)
        ]


def draw_stream(
    task: str, n: int, seed: int, *, weighted: bool = False, dyadic: bool = False, cuts: tuple[int, ...] = ()
) -> Stream:
    """Random samples of three classes or labels; ``dyadic`` ones have ties, zeros and ones."""
    rng = np.random.default_rng(seed)
    shape = (n,) if task == "binary" else (n, 3)
    probs = rng.integers(0, 17, shape) / 16 if dyadic else rng.uniform(size=shape)
    labels = (rng.uniform(size=shape) < 0.4).astype(np.int64)
    if task == "multiclass":
        probs = np.stack([rng.multinomial(16, (0.6, 0.3, 0.1)) for _ in range(n)]) / 16
        probs = probs if dyadic else rng.dirichlet(np.full(3, 0.5), n)
        labels = rng.integers(0, 3, n)
    weights = torch.from_numpy(rng.integers(0, 4, n) / 3) if weighted else None
    return Stream(task, torch.from_numpy(probs), torch.from_numpy(labels), weights, cuts)


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    """Streams of every task, of several sizes, cut anywhere."""
    n = draw(st.integers(1, 30))
    return draw_stream(
        draw(st.sampled_from(TASKS)),
        n,
        draw(st.integers(0, 2**32 - 1)),
        weighted=draw(st.booleans()),
        dyadic=draw(st.booleans()),
        cuts=tuple(draw(st.lists(st.integers(0, n), max_size=4))),
    )


def whole(streaming: Any, stream: Stream) -> float:
    return float(streaming.whole(stream.probs, stream.labels, weights=stream.weights))


def defined(streaming: Any, stream: Stream) -> bool:
    """Whether the function has a value there; all have one but those that declare what they need."""
    if stream.weights is not None and not bool(stream.weights.any()):
        return False
    if not streaming.needs_a_kind:
        return True
    with warnings.catch_warnings():
        warnings.simplefilter("error", CalibrantWarning)
        try:
            return streaming.whole(stream.probs, stream.labels, weights=stream.weights) is not None
        except (InputError, CalibrantWarning):
            return False


def close(streaming: Any, metric: Any, expected: float) -> bool:
    """Equal to rounding, or for a sketch within the bound that it states."""
    value = float(metric.compute())
    slack = 0.0 if streaming.exact_streaming else float(metric.error_bound())
    return value == expected or abs(value - expected) <= slack + CLOSED_FORM * max(1.0, abs(expected))


def fed(metric: Any, stream: Stream) -> Any:
    for batch in stream.batches():
        metric.update(*batch)
    return metric


# One function per law; `change` is where a fault is planted.
Change = Callable[[Any], Any]


def law_any_split(streaming: Any, stream: Stream, change: Change = lambda metric: metric) -> None:
    """Whatever the batches, the value is that of the function on all samples."""
    expected = whole(streaming, stream)
    assert close(streaming, fed(change(streaming.build(stream.task, 3)), stream), expected)


def law_merge(streaming: Any, stream: Stream, change: Change = lambda metric: metric) -> None:
    """Instances that each saw a part and are merged know as much as one that saw all."""
    expected = whole(streaming, stream)
    merged = streaming.build(stream.task, 3)
    for batch in stream.batches():
        part = change(streaming.build(stream.task, 3))
        part.update(*batch)
        merged.merge_state(part)
    assert close(streaming, merged, expected)


def law_ignored(streaming: Any, stream: Stream, change: Change = lambda metric: metric) -> None:
    """What is marked to be ignored, NaN or not, might as well not be there."""
    expected = whole(streaming, stream)
    rows = np.random.default_rng(7).permutation(2 * len(stream.probs))
    absurd = torch.full_like(stream.probs, torch.nan)
    weights = None if stream.weights is None else torch.cat([stream.weights] * 2)[rows]
    metric = change(streaming.build(stream.task, 3, ignore_index=-1))
    metric.update(
        torch.cat([stream.probs, absurd])[rows],
        torch.cat([stream.labels, torch.full_like(stream.labels, -1)])[rows],
        weights,
    )
    assert close(streaming, metric, expected)


def law_images(streaming: Any, stream: Stream, change: Change = lambda metric: metric) -> None:
    """Samples laid out in more dimensions, classes in the second, count each position."""
    expected = whole(streaming, stream)
    probs = stream.probs.reshape(1, len(stream.probs), 1, -1).movedim(3, 1)  # (1, C, N, 1)
    labels, weights = stream.labels.reshape(1, -1, 1), stream.weights
    if stream.task == "multilabel":
        labels = stream.labels.reshape(1, len(stream.probs), 1, 3).movedim(3, 1)
    if stream.task == "binary":
        probs = stream.probs.reshape(1, -1, 1)
    metric = change(streaming.build(stream.task, 3))
    metric.update(probs, labels, None if weights is None else weights.reshape(1, -1, 1))
    assert close(streaming, metric, expected)


@given(stream=streams())
@settings(max_examples=6)
def test_laws(streaming: Any, stream: Stream) -> None:
    """Batches of any size, empty ones too, with weights or without: the function's value to rounding."""
    assume(defined(streaming, stream))
    for law in (law_any_split, law_merge, law_ignored, law_images):
        law(streaming, stream)


def in_float32(metric: Any) -> Any:
    """Planted: the state is rounded to float32 after each batch, as torchmetrics' own sums are."""
    update = metric.update

    def rounding(*args: Any) -> None:
        update(*args)
        state = getattr(metric, metric._state)
        rounded = (
            [rows.float().double() for rows in state] if isinstance(state, list) else state.float().double()
        )
        setattr(metric, metric._state, rounded)

    metric.update = rounding
    return metric


def forgetting(metric: Any) -> Any:
    """Planted: each batch replaces the last."""
    update = metric.update

    def alone(*args: Any) -> None:
        metric.reset()
        update(*args)

    metric.update = alone
    return metric


def without_weights(metric: Any) -> Any:
    """Planted: weights are taken and not used."""
    update = metric.update
    metric.update = lambda probs, labels, _weights=None: update(probs, labels)
    return metric


def ignoring_nothing(metric: Any) -> Any:
    """Planted: what is to be ignored becomes the first class, at a guess."""
    update = metric.update

    def guessing(probs: Any, labels: Any, weights: Any = None) -> None:
        update(torch.nan_to_num(probs, 1 / 3), labels.clamp(min=0), weights)

    metric.update = guessing
    return metric


def dropping_the_last(metric: Any) -> Any:
    """Planted: of the positions of an image the last is lost."""
    update = metric.update

    def short(probs: Any, labels: Any, weights: Any = None) -> None:
        place = 1 if metric.task == "binary" else 2
        labels = labels.narrow(place if metric.task == "multilabel" else 1, 0, labels.shape[-2] - 1)
        probs = probs.narrow(place, 0, probs.shape[place] - 1)
        update(probs, labels, None if weights is None else weights[:, :-1])

    metric.update = short
    return metric


@pytest.mark.parametrize(
    ("law", "fault", "task"),
    [
        (law_any_split, in_float32, "multiclass"),
        (law_any_split, forgetting, "binary"),
        (law_any_split, without_weights, "multilabel"),
        (law_merge, without_weights, "multiclass"),
        (law_ignored, ignoring_nothing, "multilabel"),
        (law_ignored, ignoring_nothing, "binary"),
        (law_images, dropping_the_last, "multiclass"),
        (law_images, dropping_the_last, "multilabel"),
    ],
)
def test_the_laws_bite(law: Callable[..., None], fault: Change, task: str) -> None:
    """Each law catches a planted fault, in most of what is exact and always defined."""
    stream = draw_stream(task, 100, seed=5, weighted=True, cuts=(30, 45))
    entries = [entry for entry in STREAMING if entry.exact_streaming and not entry.needs_a_kind]
    caught: list[str] = []
    for streaming in entries:
        law(streaming, stream)
        try:
            law(streaming, stream, fault)
        except AssertionError:
            caught.append(streaming.name)
    assert len(caught) > len(entries) / 2


def test_only_what_says_so_is_undefined(streaming: Streaming) -> None:
    """One sample, wrong and unsure, has a value unless the entry says that it needs another kind."""
    probs, labels = torch.tensor([[0.4, 0.35, 0.25]]), torch.tensor([1])
    metric = streaming.build("multiclass", 3)
    metric.update(probs, labels)
    if not streaming.needs_a_kind:
        assert metric.compute().isfinite()
        return
    assert not defined(streaming, Stream("multiclass", probs, labels, None))
    with pytest.warns(CalibrantWarning, match="is undefined"):
        assert metric.compute().isnan()


def test_only_what_says_so_grows_or_is_inexact(streaming: Streaming) -> None:
    """Rows are kept, and a sketch differs from the function, where the entry says so and nowhere else."""
    confidences, outcomes, _ = sketch_case(60, 60, 1e-4, 1, weighted=False)  # all in one cell of a sketch
    stream = Stream("binary", confidences, outcomes.long(), None, (20, 40))
    metric = fed(streaming.build("binary", 3), stream)
    assert isinstance(getattr(metric, metric._state), list) == streaming.keeps_rows
    exact = abs(float(metric.compute()) - whole(streaming, stream)) <= CLOSED_FORM
    assert exact == streaming.exact_streaming


@pytest.mark.parametrize("task", TASKS)
def test_forward_returns_the_batch_and_keeps_the_stream(streaming: Any, task: str) -> None:
    """``metric(...)`` is the value of the batch alone; ``compute()`` afterwards that of all."""
    stream = draw_stream(task, 90, seed=1, weighted=True, cuts=(30, 50))
    metric = streaming.build(task, 3)
    for batch in stream.batches():
        alone = streaming.build(task, 3)
        alone.update(*batch)
        assert float(metric(*batch)) == float(alone.compute())
    assert close(streaming, metric, whole(streaming, stream))


@pytest.mark.parametrize("task", TASKS)
def test_per_column_values(streaming: Any, task: str) -> None:
    """``average="none"`` gives what the function gives, for labels and where classes have values."""
    per_class = streaming.cls in {"ClasswiseCalibrationError", "AUROC"}
    has_none = streaming.cls not in {"PredictiveEntropy", "HighConfidenceShare", "HighConfidenceAccuracy"}
    if not has_none or task == "binary" or (task == "multiclass" and not per_class):
        options = {"average": "none"} if has_none else {"average_": "none"}
        with pytest.raises((InputError, TypeError, ValueError), match="average"):
            streaming.build(task, 3, **options)
        return
    stream = draw_stream(task, 200, seed=2, weighted=True, cuts=(50,))
    metric = fed(streaming.build(task, 3, average="none"), stream)
    expected = torch.stack(
        list(streaming.whole(stream.probs, stream.labels, weights=stream.weights, average="none"))
    )
    slack = 0.0 if streaming.exact_streaming else metric.error_bound()
    assert metric.compute().shape == (3,)
    assert bool(((metric.compute() - expected).abs() <= slack + CLOSED_FORM).all())


@pytest.mark.parametrize("task", TASKS)
def test_logits_by_a_switch(streaming: Any, task: str) -> None:
    """``from_logits=True`` is the softmax, or the sigmoid, in float64; without it logits are refused."""
    stream = draw_stream(task, 60, seed=3)
    logits = stream.probs.log() if task == "multiclass" else stream.probs.logit()
    metric = streaming.build(task, 3, from_logits=True)
    metric.update(logits + 5.0 * (task == "multiclass"), stream.labels)
    assert float(metric.compute()) == pytest.approx(
        float(fed(streaming.build(task, 3), stream).compute()), abs=CLOSED_FORM, rel=CLOSED_FORM
    )
    with pytest.raises(InputError, match=r"`probs` must be between 0 and 1.*pass `from_logits=True`"):
        streaming.build(task, 3).update(logits, stream.labels)


class Model(torch.nn.Module):
    """A module that holds a metric, as a LightningModule does."""

    def __init__(self, metric: Any) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(2, 2)
        self.metric = metric


CASTS: dict[str, Change] = {
    "half": lambda metric: metric.half(),
    "to": lambda metric: metric.to(torch.float16),
    "set_dtype": lambda metric: metric.set_dtype(torch.float16),
    "type": lambda metric: metric.type(torch.float32),
    "model.half": lambda metric: Model(metric).half().metric,
    "model.to": lambda metric: Model(metric).to(torch.bfloat16).metric,
    "model.to with a device": lambda metric: Model(metric).to("cpu", torch.float32).metric,
}


def test_states_stay_float64(streaming: Any) -> None:
    """No way of casting a metric or the model around it costs a digit, before or amid the stream."""
    stream = draw_stream("multiclass", 60, seed=4, cuts=(30,))
    first, second = stream.batches()
    plain = fed(streaming.build("multiclass", 3), stream).compute()
    for way, cast in CASTS.items():
        metric = cast(streaming.build("multiclass", 3))
        metric.update(*first)
        metric = cast(metric)
        metric.update(*second)
        assert metric.compute() == plain, way
    assert metric.compute().dtype == torch.float64
    metric.reset()
    metric.update(*first)
    assert metric.compute().dtype == torch.float64


def test_moving_to_another_device(streaming: Any) -> None:
    """State and default follow ``.to(device)`` in float64 (the meta device stands for any other)."""
    metric = fed(streaming.build("binary", 2), draw_stream("binary", 10, seed=0))
    metric.to("meta")
    state = getattr(metric, metric._state)
    tensors = state if isinstance(state, list) else [state, metric._defaults[metric._state]]
    assert {(tensor.device.type, tensor.dtype) for tensor in tensors} == {("meta", torch.float64)}
    assert metric.device.type == "meta"


def by_state_dict(streaming: Any, metric: Any) -> Any:
    """A new instance with the state of another."""
    other = streaming.build("multiclass", 3)
    metric.persistent(True)
    other.load_state_dict(metric.state_dict())
    return other


def test_copies_and_reset(streaming: Any) -> None:
    """Copies carry the stream and go their own way; a metric that was reset has forgotten it."""
    stream = draw_stream("multiclass", 80, seed=6, cuts=(40,))
    first, second = stream.batches()
    metric = streaming.build("multiclass", 3)
    metric.update(*first)
    before = float(metric.compute())
    copies = pickle.loads(pickle.dumps(metric)), metric.clone(), deepcopy(metric)
    for copy in (*copies, by_state_dict(streaming, metric)):
        copy.update(*second)
        assert close(streaming, copy, whole(streaming, stream))
        assert float(metric.compute()) == before
    metric.reset()
    metric.update(*first)
    assert float(metric.compute()) == before


def test_a_bad_batch_adds_nothing(streaming: Any) -> None:
    """NaN and labels out of range are refused, by ``update`` and ``forward``, and the stream goes on."""
    stream = draw_stream("multiclass", 60, seed=8, cuts=(30,))
    first, second = stream.batches()
    nan = torch.full((2, 3), torch.nan)
    metric = streaming.build("multiclass", 3)
    metric.update(*first)
    for call in (metric.update, metric):
        with pytest.raises(InputError, match="row 0 holds nan"):
            call(nan, torch.tensor([0, 1]))
        with pytest.raises(InputError, match=r"`labels` must be in 0\.\.2; row 1 holds 7"):
            call(torch.eye(3)[:2], torch.tensor([0, 7]))
        with pytest.raises(InputError, match="`weights` must be finite and not negative"):
            call(torch.eye(3)[:2], torch.tensor([0, 1]), torch.tensor([1.0, -1.0]))
    metric.update(*second)
    assert close(streaming, metric, whole(streaming, stream))


def test_nothing_seen(streaming: Any) -> None:
    """No update is an error; updates in which nothing counts give NaN, and a warning that says why."""
    metric = streaming.build("multiclass", 3, ignore_index=-100)
    with (
        pytest.warns(UserWarning, match="was called before the ``update`` method"),
        pytest.raises(InputError, match="has seen no sample; call `update` first"),
    ):
        metric.compute()
    with pytest.warns(CalibrantWarning, match="is undefined"):
        batch = metric(torch.full((2, 3), 1 / 3), torch.tensor([-100, -100]))
    assert batch.isnan()
    metric.update(torch.full((2, 3), 1 / 3), torch.tensor([0, 1]), torch.zeros(2))
    with pytest.warns(CalibrantWarning, match="is undefined"):
        assert metric.compute().isnan().all()


def test_a_label_never_seen_is_left_out_of_the_mean() -> None:
    """A column all of whose entries are ignored has no value: the mean is over the others, with a warning."""
    probs, labels = torch.tensor([[0.8, 0.3], [0.6, 0.1]]), torch.tensor([[1, -1], [0, -1]])
    for average in ("macro", "none"):
        metric = metrics.BrierScore(task="multilabel", num_classes=2, ignore_index=-1, average=average)
        metric.update(probs, labels)
        with pytest.warns(CalibrantWarning, match="BrierScore is undefined in 1 of 2 columns"):
            value = metric.compute()
        expected = metrics.brier_score(probs[:, 0], labels[:, 0])
        if average == "macro":
            assert value == expected
        else:
            assert value[0] == expected
            assert value[1].isnan()


def test_entries_ignored_one_by_one() -> None:
    stream = draw_stream("multilabel", 200, seed=9, weighted=True)
    seen = torch.from_numpy(np.random.default_rng(1).uniform(size=(200, 3)) < 0.7)
    for name, function in (
        ("CalibrationError", metrics.expected_calibration_error),
        ("AUROC", metrics.auroc),
        ("Accuracy", metrics.accuracy),
    ):
        metric = getattr(metrics, name)(task="multilabel", num_classes=3, ignore_index=-1, average="none")
        metric.update(stream.probs, stream.labels.where(seen, -1), stream.weights)
        assert stream.weights is not None
        for k, value in enumerate(metric.compute()):
            rows = seen[:, k]
            expected = function(stream.probs[rows, k], stream.labels[rows, k], weights=stream.weights[rows])
            assert float(value) == pytest.approx(float(expected), abs=CLOSED_FORM)


@pytest.mark.parametrize("binning", ["width", "mass"])
@pytest.mark.parametrize("task", ["binary", "multiclass"])
def test_table_of_the_stream(task: str, binning: Any) -> None:
    """``compute_table()`` is ``reliability_table`` of all samples."""
    stream = draw_stream(task, 100, seed=10, weighted=True, cuts=(20, 70))
    for metric in (
        metrics.CalibrationError(task=task, num_bins=6, binning=binning),
        metrics.MaximumCalibrationError(task=task, num_bins=6, binning=binning),
    ):
        table = fed(metric, stream).compute_table()
        expected = metrics.reliability_table(
            stream.probs, stream.labels, num_bins=6, binning=binning, weights=stream.weights
        )
        assert table.edges == expected.edges
        for ours, theirs in (
            (table.counts, expected.counts),
            (table.confidence, expected.confidence),
            (table.accuracy, expected.accuracy),
        ):
            assert [value is None for value in ours] == [value is None for value in theirs]
            assert [value or 0.0 for value in ours] == pytest.approx([value or 0.0 for value in theirs])


def test_table_of_one_column() -> None:
    stream = draw_stream("multilabel", 50, seed=11, cuts=(20,))
    metric = fed(metrics.CalibrationError(task="multilabel", num_classes=3, num_bins=3), stream)
    expected = metrics.reliability_table(stream.probs[:, 2], stream.labels[:, 2], num_bins=3)
    assert metric.compute_table(column=2).counts == expected.counts
    with pytest.raises(InputError, match=r"`column` must be given: a class or label in 0\.\.2"):
        metric.compute_table()
    with pytest.raises(InputError, match=r"`column` must be in 0\.\.2; got 3"):
        metric.compute_table(column=3)
    with pytest.raises(InputError, match="has seen no sample to make a table of"):
        metrics.CalibrationError().compute_table()


def test_confidence_one_and_a_million_samples() -> None:
    """Confidence 1.0 has no bin of its own, and the sums of a long stream do not drift."""
    metric = metrics.CalibrationError()
    metric.update(torch.tensor([[0.05, 0.95], [0.0, 1.0]]), torch.tensor([1, 0]))
    assert float(metric.compute()) == pytest.approx(0.475, abs=1e-7)  # 0.95 is a float32
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(10**6, generator=generator)
    labels = (torch.rand(10**6, generator=generator) < probs**1.3).long()
    metric = metrics.CalibrationError(task="binary")
    for rows in torch.arange(10**6).split(9973):
        metric.update(probs[rows], labels[rows])
    expected = metrics.expected_calibration_error(probs, labels)
    assert float(metric.compute()) == pytest.approx(float(expected), abs=CLOSED_FORM)


def test_collection_shares_states_only_where_they_are_the_same() -> None:
    """Metrics that sum up the same share one state; those that agree by chance on a first batch do not."""
    from torchmetrics import MetricCollection

    collection = MetricCollection(
        {
            "ece": metrics.CalibrationError(num_classes=3),
            "mce": metrics.MaximumCalibrationError(num_classes=3),
            "ece_without_0": metrics.CalibrationError(num_classes=3, ignore_index=0),
            "nll": metrics.NegativeLogLikelihood(num_classes=3),
            "brier": metrics.BrierScore(num_classes=3),
            "error_rate": metrics.ErrorRate(num_classes=3),
            "sure": metrics.HighConfidenceShare(num_classes=3),
            "sure_90": metrics.HighConfidenceShare(num_classes=3, threshold=0.9),
            "auroc": metrics.AUROC(num_classes=3),
            "classwise_mass": metrics.ClasswiseCalibrationError(num_classes=3, binning="mass"),
        }
    )
    perfect = torch.eye(3, dtype=torch.float64)[[1, 2, 1]], torch.tensor([1, 2, 1])
    collection.update(*perfect)  # NLL, Brier and error rate are all 0, and label 0 does not occur
    together = {frozenset(group) for group in collection.compute_groups.values() if len(group) > 1}
    assert together == {frozenset({"ece", "mce"}), frozenset({"auroc", "classwise_mass"})}
    stream = draw_stream("multiclass", 50, seed=12)
    collection.update(stream.probs, stream.labels)
    probs, labels = torch.cat([perfect[0], stream.probs]), torch.cat([perfect[1], stream.labels])
    found = {name: float(value) for name, value in collection.compute().items()}
    kept = labels != 0
    expected = {
        "ece": metrics.expected_calibration_error(probs, labels),
        "mce": metrics.maximum_calibration_error(probs, labels),
        "ece_without_0": metrics.expected_calibration_error(probs[kept], labels[kept]),
        "nll": metrics.negative_log_likelihood(probs, labels),
        "brier": metrics.brier_score(probs, labels),
        "error_rate": metrics.error_rate(probs, labels),
        "sure": metrics.high_confidence(probs, labels).share,
        "sure_90": metrics.high_confidence(probs, labels, threshold=0.9).share,
        "auroc": metrics.auroc(probs, labels),
        "classwise_mass": metrics.classwise_calibration_error(probs, labels, binning="mass"),
    }
    assert found == pytest.approx({name: float(value) for name, value in expected.items()}, abs=CLOSED_FORM)


def test_every_metric_in_one_collection() -> None:
    """``update`` and ``forward`` in turns, a reset in between, weights by name: all values are right."""
    from torchmetrics import MetricCollection

    entries = {entry.name: entry for entry in STREAMING}
    collection = MetricCollection({name: entry.build("multiclass", 3) for name, entry in entries.items()})
    stream = draw_stream("multiclass", 120, seed=13, weighted=True, cuts=(30, 60, 90))
    for _epoch in range(2):
        for call, (probs, labels, weights) in zip(
            (collection.update, collection, collection.update, collection), stream.batches(), strict=True
        ):
            call(probs, labels, weights=weights)
        values = collection.compute()
        for name, entry in entries.items():
            assert close(entry, collection[name], whole(entry, stream)), name
            assert values[name] == collection[name].compute()
        collection.reset()


def test_merging_needs_the_same_settings() -> None:
    """States of other bins, or of other samples ignored, are refused; a cached value is not kept."""
    metric = metrics.CalibrationError()
    for other in (metrics.CalibrationError(num_bins=1), metrics.CalibrationError(ignore_index=0)):
        with pytest.raises(ValueError, match="Expected state variable"):
            metric.merge_state(other)
    stream = draw_stream("multiclass", 30, seed=15, cuts=(10,))
    first, second = (
        fed(metrics.CalibrationError(), Stream("multiclass", *batch)) for batch in stream.batches()
    )
    first.compute()
    first.merge_state(second)
    expected = metrics.expected_calibration_error(stream.probs, stream.labels)
    assert float(first.compute()) == pytest.approx(float(expected), abs=CLOSED_FORM)


def sketch_case(n: int, distinct: int, spread: float, seed: int, weighted: bool) -> tuple[torch.Tensor, ...]:
    """Confidences crowded against one, many equal or in one cell, whose outcomes go against their order."""
    rng = np.random.default_rng(seed)
    levels = 1 / (1 + np.exp(-rng.normal(2, spread, distinct)))
    conf = np.sort(rng.choice(levels, n))
    y = rng.uniform(size=n) < np.where(rng.uniform(size=n) < 0.5, conf, 1 - conf)
    if seed % 2:
        y = np.arange(n) < rng.integers(0, n + 1)  # all ones first: the worst order within a cell
    weights = rng.exponential(size=n) if weighted else np.ones(n)
    return tuple(torch.from_numpy(np.asarray(v, dtype=float)) for v in (conf, y, weights))


def excess(case: tuple[torch.Tensor, ...], num_bins: int, bound: Callable[..., Any]) -> float:
    """By how much the sketch is farther from the exact value than the bound says."""
    exact = mass_bin_sums(case[0], case[1], num_bins, case[2]).calibration_error("l1")
    sums = sketch_sums(*case)
    found = sketch_bins(*sums, num_bins=num_bins).calibration_error("l1")
    return float((found - exact).abs() - bound(*sums, num_bins=num_bins))


@given(
    n=st.integers(1, 300),
    distinct=st.integers(1, 300),
    spread=st.sampled_from([0.0, 1e-5, 1e-3, 0.1, 3.0]),
    seed=st.integers(0, 2**32 - 1),
    weighted=st.booleans(),
    num_bins=st.integers(1, 20),
)
@settings(max_examples=100)
def test_the_sketch_keeps_its_bound(
    n: int, distinct: int, spread: float, seed: int, weighted: bool, num_bins: int
) -> None:
    case = sketch_case(n, distinct, spread, seed, weighted)
    assert excess(case, num_bins, sketch_error_bound) <= CLOSED_FORM


def test_the_bound_bites() -> None:
    """A bound of a quarter of the size is broken: the stated one is not idle."""
    cases = [sketch_case(60, 60, 1e-4, seed, weighted=False) for seed in range(200)]
    short = [
        excess(case, 3, lambda *sums, num_bins: sketch_error_bound(*sums, num_bins=num_bins) / 4)
        for case in cases
    ]
    assert max(short) > 0.01


@pytest.mark.parametrize("shift", [0.0, 3.0, 8.0])
def test_the_sketch_is_good_for_large_samples(shift: float) -> None:
    """With 100 000 confidences, also such as crowd against one, the stated bound is below 0.01."""
    rng = np.random.default_rng(0)
    probs = 1 / (1 + np.exp(-rng.normal(shift, 2, 10**5)))
    labels = rng.uniform(size=10**5) < 0.5 + 0.4 * (probs - 0.5)
    metric = metrics.CalibrationError(task="binary", binning="mass", keep="sketch")
    for rows in np.array_split(np.arange(10**5), 7):
        metric.update(probs[rows], labels[rows])
    expected = metrics.adaptive_calibration_error(probs, labels)
    assert metric.error_bound() < 0.01
    assert abs(metric.compute() - expected) <= metric.error_bound()
    table = metric.compute_table()
    assert table.counts == pytest.approx([10**5 / 15] * 15)
    exact = metrics.reliability_table(probs, labels, binning="mass")
    assert table.edges == pytest.approx(exact.edges, abs=0.003)  # a cell is 0.0044 log-odds, 0.0011 wide


def test_only_the_sketch_has_an_error() -> None:
    """The exact ones say 0; a sketch of nothing says NaN; what has no bound is refused."""
    stream = draw_stream("binary", 20, seed=16)
    assert fed(metrics.CalibrationError(task="binary", binning="mass"), stream).error_bound() == 0
    assert metrics.CalibrationError(binning="mass", keep="sketch").error_bound().isnan()


@pytest.mark.parametrize(
    ("options", "probs", "labels", "weights", "message"),
    [
        ({}, (4,), (4,), None, r"`probs` must have shape \(N, C\)"),
        (
            {},
            (4, 3),
            (4, 3),
            None,
            r"`labels` must have shape \(4,\) to go with `probs` and task=\"multiclass\"",
        ),
        ({}, (4, 3, 2), (4, 3), None, r"`labels` must have shape \(4, 2\)"),
        ({}, (4, 1), (4,), None, "at least two columns"),
        ({"num_classes": 4}, (4, 3), (4,), None, "`probs` must have num_classes=4 columns"),
        ({"task": "binary"}, (4, 1), (4,), None, r"`labels` must have shape \(4, 1\)"),
        ({"task": "binary"}, (), (), None, "got one number"),
        ({}, (4, 3), (4,), (3,), r"`weights` must have shape \(4,\); got \(3,\)"),
        ({}, (4, 3, 2), (4, 2), (2,), r"`weights` must have shape \(4,\) or \(4, 2\); got \(2,\)"),
    ],
)
def test_shapes_that_do_not_fit(
    options: dict[str, Any], probs: Any, labels: Any, weights: Any, message: str
) -> None:
    """Shapes that contradict the task, or each other, are refused, and the message names the right one."""
    metric = metrics.BrierScore(**options)
    with pytest.raises(InputError, match=message):
        metric.update(
            torch.full(probs, 1 / 3),
            torch.zeros(labels, dtype=torch.int64),
            None if weights is None else torch.ones(weights),
        )


def test_weights_per_sample_reach_every_position() -> None:
    stream = draw_stream("multiclass", 12, seed=17)
    weights = torch.tensor([1.0, 2.0, 0.5])
    metric = metrics.BrierScore()
    metric.update(stream.probs.reshape(3, 4, 3).movedim(2, 1), stream.labels.reshape(3, 4), weights)
    expected = metrics.brier_score(stream.probs, stream.labels, weights=weights.repeat_interleave(4))
    assert float(metric.compute()) == pytest.approx(float(expected), abs=CLOSED_FORM)


@pytest.mark.slow
def test_several_processes_are_one(tmp_path: Path) -> None:
    """Each process has the value over all, also one that saw nothing; sums take a single collective."""
    world = 3
    script = two_processes.__file__
    processes = [
        subprocess.Popen(
            [sys.executable, script, str(rank), str(world), str(tmp_path / "meet")],
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(world)
    ]
    answers = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    for task in TASKS:
        parts = [two_processes.stream(task, rank) for rank in range(world)]
        probs, labels, weights = (torch.cat(column) for column in zip(*parts, strict=True))
        for entry in STREAMING:
            expected = float(entry.whole(probs, labels, weights=weights))
            name = f"{task} {entry.name}"
            assert len({answer[name]["value"] for answer in answers}) == 1, name
            found = answers[0][name]
            slack = 0.0 if entry.exact_streaming else found["bound"]
            assert abs(found["value"] - expected) <= slack + CLOSED_FORM * max(1.0, expected), name
            rows = ["barrier", "all_gather", "all_gather"]
            assert found["calls"] == (rows if entry.keeps_rows else ["all_gather"]), name
