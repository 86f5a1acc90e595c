"""How well do thumbnails of 8 x 8 pixels, in which no finding is visible, do as a classifier?

Run ``CALIBRANT_DATA=FOLDER python examples/thumbnails.py``. A network that does no better has not shown that
it sees the finding.
"""

from __future__ import annotations

import sys

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression

from calibrant_lab.data import load, split
from calibrant_lab.data.table import Part
from calibrant_lab.training.run_report import label_rows


def thumbnails(part: Part) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """64 numbers of each image with pneumonia or no finding, its class and its patient."""
    chosen = part.labels != 0  # COVID-19, whose images come from elsewhere
    small = torch.nn.functional.adaptive_avg_pool2d(part.inputs[chosen].float() / 255, 8)
    return small.flatten(1).numpy(), (part.labels[chosen] == 2).numpy(), part.groups[chosen].numpy()


data = split(load("chest_xray_covid"), calibration=0.25, test=0.25)
pixels, labels, _ = thumbnails(data.train)
baseline = LogisticRegression(max_iter=5000).fit(pixels, labels)
pixels, labels, patients = thumbnails(data.test)
probs = baseline.predict_proba(pixels)[:, 1:]
(row,) = label_rows(probs, labels[:, None], patients, ["pneumonia"])
sys.stdout.write(f"{row.auroc.value:.2f} [{row.auroc.low:.2f}, {row.auroc.high:.2f}]\n")
