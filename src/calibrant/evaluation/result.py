"""Result of an evaluation, as frozen data with a versioned JSON form."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError
from pydantic.json_schema import SkipJsonSchema

from calibrant._math.errors import InputError
from calibrant._math.text_form import named
from calibrant.calibrators import Calibrator
from calibrant.metrics import CorpReliabilityCurve, RiskCoverageCurve, RocCurve
from calibrant.metrics.out_of_distribution import OutOfDistributionScore
from calibrant.predictions import Source
from calibrant.predictions.formats.columns import Library, frame_of

SCHEMA_VERSION = 3


@cache
def adapter_of(form: Any) -> TypeAdapter[Any]:
    """Adapter that reads and writes the JSON of a result."""
    return TypeAdapter(form)


class AsJson:
    """Results with a JSON form."""

    def to_json(self, *, indent: int | None = 2) -> str:
        """The result as JSON text; infinite or undefined values are ``null`` with a reason."""
        return adapter_of(type(self)).dump_json(self, indent=indent).decode()


def _reports(module: str) -> Any:
    """A module of ``calibrant.reports``, imported by name only when a result is shown."""
    return import_module(f"calibrant.reports.{module}")


class AsRows:
    """Results with metrics by part, which convert to a table."""

    _rows_of: ClassVar[tuple[str, str, str]] = ("arms", "arm", "change")
    """Attribute with the parts, their noun, and the attribute of a part with its paired changes."""

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary per part (arm or model) and metric, ready for a data frame or a CSV file."""
        parts, part, change = self._rows_of
        rows: list[dict[str, Any]] = []
        for each in getattr(self, parts):
            for metric, estimate in each.metrics.items():
                moved = getattr(each, change).get(metric, Estimate(value=None))
                changes = {change: moved.value, f"{change}_low": moved.low, f"{change}_high": moved.high}
                rows.append({part: each.name, "metric": metric, **dataclasses.asdict(estimate), **changes})
        return rows

    def to_frame(self, *, library: Library | None = None) -> Any:
        """:meth:`rows` as a data frame of pandas, or of polars if requested or installed alone.

        Raises:
            InputError: If ``library`` is another.
            ImportError: If it is not installed.
        """
        rows = self.rows()
        return frame_of({key: [row[key] for row in rows] for key in rows[0]}, library)

    def __str__(self) -> str:
        return _reports("terminal").as_text(self)


PartName = Literal["top label", "positive class", "labels", "classes", "groups", "slope"]
"""The slope was a part of its own before schema version 3."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """A range of probabilities, with the average prediction and the actual rate in it."""

    low: float
    high: float
    predicted: float
    actual: float


@dataclass(frozen=True, kw_only=True)
class Part:
    """A test of one aspect of calibration against the noise of a calibrated model."""

    name: PartName
    holds: bool  # whether noise could explain the error, after adjustment
    p_value: float  # of the part alone
    adjusted_p: float  # Holm's, for the number of parts
    num_draws: int | None  # that the p-value comes from; None: from the normal distribution
    where: Range | None = None  # range in which the error of an event stands out most


@dataclass(frozen=True, kw_only=True)
class Check:
    """One test of the verdict, in words."""

    name: str  # "Overall", "Classes"
    passed: bool
    text: str  # the measured values
    metrics: tuple[str, ...] = ()  # the keys of those that the text names


@dataclass(frozen=True, kw_only=True)
class ChoiceRow:
    """One arm in the cross-validation on the calibration samples."""

    name: str  # as the arm's
    title: str
    size: int  # number of fitted parameters
    nll: float  # of every sample under a calibrator fitted on the other folds
    behind: float  # its NLL minus the best one's
    standard_error: float  # of that difference, over the samples


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The candidates, from the fewest parameters to the most, and the chosen one."""

    chosen: str  # the name of a candidate: the first within one standard error of the best
    candidates: tuple[ChoiceRow, ...]
    num_samples: int
    folds: int


