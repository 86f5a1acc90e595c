"""A model and its calibrator as one module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from calibrant._math.errors import InputError
from calibrant.calibrators.base import Calibrator


class CalibratedModel(nn.Module):
    """A model whose outputs are calibrated: one module to save, move, export and serve.

    What goes in is what the model takes. What comes out are calibrated log-probabilities ``(N, C)``, or
    log-odds of binary and multilabel predictions, in the dtype of the model's logits. A ``state_dict`` holds
    both; ``.half()`` and ``.to(dtype)`` narrow the model and leave the calibrator its digits.

    Args:
        model: Gives logits as a tensor, or an object or dictionary with ``logits`` (as the models of
            transformers do). A binary model may give ``(N,)`` or ``(N, 1)``.
        calibrator: Fitted on the logits of this model; one that is not yet fitted can be filled by
            ``load_state_dict``.

    Raises:
        TypeError: If ``model`` is not a module, or ``calibrator`` not a calibrator.

    Example:
        >>> from calibrant.calibrators import TemperatureScaling
        >>> _ = torch.manual_seed(0)
        >>> network, inputs = nn.Linear(3, 2), torch.randn(50, 3)
        >>> labels = torch.multinomial(network(inputs).softmax(dim=1), 1)[:, 0]
        >>> calibrator = TemperatureScaling().fit(network(inputs), labels)
        >>> model = CalibratedModel(network, calibrator)
        >>> model(inputs).shape, model.predict_proba(inputs).dtype
        (torch.Size([50, 2]), torch.float64)
    """

    def __init__(self, model: nn.Module, calibrator: Calibrator) -> None:
        if not isinstance(model, nn.Module):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"`model` must be an nn.Module; got {type(model).__name__}.")
        if not isinstance(calibrator, Calibrator):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(
                f"`calibrator` must be a calibrator of calibrant; got {type(calibrator).__name__}; "
                "read one with calibrant.load_calibrator(path)."
            )
        super().__init__()
        self.model = model
        self.calibrator = calibrator

    def forward(self, *inputs: Any, **named: Any) -> Tensor:
        """Calibrated log-probabilities, or log-odds in the shape the model gives them.

        Args:
            *inputs: What the model takes.
            **named: The same, by name.

        Returns:
            In the dtype and on the device of the model's logits; differentiable.

        Raises:
            InputError: If the model gives no logits, or others than the calibrator was fitted on.
            NotFittedError: If the calibrator is not fitted.
        """
        return self._mapped(self.calibrator, self.logits(*inputs, **named))

    @torch.no_grad()
    def predict_proba(self, *inputs: Any, **named: Any) -> Tensor:
        """Calibrated probabilities of what :meth:`forward` takes; the model's mode stays as it is.

        Returns:
            float64: ``(N, C)`` with rows that sum to one, or the probability of class 1 in the shape of the
            log-odds.
        """
        return self._mapped(self.calibrator.predict_proba, self.logits(*inputs, **named))

    def logits(self, *inputs: Any, **named: Any) -> Tensor:
        """The model's own logits of what :meth:`forward` takes; an ``InputError`` if it gives no tensor."""
        given = self.model(*inputs, **named)
        given = given.get("logits") if isinstance(given, Mapping) else getattr(given, "logits", given)
        if not isinstance(given, Tensor):
            raise InputError(
                f"`model` must return logits, as a tensor or as `logits` of what it returns; "
                f"got {type(given).__name__}."
            )
        return given

    def _mapped(self, function: Callable[[Tensor], Tensor], logits: Tensor) -> Tensor:
        if self.calibrator.kind_ == "binary" and logits.ndim == 2 and logits.shape[1] == 1:
            return function(logits[:, 0])[:, None]
        return function(logits)
