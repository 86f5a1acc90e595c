"""Segmentation judged image by image: the numbers of flattened positions, by whole images."""

import csv
import json
import pickle
from typing import Any

import numpy as np
import pytest
import torch

from calibrant import InputError, evaluate, load_calibrator, metrics
from calibrant.calibrators import TemperatureScaling, build
from calibrant.evaluation import Evaluation, compare, image_rows
from calibrant.evaluation.source import samples_of
from calibrant.predictions import DensePredictions, load_dense, predictions_of_positions
from command_line import call, one_line

ROUGH = {"slope", "intercept", "adaptive_ece", "smce", "brier_skill"}
"""Made of cells of confidence, 300 in all; everything else is exact."""


def outputs(
    num_classes: int, *, num_images: int = 24, seed: int = 0, split: int | None = 2
) -> dict[str, Any]:
    """Logits twice too large, labels that hang together within images, one row of each image ignored."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(num_images, num_classes, 8, 8))
    logits += rng.normal(size=(num_images, num_classes, 1, 1))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < rng.random((num_images, 1, 8, 8))).sum(axis=1)
    labels[:, 0] = 255
    marked = {} if split is None else {"split": np.arange(num_images) % split}
    return {"logits": 2 * logits, "labels": labels, **marked}


@pytest.fixture(scope="module", params=[3, 2])
def both(request) -> tuple[Evaluation, Evaluation]:
    """Three classes, and two, judged by images and flattened with images as clusters."""
    given = outputs(request.param)
    options = {"bootstrap": 40, "null_draws": 200, "calibrators": ["temperature"]}
    flat = predictions_of_positions(**given, groups=np.arange(24), ignore_index=255)
    dense = DensePredictions(**given, ignore_index=255)
    return evaluate(dense, **options), evaluate(flat, cluster="groups", **options)


def test_every_value_is_that_of_the_flattened_positions(both) -> None:
    """As they came and calibrated; what needs the order of all positions is close, the AUROC says why not."""
    images, flat = both
    for mine, theirs in zip(images.arms, flat.arms, strict=True):
        assert list(mine.metrics) == list(theirs.metrics)
        for key, found in mine.metrics.items():
            wanted = theirs.metrics[key].value
            if key == "auroc":
                assert found.value is None
                assert "read one by one" in str(found.reason)
            elif wanted is None:
                assert found.value is None
            else:
                rough = key.removeprefix("event_") in ROUGH
                assert found.value == pytest.approx(wanted, rel=0.06 if rough else 1e-9, abs=1e-9), key
    assert images.arms[1].parameters == flat.arms[1].parameters
    assert (images.num_test, images.settings.clusters) == (flat.num_test, 12)


def test_intervals_and_classes_are_those_of_whole_images(both) -> None:
    images, flat = both
    for key in ("nll", "accuracy", "ece", "brier"):
        mine, theirs = (each.arms[0].metrics[key] for each in both)
        assert (mine.high - mine.low) == pytest.approx(theirs.high - theirs.low, rel=0.5)
    for mine, theirs in zip(images.arms[0].classes, flat.arms[0].classes, strict=True):
        assert (mine.name, mine.count) == (theirs.name, theirs.count)
        assert mine.accuracy == pytest.approx(theirs.accuracy)
        assert mine.ece == pytest.approx(theirs.ece)
    assert images.arms[0].curves[0].counts == flat.arms[0].curves[0].counts
    directions = {"over-confident", "over-predicting"}  # of two classes those of the event
    assert images.verdict.direction == flat.verdict.direction
    assert images.verdict.direction in directions
    assert any("12 images were read" in note for note in images.notes)
    json.loads(images.to_json())


def test_a_resample_of_every_image_has_the_class_wise_error() -> None:
    dense = DensePredictions(**outputs(3), ignore_index=255)
    reduced = samples_of(dense, 15).reduced(())
    counts = np.ones((2, len(reduced.clusters))) * [[1], [2]]
    assert reduced.classwise(counts) == pytest.approx([reduced.values["classwise_ece"]] * 2)


def test_images_without_a_position_that_counts_are_not_counted(tmp_path) -> None:
    """One of six images is ignored throughout: five clusters; of a pair one is too few."""
    given = outputs(3, num_images=6, split=None)
    given["labels"][2] = 255
    found = evaluate(DensePredictions(**given, ignore_index=255), calibrators=[], bootstrap=20, null_draws=20)
    assert found.settings.clusters == 5
    assert any("5 images were read" in note and "1 more had no position" in note for note in found.notes)
    pair = {name: values[2:4] for name, values in given.items()}
    with pytest.raises(InputError, match=r"positions that count.* got 1"):
        evaluate(DensePredictions(**pair, ignore_index=255), calibrators=[])


def test_gates_and_comparisons_take_images(tmp_path) -> None:
    """The same images are paired, others are not."""
    given = outputs(3, split=None)
    dense = DensePredictions(**given, ignore_index=255)
    better = DensePredictions(**given | {"logits": given["logits"] / 2}, ignore_index=255)
    found = compare([("as it is", dense), ("better", better)], bootstrap=20, null_draws=20)
    assert (found.paired, found.settings.clusters) == (True, 24)
    assert found.models[1].difference["nll"].high < 0
    others = DensePredictions(**outputs(3, seed=1) | {"split": None}, ignore_index=255)
    assert not compare([("one", dense), ("other", others)], bootstrap=2, null_draws=2).paired
    for name, logits in (("a", given["logits"]), ("b", given["logits"] / 2)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "logits.npy", logits)
        np.save(tmp_path / name / "labels.npy", given["labels"])
    asked = ("a", "b", "--ignore-index", "255", "--bootstrap", "20")
    call("compare", *asked, folder=tmp_path, code=0)
    done = call("check b --baseline a --ignore-index 255 --bootstrap 20", folder=tmp_path)
    assert (done.returncode, "(same samples)" in done.stdout) == (0, True)


def test_rows_of_images_are_the_metrics_of_each() -> None:
    given = outputs(3, num_images=3, split=None)
    fitted = TemperatureScaling().fit(given["logits"], given["labels"], ignore_index=255)
    for calibrator in (None, fitted):
        rows = image_rows(DensePredictions(**given, ignore_index=255), calibrator=calibrator)
        for k, row in enumerate(rows):
            part = {name: array[k : k + 1] for name, array in given.items()}
            alone = predictions_of_positions(**part, ignore_index=255)
            probs = alone.probs if calibrator is None else calibrator.predict_proba(alone.scores)
            wanted = [
                metrics.expected_calibration_error(probs, alone.labels),
                metrics.negative_log_likelihood(probs, alone.labels),
                metrics.brier_score(probs, alone.labels),
                metrics.accuracy(probs, alone.labels),
                probs.amax(dim=1).mean() - metrics.accuracy(probs, alone.labels),
            ]
            found = [row.ece, row.nll, row.brier, row.accuracy, row.gap]
            assert found == pytest.approx([float(each) for each in wanted])
            assert row.count == alone.num_samples == 56


def test_calibrators_take_positions() -> None:
    """Fitted on images as on their positions, and they give probabilities of the images' shape."""
    given = outputs(3, num_images=3)
    flat = predictions_of_positions(logits=given["logits"], labels=given["labels"], ignore_index=255)
    dense = TemperatureScaling().fit(given["logits"], given["labels"], ignore_index=255)
    plain = TemperatureScaling().fit(flat.scores, flat.labels)
    assert float(dense.temperature) == float(plain.temperature)
    logits = torch.from_numpy(given["logits"])
    expected = (logits / dense.temperature).softmax(dim=1)
    torch.testing.assert_close(dense.predict_proba(logits), expected)
    torch.testing.assert_close(dense(logits).exp(), expected)
    with pytest.raises(InputError, match="no position is left"):
        TemperatureScaling().fit(given["logits"], np.full((3, 8, 8), 255), ignore_index=255)


