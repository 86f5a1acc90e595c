"""Calibration in each evaluation of a Hugging Face ``Trainer``, and losses for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from calibrant.calibrators import load_calibrator
from calibrant.integrations._epochs import EpochCalibration

if TYPE_CHECKING:
    TrainerCallback: Any = object
else:
    try:
        from transformers import TrainerCallback
    except ImportError:
        TrainerCallback = object

__all__ = ["CalibrationCallback", "trainer_loss"]

_FILE = "calibrator.safetensors"
_IGNORED = -100


class CalibrationCallback(EpochCalibration, TrainerCallback):
    """Log the calibration of a transformer at each evaluation, and keep a temperature for it.

    Pass it to the ``Trainer`` twice, as ``callbacks=[calibration]`` and
    ``compute_metrics=calibration.compute_metrics``. The Trainer then logs ``eval_calibration/before/ece``,
    ``smce`` and ``nll``, the same after temperature scaling (``eval_calibration/after/nll``), and
    ``eval_calibration/temperature``; ``metric_for_best_model`` takes each of them.

    ``calibrator`` is the :class:`~calibrant.calibrators.TemperatureScaling` of the last evaluation, or of
    the best model if the Trainer loads that at the end. A checkpoint written right after an evaluation has it
    as ``calibrator.safetensors``, for :func:`calibrant.load_calibrator`.

    Args:
        prefix: What the names of metrics begin with, after the Trainer's own ``eval_``.

    Note:
        For sequence and token classification, with classes or several labels. Only ``Trainer.train`` fits the
        temperature. "After" is then measured on the samples of the fit, which makes it slightly too good;
        ``evaluate`` and ``predict`` after training keep the temperature, so new samples give an honest
        number. With several evaluation sets, the last one decides. The Trainer gathers the predictions of all
        processes. Checkpoints of a hyperparameter search have no file. Logits that are NaN give metrics that
        are NaN, and no temperature.

    Example:
        >>> import numpy as np
        >>> from types import SimpleNamespace
        >>> from calibrant.integrations.hugging_face import CalibrationCallback
        >>> calibration = CalibrationCallback()
        >>> logits, labels = np.array([[2.0, 0.0], [0.0, 2.0]] * 10), np.array([0, 1] * 7 + [1, 0] * 3)
        >>> found = calibration.compute_metrics(SimpleNamespace(predictions=logits, label_ids=labels))
        >>> round(found["calibration/before/ece"], 3)
        0.181
    """

    def __init__(self, *, prefix: str = "calibration") -> None:
        super().__init__(prefix=prefix)
        self._training = False
        self._evaluated_at = -1

    def compute_metrics(self, prediction: Any) -> dict[str, float]:
        """Metrics of an ``EvalPrediction``, for the Trainer's argument of this name.

        Raises:
            InputError: If the shapes of logits and labels disagree, or a label is no class.
        """
        logits = prediction.predictions
        logits = torch.as_tensor(logits[0] if isinstance(logits, tuple) else logits).float()
        logits, labels = _rows(logits, torch.as_tensor(prediction.label_ids))
        if logits.ndim > labels.ndim:
            logits, labels = logits[labels != _IGNORED], labels[labels != _IGNORED]
        return self._measured(logits, labels, fit=self._training)

    def on_train_begin(self, *_given: Any, **_more: Any) -> None:
        """Start fitting temperatures."""
        self._training = True

    def on_evaluate(self, _args: Any, state: Any, *_control: Any, **_more: Any) -> None:
        """Remember the weights of the temperature."""
        self._evaluated_at = state.global_step

    def on_save(self, args: Any, state: Any, *_control: Any, **_more: Any) -> None:
        """Write the calibrator into the checkpoint of the same weights."""
        folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        written = args.should_save and folder.is_dir() and self._evaluated_at == state.global_step
        if written and self.calibrator is not None:
            self.calibrator.save(folder / _FILE)

    def on_train_end(self, args: Any, state: Any, *_control: Any, **_more: Any) -> None:
        """Take the calibrator of the best model, if that was loaded."""
        self._training = False
        best = Path(state.best_model_checkpoint or "") / _FILE
        if args.load_best_model_at_end and best.is_file():
            self.calibrator = load_calibrator(best)


def trainer_loss(loss: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """Make a loss fit for the argument ``compute_loss_func`` of a Hugging Face ``Trainer``.

    Args:
        loss: Maps logits ``(N, C)`` and labels ``(N,)``, or ``(N, C)`` of several labels, to their mean loss,
            as the modules of :mod:`calibrant.losses` do.

    Returns:
        A function of the model's outputs, the labels ``(N,)`` or ``(N, L)`` of tokens, and the Trainer's
        ``num_items_in_batch``. Micro-batches of an accumulated gradient count by their numbers of labels.

    Note:
        Tokens with the label -100 do not count. Causal language models need their labels shifted first.

    Example:
        >>> from calibrant.integrations.hugging_face import trainer_loss
        >>> from calibrant.losses import FocalLoss
        >>> loss = trainer_loss(FocalLoss(gamma=2.0))  # for Trainer(compute_loss_func=loss)
        >>> loss({"logits": torch.zeros(2, 2)}, torch.tensor([0, 1]), num_items_in_batch=4)
        tensor(0.0866)
    """

    def compute(outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        logits, labels = _rows(outputs["logits"] if isinstance(outputs, Mapping) else outputs[0], labels)
        mean = loss(logits, labels)
        return mean if num_items_in_batch is None else mean * (labels != _IGNORED).sum() / num_items_in_batch

    return compute


def _rows(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Treat tokens as samples; keep several labels for each sample."""
    return (logits, labels) if logits.shape == labels.shape else (logits.flatten(0, -2), labels.flatten())
