"""Shared parts of the streaming metrics: reading a batch, and holding and adding up the state."""

from __future__ import annotations

import hashlib
import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self, TypedDict, Unpack

import torch
from torch import Tensor, distributed

from calibrant._math.arrays import ArrayLike, as_float_tensor, as_label_tensor
from calibrant._math.checks import (
    Checked,
    Task,
    check_at_least,
    check_choice,
    check_logits,
    check_probs,
    rows_of_positions,
    seem_probabilities,
    weights_of_positions,
)
from calibrant._math.errors import CalibrantWarning, InputError
from calibrant._math.shapes import Float
from calibrant._math.text_form import nearest
from calibrant.metrics._common import Average, columns
from calibrant.metrics.streaming.rows import as_event

try:
    from torchmetrics import Metric
    from torchmetrics.utilities import dim_zero_cat
except ModuleNotFoundError as error:
    raise ImportError(
        "streaming metrics need torchmetrics, which the extra `streaming` brings: "
        "pip install 'calibrant[streaming]'."
    ) from error


class SyncOptions(TypedDict, total=False):
    """The options of ``torchmetrics.Metric``."""

    compute_on_cpu: bool
    compute_with_cache: bool
    dist_sync_fn: Callable[..., list[Tensor]]
    dist_sync_on_step: bool
    distributed_available_fn: Callable[[], bool]
    process_group: Any
    sync_on_compute: bool


