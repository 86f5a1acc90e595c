"""Texts and trees in the training loop: recipes of the papers, losses over nodes, the neutral class."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from calibrant.metrics import expected_calibration_error
from calibrant_lab.models.tree_lstm import TreeLSTM
from calibrant_lab.training import Recipe, at_budget, load_recipe, train
from calibrant_lab.training.data import read_data
from calibrant_lab.training.engine import Engine
from calibrant_lab.training.neutral import conventions_of, probs_of, top_label_error
from calibrant_lab.training.recipe import OptimiserSection
from calibrant_lab.training.run_report import run_sections
from calibrant_lab.training.schedule import JointOptimiser, build_optimiser
from refusals import refused
from set_files import write_lines

pytestmark = pytest.mark.usefixtures("there", "short_reports")

RECIPES = Path(__file__).parents[2] / "recipes"
OF_TEXTS = [path.stem for path in sorted(RECIPES.glob("*.toml")) if load_recipe(path).data.vectors]
TREES = ("(4 (3 good) (2 .))", "(0 (1 bad) (2 .))", "(3 (2 (2 so) (3 good)) (2 .))", "(1 (2 not) (3 good))")
QUICK = [
    "training.epochs=1",
    "training.batch_size=4",
    'hardware.accelerator="cpu"',
    "hardware.threads=1",
    "evaluation.bootstrap=10",
]


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small sets in the form of those that the recipes name; two batches of four train, a rest of one."""
    root = tmp_path_factory.mktemp("sets")
    posts = [
        {"id": str(number), "label": number % 20, "text": f"good or bad, group {number % 20}"}
        for number in range(40)
    ]
    write_lines(root / "newsgroups20" / "train.jsonl.gz", posts)
    for split, count in (("train", 9), ("val", 8), ("test", 8)):
        trees = [{"tree": TREES[number % 4]} for number in range(count)]
        write_lines(root / "sst_trees" / f"{split}.jsonl.gz", trees)
        lines = [{"text": TREES[number % 4], "label": number % 4} for number in range(count)]
        write_lines(root / "ag_news_subset" / f"{split}.jsonl.gz", lines)
    (root / "glove_100d").mkdir()
    vectors = np.random.default_rng(0).normal(size=(3, 100)).astype(np.float16)
    np.savez(root / "glove_100d" / "glove_100d.npz", words=["good", "bad", "."], vectors=vectors)
    return root


@pytest.fixture
def there(sets, monkeypatch) -> None:
    """The environment names the folder of these sets."""
    monkeypatch.setenv("CALIBRANT_DATA", str(sets))


@pytest.mark.parametrize("name", OF_TEXTS)
def test_recipes_for_texts_start(name, tmp_path) -> None:
    settings = [*QUICK, "data.train=8"] if name == "20ng-gpcnn" else QUICK
    recipe = at_budget(load_recipe(RECIPES / f"{name}.toml"), "small").with_settings(settings)
    run = train(recipe, tmp_path / "run")
    test = read_data(recipe.data).test
    with torch.no_grad():
        logits = run.model()(test.inputs)
    torch.testing.assert_close(logits, run.predictions.test.scores, rtol=1e-5, atol=1e-5)
    assert (run.conventions is not None) == (name == "sst-tree-lstm")


@pytest.fixture
def tree_recipe() -> Recipe:
    """The treebank's recipe with a smaller memory, for two epochs."""
    settings = [*QUICK, "training.epochs=2", 'model="tree-lstm(memory=5)"']
    return load_recipe(RECIPES / "sst-tree-lstm.toml").with_settings(settings)


def test_resumed_trees_give_the_same_bits(tree_recipe, tmp_path, same_numbers, cut) -> None:
    """Killed in the second epoch of two batches: words, optimisers and the best weights are restored."""
    whole = train(tree_recipe, tmp_path / "whole").folder.path
    same_numbers(whole, train(tree_recipe, cut(tree_recipe, 3, killed=True).path).folder.path)


