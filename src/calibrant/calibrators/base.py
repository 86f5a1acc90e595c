"""Base class of calibrators: modules fitted on calibration logits that map logits to better ones."""

from __future__ import annotations

import inspect
import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

import calibrant
from calibrant._math.arrays import ArrayLike, as_float_tensor, row_slices
from calibrant._math.checks import Task, check_logits
from calibrant._math.errors import CalibrantWarning, InputError, NotFittedError
from calibrant._math.machine import threads_for
from calibrant._math.scores import steady_sigmoid
from calibrant._math.simplex import back_to, working_dtype
from calibrant._math.text_form import suggesting
from calibrant.calibrators import inputs
from calibrant.calibrators.affine import Affine, folded
from calibrant.calibrators.file_format import FORMAT_VERSION, SINGLE_KEY, Header, Saved
from calibrant.calibrators.fitting.data import (
    CalibrationData,
    held_out,
    over_correction,
    with_doubts_of_data,
    zeros_said,
)
from calibrant.calibrators.fitting.objectives import Objective
from calibrant.calibrators.fitting.passes import ScoreRows, Search, StoredSamples
from calibrant.calibrators.fitting.results import FitResult, Solution, join, stack_tables
from calibrant.calibrators.fitting.samples import Samples, floor_zero_probabilities, floored
from calibrant.calibrators.fitting.searches import solved_at_ordinary_size

_SET_BY_FIT = ("fit_result_", "kind_", "num_classes_", "class_names_")