@pytest.mark.parametrize("name", ["vector", "histogram"])
def test_calibrators_with_numbers_for_each_class_take_further_dimensions(name) -> None:
    """Of volumes ``(N, C, D, H, W)`` each class has its own at every position."""
    given = outputs(3, num_images=4)
    logits = given["logits"].reshape(4, 3, 2, 4, 8).astype(np.float64)
    labels = given["labels"].reshape(4, 2, 4, 8)
    flat, kept = np.moveaxis(logits, 1, -1).reshape(-1, 3), labels.reshape(-1) != 255
    volumes = build(name).fit(logits, labels, ignore_index=255)
    rows = build(name).fit(flat[kept], labels.reshape(-1)[kept])
    found = volumes.predict_proba(logits)
    assert found.shape == logits.shape
    assert torch.equal(found.movedim(1, -1).reshape(-1, 3), rows.predict_proba(flat))


def test_files_are_read_one_image_at_a_time(tmp_path) -> None:
    """A folder of arrays, a folder for each, and an archive give the same images, also out of order."""
    given = outputs(3, num_images=4)
    np.savez_compressed(tmp_path / "all.npz", logits=given["logits"], labels=given["labels"])
    for name in ("logits", "labels"):
        (tmp_path / "one").mkdir(exist_ok=True)
        np.save(tmp_path / "one" / f"{name}.npy", given[name])
        (tmp_path / "each" / name).mkdir(parents=True)
        for k in range(4):
            np.save(tmp_path / "each" / name / f"street{k}.npy", given[name][k])
    expected = DensePredictions(logits=given["logits"], labels=given["labels"], ignore_index=255)
    for place in ("all.npz", "one", "each"):
        dense = load_dense(tmp_path / place, ignore_index=255)
        for found, wanted in zip(dense.images([2, 0, 3]), expected.images([2, 0, 3]), strict=True):
            np.testing.assert_array_equal(found.scores, wanted.scores)
            np.testing.assert_array_equal(found.labels, wanted.labels)
        assert dense.names == (tuple(f"street{k}" for k in range(4)) if place == "each" else tuple("0123"))
        assert dense.in_any_order == (place != "all.npz")
    command = ("check", "all.npz", "--max-ece", "0.9", "--ignore-index", "255", "--engine", "serial")
    refused = call(*command, folder=tmp_path)
    assert "packed, and read in order. Leave out --engine" in " ".join(refused.stderr.split())
    # An archive whose numbers were changed is refused by its name, without a trace.
    given = outputs(3, num_images=2)
    path = tmp_path / "some.npz"
    np.savez(path, logits=given["logits"], labels=given["labels"])
    content = bytearray(path.read_bytes())
    at = content.find(given["logits"][1].tobytes()[-64:])
    content[at] ^= 255
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"some\.npz is damaged: Bad CRC-32"):
        list(load_dense(path, ignore_index=255).images())


