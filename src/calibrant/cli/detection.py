"""Calibrators of detections by place and size on the command line."""

from __future__ import annotations

import warnings
from pathlib import Path

from calibrant._math.decimals import plural
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant.cli.reading import Reading
from calibrant.cli.terminal import refuse_calibrated, write_unless_other

DETECTION = "detection-"
"""What the methods begin with."""


def is_for_detections(method: str | None) -> bool:
    """Whether a method maps confidence, place and size of boxes together."""
    return method is not None and method.startswith(DETECTION)


def fit_boxes(
    file: Path, reading: Reading, method: str, out: Path, *, every_row: bool, force: bool
) -> list[str]:
    """Fit and save a calibrator of detections; what to say of it."""
    from calibrant.calibrators import fit_detections, save_detection_calibration
    from calibrant.calibrators.detection import METHODS
    from calibrant.predictions import load_detections
    from calibrant.predictions.detections import COVARIATES

    form = method.removeprefix(DETECTION)
    if form not in METHODS:
        known = ", ".join(f"{DETECTION}{each}" for each in METHODS)
        raise InputError(f"--method {method} is none of the methods for detections: {known}.")
    if reading.annotations is None:
        raise InputError(
            f"--method {method} needs --annotations, COCO's, to tell which boxes of {file} are right."
        )
    if not every_row:
        raise InputError(f"{file} has no calibration split; fit on every detection with --all.")
    found = load_detections(file, reading.annotations, iou=reading.iou)
    refuse_calibrated(file, found.marks, force=force)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", CalibrantWarning)
        fitted = fit_detections(
            found.confidences, found.correct, found.covariates(), method=form, names=COVARIATES
        )
    write_unless_other(
        out, lambda path: save_detection_calibration(fitted, path), option="--out", force=force
    )
    by = ", ".join(("confidence", *COVARIATES))
    count, images = len(found.confidences), len(set(found.images))
    said = f"{method}, fitted on {plural(count, 'detection')} in {plural(images, 'image')} by {by}"
    notes = [f"note: {each.message}" for each in caught]
    return [said, f"nll: {fitted.loss:.6g} after", *notes, f"calibrator: {out}"]


def apply_to_boxes(calibrator: Path, file: Path, reading: Reading, out: Path, *, force: bool) -> str | None:
    """Write a results file with repaired scores; None where the calibrator is none of detections."""
    from calibrant.calibrators import load_detection_calibration
    from calibrant.calibrators.file_format import DETECTION_KEY, holds
    from calibrant.predictions.detections import COVARIATES, boxes_of, detection_results
    from calibrant.predictions.to_event import marked

    if not holds(calibrator, DETECTION_KEY):
        return None
    fitted = load_detection_calibration(calibrator)
    if len(fitted.covariates) != fitted.num_covariates or not set(fitted.covariates) <= set(COVARIATES):
        names = ", ".join(fitted.covariates) or "no names"
        raise InputError(
            f"{calibrator} must name its covariates, each among {', '.join(COVARIATES)}; got {names} for "
            f"{fitted.num_covariates}: apply it in Python by `predict_proba`, or fit it with these names."
        )
    found = detection_results(file)
    if found is None:
        raise InputError(f"{calibrator} is for detections; {file} is not a COCO results file (.json).")
    refuse_calibrated(file, found.predictions.notes, force=force)
    if reading.annotations is None:
        raise InputError(
            f"{calibrator} asks where boxes lie: --annotations must name the images and their sizes."
        )
    if out.suffix != ".json":
        raise InputError(f"--out must end in .json, as {file} does; got {out}.")
    boxes = boxes_of(found.entries, reading.annotations)[
        :, [COVARIATES.index(name) for name in fitted.covariates]
    ]
    scores = fitted.predict_proba(found.predictions.confidence.numpy(), boxes)
    repaired = marked(found.predictions.replace_probs(scores), f"{DETECTION}{fitted.method}")
    write_unless_other(out, lambda path: found.save(path, repaired), option="--out", force=force)
    return f"calibrated scores of {plural(len(scores), 'detection')}: {out}"
