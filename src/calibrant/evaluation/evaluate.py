"""The whole answer for one set of predictions."""

from __future__ import annotations

import functools
import math
import platform
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ParamSpec

import numpy as np
import torch

from calibrant import __version__
from calibrant._math.errors import InputError
from calibrant.calibrators import Calibrator
from calibrant.evaluation import chunks
from calibrant.evaluation.arguments import GROUPS_NOTE, check_predictions, few_resamples_note
from calibrant.evaluation.arms import (
    FIT_FAILURES,
    Labelled,
    Template,
    cross_fit,
    fit_summary,
    templates,
)
from calibrant.evaluation.finding import significance
from calibrant.evaluation.groups import group_rows, with_groups
from calibrant.evaluation.judge import Judged, Procedure, change, judge, nulls_and_curves
from calibrant.evaluation.out_of_distribution import Repaired, detect
from calibrant.evaluation.recommend import UNCALIBRATED, Recommendation, further, missing_classes, recommend
from calibrant.evaluation.reduce import Reduced, reduce_predictions
from calibrant.evaluation.result import SCHEMA_VERSION, Arm, Evaluation, Intervals, Settings
from calibrant.evaluation.shapes import shapes_of_arm
from calibrant.evaluation.split import Split, choose_split, has_both_parts
from calibrant.evaluation.verdict import Case, reach_verdict
from calibrant.metrics.out_of_distribution import OutOfDistributionScore
from calibrant.predictions import Predictions
from calibrant.predictions.files import WRITERS

Progress = Callable[[str, float], None]
Given = ParamSpec("Given")
LEAST_TO_CHOOSE = 20  # calibration samples; with fewer, nothing is recommended


def _one_at_a_time(function: Callable[Given, Evaluation]) -> Callable[Given, Evaluation]:
    """Say what to pass where several things are passed one after the other, such as logits and labels."""

    @functools.wraps(function)
    def checked(*args: Given.args, **kwargs: Given.kwargs) -> Evaluation:
        if len(args) > 1:
            check_predictions(args[0], "predictions")
            raise TypeError(
                f"`evaluate` takes one set of predictions; got {len(args)}; samples to fit on go as "
                "`calibration=`, and several models are judged side by side by `calibrant.compare`."
            )
        return function(*args, **kwargs)

    return checked


