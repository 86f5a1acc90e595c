"""Arguments and settings: checks with the remedy in each error, notes, and the procedure of an evaluation."""

from __future__ import annotations

import json
import math
import platform
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from calibrant import __version__
from calibrant._math.arrays import ArrayLike
from calibrant._math.checks import check_choice, check_level, check_whole
from calibrant._math.errors import InputError
from calibrant._math.text_form import kind_of, of_kind
from calibrant.evaluation.quantities import QUANTITIES, find
from calibrant.evaluation.quantity import EVENT
from calibrant.evaluation.resampling.events import Indices
from calibrant.evaluation.resampling.intervals import INTERVALS, Intervals, beyond_chance, draws_for
from calibrant.evaluation.resampling.resamples import Resamples, Stream, stream_seed
from calibrant.evaluation.result import Coverage, Coverages, Kind, Settings
from calibrant.predictions import DensePredictions, Predictions
from calibrant.predictions.partitioned import PartitionedPredictions


def no_labels(predictions: Predictions) -> InputError:
    """Error for predictions without labels; it names the unused and the empty columns of the file."""
    unused = of_kind(predictions.notes, "unused", "empty")
    source, top_label = predictions.source, predictions.kind == "top_label"
    if source is None:
        name = "correct" if top_label else "labels"
        return InputError(" ".join([f"`{name}` must be given to evaluate predictions; got none.", *unused]))
    lacks = "no `correct`" if top_label else "no labels"
    remedy = "fill the `labels` array (in a table, a `label` column), or name the column with --label-column"
    if top_label or source.format == "npy":
        remedy = "add it, 0 or 1 per sample" if top_label else "save them as labels.npy in the same folder"
    return InputError(" ".join([f"{source.path or source.name} has {lacks}; {remedy}.", *unused]))


WIDE = 10_000  # classes; of more, none is ranked or drawn, and few are listed
GROUPS_NOTE = (
    "Samples are treated as independent, even within a group. If a group is a person or a scene seen many "
    "times, the intervals are too narrow. Pass the clusters with `cluster` (--cluster)."
)
Cluster: TypeAlias = ArrayLike | Literal["groups"] | None  # one name per sample, or the groups


def in_clusters(predictions: Predictions, cluster: Cluster) -> Predictions:
    """Set the clusters; ``None`` keeps those of the predictions."""
    if cluster is None:
        return predictions
    if not isinstance(cluster, str):
        return predictions.with_clusters(cluster)
    if cluster != "groups" or predictions.groups is None:
        got = f"{cluster!r}" if cluster != "groups" else "predictions without groups"
        raise InputError(
            f'`cluster` must be one name per sample, or "groups" if the predictions have groups; got {got}.'
        )
    return predictions.with_clusters(predictions.groups)


FEW_CLUSTERS = 20


def few_note(number: int) -> str:
    """A note if few clusters, images or batches are resampled; else empty.

    Example:
        >>> few_note(4), few_note(20)
        (' 4 are few: below about 20, intervals are still too short.', '')
    """
    if number >= FEW_CLUSTERS:
        return ""
    return f" {number} are few: below about {FEW_CLUSTERS}, intervals are still too short."


def clusters_note(predictions: Predictions) -> tuple[str, ...]:
    if predictions.clusters is None:
        return () if predictions.groups is None else (GROUPS_NOTE,)
    _, counts = np.unique(np.asarray(predictions.clusters), return_counts=True)
    sizes = " to ".join(dict.fromkeys(f"{size:,}" for size in (counts.min(), counts.max())))
    units = f"{len(counts):,} clusters of {sizes} sample{'s' if counts.max() > 1 else ''}"
    said = f"Intervals and p-values treat the {units} as the independent units."
    return (said + few_note(len(counts)),)


def dropped_note(number: int) -> str:
    return (
        f"The {number:,} samples marked as calibration split are not used: `calibration` takes their place."
    )


LEAST_RESAMPLES = 100


def few_resamples_note(num_resamples: int, level: float) -> tuple[str, ...]:
    least = max(LEAST_RESAMPLES, math.ceil(round(2 / (1 - level), 6)))  # one beyond each end
    if num_resamples >= least:
        return ()
    return (f"{num_resamples:,} resamples are too few for intervals. Use {least:,} or more.",)


def few_draws_note(num_draws: int, level: float) -> tuple[str, ...]:
    """A note if the draws are too few for tests at half the error level, which differences need."""
    if beyond_chance(1 / (1 + num_draws), (1 + level) / 2):
        return ()
    remedy = f"Set `null_draws` to {draws_for(level)} or more, or lower `level`."
    return (f"With only {num_draws} null draws, the intervals are unreliable at this level. {remedy}",)


