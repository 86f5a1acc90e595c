"""Recipes: validated settings, read from TOML, written in full, scaled to a small budget."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest, parse_call
from calibrant_lab.training.recipe_files import file_on_shelf, flat, merged, read_content, toml_value

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Size = Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0, lt=1)]


class Section(BaseModel):
    """A table of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    @field_validator("*", mode="before")
    @classmethod
    def _true_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        several = value if isinstance(value, list | tuple) else (value,)
        if cls.model_fields[str(info.field_name)].annotation is bool:
            return value
        if any(isinstance(each, bool) for each in several):
            raise ValueError(f"`{info.field_name}` must not be true or false; give a value of its kind")
        return value


class DataSection(Section):
    """Training data."""

    name: str = "digits"
    """A named set, the path of an ``.npz`` file, or of a folder of images or texts, or ``module:factory``."""
    calibration: Size = 0.1
    """Training samples (a share if below 1) held out where the data have no such split."""
    test: Size = 0.2
    """Test samples, counted likewise."""
    policy: Size = 0
    """Samples of a split that drives AdaFocal, counted likewise; 0: the calibration split drives it."""
    train: Annotated[int, Field(ge=0)] = 0
    """Keep only this many training samples; 0: all."""
    imbalance: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    """Ratio of the first class's training samples to the last one's; 1: as they are."""
    downsample: Count = 1
    """Shrink images by this factor."""
    size: Annotated[int, Field(ge=0)] = 0
    """Scale images to N × N pixels when they are decoded; 0: off."""
    channels: Literal[0, 1, 3] = 0
    """Make images grey (1) or coloured (3); 0: as they are."""
    crop: Annotated[int, Field(ge=0)] = 0
    """The network sees squares of N × N pixels: random ones in training, the middle one or those of
    ``evaluation.views`` otherwise; 0: whole images."""
    memory: Positive = 4.0
    """Gigabytes up to which a split of images is decoded at once; larger ones are decoded as needed."""
    normalise: Literal["train", "none", "given"] = "train"
    """Standardise by the training samples, not at all, or by ``mean`` and ``std``."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    vectors: str = ""
    """For texts and trees: a file of word vectors, as GloVe comes or ``.npz``; its path, or its place inside
    the folder ``CALIBRANT_DATA``. If empty, no word has one."""
    augment: tuple[str, ...] = ()
    """Random changes to training images: ``crop(padding=4)``, ``flip``, and, where ``crop`` is given,
    ``resized-crop(area=(0.08, 1.0))``."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides which samples go into which split; independent of the seed of the training."""


_RATES = {"sgd": 0.1, "adagrad": 0.01, "adam": 0.001, "adamw": 0.001}


class InitialSection(Section):
    """The weights to begin with."""

    weights: str = ""
    """A file that gives them by name: its path, or its place inside the folder ``CALIBRANT_DATA``. If empty,
    the seed draws them."""
    skip: tuple[str, ...] = ()
    """Parameters or modules that the seed draws all the same, such as the last layer for other classes."""

    @model_validator(mode="after")
    def _something_is_skipped(self) -> InitialSection:
        if self.skip and not self.weights:
            raise ValueError("`skip` goes with `weights`")
        return self


class OptimiserSection(Section):
    """Updates of the weights."""

    name: Literal["sgd", "adam", "adamw", "adagrad"] = "sgd"
    learning_rate: Positive = Field(default_factory=lambda known: _RATES[known.get("name", "sgd")])
    """If it is not given: 0.1 for sgd, 0.01 for adagrad, 0.001 for adam and adamw."""
    weight_decay: NotNegative = 0.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """For sgd."""
    nesterov: bool = False
    """For sgd."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """For adam and adamw."""
    plain: tuple[str, ...] = ()
    """Parameters or modules, such as ``words``, that plain gradient descent updates instead, without weight
    decay."""
    plain_rate: Positive = 0.1
    """Learning rate of plain gradient descent, on the same schedule."""
    clip_norm: NotNegative = 0.0
    """Gradients longer than this are scaled down to it; 0: never. Otherwise every epoch records the mean
    length before that (``gradient_norm``), penalties and the step aside of SAM included, and the share of
    samples whose batch was scaled down (``clipped``)."""

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> OptimiserSection:
        if self.nesterov and (self.name != "sgd" or self.momentum == 0):
            raise ValueError("`nesterov` goes with sgd and a momentum above 0")
        return self


class ScheduleSection(Section):
    """Learning rate by epoch."""

    name: Literal["constant", "steps", "cosine", "plateau"] = "constant"
    milestones: tuple[Count, ...] = ()
    """For steps: completed epochs after which the rate is multiplied by ``factor``."""
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """For steps and plateau."""
    patience: Annotated[int, Field(ge=0)] = 5
    """For plateau: the rate is multiplied by ``factor`` after more epochs than this without a calibration NLL
    that is lower by 1e-4 of it, as torch's ``ReduceLROnPlateau`` does."""
    floor: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """For cosine: share of the rate that is left at the end."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Epochs in which the rate rises to its full value."""

    @model_validator(mode="after")
    def _milestones_rise(self) -> ScheduleSection:
        if (self.name == "steps") != bool(self.milestones):
            raise ValueError("`milestones` must be given for steps, and only there")
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"`milestones` must rise; got {list(self.milestones)}")
        return self


