"""COCO's files: which detections are right, worked out by hand."""

import json
from pathlib import Path

import numpy as np
import pytest

from calibrant import InputError
from calibrant.calibrators import PlattScaling, fit_detections, save_detection_calibration
from calibrant.predictions import DensePredictions, Predictions, load_detections
from calibrant.predictions.to_event import to_repair
from command_line import call, one_line

TRUTH = {
    "images": [{"id": 7, "width": 100, "height": 50}, {"id": 8, "width": 100, "height": 100}],
    "categories": [{"id": 1, "name": "car"}, {"id": 2, "name": "dog"}],
    "annotations": [
        {"image_id": 7, "category_id": 1, "bbox": [0, 0, 10, 10]},
        {"image_id": 7, "category_id": 1, "bbox": [40, 0, 10, 10]},
        {"image_id": 8, "category_id": 2, "bbox": [0, 0, 20, 20]},
        {"image_id": 8, "category_id": 1, "bbox": [50, 50, 50, 50], "iscrowd": 1},
    ],
}
FOUND = [
    (7, 1, [0, 0, 10, 8], 0.6),  # overlaps the first car by .8, but a surer one took it
    (7, 1, [0, 0, 10, 9], 0.9),  # right
    (7, 1, [44, 0, 10, 10], 0.8),  # 60 of 140: .43
    (7, 2, [0, 0, 10, 10], 0.7),  # a dog where a car is
    (8, 2, [0, 0, 20, 10], 0.5),  # exactly one half
    (8, 1, [60, 60, 10, 10], 0.4),  # within a crowd
]


@pytest.fixture
def files(tmp_path) -> tuple[Path, Path]:
    results, truth = tmp_path / "results.json", tmp_path / "annotations.json"
    keys = ("image_id", "category_id", "bbox", "score")
    results.write_text(json.dumps([dict(zip(keys, each, strict=True)) for each in FOUND]))
    truth.write_text(json.dumps(TRUTH))
    return results, truth


def test_detections_are_matched_surest_first(files) -> None:
    """One box matches once, classes do not mix, just the limit is enough, crowds are left out."""
    found = load_detections(*files)
    assert found.confidences.tolist() == [0.6, 0.9, 0.8, 0.7, 0.5]
    assert found.correct.tolist() == [False, True, False, False, True]
    assert found.classes == ("car", "car", "car", "dog", "dog")
    assert found.images == ("7", "7", "7", "7", "8")
    assert found.num_left_out == 1
    np.testing.assert_allclose(found.boxes[2], [0.49, 0.1, 0.1, 0.2])
    assert load_detections(*files, iou=0.4).correct.tolist() == [False, True, True, False, True]
    table = load_detections(*files).predictions()
    assert (table.kind, table.groups, table.clusters) == ("top_label", found.classes, found.images)
    assert table.notes == ("1 detection of crowds is left out.",)
    assert found.covariates(["height", "x"])[2].tolist() == pytest.approx([0.2, 0.49])


def test_groups_may_be_bands_of_the_boxes(files) -> None:
    """In place of the classes; other names, and columns that boxes do not have, are refused."""
    found = load_detections(*files).predictions(bands=["width:0.15"])
    assert found.groups == ("width=<0.15", "width=<0.15", "width=<0.15", "width=<0.15", "width=0.15+")
    assert load_detections(*files).predictions(bands=["x:0.2", "height:0.25"]).groups[2:4] == (
        "x=0.2+; height=<0.25",
        "x=<0.2; height=<0.25",
    )
    with pytest.raises(InputError, match="`bands` must be among x, y, width, height of boxes; got 'area'"):
        load_detections(*files).predictions(bands=["area"])
    evaluate = f"evaluate {files[0].name} --annotations {files[1].name} --cluster patient"
    done = call(evaluate, folder=files[0].parent)
    assert done.returncode == 2
    assert "--cluster is for tables; leave it out with --annotations" in one_line(done.stderr)


