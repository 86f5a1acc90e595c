"""The recipes that come with the project: each starts on data of its form."""

import re
from pathlib import Path

import pytest
import torch

from calibrant import calibrators, losses
from calibrant_lab import models
from calibrant_lab.data import Geometry
from calibrant_lab.data.table import Part, RawData
from calibrant_lab.training import Recipe, at_budget, load_recipe, train
from calibrant_lab.training.data import geometry_of

RECIPES = sorted((Path(__file__).parents[2] / "recipes").glob("*.toml"))
FORMS = {
    "cifar10": ((3, 32, 32), 10),
    "cifar10_jpeg": ((3, 32, 32), 10),
    "cifar100": ((3, 32, 32), 100),
    "tiny_imagenet": ((3, 64, 64), 200),
    "svhn": ((3, 32, 32), 10),
    "chestxray14": ((1, 80, 80), 14),
    "chest_xray_covid": ((1, 224, 224), 3),
    "pneumoniamnist": ((1, 28, 28), 2),
    "fashion_mnist": ((1, 28, 28), 10),
    "digits": ((1, 8, 8), 10),
}
"""Shape of an image and number of classes of each set."""
LOADED = {path.stem: load_recipe(path) for path in RECIPES}
OF_IMAGES = {name: recipe for name, recipe in LOADED.items() if recipe.data.name in FORMS}
SEVERAL = frozenset({"chestxray14"})
"""Sets whose images have several labels each."""
STARTED = (
    "cifar10-resnet50-fcl",
    "cifar100-densenet121",
    "tiny-imagenet-resnet50-brier",
    "chestxray14-densenet121",
)
"""Those that the quick suite starts: each family of networks and data once, foreign samples, many labels."""


def shape_of(name: str, geometry: Geometry) -> tuple[int, int, int]:
    """Shape of an image of a set, scaled as a recipe says."""
    channels, height, width = FORMS[name][0]
    return (geometry.channels or channels, geometry.size or height, geometry.size or width)


def of_the_form(name: str, geometry: Geometry) -> RawData:
    """Eight random images to train on, and two to test, as the set of that name has them."""
    shape, classes = shape_of(name, geometry), FORMS[name][1]
    generator = torch.Generator().manual_seed(0)

    def part(size: int) -> Part:
        pixels = torch.randint(0, 256, (size, *shape), generator=generator, dtype=torch.uint8)
        form, most = ((size, classes), 2) if name in SEVERAL else ((size,), classes)
        return Part(inputs=pixels, labels=torch.randint(0, most, form, generator=generator))

    names = tuple(str(number) for number in range(classes))
    return RawData(name=name, train=part(8), test=part(2), class_names=names)


def two_batches(recipe: Recipe) -> Recipe:
    """One epoch of two batches of two images, on the CPU."""
    few = ["training.epochs=1", "training.batch_size=2", "data.train=4", "data.calibration=2"]
    quick = ["hardware.accelerator=cpu", "evaluation.bootstrap=2", "evaluation.calibrators=['temperature']"]
    milestones = ["schedule.milestones=[1]"] if recipe.schedule.milestones else []
    policy = ["data.policy=2"] if recipe.data.policy else []
    return recipe.with_settings([*few, *quick, *milestones, *policy])


@pytest.mark.filterwarnings("ignore::calibrant.CalibrantWarning")
@pytest.mark.parametrize(
    ("name", "budget"),
    [
        *((name, "small") for name in STARTED),
        *(
            pytest.param(name, budget, marks=pytest.mark.slow)
            for name, budget in [*((name, "small") for name in OF_IMAGES), ("cifar10-resnet50", "full")]
            if name not in STARTED
        ),
    ],
)
def test_recipes_of_images_start(name, budget, short_reports, tmp_path, monkeypatch) -> None:
    """Data, network, loss, optimiser and evaluation go together; the whole network, too, on two batches."""
    monkeypatch.setattr("calibrant_lab.training.data.load", of_the_form)
    run = train(two_batches(at_budget(LOADED[name], budget)), tmp_path / "run")
    assert run.evaluation is not None
    assert len(run.rows) == 1


def test_no_recipe_escapes() -> None:
    """Each is of images, and starts here, or of texts, and starts in ``test_texts.py``."""
    assert all(name in OF_IMAGES or recipe.data.vectors for name, recipe in LOADED.items())


@pytest.mark.parametrize("budget", ["full", "small"])
def test_every_network_gives_logits_for_the_classes_of_its_data(budget) -> None:
    given = [at_budget(recipe, budget) for recipe in OF_IMAGES.values()]
    pairs = {(each.model, each.data, FORMS[each.data.name][1]) for each in given}
    assert len(pairs) >= 8
    for model, settings, classes in pairs:
        channels, *sides = shape_of(settings.name, geometry_of(settings))
        shape = (channels, *((settings.crop or side) // settings.downsample for side in sides))
        with torch.device("meta"):
            network = models.build(model, input_shape=shape, num_classes=classes)
        head = models.last_linear(network)
        assert head.out_features == classes


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_losses_and_calibrators_that_a_recipe_names_exist(path) -> None:
    """Those of its settings and those that its comments list for the columns of a table."""
    recipe = LOADED[path.stem]
    listed = re.findall(r'^#   (".*)$', path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    named = [text for line in listed for text in re.findall(r'"(.*?)"', line)]
    assert named or "#   " not in path.read_text(encoding="utf-8")
    for text in (recipe.loss, *named):
        losses.build(text)
    for text in recipe.evaluation.calibrators:
        calibrators.build(text)


def test_every_recipe_has_a_small_budget() -> None:
    """It trains no longer and on no more samples; one that is small already changes nothing."""
    for name, recipe in LOADED.items():
        small = at_budget(recipe, "small")
        assert small.training.epochs <= recipe.training.epochs, name
        assert (small.data.train or 10**9) <= (recipe.data.train or 10**9), name
        assert small.settings() != recipe.settings() or recipe.small == {}, name


def test_the_page_lists_every_recipe() -> None:
    """By name; those of CIFAR-100 may be told by those of CIFAR-10. What it lists is there."""
    page = (RECIPES[0].parent / "README.md").read_text(encoding="utf-8")
    table = [line for line in page.splitlines() if line.startswith("| `")]
    listed = {name for line in table for name in re.findall(r"`([\w-]+\w)`", line.split(" | ")[0])}
    assert [name for name in LOADED if {name, name.replace("100-", "10-")}.isdisjoint(listed)] == []
    assert listed <= set(LOADED)


def test_recipes_of_papers_name_a_source_beside_each_number() -> None:
    """In the files that others extend, every line with a number has a comment that says where it stands."""
    for name in ("cifar10-resnet50", "tiny-imagenet-resnet50", "chestxray14-densenet121"):
        text = next(path for path in RECIPES if path.stem == name).read_text(encoding="utf-8")
        settings = re.findall(r"^(?!name)(\w+ = .*\d.*)$", text.partition("[small]")[0], flags=re.MULTILINE)
        assert len(settings) > 10
        assert [line for line in settings if "# [" not in line and "num_bins" not in line] == []