class CurvatureSection(Section):
    """Lower the trace of the loss's Hessian too; see :class:`calibrant.curvature.CurvatureRegularizer`."""

    weight: NotNegative = 0.0
    """Weight of the trace beside the loss; 0: the loss alone."""
    estimator: Literal["hutchinson", "gauss-newton", "last-layer"] = "hutchinson"
    """Trace of the Hessian by a random vector, of the Gauss-Newton matrix, or of the last layer's block."""
    every: Count = 1
    """Penalise one of N batches, N times as strongly."""
    num_probes: Count = 1
    """Random vectors per batch, for hutchinson and gauss-newton."""
    negative: Literal["keep", "clip"] = "keep"
    """Keep a negative estimate, or count it as zero."""
    parameters: tuple[str, ...] = ()
    """Names of the parameters or modules that are penalised; if empty, all."""


class SAMSection(Section):
    """Sharpness-aware minimisation around the optimiser; see :class:`calibrant.curvature.SAM`."""

    rho: NotNegative = 0.0
    """Length of the step to the worst nearby point, 0.05 in the paper; 0: the optimiser alone."""


class TrainingSection(Section):
    """The loop."""

    epochs: Count = 20
    batch_size: Annotated[int, Field(ge=2)] = 128
    """Counted over all processes."""
    class_weights: Literal["none", "balanced"] = "none"
    """Weight classes by the inverse of their frequency (alpha); with several labels per sample, both answers
    of each label, as CheXNet does."""
    drop_last: bool = False
    """Leave out the last batch of an epoch where it is smaller than the others."""
    patience: Annotated[int, Field(ge=0)] = 0
    """Stop after this many epochs without a better one; 0: never."""
    keep: Literal["last", "best"] = "last"
    """Evaluate the weights of the last or of the best epoch."""
    keep_by: Literal["nll", "nll-as-trained", "loss", "accuracy"] = "nll"
    """Criterion of the best epoch on the calibration split; the first of ties.

    ``nll``: lowest NLL after temperature scaling ("refine, then calibrate", arXiv 2501.19195).
    ``nll-as-trained``: lowest NLL without a temperature. ``loss``: lowest training loss.
    ``accuracy``: highest accuracy.
    """
    precision: Literal["32-true", "64-true", "16-mixed", "bf16-mixed", "bf16-true"] = "32-true"


class HardwareSection(Section):
    """Hardware; a run can be resumed elsewhere, but only a single CPU guarantees equal bits."""

    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    devices: Count = 1
    """Processes on this machine, one for each device."""
    nodes: Count = 1
    strategy: Literal["auto", "ddp", "ddp_spawn"] = "auto"
    """Start of several processes; auto: spawned on one machine, ddp on several."""
    threads: Annotated[int, Field(ge=0)] = 0
    """Per process, on a CPU; 0: torch's default. Small networks are fastest with one."""
    compile: bool = False
    """Compile the network with ``torch.compile``; on one device, each size of batch is checked once for the
    right gradients, which not every version gives."""
    channels_last: bool = False
    """Memory layout of images that some GPUs prefer."""
    resident: bool = True
    """Keep the data on the device."""


