"""The stages of an evaluation of images: positions to fit on, and sums of each image to judge by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant._math.errors import InputError
from calibrant.evaluation.dense.reduce import reduced_sums
from calibrant.evaluation.dense.states import summed_images
from calibrant.evaluation.fit import Fitted
from calibrant.evaluation.fitting.pieces import MOST_FITTED
from calibrant.evaluation.fitting.split import marked_split
from calibrant.evaluation.fitting.templates import anything_to_fit
from calibrant.evaluation.judge import Judged, judged_arms
from calibrant.evaluation.prepare import Prepared, Request, prepare
from calibrant.evaluation.resampling.clusters import FEW_CLUSTERS
from calibrant.evaluation.resampling.events import Indices
from calibrant.evaluation.resampling.resamples import Stream, generator
from calibrant.evaluation.spread import Spread
from calibrant.predictions import DensePredictions, Predictions

MOST_OF_AN_IMAGE = 2000  # positions
LOOKED_AT = 20  # positions of each image to judge, for what is odd about the scores


def images_to_fit_on(dense: DensePredictions, seed: int, *, fits: bool) -> tuple[Indices, Indices]:
    """The images to fit on, if anything fits, and those to judge: as they are marked, or random halves."""
    if dense.split is not None and dense.has_split:
        return np.flatnonzero(dense.split == 0) if fits else np.arange(0), np.flatnonzero(dense.split == 1)
    if not fits or dense.split is not None or dense.num_images < 4:
        return np.arange(0), np.arange(dense.num_images)
    order = generator(seed, Stream.SPLIT).permutation(dense.num_images)
    half = dense.num_images // 2
    return np.sort(order[:half]), np.sort(order[half:])


def sampled(dense: DensePredictions, seed: int, *, fits: bool) -> Predictions:
    """Positions to fit on, and a few of the images to judge, as predictions with a split.

    Raises:
        InputError: If there are fewer than two images to judge.
    """
    fit, test = images_to_fit_on(dense, seed, fits=fits)
    if len(test) < 2:
        raise InputError(
            "`predictions` must hold two images or more, as positions of one image are not "
            f"independent; got {len(test)}."
        )
    few = dense.sample(LOOKED_AT, test.tolist(), seed=seed)
    if not len(fit):
        return few
    most = MOST_FITTED // dense.num_classes // len(fit)
    some = dense.sample(max(1, min(MOST_OF_AN_IMAGE, most)), fit.tolist(), seed=seed)
    return marked_split(some, few)


def prepare_images(request: Request, dense: DensePredictions) -> Prepared:
    """As of positions, with what a reader must know of the images in place of the positions looked at."""
    prepared = prepare(request)
    fit, _ = images_to_fit_on(dense, request.seed, fits=anything_to_fit(request.calibrators))
    marked = dense.split is not None
    notes = [note for note in prepared.notes if not note.startswith("Samples count as dependent")]
    if len(fit) and not marked:
        notes.append(
            f"Calibrators were fitted on positions of {len(fit):,} other images, drawn at random (seed "
            f"{request.seed})."
        )
    words = f"{prepared.split.num_calibration:,} positions of {len(fit):,} images" if len(fit) else "none"
    split = replace(prepared.split, words=words, announce=not marked)
    return replace(prepared, notes=tuple(notes), split=split)


def judged_note(number: int, empty: int) -> str:
    """A note on the images and on those without a position that counts."""
    if number < 2:
        raise InputError(
            f"there must be two images or more with positions that count, as positions of one image are not "
            f"independent; got {number}."
        )
    others = f" In {empty:,} more no position counts." if empty else ""
    few = f" With under {FEW_CLUSTERS} images, intervals are too short." if number < FEW_CLUSTERS else ""
    return (
        f"{number:,} images were read one at a time and resampled whole, because their positions are not "
        f"independent.{others}{few}"
    )


def judge_images(fitted: Fitted, dense: DensePredictions, spread: Spread) -> Judged:
    """Judge every arm on the same images, each of which is read once."""
    prepared = fitted.prepared
    procedure = prepared.procedure
    fits = anything_to_fit(prepared.request.calibrators)
    _, test = images_to_fit_on(dense, prepared.request.seed, fits=fits)
    calibrators = (None, *(each.calibrator for each in fitted.calibrators))
    prepared.steps.next("reading the images")
    sums = summed_images(
        dense, test.tolist(), procedure.num_bins, calibrators, spread=spread, tell=prepared.steps.within
    )
    number = len(sums[0].names)
    note = judged_note(number, len(test) - number)
    procedure = replace(procedure, clusters=number)
    prepared = replace(prepared, procedure=procedure, notes=(*prepared.notes, note))
    fitted = replace(fitted, prepared=prepared)
    names = tuple(dense.class_names or map(str, range(dense.num_classes)))
    reduced = (reduced_sums(each, names, procedure.metrics) for each in sums)
    return judged_arms(fitted, reduced, sums[0].num_positions)
