"""Grids: which runs they hold, and what is refused in one sentence."""

from pathlib import Path

import pytest

from calibrant._math.errors import InputError
from calibrant_lab.sweep.grid import Grid, load_grid
from calibrant_lab.sweep.kept_runs import read_runs
from calibrant_lab.sweep.matching import matches, read_wanted
from calibrant_lab.sweep.tasks.training import Training, recipe_of
from calibrant_lab.training import load_recipe
from papers.generalisation_gap.run import GeneralisationGap
from papers.linear_model.run import LinearModel
from toy_task import toy_grid

GRIDS = Path(__file__).parents[2] / "grids"


def test_the_first_axis_varies_slowest_and_zipped_ones_together() -> None:
    """The order of the runs is that of nested loops; a zip is one axis."""
    grid = toy_grid({"seed": [0, 1]}, zip=[{"value": [2.0, 3.0], "how": ["a", "b"]}])
    wanted = [(0, 2.0, "a"), (0, 3.0, "b"), (1, 2.0, "a"), (1, 3.0, "b")]
    assert [tuple(point.axes.values()) for point in grid.points] == wanted


def test_exclusions_and_overrides() -> None:
    """An override changes the points that it names, and exclusions see what it made of them."""
    grid = toy_grid(
        {"seed": [0, 1], "how": ["a", "bb"]},
        override=[{"when": {"how": "b*", "seed": 1}, "set": {"value": 5.0}}],
        exclude=[{"how": "a", "seed": [0, 7]}],
    )
    found = [(point.settings["how"], point.settings["value"]) for point in grid.points]
    assert found == [("bb", 1.0), ("a", 1.0), ("bb", 5.0)]
    assert grid.num_excluded == 1
    assert len(grid.only({"value": 5.0}).points) == 1
    with pytest.raises(InputError, match=r"--where leaves none of the 3 runs; there value is 1\.0, 5\.0\."):
        grid.only({"value": 6.0})


def test_settings_are_compared_by_value() -> None:
    axes = {"loss": ["focal(gamma=3)", "brier"]}
    override = {"when": {"loss": "focal(gamma=3.0)"}, "set": {"training.epochs": 7}}
    grid = Grid.read({"axes": axes, "override": [override]})
    assert [point.settings["training.epochs"] for point in grid.points] == [7, 20]
    assert len(grid.only({"loss": "focal( gamma = 3 )"}).points) == 1


def test_settings_that_come_twice_count_once() -> None:
    """Losses spelled differently are the same run; hardware makes no other run, a seed does."""
    losses = ["focal(gamma=3)", "focal( gamma = 3.0 )"]
    grid = Grid.read({"axes": {"loss": losses, "hardware.threads": [1, 2], "seed": [0, 1]}})
    assert (len(grid.points), grid.num_merged) == (2, 6)