@_one_at_a_time
def evaluate(
    predictions: Predictions,
    *,
    calibration: Predictions | None = None,
    calibrators: Sequence[str | Calibrator] | None = None,
    num_bins: int = 15,
    bootstrap: int = 1000,
    null_draws: int = 1000,
    level: float = 0.95,
    intervals: Intervals = "centred",
    ood: Predictions | None = None,
    ood_score: OutOfDistributionScore | None = None,
    seed: int = 0,
    command: str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    r"""Say whether probabilities are true, how sure that is, and what repairs them.

    Every metric is computed for the predictions as they came and after each calibrator. Calibrators are
    fitted on the calibration samples alone and judged on the test samples alone:

    - those of the split that the predictions have, or of ``calibration``;
    - without a split, halves drawn at random within each class;
    - below 1000 samples without a split, all samples in turn: each is judged by calibrators that were fitted
      on the other four fifths.

    What was done stands in ``settings.calibration``, and in ``notes`` where the choice was ours.

    **Intervals** come from ``bootstrap`` resamples of the test samples, which keep their weights; every arm
    is judged on the same resamples, so ``change`` (arm minus uncalibrated) is paired. They are percentiles of
    the resampled values after these were moved to centre on the value. A mean centres there anyway; a
    calibration error does not, because each layer of noise enlarges it. Of a small true error (0.021, 2000
    samples) the moved percentiles cover 88 %, percentiles left where they are 55 %. ``intervals`` takes plain
    percentiles or BCa ones instead. The AUROC has DeLong's interval, or for several classes the same with the
    influences averaged; calibration slope and intercept have normal ones from their influences. Where all
    that count are right (or none is), resamples are all alike, and the share has Clopper and Pearson's
    interval; what a single sample decides has none, nor has a change judged on fewer than six samples (at
    95 %), which chance explains even where it goes the same way in all.

    **Chance**: a finite sample shows an error even where every probability is true. ``null`` holds the errors
    when outcomes are drawn from the stated probabilities, the share :math:`(1 + k)/(1 + D)` of :math:`D`
    draws (:math:`k` of which reach the error observed) as the p-value, and the ``level`` quantile.

    **The recommendation** is the simplest calibrator whose negative log-likelihood, cross-validated on the
    calibration samples, is within one standard error of the best (see
    :func:`calibrant.calibrators.select`): never the one with the lowest calibration error. By default it is
    looked for among all that suit the predictions, and the one that is chosen is judged beside the usual
    ones. Where the NLL of that arm is clearly worse on the test samples, none is recommended; nor is any
    with fewer than 20 calibration samples, which are too few to choose by.

    Args:
        predictions: What to judge; labels are needed.
        calibration: Other predictions of the same model to fit on: their calibration split, or all of them
            where they have none. The calibration split of ``predictions`` is then left out, which is noted.
        calibrators: Names such as ``"temperature"`` or ``'focal-temperature(objective="ece")'``, or
            calibrators, which are fitted anew; no two alike. By default ``"temperature"``,
            ``"focal-temperature"`` and what else is recommended.
        num_bins: Bins of every calibration error and diagram.
        bootstrap: Resamples, at least 2; too few for the level (below 100, or 2 / (1 - level)) are noted.
        null_draws: Draws under perfect calibration; with fewer than ``1 / (1 - level)`` (binary: twice as
            many) no error can count as real, which is noted.
        level: Of every interval, and one minus the share of calibrated models that are called miscalibrated.
        intervals: ``"centred"``, ``"percentile"`` or ``"bca"`` (bias-corrected and accelerated; for means, it
            leaves calibration errors near zero without an interval).
        ood: What the same model said of samples of another kind (their test split, where they have one): how
            well are they told from the test samples? Labels are not needed and not looked at.
        ood_score: By what: ``"entropy"`` (the default), ``"max_probability"`` (the default where only
            confidences are known), ``"max_logit"`` or ``"energy"`` (these need logits, and have no value
            after a calibrator).
        seed: Decides everything random; the same seed gives the same bits.
        command: The command line to record, if there was one.
        progress: Called with a few words and the share that is done.

    Returns:
        Frozen data with ``to_json``, ``rows`` and ``arm``. Metrics are fractions, not per cent; NLL and
        entropies in nats. For a binary model ``ece`` is the top label's and ``event_ece`` the positive
        class's; for several labels per sample errors are means over the labels, and accuracy counts
        decisions.

    Raises:
        TypeError: If ``predictions`` or ``calibration`` are not predictions.
        InputError: If there are no labels, ``calibration`` does not fit, or an option is out of range.

    Note:
        A few seconds for 10 000 samples of 100 classes. Needs memory for the scores and some numbers per
        sample; the table of probabilities passes through in blocks.

    References:
        Vaicenavicius et al., "Evaluating model calibration in classification", AISTATS 2019 (resampling
        labels from the probabilities); Efron and Tibshirani, "An Introduction to the Bootstrap", 1993.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> log_odds = rng.normal(size=2000)
        >>> labels = rng.random(2000) < 1 / (1 + np.exp(-log_odds))
        >>> found = evaluate(Predictions(logits=3 * log_odds, labels=labels), bootstrap=200, null_draws=200)
        >>> found.verdict.direction, found.num_calibration, found.num_test
        ('over-confident', 1000, 1000)
        >>> found.arm("temperature").metrics["ece"].value < found.arm("uncalibrated").metrics["ece"].value / 2
        True
    """
    check_predictions(predictions, "predictions")
    if calibration is not None:
        check_predictions(calibration, "calibration")
    if ood is not None:
        check_predictions(ood, "ood")
    elif ood_score is not None:
        raise InputError("`ood_score` goes with `ood`, the samples of another kind; there are none.")
    procedure = Procedure(
        kind=predictions.kind,
        num_bins=num_bins,
        num_resamples=bootstrap,
        num_draws=null_draws,
        level=level,
        seed=seed,
        intervals=intervals,
    )
    split = chunks.with_calibration_in_memory(choose_split(predictions, calibration, seed), seed)
    procedure = chunks.with_fewer_resamples(procedure, split)
    wanted = templates(calibrators, predictions.kind)
    if split.calibration is None:
        wanted = []
    # One more arm if another calibrator is chosen.
    steps = _Steps(progress, 2 * (len(wanted) + (calibrators is None)) + 2 + (ood is not None))

    steps.next("choosing among the calibrators")
    recommendation = None
    one_class = split.calibration is not None and _one_class_only(split.calibration)
    if (
        split.calibration is not None
        and wanted
        and split.num_calibration >= LEAST_TO_CHOOSE
        and not one_class
    ):
        others = [] if calibrators is not None else further(split.calibration, wanted)
        recommendation = recommend([*wanted, *others], split.calibration, seed)
        wanted += [template for template in others if template.name == recommendation.name]
    fitted, failures = _fit_all(wanted, split, recommendation, steps)
    arms, uncalibrated = _judge_all(fitted, split, procedure, steps)
    case = Case(
        kind=predictions.kind,
        arms=arms,
        uncalibrated=uncalibrated,
        recommendation=recommendation,
        level=level,
        num_calibration=split.num_calibration,
        num_test=split.test.num_samples,
        cross_fitted=split.folds is not None,
        one_class=one_class,
        fit_arguments=_fit_arguments(predictions, calibration, split),
        apply_arguments=_apply_arguments(predictions),
    )
    detected = None
    if ood is not None:
        steps.next("telling foreign samples apart")
        repaired = [
            Repaired(each.template.name, each.template.title, each.calibrator, each.in_turn)
            for each in fitted
        ]
        detected = detect(split.test, ood, ood_score, repaired, procedure)
    steps.finish()
    return Evaluation(
        schema_version=SCHEMA_VERSION,
        kind=predictions.kind,
        num_classes=predictions.num_classes,
        class_names=predictions.class_names,
        num_calibration=split.num_calibration,
        num_test=split.test.num_samples,
        source=predictions.source,
        settings=Settings(
            num_bins=num_bins,
            bootstrap=procedure.num_resamples,
            level=level,
            seed=seed,
            null_draws=procedure.num_draws,
            calibration=split.words,
            calibrators=tuple(template.name for template in wanted),
            intervals=intervals,
        ),
        arms=arms,
        verdict=with_groups(reach_verdict(case), arms[0].groups, split.test.groups, level),
        notes=(
            *_notes(predictions, calibration, split, procedure, failures),
            *chunks.notes(split, procedure, bootstrap),
        ),
        versions=versions(),
        command=command,
        out_of_distribution=detected,
    )


class _Steps:
    """Tells how far the work is, in equal steps."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._tell = progress or (lambda _stage, _fraction: None)
        self._total = total
        self._done = -1
        self._stage = ""

    def next(self, stage: str) -> None:
        """The next step begins."""
        self._done += 1
        self._stage = stage
        self._tell(stage, min(1.0, self._done / self._total))

    def finish(self) -> None:
        """Everything is done."""
        self._tell("done", 1.0)

    def within(self, fraction: float) -> None:
        """A share of the present step is done."""
        self._tell(self._stage, min(1.0, (self._done + fraction) / self._total))

    def watching(self, test: Predictions) -> Callable[[float], None]:
        """Told how far a step is; where scores are read from a file, that is the first half of it."""
        if not test.streamed:
            return self.within
        test.watch(lambda fraction: self.within(fraction / 2))
        return lambda fraction: self.within((1 + fraction) / 2)


@dataclass(frozen=True)
class _Fitted:
    """A calibrator fitted on all calibration samples."""

    template: Template
    calibrator: Calibrator
    in_turn: Predictions | None
    """With cross-fitting: the samples as judged by calibrators fitted on others."""

    def reduce(self, test: Predictions, num_bins: int) -> Reduced:
        """The test samples after the calibrator."""
        if self.in_turn is not None:
            return reduce_predictions(self.in_turn, num_bins)
        return reduce_predictions(test, num_bins, self.calibrator.predict_proba)


def _fit_all(
    wanted: list[Template], split: Split, recommendation: Recommendation | None, steps: _Steps
) -> tuple[list[_Fitted], list[str]]:
    """Fitted calibrators, and a sentence on each that could not be."""
    fitted: list[_Fitted] = []
    failures: list[str] = []
    for template in wanted:
        steps.next(f"fitting {template.name}")
        try:
            fitted.append(_fit(template, split, {} if recommendation is None else recommendation.fitted))
        except FIT_FAILURES as error:
            failures.append(f"{template.name} could not be fitted: {error}")
    return fitted, failures


def _fit(template: Template, split: Split, known: Mapping[str, Calibrator]) -> _Fitted:
    if split.calibration is None:
        raise InputError("there are no samples to fit on.")
    data = Labelled.of(split.calibration)
    calibrator = known.get(template.name) or template.fit(data)
    if split.folds is None:
        return _Fitted(template, calibrator, None)
    return _Fitted(template, calibrator, split.test.replace_probs(cross_fit(template, data, split.folds)))


def _judge_all(
    fitted: list[_Fitted], split: Split, procedure: Procedure, steps: _Steps
) -> tuple[tuple[Arm, ...], Judged]:
    """Every arm, and what the first one's verdict needs."""
    names = tuple(str(name) for name in split.test.class_names or range(split.test.num_classes or 0))
    told = steps.watching(split.test)
    steps.next("judging the predictions as they came")
    reduced = reduce_predictions(split.test, procedure.num_bins)
    uncalibrated = judge(reduced, procedure, told)
    first = Arm(
        name=UNCALIBRATED,
        title="Uncalibrated",
        parameters={},
        fit=None,
        metrics=uncalibrated.metrics,
        change={},
        classes=reduced.classes,
        shapes=shapes_of_arm(reduced, procedure.kind, level=procedure.level, seed=procedure.seed),
        groups=group_rows(reduced, split.test.groups, procedure),
        **nulls_and_curves(reduced, procedure, names),
    )
    arms = [first]
    for each in fitted:
        steps.next(f"judging {each.template.name}")
        reduced = each.reduce(split.test, procedure.num_bins)
        judged = judge(reduced, procedure, told)
        arms.append(
            Arm(
                name=each.template.name,
                title=each.template.title,
                parameters=dict(each.calibrator.fit_result_.parameters),
                fit=fit_summary(each.calibrator),
                metrics=judged.metrics,
                change=change(judged, uncalibrated, procedure.level),
                classes=reduced.classes,
                shapes=shapes_of_arm(reduced, procedure.kind, level=procedure.level, seed=procedure.seed),
                groups=group_rows(reduced, split.test.groups, procedure),
                **nulls_and_curves(reduced, procedure, names),
            )
        )
    return tuple(arms), uncalibrated


def _notes(
    predictions: Predictions,
    calibration: Predictions | None,
    split: Split,
    procedure: Procedure,
    failures: list[str],
) -> tuple[str, ...]:
    """What a reader must know beside the numbers."""
    notes = list(predictions.notes)
    if calibration is not None:
        notes += [f"Calibration samples: {note}" for note in calibration.notes]
    if split.calibration is None:
        notes.append(f"No calibrator was fitted: {split.words.removeprefix('none: ')}.")
    elif split.announce or (calibration is not None and has_both_parts(calibration)):
        notes.append(f"Calibrators were fitted on {split.words}.")
    if split.calibration is not None and _one_class_only(split.calibration):
        notes.append(
            "The calibration samples hold one class only: a calibrator learns nothing of the others."
        )
    elif split.calibration is not None and (missing := missing_classes(split.calibration)):
        names = predictions.class_names or tuple(range(predictions.num_classes or 0))
        shown = ", ".join(str(names[k]) for k in missing[:5]) + (", …" if len(missing) > 5 else "")
        which, do = ("Class", "does") if len(missing) == 1 else ("Classes", "do")
        notes.append(
            f"{which} {shown} {do} not occur among the calibration samples: calibrators with numbers for "
            "each class are tried only where they are named."
        )
    if calibration is not None and has_both_parts(predictions):
        dropped = predictions.num_samples - split.test.num_samples
        notes.append(
            f"The {dropped:,} samples marked as calibration split are not used: `calibration` takes their "
            "place."
        )
    if predictions.groups is not None:
        notes.append(GROUPS_NOTE)
    if procedure.num_bins > split.test.num_samples:
        notes.append(
            f"There are more bins, {procedure.num_bins:,}, than test samples: most are empty, and what the "
            "others show is chance; take fewer."
        )
    notes += few_resamples_note(procedure.num_resamples, procedure.level)
    threshold = significance(procedure.level, 2 if procedure.kind == "binary" else 1)
    if not 1 / (1 + procedure.num_draws) < threshold:
        notes.append(
            f"With {procedure.num_draws} draws under calibration no error can count as real at this level; "
            f"take {math.floor(1 / threshold)} or more."
        )
    return (*notes, *failures)


def _one_class_only(predictions: Predictions) -> bool:
    """Whether all samples are of the same class; with several labels per sample there is no such class."""
    labels = predictions.labels
    return labels is not None and labels.ndim == 1 and len(labels.unique()) == 1


def _fit_arguments(predictions: Predictions, calibration: Predictions | None, split: Split) -> str:
    """What to give to ``calibrant fit`` for the same samples, or all where the split was ours."""
    source = (predictions if calibration is None else calibration).source
    path = "FILE" if source is None else source.path or source.name
    name = shlex.quote(f"./{path}" if path.startswith("-") else path)  # else it would count as an option
    marked = not split.announce if calibration is None else has_both_parts(calibration)
    return name if marked else f"{name} --all"


def _apply_arguments(predictions: Predictions) -> str:
    """New predictions and where they go, in the format of these."""
    ending = "npz" if predictions.source is None else predictions.source.format
    if ending == "npy":  # whose names say what they hold, and which are not written
        return f"NEW_{predictions.space}.npy --out REPAIRED.npz"
    ending = ending if f".{ending}" in WRITERS else "npz"
    return f"NEW.{ending} --out REPAIRED.{ending}"


def versions() -> dict[str, str]:
    """Of everything that decides the bits."""
    return {
        "calibrant": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }
