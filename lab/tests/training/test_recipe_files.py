"""Recipes that extend others, and what a small budget replaces."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from calibrant._math.errors import InputError
from calibrant_lab.training import Recipe, at_budget, load_recipe
from calibrant_lab.training.recipe import budget_note
from command_line import call


def write(folder: Path, **texts: str) -> None:
    """Recipes by the names of their files."""
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text)


def test_a_recipe_stands_over_the_ones_it_extends(tmp_path) -> None:
    """Table by table, from the bottom up; paths are relative to the file that names them."""
    (tmp_path / "below").mkdir()
    write(tmp_path / "below", base='loss = "brier"\nmodel = "cnn"\n[training]\nepochs = 9\nbatch_size = 8')
    write(
        tmp_path, middle='extends = "below/base.toml"\n[training]\nepochs = 7\n[small]\ntraining.epochs = 3'
    )
    write(tmp_path, top='extends = "middle.toml"\nmodel = "mlp"\n[small]\ntraining.batch_size = 4')
    recipe = load_recipe(tmp_path / "top.toml")
    assert (recipe.loss, recipe.model) == ("brier", "mlp")
    assert (recipe.training.epochs, recipe.training.batch_size) == (7, 8)
    assert recipe.small == {"training": {"epochs": 3, "batch_size": 4}}
    assert "extends" not in recipe.to_toml()


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({"a": 'extends = "a.toml"'}, "must not extend itself; got a.toml extends a.toml"),
        (
            {"a": 'extends = "b.toml"', "b": 'extends = "a.toml"'},
            "must not extend itself; got a.toml extends b.toml extends a.toml",
        ),
        ({"a": 'extends = "b.toml"'}, r"a.toml extends b.toml, but there is no file .*b.toml"),
        ({"a": 'extends = "/b.toml"'}, "must be the path of another recipe, relative to this one"),
        ({"a": "extends = 3"}, "relative to this one, such as 'base.toml'; got 3"),
        ({"a": 'extends = "b.toml"', "b": "= 1"}, "b.toml is not a TOML file"),
        ({"a": 'extends = "b.toml"\n[training]\nepoch = 1', "b": ""}, "a.toml: .*did you mean 'epochs'"),
    ],
)
def test_what_cannot_be_extended_is_named(texts, words, tmp_path) -> None:
    """Circles, missing files, other paths, and mistakes further down."""
    write(tmp_path, **texts)
    with pytest.raises(InputError, match=words) as caught:
        load_recipe(tmp_path / "a.toml")
    assert "\n" not in str(caught.value)


SMALL = {
    "training": {"epochs": 350},
    "schedule": {"name": "steps", "milestones": [150, 250]},
    "small": {"training": {"epochs": 4}, "schedule": {"milestones": [2]}, "model": "cnn"},
}


def test_a_small_budget_replaces_what_the_recipe_says_and_tells_it() -> None:
    """The rest stays; what was replaced is kept and named, also after further changes and being written."""
    recipe = Recipe.read(SMALL)
    small = at_budget(recipe, "small")
    assert (small.training.epochs, small.schedule.milestones, small.model) == (4, (2,), "cnn")
    assert small.training.batch_size == recipe.training.batch_size
    said = "small budget: training.epochs 350 → 4, schedule.milestones [150, 250] → [2], model 'mlp' → 'cnn'"
    assert budget_note(small) == said
    assert at_budget(small, "small") == small
    changed = small.with_settings(["training.epochs=5", "model=mlp"])
    assert budget_note(changed) == (
        "small budget: training.epochs 350 → 5, schedule.milestones [150, 250] → [2]"
    )
    assert Recipe.read(tomllib.loads(changed.to_toml())) == changed
    assert Recipe.read(tomllib.loads(recipe.to_toml())) == recipe


def test_a_full_budget_changes_nothing() -> None:
    """Nothing is said of it either; the table stands by for later, and makes no other run."""
    recipe = Recipe.read(SMALL)
    assert at_budget(recipe, "full") is recipe
    assert budget_note(recipe) is None
    assert recipe.differences(Recipe.read({**SMALL, "small": {}})) == []


def test_a_recipe_without_the_table_has_no_small_budget() -> None:
    """The message says what to add; an empty table says that the recipe is small already."""
    with pytest.raises(InputError, match=r"a table \[small\] with settings such as"):
        at_budget(Recipe(), "small")
    small = at_budget(Recipe.read({"small": {}}), "small")
    assert (small.settings(), budget_note(small)) == (Recipe().settings(), None)


@pytest.mark.parametrize(
    ("small", "words"),
    [
        (
            {"training": {"epoch": 3}},
            r"\[small\]: there is no setting training.epoch; did you mean 'epochs'\?$",
        ),
        ({"training": 3}, r"\[small\]: training is 3"),
        ({"schedule": {"milestones": [3, 2]}}, r"\[small\]: schedule: `milestones` must rise"),
    ],
)
def test_mistakes_in_the_table_are_found_where_it_is_not_used(small, words) -> None:
    """What a small budget gives is a recipe too."""
    with pytest.raises(InputError, match=words):
        Recipe.read({**SMALL, "small": small})


def test_every_result_says_that_the_budget_was_small(recipe, short_reports, tmp_path) -> None:
    """The evaluation, what the command prints, and the recipe in the run's folder."""
    content = recipe.model_dump(mode="json") | {"small": {"training": {"epochs": 1}, "data": {"train": 100}}}
    (tmp_path / "recipe.toml").write_text(Recipe.read(content).to_toml())
    done = call("train", "recipe.toml", "--budget", "small", "--out", "run", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    said = "small budget: training.epochs 4 → 1, data.train 200 → 100"
    assert f"budget:      {said}" in done.stdout
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text(encoding="utf-8"))
    assert f"Trained on a {said}." in found["notes"]
    assert budget_note(load_recipe(tmp_path / "run" / "recipe.toml")) == said
    again = call("train", "run", folder=tmp_path)
    assert said in again.stdout
