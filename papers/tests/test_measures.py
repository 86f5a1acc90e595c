"""What the studies measure, on the smallest settings."""

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor

import calibrant.losses
from calibrant import metrics
from calibrant._math.errors import InputError
from calibrant.calibrators import TemperatureScaling
from calibrant.calibrators.fitting.objectives import objective_value
from calibrant.calibrators.fitting.samples import Samples
from calibrant.calibrators.fitting.searches import LINE_GAMMAS, PAPER_TEMPERATURES
from calibrant.losses import focal_loss
from calibrant.predictions import Predictions, load_predictions
from calibrant.theory import closest_temperature, confidence_change, focal_calibration_map_logits
from calibrant_lab.sweep.grid import Grid
from calibrant_lab.sweep.kept_runs import KeptRun
from calibrant_lab.sweep.tasks.training import recipe_of as trained_by
from calibrant_lab.training import load_recipe
from calibrant_lab.training.neutral import conventions_of
from few_points import few_points
from papers import studies
from papers.analysis import content
from papers.chest_x_rays import run as chest
from papers.curvature.run import ARMS, SETTINGS, trained_and_measured
from papers.dynamics.run import shape_of, train_side
from papers.gammas import run as gammas
from papers.gammas.run import fits
from papers.generalisation_gap.run import GeneralisationGap
from papers.human_posteriors.run import JUDGEMENTS, Judged, Tried, focal_answer, focal_map, read
from papers.linear_model import run as linear_model
from papers.losses import run as losses
from papers.losses.run import BY_ECE, CALIBRATED, by_class
from papers.many_classes.run import CLASSES, of_the_map, of_the_theorem, trained
from papers.properness.run import every_loss, row_of
from papers.repeats.run import compared, sample_of
from papers.runs import Records, finished_runs
from papers.sst.run import RENORMALISED, STRUCK, judged
from papers.sum_or_mean import run as sum_or_mean
from papers.temperature_line import run as temperature_line
from papers.temperature_line.run import straight
from papers.theory_on_data.run import like_the_map


def test_every_grid_is_read() -> None:
    for name in filter(studies.has_grid, studies.names()):
        assert studies.grid_of(name, seeds=1).points


@pytest.mark.parametrize(("name", "runs"), [("losses", 115), ("sum_or_mean", 520)])
def test_every_run_of_losses_has_a_place_of_its_own(name, runs) -> None:
    points, key_of = studies.grid_of(name).points, studies.study(name).key_of
    assert len({tuple(key_of(point.settings).values()) for point in points}) == len(points) == runs


def test_runs_with_the_mean_are_those_of_the_study_of_losses() -> None:
    """As the pages say: as trained, their numbers are the same; all runs are in a way that the page shows."""
    points = studies.grid_of("sum_or_mean").points
    assert {sum_or_mean.way_of(point.settings) for point in points} == set(sum_or_mean.WAYS)
    ours, theirs = (studies.kept_frames(name)["errors"] for name in ("sum_or_mean", "losses"))
    key = ["images", "loss", "seed", "stage", "metric"]
    both = ours.query("way == 'mean' and stage == 'before'").merge(theirs, on=key)
    assert len(both) == 7 * 90
    assert (both.value_x == both.value_y).all()