def test_recipes_by_path_and_as_tables(tmp_path) -> None:
    """A path is relative to the grid, a name is a recipe of calibrant's, a table the recipe itself."""
    (tmp_path / "base.toml").write_text("[training]\nepochs = 7\n")
    (tmp_path / "grid.toml").write_text('recipe = "base.toml"\n[axes]\n"data.seed" = [3]\n')
    recipe = recipe_of(load_grid(tmp_path / "grid.toml").points[0].settings)
    assert (recipe.training.epochs, recipe.data.seed) == (7, 3)
    inline = Grid.read({"recipe": {"training": {"epochs": 7}}, "axes": {"data": {"seed": [3]}}})
    assert recipe_of(inline.points[0].settings) == recipe
    named = Grid.read({"recipe": "digits", "axes": {"seed": [1]}})
    wanted = load_recipe("digits").with_settings(["seed=1"])
    assert not recipe_of(named.points[0].settings).differences(wanted)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"axis": {}}, r"grid: there is no entry 'axis'; did you mean 'axes'\?"),
        ({"axes": {}}, r"\[axes\] must name settings with lists of values"),
        ({"axes": {"seed": 3}}, r"seed must be a list of values, as in \[0, 1\]; got 3"),
        ({"axes": {"sead": [3]}}, r"there is no setting sead; did you mean 'seed'\?"),
        ({"axes": {"seed": [-1]}}, r"grid: seed is -1, but input should be greater than or equal to 0"),
        ({"axes": {"loss": ["focl"]}}, r"there is no loss 'focl'; did you mean 'focal'\?"),
        ({"axes": {"loss": ["focal(gama=1)"]}}, r"'focal' has no setting 'gama'; did you mean 'gamma'\?"),
        ({"axes": {"model": ["resnett"]}}, r"there is no model 'resnett'; did you mean 'resnet'\?"),
        ({"axes": {"evaluation.calibrators": [["temprature"]]}}, r"did you mean 'temperature'\?"),
        ({"axes": {"seed": [0]}, "zip": [{"seed": [1]}]}, "seed is an axis twice"),
        ({"zip": [{"seed": [1], "loss": ["brier", "mdca"]}]}, "values of each; got 1 of seed, 2 of loss"),
        ({"axes": {"seed": [0]}, "exclude": {"seed": 0}}, r"write \[\[exclude\]\], with double brackets"),
        ({"axes": {"seed": [0]}, "exclude": [{"seed": 0}]}, "every combination is excluded"),
        (
            {"axes": {"loss": ["focal(gamma=3)"]}, "exclude": [{"loss": "focl(gamma=3)"}]},
            r"\[\[exclude\]\] matches no run: none has loss = 'focl.*'; did you mean 'focal\(gamma=3\)'\?",
        ),
        (
            {"axes": {"seed": [0]}, "override": [{"when": {"seed": 2}, "set": {"loss": "brier"}}]},
            r"\[\[override\]\] matches no run: none has seed = 2; choose '0'\.",
        ),
        (
            {"zip": [{"seed": [0, 1], "loss": ["brier", "mmce"]}], "exclude": [{"seed": 0, "loss": "mmce"}]},
            r"matches no run: none has all of seed = 0, loss = 'mmce'",
        ),
        ({"axes": {"seed": [0]}, "exclude": [{"sed": 0}]}, r"there is no setting sed; did you mean 'seed'\?"),
        ({"axes": {"seed": [0]}, "override": [{"when": {"seed": 0}}]}, r"\[\[override\]\] needs both"),
        ({"axes": {"seed": [0]}, "override": [{"if": {}}]}, "has `when` and `set`; got 'if'"),
        ({"axes": {"seed": [0]}, "recipe": "none.toml"}, "no recipe none.toml; its path is relative"),
        ({"axes": {"seed": [0]}, "recipe": {}, "settings": {}}, "exclude each other"),
        ({"axes": {"seed": [0]}, "task": "trainning"}, r"no task 'trainning'; did you mean 'training'\?"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(content, message) -> None:
    with pytest.raises(InputError, match=message):
        Grid.read(content)


def test_wanted_settings() -> None:
    """Stars and alternatives; brackets in values are no patterns; 1 is not true."""
    found = read_wanted(["loss=focal(gamma=3)", "data.seed=0|2"], option="--where")
    assert found == {"loss": "focal(gamma=3)", "data.seed": [0, 2]}
    assert matches({"model": "mlp(widths=[8])"}, {"model": "mlp(widths=[8])"})
    assert not matches({"model": "mlp(widths=8)"}, {"model": "mlp(widths=[8])"})
    assert matches({"a": ["x"]}, {"a": ["x"]})
    assert not matches({"a": True}, {"a": 1})
    assert matches({"a": 1.0}, {"a": 1})
    with pytest.raises(InputError, match="must have the form \"setting=value\"; got 'loss'"):
        read_wanted(["loss"], option="--where")


def test_the_grids_of_the_project_are_valid() -> None:
    grids = {path.stem: load_grid(path) for path in sorted(GRIDS.glob("*.toml"))}
    assert len(grids["digits-losses"].points) == 60
    assert load_grid("digits-losses").points == grids["digits-losses"].points


def test_a_small_budget() -> None:
    """The recipe's small settings count, each point says what they replaced, and axes have the last word."""
    recipe = {"training": {"epochs": 350, "batch_size": 64}, "small": {"training": {"epochs": 4}}}
    content = {"recipe": recipe, "axes": {"seed": [0, 1]}}
    small = Grid.read(content, budget="small").points[0].settings
    assert (small["training.epochs"], small["full.training.epochs"]) == (4, 350)
    assert small["training.batch_size"] == 64
    kept = recipe_of(small)
    assert kept.full == {"training": {"epochs": 350}}
    full = Grid.read(content).points[0].settings
    assert full["training.epochs"] == 350
    assert not any(key.startswith("full") for key in full)
    plainly = Grid.read({"recipe": {**recipe, "training": {"epochs": 4, "batch_size": 64}}, **AXES}).points[0]
    assert Training().deciding(small) == Training().deciding(plainly.settings), "another name"
    varied = Grid.read({**content, "axes": {"training.epochs": [7]}}, budget="small").points[0].settings
    assert varied["training.epochs"] == 7
    with pytest.raises(InputError, match="a small budget needs a recipe that says what it replaces"):
        Grid.read(AXES, budget="small")


AXES = {"axes": {"seed": [0, 1]}}


def test_a_task_of_one_s_own() -> None:
    """A grid may name a task's class by its module; what is no task is refused by its name."""
    found = Grid.read({"task": "toy_task:Toy", "axes": {"value": [1.0, 2.0]}})
    assert [point.settings["value"] for point in found.points] == [1.0, 2.0]
    for name in ("toy_task:Toys", "nowhere_at_all:Toy", "toy_task:toys", ":Toy"):
        with pytest.raises(InputError, match=f"the task '{name}'"):
            Grid.read({"task": name, "axes": {"value": [1.0]}})


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_sample": 3}, "there is no setting num_sample; did you mean 'num_samples'"),
        ({"num_samples": 3.5}, "`num_samples` must be of the kind of 800; got 3.5"),
        ({"seed": True}, "`seed` must be of the kind of 0; got True"),
    ],
)
def test_a_simulation_refuses_settings(settings, said) -> None:
    """Unknown names and values of another kind are refused; an integer may stand for a number."""
    with pytest.raises(InputError, match=said):
        GeneralisationGap().complete(settings)
    assert LinearModel().complete({"spread": 1})["spread"] == 1.0


def test_known_runs_are_left_out(tmp_path) -> None:
    """What a results file has is not done again, even if it says less than all settings."""
    grid = Grid.read({"axes": {"loss": ["brier", "focal(gamma=3)"], "seed": [0, 1]}})
    known = [{"loss": "brier", "seed": 1}, dict(grid.points[2].settings), {"loss": "brier", "seed": 7}]
    left = grid.without(known, "known.json")
    assert [tuple(point.axes.values()) for point in left.points] == [("brier", 0), ("focal(gamma=3)", 1)]
    assert grid.without([point.settings for point in grid.points], "known.json").points == ()
    with pytest.raises(InputError, match=r"known\.json has runs of another kind: dimensions is no setting"):
        grid.without([{"dimensions": 3, "seed": 0}], "known.json")
    file = tmp_path / "known.json"
    file.write_text("[1, 2]", encoding="utf-8")
    with pytest.raises(InputError, match="not the results file of a study"):
        read_runs(file)