@pytest.mark.parametrize("form", ["one file", "a file for each image", "archive"])
def test_whoever_sums_up_which_image_the_bits_are_the_same(form, tmp_path) -> None:
    """Workers that open the folder themselves and begin at its end find the answer of one process."""
    given = outputs(3, num_images=8)
    for name in ("logits", "labels"):
        if form == "archive":
            np.savez(tmp_path / "all.npz", logits=given["logits"], labels=given["labels"])
        elif form == "a file for each image":
            (tmp_path / name).mkdir()
            for place, values in enumerate(given[name]):
                np.save(tmp_path / name / f"{place}.npy", values)
        else:
            np.save(tmp_path / f"{name}.npy", given[name])
    dense = load_dense(tmp_path / "all.npz" if form == "archive" else tmp_path, ignore_index=255)
    assert dense.in_any_order
    quick = {"bootstrap": 10, "null_draws": 10, "calibrators": []}

    def backwards(task, items):
        found = {item: pickle.loads(pickle.dumps(task))(item) for item in reversed(items)}
        return (found[item] for item in items)

    wanted = evaluate(dense, **quick)
    assert evaluate(dense, spread=backwards, **quick).to_json() == wanted.to_json()
    assert len(pickle.dumps(dense)) < 4000  # where the files lie, not what they hold