def test_a_run_of_losses_holds_what_its_predictions_say(tmp_path) -> None:
    """A run on digits: metrics as trained, and after the temperature that either error chooses; by class."""
    probs = torch.tensor([[0.999, 0.001], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]], dtype=torch.float64)
    by_hand = by_class(probs, torch.tensor([0, 1, 1, 0]))
    assert by_hand["recall"] == [0.5, 0.5]
    assert by_hand["mean_excess"] == pytest.approx([2.099 / 4 - 0.5, 1.901 / 4 - 0.5])
    assert by_hand["overconfidence"] == pytest.approx([(0.999 + 0.8) / 2 - 0.5, (0.6 + 0.7) / 2 - 0.5])
    grid = Grid.read(
        {
            "task": "papers.losses.run:LossRun",
            "recipe": {
                "model": "mlp(widths=(8,))",
                "data": {"name": "digits", "calibration": 200, "test": 0.5, "train": 300},
                "training": {"epochs": 2},
                "hardware": {"threads": 1, "accelerator": "cpu"},
                "evaluation": {"calibrators": [*CALIBRATED, BY_ECE], "bootstrap": 10},
            },
            "axes": {"seed": [0], "loss": ["focal(gamma=3)"]},
        }
    )
    (result,) = finished_runs(grid, tmp_path, engine="serial")
    kept = losses.keep(result)
    test = load_predictions(result.file("predictions.npz")).test
    probs = test.scores.double().softmax(dim=1)
    found = kept["stages"]["before"]
    assert found["error"] == pytest.approx(float(metrics.error_rate(probs, test.labels)), abs=1e-12)
    assert found["share_above_99"] == float(metrics.high_confidence(probs, test.labels, threshold=0.99).share)
    assert kept["classes"]["before"] == by_class(probs, test.labels)
    assert kept["norms"] == {str(row["epoch"]): row["last_layer_norm"] for row in result.rows}
    for stage, name in (("by-ece", "ece_temperature"), ("by-adaptive-ece", "adaptive_ece_temperature")):
        repaired = (test.scores.double() / kept["parameters"][name]).softmax(dim=1)
        ece = float(metrics.expected_calibration_error(repaired, test.labels))
        assert kept["stages"][stage]["ece"] == pytest.approx(ece, abs=1e-12)
        assert kept["stages"][stage].keys() == found.keys()


def test_scaling_of_exponents_searches_the_grids_of_the_paper() -> None:
    """Temperatures in steps of 0.01, exponents without 0, chosen on one part and measured on the other."""
    assert gammas.CLOSEST[1] == pytest.approx(closest_temperature(1, 10).temperature, abs=1e-6)
    generator = torch.Generator().manual_seed(0)
    logits = 3 * torch.randn(300, 3, generator=generator, dtype=torch.float64)
    labels = torch.multinomial((logits / 2).softmax(1), 1, generator=generator)[:, 0]
    held_out, test = Samples(logits[:200], labels[:200], None), Samples(logits[200:], labels[200:], None)
    result = fits(held_out, test)
    assert result["temperature-nll"]["gamma"] == 0
    assert result["focal-nll"]["gamma"] in {-0.5, -0.25, 0.05, 0.25, 0.37, 0.5, 0.75, 1.0, 5.0}
    chosen = result["temperature-nll"]["T"]
    assert 100 * chosen == pytest.approx(round(100 * chosen))
    wanted = metrics.negative_log_likelihood((logits[200:] / chosen).softmax(1), labels[200:])
    assert result["temperature-nll"]["nll"] == pytest.approx(float(wanted), abs=1e-12)


