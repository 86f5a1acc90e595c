"""Evaluation of scores that stay in their file and are read in pieces."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from calibrant.evaluation.fitting.split import Split, choose_split, is_wide
from calibrant.evaluation.procedure import Procedure
from calibrant.evaluation.resampling.resamples import Stream, generator
from calibrant.evaluation.thresholds import WIDE
from calibrant.predictions import Predictions

MOST_FITTED = 1 << 22  # scores that calibrators are fitted on: 4194 samples of 1000 classes
FEWEST_HELD = 64  # samples of very many classes, to choose a calibrator by
MOST_READ = 1 << 27  # scores of very many classes that are read in pieces for a fit: 2684 samples of 50 000
MOST_DRAWN = 1 << 28  # rows drawn in all resamples together
FEWEST_RESAMPLES = 200

NOTE = (
    "The scores were read in pieces, because they are large: the AUROC is not computed, and the class-wise "
    "ECE has no interval; everything else is what it would be in memory."
)


WIDE_NOTE = (
    "There are more than {:,} classes: the AUROC is not computed, and the class-wise ECE has no interval."
)


def split_in_memory(
    predictions: Predictions, calibration: Predictions | None, seed: int, *, fits: bool
) -> Split:
    return with_calibration_in_memory(choose_split(predictions, calibration, seed, fits=fits), seed)


def with_calibration_in_memory(split: Split, seed: int) -> Split:
    """The split with calibration samples in memory: all of them, or random ones that fit."""
    given = split.calibration
    if given is not None and is_wide(given) and split.folds is None:
        return _wide(split, given, seed)
    if split.folds is not None and split.test.streamed:
        held = split.test.loaded()
        return replace(split, calibration=held, test=held)
    if given is None or not given.streamed:
        return split
    most = max(2, MOST_FITTED // (given.num_classes or 1))
    if given.num_samples <= most:
        return replace(split, calibration=given.loaded())
    chosen = np.sort(generator(seed, Stream.SAMPLE).permutation(given.num_samples)[:most])
    words = f"{most:,} drawn at random (seed {seed}) from {split.words}"
    return replace(split, calibration=given.rows(chosen).loaded(), words=words, announce=True)


def _wide(split: Split, given: Predictions, seed: int) -> Split:
    """Some rows in memory to choose by, and more for calibrators that read scores in pieces."""
    width = given.num_classes or 1
    held, read = (max(fewest, most // width) for fewest, most in ((FEWEST_HELD, MOST_FITTED), (2, MOST_READ)))
    order = generator(seed, Stream.SAMPLE).permutation(given.num_samples)
    used = given if given.num_samples <= read else given.rows(np.sort(order[:read]))
    words = split.words
    if used is not given:
        words = f"{read:,} drawn at random (seed {seed}) from {words}"
    if given.num_samples > held:
        words += f", calibrators other than temperature and focal temperature scaling on {held:,} of these"
    some = given if given.num_samples <= held else given.rows(np.sort(order[:held]))
    return replace(
        split,
        calibration=some.loaded(),
        in_pieces=used,
        words=words,
        announce=split.announce or used is not given,
    )


def with_fewer_resamples(procedure: Procedure, split: Split) -> Procedure:
    """The procedure with as many resamples as take minutes, not hours; chance is small on so many samples."""
    if not split.test_as_given.streamed:
        return procedure
    most = max(FEWEST_RESAMPLES, MOST_DRAWN // split.test.num_samples)
    return replace(
        procedure, num_resamples=min(procedure.num_resamples, most), num_draws=min(procedure.num_draws, most)
    )


def notes(split: Split, procedure: Procedure, asked: int) -> list[str]:
    said = [NOTE] if split.test.streamed else [WIDE_NOTE.format(WIDE)] if is_wide(split.test) else []
    if procedure.num_resamples < asked:
        said.append(
            f"For {split.test.num_samples:,} samples {procedure.num_resamples} resamples and draws were "
            f"made, not {asked}."
        )
    return said
