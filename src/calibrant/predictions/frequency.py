"""Predictions grouped by how often the predicted class is predicted."""

from __future__ import annotations

import numpy as np

from calibrant.predictions.bands import bands_of
from calibrant.predictions.table import Predictions
from calibrant.predictions.top_k import predicted_classes


def by_frequency(predictions: Predictions) -> Predictions:
    """The same samples in groups by how often their predicted class is predicted for any of them.

    Further groups are kept: ``site=north; frequency=1–3``. What is true has no part in it: among samples that
    are known to be of a rare class even a calibrated model is wrong more often than it says, and where labels
    are counted, one label decides in which group its sample is.

    Raises:
        InputError: If it is not known which class is predicted.
    """
    _, place, counts = np.unique(predicted_classes(predictions), return_inverse=True, return_counts=True)
    bands = [f"frequency={each}" for each in bands_of(counts[place])]
    if predictions.groups is None:
        return predictions.with_groups(bands)
    return predictions.with_groups(
        [f"{group}; {band}" for group, band in zip(predictions.groups, bands, strict=True)]
    )