class Calibrator(Saved, nn.Module):
    """Fitted on calibration logits and labels; maps logits to calibrated log-probabilities.

    Scores are logits ``(N, C)`` of a multiclass model, log-odds ``(N,)`` of a binary one, or log-odds ``(N,
    C)`` of a multilabel one, which labels of shape ``(N, C)`` announce. A probability of exactly zero (a
    logit of ``-inf``; in log-odds an infinity) counts as 1e-12. If another probability of its row is even
    smaller, it counts as that, so that no class overtakes another. ``class_names_`` may be set after a fit;
    it goes into the file. Fitted on log-odds ``(N,)`` it also maps the two logits ``(N, 2)`` of a network by
    their difference, and gives two columns back.

    Parameters are float64 buffers that keep their type under ``.to(dtype)`` and ``.half()``. Subclasses
    fit one problem (``_solve``) and map scores (``_transform``).
    """

    name: ClassVar[str]
    """Name on the command line and in files."""
    title: ClassVar[str]
    """Name for people."""
    named_after_person: ClassVar[bool] = False
    """True if the title begins with a person's name, which keeps its capital within a sentence."""
    kinds: ClassVar[tuple[Task, ...]] = ("binary", "multiclass", "multilabel")
    """Kinds of predictions it can be fitted on."""
    parameter_ranges: ClassVar[Mapping[str, tuple[float, float]]]
    """Names and ranges of the fitted parameters."""
    parameter_shapes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Dimensions of the parameters that are tables: C is the number of classes, other letters are free."""

    tried_unasked: ClassVar[tuple[Task, ...]] = ()
    """Kinds of predictions for which :func:`select` tries it by default."""
    mends_frequencies: ClassVar[bool] = True
    """True if it has its own shifts, so that its mean probabilities are the class frequencies."""
    for_other_kinds: ClassVar[str] = ""
    """Alternative, if it does not suit all kinds of predictions."""
    unit_powers: ClassVar[Mapping[str, int]] = {}
    """Power of the scores' unit in each parameter; empty if scores must be logits or log-odds."""

    objective: Objective
    fit_result_: FitResult
    kind_: Task
    num_classes_: int
    class_names_: tuple[str, ...] | None
    event_column_: int = 1
    """Index of the event among a model's two columns."""

    def __init__(self) -> None:
        super().__init__()
        for name in self.parameter_ranges:
            self.register_buffer(name, torch.tensor(math.nan, dtype=torch.float64))

    @abstractmethod
    def _solve(self, samples: Samples) -> Solution: ...

    def _solve_near(self, start: Mapping[str, Any], samples: Samples) -> Solution:
        """``_solve`` with known parameters of a fit to similar data."""
        del start
        return self._solve(samples)

    @staticmethod
    def in_passes(some: Samples) -> Search:
        """Search by passes over scores that are not in memory; ``some`` of them give the starting point."""
        raise NotImplementedError

    @abstractmethod
    def _transform(self, scores: Tensor) -> Tensor:
        """Calibrated log-probabilities of finite logits, or log-odds of log-odds; differentiable."""

    @suggesting()
    def fit(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        folds: int = 0,
        seed: int = 0,
        ignore_index: int | None = None,
    ) -> Self:
        """Fit on calibration data, which must not be the data the model was trained on.

        Args:
            logits: Logits ``(N, C)`` (segmentation: ``(N, C, d1, ...)``), or log-odds ``(N,)`` of class 1;
                the columns of a frame name the classes.
            labels: Classes ``(N,)`` or ``(N, d1, ...)``, or zeros and ones of the shape of the logits with
                one column per label.
            weights: Sample weights ``(N,)``, or ``(N, d1, ...)``: numbers of copies, or shares of one.
            folds: Number of cross-validation folds; 0 for none. ``fit_result_.held_out`` then tells how
                calibrators fitted on the other folds do on each fold, and a warning says where
                over-confidence became under-confidence by more than two standard errors.
            seed: For the division into folds.
            ignore_index: Samples or positions with this label are left out.

        Returns:
            The calibrator itself; ``fit_result_`` describes the fit.

        Raises:
            InputError: If shapes disagree, a label is out of range, a value is NaN, or there are too few
                samples for ``folds``.

        Note: Time is that of one fit, and of ``folds`` more. Everything in ``fit_result_.warnings`` (an
            optimum on a bound, separable data, probabilities of zero, or passed for logits) is also given as
            one ``CalibrantWarning``.

        Example:
            >>> from calibrant.calibrators import TemperatureScaling
            >>> calibrator = TemperatureScaling().fit([4.0] * 10, [1] * 7 + [0] * 3)
            >>> round(calibrator.predict_proba([4.0]).item(), 6)
            0.7
        """
        named = inputs.class_columns(logits)
        logits, labels, weights = inputs.counted_positions(logits, labels, weights, ignore_index)
        checked = check_logits(logits, labels, weights, allow_minus_inf=True)
        self.fit_to(CalibrationData.of(checked), folds=folds, seed=seed)
        self.class_names_ = named
        return self

    def fit_to(
        self,
        data: CalibrationData,
        *,
        folds: int = 0,
        seed: int = 0,
        starts: Sequence[Mapping[str, Any] | None] = (),
    ) -> Self:
        """:meth:`fit` on checked samples; ``starts`` holds each problem's parameters in an earlier fit."""
        inputs.check_kind(self.name, self.kinds, data.kind, remedy=self.for_other_kinds)
        if len(starts) != len(data.problems):
            starts = [None] * len(data.problems)
        with threads_for(data.scores.numel()):
            solutions = [self._solve_in_unit(*each) for each in zip(data.problems, starts, strict=True)]
            result = data.result(solutions, self.objective)
        tables = {
            name: stack_tables([each.tables[name] for each in solutions]) for name in self.parameter_shapes
        }
        if folds:

            def refitted(others: CalibrationData, scores: Tensor) -> Tensor:
                return self.unfitted().fit(others.scores, others.labels, weights=others.weights)(scores)

            found = held_out(data, refitted, folds=folds, seed=seed)
            result = replace(
                result,
                held_out={**result.held_out, **found},
                warnings=(*result.warnings, *over_correction(found)),
            )
        self.restore(tables, result, kind=data.kind, num_classes=data.num_classes, device=data.scores.device)
        if result.warnings:
            warnings.warn(f"{self.name}: {'; '.join(result.warnings)}.", CalibrantWarning, stacklevel=3)
        return self

    def fit_in_pieces(
        self, source: ScoreRows, labels: ArrayLike, *, weights: ArrayLike | None = None
    ) -> Self:
        """Fit on scores that are read in pieces, in about six passes, without holding them in memory.

        Args:
            source: Predictions of several classes, held or on file.
            labels: Their classes ``(N,)``.
            weights: Sample weights ``(N,)``.

        Returns:
            The calibrator itself; ``fit_result_`` keeps no profile of data of very many classes.

        Raises:
            InputError: If shapes disagree, a label is out of range, a value is NaN or infinite, or this
                calibrator must see all scores at once.
        """
        if not self.fits_in_pieces:
            raise InputError(f"{self.text} needs all scores at once; temperature scaling does not.")
        samples = StoredSamples(source, labels, weights)
        num_samples, num_classes = samples.shape
        held = samples.held()
        with threads_for(num_samples * num_classes):
            solution = samples.solved(self.in_passes) if held is None else self._solve_in_unit(held, None)
        profile = samples.profile(held)
        result = join(
            [replace(solution, message=f"{solution.message}; {samples.told}")],
            objective=self.objective,
            notes=zeros_said(samples.num_zeros, "multiclass"),
            num_samples=source.num_samples,
            data_sha256=samples.sha256,
            profile=profile,
        )
        self.restore({}, result, kind="multiclass", num_classes=num_classes)
        return self

    @property
    def fits_in_pieces(self) -> bool:
        """Return True if :meth:`fit_in_pieces` supports its settings."""
        return False

    def refit(self, logits: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None) -> Self:
        """Fit a calibrator of equal settings to similar data: a fold, a resample, next week's data.

        Returns:
            A new calibrator of what :meth:`fit` takes; this one stays as it is.

        Raises:
            InputError: See :meth:`fit`.
            NotFittedError: If ``fit`` was not called.

        Note:
            What :meth:`fit` would give, up to its tolerance; but a search that tries several starts tries
            only this calibrator's parameters, and may so miss a better optimum far from them.

        Example:
            >>> from calibrant.calibrators import TemperatureScaling
            >>> calibrator = TemperatureScaling().fit([4.0] * 10, [1] * 7 + [0] * 3)
            >>> round(calibrator.refit([4.0] * 10, [1] * 8 + [0] * 2).predict_proba([4.0]).item(), 6)
            0.8
        """
        checked = check_logits(*inputs.counted_positions(logits, labels, weights, None), allow_minus_inf=True)
        return self.refit_to(CalibrationData.of(checked))

    def refit_to(self, data: CalibrationData) -> Self:
        """:meth:`refit` to checked samples."""
        fitted = {name: getattr(self, name) for name in self.parameter_ranges}
        starts = [fitted]
        if self.fit_result_ and not self.parameter_shapes:
            columns = (torch.atleast_1d(values).tolist() for values in fitted.values())
            starts = [dict(zip(fitted, values, strict=True)) for values in zip(*columns, strict=True)]
        return self.unfitted().fit_to(data, starts=starts)

    def _solve_in_unit(self, samples: Samples, start: Mapping[str, Any] | None) -> Solution:
        """Solution for scores of any unit, with warnings about the data."""
        in_any_unit = self._in_any_unit(samples)
        powers = self.unit_powers if in_any_unit else {}

        def solve(inside: Samples, exponent: int) -> Solution:
            if start is None:
                return self._solve(inside)
            near = {name: value * 2.0 ** (-exponent * powers.get(name, 0)) for name, value in start.items()}
            return self._solve_near(near, inside)

        solution = solved_at_ordinary_size(samples, solve, powers, self.objective)
        return with_doubts_of_data(solution, samples, in_any_unit=in_any_unit)

    def _in_any_unit(self, samples: Samples) -> bool:
        """Return True if rescaled logits lead to the same probabilities."""
        del samples
        return bool(self.unit_powers)

    def forward(self, logits: ArrayLike) -> Tensor:
        """Calibrated log-probabilities in the shape of the logits, or log-odds in that of the log-odds.

        Args:
            logits: See :meth:`predict_proba`.

        Returns:
            In the dtype and on the device of ``logits``; differentiable with respect to them.

        Raises:
            InputError: If the shape is not that of the fit, or a value is NaN.
            NotFittedError: If ``fit`` was not called.

        Note:
            Under ``torch.export`` and ``torch.compile`` shapes are checked and no values: NaN passes through.

        Example:
            >>> from calibrant.calibrators import TemperatureScaling
            >>> calibrator = TemperatureScaling().fit([4.0] * 10, [1] * 8 + [0] * 2)
            >>> calibrator(torch.tensor([4.0, -4.0])).exp()  # odds
            tensor([4.0000, 0.2500])
        """
        if (dense := inputs.at_positions(logits, self.kind_, self)) is not None:
            return dense
        if (two := self._difference(logits)) is not None:
            odds, event = two
            mapped = self(odds)
            return nn.functional.logsigmoid(inputs.in_columns(mapped, -mapped, event))
        if torch.compiler.is_compiling() and isinstance(logits, Tensor):
            inputs.check_shape_like_fit(self.name, self.kind_, self.num_classes_, logits)
            wide = logits.to(working_dtype(logits.dtype))
            return back_to(self._transform(floored(wide, self.kind_)), logits.dtype)
        scores = self._check(logits)
        if isinstance(logits, Tensor) and logits.is_floating_point():
            scores = logits  # with its gradient
        wide = scores.to(working_dtype(scores.dtype))
        blocks = [self._calibrate(wide[rows]) for rows in row_slices(wide)] or [wide]
        return back_to(torch.cat(blocks) if len(blocks) > 1 else blocks[0], scores.dtype)

    @torch.no_grad()
    def predict_proba(self, logits: ArrayLike) -> Tensor:
        """Calibrated probabilities, without gradients, which :meth:`forward` has.

        Args:
            logits: Outputs of the model, of the kind it was fitted on; any floating dtype, any device. For
                probabilities use :func:`calibrant.apply`. Log-odds ``(N,)`` are those of
                ``class_names_[1]``; two columns have the event at ``event_column_``, unless a frame names it.

        Returns:
            float64 on the device of ``logits``: ``(N, C)`` with rows that sum to one, or the probability of
            class 1 in the shape of the log-odds given.

        Raises:
            InputError: If the shape is not that of the fit, a frame's columns are called other than the
                classes, or a value is NaN.
            NotFittedError: If ``fit`` was not called.

        Example:
            >>> from calibrant.calibrators import TemperatureScaling
            >>> calibrator = TemperatureScaling().fit([4.0] * 10, [1] * 8 + [0] * 2)
            >>> [round(p, 6) for p in calibrator.predict_proba([4.0, 0.0, -4.0]).tolist()]
            [0.8, 0.5, 0.2]
        """
        if (dense := inputs.at_positions(logits, self.kind_, self.predict_proba)) is not None:
            return dense
        if (two := self._difference(logits)) is not None:
            odds, event = two
            positive = self.predict_proba(odds)
            return inputs.in_columns(positive, 1 - positive, event)
        scores = self._check(logits)
        link: Callable[[Tensor], Tensor] = torch.exp if self.kind_ == "multiclass" else steady_sigmoid
        probs = torch.empty(scores.shape, dtype=torch.float64, device=scores.device)
        for rows in row_slices(scores):
            probs[rows] = link(self._calibrate(scores[rows].to(torch.float64)))
        return probs

    def affine(self) -> Affine | None:
        """The calibrator as a weight and a bias of logits; None if it is no such map.

        Returns:
            What :meth:`fold_into` puts into a layer.

        Raises:
            NotFittedError: If ``fit`` was not called.

        Example:
            >>> from calibrant.calibrators import TemperatureScaling
            >>> calibrator = TemperatureScaling().fit([4.0] * 10, [1] * 8 + [0] * 2)
            >>> round(calibrator.affine().weight.item(), 6)  # log(0.8 / 0.2) / 4
            0.346574
        """
        return None

    def fold_into(self, linear: nn.Linear) -> nn.Linear:
        """Merge the calibrator into the last layer of a network, at no extra cost in use.

        Args:
            linear: The layer that gives the logits (one output, or two, where they were log-odds ``(N,)``).
                It is left as it is.

        Returns:
            A new layer of the same dtype on the same device, by whose logits softmax (of log-odds the
            sigmoid) gives the calibrated probabilities; computed in float64 and rounded once.

        Raises:
            InputError: If the calibrator is not an affine map of logits, or the layer has another number of
                outputs than the calibrator was fitted on.
            TypeError: If ``linear`` is not an ``nn.Linear``.
            NotFittedError: If ``fit`` was not called.

        Example:
            >>> from calibrant.calibrators import TemperatureScaling
            >>> _ = torch.manual_seed(0)
            >>> head, features = nn.Linear(3, 2), torch.randn(200, 3)
            >>> labels = torch.multinomial(head(features).softmax(dim=1), 1)[:, 0]
            >>> calibrator = TemperatureScaling().fit(head(features), labels)
            >>> probs = calibrator.fold_into(head)(features).softmax(dim=1)
            >>> torch.allclose(probs.double(), calibrator.predict_proba(head(features)), atol=1e-6)
            True
        """
        return folded(linear, self.affine(), self.kind_, self.num_outputs(), self.name, self.event_column_)

    def _calibrate(self, scores: Tensor) -> Tensor:
        return self._transform(floor_zero_probabilities(scores, self.kind_)[0])

    def _difference(self, logits: ArrayLike) -> tuple[Tensor, int] | None:
        """Log-odds of two logits, and the event's column, if the fit was on log-odds."""
        event = inputs.column_of_event(self, logits)
        if self.kind_ != "binary" or (odds := inputs.difference(logits, event)) is None:
            return None
        if not torch.compiler.is_compiling():
            inputs.warn_of_probabilities(self, as_float_tensor(logits, name="logits"))
        return odds, event

    def _check(self, logits: ArrayLike) -> Tensor:
        scores = inputs.check_like_fit(self.name, self.kind_, self.num_classes_, logits).scores
        inputs.warn_of_probabilities(self, scores)
        return scores

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def unfitted(self) -> Self:
        """Return an unfitted copy with equal settings."""
        return type(self)(**self.settings)

    @property
    def text(self) -> str:
        """Text for :func:`build`: the name, with settings that differ from the defaults in brackets."""
        defaults = inspect.signature(type(self)).parameters
        said = [
            f"{name}=" + (f'"{value}"' if isinstance(value, str) else repr(value))
            for name, value in self.settings.items()
            if value != defaults[name].default
        ]
        return self.name + (f"({', '.join(said)})" if said else "")

    @property
    def size(self) -> int:
        """Number of fitted numbers."""
        return sum(getattr(self, name).numel() for name in self.parameter_ranges)

    def num_parameters(self, num_classes: int) -> int | None:
        """Number of parameters for a number of classes; None if that depends on the samples."""
        shapes = [self.parameter_shapes.get(name, ()) for name in self.parameter_ranges]
        if any(set(letters) - {"C"} for letters in shapes):
            return None
        return sum(num_classes ** len(letters) for letters in shapes)

    def num_outputs(self) -> int:
        """Number of model outputs per sample; one for log-odds ``(N,)``."""
        return 1 if self.kind_ == "binary" else self.num_classes_

    def restore(
        self,
        parameters: Mapping[str, Tensor],
        result: FitResult,
        *,
        kind: Task,
        num_classes: int,
        class_names: tuple[str, ...] | None = None,
        event_column: int = 1,
        device: torch.device | None = None,
    ) -> None:
        """Set the result of a fit, and the parameters; those not given are numbers of the result."""
        for name in self.parameter_ranges:
            value = parameters.get(name)
            if value is None:
                value = torch.tensor(result.parameters[name], dtype=torch.float64, device=device)
            self._buffers[name] = value
        self.fit_result_, self.kind_ = result, kind
        self.num_classes_, self.class_names_, self.event_column_ = num_classes, class_names, event_column

    def header(self) -> Header:
        """All that its file holds but the parameters."""
        return Header(
            format_version=FORMAT_VERSION,
            calibrant_version=calibrant.__version__,
            name=self.name,
            settings=self.settings,
            kind=self.kind_,
            num_classes=self.num_classes_,
            class_names=self.class_names_,
            fit=self.fit_result_,
            event_column=self.event_column_,
        )

    def _content(self) -> tuple[str, dict[str, Any], dict[str, Tensor]]:
        return SINGLE_KEY, asdict(self.header()), dict(self.named_buffers())

    def __getattr__(self, name: str) -> Any:
        if name in _SET_BY_FIT:
            raise NotFittedError(f"this {type(self).__name__} is not fitted; call fit(logits, labels) first.")
        return super().__getattr__(name)

    def extra_repr(self) -> str:
        """Settings and fitted values."""
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
        """What a ``state_dict`` holds besides the parameters."""
        if "fit_result_" not in self.__dict__:
            return None
        return {
            "kind": self.kind_,
            "num_classes": self.num_classes_,
            "class_names": self.class_names_,
            "event_column": self.event_column_,
            "result": asdict(self.fit_result_),
        }

    def set_extra_state(self, state: dict[str, Any] | None) -> None:
        """Restore the state from ``get_extra_state``."""
        if state is None:
            for name in _SET_BY_FIT:
                self.__dict__.pop(name, None)
            return
        self.fit_result_ = FitResult.from_dict(state["result"])
        self.kind_, self.num_classes_ = state["kind"], state["num_classes"]
        self.class_names_, self.event_column_ = state["class_names"], state.get("event_column", 1)

    def _load_from_state_dict(
        self, state_dict: Mapping[str, Any], prefix: str, *rest: Any, **named: Any
    ) -> None:
        """Accept parameters of any number of labels, not only the present number."""
        for name in self.parameter_ranges:
            if f"{prefix}{name}" in state_dict:
                self._buffers[name] = torch.empty_like(state_dict[f"{prefix}{name}"])
        super()._load_from_state_dict(dict(state_dict), prefix, *rest, **named)