class RecordSection(Section):
    """Additional records."""

    dynamics: bool = False
    """Likelihood, entropy, errors and more on the train and test split, as in Mukhoti et al. (2020). On the
    calibration split they are recorded in any case."""
    every: Count = 1
    """Record dynamics every N epochs."""
    samples: Annotated[int, Field(ge=0)] = 0
    """Number of training samples to record, evenly spaced; 0: all."""
    epochs: tuple[Count, ...] = ()
    """Epochs whose reliability and gradient norms are recorded; if empty, four evenly spaced ones."""


class ShiftSection(Section):
    """Evaluation of the finished run on corrupted test images (Hendrycks and Dietterich, 2019)."""

    corruption: str | tuple[str, ...] = ()
    """Such as ``gaussian-noise``, or several, or ``all`` fifteen; if empty, none."""
    severities: tuple[Annotated[int, Field(ge=1, le=5)], ...] = (1, 2, 3, 4, 5)
    name: str = ""
    """``cifar10-c`` or ``cifar100-c`` for the published images; if empty, test images are corrupted."""
    samples: Annotated[int, Field(ge=0)] = 0
    """Take only N images, evenly spaced; 0: all."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides the random numbers of corruptions that are computed."""


class ForeignSection(Section):
    """Samples of another kind, to be told from the test samples."""

    name: str = ""
    """Out-of-distribution data, named as in ``data.name``; if empty, none."""


class EvaluationSection(Section):
    """Evaluation of the finished run."""

    calibrators: tuple[str, ...] = ()
    """Such as ``temperature``; if empty, those that suit the predictions."""
    bootstrap: Annotated[int, Field(ge=2)] = 1000
    num_bins: Count = 15
    batch_size: Count = 512
    """Batch size where nothing is learned."""
    views: Literal["one", "ten-crop"] = "one"
    """Views of calibration and test images for the finished network: one, or the corners and the middle with
    their mirror images (see ``data.crop``). Logits of the averaged probabilities are stored and calibrated.
    Metrics after each epoch use one view."""
    heat_maps: Annotated[int, Field(ge=0)] = 0
    """Grad-CAM maps of N test images, as files and in the report; needs the extra ``heat-maps``."""
    curvature: Annotated[int, Field(ge=0)] = 0
    """Measure the largest eigenvalue and the trace of the Hessian on N training samples; 0: off."""
    sst_binary: Literal["renormalised", "struck"] = "renormalised"
    """For networks that learn a neutral class beside the two: whether the two are renormalised, or the
    neutral one is struck out and what is left need not sum to one; the report shows both."""


NUMBERS = 1
"""Raised by one whenever the same recipe gives other numbers than before.

Stores of runs know a run by its recipe, its data and this number: raising it makes every stored run one of an
older version, which is kept but no longer counts as done. ``tests/training/test_version.py`` compares the
numbers of small recipes with committed ones, so that no change goes unnoticed.
"""


WITHOUT_EFFECT = frozenset({"hardware", "evaluation", "shift", "foreign"})
"""Tables that do not change what is trained."""


