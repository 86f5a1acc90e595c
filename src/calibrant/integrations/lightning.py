"""Calibration in each validation epoch of a Lightning module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from calibrant._math.errors import InputError
from calibrant.calibrators import TemperatureScaling
from calibrant.integrations._epochs import EpochCalibration

if TYPE_CHECKING:
    Callback: Any = object
else:
    try:
        from lightning.pytorch import Callback
    except ImportError:
        Callback = object

__all__ = ["CalibrationCallback"]


class CalibrationCallback(EpochCalibration, Callback):
    """Log the calibration of a Lightning module each validation epoch, and keep a temperature.

    Let ``validation_step`` return ``{"logits": …, "labels": …}``, and more if you like. The callback logs
    ``calibration/before/ece``, ``smce`` and ``nll``, the same after temperature scaling
    (``calibration/after/nll``), and ``calibration/temperature``. ``ModelCheckpoint`` and ``EarlyStopping``
    can monitor them. If ``test_step`` returns logits and labels as well, their metrics are logged as
    ``test_calibration/…``, with the temperature of the validation samples.

    ``calibrator`` is the :class:`~calibrant.calibrators.TemperatureScaling` of the last validation epoch.
    Every checkpoint has its state under ``["callbacks"]["CalibrationCallback"]``, and Lightning restores it
    with the weights.

    Args:
        prefix: What the names of metrics begin with.

    Raises:
        InputError: In validation, if the step does not return logits and labels, or their shapes disagree.

    Note:
        Only ``Trainer.fit`` fits the temperature. "After" is measured on the samples of the fit, which makes
        it slightly too good; publish the number of test samples. The logits of an epoch are kept on the CPU.
        Several processes gather them and fit the same temperature; a sampler that repeats samples to fill
        the last batch counts them twice. A checkpoint written between validations has the temperature of the
        last one. Logits that are NaN give metrics that are NaN, and no temperature.

    Example:
        >>> from calibrant.integrations.lightning import CalibrationCallback
        >>> calibration = CalibrationCallback()  # for Trainer(callbacks=[calibration])
        >>> calibration.calibrator is None  # until the first validation epoch
        True
    """

    def __init__(self, *, prefix: str = "calibration") -> None:
        super().__init__(prefix=prefix)
        self._batches: list[tuple[Tensor, Tensor]] = []

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {} if self.calibrator is None else dict(self.calibrator.state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the temperature of a checkpoint."""
        self.calibrator = TemperatureScaling()
        self.calibrator.load_state_dict(state_dict)

    def on_validation_batch_end(self, trainer: Any, _module: Any, outputs: Any, *_batch: Any) -> None:
        """Keep the logits and labels of a batch."""
        if trainer.sanity_checking:
            return
        if not isinstance(outputs, Mapping) or not {"logits", "labels"} <= set(outputs):
            got = sorted(outputs) if isinstance(outputs, Mapping) else type(outputs).__name__
            raise InputError(
                f"`validation_step` must return a dictionary with `logits` and `labels`; got {got}."
            )
        self._batches.append((outputs["logits"].detach().float().cpu(), outputs["labels"].detach().cpu()))

    def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        """Fit the temperature and log."""
        self._log(pl_module, fit=trainer.state.fn == "fit")

    def on_test_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_batch: Any) -> None:
        """Keep the logits and labels of a batch, if there are some."""
        if isinstance(outputs, Mapping) and "logits" in outputs:
            self.on_validation_batch_end(trainer, pl_module, outputs)

    def on_test_epoch_end(self, _trainer: Any, pl_module: Any) -> None:
        """Log with the current temperature."""
        self._log(pl_module, fit=False, before="test_")

    def _log(self, pl_module: Any, *, fit: bool, before: str = "") -> None:
        kept, self._batches = self._batches, []
        if kept:
            logits, labels = (self._gathered(torch.cat(each), pl_module) for each in zip(*kept, strict=True))
            found = self._measured(logits, labels, fit=fit)
            pl_module.log_dict({before + name: value for name, value in found.items()}, sync_dist=True)

    @staticmethod
    def _gathered(values: Tensor, pl_module: Any) -> Tensor:
        if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
            return values
        from torchmetrics.utilities.distributed import gather_all_tensors

        return torch.cat(gather_all_tensors(values.to(pl_module.device))).cpu()