def test_probabilities_and_sizes_may_differ(tmp_path) -> None:
    """Probabilities give what their logits give; images need not be of one size; zeros are counted."""
    rng = np.random.default_rng(3)
    logits = [rng.normal(size=(3, 4 + k, 5)) for k in range(3)]
    labels = [rng.integers(0, 3, (4 + k, 5)) for k in range(3)]
    probs = [np.exp(each) / np.exp(each).sum(axis=0) for each in logits]
    mine = image_rows(DensePredictions(probs=probs, labels=labels))
    theirs = image_rows(DensePredictions(logits=logits, labels=labels))
    assert [row.nll for row in mine] == pytest.approx([row.nll for row in theirs])
    assert [row.count for row in mine] == [20, 25, 30]
    probs[1][:, 0, 0] = [1.0, 0.0, 0.0]
    labels[1][0, 0] = 2
    found = evaluate(DensePredictions(probs=probs, labels=labels), bootstrap=20, null_draws=20)
    assert found.arms[0].metrics["nll"].reason == "infinite: 1 positions give their true class probability 0"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"labels": np.zeros((3, 2, 2), int)}, "`labels` must hold 2 images; got 3"),
        ({"labels": np.full((2, 2, 2), 7)}, "image '0' holds 7; pass ignore_index=7"),
        ({"labels": np.full((2, 2, 2), 3)}, "image '0' holds 3; pass ignore_index=3"),
        ({"labels": np.zeros((2, 2, 3), int)}, "image '0' has"),
        ({"logits": np.full((2, 3, 2, 2), np.nan)}, "finite numbers; image '0' holds nan"),
        ({"logits": np.zeros((2, 3))}, "shape"),
        ({"class_names": ["a"]}, "must hold 3 names; got 1"),
        ({"names": ["a", "a"]}, "2 different names; got 2 names, 1 of them different"),
        ({"names": ["a", "a", "b"]}, "2 different names; got 3 names"),
        ({"labels": np.full((2, 2, 2), 3)}, "image '0' holds 3; .* or subtract 1 if classes are numbered"),
        (
            {"logits": np.zeros((2, 1, 2, 2)), "labels": np.full((2, 2, 2), 255)},
            "image '0' holds 255; .* or write 1 if it marks class 1",
        ),
        ({"labels": np.zeros((2, 3, 2, 2), int)}, "pass `labels.argmax.1.` if they are one-hot"),
        ({"labels": np.full((2, 2, 2), 0.5)}, "must be integers; image '0' holds 0.5"),
        ({"labels": np.full((2, 2, 2), np.nan)}, "must be integers; image '0' holds nan"),
        ({"labels": np.full((2, 2, 2), -np.inf)}, "must be integers; image '0' holds -inf"),
    ],
)
def test_what_is_wrong_is_said_with_the_image(changed, message) -> None:
    given = {"logits": np.zeros((2, 3, 2, 2)), "labels": np.zeros((2, 2, 2), int)} | changed
    with pytest.raises(InputError, match=message):
        image_rows(DensePredictions(**given))


@pytest.mark.parametrize("space", ["logits", "probs"])
def test_a_score_of_one_class_is_an_event(space, tmp_path) -> None:
    """With a channel or without, as arrays and as files, labels too: the numbers of two channels."""
    rng = np.random.default_rng(0)
    odds = rng.normal(size=(5, 6, 7))
    labels = (rng.random((5, 6, 7)) < 0.5).astype(int)
    event = odds if space == "logits" else 1 / (1 + np.exp(-odds))
    pair = np.stack([np.zeros_like(odds) if space == "logits" else 1 - event, event], axis=1)
    wanted = image_rows(DensePredictions(**{space: pair}, labels=labels))
    np.save(tmp_path / f"{space}.npy", event)
    np.save(tmp_path / "labels.npy", labels)
    for scores, truth in (
        (event, labels),
        (event[:, None], labels),
        (event[:, None], labels[:, None]),
        (list(event), list(labels)),
    ):
        dense = DensePredictions(**{space: scores}, labels=truth)
        assert (dense.kind, dense.num_classes) == ("binary", 2)
        assert image_rows(dense) == wanted
    assert image_rows(load_dense(tmp_path)) == wanted
    (even,) = image_rows(DensePredictions(logits=np.zeros((1, 2, 2, 2)), labels=np.array([[[0, 1], [1, 1]]])))
    assert (even.accuracy, even.mean_confidence) == (0.25, 0.5)  # of two equally probable classes the lower


@pytest.mark.parametrize("channel", [(), (1,)])
def test_images_of_an_event_are_repaired_in_their_form(channel, tmp_path) -> None:
    rng = np.random.default_rng(0)
    odds = rng.normal(size=(6, *channel, 8, 9))
    (tmp_path / "images").mkdir()
    np.save(tmp_path / "images" / "logits.npy", 2 * odds)
    np.save(tmp_path / "images" / "labels.npy", rng.random(odds.shape) < 1 / (1 + np.exp(-odds)))
    call("fit", "images", "--method", "temperature", "--all", "--out", "c.safetensors", folder=tmp_path)
    call("apply", "c.safetensors", "images", "--out", "repaired", folder=tmp_path, code=0)
    temperature = float(load_calibrator(tmp_path / "c.safetensors").temperature)
    wanted = 1 / (1 + np.exp(-2 * odds / temperature))
    np.testing.assert_allclose(np.load(tmp_path / "repaired" / "probs.npy"), wanted, atol=1e-12)