Direction = Literal[
    "over-confident",
    "under-confident",
    "over-predicting",
    "under-predicting",
    "miscalibrated",
    "calibrated in part",
    "calibrated",
    "undecided",
]
Intervals = Literal["inverted", "centred", "percentile", "bca"]
Kind = Literal["binary", "multiclass", "multilabel", "top_label"]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A number and its interval; ``reason`` explains a missing part."""

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None
    without_chance: float | None = None  # the bias-corrected calibration error

    @property
    def outside(self) -> bool:
        """True if the measured value, inflated by noise, is outside the bias-corrected interval."""
        if self.value is None or self.low is None or self.high is None:
            return False
        return not self.low <= self.value <= self.high


def between(value: float, ends: tuple[float, float] | None, reason: str | None = None) -> Estimate:
    """An estimate with the ends of its interval, or with the reason that it has none."""
    if ends is None:
        return Estimate(value=value, reason=reason)
    return Estimate(value=value, low=ends[0], high=ends[1])


@dataclass(frozen=True, kw_only=True)
class NullError:
    """Null distribution of an error under perfect calibration, and the p-value of the measured error."""

    metric: str
    mean: float
    upper: float  # the 95th percentile (one minus the evaluation's error level)
    p_value: float  # (1 + draws at least as large as ours) / (1 + draws)
    num_draws: int


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A reliability diagram as numbers; one entry per bin, ``None`` for an empty bin."""

    name: str  # "top label", the event's own name or "positive class", or the name of a label
    edges: tuple[float, ...]  # num_bins + 1
    counts: tuple[int, ...]
    confidence: tuple[float | None, ...]  # mean stated probability
    accuracy: tuple[float | None, ...]  # share that was right, or positive
    low: tuple[float | None, ...]  # interval of the share
    high: tuple[float | None, ...]
    expected_low: tuple[float | None, ...]  # range of the share under calibration
    expected_high: tuple[float | None, ...]
    histogram_edges: tuple[float, ...]  # finer, for the histogram below the diagram
    histogram_correct: tuple[int, ...]  # right, or positive
    histogram_incorrect: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Band:
    """Noise band of a curve, at the evaluation's level."""

    positions: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Witness:
    """The Lipschitz function that attains the smooth calibration error; straight between its points."""

    value: float  # the error
    points: tuple[float, ...]
    values: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class SelectiveRisk:
    """Error rate when the least confident samples are not answered."""

    curve: RiskCoverageCurve  # some of its points
    area: Estimate
    excess_area: Estimate


@dataclass(frozen=True, kw_only=True)
class Shapes:
    """Diagrams without bins, as numbers; long curves are thinned to some hundred points."""

    name: str  # as the curve's
    corp: CorpReliabilityCurve
    band: Band  # of the CORP curve
    witness: Witness
    selection: SelectiveRisk | None  # of decisions
    roc: RocCurve | None  # of events; some of its points


@dataclass(frozen=True, kw_only=True)
class ClassRow:
    """One class (one-vs-rest) or one label."""

    name: str
    count: int  # samples of this class
    mean_probability: float
    prevalence: float
    ece: float
    auroc: float | None  # None if the class never, or always, occurs
    accuracy: float | None  # recall; None if the class never occurs
    adjusted_p: float | None = None  # of mean probability against prevalence, for the number of classes
    noise_floor: float | None = None  # of the distance between the two, with the same correction


@dataclass(frozen=True, kw_only=True)
class GroupRow:
    """The samples of one group."""

    name: str
    count: int
    actual: Estimate  # rate of the positive class; else accuracy
    predicted: Estimate  # mean probability of the positive class; else mean confidence
    gap: Estimate  # predicted minus actual
    ece: Estimate
    null: NullError  # of the ECE
    p_value: float  # of the test for errors anywhere on the scale
    adjusted_p: float  # Holm's, for the number of rows
    vague: bool  # too few samples to tell a gap of 5 points


