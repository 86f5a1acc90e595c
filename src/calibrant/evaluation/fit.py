"""The second stage: choose among the calibrators and fit them on the calibration samples alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calibrant._math.errors import InputError
from calibrant.evaluation.fitting.recommend import LEAST_TO_CHOOSE, Recommendation, further, recommend
from calibrant.evaluation.fitting.split import Split
from calibrant.evaluation.fitting.templates import (
    FIT_FAILURES,
    FittedCalibrator,
    Labelled,
    Template,
    cross_fit,
    probs_in_turn,
)
from calibrant.evaluation.fitting.top_k import fit_to_rows
from calibrant.evaluation.prepare import Prepared
from calibrant.predictions.to_event import repaired
from calibrant.predictions.top_k import has_row_temperature


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """The calibrators, fitted, and the one that is recommended."""

    prepared: Prepared
    templates: tuple[Template, ...]
    """Those that were to be fitted: those asked for, and the one that is recommended."""
    recommendation: Recommendation | None
    calibrators: tuple[FittedCalibrator, ...]
    failures: tuple[str, ...]
    """A sentence on each that could not be fitted."""


def fit(prepared: Prepared) -> Fitted:
    """Choose a calibrator by cross-validation, and fit it and the others."""
    request, split, wanted = prepared.request, prepared.split, list(prepared.templates)
    prepared.steps.next("choosing among the calibrators")
    recommendation = None
    enough = split.effective_calibration >= LEAST_TO_CHOOSE and not prepared.one_class
    if split.calibration is not None and wanted and enough:
        others = [] if request.calibrators is not None else further(split.calibration, wanted)
        recommendation = recommend([*wanted, *others], split.calibration, request.seed)
        wanted += [template for template in others if template.name == recommendation.name]
    if split.in_pieces is not None:
        split.in_pieces.watch(prepared.steps.within)  # once for each pass
    fitted: list[FittedCalibrator] = []
    failures: list[str] = []
    for template in wanted:
        prepared.steps.next(f"fitting {template.name}")
        try:
            if split.calibration is not None and has_row_temperature(template.name, split.calibration):
                fitted.append(fit_to_rows(template, split))
                continue
            fitted.append(_fit(template, split, recommendation, prepared.steps.within))
        except FIT_FAILURES as error:
            failures.append(f"{template.name} could not be fitted: {error}")
    return Fitted(
        prepared=prepared,
        templates=tuple(wanted),
        recommendation=recommendation,
        calibrators=tuple(fitted),
        failures=tuple(failures),
    )


def _fit(
    template: Template, split: Split, chosen: Recommendation | None, tell: Callable[[float], None]
) -> FittedCalibrator:
    """A calibrator fitted on all calibration samples, and on folds; the fits of the choice are taken over."""
    if split.calibration is None:
        raise InputError("there are no samples to fit on.")
    if split.in_pieces is not None and template.calibrator.fits_in_pieces:
        return FittedCalibrator(template, template.fit_in_pieces(split.in_pieces), None)
    data = Labelled.of(split.calibration)
    known = None if chosen is None else chosen.fitted.get(template.name)
    calibrator = known or template.fit(data)
    if split.folds is None:
        return FittedCalibrator(template, calibrator, None)
    on_others = None if chosen is None else chosen.on_others.get(template.name)
    if chosen is not None and chosen.folds is not None and on_others is not None:
        probs = probs_in_turn(on_others, data, chosen.folds)
    else:
        probs = cross_fit(template, data, split.folds, tell)
    return FittedCalibrator(template, calibrator, repaired(split.test, probs))
