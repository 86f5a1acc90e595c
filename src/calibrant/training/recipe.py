"""What to train, as validated data; read from TOML, written back in full."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest, parse_call

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
Size = Annotated[int, Field(ge=0)] | Annotated[float, Field(ge=0, lt=1)]


class _Section(BaseModel):
    """A table of a recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class DataSection(_Section):
    """What to train on."""

    name: str = "digits"
    """A named set, the path of an ``.npz`` file, or of a folder of images."""
    calibration: Size = 0.1
    """Training samples (a share if below 1) held out where the data bring no such split."""
    test: Size = 0.2
    """The same for the test split."""
    policy: Size = 0
    """The same for a split that drives AdaFocal; 0: it is driven by the calibration split."""
    train: Annotated[int, Field(ge=0)] = 0
    """Keep only so many training samples; 0: all."""
    imbalance: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 1.0
    """Ratio of the first class's training samples to the last one's; 1: as they are."""
    downsample: Count = 1
    """Shrink images by this factor."""
    normalise: Literal["train", "none", "given"] = "train"
    """With the training samples' mean and deviation, not at all, or with ``mean`` and ``std``."""
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    augment: tuple[str, ...] = ()
    """Random changes to training images: ``crop(padding=4)``, ``flip``."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Decides which samples go into which split; apart from the seed of the training."""


class OptimiserSection(_Section):
    """How the weights are changed."""

    name: Literal["sgd", "adam", "adamw"] = "sgd"
    learning_rate: Positive = 0.1
    weight_decay: NotNegative = 0.0
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Of sgd."""
    nesterov: bool = False
    """Of sgd."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.999)
    """Of adam and adamw."""
    clip_norm: NotNegative = 0.0
    """Gradients longer than this are scaled down to it; 0: never."""

    @model_validator(mode="after")
    def _nesterov_needs_momentum(self) -> OptimiserSection:
        if self.nesterov and (self.name != "sgd" or self.momentum == 0):
            raise ValueError("`nesterov` goes with sgd and a momentum above 0")
        return self


class ScheduleSection(_Section):
    """What becomes of the learning rate, from epoch to epoch."""

    name: Literal["constant", "steps", "cosine"] = "constant"
    milestones: tuple[Count, ...] = ()
    """Of steps: epochs (completed) after which the rate is multiplied by ``factor``."""
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Of steps."""
    floor: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Of cosine: share of the rate that is left in the end."""
    warmup: Annotated[int, Field(ge=0)] = 0
    """Epochs in which the rate rises to its full value."""

    @model_validator(mode="after")
    def _milestones_rise(self) -> ScheduleSection:
        if (self.name == "steps") != bool(self.milestones):
            raise ValueError("`milestones` must be given for steps, and only there")
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError(f"`milestones` must rise; got {list(self.milestones)}")
        return self


class TrainingSection(_Section):
    """The loop."""

    epochs: Count = 20
    batch_size: Annotated[int, Field(ge=2)] = 128
    """Of all processes together."""
    class_weights: Literal["none", "balanced"] = "none"
    """Whether the loss weights classes by the inverse of their frequency (alpha)."""
    patience: Annotated[int, Field(ge=0)] = 0
    """Stop when so many epochs brought no lower calibration NLL after temperature scaling; 0: never."""
    keep: Literal["last", "best"] = "last"
    """Whose weights are judged: the last epoch's, or those of the lowest such NLL."""
    precision: Literal["32-true", "64-true", "16-mixed", "bf16-mixed", "bf16-true"] = "32-true"


class HardwareSection(_Section):
    """Where it runs; a run may go on elsewhere, though bits are promised on one CPU only."""

    accelerator: Literal["auto", "cpu", "gpu", "cuda", "mps"] = "auto"
    devices: Count = 1
    """Processes on this machine, one for each device."""
    nodes: Count = 1
    strategy: Literal["auto", "ddp", "ddp_spawn"] = "auto"
    """How several processes come about; auto: spawned on one machine, ddp on several."""
    threads: Annotated[int, Field(ge=0)] = 0
    """Of each process, on a CPU; 0: as torch has it. Small networks are fastest with one."""
    compile: bool = False
    """Compile the network with ``torch.compile``."""
    channels_last: bool = False
    """Memory layout of images that some GPUs prefer."""
    resident: bool = True
    """Hold the data on the device."""


class RecordSection(_Section):
    """What is recorded beside the usual."""

    dynamics: bool = False
    """Likelihood, entropy, errors and more on the train and test split, as in Mukhoti et al. (2020)."""
    every: Count = 1
    """Record dynamics after every so many epochs."""
    epochs: tuple[Count, ...] = ()
    """Epochs whose reliability and gradient norms are recorded; without any, four of equal distance."""


class EvaluationSection(_Section):
    """How the finished run is judged."""

    calibrators: tuple[str, ...] = ()
    """Such as ``temperature``; without any, those that suit the predictions."""
    bootstrap: Annotated[int, Field(ge=2)] = 1000
    num_bins: Count = 15
    batch_size: Count = 512
    """Samples at a time where nothing is learned."""
    out_of_distribution: str = ""
    """Data of another kind, named as in ``data.name``: how well are they told from the test samples?"""


