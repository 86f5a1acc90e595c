"""``calibrant.fit`` and ``calibrant.apply`` do in Python what the commands do."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from calibrant import InputError, Predictions, apply, evaluate, fit, load_calibrator, load_predictions
from calibrant.calibrators import DetectionCalibration, GroupCalibrator, Multicalibrator
from calibrant.predictions import load_detections
from command_line import call


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of three classes, half of it to fit on, with groups and a column that nobody uses."""
    rng = np.random.default_rng(0)
    logits = 3 * rng.normal(size=(240, 3))
    labels = (logits / 2 + rng.gumbel(size=logits.shape)).argmax(axis=1)
    rows = [
        ",".join([*map(repr, map(float, row)), str(label), str(k % 2), "ab"[k // 2 % 2], f"id{k}"])
        for k, (row, label) in enumerate(zip(logits, labels, strict=True))
    ]
    path = tmp_path / "p.csv"
    path.write_text("logit_0,logit_1,logit_2,label,split,group,case\n" + "\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize("method", [None, "vector"])
def test_a_file_is_fitted_and_repaired_as_by_the_commands(table: Path, method: str | None) -> None:
    folder = table.parent
    named = () if method is None else ("--method", method)
    assert call("fit", "p.csv", *named, "-o", "c.safetensors", folder=folder).returncode == 0
    assert call("apply", "c.safetensors", "p.csv", "-o", "q.csv", folder=folder).returncode == 0
    fitted = fit(table, method=method)
    known = load_calibrator(folder / "c.safetensors")
    assert (fitted.text, fitted.fit_result_.parameters) == (known.text, known.fit_result_.parameters)
    said: list[str] = []
    found = apply(fitted, table, folder / "mine.csv", say=said.append)
    assert (folder / "mine.csv").read_text() == (folder / "q.csv").read_text()
    assert found.probs.tolist() == load_predictions(folder / "q.csv").probs.tolist()
    assert said[-1] == f"Calibrated probabilities of 240 samples: {folder / 'mine.csv'}"
    with pytest.raises(InputError, match="already exists and has other content"):
        apply(fit(table, method="dirichlet"), table, folder / "mine.csv")
    with pytest.raises(InputError, match=r"q\.csv is calibrated already"):
        fit(folder / "q.csv")
    assert fit(folder / "q.csv", method="temperature", force=True).fit_result_.num_samples == 120


@pytest.mark.parametrize("names", [None, ("benign", "malignant")])
@pytest.mark.parametrize("method", ["platt", "isotonic"])
def test_an_event_that_is_class_0_is_found_in_new_predictions(
    names: tuple[str, str] | None, method: str
) -> None:
    """Of two columns and of class 1 alone, by name and by number; each keeps its form."""
    rng = np.random.default_rng(0)
    scores = rng.normal(0.5, 1, size=400)
    labels = (rng.random(400) < 1 / (1 + np.exp(-scores))).astype(int)
    one = 1 / (1 + np.exp(-2 * scores))
    two = np.stack([1 - one, one], axis=1)
    given = Predictions(probs=two, labels=labels, class_names=names)
    event = 0 if names is None else "benign"
    evaluation = evaluate(given, positive_class=event, calibrators=[method], bootstrap=20, null_draws=50)
    calibrator = evaluation.arm(method).calibrator
    assert calibrator is not None
    right = apply(calibrator, given.as_binary(event)).probs
    assert right.tolist() == calibrator.predict_proba(given.as_binary(event).scores).tolist()
    both = apply(calibrator, Predictions(probs=two, class_names=names))
    assert (both.kind, both.class_names) == ("multiclass", names)
    assert both.probs[:, 0].tolist() == pytest.approx(right.tolist(), abs=1e-15)
    alone = apply(calibrator, Predictions(probs=one, class_names=names))
    assert alone.probs.tolist() == pytest.approx((1 - right).tolist(), abs=1e-12)
    if names is not None:
        turned = apply(calibrator, Predictions(probs=two[:, ::-1].copy(), class_names=names[::-1]))
        assert turned.probs[:, 1].tolist() == right.tolist()


def test_one_new_sample_is_repaired(table: Path) -> None:
    given = load_predictions(table)
    fitted = fit(given, method="temperature")
    for one in (Predictions(logits=given.scores[:1]), Predictions(probs=pd.DataFrame(given.probs[:1]))):
        expected = apply(fitted, given).probs[0].tolist()
        assert apply(fitted, one).probs.tolist() == [pytest.approx(expected, rel=1e-12)]
    with pytest.raises(InputError, match="must hold at least two samples; got 1"):
        Predictions(probs=given.probs[:1], labels=[0])
    with pytest.raises(InputError, match="`labels` must be given"):
        evaluate(probs=given.probs[:1])


def test_other_arguments_have_one_sentence(table: Path) -> None:
    """Arrays and frames are to be wrapped; what is swapped, or is an evaluation, is named."""
    given = load_predictions(table)
    fitted = fit(given, method="temperature")
    wrap = r"wrap arrays as `calibrant\.Predictions\(probs=probs\)`"
    others = ((pd.DataFrame(given.probs), wrap), (given.probs.numpy(), wrap), (object(), "load_predictions"))
    for other, said in others:
        with pytest.raises(TypeError, match=f"`predictions` must be Predictions; got .*; .*{said}"):
            apply(fitted, other)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"`calibrator` must be .* got Predictions; it comes before"):
        apply(given, fitted)  # pyright: ignore[reportArgumentType]


def test_the_method_says_what_is_fitted(table: Path) -> None:
    """A calibrator for each group, corrections of groups, and an unknown name in one sentence."""
    given = load_predictions(table)
    by_group = fit(given, method="temperature", by_group=True)
    assert isinstance(by_group, GroupCalibrator)
    assert [*by_group.by_group] == ["a", "b"]
    other = given.with_groups(["c"] * len(given))
    with pytest.raises(InputError, match="row 0 is of group 'c'"):
        apply(by_group, other)
    pooled = apply(by_group, other, unknown_groups="pooled")
    assert pooled.probs.tolist() == by_group.pooled.predict_proba(given.scores).tolist()
    assert by_group.unknown == "error"
    assert isinstance(fit(given, method="multicalibration"), Multicalibrator)
    with pytest.raises(InputError, match="bogus"):
        fit(table, method="bogus")
    with pytest.raises(InputError, match=r"`predictions` has no calibration split; .* `every_row=True`"):
        fit(given.test.with_split(None))


def test_images_and_boxes(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(size=(4, 3, 5, 6))
    labels = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    np.savez(tmp_path / "images.npz", logits=scores, labels=labels)
    (tmp_path / "new").mkdir()
    np.save(tmp_path / "new" / "logits.npy", scores)
    fitted = fit(tmp_path / "images.npz", method="temperature")
    with pytest.raises(InputError, match="`out` must name a folder"):
        apply(fitted, tmp_path / "new")
    assert apply(fitted, tmp_path / "new", tmp_path / "out") is None
    rows = np.moveaxis(scores, 1, -1).reshape(-1, 3)
    probs = np.moveaxis(np.load(tmp_path / "out" / "probs.npy"), 1, -1).reshape(-1, 3)
    np.testing.assert_allclose(probs, fitted.predict_proba(rows), rtol=1e-12)

    boxes = [[int(x), int(y), 20, 20] for x, y in rng.integers(0, 60, (30, 2))]
    entry = {"image_id": 1, "category_id": 1}
    truth = {
        "images": [{"id": 1, "width": 100, "height": 100}],
        "categories": [{"id": 1, "name": "car"}],
        "annotations": [entry | {"id": k, "bbox": box, "iscrowd": 0} for k, box in enumerate(boxes[::2])],
    }
    found = [entry | {"bbox": box, "score": float(rng.uniform(0.3, 0.9))} for box in boxes]
    for name, content in (("truth.json", truth), ("found.json", found)):
        (tmp_path / name).write_text(json.dumps(content))
    detections = load_detections(tmp_path / "found.json", tmp_path / "truth.json")
    calibrator = fit(detections, method="detection-logistic", every_row=True)
    assert isinstance(calibrator, DetectionCalibration)
    calibrated = apply(calibrator, tmp_path / "found.json", annotations=tmp_path / "truth.json")
    expected = calibrator.predict_proba(detections.confidences, detections.covariates())
    assert calibrated.confidence.tolist() == pytest.approx(expected.tolist(), rel=1e-12)
    with pytest.raises(InputError, match="is for detections; `predictions` is not a COCO results file"):
        apply(calibrator, Predictions(probs=[0.1, 0.9]))


def test_intervals_of_venn_abers_are_further_columns(table: Path, tmp_path: Path) -> None:
    """Those of `predict_interval`, one pair for each class; other methods have none."""
    predictions, out = load_predictions(table), tmp_path / "out.csv"
    calibrator = fit(table, method="venn-abers")
    apply(calibrator, table, out, intervals=True)
    frame = pd.read_csv(out)
    for side, bounds in zip(("lower", "upper"), calibrator.predict_interval(predictions.scores), strict=True):
        assert np.allclose(frame[[f"{side}_{k}" for k in range(3)]], bounds, atol=1e-12)
    with pytest.raises(InputError, match=r"has no intervals: `intervals` .* venn-abers"):
        apply(fit(table, method="vector"), table, out, intervals=True)
    with pytest.raises(InputError, match="has no intervals"):
        apply(calibrator, table, out, intervals=True, prior=[0.2, 0.3, 0.5])
    with pytest.raises(InputError, match="intervals need a table and `out`"):
        apply(calibrator, predictions, intervals=True)


def test_intervals_of_an_event_are_of_class_1_of_the_file(tmp_path: Path) -> None:
    """Also where the calibrator's event is the file's class 0: then they are turned round."""
    probs = np.linspace(0.01, 0.99, 200)
    labels = np.random.default_rng(0).uniform(size=200) < probs**2
    calibrator = fit(
        Predictions(probs=probs, labels=labels, class_names=["well", "ill"]),
        method="venn-abers",
        every_row=True,
    )
    for name, header in (("as.csv", "prob_well,prob_ill"), ("turned.csv", "prob_ill,prob_well")):
        columns = [1 - probs, probs] if name == "as.csv" else [probs, 1 - probs]
        np.savetxt(tmp_path / name, np.stack(columns, 1), "%.17g", ",", header=header, comments="")
        apply(calibrator, tmp_path / name, tmp_path / f"out_{name}", intervals=True)
    straight, turned = (pd.read_csv(tmp_path / f"out_{name}.csv") for name in ("as", "turned"))
    assert (straight.lower <= straight.prob_ill).all()
    assert (straight.prob_ill <= straight.upper).all()
    assert np.allclose(turned.lower, 1 - straight.upper, atol=1e-9)
    assert np.allclose(turned.upper, 1 - straight.lower, atol=1e-9)