@pytest.mark.parametrize(
    ("reduction", "share"),
    [("per-sample", 1 / 4), ("sum", 1.0), ("mean", 1 / 14)],
    ids=lambda each: str(each),
)
def test_the_loss_over_nodes_is_reduced_as_the_recipe_says(
    reduction, share, tree_recipe, tmp_path, monkeypatch
) -> None:
    """One step of plain descent on four trees, 14 nodes in all, against the gradient of the summed loss."""
    monkeypatch.setattr("calibrant_lab.training.launch.write_results", lambda *_given: None)
    plain = {"name": "sgd", "momentum": 0.0, "weight_decay": 0.0, "learning_rate": 0.5, "plain_rate": 0.25}
    settings = [f"optimiser.{name}={value}" for name, value in plain.items()]
    settings += ["data.train=4", "training.epochs=1", "training.keep=last", f'reduction="{reduction}"']
    recipe = tree_recipe.with_settings([*settings, 'model="tree-lstm(memory=5, dropout=0.0)"'])
    data = read_data(recipe.data)
    begun: list[dict[str, torch.Tensor]] = []
    fit = Engine.fit

    def watched(self: Engine) -> bool:
        begun.append({name: value.clone() for name, value in self.learner.model.state_dict().items()})
        return fit(self)

    monkeypatch.setattr(Engine, "fit", watched)
    run = train(recipe, tmp_path / "run")
    model = TreeLSTM(data.input_shape, 2, vectors=data.vectors, memory=5, dropout=0.0)
    model.load_state_dict(begun[0])
    labels = model.training_labels(data.train.inputs, data.train.labels)
    assert len(labels) == 14
    loss = functional.cross_entropy(model(data.train.inputs), labels, reduction="sum") * share
    names = [name for name, _ in model.named_parameters()]
    slopes = torch.autograd.grad(loss, list(model.parameters()))
    found = run.folder.load_checkpoint()
    for name, slope in zip(names, slopes, strict=True):
        rate = 0.25 if name.startswith("words") else 0.5
        torch.testing.assert_close(found["model"][name], begun[0][name] - rate * slope, rtol=1e-5, atol=1e-6)


def test_struck_predictions_are_confidences_and_both_conventions_are_told(tree_recipe, tmp_path) -> None:
    folders = {}
    for convention in ("renormalised", "struck"):
        recipe = tree_recipe.with_settings([f'evaluation.sst_binary="{convention}"', "training.epochs=1"])
        folders[convention] = train(recipe, tmp_path / convention)
    logits, struck = (folders[name].predictions.test for name in ("renormalised", "struck"))
    assert struck.kind == "top_label"
    confidences, predicted = logits.scores.double().exp().max(dim=1)
    torch.testing.assert_close(struck.confidence.double(), confidences, rtol=0, atol=1e-6)
    assert torch.equal(struck.correct, predicted == logits.labels)
    one, other = (run.conventions for run in folders.values())
    assert one == other
    assert one["num_test"] == 8
    assert one["struck"]["before"]["ece"] == pytest.approx(
        float(expected_calibration_error(struck.confidence.double(), struck.correct.long())), abs=1e-6
    )
    run = folders["struck"]
    first, second, *_ = run_sections(run, read_data(run.recipe.data), {})
    titles = ["How it was trained", "The neutral class, struck out or renormalised"]
    assert [first.title, second.title] == titles
    assert [row[0] for row in second.table.rows] == ["renormalised", "struck"]


def test_conventions_differ_by_the_neutral_share_alone() -> None:
    """By hand: half of the mass is neutral, so a right answer at .4 of .5 is .4 or .8 sure."""
    logits = torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.float64).log().repeat(10, 1)
    labels = torch.tensor([0, 1] * 10)
    assert top_label_error(probs_of(logits, "struck"), labels, num_bins=15) == pytest.approx(0.6)
    assert top_label_error(probs_of(logits, "renormalised"), labels, num_bins=15) == pytest.approx(0.2)
    warm = probs_of(logits, "struck", temperature=2.0)[0]
    total = 0.4**0.5 + 0.1**0.5 + 0.5**0.5
    assert warm.tolist() == pytest.approx([0.4**0.5 / total, 0.1**0.5 / total], abs=1e-12)