class Recipe(Section):
    """Settings of a training: data, network, loss, optimiser, schedule and seed.

    Everything has a default; the tables are described by the classes of their names.

    Example:
        >>> Recipe.read({"loss": "focal(gamma=3)", "training": {"epochs": 5}}).training.epochs
        5
        >>> Recipe.read({"training": {"epoch": 5}})
        Traceback (most recent call last):
        calibrant._math.errors.InputError: recipe: there is no setting training.epoch; did you mean 'epochs'?
    """

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Random seed of the initial weights, the order of the samples and all else in training."""
    model: str = "mlp"
    """Network for ``calibrant_lab.models.build``, or ``module:factory``."""
    loss: str = "cross-entropy"
    """Loss for ``calibrant.losses.build``, or ``module:factory``."""
    reduction: Literal["mean", "sum", "per-sample"] = "mean"
    """Reduction of the loss over a batch; the sum is the batch size times the mean. If a sample has many
    labels, such as the nodes of a tree, per-sample sums over them and averages over the samples."""
    data: DataSection = DataSection()
    initial: InitialSection = InitialSection()
    optimiser: OptimiserSection = OptimiserSection()
    schedule: ScheduleSection = ScheduleSection()
    curvature: CurvatureSection = CurvatureSection()
    sam: SAMSection = SAMSection()
    training: TrainingSection = TrainingSection()
    hardware: HardwareSection = HardwareSection()
    record: RecordSection = RecordSection()
    evaluation: EvaluationSection = EvaluationSection()
    shift: ShiftSection = ShiftSection()
    foreign: ForeignSection = ForeignSection()
    small: dict[str, Any] | None = None
    """Settings that take the place of the others where the budget is small."""
    full: dict[str, Any] | None = None
    """Settings whose place they took, in a recipe that was scaled to a small budget."""

    @field_validator("loss")
    @classmethod
    def _reduction_has_its_own_setting(cls, loss: str) -> str:
        if ":" not in loss and "reduction" in parse_call(loss)[1]:
            raise ValueError("`loss` must leave `reduction` to the recipe's own setting of that name")
        return loss

    @model_validator(mode="after")
    def _settings_go_together(self) -> Recipe:
        penalised, precision = self.curvature.weight > 0, self.training.precision
        if self.evaluation.sst_binary == "struck" and (self.evaluation.calibrators or self.foreign.name):
            raise ValueError(
                "`evaluation.sst_binary` struck gives confidences, which go with neither "
                "`evaluation.calibrators` nor `foreign.name`"
            )
        if self.evaluation.views != "one" and not self.data.crop:
            raise ValueError("`evaluation.views` ten-crop needs `data.crop`, the side of the squares")
        if penalised and self.sam.rho > 0:
            raise ValueError("`curvature.weight` and `sam.rho` exclude each other; set one of them to 0")
        if penalised and self.hardware.compile:
            raise ValueError("`hardware.compile` must be false where `curvature.weight` is above 0")
        if penalised and precision.endswith("mixed"):
            raise ValueError(f"`training.precision` {precision} does not go with `curvature.weight` above 0")
        if self.sam.rho > 0 and precision == "16-mixed":
            raise ValueError(f"`training.precision` {precision} does not go with `sam.rho` above 0")
        return self

    @model_validator(mode="after")
    def _small_is_a_recipe_too(self) -> Recipe:
        if self.small is not None:
            content = self.model_dump(exclude={"small", "full"})
            Recipe.read(merged(content, self.small), source="[small]")
        return self

    @classmethod
    def read(cls, content: Mapping[str, Any], *, source: str = "recipe") -> Recipe:
        """Validate ``content``; ``source`` is named in messages.

        Raises:
            InputError: If a setting is unknown or has a value that it cannot have.
        """
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            raise InputError(f"{source}: {_sentence(error, content)}") from None

    def with_settings(self, settings: Sequence[str]) -> Recipe:
        """Return the recipe with changes such as ``training.epochs=5`` or ``seed=1``.

        A default that follows from another setting, as the learning rate does from the optimiser, follows it.

        Raises:
            InputError: If one has another form, is unknown or has a value that it cannot have.

        Example:
            >>> Recipe().with_settings(["optimiser.name=adam", "training.epochs=3"]).optimiser.name
            'adam'
        """
        tables_of = {name for name, entry in self.model_dump().items() if isinstance(entry, dict)}
        content = {name: {} for name in tables_of} | self.model_dump(exclude_unset=True)
        for setting in settings:
            key, equals, value = setting.partition("=")
            if not equals or not key.strip():
                raise InputError(f"--set must have the form section.key=value; got {setting!r}.")
            *tables, last = key.strip().split(".")
            table: Any = content
            for name in tables:
                if not isinstance(table.get(name), dict):
                    remedy = nearest(name, sorted(tables_of))
                    raise InputError(f"--set {setting}: there is no table {name!r}{remedy}")
                table = table[name]
            table[last] = toml_value(value.strip())
        return Recipe.read(content, source="--set" if settings else "recipe")

    def to_toml(self) -> str:
        """Return all settings, with defaults, as TOML."""
        content = self.model_dump(mode="json", exclude_none=True)
        tables = {name: entry for name, entry in content.items() if isinstance(entry, dict)}
        lines = [_line(name, entry) for name, entry in content.items() if name not in tables]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(_line(key, value) for key, value in flat(table).items())]
        return "\n".join(lines) + "\n"

    def settings(self) -> dict[str, Any]:
        """Return all settings by full name, such as ``training.epochs``."""
        return flat(self.model_dump(mode="json", exclude={"small", "full"}))

    def differences(self, other: Recipe) -> list[str]:
        """Return the settings that differ between two runs, as ``loss: 'a' there, 'b' here``.

        Hardware and evaluation settings do not count.
        """
        mine, theirs = self.settings(), other.settings()
        return [
            f"{key}: {theirs[key]!r} there, {mine[key]!r} here"
            for key in mine
            if mine[key] != theirs[key] and key.partition(".")[0] not in WITHOUT_EFFECT
        ]

    def judges_otherwise(self, other: Recipe) -> bool:
        """Return True if the results of a trained network would differ."""
        sections = {*WITHOUT_EFFECT} - {"hardware"}
        return self.model_dump(include=sections) != other.model_dump(include=sections)


def load_recipe(path: str | os.PathLike[str]) -> Recipe:
    """Read a recipe from a TOML file, or a bundled one by name.

    A file can begin with ``extends = "base.toml"``, a path relative to it; its settings then override those
    of that recipe, which can extend a third.

    Raises:
        InputError: If it is not TOML, sets nothing, there is no recipe of that name, or a setting is unknown
            or has a value that it cannot have.
        OSError: If the file cannot be read.

    Example:
        >>> load_recipe("digits").data.name
        'digits'
    """
    file = file_on_shelf(Path(path))
    content = read_content(file)
    if not content:
        raise InputError(
            f"{path} sets nothing; a recipe must at least say what to train on, such as `data.name`."
        )
    return Recipe.read(content, source=str(path))


def _line(name: str, value: object) -> str:
    """Return ``name = value`` in TOML, which matches JSON except for the escape of DEL."""
    return f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")


def _sentence(error: ValidationError, content: Mapping[str, Any]) -> str:
    """Report the first error in one sentence; unknown settings come first."""
    errors = error.errors(include_url=False)
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    known = {
        name: list(getattr(field.annotation, "model_fields", ()))
        for name, field in Recipe.model_fields.items()
    }
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        names = known.get(path[0], list(known)) if len(path) > 1 else list(known)
        return f"there is no setting {'.'.join(path)}{nearest(path[-1], names or list(known))}"
    # A union's branches and a list's positions are pydantic's affair.
    path = path[: 2 if known.get(path[0] if path else "") else 1] if path else []
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        end = "" if reason.endswith(("?", ".")) else "."
        return f"{'.'.join(path) + ': ' if path else ''}{reason}{end}"
    given: Any = content
    for key in path:
        given = given[key] if isinstance(given, Mapping) and key in given else None
    return f"{'.'.join(path) or 'it'} is {given!r}, but {reason[:1].lower()}{reason[1:]}."


Budget: TypeAlias = Literal["full", "small"]


def at_budget(recipe: Recipe, budget: Budget) -> Recipe:
    """Return the recipe at a budget; ``small`` overrides settings, kept in ``full``.

    Raises:
        InputError: If the recipe does not say what a small budget replaces.

    Example:
        >>> recipe = Recipe.read({"training": {"epochs": 350}, "small": {"training": {"epochs": 4}}})
        >>> budget_note(at_budget(recipe, "small"))
        'small budget: training.epochs 350 → 4'
    """
    if budget == "full" or recipe.full is not None:
        return recipe
    if recipe.small is None:
        raise InputError(
            "a small budget needs a recipe that says what it replaces: a table [small] with settings such as "
            "training.epochs = 4, or an empty one if the recipe is small already."
        )
    content = recipe.model_dump(mode="json", exclude={"small", "full"})
    return Recipe.read({**merged(content, recipe.small), "full": _replaced(content, recipe.small)})


def settings_at(recipe: Recipe, budget: Budget) -> dict[str, Any]:
    """Return the settings at a budget by full name, with replaced ones below ``full``."""
    scaled = at_budget(recipe, budget)
    return {**scaled.settings(), **flat({"full": scaled.full or {}})}


def budget_note(recipe: Recipe) -> str | None:
    """Describe a small budget's replacements; return None for the full recipe."""
    if recipe.full is None:
        return None
    now = recipe.settings()
    changes = [
        f"{key} {before!r} → {now[key]!r}" for key, before in flat(recipe.full).items() if before != now[key]
    ]
    return f"small budget: {', '.join(changes)}" if changes else None


def _replaced(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _replaced(content[name], value) if isinstance(value, dict) else content[name]
        for name, value in changes.items()
    }