def test_sst_errors_are_those_of_the_runs_report() -> None:
    generator = torch.Generator().manual_seed(0)
    wide = (2 * torch.randn(120, 3, generator=generator)).log_softmax(1)[:, ::2]
    labels = (torch.rand(120, generator=generator) < wide.softmax(1)[:, 1]).long()
    logits = {"calibration": wide[:60], "test": wide[60:]}
    given = Predictions(logits=wide, labels=labels, split=np.arange(120) // 60)
    own = conventions_of(logits, {"calibration": labels[:60], "test": labels[60:]}, num_bins=15)
    for convention in (STRUCK, RENORMALISED):
        found = judged(given, convention)
        for stage, name in (("before", "before"), ("temperature", "by_nll"), ("by-ece", "by_ece")):
            assert found["stages"][stage]["ece"] == pytest.approx(own[convention][name]["ece"], abs=1e-9)
        assert found["parameters"]["ece_temperature"] == own[convention]["by_ece"]["temperature"]
        assert found["stages"]["before"]["error"] == pytest.approx(own["error"], abs=1e-12)


LATER = {"training.epochs", "training.precision"}


@pytest.mark.parametrize(
    ("study", "name", "value", "recipe", "but"),
    [
        ("losses", "data.imbalance", "1.0", "fashion-mnist-losses", set[str]()),
        ("losses", "data.imbalance", "100.0", "fashion-mnist-long-tail", set[str]()),
        ("sst", "data.name", "sst_trees", "sst-tree-lstm", set[str]()),
        ("texts", "data.name", "ag_news", "ag-news", set[str]()),
        ("texts", "data.name", "newsgroups20", "20ng-gpcnn", LATER),
    ],
)
def test_grids_have_the_settings_of_their_recipes(study, name, value, recipe, but) -> None:
    points = studies.grid_of(study).points
    settings = next(each.settings for each in points if str(each.settings[name]).startswith(value))
    wanted = load_recipe(studies.HERE.parent / "lab" / "recipes" / f"{recipe}.toml")
    assert {each.partition(":")[0] for each in wanted.differences(trained_by(settings))} == but


def drawn(truth: Tensor, log_probs: Tensor, *, people: int = 50) -> Judged:
    """Images with that truth: a label each, and so many judgements."""
    rng, shares = np.random.default_rng(0), truth.numpy()
    labels, counts = rng.multinomial(1, shares).argmax(1), rng.multinomial(people, shares)
    return Judged(log_probs, torch.from_numpy(labels), torch.from_numpy(counts).double())


def logits_of(num_images: int) -> Tensor:
    return 2 * torch.randn(num_images, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_distance_to_people_has_no_noise_of_the_judgements() -> None:
    """Less what chance adds, the mean squared distance is that to the truth, however few are asked."""
    logits = logits_of(4000)
    truth, said = logits.softmax(1), (logits / 2).log_softmax(1)
    data = drawn(truth, said, people=4)
    gap = data.scores(said)["distance"] - (truth - said.exp()).square().sum(1)
    error = gap.std() / len(gap) ** 0.5
    assert abs(gap.mean()) < 4 * error
    assert data.noise.mean() > 8 * error


def test_what_people_and_maps_hide_is_found_again() -> None:
    """People's temperature, and the exponent of focal loss where a network says what it asks for."""
    logits = logits_of(2000)
    data = drawn((logits / 2.5).softmax(1), logits.log_softmax(1))
    rows, chosen, share = data.by_people(torch.arange(2000))
    found = TemperatureScaling().fit(rows, chosen, weights=share).fit_result_.parameters["temperature"]
    assert found == pytest.approx(2.5, rel=0.05)
    truth = logits.log_softmax(1)
    said = focal_answer(truth, 2.0)
    assert torch.allclose(focal_map(said, 2.0), truth, atol=1e-8)
    tried = Tried(drawn(truth.exp(), said), "focal-map")
    assert tried.exponents[tried.best(torch.arange(2000))] == pytest.approx(2.0, abs=0.3)


def test_images_in_another_order_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="is missing"):
        read(tmp_path, "network.npz")
    path = tmp_path / JUDGEMENTS
    path.parent.mkdir()
    np.savez(path, counts=np.eye(3, dtype=np.int16) * 50, labels=np.arange(3, dtype=np.int16))
    np.savez(tmp_path / "network.npz", probs=np.full((3, 3), 1 / 3), labels=np.array([0, 2, 1]))
    with pytest.raises(InputError, match="not in the order"):
        read(tmp_path, "network.npz")


def test_chest_x_rays_are_judged_on_whole_patients(monkeypatch) -> None:
    monkeypatch.setattr(chest, "RESAMPLES", 20)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(120, 3))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
    split, patients = np.arange(120) % 2, np.arange(120) // 4
    found = chest.judged(Predictions(logits=3 * logits, labels=labels, split=split, clusters=patients))
    test, chosen = split == 1, (split == 1) & (labels > 0)
    assert (found["num_test"], found["num_calibration"], found["num_patients"]) == (60, 60, 30)
    assert found["before"]["accuracy"][0] == (logits.argmax(1) == labels)[test].mean()
    assert found["before"]["nll"][0] > found["after"]["nll"][0]
    value, low, high = found["pair"]["auroc"]
    assert value == pytest.approx(roc_auc_score(labels[chosen] == 2, (logits[:, 2] - logits[:, 1])[chosen]))
    assert low < value < high


def test_labels_of_chest_x_rays_are_repaired_one_by_one(monkeypatch) -> None:
    monkeypatch.setattr(chest, "RESAMPLES", 20)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(800, 2))
    labels = (rng.random(logits.shape) < 1 / (1 + np.exp(-logits))).astype(int)
    found = chest.labels_of(
        Predictions(logits=logits + 2, labels=labels, split=np.arange(800) % 2, class_names=["a", "b"])
    )
    assert (found["num"], found["num_test"]) == (800, 400)
    assert [each["positives"] for each in found["labels"]] == labels.sum(0).tolist()
    assert all(each["after"][0] < each["before"][0] / 2 for each in found["labels"])