@dataclass(frozen=True, kw_only=True)
class Fit:
    """Summary of a calibrator's fit."""

    converged: bool
    steps: int
    objective: str
    before: float
    after: float
    message: str
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Arm:
    """The predictions before calibration (``uncalibrated``) or after one calibrator."""

    name: str
    title: str
    parameters: Mapping[str, float | tuple[float, ...]]
    fit: Fit | None  # None for the uncalibrated one
    metrics: Mapping[str, Estimate]
    change: Mapping[str, Estimate]  # this arm minus the uncalibrated one, paired; empty for the latter
    null: tuple[NullError, ...]
    curves: tuple[Curve, ...]
    classes: tuple[ClassRow, ...]
    shapes: tuple[Shapes, ...] = ()
    groups: tuple[GroupRow, ...] = ()
    parts: tuple[Part, ...] = ()
    fitted: SkipJsonSchema[Annotated[Any, Field(exclude=True)]] = field(
        default=None, repr=False, compare=False
    )  # the calibrator, which no file holds

    @property
    def calibrator(self) -> Calibrator | None:
        """The calibrator fitted on all calibration samples; None for the uncalibrated predictions.

        Raises:
            InputError: If the evaluation was read from JSON, which holds no calibrators.
        """
        if self.fit is not None and self.fitted is None:
            raise InputError(
                "the calibrator is not in the file that this evaluation was read from; refit it, as "
                f"`calibrant.fit(predictions, method={self.name!r})`."
            )
        return self.fitted


@dataclass(frozen=True, kw_only=True)
class Detection:
    """Out-of-distribution detection by one arm's score."""

    name: str
    title: str
    metrics: Mapping[str, Estimate]  # auroc, aupr, aupr_in, fpr_at_95, fpr_at_95_in
    change: Mapping[str, Estimate]  # this arm minus the first one, paired; empty for the latter
    roc: RocCurve  # foreign samples positive; some of its points


@dataclass(frozen=True, kw_only=True)
class OutOfDistribution:
    """Detection of out-of-distribution samples among the test samples."""

    score: OutOfDistributionScore
    num_in: int
    num_out: int
    source: Source | None
    arms: tuple[Detection, ...]  # the first is the uncalibrated one
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Repair:
    """The recommended fit, from which ``calibrant.reports`` makes commands."""

    method: str  # text that the calibrator is built from
    file: str | None  # that holds the calibration samples; None: they came from memory
    all_rows: bool  # whether all of its rows are calibration samples; else those of its calibration split
    format: str  # of the predictions, in which new ones are expected
    space: Literal["logits", "probs", "confidence"]  # that the predictions are in
    by_group: bool = False  # whether each group gets a calibrator of its own


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer in plain words; ``headline`` is the first sentence a reader sees."""

    direction: Direction
    headline: str
    sentences: tuple[str, ...]
    recommended: str  # the name of an arm
    reason: str | None = None  # a sentence with the reason for that arm, or for none
    condition: str | None = None  # of the recommendation, such as "if the lower log loss matters"
    caution: str | None = None  # a sentence on side effects of the recommended arm
    repair: Repair | None = None  # None if no repair is recommended
    commands: tuple[str, ...] = ()  # that fit and apply the recommended arm; filled in by the command line
    warnings: tuple[str, ...] = ()  # likely mistakes in the data, to be read first
    short: str = ""  # the headline, in at most twelve words
    line: str = ""  # effect of the best repair and the remaining error, or the size of the error
    about: str | None = None  # the metric that the line names
    checks: tuple[Check, ...] = ()  # the tests before any repair


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Everything besides the data that determines the numbers."""

    num_bins: int
    bootstrap: int
    level: float  # of every interval, 0.95
    seed: int
    null_draws: int
    calibration: str  # origin of the calibration samples, in words
    calibrators: tuple[str, ...]
    intervals: Intervals = "inverted"
    metrics: tuple[str, ...] = ()  # those requested in addition to the default ones
    clusters: int | None = None  # number of resampled clusters; None: samples were resampled


@dataclass(frozen=True, kw_only=True)
class Coverage:
    """Measured coverage of an interval in simulated test sets, from the study `coverage`."""

    average: float  # of the cells' shares of sets, each cell counting alike
    lowest: float | None  # share of the sets of a cell (a size and a model); None if cells hold few sets
    highest: float | None
    cells: int
    sets: int  # in all cells together


@dataclass(frozen=True, kw_only=True)
class Coverages:
    """The coverage of every calibration error whose interval was measured, and of its change."""

    level: float  # that the intervals aim at
    values: Mapping[str, Coverage]
    changes: Mapping[str, Coverage]


