"""Calibrators of detections in files."""

from __future__ import annotations

import os
from dataclasses import asdict

import torch

import calibrant
from calibrant._math.errors import InputError
from calibrant.calibrators.detection import DetectionCalibration
from calibrant.calibrators.file_format import DETECTION_KEY, FORMAT_VERSION, damaged, read_file, write_file


def save_detection_calibration(calibration: DetectionCalibration, path: str | os.PathLike[str]) -> None:
    """Write a calibrator of detections, which is complete or not there.

    Args:
        calibration: What :func:`fit_detections` made.
        path: Where to; the name ends in ``.safetensors``.

    Raises:
        InputError: If the name has another ending.
        OSError: If the folder is missing or not writable.

    Example:
        >>> import tempfile
        >>> from calibrant.calibrators import fit_detections
        >>> fitted = fit_detections([0.9, 0.8, 0.3, 0.2] * 5, [1, 0, 1, 0] * 5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_detection_calibration(fitted, f"{folder}/cars.safetensors")
        ...     load_detection_calibration(f"{folder}/cars.safetensors") == fitted
        True
    """
    content = {name: value for name, value in asdict(calibration).items() if name not in {"weights", "bias"}}
    content |= {"format_version": FORMAT_VERSION, "calibrant_version": calibrant.__version__}
    tensors = {
        "weights": torch.tensor(calibration.weights, dtype=torch.float64),
        "bias": torch.tensor(calibration.bias, dtype=torch.float64),
    }
    write_file(path, DETECTION_KEY, content, tensors)


def load_detection_calibration(path: str | os.PathLike[str]) -> DetectionCalibration:
    """Read what :func:`save_detection_calibration` wrote; nothing in the file is executed.

    Args:
        path: A ``.safetensors`` file.

    Raises:
        InputError: If the file holds no such calibrator, is damaged, or was written by a newer version.
        OSError: If it cannot be read.
    """
    content, tensors = read_file(path, DETECTION_KEY, "a calibrator of detections")
    kept = {
        name: value for name, value in content.items() if name not in {"format_version", "calibrant_version"}
    }
    try:
        return DetectionCalibration.of(
            kept | {"weights": tensors["weights"].tolist(), "bias": float(tensors["bias"])}
        )
    except (InputError, KeyError, TypeError, ValueError) as error:
        raise damaged(path, "it does not have the form of a calibrator of detections") from error