NAME_ARRAYS = (
    "name arrays, as in `calibrant.evaluate(probs=probs, labels=labels)`, or wrap them as "
    "`calibrant.Predictions(logits=logits, labels=labels)`."
)


def from_arrays(predictions: Any, positive_class: int | str | None, **arrays: Any) -> Any:
    """Make predictions of the arrays unless there are some; refuse to combine them."""
    given = {name: each for name, each in arrays.items() if each is not None}
    if predictions is None:
        return Predictions(**given, positive_class=positive_class)
    if given and _are_samples(predictions):
        raise TypeError(
            "name the scores, as in `calibrant.evaluate(probs=probs, labels=labels)`; got "
            f"{type(predictions).__name__} without a name."
        )
    if given:
        raise InputError(
            f"`{next(iter(given))}` can't be combined with a `Predictions` object; leave it out."
        )
    return predictions


def check_predictions(value: object, name: str, wrapping: str = NAME_ARRAYS) -> Predictions:
    """The value, if it is predictions; ``wrapping`` is the remedy for arrays."""
    if isinstance(value, Predictions):
        return value
    remedy = wrapping if _are_samples(value) else "to read a file use `calibrant.load_predictions(path)`."
    if hasattr(value, "predict"):
        remedy = "for a classifier use `calibrant.Predictions.from_estimator(classifier, X, y)`."
    raise TypeError(f"`{name}` must be Predictions; got {kind_of(value)}; {remedy}")


def _are_samples(value: object) -> bool:
    return hasattr(value, "__array__") or (isinstance(value, Sequence) and not isinstance(value, str))


def refuse_with_sums(predictions: object, **given: object) -> None:
    """Refuse arguments that need all samples in memory, for images and for tables in parts."""
    if isinstance(predictions, DensePredictions):
        heeded, kind = set[str](), "images"
        remedy = "mark the images for fitting with `split`, and drop these arguments"
    elif isinstance(predictions, PartitionedPredictions):
        heeded, kind = {"calibration", "positive_class", "ood", "ood_score"}, "tables read in parts"
        remedy = "read the whole table with `load_predictions` (without --engine)"
    else:
        return
    refused = [name for name, value in given.items() if value is not None and name not in heeded]
    if refused:
        verb = "isn't" if len(refused) == 1 else "aren't"
        raise InputError(f"`{'`, `'.join(refused)}` {verb} available for {kind}; {remedy}.")


def as_judged(predictions: Predictions, positive_class: int | str | None = None) -> Predictions:
    """Predictions in the form that is evaluated: two classes become one event."""
    two_columns = predictions.kind == "multiclass" and predictions.num_classes == 2
    return predictions.as_binary(positive_class) if two_columns or positive_class is not None else predictions


def names_of(predictions: Predictions) -> tuple[str, ...]:
    """Names of the classes or labels, or their numbers."""
    return predictions.class_names or tuple(str(k) for k in range(predictions.num_classes or 0))


def is_wide(predictions: Predictions) -> bool:
    """True for very many classes, of which few rows fit in memory."""
    return predictions.kind == "multiclass" and (predictions.num_classes or 0) > WIDE


def check_pairs(models: object) -> None:
    for model in models if isinstance(models, Sequence) else [models]:
        if not isinstance(model, tuple | list) or len(model) != 2 or not isinstance(model[0], str):
            raise TypeError(
                f"`models` must hold pairs of a name and Predictions; got {kind_of(model)}; "
                'name them, as in `compare({"a": first, "b": second})`.'
            )


def test_of(predictions: Predictions) -> Predictions:
    """The test split; all samples if there is none."""
    has_test = predictions.split is not None and bool((predictions.split == 1).any())
    return predictions.test if has_test else predictions


def same_samples(first: Predictions, other: Predictions) -> bool:
    """True if labels and weights agree, or without labels, if the same samples are right."""
    if first.weights is None or other.weights is None:
        same_weights = first.weights is other.weights
    else:
        same_weights = torch.equal(first.weights, other.weights)
    if not same_weights:
        return False
    if first.labels is not None and other.labels is not None:
        return torch.equal(first.labels, other.labels)
    if first.kind != "top_label" or not torch.equal(first.correct, other.correct):
        return False
    return are_telling(len(first.correct), int(first.correct.sum()))  # noise makes that unlikely


def are_telling(num_samples: int, hits: int) -> bool:
    """True if at least a million patterns of right and wrong have this number of hits."""
    patterns = math.lgamma(num_samples + 1) - math.lgamma(hits + 1) - math.lgamma(num_samples - hits + 1)
    return patterns > math.log(1e6)


