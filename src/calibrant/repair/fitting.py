"""Fit a calibrator to predictions: in memory, in parts, images or boxes."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, get_args

import numpy as np

from calibrant import calibrators
from calibrant._math.errors import CalibrantWarning, InputError, without_warnings
from calibrant._math.text_form import WRAP_ARRAYS, kind_of, plural, suggesting
from calibrant.calibrators import Calibrator, DetectionCalibration, GroupCalibrator, Multicalibrator, build
from calibrant.calibrators.detection import METHODS
from calibrant.evaluation.arguments import Progress, check_predictions, is_wide
from calibrant.evaluation.fitting.split import MOST_FITTED
from calibrant.evaluation.fitting.templates import (
    LEAST_TO_CHOOSE,
    Labelled,
    fit_quietly,
    held_out,
    name_classes,
)
from calibrant.evaluation.group_repairs import usual_by_group
from calibrant.evaluation.parts.source import Positions, fit_in_passes, fits_in_passes, rows_to_fit
from calibrant.evaluation.parts.sums import Deal
from calibrant.evaluation.resampling.intervals import effective_number
from calibrant.evaluation.spread import Spread, here
from calibrant.predictions import DensePredictions, Predictions
from calibrant.predictions.dense import marks_in
from calibrant.predictions.detections import COVARIATES, Detections
from calibrant.predictions.labels import RIGHT_OR_WRONG
from calibrant.predictions.partitioned import PartitionedPredictions
from calibrant.predictions.to_event import to_repair
from calibrant.predictions.top_k import has_row_temperature
from calibrant.repair.applying import refuse_calibrated
from calibrant.repair.opening import opened

Made = TypeVar("Made")
Given: TypeAlias = Predictions | DensePredictions | PartitionedPredictions | Detections
Fitted: TypeAlias = Calibrator | GroupCalibrator | Multicalibrator | DetectionCalibration

MULTICALIBRATION = "multicalibration"
DETECTION = "detection-"
"""Prefix of the methods for boxes."""
_MOST_GROUPS = 20  # with nearly a group for each sample, more than these look like ids


@dataclass(frozen=True, kw_only=True)
class FitReport:
    """Fitted calibrator with notes."""

    calibrator: Fitted
    counts: Counter[str] = field(default_factory=Counter)
    """Samples of each group, or detections of each image."""
    choice: tuple[str, ...] = ()
    """Reason for the choice of the method."""
    notes: tuple[str, ...] = ()
    """On the predictions."""
    warnings: tuple[str, ...] = ()
    """On the fit, of calibrators that do not keep them."""

    def save(self, path: Path) -> None:
        """Write the calibrator."""
        if isinstance(self.calibrator, DetectionCalibration):
            calibrators.save_detection_calibration(self.calibrator, path)
        else:
            self.calibrator.save(path)


@suggesting(unnamed=f"one set of predictions; got {{}}{WRAP_ARRAYS}")
def fit(
    predictions: str | os.PathLike[str] | Given,
    *,
    method: str | None = None,
    every_row: bool = False,
    by_group: bool = False,
    force: bool = False,
    spread: Spread | None = None,
    progress: Progress | None = None,
) -> Fitted:
    """Fit a calibrator on the calibration split of predictions, as ``calibrant fit`` does.

    A table that is read part by part is fitted by sums over all its rows where the method allows it
    (temperature and focal temperature), else on random rows; images on random positions of each.

    Args:
        predictions: With labels: a file or folder, or what :func:`load_predictions`, ``load_dense``,
            ``load_detections`` or ``PartitionedPredictions`` returned, if columns need names. Samples
            are rows, ``(N, C)`` logits or probabilities, or ``(N,)`` of class 1.
        method: A name with its settings for :func:`calibrant.calibrators.build`;
            ``"multicalibration"`` for groups that overlap; ``"detection-logistic"``,
            ``"detection-dependent-logistic"`` or ``"detection-beta"`` for boxes. By default the one that is
            chosen by cross-validation, or temperature scaling where none is clearly better; for groups of
            two classes Platt scaling.
        every_row: Fit on all samples, not only on the calibration split.
        by_group: Fit a calibrator for each of the ``groups``.
        force: Also fit on predictions that are calibrated already.
        spread: Engine for the parts of a table, or for images, of which then all positions count; from
            :func:`calibrant.evaluation.spread.spreading`.
        progress: Function that receives each stage, and the share of the work done, in ``[0, 1]``.

    Returns:
        The fitted calibrator: with ``by_group`` a :class:`GroupCalibrator`, otherwise a
        :class:`Multicalibrator` or :class:`DetectionCalibration` where the method asks for it.

    Raises:
        InputError: If there are no labels, no calibration split (and not ``every_row``), no groups for a
            method that needs them, the method is unknown or for other predictions, or the predictions are
            calibrated already.
        OSError: If the file cannot be read.

    Example:
        >>> odds, labels = [4.0] * 10 + [-4.0] * 10, [1] * 9 + [0] + [0] * 9 + [1]
        >>> calibrator = fit(Predictions(logits=odds, labels=labels), method="temperature", every_row=True)
        >>> round(calibrator.predict_proba([4.0]).item(), 3)
        0.9
    """
    chosen: Any = {"method": method, "every_row": every_row, "by_group": by_group, "force": force}
    return fit_and_tell(predictions, **chosen, spread=spread, progress=progress).calibrator


def check_method(method: str | None) -> None:
    """Refuse an unknown method."""
    if method is None or method == MULTICALIBRATION:
        return
    if not isinstance(method, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        text = method.text if isinstance(method, Calibrator) else "temperature"
        raise TypeError(f"`method` must be a name, as in {text!r}; got {kind_of(method)}.")
    if not method.startswith(DETECTION):
        build(method)
    elif method.removeprefix(DETECTION) not in METHODS:
        known = ", ".join(f"{DETECTION}{each}" for each in METHODS)
        raise InputError(f"`method` {method} is none of the methods for detections: {known}.")


def fit_and_tell(
    predictions: str | os.PathLike[str] | Given,
    *,
    path: Path | None = None,
    method: str | None = None,
    every_row: bool = False,
    by_group: bool = False,
    force: bool = False,
    spread: Spread | None = None,
    progress: Progress | None = None,
) -> FitReport:
    """Fit as :func:`fit` does, with notes; errors name the file at ``path``."""
    check_method(method)
    whole = f"`method` {method}" if method == MULTICALIBRATION else "`by_group`" if by_group else ""
    if isinstance(predictions, (str, os.PathLike)):
        path = Path(predictions)
        given: Given = opened(path, whole=bool(whole))
    else:
        given = predictions
    if not isinstance(given, get_args(Given)):
        check_predictions(given, "predictions", WRAP_ARRAYS.removeprefix("; "))
    name = "`predictions`" if path is None else str(path)
    if method is not None and method.startswith(DETECTION):
        if isinstance(given, Detections):
            return _of_boxes(given, method, name, every_row=every_row, force=force)
        raise InputError(
            f"`method` {method} needs --annotations, COCO's, to tell which boxes of {name} are right."
        )
    if isinstance(given, Detections):
        given = given.predictions()
    marks = given.notes if not isinstance(given, DensePredictions) else marks_in(path) if path else ()
    refuse_calibrated(name, marks, force=force)
    tell = progress or (lambda _stage, _share: None)
    if isinstance(given, PartitionedPredictions):
        if whole:
            raise InputError(f"{whole} needs all samples in memory; give what `load_predictions` reads.")
        return _of_parts(given, method, every_row=every_row, spread=spread or here, tell=tell)
    if isinstance(given, DensePredictions):
        if spread is not None and not whole:
            return _of_images(given, method, spread, tell)
        given = _positions_to_fit(given)
    rows = _rows_to_fit(given, name, every_row=every_row, needs_groups=whole)
    return _of_samples(rows, given.notes, method, name, by_group=by_group, tell=tell)


def _positions_to_fit(dense: DensePredictions) -> Predictions:
    sample = dense.sample(max(1, MOST_FITTED // dense.num_classes // dense.num_images))
    return sample.with_split([0] * sample.num_samples)


def _rows_to_fit(predictions: Predictions, name: str, *, every_row: bool, needs_groups: str) -> Predictions:
    if predictions.kind == "top_label":
        _ = predictions.correct  # refused where it is not known
    elif predictions.labels is None:
        raise InputError(f"{name} has no labels, so no calibrator can be fitted on it; add `labels`.")
    if not every_row and not predictions.has_calibration:
        raise _no_split(name)
    if needs_groups and predictions.groups is None:
        raise no_groups(needs_groups, name)
    rows = predictions if every_row else predictions.calibration
    if needs_groups and rows.groups is not None:
        named = len(set(rows.groups))
        if named > _MOST_GROUPS and len(rows.groups) < 2 * named:
            raise InputError(
                f"{name} has {named:,} groups in {len(rows.groups):,} samples, which looks like an id; "
                "--group-column must name a column of groups that many samples share."
            )
    return rows


def _no_split(name: str) -> InputError:
    return InputError(
        f"{name} has no calibration split; add `split` (0 = calibration, 1 = test), or fit on every row with "
        "`every_row=True`."
    )


def no_groups(option: str, name: str | Path) -> InputError:
    """Error for fitting by groups without groups."""
    return InputError(
        f"{option} needs `groups` in {name}, one name per sample; --group-column says which column holds "
        "them."
    )


def _of_samples(
    rows: Predictions,
    notes: tuple[str, ...],
    method: str | None,
    name: str,
    *,
    by_group: bool,
    tell: Progress,
) -> FitReport:
    """Fit a calibrator on samples in memory, or on scores read in pieces."""
    calibrator = None if method is None or method == MULTICALIBRATION else build(method)
    if calibrator is None or by_group or not _reads_pieces(calibrator, rows):
        rows = rows.loaded()
    rows = _in_form_of(calibrator, rows, name)
    if method == MULTICALIBRATION:
        tell("correcting group by group", 0.3)
        return FitReport(calibrator=_multicalibrated(rows), counts=Counter(rows.groups), notes=notes)
    choice: tuple[str, ...] = ()
    if calibrator is None and by_group and (usual := usual_by_group(rows.kind)):
        calibrator = build(usual)
        said = f"{calibrator.title} is the default for groups of two classes; --method picks another."
        choice = (f"note: {said}",)
    elif calibrator is None:
        tell(f"choosing a calibrator on {rows.num_samples:,} samples", 0.2)
        calibrator, choice = _chosen(rows)
    elif not by_group:
        tell(f"fitting {calibrator.name} on {rows.num_samples:,} samples", 0.3)
        calibrator = _fitted(calibrator, rows)
    if by_group:
        tell(f"fitting {calibrator.name} by group", 0.5)
        groups, data = rows.groups or (), Labelled.of(rows)
        given = (data.scores, data.labels)
        fitted, told = _warned(
            lambda: calibrators.fit_groups(calibrator, *given, groups=groups, weights=data.weights)
        )
        for part in (fitted.pooled, *fitted.by_group.values()):
            name_classes(part, rows.class_names, rows.event_column)
        return FitReport(calibrator=fitted, counts=Counter(groups), choice=choice, notes=notes, warnings=told)
    name_classes(calibrator, rows.class_names, rows.event_column)
    return FitReport(calibrator=calibrator, choice=choice, notes=notes)


def _in_form_of(calibrator: Calibrator | None, rows: Predictions, name: str) -> Predictions:
    if calibrator is None or "binary" in calibrator.kinds:
        return to_repair(rows)
    if rows.kind == "top_label":
        suited = " and ".join(calibrator.kinds)
        raise InputError(
            f"{calibrator.name} is for {suited} predictions; {name} holds confidences: take platt."
        )
    return rows


def _reads_pieces(calibrator: Calibrator, rows: Predictions) -> bool:
    several = rows.kind == "multiclass" and (rows.num_classes or 0) > 2
    return calibrator.fits_in_pieces and several and (rows.streamed or is_wide(rows))


def _fitted(calibrator: Calibrator, rows: Predictions) -> Calibrator:
    if rows.top_k is not None and has_row_temperature(calibrator.text, rows):
        return calibrators.fit_top_k_temperature(rows.top_k, weights=rows.weights)
    if rows.labels is not None and _reads_pieces(calibrator, rows):
        return calibrator.fit_in_pieces(rows, rows.labels, weights=rows.weights)
    return fit_quietly(calibrator, Labelled.of(rows))


def _chosen(rows: Predictions) -> tuple[Calibrator, tuple[str, ...]]:
    """Choose by cross-validation, or take temperature scaling if none is clearly better; explain."""
    data = Labelled.of(rows)
    count = len(data.labels) if data.weights is None else effective_number(np.asarray(data.weights))
    if count < LEAST_TO_CHOOSE:
        few = (
            f"note: {count:.0f} samples are too few to choose a calibrator by (at least "
            f"{LEAST_TO_CHOOSE}): temperature scaling was fitted; choose another with --method."
        )
        return _fitted(build("temperature"), rows), (few,)
    others = {"temperature": held_out(rows, 0)} if has_row_temperature("temperature", rows) else None
    given = (data.scores, data.labels)
    selection = calibrators.select(*given, weights=data.weights, clusters=rows.clusters, others=others)
    choice = (f"{selection}\n",)
    if selection.calibrator is not None:
        return selection.calibrator, choice
    none = "note: temperature scaling was fitted anyway."
    return _fitted(build("temperature"), rows), (*choice, none)


def _multicalibrated(rows: Predictions) -> Multicalibrator:
    data, start = Labelled.of(rows), "temperature" if rows.kind == "multiclass" else "platt"
    with without_warnings():
        fitted = calibrators.multicalibrate(
            data.scores, data.labels, groups=rows.groups or (), weights=data.weights, start=start
        )
    if fitted.start is not None:
        name_classes(fitted.start, rows.class_names, rows.event_column)
    return fitted


def _of_boxes(found: Detections, method: str, name: str, *, every_row: bool, force: bool) -> FitReport:
    if not every_row:
        raise InputError(f"{name} has no calibration split; fit on every detection with `every_row=True`.")
    refuse_calibrated(name, found.marks, force=force)
    form: Any = method.removeprefix(DETECTION)
    fitted, said = _warned(
        lambda: calibrators.fit_detections(
            found.confidences, found.correct, found.covariates(), method=form, names=COVARIATES
        )
    )
    return FitReport(calibrator=fitted, counts=Counter(found.images), warnings=said)


def _warned(work: Callable[[], Made]) -> tuple[Made, tuple[str, ...]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrantWarning)
        made = work()
    return made, tuple(str(each.message) for each in caught)


def _of_parts(
    table: PartitionedPredictions, method: str | None, *, every_row: bool, spread: Spread, tell: Progress
) -> FitReport:
    """Fit temperatures on all rows of a table in parts; fit or choose other methods on a sample."""
    tell(f"fitting on {table.num_samples:,} rows", 0.1)
    if not every_row and not table.num_fit:
        raise _no_split(table.address)
    deal = Deal.of(table, 15, fits=False)
    deal = replace(deal, rule="all") if every_row else deal
    some = rows_to_fit(table, deal, seed=0, spread=spread)
    calibrator, choice = _chosen(to_repair(some)) if method is None else (build(method), ())
    form = _in_form_of(calibrator, some, table.address)
    held = table.num_samples if every_row else table.num_fit
    note = f"{'' if method else 'chosen and '}fitted on {some.num_samples:,} random rows of {held:,}"
    if some.top_k is not None and has_row_temperature(calibrator.text, some):
        calibrator = calibrators.fit_top_k_temperature(some.top_k, weights=some.weights)
    elif fits_in_passes(calibrator, table.kind, table.num_classes):
        calibrator = fit_in_passes(build(calibrator.text), table, some, deal, spread=spread)
        calibrator.fit_result_ = replace(calibrator.fit_result_, num_samples=held)  # as given
        note = _passes(calibrator, "table", some)
    elif method is not None:
        fit_quietly(calibrator, Labelled.of(form))
    names = RIGHT_OR_WRONG if table.kind == "top_label" else table.class_names
    name_classes(calibrator, names, table.event_column)
    return FitReport(calibrator=calibrator, choice=choice, notes=(*table.notes, note))


def _of_images(dense: DensePredictions, method: str | None, spread: Spread, tell: Progress) -> FitReport:
    """Fit temperatures on all positions of all images; fit or choose other methods on a sample."""
    tell(f"fitting on {dense.num_images:,} images", 0.1)
    some = _positions_to_fit(dense)
    calibrator, choice = _chosen(to_repair(some)) if method is None else (build(method), ())
    if fits_in_passes(calibrator, "multiclass", dense.num_classes):
        every_position = Deal(1, 0, "all")
        calibrator = fit_in_passes(
            build(calibrator.text), Positions(dense), some, every_position, spread=spread
        )
        notes = (_passes(calibrator, "images", some),)
    elif method is None:
        notes = (f"chosen and fitted on {some.num_samples:,} random positions",)
    else:
        notes = ()
        said = (
            f"{method} is fitted on a sample of positions, which this process draws; --engine does nothing."
        )
        warnings.warn(said, CalibrantWarning, stacklevel=2)
        calibrator = _fitted(calibrator, _in_form_of(calibrator, some.loaded(), ""))
    name_classes(calibrator, dense.class_names)
    return FitReport(calibrator=calibrator, choice=choice, notes=notes)


def _passes(calibrator: Calibrator, of: str, some: Predictions) -> str:
    number = calibrator.fit_result_.steps
    begun = f"after {some.num_samples:,} random rows to begin with"
    return f"{plural(number, 'pass', 'passes')} over the {of}, {begun}"
