"""Recipes: read, validated, changed and written back."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from calibrant._math.errors import InputError
from calibrant_lab.training import Recipe, load_recipe
from calibrant_lab.training.recipe_files import shelf

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_is_valid_and_survives_being_written(path) -> None:
    """What is written holds every setting and reads back as the same recipe."""
    recipe = load_recipe(path)
    written = recipe.to_toml()
    assert Recipe.read(tomllib.loads(written)) == recipe
    assert all(
        f"\n{name} = " in f"\n{written}" for name in ("seed", "betas", "patience", "devices", "bootstrap")
    )


def test_odd_strings_survive_being_written() -> None:
    """Quotes, backslashes, umlauts, line breaks and a DEL come back as they were."""
    name = 'a "b" \\ ü \n\t\x7f 😀.npz'
    recipe = Recipe.read({"data": {"name": name}})
    assert Recipe.read(tomllib.loads(recipe.to_toml())).data.name == name


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"los": "focal"}, "no setting los; did you mean 'loss'"),
        (
            {"optimiser": {"learning-rate": 1}},
            "no setting optimiser.learning-rate; did you mean 'learning_rate'",
        ),
        ({"optimizer": {"name": "adam"}}, "did you mean 'optimiser'"),
        ({"training": {"epochs": 0}}, "training.epochs is 0, but input should be greater than"),
        ({"training": {"epochs": "many"}}, "training.epochs is 'many'"),
        ({"training": {"epochs": True}}, "`epochs` must not be true or false"),
        ({"data": {"channels": True}}, "`channels` must not be true or false"),
        ({"schedule": {"name": "step"}}, "schedule.name is 'step', but input should be 'constant', 'steps'"),
        ({"schedule": {"name": "steps"}}, "`milestones` must be given for steps"),
        ({"schedule": {"name": "steps", "milestones": [5, 3]}}, "`milestones` must rise"),
        ({"optimiser": {"name": "adam", "nesterov": True}}, "`nesterov` goes with sgd"),
        ({"loss": "focal(reduction='sum')"}, "leave `reduction` to the recipe"),
        ({"loss": "focal(("}, "loss: .* name or name"),
        ({"data": {"calibration": -1}}, "data.calibration is -1"),
        ({"seed": -1}, "seed is -1"),
        ({"training": 3}, "training is 3"),
    ],
)
def test_mistakes_are_one_sentence(content, words) -> None:
    """The first mistake is named with its place, its value and what would do."""
    with pytest.raises(InputError, match=words) as caught:
        Recipe.read(content)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("epochs", "section.key=value"),
        ("trainig.epochs=3", "did you mean 'training'"),
        ("training.epoch=3", "did you mean 'epochs'"),
        ("seed.x=3", "no table 'seed'"),
        ("training.epochs=three", "'three'"),
    ],
)
def test_settings_of_the_command_line_are_checked(setting, words) -> None:
    """A mistake in --set is named like one in a file."""
    with pytest.raises(InputError, match=words):
        Recipe().with_settings([setting])


def test_settings_are_toml_values_or_plain_text() -> None:
    """Numbers, lists and booleans are read as such; what is no TOML is text."""
    recipe = Recipe().with_settings(
        ["schedule.name=steps", "schedule.milestones=[3, 5]", "record.dynamics=true", "loss=focal(gamma=3)"]
    )
    assert recipe.schedule.milestones == (3, 5)
    assert recipe.record.dynamics
    assert recipe.loss == "focal(gamma=3)"


def test_files_that_are_no_toml_are_named(tmp_path) -> None:
    """The file and the place in it are said."""
    (tmp_path / "bad.toml").write_text("seed = = 1")
    with pytest.raises(InputError, match=r"bad.toml is not a TOML file: .*line 1"):
        load_recipe(tmp_path / "bad.toml")


def test_the_learning_rate_follows_the_optimiser_unless_it_is_given() -> None:
    """Adam does not get SGD's rate, whichever way it is asked for; a rate that is given stays."""
    assert Recipe().optimiser.learning_rate == 0.1
    assert Recipe().with_settings(["optimiser.name=adam"]).optimiser.learning_rate == 0.001
    assert Recipe.read({"optimiser": {"name": "adagrad"}}).optimiser.learning_rate == 0.01
    given = Recipe.read({"optimiser": {"learning_rate": 0.3}})
    assert given.with_settings(["optimiser.name=adamw"]).optimiser.learning_rate == 0.3


def test_recipes_have_names(tmp_path, monkeypatch) -> None:
    """A bare name is a recipe of the package unless there is such a file; a wrong one is answered."""
    monkeypatch.chdir(tmp_path)
    assert load_recipe("digits") == load_recipe(shelf() / "digits.toml")
    with pytest.raises(InputError, match="no file digit, nor a recipe of that name; did you mean 'digits'"):
        load_recipe("digit")
    (tmp_path / "digits").write_text("seed = 7", encoding="utf-8")
    assert load_recipe("digits").seed == 7
