"""A quantity that a gate checks, for one kind of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

from calibrant._math.errors import InputError
from calibrant.evaluation.quantities import ECE, with_gate
from calibrant.evaluation.quantity import EVENT, Gate, Kind, Quantity
from calibrant.evaluation.resampling.at_limit import AtLimitKernel


@dataclass(frozen=True, kw_only=True)
class GatedQuantity:
    """One quantity; of a binary model, an error is that of the positive class."""

    metric: str  # the key that was asked for
    form: Quantity  # which stands in the table under its own key
    gate: Gate
    kind: Kind

    @classmethod
    def of(cls, metric: str, kind: Kind) -> GatedQuantity:
        """The quantity of :func:`with_gate`, in its form for the kind."""
        quantity = with_gate()[metric]
        forms = quantity.forms(kind)
        if not forms or quantity.gate is None:
            raise InputError(f"{metric} cannot be checked: {kind} predictions do not have it.")
        return cls(metric=metric, form=forms[0], gate=quantity.gate, kind=kind)

    @classmethod
    def with_limit(cls, metric: str, kind: Kind, limit: float) -> GatedQuantity:
        """The quantity for a gate, if it can have this limit."""
        asked = cls.of(metric, kind)
        if asked.gate.help is None:
            raise InputError(f"there is no limit for {metric}; compare it with a baseline.")
        if not limit >= 0:
            raise InputError(f"the limit of {metric} must be 0 or more; got {limit:g}.")
        if limit > 1 and asked.form.bounds[1] == 1:
            raise InputError(
                f"the limit of {metric} must be between 0 and 1; got {limit:g}; "
                f"use {limit / 100:g} for {limit:g}%."
            )
        return asked

    @property
    def is_error(self) -> bool:
        return self.form.computed.is_error

    @property
    def _classwise(self) -> bool:
        return self.is_error and not self.form.computed.of_events

    @property
    def of_classes(self) -> bool:
        """True if it is an error of classes that exclude each other."""
        return self._classwise and self.kind == "multiclass"

    @property
    def drawn(self) -> bool:
        """True if it is drawn for a model at a limit; else an interval decides."""
        return self.of_classes or self.kernel is not None

    @property
    def prefix(self) -> str:
        if self._classwise and self.kind == "binary":
            return EVENT  # both classes are off by as much as the positive one
        return self.form.prefix

    @property
    def kernel(self) -> AtLimitKernel | None:
        by_events = self._classwise and not self.of_classes  # which stand for the classes
        kernel = (ECE if by_events else self.form).computed.kernel
        return next((known for known in get_args(AtLimitKernel) if known == kernel), None)

    @property
    def binomial(self) -> bool:
        """True if it is a share of independent samples, of which more is better."""
        return self.form.share and self.form.sign < 0 and self.kind != "multilabel"

    @property
    def about(self) -> str:
        """``positive class``, ``labels``, ``top label``, ``decisions`` or ``all classes``."""
        if self._classwise:
            return "labels" if self.kind == "multilabel" else "all classes"
        if self.is_error and self.form.prefix:
            return "positive class"
        if self.is_error:
            return "labels" if self.kind == "multilabel" else "top label"
        return "decisions" if self.form.share else "all classes"

    @property
    def named(self) -> str:
        """``calibration error (ECE) of the positive class``."""
        of_events = self.about in {"positive class", "labels"}
        return f"{self.gate.name} of the {self.about}" if of_events else self.gate.name