def test_training_samples_that_are_all_right_have_no_temperature() -> None:
    right = train_side(torch.tensor([[2.0, 0.0]] * 5), torch.zeros(5, dtype=torch.long))
    assert right["accuracy"] == 1
    assert right["temperature"] < 0.01
    assert right["gap"] < 0
    assert shape_of(np.array([1.0, 3.0]))["50 %"] == 2


def test_runs_done_again_are_compared_by_every_number() -> None:
    """One in fifty; a number that changed or is gone is unequal, and a failed repetition is not equal."""
    assert [len(sample_of(runs)) for runs in (1, 50, 51, 300)] == [1, 1, 2, 6]
    run = KeptRun(settings={"seed": 0}, found={"stages": {"error": 0.1, "ece": 0.2}, "norms": [1.0, 2.0]})
    other = KeptRun(settings={"seed": 1, "hardware.threads": 1}, found={"stages": {"error": 0.3}})
    found = compared(run, {"stages": {"error": 0.2, "ece": 0.2}, "norms": [1.0]}, [run, other])
    assert (found["numbers"], found["unequal"]) == (4, 2)
    assert found["error"] == {"found": 0.1, "again": 0.2, "deviation": pytest.approx(0.141), "seeds": 2}
    assert compared(run, None, [run])["unequal"] is None


def test_grid_of_curvature_holds_every_arm_of_every_setting() -> None:
    every = [point.settings for point in studies.grid_of("curvature").points]
    points = {(settings["setting"], settings["arm"]) for settings in every}
    left_out = {(f"fashion-{end}", arm) for end in ("plain", "norm") for arm in ARMS if "low" in arm}
    assert points == {(setting, arm) for setting in SETTINGS for arm in ARMS} - left_out


def test_a_penalty_on_the_trace_lowers_it(monkeypatch) -> None:
    monkeypatch.setitem(ARMS, "heavy", {"beta": 0.05})
    small = {"train": 60, "calibration": 100, "test": 300, "measured": 40, "epochs": 20, "batch_size": 20}
    plain, focal, heavy = (
        trained_and_measured({"seed": 0, "arm": arm, **SETTINGS["digits-plain"], **small})
        for arm in ("focal-0", "focal-3", "heavy")
    )
    assert plain["own"] == plain["cross_entropy"]
    assert focal["own"] != focal["cross_entropy"]
    assert heavy["own"]["trace"] < 0.7 * plain["own"]["trace"]


def test_argument_of_the_generalisation_gap_in_numbers() -> None:
    """Cross-entropy: T = 1 on its sample, above on new ones; the product foretells focal loss's."""
    found = GeneralisationGap().simulate({"seed": 0, "num_samples": 200, "num_features": 40})
    train, new = found["train_temperature"], found["test_temperature"]
    assert train[0] == pytest.approx(1, abs=1e-7)
    assert new[0] > 1.5
    assert train[2] == pytest.approx(closest_temperature(1, 2).temperature, rel=0.03)
    assert train[2] * new[0] == pytest.approx(new[2], rel=0.05)
    separated = GeneralisationGap().simulate({"seed": 0, "num_samples": 20, "num_features": 40})
    assert separated["test_temperature"] == separated["limit_temperature"] == [None] * 6


def test_push_of_the_linear_model_is_the_slope_of_the_loss() -> None:
    margin = torch.linspace(-6, 6, 25, dtype=torch.float64, requires_grad=True)
    logits, labels = torch.stack([torch.zeros_like(margin), margin], 1), torch.ones(25, dtype=torch.int64)
    for gamma in linear_model.GAMMAS:
        loss = focal_loss(logits, labels, gamma=gamma, reduction="sum")
        (slope,) = torch.autograd.grad(loss, margin, retain_graph=True)
        found = linear_model.push(margin.detach().numpy()[None], np.array([[gamma]]))[0]
        np.testing.assert_allclose(found, -slope.numpy(), rtol=1e-10, atol=1e-14)


