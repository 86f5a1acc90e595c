"""Monitoring of a deployed model: windows of time, and tests that stay valid after each of them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import get_args

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from calibrant._math.checks import check_choice
from calibrant._math.errors import InputError
from calibrant._math.text_form import plural, suggesting
from calibrant.evaluation.arguments import (
    Cluster,
    Procedure,
    as_judged,
    check_predictions,
    in_clusters,
    no_labels,
    refuse_other_classes,
    versions,
)
from calibrant.evaluation.judging.measure import measure
from calibrant.evaluation.judging.reduce import reduce_predictions
from calibrant.evaluation.monitoring.questions import (
    CLUSTERS_NOTE,
    Watched,
    Windows,
    calibration_test,
    change_test,
    drift_tests,
    one_per_cluster,
    ripe,
    sample_per_cluster,
    stated_probs,
    whole_clusters,
    windows_of,
)
from calibrant.evaluation.monitoring.result import MONITOR_SCHEMA_VERSION, Against, Monitoring, Window
from calibrant.evaluation.quantities import MEAN_CONFIDENCE, MEAN_PROBABILITY
from calibrant.evaluation.result import Estimate
from calibrant.predictions import Predictions

NULL_DRAWS = 1000  # as in an evaluation, so that the numbers are the same
NO_LABELS_NOTE = (
    "No label is known, so only changes of the stated probabilities are tested; whether they are still right "
    "needs labels."
)
WEIGHTS_NOTE = (
    "Weights count in the numbers of each window. The evidence counts every sample once, as a bet is fair "
    "whatever it is worth; samples of weight zero are left out."
)
_LEAST = 2  # labelled samples, or clusters, of a window whose numbers are shown


@suggesting()
def monitor(
    stream: Predictions,
    times: ArrayLike,
    *,
    window: str | float,
    labelled: ArrayLike | None = None,
    label_delay: str | float | None = None,
    baseline: Predictions | None = None,
    against: Against | None = None,
    false_alarms: float = 0.05,
    positive_class: int | str | None = None,
    cluster: Cluster = None,
    num_bins: int = 15,
    bootstrap: int = 200,
    seed: int = 0,
    command: str | None = None,
    progress: Callable[[float], None] = lambda _: None,
) -> Monitoring:
    r"""Watch the calibration of a deployed model; call again after every batch.

    Without a baseline it tests whether the predicted probabilities are right: of the top label and of each
    class, or of each label. With one it tests whether, at the same predicted probability (in ten bins of the
    baseline's samples), outcomes occur as often as then. Notes report whether the confidences, predicted
    classes or true classes have changed, which by itself raises no alarm. With several classes, half
    of the stake is on the top label and half on the classes, in equal parts. So evidence of the top label
    alone must reach twice as much for an alarm.

    The tests are e-processes (see :mod:`calibrant.evaluation.monitoring.evidence`): a model under the
    hypothesis ever raises an alarm with probability ``false_alarms`` at most, however often you look and
    whenever you stop. With clusters this holds for looks at the ends of windows. Call it with a longer
    ``stream`` from the same beginning; every new start has a new chance of a false alarm.

    Args:
        stream: Predictions since the monitor began.
        times: Time of each prediction, ``(N,)``: dates, or numbers in any unit.
        window: Length of a window: ``"1d"``, ``"12h"``, ``"30min"``, ``"1w"`` for dates, or a number.
        labelled: True for samples with a label by now, ``(N,)``; by default all. Missing labels may depend
            on the stated probabilities, but not on the labels: if positives, say, are known first, give a
            ``label_delay``.
        label_delay: Time until all labels of a window are known, in the form of ``window``;
            younger windows wait. Labels that are missing then still get a note.
        baseline: Predictions with labels from before, such as those that the model was accepted on.
        against: ``"stated"``, ``"baseline"``, or ``"drift"``: whether the stated probabilities are
            distributed as in the baseline, which needs no labels. By default the baseline if there is one,
            or drift if no label is known.
        false_alarms: The probability of ever raising an alarm if nothing is wrong.
        positive_class: With two classes the one that is monitored, as in :func:`calibrant.evaluate`.
        cluster: Clusters of dependent samples, as in :func:`calibrant.evaluate`: patients, sessions.
            Clusters then must be independent, and samples of one need not be; a cluster counts with the
            samples of the window where it began. ``"groups"`` also means those of the baseline; if names are
            given, the baseline must have clusters of its own.
        num_bins: Bins of the calibration error of a window.
        bootstrap: Resamples for the intervals of a window.
        seed: Random seed of these.
        command: The command line to record, if there was one.
        progress: Called with the share of the work that is done.

    Returns:
        The numbers of each window with intervals, and the tests with their evidence over time.

    Raises:
        TypeError: If something else than predictions is given.
        InputError: If labels are missing, times do not fit, or the baseline is of another kind, or without
            clusters where they are given for the stream.

    Note:
        Against a baseline, the probability of a false alarm is an average over what the baseline leaves
        uncertain. Intervals of a window have their level there alone: of a hundred windows five are outside.
        Only the tests account for looking often. If labels arrive late, the evidence of a past window
        changes as they come in; with clusters the bound holds for looks at windows that wait for none. An
        alarm comes some windows after a change, the sooner the larger it is.

    References:
        Henzi and Ziegel, "Valid sequential inference on probability forecast performance", Biometrika 109,
        2022; Arnold, Henzi and Ziegel, "Sequentially valid tests for forecast calibration", Annals of Applied
        Statistics 17, 2023.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> log_odds = rng.normal(size=2000)
        >>> days = np.arange(2000) // 100
        >>> truth = np.where(days < 10, log_odds, log_odds / 2)  # over-confident from day 10 on
        >>> labels = rng.random(2000) < 1 / (1 + np.exp(-truth))
        >>> found = monitor(Predictions(logits=log_odds, labels=labels), days, window=1, bootstrap=20)
        >>> found.passed, found.tests[0].alarm > 10
        (False, True)
    """
    check_predictions(stream, "stream")
    stream = as_judged(in_clusters(stream, cluster), positive_class)
    known, moments = _known(stream, labelled), _times(times, stream.num_samples)
    notes = stream.notes
    if stream.weights is not None:
        counts = stream.weights > 0
        known, moments = known[counts.numpy()], moments[counts.numpy()]
        stream, notes = stream.rows(counts), (*notes, WEIGHTS_NOTE)
    windows, awaited = windows_of(moments, window), np.ones_like(known)
    if label_delay is not None:
        awaited = ripe(moments, windows, label_delay)
        if baseline is None and not (known & awaited).any():
            raise InputError("`label_delay` leaves no labelled sample; wait, or give a shorter one.")
        known = known & awaited
    notes = (*notes, *_missing_note(windows, known, awaited))
    are_known = bool(known.any())
    against = against or ("stated" if baseline is None else "baseline" if are_known else "drift")
    _check_against(against, baseline, are_known=are_known)
    if not 0 < false_alarms < 1:
        raise InputError(f"`false_alarms` must be between 0 and 1, as in 0.05; got {false_alarms}.")
    told = stream.rows(torch.from_numpy(known)) if are_known else stream
    index = windows.index[known] if are_known else windows.index
    watched = Watched(stream, told, windows, index, false_alarms)
    if told.clusters is not None:
        watched, single = whole_clusters(watched), one_per_cluster(watched, seed)
        notes = (*notes, CLUSTERS_NOTE)
    else:
        single = watched
    tests = [calibration_test(watched, decides=against == "stated")] if are_known else []
    if not are_known:
        notes = (*notes, NO_LABELS_NOTE)
    if baseline is not None:
        baseline = _as_baseline(baseline, stream, cluster, positive_class, labelled=are_known)
        before = baseline
        if baseline.clusters is not None:
            before, _ = sample_per_cluster(baseline, np.zeros(baseline.num_samples, dtype=np.int64), seed)
        tests += [change_test(single, before, decides=against == "baseline")] if are_known else []
        tests += drift_tests(single, before, labelled=are_known, decides=against == "drift")
    procedure = Procedure(
        kind=stream.kind,
        num_bins=num_bins,
        num_resamples=bootstrap,
        num_draws=NULL_DRAWS,
        level=0.95,
        seed=seed,
    )
    return Monitoring(
        schema_version=MONITOR_SCHEMA_VERSION,
        passed=not any(test.decides and test.alarm is not None for test in tests),
        against=against,
        false_alarms=false_alarms,
        kind=stream.kind,
        num_samples=stream.num_samples,
        num_labelled=int(known.sum()),
        windows=tuple(_windows(told, index, windows, procedure, progress, are_known=are_known)),
        tests=tuple(tests),
        source=stream.source,
        baseline=None if baseline is None else baseline.source,
        notes=notes,
        versions=versions(),
        command=command,
    )


def _times(times: ArrayLike, num_samples: int) -> NDArray[np.generic]:
    found = np.asarray(times)
    if found.dtype.kind in "UO":
        with contextlib.suppress(ValueError, TypeError):
            found = np.asarray(found, dtype="datetime64[s]")
    if found.shape != (num_samples,):
        raise InputError(f"`times` must have shape ({num_samples},), one per sample; got {found.shape}.")
    if not (np.issubdtype(found.dtype, np.datetime64) or found.dtype.kind in "iuf"):
        raise InputError(f"`times` must be dates, such as '2026-11-22', or numbers; got {found.dtype}.")
    return found


def _known(stream: Predictions, labelled: ArrayLike | None) -> NDArray[np.bool_]:
    if not stream.has_labels:
        return np.zeros(stream.num_samples, dtype=bool)
    known = np.ones(stream.num_samples, dtype=bool) if labelled is None else np.asarray(labelled)
    if known.dtype != np.bool_ or known.shape != (stream.num_samples,):
        raise InputError(f"`labelled` must be booleans of shape ({stream.num_samples},); got {known.shape}.")
    return known


def _check_against(against: Against, baseline: Predictions | None, *, are_known: bool) -> None:
    check_choice("against", against, get_args(Against))
    if against != "stated" and baseline is None:
        raise InputError(f'`against="{against}"` needs a `baseline`; got none.')
    if against != "drift" and not are_known:
        raise InputError(
            "no sample has a label yet; to watch the stated probabilities without labels, give a `baseline` "
            "and leave out `against`."
        )


def _missing_note(windows: Windows, known: NDArray[np.bool_], awaited: NDArray[np.bool_]) -> tuple[str, ...]:
    some = set(windows.index[known].tolist()) & set(windows.index[awaited & ~known].tolist())
    if not some:
        return ()
    said = (
        f"Labels are missing in {plural(len(some), 'window')}. If some classes get theirs earlier, that "
        "looks like miscalibration"
    )
    return (f"{said}: let windows wait until all labels are there (`label_delay`, --label-delay).",)


def _as_baseline(
    baseline: Predictions,
    stream: Predictions,
    cluster: Cluster,
    positive_class: int | str | None,
    *,
    labelled: bool,
) -> Predictions:
    check_predictions(baseline, "baseline")
    if isinstance(cluster, str) and baseline.groups is not None:
        baseline = in_clusters(baseline, cluster)
    elif cluster is not None and baseline.clusters is None:
        raise InputError(
            "`baseline` must have clusters if the stream has them (`cluster`); got none; name them with "
            "`baseline.with_clusters(names)`."
        )
    judged = as_judged(baseline, positive_class)
    if judged.weights is not None:
        judged = judged.rows(judged.weights > 0)
    if judged.kind != stream.kind:
        raise InputError(f"`baseline` must be {stream.kind}, like the stream; got {judged.kind}.")
    if labelled and not judged.has_labels:
        raise no_labels(judged)
    refuse_other_classes([("the stream", stream.class_names), ("the baseline", judged.class_names)])
    return judged


def _windows(
    told: Predictions,
    index: NDArray[np.int64],
    windows: Windows,
    procedure: Procedure,
    progress: Callable[[float], None],
    *,
    are_known: bool,
) -> list[Window]:
    found: list[Window] = []
    samples = np.bincount(windows.index, minlength=len(windows))
    for number in range(len(windows)):
        rows = np.flatnonzero(index == number)
        metrics: dict[str, Estimate] = {}
        part = told.rows(torch.from_numpy(rows)) if len(rows) >= _LEAST else None
        if part is not None and not are_known:
            quantity = MEAN_PROBABILITY if part.kind in MEAN_PROBABILITY.kinds else MEAN_CONFIDENCE
            stated = [np.average(event.probs, weights=part.weights) for event in stated_probs(part)]
            metrics = {
                quantity.key: Estimate(value=float(np.mean(stated)), reason="no interval without labels")
            }
        elif part is not None and (part.clusters is None or len(set(part.clusters)) >= _LEAST):
            metrics = measure(reduce_predictions(part, procedure.num_bins), procedure).metrics
        found.append(
            Window(
                start=windows.edges[number],
                end=windows.edges[number + 1],
                num_samples=int(samples[number]),
                num_labelled=len(rows) if are_known else 0,
                end_seconds=None if windows.seconds is None else windows.seconds[number + 1],
                metrics=metrics,
            )
        )
        progress((number + 1) / len(windows))
    return found
