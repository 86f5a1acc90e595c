"""A calibrator as a module: settings, fitted parameters, and how they are kept, moved, printed and saved."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

import calibrant
from calibrant._math.checks import Task
from calibrant._math.errors import NotFittedError
from calibrant.calibrators.file_format import FORMAT_VERSION, SINGLE_KEY, Header, write_file
from calibrant.calibrators.fitting.objectives import Objective
from calibrant.calibrators.fitting.results import FitResult

_SET_BY_FIT = ("fit_result_", "kind_", "num_classes_", "class_names_")


class FittedModule(nn.Module):
    """What a calibrator is beside fitting and mapping; parameters are float64 buffers that stay so."""

    name: ClassVar[str]
    """What the command line and files call it."""
    title: ClassVar[str]
    """What people call it."""
    named_after_person: ClassVar[bool] = False
    """Whether the title begins with a person's name, which keeps its capital within a sentence."""
    kinds: ClassVar[tuple[Task, ...]] = ("binary", "multiclass", "multilabel")
    """The kinds of predictions it can be fitted on."""
    parameter_ranges: ClassVar[Mapping[str, tuple[float, float]]]
    """Names of the fitted parameters, and between which values they lie."""
    parameter_shapes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Dimensions of the parameters that are tables: C is the number of classes, other letters are free."""

    tried_unasked: ClassVar[tuple[Task, ...]] = ()
    """The kinds of predictions for which :func:`select` tries it by default."""
    mends_frequencies: ClassVar[bool] = True
    """Whether it has shifts of its own, so that its mean probabilities are the class frequencies."""

    objective: Objective
    fit_result_: FitResult
    kind_: Task
    num_classes_: int
    class_names_: tuple[str, ...] | None

    def __init__(self) -> None:
        super().__init__()
        for name in self.parameter_ranges:
            self.register_buffer(name, torch.tensor(math.nan, dtype=torch.float64))

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def unfitted(self) -> Self:
        """Another one of the same settings."""
        return type(self)(**self.settings)

    @property
    def text(self) -> str:
        """What :func:`build` makes it from: the name, and in brackets what differs from the defaults."""
        defaults = inspect.signature(type(self)).parameters
        said = [
            f"{name}=" + (f'"{value}"' if isinstance(value, str) else repr(value))
            for name, value in self.settings.items()
            if value != defaults[name].default
        ]
        return self.name + (f"({', '.join(said)})" if said else "")

    @property
    def size(self) -> int:
        """How many numbers are fitted."""
        return sum(getattr(self, name).numel() for name in self.parameter_ranges)

    def num_parameters(self, num_classes: int) -> int | None:
        """How many numbers a fit to so many classes finds; None where that depends on the samples."""
        shapes = [self.parameter_shapes.get(name, ()) for name in self.parameter_ranges]
        if any(set(letters) - {"C"} for letters in shapes):
            return None
        return sum(num_classes ** len(letters) for letters in shapes)

    def num_outputs(self) -> int:
        """How many numbers a model gives for each sample; one where they are log-odds ``(N,)``."""
        return 1 if self.kind_ == "binary" else self.num_classes_

    def restore(
        self,
        parameters: Mapping[str, Tensor],
        result: FitResult,
        *,
        kind: Task,
        num_classes: int,
        class_names: tuple[str, ...] | None,
    ) -> None:
        """Take over the parameters and the result of an earlier fit."""
        for name in self.parameter_ranges:
            self._buffers[name] = parameters[name]
        self.fit_result_, self.kind_ = result, kind
        self.num_classes_, self.class_names_ = num_classes, class_names

    def header(self) -> Header:
        """What its file says beside the parameters."""
        return Header(
            format_version=FORMAT_VERSION,
            calibrant_version=calibrant.__version__,
            name=self.name,
            settings=self.settings,
            kind=self.kind_,
            num_classes=self.num_classes_,
            class_names=self.class_names_,
            fit=self.fit_result_,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted calibrator to a file, which is complete or not there.

        Args:
            path: Where to; the name ends in ``.safetensors``.

        Raises:
            InputError: If the name has another ending.
            NotFittedError: If ``fit`` was not called.
            OSError: If the folder is missing or not writable.

        Note:
            :func:`calibrant.load_calibrator` reads it back, and predicts bit for bit the same.

        Example:
            >>> import tempfile
            >>> from calibrant.calibrators import TemperatureScaling, load_calibrator
            >>> calibrator = TemperatureScaling().fit([4.0] * 10, [1] * 7 + [0] * 3)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     calibrator.save(f"{folder}/fitted.safetensors")
            ...     loaded = load_calibrator(f"{folder}/fitted.safetensors")
            >>> torch.equal(loaded.temperature, calibrator.temperature)
            True
        """
        write_file(path, SINGLE_KEY, asdict(self.header()), dict(self.named_buffers()))

    def __getattr__(self, name: str) -> Any:
        if name in _SET_BY_FIT:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit(logits, labels) first.")
        return super().__getattr__(name)

    def extra_repr(self) -> str:
        """The settings, and what was fitted."""
        parts = [f"{name}={value!r}" for name, value in self.settings.items()]
        if "fit_result_" in self.__dict__:
            parts += [f"{name}={value}" for name, value in self.fit_result_.parameters.items()]
        return ", ".join(parts)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move parameters to another device, but leave them float64."""
        del recurse  # there are no modules inside
        for name, value in self._buffers.items():
            if value is not None:
                device = fn(torch.empty(0, device=value.device)).device
                self._buffers[name] = value if device.type == "mps" else value.to(device)
        return self

    def get_extra_state(self) -> dict[str, Any] | None:
        """What a ``state_dict`` holds beside the parameters."""
        if "fit_result_" not in self.__dict__:
            return None
        return {
            "kind": self.kind_,
            "num_classes": self.num_classes_,
            "class_names": self.class_names_,
            "result": asdict(self.fit_result_),
        }

    def set_extra_state(self, state: dict[str, Any] | None) -> None:
        """Restore what ``get_extra_state`` gave."""
        if state is None:
            for name in _SET_BY_FIT:
                self.__dict__.pop(name, None)
            return
        self.fit_result_ = FitResult.from_dict(state["result"])
        self.kind_, self.num_classes_ = state["kind"], state["num_classes"]
        self.class_names_ = state["class_names"]

    def _load_from_state_dict(
        self,
        state_dict: Mapping[str, Any],
        prefix: str,
        local_metadata: Mapping[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Take parameters of any number of labels, not only as many as this has now."""
        for name in self.parameter_ranges:
            if f"{prefix}{name}" in state_dict:
                self._buffers[name] = torch.empty_like(state_dict[f"{prefix}{name}"])
        super()._load_from_state_dict(
            dict(state_dict), prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