def refuse_other_classes(models: Sequence[tuple[str, tuple[str, ...] | None]]) -> None:
    """Refuse models whose class names or their order differ; one of the files may be wrong."""
    known = [(name, classes) for name, classes in models if classes is not None]
    for name, classes in known[1:]:
        first, expected = known[0]
        theirs, mine = Counter(expected), Counter(classes)
        missing = sorted((theirs - mine) + (mine - theirs))
        if missing:
            owner = first if theirs[missing[0]] > mine[missing[0]] else name
            raise InputError(
                f"{first} and {name} must have the same classes; {missing[0]!r} is one of {owner} only; "
                "leave the names out if they only differ in spelling."
            )
        if classes != expected:
            place = next(k for k, pair in enumerate(zip(expected, classes, strict=False)) if len({*pair}) > 1)
            raise InputError(
                f"{first} and {name} must have their classes in the same order; class {place} is "
                f"{expected[place]!r} in {first} and {classes[place]!r} in {name}; reorder the columns (and "
                "numeric labels) of one."
            )


@dataclass(frozen=True, kw_only=True)
class Procedure:
    """Settings of the evaluation of every arm."""

    kind: Kind
    num_bins: int
    num_resamples: int
    num_draws: int
    level: float
    seed: int
    intervals: Intervals = "inverted"
    metrics: tuple[str, ...] = ()  # keys of additional quantities
    clusters: int | None = None  # number of resampled clusters; None: samples
    _resamples: dict[tuple[int, ...], Resamples] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        check_choice("intervals", self.intervals, INTERVALS)
        for name, value, least in (
            ("num_bins", self.num_bins, 1),
            ("bootstrap", self.num_resamples, 2),
            ("null_draws", self.num_draws, 1),
            ("seed", self.seed, 0),
        ):
            check_whole(name, value, least)
        check_level(self.level)

    def settings(self, calibration: str, calibrators: tuple[str, ...] = ()) -> Settings:
        return Settings(
            num_bins=self.num_bins,
            bootstrap=self.num_resamples,
            level=self.level,
            seed=self.seed,
            null_draws=self.num_draws,
            calibration=calibration,
            calibrators=calibrators,
            intervals=self.intervals,
            metrics=self.metrics,
            clusters=self.clusters,
        )

    def resamples(
        self, num_samples: int, part: int, clusters: Indices | None = None, *, most: int | None = None
    ) -> Resamples:
        """Resamples, shared by all arms of a part; only the first ones if fewer are wanted."""
        number = self.num_resamples if most is None else min(most, self.num_resamples)
        key = num_samples, part, number, 0 if clusters is None else hash(clusters.tobytes())
        kept = self._resamples.get(key)
        if kept is None:
            seed = stream_seed(self.seed, Stream.BOOTSTRAP, part)
            kept = Resamples(num_samples, number, seed, clusters)
            self._resamples[key] = kept
        return kept


def versions() -> dict[str, str]:
    return {
        "calibrant": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


Progress = Callable[[str, float], None]


class Steps:
    """Reports progress in equal steps."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._tell = progress or (lambda _stage, _fraction: None)
        self._total = total
        self._done = -1
        self._stage = ""

    def next(self, stage: str) -> None:
        self._done += 1
        self._stage = stage
        self._tell(stage, min(1.0, self._done / self._total))

    def finish(self) -> None:
        self._tell("done", 1.0)

    def within(self, fraction: float) -> None:
        self._tell(self._stage, min(1.0, (self._done + fraction) / self._total))

    def watching(self, test: Predictions) -> Callable[[float], None]:
        """A reporter of the share done of a step; reading streamed scores is its first half."""
        if not test.streamed:
            return self.within
        test.watch(lambda fraction: self.within(fraction / 2))
        return lambda fraction: self.within((1 + fraction) / 2)


FILE = Path(__file__).with_name("measured_coverage.json")  # written by `python -m papers coverage`


def coverage_of(procedure: Procedure, keys: Iterable[str]) -> Coverages | None:
    """Measured coverage of these quantities; ``None`` for intervals that were not measured."""
    found = _measured()
    measured = procedure.intervals == "inverted" and procedure.level == found["level"]
    if procedure.clusters is not None or not measured:
        return None
    wanted = {key: _measured_as(key, procedure.kind, found["values"]) for key in keys}

    def of(known: Mapping[str, Any]) -> dict[str, Coverage]:
        return {key: Coverage(**known[name]) for key, name in wanted.items() if name and name in known}

    return Coverages(level=found["level"], values=of(found["values"]), changes=of(found["changes"]))


def _measured_as(key: str, kind: Kind, measured: Mapping[str, Any]) -> str | None:
    """Key of the measured interval; a debiased error has that of the plain error."""
    plain = key.removeprefix(EVENT)
    quantity = find(key, kind)
    if plain in measured:
        return plain
    target = None if quantity is None else quantity.computed.target
    same = (each.key for each in QUANTITIES if each.computed.target == target and each.key in measured)
    return None if target is None else next(same, None)


@cache
def _measured() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))
