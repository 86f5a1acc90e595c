"""Declaration of a quantity that an evaluation measures.

Importing the declarations takes no time: whatever computes is imported inside functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.event_cells import Kernel
    from calibrant.evaluation.resampling.events import Events, Matrix, Vector

Kind: TypeAlias = Literal["binary", "multiclass", "multilabel", "top_label"]
Section: TypeAlias = Literal["Calibration errors", "Proper scores", "Accuracy and confidence", "Certainty"]
Better: TypeAlias = Literal["lower", "higher", "near zero", "near one"]

Error: TypeAlias = "Callable[[Vector, Vector, Vector | None, int], float]"

ANYTHING = (-inf, inf)
EVENT: Literal["event_"] = "event_"  # prefix of the keys of quantities of a binary model's positive class
HIGH_CONFIDENCE = 0.99


@dataclass(frozen=True, kw_only=True)
class Samples:
    """Numbers of each decision ``(N, D)``, one per sample or per sample and label, and of each sample."""

    confidence: Matrix
    correct: Matrix
    entropy: Matrix  # empty, like the following, if only the top label is known
    nll: Vector
    brier: Vector
    stated: Vector  # mean probability of a positive; empty, as is the next, for classes
    happened: Vector

    @cached_property
    def every(self) -> Matrix:
        """One for each decision."""
        import numpy as np

        return np.ones_like(self.confidence)

    @cached_property
    def each(self) -> Vector:
        """One for each sample."""
        import numpy as np

        return np.ones(len(self.confidence))

    @cached_property
    def confident(self) -> Matrix:
        """One for each decision of high confidence, else zero."""
        return (self.confidence >= HIGH_CONFIDENCE).astype("float64")


class Computed:
    """Computation of a quantity: one of the five below."""

    kernel: Kernel | None = None  # computes it from residual sums
    estimates: Kernel | None = None  # another error with the same true value and interval
    null: bool = False  # whether it is compared with its null distribution
    is_error: ClassVar[bool] = False  # whether it is an error of events or of classes
    of_events: ClassVar[bool] = False  # of yes/no events: also for the positive class

    @property
    def target(self) -> Kernel | None:
        """Kernel of an interval by inversion; ``None`` if it is no error from residual sums."""
        return self.estimates or self.kernel


@dataclass(frozen=True)
class Ratio(Computed):
    """One weighted sum over samples divided by another."""

    parts: Callable[[Samples], tuple[Matrix, Matrix]]  # unweighted numerators and denominators
    column: int = 1_000  # its place among columns summed together, which decides the last bit


@dataclass(frozen=True)
class EventError(Computed):
    """An error of yes/no events, averaged over labels."""

    value: Error  # a function of confidences, outcomes, weights and the number of bins
    kernel: Kernel | None = None
    estimates: Kernel | None = None  # another error with the same true value and interval
    null: bool = False
    is_error: ClassVar[bool] = True
    of_events: ClassVar[bool] = True


@dataclass(frozen=True)
class EventInfluence(Computed):
    """A parameter of yes/no events with the influence of each sample, averaged over the labels."""

    of_events: ClassVar[bool] = True

    value: Callable[[Events], tuple[float, Vector] | str]  # with influences ``(N,)``, or a reason


@dataclass(frozen=True)
class OneEventInfluence(EventInfluence):
    """Like :class:`EventInfluence`, for the positive class only; undefined for the top label."""

    of_events: ClassVar[bool] = False


@dataclass(frozen=True)
class ClassErrors(Computed):
    """The mean over all classes of the one-vs-rest error over bins of equal width."""

    is_error: ClassVar[bool] = True


@dataclass(frozen=True)
class ClassRanks(Computed):
    """The mean over all classes of the area under the ROC curve, with the influence of each sample."""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """Places of a quantity besides the full table."""

    terminal: bool = False
    comparison: int | None = None  # its place in the terminal's table of models, which shows as many as fit
    drawn: bool = False  # whether a report draws it against noise


@dataclass(frozen=True)
class Gate:
    """Words for a quantity in a gate."""

    name: str  # the name in its sentences
    help: str | None = None  # of the option that sets a limit; None: compared with a baseline only


@dataclass(frozen=True, kw_only=True)
class Quantity:
    """One measure of predictions, with all declarations about it."""

    key: str  # the name in the data: lower case, with underscores
    title: str
    meaning: str  # a sentence or two for a reader who meets it for the first time
    section: Section  # the part of the table
    better: Better | None = None  # good values; None if neither end of the scale is good
    bounds: tuple[float, float] = (0.0, 1.0)
    computed: Ratio | EventError | EventInfluence | ClassErrors | ClassRanks
    kinds: tuple[Kind, ...] = ("binary", "multiclass", "multilabel", "top_label")  # that have it
    needs_all_classes: bool = False  # whether it is undefined if only the top label is known
    share: bool = False  # whether it is a proportion with binomial noise
    undefined: str | None = None  # why it may have no value
    when_streamed: str | None = None  # its gap if scores are read in pieces
    default: bool = True  # whether it is computed by default
    shown: Shown = Shown()
    event: Shown | None = None  # places of its form for the positive class; None: no such form
    gate: Gate | None = None
    prefix: Literal["", "event_"] = ""  # of its events: "event_" in the form for the positive class

    @property
    def event_key(self) -> str:
        """The key of its form for the positive class."""
        return EVENT + self.key

    @property
    def sign(self) -> Literal[1, -1]:
        """1 if lower is better, −1 if higher is."""
        return -1 if self.better == "higher" else 1

    @property
    def option(self) -> str:
        """The command-line option that sets its limit."""
        return f"--{'max' if self.sign > 0 else 'min'}-{self.key.replace('_', '-')}"

    def forms(self, kind: Kind) -> tuple[Quantity, ...]:
        """Its forms for a kind of predictions: none, itself, or the positive class's and its own."""
        if kind not in self.kinds:
            return ()
        if kind != "binary" or not self.computed.of_events:
            return (self,)
        place = self.shown.comparison if self.event is None else None  # the event's row is enough
        short = replace(self.shown, terminal=False, comparison=place)
        top = replace(self, title=f"{self.title}, top label", shown=short)
        if self.event is None:
            return (top,)
        title = f"{self.title}, positive class"
        return (replace(self, key=self.event_key, title=title, shown=self.event, prefix=EVENT), top)