@dataclass(frozen=True, kw_only=True)
class Evaluation(AsRows, AsJson):
    """Results for one set of predictions.

    Drawn by ``calibrant.reports``, written by :meth:`to_json`, read back by :meth:`from_json`.
    """

    schema_version: int
    kind: Kind
    num_classes: int | None
    class_names: tuple[str, ...] | None
    num_calibration: int
    num_test: int
    source: Source | None
    settings: Settings
    arms: tuple[Arm, ...]  # the first is the uncalibrated one
    verdict: Verdict
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    command: str | None
    out_of_distribution: OutOfDistribution | None = None
    coverage: Coverages | None = None  # None for intervals of another kind or level
    choice: Choice | None = None  # None without one

    def arm(self, name: str) -> Arm:
        """The arm called ``name``.

        Raises:
            InputError: If there is none.
        """
        return named(name, {arm.name: arm for arm in self.arms}, "arm")

    def __repr__(self) -> str:
        counts = [self.kind, f"{self.num_test:,} test samples"]
        if self.num_classes and self.kind != "binary":
            counts.insert(1, f"{self.num_classes:,} {'labels' if self.kind == 'multilabel' else 'classes'}")
        arms, said = ", ".join(arm.name for arm in self.arms), self.verdict.short or self.verdict.headline
        return f"Evaluation({', '.join(counts)}; arms: {arms})\n  {said}"

    def _repr_html_(self) -> str:
        return _reports("html").first_screen(self)

    @classmethod
    def from_json(cls, text: str) -> Evaluation:
        """Read the output of :meth:`to_json`, of this schema version or of version 2.

        Raises:
            InputError: If the text is not such JSON, or of another schema version.
        """
        try:
            evaluation = adapter_of(Evaluation).validate_json(upgraded(text))
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"]) or "the text"
            raise InputError(f"not a calibrant evaluation: at {where}: {first['msg']}.") from None
        if evaluation.schema_version != SCHEMA_VERSION:
            raise InputError(
                f"the evaluation has schema version {evaluation.schema_version}; "
                f"this calibrant reads {SCHEMA_VERSION}."
            )
        return evaluation

    @staticmethod
    def json_schema() -> dict[str, Any]:
        """The JSON Schema of the output of ``to_json``."""
        return adapter_of(Evaluation).json_schema()


@dataclass(frozen=True, kw_only=True)
class ComparedModel:
    """One of several models in a comparison."""

    name: str
    source: Source | None
    num_test: int
    metrics: Mapping[str, Estimate]
    difference: Mapping[str, Estimate]  # this model minus the first; empty for the first
    null: tuple[NullError, ...]
    curves: tuple[Curve, ...]
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Comparison(AsRows, AsJson):
    """Several models side by side; ``paired`` is true if their test samples are the same."""

    schema_version: int
    kind: Kind
    paired: bool
    settings: Settings
    models: tuple[ComparedModel, ...]
    verdict: str
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    command: str | None
    warnings: tuple[str, ...] = ()  # likely mistakes in the data, to be read first
    coverage: Coverages | None = None  # None for intervals of another kind or level
    short: str = ""  # the verdict in at most twelve words

    _rows_of: ClassVar[tuple[str, str, str]] = ("models", "model", "difference")

    def __repr__(self) -> str:
        counts = f"{self.models[0].num_test:,} test samples" if self.paired else "samples of their own"
        names = ", ".join(model.name for model in self.models)
        return f"Comparison({self.kind}, {counts}; models: {names})\n  {self.short or self.verdict}"


def upgraded(text: str) -> str:
    """Convert an evaluation of schema version 2 to version 3; leave any other text unchanged.

    In version 2 the rows of groups called the rate ``accuracy`` and the mean prediction ``mean_confidence``,
    and their p-value was that of the calibration error.
    """
    try:
        data = json.loads(text)
    except ValueError:  # which the reader reports
        return text
    if not isinstance(data, dict) or data.get("schema_version") != 2:
        return text
    for row in (row for arm in data.get("arms", ()) for row in arm.get("groups", ())):
        for old, new in (("accuracy", "actual"), ("mean_confidence", "predicted")):
            if old in row:
                row[new] = row.pop(old)
        row.setdefault("p_value", row.get("null", {}).get("p_value"))
    return json.dumps(data | {"schema_version": 3})
