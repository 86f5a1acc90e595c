"""Compiles most kernels and keeps them, so that the processes of the tests need not all do so at once."""

import numpy as np

from calibrant import Predictions, evaluate

rng = np.random.default_rng(0)
for shape in ((200,), (200, 3)):
    for kind in ("binary",) if len(shape) == 1 else ("multiclass", "multilabel"):
        logits = rng.normal(size=shape)
        classes = logits.argmax(axis=1) if kind == "multiclass" else (logits > 0).astype(int)
        labels = np.where(rng.random(classes.shape) < 0.7, classes, 0)
        for weights in (None, np.ones(200)):
            evaluate(
                Predictions(logits=2 * logits, labels=labels, weights=weights), bootstrap=20, null_draws=20
            )