def test_posterior_of_the_linear_model_is_the_frequency() -> None:
    """Labels of the drawn points have the probabilities beside them; descent keeps its last step."""
    settings = {**linear_model.LinearModel.defaults, "spread": 0.8, "iterations": 40}
    sample = linear_model.draw(settings, 200_000, seed=1)
    excess, variance = sample.labels - sample.posterior, sample.posterior * (1 - sample.posterior)
    assert abs(excess.sum()) < 4 * np.sqrt(variance.sum())
    near = np.abs(sample.points[:, 0]) < 0.5
    slope = (excess * sample.points[:, 0])[near]
    assert abs(slope.mean()) < 4 * slope.std() / np.sqrt(near.sum())
    path = linear_model.descend(linear_model.draw(settings, 50, seed=0), settings)
    assert (min(path), max(path)) == (1, 40)


def test_distance_of_temperatures_from_their_line() -> None:
    """R² is the squared correlation; the distance is the largest, as a share of the number."""
    gammas, values = np.array(temperature_line.GAMMAS), np.sqrt(1 + np.array(temperature_line.GAMMAS))
    found, line = straight(values), np.polyval(np.polyfit(gammas, values, 1), gammas)
    assert found["R²"] == pytest.approx(np.corrcoef(gammas, values)[0, 1] ** 2)
    assert found["off"] == pytest.approx(np.abs(line / values - 1).max())
    assert (gammas[0], gammas[-1]) == (LINE_GAMMAS[0], LINE_GAMMAS[-1])


def test_searches_along_the_line_of_a_file(tmp_path, monkeypatch) -> None:
    """Every label of a file is followed; the wider search has no larger loss where it was fitted."""
    generator = np.random.default_rng(3)
    odds = 3 * generator.normal(size=(150, 2))
    np.savez(
        tmp_path / "labels.npz",
        logits=odds,
        labels=generator.random(odds.shape) < 1 / (1 + np.exp(-odds / 2)),
    )
    monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path))
    task = temperature_line.TemperatureLine()
    with few_points():
        arms = task.simulate(task.complete({"subject": "labels.npz", "divisions": 1}))["arms"]
    assert [arm["name"] for arm in arms] == ["labels.npz, label 0", "labels.npz, label 1"]
    for arm in arms:
        reached = arm["nll"]
        assert reached["full"] - 1e-9 <= reached["range"] <= reached["line"] <= reached["plain"]


@pytest.mark.parametrize("objective", ["nll", "ece"])
def test_fine_line_is_the_best_of_the_line_in_the_papers_steps(objective) -> None:
    """500 points through the anchors of T = 0.01, ..., 5.00: none of them is better than what is found."""
    generator = torch.Generator().manual_seed(21)
    logits = 4 * torch.randn(400, 6, generator=generator, dtype=torch.float64)
    labels = torch.multinomial(torch.softmax(logits / 2, dim=1), 1, generator=generator)[:, 0]
    samples = Samples(logits, labels, None)
    start, end = (
        min(PAPER_TEMPERATURES, key=lambda t: objective_value(samples, objective, t, gamma))
        for gamma in (0.0, 1.0)
    )
    points = [(start + gamma * (end - start), gamma) for gamma in np.linspace(-0.5, 5, 500).tolist()]
    points = [(start, 0.0), (end, 1.0), *(point for point in points if point[0] > 0)]
    least = min(objective_value(samples, objective, *point) for point in points)
    result = temperature_line.FineLine(objective=objective).fit(logits, labels).fit_result_
    assert result.after == pytest.approx(least, abs=1e-12)


def test_temperature_like_the_focal_map() -> None:
    """With two classes either way that of the theory; without a map 1; else the nearest in cross-entropy."""
    generator = torch.Generator().manual_seed(1)
    events = 2 * torch.randn(400, generator=generator, dtype=torch.float64)
    pairs = torch.stack([torch.zeros_like(events), events], 1)
    assert like_the_map(events, 2.0) == pytest.approx(like_the_map(pairs, 2.0), rel=1e-9)
    assert like_the_map(events, 2.0) == pytest.approx(0.3731, abs=2e-3)
    assert like_the_map(pairs, 0.0) == pytest.approx(1, rel=1e-9)
    impossible = torch.cat([pairs, torch.full((400, 1), -torch.inf)], 1)
    assert like_the_map(impossible, 1.0) == pytest.approx(like_the_map(pairs, 1.0), rel=1e-6)
    logits = 2 * torch.randn(200, 6, generator=generator, dtype=torch.float64)
    mapped = focal_calibration_map_logits(logits, gamma=3).exp()

    def distance(temperature: float) -> float:
        return float(-(mapped * (logits / temperature).log_softmax(1)).sum(1).mean())

    best = like_the_map(logits, 3.0)
    assert distance(best) < min(distance(best * 1.001), distance(best / 1.001))


