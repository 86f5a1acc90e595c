"""What to train, as validated data; read from TOML, written back in full, scaled to a small budget."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, ValidationError, field_validator, model_validator

from calibrant._math.errors import InputError
from calibrant._math.text_form import nearest, parse_call
from calibrant_lab.training import recipe_sections as sections
from calibrant_lab.training.recipe_files import file_on_shelf, flat, merged, read_content, toml_value

NUMBERS = 1
"""Raised by one whenever the same recipe gives other numbers than before.

Stores of runs know a run by its recipe, its data and this number: raising it makes every stored run one of an
older version, which is kept but no longer counts as done. ``tests/training/test_version.py`` compares the
numbers of small recipes with committed ones, so that no change goes unnoticed.
"""


WITHOUT_EFFECT = frozenset({"hardware", "evaluation", "shift", "foreign"})
"""Tables that do not change what is trained."""


class Recipe(sections.Section):
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
    """Random seed of the initial weights, the order of the samples and all else in training."""
    model: str = "mlp"
    """As ``calibrant_lab.models.build`` takes it, or ``module:factory``."""
    loss: str = "cross-entropy"
    """As ``calibrant.losses.build`` takes it, or ``module:factory``."""
    reduction: Literal["mean", "sum", "per-sample"] = "mean"
    """How the loss is reduced over a batch; the sum is the batch size times the mean. Where a sample has many
    labels, as a tree has in its nodes, per-sample sums over them and averages over the samples."""
    data: sections.DataSection = sections.DataSection()
    initial: sections.InitialSection = sections.InitialSection()
    optimiser: sections.OptimiserSection = sections.OptimiserSection()
    schedule: sections.ScheduleSection = sections.ScheduleSection()
    curvature: sections.CurvatureSection = sections.CurvatureSection()
    sam: sections.SAMSection = sections.SAMSection()
    training: sections.TrainingSection = sections.TrainingSection()
    hardware: sections.HardwareSection = sections.HardwareSection()
    record: sections.RecordSection = sections.RecordSection()
    evaluation: sections.EvaluationSection = sections.EvaluationSection()
    shift: sections.ShiftSection = sections.ShiftSection()
    foreign: sections.ForeignSection = sections.ForeignSection()
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
        one, other = self.foreign.name, self.evaluation.out_of_distribution
        penalised, precision = self.curvature.weight > 0, self.training.precision
        if one and other and one != other:
            raise ValueError(
                f"`foreign.name` and `evaluation.out_of_distribution` must agree; got {one!r} and {other!r}"
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

    @property
    def foreign_name(self) -> str:
        """The name of the samples of another kind; empty where there are none."""
        return self.foreign.name or self.evaluation.out_of_distribution

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
        """The recipe with some settings changed, given as ``training.epochs=5`` or ``seed=1``.

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
        """Every setting, also those left at their defaults, as TOML."""
        content = self.model_dump(mode="json", exclude_none=True)
        tables = {name: entry for name, entry in content.items() if isinstance(entry, dict)}
        lines = [_line(name, entry) for name, entry in content.items() if name not in tables]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(_line(key, value) for key, value in flat(table).items())]
        return "\n".join(lines) + "\n"

    def settings(self) -> dict[str, Any]:
        """Every setting by its full name, as in ``training.epochs``."""
        return flat(self.model_dump(mode="json", exclude={"small", "full"}))

    def differences(self, other: Recipe) -> list[str]:
        """The settings that make two recipes different runs, as ``loss: 'a' there, 'b' here``.

        Hardware, and what is evaluated in the end, make none.
        """
        mine, theirs = self.settings(), other.settings()
        return [
            f"{key}: {theirs[key]!r} there, {mine[key]!r} here"
            for key in mine
            if mine[key] != theirs[key] and key.partition(".")[0] not in WITHOUT_EFFECT
        ]


def load_recipe(path: str | os.PathLike[str]) -> Recipe:
    """Read a recipe from a TOML file, or one that comes with calibrant by its name.

    A file may begin with ``extends = "base.toml"``, a path relative to it; its settings then stand over those
    of that recipe, which may extend a third.

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
    """``name = value`` in TOML, whose strings, numbers and lists are JSON's but for the escape of DEL."""
    return f"{name} = {json.dumps(value, ensure_ascii=False)}".replace("\x7f", "\\u007f")


def _sentence(error: ValidationError, content: Mapping[str, Any]) -> str:
    """The first thing wrong, in one sentence; unknown settings come first."""
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
    """The recipe as it is, or with the settings of its table ``small``; ``full`` keeps what they replace.

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
    """The settings at a budget by their full names, and below ``full`` those that it replaced."""
    scaled = at_budget(recipe, budget)
    return {**scaled.settings(), **flat({"full": scaled.full or {}})}


def budget_note(recipe: Recipe) -> str | None:
    """What a small budget replaced, in a few words; None where the recipe is carried out in full."""
    if recipe.full is None:
        return None
    now = recipe.settings()
    changes = [
        f"{key} {before!r} → {now[key]!r}" for key, before in flat(recipe.full).items() if before != now[key]
    ]
    return f"small budget: {', '.join(changes)}" if changes else None


def _replaced(content: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of ``content`` that ``changes`` replaces."""
    return {
        name: _replaced(content[name], value) if isinstance(value, dict) else content[name]
        for name, value in changes.items()
    }