class Recipe(_Section):
    """What to train: data, network, loss, optimiser, schedule and seed.

    Everything has a default; the tables are described by the classes of their names.

    Example:
        >>> Recipe.read({"loss": "focal(gamma=3)", "training": {"epochs": 5}}).training.epochs
        5
        >>> Recipe.read({"training": {"epoch": 5}})
        Traceback (most recent call last):
        calibrant._math.errors.InputError: recipe: there is no setting training.epoch; did you mean 'epochs'?
    """

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of the initial weights, the order of the samples and everything random in training."""
    model: str = "mlp"
    """As ``calibrant.models.build`` takes it, or ``module:factory``."""
    loss: str = "cross-entropy"
    """As ``calibrant.losses.build`` takes it, or ``module:factory``."""
    reduction: Literal["mean", "sum"] = "mean"
    """Of the loss over a batch; the sum is the batch size times the mean."""
    data: DataSection = DataSection()
    optimiser: OptimiserSection = OptimiserSection()
    schedule: ScheduleSection = ScheduleSection()
    training: TrainingSection = TrainingSection()
    hardware: HardwareSection = HardwareSection()
    record: RecordSection = RecordSection()
    evaluation: EvaluationSection = EvaluationSection()

    @field_validator("loss")
    @classmethod
    def _reduction_has_its_own_setting(cls, loss: str) -> str:
        if ":" not in loss and "reduction" in parse_call(loss)[1]:
            raise ValueError("`loss` must leave `reduction` to the recipe's own setting of that name")
        return loss

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
        """The recipe with some settings changed, each given as ``training.epochs=5`` or ``seed=1``.

        Raises:
            InputError: If one has another form, is unknown or has a value that it cannot have.

        Example:
            >>> Recipe().with_settings(["optimiser.name=adam", "training.epochs=3"]).optimiser.name
            'adam'
        """
        content = self.model_dump()
        for setting in settings:
            key, equals, value = setting.partition("=")
            if not equals or not key.strip():
                raise InputError(f"--set must have the form section.key=value; got {setting!r}.")
            *sections, last = key.strip().split(".")
            table: Any = content
            for section in sections:
                if not isinstance(table.get(section), dict):
                    tables = [name for name, entry in content.items() if isinstance(entry, dict)]
                    raise InputError(
                        f"--set {setting}: there is no table {section!r}{nearest(section, tables)}"
                    )
                table = table[section]
            table[last] = _value(value.strip())
        return Recipe.read(content, source="--set" if settings else "recipe")

    def to_toml(self) -> str:
        """Every setting, also those left at their defaults, as TOML."""
        content = self.model_dump(mode="json")
        tables = {name: entry for name, entry in content.items() if isinstance(entry, dict)}
        lines = [_line(name, entry) for name, entry in content.items() if name not in tables]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(_line(key, value) for key, value in table.items())]
        return "\n".join(lines) + "\n"

    def settings(self) -> dict[str, Any]:
        """Every setting by its full name, as in ``training.epochs``."""
        return _flat(self.model_dump(mode="json"))

    def same_training(self, other: Recipe) -> bool:
        """Whether both make the same network: equal but for the hardware and the judgement."""
        return not self.differences(other)

    def differences(self, other: Recipe) -> list[str]:
        """What keeps two recipes from making the same run, as ``loss: 'a' there, 'b' here``."""
        mine, theirs = self.settings(), other.settings()
        return [
            f"{key}: {theirs[key]!r} there, {mine[key]!r} here"
            for key in mine
            if mine[key] != theirs[key] and key.partition(".")[0] not in {"hardware", "evaluation"}
        ]


def load_recipe(path: str | os.PathLike[str]) -> Recipe:
    """Read a recipe from a TOML file.

    Raises:
        InputError: If it is no TOML, or a setting is unknown or has a value that it cannot have.
        OSError: If the file cannot be read.
    """
    try:
        content = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is no TOML file: {error}.") from error
    return Recipe.read(content, source=str(path))


def _flat(content: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, entry in content.items():
        if isinstance(entry, dict):
            flat |= {f"{name}.{key}": value for key, value in entry.items()}
        else:
            flat[name] = entry
    return flat


def _value(text: str) -> Any:
    """A TOML value, or, where it is none, the text itself."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _line(name: str, value: object) -> str:
    """``name = value`` in TOML, whose strings, numbers and lists are JSON's but for the escape of DEL."""
    return f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")


def _sentence(error: ValidationError, content: Mapping[str, Any]) -> str:
    """The first thing wrong, in one sentence; unknown settings come first."""
    errors = error.errors(include_url=False)
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    # A union's branches and a list's positions are pydantic's affair.
    known = _settings(Recipe)
    path = [str(part) for part in first["loc"]]
    if first["type"] == "extra_forbidden":
        names = known.get(path[0], list(known)) if len(path) > 1 else list(known)
        return f"there is no setting {'.'.join(path)}{nearest(path[-1], names or list(known))}"
    path = path[: 2 if known.get(path[0] if path else "") else 1] if path else []
    reason = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return f"{'.'.join(path) + ': ' if path else ''}{reason.rstrip('.')}."
    given: Any = content
    for key in path:
        given = given[key] if isinstance(given, Mapping) and key in given else None
    return f"{'.'.join(path) or 'it'} is {given!r}, but {reason[:1].lower()}{reason[1:]}."


def _settings(section: type[BaseModel]) -> dict[str, list[str]]:
    """The settings of a recipe, with those inside each table."""
    inside: dict[str, list[str]] = {}
    for name, field in section.model_fields.items():
        kinds = [field.annotation, *get_args(field.annotation)]
        tables = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, _Section)]
        inside[name] = list(tables[0].model_fields) if tables else []
    return inside
