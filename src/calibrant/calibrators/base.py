"""What every calibrator is: a module that is fitted on calibration logits and maps logits to better ones."""

from __future__ import annotations

import inspect
import math
import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from torch import Tensor, nn

from calibrant._math.arrays import ArrayLike, row_slices
from calibrant._math.checks import Task, check_logits
from calibrant._math.errors import CalibrantWarning, InputError, NotFittedError
from calibrant._math.focal_map import back_to, working_dtype
from calibrant._math.threads import threads_for
from calibrant.calibrators._fit_data import drop_weightless, fingerprint, finite_scores, with_trouble
from calibrant.calibrators._folds import held_out, over_correction
from calibrant.calibrators._objectives import Objective
from calibrant.calibrators._tables import stack_tables
from calibrant.calibrators._zeros import floor_zero_probabilities, floored
from calibrant.calibrators.profile import profile_of
from calibrant.calibrators.result import FitResult, Solution, join

if TYPE_CHECKING:
    from jaxtyping import Float, Int

    from calibrant.calibrators.fold import Affine

_SET_BY_FIT = ("fit_result_", "kind_", "num_classes_", "class_names_")


class Calibrator(nn.Module):
    """Fitted on calibration logits and labels; maps logits to calibrated log-probabilities.

    Scores are logits ``(N, C)`` of a multiclass model, log-odds ``(N,)`` of a binary one, or log-odds
    ``(N, C)`` of a multilabel one, which labels of shape ``(N, C)`` announce. A probability of exactly zero
    (a logit of ``-inf``; in log-odds an infinity) counts as 1e-12, or as the smallest other probability of
    its row where that is smaller still, so that no class overtakes another. ``class_names_`` may be set after
    a fit; it goes into the file.

    Parameters are float64 buffers that keep their type under ``.to(dtype)`` and ``.half()``. Subclasses say
    how to fit one problem (``_solve``) and how to map scores (``_transform``).
    """

    name: ClassVar[str]
    """What the command line and files call it."""
    title: ClassVar[str]
    """What people call it."""
    kinds: ClassVar[tuple[Task, ...]] = ("binary", "multiclass", "multilabel")
    """The kinds of predictions it can be fitted on."""
    parameter_ranges: ClassVar[Mapping[str, tuple[float, float]]]
    """Names of the fitted parameters, and between which values they lie."""
    parameter_shapes: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Of parameters that are tables the dimensions: C is the number of classes, other letters are free."""

    objective: Objective
    fit_result_: FitResult
    kind_: Task
    num_classes_: int
    class_names_: tuple[str, ...] | None

    def __init__(self) -> None:
        super().__init__()
        self._starts: list[dict[str, float]] = []  # of each problem, where there was a fit before
        for name in self.parameter_ranges:
            self.register_buffer(name, torch.tensor(math.nan, dtype=torch.float64))

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor's arguments."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

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

    @abstractmethod
    def _solve(
        self,
        scores: Float[Tensor, "N C"] | Float[Tensor, " N"],
        labels: Int[Tensor, " N"],
        weights: Float[Tensor, " N"] | None,
    ) -> Solution:
        """Fit one multiclass problem, or one binary one."""

    def _solve_near(
        self,
        start: Mapping[str, float],
        scores: Float[Tensor, "N C"] | Float[Tensor, " N"],
        labels: Int[Tensor, " N"],
        weights: Float[Tensor, " N"] | None,
    ) -> Solution:
        """The same, where the parameters of a fit to similar data are known."""
        del start
        return self._solve(scores, labels, weights)

    @abstractmethod
    def _transform(self, scores: Tensor) -> Tensor:
        """Calibrated log-probabilities of finite logits, or log-odds of log-odds; differentiable."""

    def fit(
        self,
        logits: ArrayLike,
        labels: ArrayLike,
        *,
        weights: ArrayLike | None = None,
        folds: int = 0,
        seed: int = 0,
    ) -> Self:
        """Fit on calibration data, which must not be the data the model was trained on.

        Args:
            logits: Logits ``(N, C)``, or log-odds ``(N,)`` of class 1.
            labels: Classes ``(N,)``, or zeros and ones ``(N, C)`` with one column per label.
            weights: Sample weights ``(N,)``; a weight of k counts like k copies.
            folds: If not 0, into how many folds to cut the data, to fit on the others and judge on each in
                turn. ``fit_result_.held_out`` then tells what was found; where over-confidence became
                under-confidence by more than two standard errors, that is warned of.
            seed: Of the folds.

        Returns:
            The calibrator itself; ``fit_result_`` tells how the fit went.

        Raises:
            InputError: If shapes disagree, a label is out of range, a value is NaN, or there are too few
                samples for ``folds``.

        Note:
            Time is that of one fit, and of ``folds`` more. What stands in ``fit_result_.warnings`` (an
            optimum on a bound, separable data, probabilities of zero, or passed for logits) is also given as
            one ``CalibrantWarning``.

        Example:
            >>> from calibrant.calibrators import TemperatureScaling
            >>> calibrator = TemperatureScaling().fit([4.0] * 10, [1] * 7 + [0] * 3)
            >>> round(calibrator.predict_proba([4.0]).item(), 6)
            0.7
        """
        checked = check_logits(logits, labels, weights, allow_minus_inf=True)
        if checked.labels is None:
            raise InputError("`labels` must be given to fit; got None.")
        self._check_kind(checked.task)
        sha256 = fingerprint(checked)
        scores, notes = finite_scores(checked)
        scores, targets, shares = drop_weightless(scores, checked.labels, checked.weights)
        with threads_for(scores.numel()):
            solutions = self._solve_all(scores, targets, shares, checked.task)
            solutions = with_trouble(solutions, scores, targets, checked.task)
            profile = profile_of(scores, targets, shares, checked.task)
        result = join(
            solutions,
            objective=self.objective,
            notes=notes,
            num_samples=checked.num_samples,
            data_sha256=sha256,
            profile=profile,
        )
        parameters = {
            name: stack_tables([solution.tables[name] for solution in solutions])
            if name in self.parameter_shapes
            else torch.tensor(result.parameters[name], dtype=torch.float64, device=scores.device)
            for name in self.parameter_ranges
        }
        if folds:
            result = self._with_held_out(
                result, checked.task, scores, targets, shares, folds=folds, seed=seed
            )
        self.restore(parameters, result, kind=checked.task, num_classes=checked.num_classes, class_names=None)
        if result.warnings:
            warnings.warn(f"{self.name}: {'; '.join(result.warnings)}.", CalibrantWarning, stacklevel=2)
        return self

    def refit(self, logits: ArrayLike, labels: ArrayLike, *, weights: ArrayLike | None = None) -> Self:
        """Another calibrator of the same settings, fitted to similar data: a fold, a resample, next week's.

        Args:
            logits: As for :meth:`fit`.
            labels: As for :meth:`fit`.
            weights: As for :meth:`fit`.

        Returns:
            A new calibrator; this one stays as it is.

        Raises:
            InputError: As :meth:`fit`.
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
        again = type(self)(**self.settings)
        if self.fit_result_ and not self.parameter_shapes:
            columns = {name: torch.atleast_1d(getattr(self, name)).tolist() for name in self.parameter_ranges}
            again._starts = [
                dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
            ]
        again.fit(logits, labels, weights=weights)
        again._starts = []  # what it is fitted to next need not be similar
        return again

    def _solve_all(
        self, scores: Tensor, labels: Tensor, weights: Tensor | None, kind: Task
    ) -> list[Solution]:
        """One solution, or one for each label of multilabel data."""
        if kind != "multilabel":
            problems = [(scores, labels, weights)]
        else:
            columns = range(scores.shape[1])
            problems = [(scores[:, column], labels[:, column], weights) for column in columns]
        if len(self._starts) != len(problems):
            return [self._solve(*problem) for problem in problems]
        return [
            self._solve_near(start, *problem) for start, problem in zip(self._starts, problems, strict=True)
        ]

    def _with_held_out(
        self,
        result: FitResult,
        kind: Task,
        scores: Tensor,
        labels: Tensor,
        weights: Tensor | None,
        *,
        folds: int,
        seed: int,
    ) -> FitResult:
        """The result, with what cross-validation tells."""

        def make() -> Calibrator:
            return type(self)(**self.settings)

        found = held_out(make, kind, scores, labels, weights, folds=folds, seed=seed)
        told = over_correction(found)
        return replace(
            result,
            held_out={**result.held_out, **found},
            warnings=(*result.warnings, told) if told else result.warnings,
        )

    def restore(
        self,
        parameters: Mapping[str, Tensor],
        result: FitResult,
        *,
        kind: Task,
        num_classes: int,
        class_names: tuple[str, ...] | None,
    ) -> None:
        """Become what an earlier fit made."""
        for name in self.parameter_ranges:
            self._buffers[name] = parameters[name]
        self.fit_result_, self.kind_ = result, kind
        self.num_classes_, self.class_names_ = num_classes, class_names

    def forward(self, logits: ArrayLike) -> Tensor:
        """Calibrated log-probabilities ``(N, C)``, or log-odds in the shape of the log-odds given.

        Args:
            logits: What the model gives, of the kind it was fitted on; any floating dtype, any device.

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
        if torch.compiler.is_compiling() and isinstance(logits, Tensor):
            return self._traced(logits)
        scores = self._check(logits)
        if isinstance(logits, Tensor) and logits.is_floating_point():
            scores = logits  # with its gradient
        wide = scores.to(working_dtype(scores.dtype))
        blocks = [self._calibrate(wide[rows]) for rows in row_slices(wide)]
        return back_to(torch.cat(blocks) if len(blocks) > 1 else blocks[0], scores.dtype)

    @torch.no_grad()
    def predict_proba(self, logits: ArrayLike) -> Tensor:
        """Calibrated probabilities.

        Args:
            logits: What the model gives, of the kind it was fitted on; any floating dtype, any device.

        Returns:
            float64 on the device of ``logits``: ``(N, C)`` with rows that sum to one, or the probability of
            class 1 in the shape of the log-odds given.

        Raises:
            InputError: If the shape is not that of the fit, or a value is NaN.
            NotFittedError: If ``fit`` was not called.

        Note:
            Without gradients; :meth:`forward` has them.

        Example:
            >>> from calibrant.calibrators import TemperatureScaling
            >>> calibrator = TemperatureScaling().fit([4.0] * 10, [1] * 8 + [0] * 2)
            >>> [round(p, 6) for p in calibrator.predict_proba([4.0, 0.0, -4.0]).tolist()]
            [0.8, 0.5, 0.2]
        """
        scores = self._check(logits)
        link: Callable[[Tensor], Tensor] = torch.exp if self.kind_ == "multiclass" else torch.sigmoid
        probs = torch.empty(scores.shape, dtype=torch.float64, device=scores.device)
        for rows in row_slices(scores):
            probs[rows] = link(self._calibrate(scores[rows].to(torch.float64)))
        return probs

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
        from calibrant.calibrators.files import save_calibrator

        save_calibrator(self, path)

    def affine(self) -> Affine | None:
        """The calibrator as a weight and a bias of logits; None where it is no such map.

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
        """The last layer of a network, with the calibrator in its weights: it costs nothing any more.

        Args:
            linear: The layer that gives the logits (one output where they are log-odds ``(N,)``). It is left
                as it is.

        Returns:
            A new layer of the same dtype on the same device, by whose logits softmax (of log-odds the
            sigmoid) gives the calibrated probabilities.

        Raises:
            InputError: If the calibrator is no affine map of logits, or the layer has another number of
                outputs than the calibrator was fitted on.
            NotFittedError: If ``fit`` was not called.

        Note:
            Weights are computed in float64 and rounded to the layer's dtype once.

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
        from calibrant.calibrators.fold import fold

        return fold(self, linear)

    def _traced(self, logits: Tensor) -> Tensor:
        """``forward`` in operations that do not depend on values."""
        wanted = (self.num_classes_,) if self.kind_ != "binary" else ()
        if logits.shape[1:] != wanted:
            shape = ", ".join(("N", *map(str, wanted))) + ("" if wanted else ",")
            raise InputError(
                f"`logits` must have the shape ({shape}) that {self.name} was fitted on; "
                f"got {tuple(logits.shape)}."
            )
        wide = logits.to(working_dtype(logits.dtype))
        return back_to(self._transform(floored(wide, self.kind_)), logits.dtype)

    def _calibrate(self, scores: Tensor) -> Tensor:
        return self._transform(floor_zero_probabilities(scores, self.kind_)[0])

    def _check(self, logits: ArrayLike) -> Tensor:
        """The scores, if they are of the kind that was fitted."""
        kind = self.kind_
        checked = check_logits(logits, task=kind, allow_minus_inf=True)
        if checked.num_classes != self.num_classes_:
            raise InputError(
                f"`logits` must have the {self.num_classes_} columns that {self.name} was fitted on; "
                f"got {checked.num_classes}."
            )
        return checked.scores

    def _check_kind(self, kind: Task) -> None:
        if kind not in self.kinds:
            kinds = " or ".join(self.kinds)
            raise InputError(f"`logits` must be {kinds} ones, which {self.name} is for; got {kind} ones.")

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