def test_theory_on_files(tmp_path, monkeypatch) -> None:
    """Shares are those of the theory's function; files of the top probability alone are left out."""
    generator = np.random.default_rng(0)
    logits = 0.8 * generator.normal(size=(300, 50))
    np.savez(tmp_path / "many.npz", logits=logits, labels=generator.integers(0, 50, 300))
    np.savez(tmp_path / "top.npz", confidence=generator.random(80), correct=generator.random(80) < 0.5)
    monkeypatch.setenv("CALIBRANT_DATA", str(tmp_path))
    (found,) = studies.study("theory_on_data").measure(tmp_path)["files"]
    assert found["gammas"][0]["lowered"] > 0.05
    assert found["gammas"][0]["lowered"] == pytest.approx(confidence_change(logits, gamma=1).lowered)


def test_heads_of_many_classes() -> None:
    """A head fits separable classes; known posteriors are found to be against the two theorems."""
    labels = torch.arange(CLASSES).repeat(20)
    assert trained(5 * torch.eye(CLASSES)[labels], labels, "focal(gamma=3)", 12)[1] == 0
    lowered, raised = [0.2, *[0.8 / 99] * 99], [0.9, *[0.1 / 99] * 99]
    found = of_the_map(torch.tensor([lowered, raised, raised]).double(), torch.tensor([0, 0, 1]))
    assert [round(found["lowered"][name], 3) for name in ("share", "top", "right")] == [0.333, 0.2, 1]
    assert [round(found["raised"][name], 3) for name in ("share", "top", "right")] == [0.667, 0.9, 0.5]
    assert found["lowered"]["mapped"] < 0.2
    assert found["raised"]["mapped"] > 0.9
    against = torch.tensor([[0.18, *[0.13] * 4, *[0.3 / 95] * 95], [0.7, *[0.3 / 99] * 99]]).double()
    assert of_the_theorem(against)["further"] == 0.5


def test_every_loss_has_a_row(monkeypatch) -> None:
    """The study of properness has measured the library's losses, and would measure a planted one too."""
    measured = [row["loss"] for row in content("properness")["losses"]]
    assert measured == [name for name in every_loss() if name in measured]
    assert {"cross-entropy", "brier", "label-smoothing"} < set(measured)
    monkeypatch.setattr(calibrant.losses, "available", lambda: ("cross-entropy", "planted"))
    assert every_loss()[-1] == "planted"


@pytest.mark.parametrize("name", ["cross-entropy", "label-smoothing"])
def test_cells_of_properness(name) -> None:
    found = row_of(name, num_posteriors=2)
    (kept,) = (row for row in content("properness")["losses"] if row["loss"] == name)
    cells = ("keeps_class", "convex_in_probs", "convex_in_logits", "confidence", "confidence_many")
    assert [found[cell] for cell in cells] == [kept[cell] for cell in cells]
    assert (found["posterior"] is None, found["confidence"]) == (
        (True, "calibrated") if name == "cross-entropy" else (False, "under")
    )


def test_records_resume(tmp_path) -> None:
    """What is there is not computed again; a cut-off last line is dropped, another bad line is refused."""
    path = tmp_path / "records.jsonl"
    assert Records(path).get("a", lambda: {"value": 1})["value"] == 1
    assert Records(path).get("a", lambda: {"value": 2})["value"] == 1
    with path.open("a", encoding="utf-8") as file:
        file.write('{"key": "b", "val')
    assert Records(path).get("b", lambda: {"value": 3})["value"] == 3
    assert [json.loads(line)["value"] for line in path.read_text(encoding="utf-8").splitlines()] == [1, 3]
    path.write_text('nonsense\n{"key": "b"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="line 1, is not a record of a study"):
        Records(path)