def test_temperatures_of_both_conventions_are_the_best_there_are(rng) -> None:
    """By NLL no other temperature is better on the calibration samples; by ECE none of 0.1, 0.2, … 10."""
    scores = torch.from_numpy(rng.normal(size=(300, 3)) * 2)
    labels = torch.from_numpy((rng.random(300) < scores[:, [0, 2]].softmax(dim=1)[:, 1].numpy()) * 1)
    logits = scores.log_softmax(dim=1)[:, ::2] * 1.0
    split = {"calibration": logits[:200], "test": logits[200:]}
    truth = {"calibration": labels[:200], "test": labels[200:]}
    found = conventions_of(split, truth, num_bins=10)
    for convention in ("renormalised", "struck"):

        def probs(temperature: float, convention=convention) -> torch.Tensor:
            return probs_of(split["calibration"], convention, temperature=temperature)

        best = found[convention]["by_nll"]["temperature"]
        likely = [
            float(probs(best * change).gather(1, labels[:200, None]).log().mean())
            for change in (0.98, 1.0, 1.02)
        ]
        assert likely[1] == max(likely)
        errors = {
            each / 10: top_label_error(probs(each / 10), labels[:200], num_bins=10) for each in range(1, 101)
        }
        assert errors[found[convention]["by_ece"]["temperature"]] == min(errors.values())


OF_DIGITS = ['data.name="digits"', 'data.vectors=""', 'model="mlp"', "optimiser.plain=[]"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (['model="gp-cnn"'], "gp-cnn needs texts"),
        ([*OF_DIGITS, "evaluation.sst_binary=struck"], "mlp learns no neutral class"),
        (['data.name="digits"'], "data.vectors is for texts"),
        (['data.vectors="none.npz"'], r"there is no none\.npz"),
        (['training.class_weights="balanced"'], "learns from parts of samples"),
        (['optimiser.plain=["wrds"]'], "'wrds', which the network lacks; did you mean 'words"),
        (['optimiser.plain=["words", "leaf", "left", "right", "head"]'], "must leave parameters"),
        (
            ["evaluation.sst_binary=struck", 'evaluation.calibrators=["temperature"]'],
            "struck gives confidences",
        ),
        (["evaluation.sst_binary=removed"], "should be 'renormalised' or 'struck'"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(settings, words, tree_recipe, tmp_path) -> None:
    refused(words, lambda: train(tree_recipe.with_settings(settings), tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_joint_optimisers_take_each_its_own_steps() -> None:
    """The same as two optimisers by hand, also after the state went through a file's form and a new rate."""
    start = torch.linspace(-1, 1, 6).view(3, 2)
    settings = OptimiserSection(
        name="adagrad", learning_rate=0.05, weight_decay=0.1, plain=("0",), plain_rate=0.2
    )

    def network() -> torch.nn.Sequential:
        model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 1))
        with torch.no_grad():
            for value in model.parameters():
                value.copy_(start.flatten()[: value.numel()].view_as(value))
        return model

    mine, theirs = network(), network()
    joint = build_optimiser(settings, mine)
    assert isinstance(joint, JointOptimiser)
    ada = torch.optim.Adagrad(theirs[1].parameters(), lr=0.05, weight_decay=0.1)
    plain = torch.optim.SGD(theirs[0].parameters(), lr=0.2)
    for step in range(4):
        if step == 2:
            saved = joint.state_dict()
            joint = build_optimiser(settings, mine)
            joint.load_state_dict(saved)
            for group in joint.param_groups:
                group["lr"] = 0.01 * group["relative_rate"]
            ada.param_groups[0]["lr"], plain.param_groups[0]["lr"] = 0.01, 0.04
        for model, optimisers in ((mine, [joint]), (theirs, [ada, plain])):
            model(start[:, :2]).square().sum().backward()
            for optimiser in optimisers:
                optimiser.step()
                optimiser.zero_grad()
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        assert torch.equal(one, other)