def test_large_images_of_probabilities_are_calibrated_like_small_ones(monkeypatch) -> None:
    """An image that is read in several blocks gives what one block gives, of logits and of probabilities."""
    given = outputs(3, num_images=2, split=None)
    probs = torch.from_numpy(given["logits"]).softmax(dim=1).numpy()
    fitted = TemperatureScaling().fit(given["logits"], given["labels"], ignore_index=255)
    dense = DensePredictions(probs=probs, labels=given["labels"], ignore_index=255)
    whole = image_rows(dense, calibrator=fitted)
    monkeypatch.setattr("calibrant.evaluation.dense.sums.POSITIONS", 10)
    for found, wanted in zip(image_rows(dense, calibrator=fitted), whole, strict=True):
        assert (found.nll, found.ece) == pytest.approx((wanted.nll, wanted.ece), rel=1e-12)


def test_images_without_positions_and_single_images() -> None:
    """Where nothing counts there are no rows; one image cannot be judged, as it is a single cluster."""
    given = {"logits": np.zeros((1, 2, 3, 3)), "labels": np.full((1, 3, 3), 255)}
    assert image_rows(DensePredictions(**given, ignore_index=255)) == []
    with pytest.raises(InputError, match="two images or more"):
        evaluate(DensePredictions(logits=given["logits"], labels=given["labels"] * 0), bootstrap=2)
    with pytest.raises(InputError, match="`num_positions` must be at least 1"):
        DensePredictions(logits=given["logits"], labels=given["labels"] * 0).sample(0)


def test_the_command_judges_a_folder_and_writes_a_row_for_each_image(tmp_path, monkeypatch) -> None:
    """``evaluate FOLDER --ignore-index``; the table of images; other files refuse these options."""
    given = outputs(3, num_images=8)
    (tmp_path / "streets").mkdir()
    for name in ("logits", "labels"):
        np.save(tmp_path / "streets" / f"{name}.npy", given[name])
    line = "evaluate streets --ignore-index 255 --images images.csv --bootstrap 20 --method temperature"
    call(f"{line} --json found.json", folder=tmp_path, code=0)
    with (tmp_path / "images.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == list("01234567")
    assert json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["settings"]["clusters"] == 4
    for name, message in (("images.csv", "already exists"), ("images.txt", "must end in .csv")):
        again = call("evaluate", "streets", "--images", name, folder=tmp_path)
        assert (again.returncode, message in again.stderr) == (2, True)
    line = "fit streets --all --ignore-index 255 --method temperature -o c.safetensors"
    call(line, folder=tmp_path, code=0)
    dense = DensePredictions(logits=given["logits"], labels=given["labels"], ignore_index=255)
    pixels = dense.sample(1000)
    expected = TemperatureScaling().fit(pixels.scores, pixels.labels)
    assert float(load_calibrator(tmp_path / "c.safetensors").temperature) == pytest.approx(
        float(expected.temperature), rel=1e-9
    )
    monkeypatch.setattr("calibrant.repair.fitting.MOST_FITTED", 8 * 3 * 5)  # of each image 5 positions
    for method, number in (("temperature", pixels.num_samples), ("vector", 40)):
        done = call("fit", "streets", "--ignore-index", "255", "--method", method, "--engine", "serial",
                    "-o", f"{method}.safetensors", "--all", folder=tmp_path)  # fmt: skip
        assert f"fitted on {number} samples" in done.stdout
        assert ("--engine does nothing" in one_line(done.stderr)) == (method == "vector")
    by_sums = load_calibrator(tmp_path / "temperature.safetensors")
    assert float(by_sums.temperature) == pytest.approx(float(expected.temperature), rel=1e-9)
    np.savez(tmp_path / "plain.npz", logits=np.zeros((4, 2)), labels=np.zeros(4, int))
    wrong = call("evaluate", "plain.npz", "--ignore-index", "255", folder=tmp_path)
    assert (wrong.returncode, "need segmentation logits" in wrong.stderr) == (2, True)


def test_where_nothing_is_fitted_all_images_are_judged() -> None:
    """Without a split none is put aside; with one the images marked for the test are judged."""
    given = outputs(3, num_images=6)
    options = {"bootstrap": 2, "null_draws": 2, "calibrators": []}
    for split, num_images in ((None, 6), (given["split"], 3)):
        found = evaluate(DensePredictions(**given | {"split": split}, ignore_index=255), **options)
        assert (found.num_calibration, found.num_test) == (0, num_images * 56)
        assert not any("fitted" in note for note in found.notes)
