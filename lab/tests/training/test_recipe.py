"""Recipes: read, validated, changed, written back, extended, and made smaller by a budget."""

import json
import tomllib
from pathlib import Path

import pytest

from calibrant_lab.training import Recipe, at_budget, load_recipe
from calibrant_lab.training.recipe import budget_note
from calibrant_lab.training.recipe_files import shelf
from command_line import call
from refusals import refused

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*.toml")), ids=lambda path: path.stem)
def test_every_recipe_is_valid_and_survives_being_written(path) -> None:
    recipe = load_recipe(path)
    written = recipe.to_toml()
    assert Recipe.read(tomllib.loads(written)) == recipe
    assert all(
        f"\n{name} = " in f"\n{written}" for name in ("seed", "betas", "patience", "devices", "bootstrap")
    )


def test_odd_strings_survive_being_written() -> None:
    name = 'a "b" \\ ü \n\t\x7f 😀.npz'
    recipe = Recipe.read({"data": {"name": name}})
    assert Recipe.read(tomllib.loads(recipe.to_toml())).data.name == name


SMALL = {
    "training": {"epochs": 350},
    "schedule": {"name": "steps", "milestones": [150, 250]},
    "small": {"training": {"epochs": 4}, "schedule": {"milestones": [2]}, "model": "cnn"},
}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"los": "focal"}, "no setting los; did you mean 'loss'"),
        ({"optimiser": {"learning-rate": 1}}, "optimiser.learning-rate; did you mean 'learning_rate'"),
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
        (
            {"small": {"training": {"epoch": 3}}},
            r"\[small\]: .* setting training.epoch; did you mean 'epochs'\?$",
        ),
        ({"small": {"training": 3}}, r"\[small\]: training is 3"),
        (
            {**SMALL, "small": {"schedule": {"milestones": [3, 2]}}},
            r"\[small\]: schedule: `milestones` must rise",
        ),
    ],
)
def test_mistakes_are_one_sentence(content, words) -> None:
    refused(words, Recipe.read, content)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["epochs"], "section.key=value"),
        (["trainig.epochs=3"], "did you mean 'training'"),
        (["training.epoch=3"], "did you mean 'epochs'"),
        (["seed.x=3"], "no table 'seed'"),
        (["training.epochs=three"], "'three'"),
        (["initial.skip=['head']"], "`skip` goes with `weights`"),
        (["curvature.wieght=1"], "no setting curvature.wieght; did you mean 'weight'"),
        (["curvature.weight=-1"], "curvature.weight is -1, but input should be greater than or equal to 0"),
        (["curvature.weight=nan"], "curvature.weight is nan"),
        (["curvature.estimator=exact"], "curvature.estimator is 'exact', but input should be 'hutchinson'"),
        (["curvature.every=0"], "curvature.every is 0"),
        (["sam.radius=1"], "no setting sam.radius"),
        (["sam.rho=-0.1"], "sam.rho is -0.1"),
        (["curvature.weight=1", "sam.rho=0.1"], "`curvature.weight` and `sam.rho` exclude each other"),
        (["curvature.weight=1", "hardware.compile=true"], "`hardware.compile` must be false"),
        (["curvature.weight=1", "training.precision=bf16-mixed"], "bf16-mixed does not go with `curvature"),
        (["sam.rho=1", "training.precision=16-mixed"], "16-mixed does not go with `sam.rho`"),
    ],
)
def test_settings_of_the_command_line_are_checked(settings, words) -> None:
    """A mistake in --set is named like one in a file, and so is what does not go together."""
    refused(words, Recipe().with_settings, settings)


def test_the_learning_rate_follows_the_optimiser_unless_it_is_given() -> None:
    """Adam does not get SGD's rate, whichever way it is asked for; a rate that is given stays."""
    assert Recipe().optimiser.learning_rate == 0.1
    assert Recipe().with_settings(["optimiser.name=adam"]).optimiser.learning_rate == 0.001
    assert Recipe.read({"optimiser": {"name": "adagrad"}}).optimiser.learning_rate == 0.01
    given = Recipe.read({"optimiser": {"learning_rate": 0.3}})
    assert given.with_settings(["optimiser.name=adamw"]).optimiser.learning_rate == 0.3


def test_recipes_have_names(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_recipe("digits") == load_recipe(shelf() / "digits.toml")
    refused("digit is neither a file nor the name of a recipe; did you mean 'digits'", load_recipe, "digit")
    (tmp_path / "digits").write_text("seed = 7", encoding="utf-8")
    assert load_recipe("digits").seed == 7


def write(folder: Path, **texts: str) -> None:
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
        ({"a": "seed = = 1"}, "a.toml is not a TOML file: .*line 1"),
        ({"a": 'extends = "b.toml"', "b": "= 1"}, "b.toml is not a TOML file"),
        ({"a": 'extends = "b.toml"\n[training]\nepoch = 1', "b": ""}, "a.toml: .*did you mean 'epochs'"),
    ],
)
def test_what_cannot_be_extended_is_named(texts, words, tmp_path) -> None:
    write(tmp_path, **texts)
    refused(words, load_recipe, tmp_path / "a.toml")


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
    recipe = Recipe.read(SMALL)
    assert at_budget(recipe, "full") is recipe
    assert budget_note(recipe) is None
    assert recipe.differences(Recipe.read({**SMALL, "small": {}})) == []


def test_a_recipe_without_the_table_has_no_small_budget() -> None:
    refused(r"a table \[small\] with settings such as", at_budget, Recipe(), "small")
    small = at_budget(Recipe.read({"small": {}}), "small")
    assert (small.settings(), budget_note(small)) == (Recipe().settings(), None)


def test_every_result_says_that_the_budget_was_small(recipe, short_reports, tmp_path) -> None:
    content = recipe.model_dump(mode="json") | {"small": {"training": {"epochs": 1}, "data": {"train": 100}}}
    (tmp_path / "recipe.toml").write_text(Recipe.read(content).to_toml())
    done = call("train", "recipe.toml", "--budget", "small", "--out", "run", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    said = "small budget: training.epochs 4 → 1, data.train 200 → 100"
    assert f"Budget:      {said}" in done.stdout
    found = json.loads((tmp_path / "run" / "evaluation.json").read_text(encoding="utf-8"))
    assert f"Trained on a {said}." in found["notes"]
    assert budget_note(load_recipe(tmp_path / "run" / "recipe.toml")) == said
    again = call("train", "run", folder=tmp_path)
    assert said in again.stdout