class StreamingMetric(Metric, ABC):
    """A metric of all the samples seen so far.

    Its state is one float64 tensor: sums, which add up, or kept rows, which are appended. So one gathering
    brings any number of processes together. ``.to(dtype)``, ``.half()`` and ``set_dtype`` leave it float64.
    """

    is_differentiable = False
    full_state_update = False  # `forward` may compute a batch alone and add it to the rest

    _per_class: ClassVar[bool] = False  # True if each class has a value

    def __init__(
        self,
        *,
        task: Task = "multiclass",
        num_classes: int | None = None,
        average: Average = "macro",
        ignore_index: int | None = None,
        from_logits: bool = False,
        **options: Unpack[SyncOptions],
    ) -> None:
        if strangers := sorted(options.keys() - SyncOptions.__annotations__.keys()):
            known = [*inspect.signature(type(self).__init__).parameters][1:-1]  # without `self` and `options`
            near = nearest(strangers[0], known)
            raise TypeError(f"{type(self).__name__} has no setting {strangers[0]!r}{near}")
        super().__init__(**options)
        check_choice("task", task, ("binary", "multiclass", "multilabel"))
        check_choice("average", average, ("macro", "none"))
        if task == "binary" and num_classes is not None:
            raise InputError('`num_classes` must be None for task="binary".')
        if task == "multilabel" or (task == "multiclass" and self._per_class):
            if num_classes is None:
                raise InputError(f'`num_classes` must be given to {type(self).__name__} for task="{task}".')
            self._num_columns = num_classes
        else:
            self._num_columns = 1
            if average == "none":
                raise InputError(
                    f'`average` must be "macro" for {type(self).__name__} with task="{task}": '
                    "there is only one value."
                )
        if num_classes is not None:
            check_at_least("num_classes", num_classes, 2)
        self.task: Task = task
        self.num_classes = num_classes
        self.ignore_index = ignore_index
        self.from_logits = from_logits
        self.average: Average = average
        self._by_class = task == "multiclass" and self._per_class
        self._start()

    def _start(self) -> None: ...

    def extra_repr(self) -> str:
        """Settings that differ from the default."""
        given = inspect.signature(type(self).__init__).parameters.values()
        settings = [(each.name, getattr(self, each.name, each.default), each.default) for each in given]
        return ", ".join(f"{name}={value!r}" for name, value, default in settings if value != default)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw a value, or several such as those of each epoch; by default what :meth:`compute` returns.

        Args:
            val: Results of :meth:`compute` or of calling the metric.
            ax: Matplotlib's axes; by default new ones.

        Returns:
            The figure and its axes.
        """
        return self._plot(val, ax)

    def update(self, probs: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Add a batch.

        Args:
            probs: Probabilities (logits with ``from_logits=True``): of the classes or labels, shape
                ``(N, C)`` or ``(N, C, d1, ...)``, or of an event, of any shape.
            labels: Classes, shape ``(N,)`` or ``(N, d1, ...)``; or outcomes in {0, 1} of the shape of
                ``probs``. Those equal to ``ignore_index`` are left out, whatever ``probs`` holds there.
            weights: Weights, one per sample ``(N,)`` or one per position ``(N, d1, ...)``, not negative.

        Raises:
            InputError: If shapes disagree with each other or with the task, or a value is not finite or out
                of range. Then nothing has been added. Rows are counted without those ignored.
        """
        batch = self._summary(self._read(probs, labels, weights))
        state: Tensor | list[Tensor] = getattr(self, self._state)
        # Replaced, not changed in place: metrics of a collection share states.
        if isinstance(state, list):
            setattr(self, self._state, [*state, batch.to(self.device)])
        else:
            setattr(self, self._state, state + batch.to(state.device))

    def compute(self) -> Float[Tensor, ""] | Float[Tensor, " C"]:
        """Value over everything seen so far, by all processes.

        Returns: Scalar float64; shape ``(C,)`` for ``average="none"``. Where nothing defines it (all samples
            were ignored, or none is of the requested kind) it is NaN, with a ``CalibrantWarning``; with
            ``average="macro"`` such columns are left out of the mean.

        Raises:
            InputError: If ``update`` was never called.
        """
        values = self._values()
        undefined = values.isnan()
        if bool(undefined.any()):
            if not self.update_called and bool(undefined.all()):
                raise InputError(f"{type(self).__name__} has seen no sample; call `update` first.")
            where = "" if values.numel() == 1 else f" in {int(undefined.sum())} of {values.numel()} columns"
            warnings.warn(
                f"{type(self).__name__} is undefined{where}: no sample that it needs has occurred.",
                CalibrantWarning,
                stacklevel=3,  # above torchmetrics' wrapper
            )
        return values if self.average == "none" else values[~undefined].mean()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch, and return the value of this batch alone; arguments as of ``update``."""
        before = dict(vars(self))  # shallow, as states are replaced and never changed in place
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            # torchmetrics sets the stream aside meanwhile, so a refused batch would lose it
            vars(self).update(before)
            raise

    def merge_state(self, incoming_state: dict[str, Any] | Metric) -> None:
        """Add the samples of another instance with equal settings."""
        super().merge_state(incoming_state)
        self._update_count += incoming_state.update_count if isinstance(incoming_state, Metric) else 1
        self._computed = None

    def reset(self) -> None:
        """Forget everything seen so far."""
        if isinstance(getattr(self, self._state), list):  # torchmetrics would empty a possibly shared list
            setattr(self, self._state, [])
        super().reset()

    def sync(
        self,
        dist_sync_fn: Callable[..., list[Tensor]] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        distributed_available: Callable[[], bool] | None = None,
    ) -> None:
        """Combine the states of all processes: sums in one collective, rows in their sizes and one.

        Args:
            dist_sync_fn: Function that gathers a tensor, if not the default.
            process_group: The processes, if not all.
            should_sync: Do nothing if False.
            distributed_available: Returns True if there are several processes.
        """
        state = getattr(self, self._state)
        if not isinstance(state, list):
            dist_sync_fn = dist_sync_fn or _gather_equal_shapes
        elif not state:  # a process that saw nothing has as many columns of rows as the others
            setattr(self, self._state, [torch.empty(self._nothing, dtype=torch.float64, device=self.device)])
        super().sync(dist_sync_fn, process_group, should_sync, distributed_available)

    def _apply(self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = "") -> Self:
        """Follow a module to another device, but not to another dtype."""

        def move(tensor: Tensor) -> Tensor:
            device = fn(torch.empty(0, device=tensor.device)).device
            return tensor.to("cpu" if device.type == "mps" else device)  # which has no float64

        super()._apply(move, exclude_state)
        return self

    @abstractmethod
    def _summary(self, problems: list[Checked | None]) -> Tensor:
        """Addition to the state for a batch, by column; ``None`` marks columns without counted samples."""

    @abstractmethod
    def _values(self) -> Float[Tensor, " columns"]: ...

    def _hold(self, what: str, shape: tuple[int, ...], *settings: object, rows: bool = False) -> None:
        """Set up the state: sums of the shape, or concatenated rows of the shape.

        A ``MetricCollection`` lets metrics share a state if name and first value agree, possibly by chance:
        so the name contains everything that the state depends on.
        """
        key = repr((self.task, self.num_classes, self.ignore_index, self.from_logits, shape, *settings))
        self._state = f"{what}_{hashlib.blake2b(key.encode(), digest_size=6).hexdigest()}"
        self._nothing = (0, *shape)
        zero = torch.zeros(shape, dtype=torch.float64)
        self.add_state(self._state, [] if rows else zero, dist_reduce_fx="cat" if rows else "sum")

    @property
    def _held(self) -> Tensor:
        state: Tensor | list[Tensor] = getattr(self, self._state)
        if isinstance(state, list) and not state:
            return torch.empty(self._nothing, dtype=torch.float64, device=self.device)
        return dim_zero_cat(state)

    def _read(self, probs: ArrayLike, labels: ArrayLike, weights: ArrayLike | None) -> list[Checked | None]:
        """Counted samples: of the classes, of the event, or of each label as an event."""
        name = "logits" if self.from_logits else "probs"
        scores = as_float_tensor(probs, name=name)
        if scores.device.type == "mps":  # has no float64
            scores = scores.cpu()
        target = as_label_tensor(labels, name="labels").to(scores.device)
        self._check_shapes(name, scores, target)
        mass = None if weights is None else as_float_tensor(weights, name="weights").to(scores.device)
        if mass is not None:
            places = target.shape if self.task != "multilabel" else _without_classes(target)
            mass = weights_of_positions(mass, tuple(places))
        if self.task == "binary":
            scores, target = scores.reshape(-1), target.reshape(-1)
        else:
            scores = rows_of_positions(scores)
            target = rows_of_positions(target) if self.task == "multilabel" else target.reshape(-1)
        if self.ignore_index is None:
            return self._split(self._check(scores, target, mass))
        counts = target != self.ignore_index
        if self.task == "multilabel":
            checked = self._check(scores.where(counts, 0.0), target.where(counts, 0), mass)
            return self._split(checked, counts)
        if not bool(counts.all()):
            scores, target = scores[counts], target[counts]
            mass = None if mass is None else mass[counts]
        return self._split(self._check(scores, target, mass))

    def _check_shapes(self, name: str, scores: Tensor, labels: Tensor) -> None:
        shape = scores.shape
        if self.task != "binary":
            if scores.ndim < 2:
                raise InputError(
                    f"`{name}` must have shape (N, C) or (N, C, d1, ...) for "
                    f'task="{self.task}"; got {tuple(shape)}.'
                )
            if self.num_classes is not None and shape[1] != self.num_classes:
                raise InputError(
                    f"`{name}` must have num_classes={self.num_classes} columns; got shape {tuple(shape)}."
                )
            shape = shape if self.task == "multilabel" else _without_classes(scores)
        elif scores.ndim == 0:
            raise InputError(f"`{name}` must have shape (N,); got one number.")
        if labels.shape != shape:
            table = self.task == "multiclass" and labels.shape == scores.shape
            raise InputError(
                f'`labels` must have shape {tuple(shape)} to go with `{name}` and task="{self.task}"; '
                f"got {tuple(labels.shape)}{_TABLE if table else ''}."
            )

    def _check(self, scores: Tensor, labels: Tensor, weights: Tensor | None) -> Checked | None:
        """Checked samples as probabilities; ``None`` if none has a weight."""
        if not len(scores):
            return None
        nothing = weights is not None and not bool(weights.any())
        if nothing:
            weights = None
        if not self.from_logits:
            checked = check_probs(scores, labels, weights, task=self.task, takes_logits=True)
        else:
            checked = check_logits(scores, labels, weights, task=self.task)
            seen = seem_probabilities(checked.scores, multiclass=self.task == "multiclass")
            if seen:
                name = type(self).__name__
                warnings.warn(
                    f"{name}: {seen}: leave `from_logits=True` out.", CalibrantWarning, stacklevel=4
                )
            wide = checked.scores.to(torch.float64)
            chance = wide.softmax(dim=1) if self.task == "multiclass" else wide.sigmoid()
            checked = replace(checked, scores=chance)
        return None if nothing else checked

    def _split(self, checked: Checked | None, counts: Tensor | None = None) -> list[Checked | None]:
        """Several labels: each as an event, of the samples that count for it."""
        if self.task != "multilabel":
            return [checked]
        if checked is None:
            return [None] * self._num_columns
        problems: list[Checked | None] = []
        for k, (scores, outcomes) in enumerate(columns(checked)):
            chosen = slice(None) if counts is None else counts[:, k]
            weights = None if checked.weights is None else checked.weights[chosen]
            problems.append(as_event(scores[chosen], outcomes[chosen], weights))
        return problems


_TABLE = '; for one-hot labels pass `labels.argmax(1)`, for several labels per sample set task="multilabel"'


def _without_classes(table: Tensor) -> torch.Size:
    return table.shape[:1] + table.shape[2:]


def _gather_equal_shapes(tensor: Tensor, group: Any = None) -> list[Tensor]:
    everyone = [torch.empty_like(tensor) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(everyone, tensor.contiguous(), group=group)
    return everyone