def test_commands_read_them_by_their_annotations(files, tmp_path) -> None:
    truth, found = json.loads(files[1].read_text()), []
    rng = np.random.default_rng(0)
    truth["images"] = [{"id": k, "width": 100, "height": 100} for k in range(40)]
    truth["annotations"] = [{"image_id": k, "category_id": 1, "bbox": [0, 0, 20, 20]} for k in range(40)]
    for k in range(40):
        for _ in range(3):
            near = rng.random() < 0.5
            box = [int(rng.integers(0, 6)) if near else 60, 0, 20, 20]
            found.append({"image_id": k, "category_id": 1, "bbox": box, "score": 0.9 if near else 0.4})
    files[0].write_text(json.dumps(found))
    files[1].write_text(json.dumps(truth))
    options = ("results.json", "--annotations", "annotations.json", "--iou", "0.6")
    done = call("evaluate", *options, "--bootstrap", "20", "--method", "platt", "--json", "found.json",
                folder=tmp_path)  # fmt: skip
    assert done.returncode == 0, done.stderr
    judged = json.loads((tmp_path / "found.json").read_text())
    assert judged["settings"]["clusters"] == 40
    fitted = call("fit", *options, "--all", "--method", "platt", "--out", "c.safetensors", folder=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    _, apply = judged["verdict"]["commands"]
    assert apply == "calibrant apply platt.safetensors NEW.json --out REPAIRED.json"


@pytest.mark.parametrize("count", [1, 6])
def test_new_detections_are_repaired_as_they_are(tmp_path, count: int) -> None:
    """No annotations: the same list with other scores, all other fields kept, a single one too."""
    rng = np.random.default_rng(0)
    sure = rng.random(300)
    predictions = Predictions(confidence=sure, correct=(rng.random(300) < sure / 2).astype(int))
    event = to_repair(predictions)
    fitted = PlattScaling().fit(event.scores, event.labels)
    fitted.class_names_ = event.class_names
    fitted.save(tmp_path / "c.safetensors")
    keys = ("image_id", "category_id", "bbox", "score", "segmentation")
    given = [dict(zip(keys, (*each, {"size": [2, 2]}), strict=True)) for each in FOUND[:count]]
    (tmp_path / "new.json").write_text(json.dumps(given))
    command = ("apply", "c.safetensors", "new.json", "--out", "out.json")
    unused = call(*command, "--annotations", "none.json", folder=tmp_path)
    assert (unused.returncode, "--annotations is not used here" in unused.stderr) == (2, True)
    done = call(*command, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    made = json.loads((tmp_path / "out.json").read_text())
    assert {each.pop("calibrated_by") for each in made} == {"calibrant: platt"}
    assert [{**each, "score": old["score"]} for each, old in zip(made, given, strict=True)] == given
    scores = np.array([each["score"] for each in given])
    expected = fitted.predict_proba(np.log(scores / (1 - scores))).tolist()
    assert [each["score"] for each in made] == pytest.approx(expected, rel=1e-12)
    given[0]["score"] = 1.5
    (tmp_path / "new.json").write_text(json.dumps(given))
    wrong = call("apply", "c.safetensors", "new.json", "--out", "out.json", folder=tmp_path)
    assert "new.json: `score` must be a number in 0..1; detection 0 has 1.5" in wrong.stderr


def test_wrong_files_are_named(files, tmp_path) -> None:
    results, truth = files
    with pytest.raises(InputError, match="must be a list of detections"):
        load_detections(truth, results)
    for key, value, message in (
        ("image_id", 9, "detection 1 is in image 9, which is not annotated"),
        ("image_id", "8", "detection 1 is in image '8', which is not annotated; .* such as 7"),
        ("score", "0.5", "`score` must be a number in 0..1; detection 1 has '0.5'"),
        ("score", 1.5, "`score` must be a number in 0..1; detection 1 has 1.5"),
        ("category_id", 5, "detection 1 is of class 5, which is none of the 2 `categories`"),
        ("bbox", [0, 0, 1], "`bbox` must be x, y, width and height; got"),
        ("bbox", [0, 0, 1, float("nan")], "`bbox` must be x, y, width and height; got"),
    ):
        found = json.loads(results.read_text())
        found[1][key] = value
        (tmp_path / "wrong.json").write_text(json.dumps(found))
        with pytest.raises(InputError, match=message):
            load_detections(tmp_path / "wrong.json", truth)
    lacking = '[{"image_id": 7, "score": 0.5}]'
    for text, message in ((lacking, "an entry lacks 'category_id'"), ("[]", "must be a list of detections")):
        (tmp_path / "wrong.json").write_text(text)
        with pytest.raises(InputError, match=message):
            load_detections(tmp_path / "wrong.json", truth)
    (tmp_path / "wrong.json").write_text('{"annotations": []}')
    with pytest.raises(InputError, match="with `images`, `annotations` and `categories`"):
        load_detections(results, tmp_path / "wrong.json")
    with pytest.raises(InputError, match="`iou` must be above 0"):
        load_detections(results, truth, iou=0)


def test_boxes_of_two_corners_are_refused(files) -> None:
    """x1, y1, x2, y2 read as corner and size would end beyond the images; boxes at an edge may."""
    results, truth = files
    keys = ("image_id", "category_id", "bbox", "score")
    corners = [(7, 1, [60, 30, 90, 45], 0.6), (8, 2, [50, 50, 80, 95], 0.9), (8, 2, [1, 1, 9, 9], 0.9)]
    results.write_text(json.dumps([dict(zip(keys, each, strict=True)) for each in corners]))
    with pytest.raises(InputError, match=r"2 of 3 boxes would end beyond .* as if they held two corners"):
        load_detections(results, truth)
    sizes = [(7, 1, [60, 30, 45, 25], 0.6), (8, 2, [50, 50, 60, 55], 0.9)]
    results.write_text(json.dumps([dict(zip(keys, each, strict=True)) for each in sizes]))
    assert len(load_detections(results, truth).confidences) == 2


def test_detections_of_one_image_are_judged_without_clusters(files) -> None:
    results, truth = files
    given = [each for each in json.loads(results.read_text()) if each["image_id"] == 7]
    results.write_text(json.dumps(given))
    assert load_detections(results, truth).predictions().clusters is None


def test_files_of_coco_alone_are_called_so(files) -> None:
    results, truth = files
    for arguments, message in (
        ((results,), "it holds COCO's detections; name their --annotations"),
        ((truth,), "it holds COCO's annotations; give it as --annotations of a file of detections"),
        ((results, "--annotations", results), "with `images`, `annotations` and `categories`"),
    ):
        assert message in one_line(call("evaluate", *map(str, arguments), folder=results.parent).stderr)


def test_a_calibrator_by_place_is_fitted_and_applied_on_the_command_line(tmp_path) -> None:
    """Cars on the left state too much: after it the scores there are lower, all other fields are kept."""
    rng = np.random.default_rng(0)
    truth = {"images": [{"id": k, "width": 200, "height": 100} for k in range(300)], "annotations": []}
    truth["categories"] = [{"id": 1, "name": "car"}]
    found = []
    for k in range(300):
        left, score = bool(k % 2), 0.3 + 0.6 * rng.random()
        box = [10 if left else 150, 10, 30, 30]
        found.append({"image_id": k, "category_id": 1, "bbox": box, "score": score, "mine": k})
        if rng.random() < score * (0.3 if left else 1.0):
            truth["annotations"].append({"image_id": k, "category_id": 1, "bbox": box})
    for name, content in (("truth", truth), ("found", found)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    beside = ("--annotations", "truth.json")
    fit = ("fit", "found.json", *beside, "--method", "detection-logistic", "-o", "c.safetensors")
    assert "fit on every detection with --all" in one_line(call(*fit, folder=tmp_path).stderr)
    done = call(*fit, "--all", folder=tmp_path)
    assert (done.returncode, "300 detections in 300 images by confidence, x, y" in done.stdout) == (0, True)
    done = call("apply", "c.safetensors", "found.json", *beside, "-o", "better.json", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    after = json.loads((tmp_path / "better.json").read_text())
    assert [each["mine"] for each in after] == list(range(300))
    means = [np.mean([each["score"] for each in after[side::2]]) for side in (0, 1)]
    assert means[1] < 0.35 < 0.5 < means[0]
    without = call("apply", "c.safetensors", "found.json", "-o", "worse.json", folder=tmp_path)
    assert (without.returncode, "(--annotations) must name the images" in one_line(without.stderr)) == (
        2,
        True,
    )


@pytest.mark.parametrize("names", [(), ("speed",)])
def test_a_calibrator_of_other_covariates_is_refused(names, files, tmp_path) -> None:
    """Covariates that no box has, or that have no names, are told from those of a box in one sentence."""
    places = np.arange(8)[:, None] / 8
    save_detection_calibration(
        fit_detections(places[::-1, 0], [0, 1] * 4, places, names=names), tmp_path / "c.safetensors"
    )
    results, truth = files
    given = ("apply", "c.safetensors", str(results), "--annotations", str(truth), "-o", "better.json")
    refused = call(*given, folder=tmp_path)
    said = "must name its covariates, each among x, y, width, height; got "
    assert (refused.returncode, said + (", ".join(names) or "no names") in refused.stderr) == (2, True)


def test_one_image_is_told_in_the_singular() -> None:
    dense = DensePredictions(logits=np.zeros((1, 3, 2, 2)), labels=np.zeros((1, 2, 2), int))
    assert repr(dense) == "DensePredictions(1 image, 3 classes, logits)"
