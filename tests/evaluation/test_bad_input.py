"""What evaluations, gates, comparisons and their helpers refuse, each in one sentence."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

from calibrant import InputError, fit, load_predictions, metrics
from calibrant.calibrators import PlattScaling
from calibrant.evaluation import (
    Evaluation,
    check,
    compare,
    evaluate,
    monitor,
    null_distribution,
    paired_test,
    smooth_consistency_band,
)
from calibrant.evaluation import detection_calibration_error as detect
from calibrant.evaluation.fitting.split import choose_split
from calibrant.evaluation.group_repairs import group_repairs
from calibrant.predictions import DensePredictions, Predictions

RNG = np.random.default_rng(0)
CLASSES = Predictions(logits=RNG.normal(size=(60, 4)), labels=np.arange(60) % 4)
NARROW, OTHERS = (
    Predictions(logits=RNG.normal(size=(60, 3)), labels=np.arange(60) % 3, class_names=list(names))
    for names in ("abc", "acb")
)
EVENT = Predictions(logits=RNG.normal(size=60), labels=np.arange(60) % 2, groups=["a", "b"] * 30)
SURE = Predictions(confidence=RNG.random(60), correct=np.arange(60) % 2)
PROBS = Predictions(probs=CLASSES.probs, labels=CLASSES.labels)
BARE = Predictions(logits=np.zeros((60, 3)))
SMALL = Predictions(logits=[0.0] * 4, labels=[0, 1] * 2, groups=["a", "b"] * 2)
IMAGES = DensePredictions(logits=np.zeros((4, 3, 2, 2)), labels=np.zeros((4, 2, 2), int))
BRIER = metrics.brier_score
READ = r"must be Predictions; got str; to read a file use `calibrant.load_predictions\(path\)`"
WRAP = r"name arrays, as in `calibrant\.evaluate\(probs=probs, labels=labels\)`"
FEW: dict[str, Any] = {"calibrators": [], "bootstrap": 20, "null_draws": 20}
TIMES: dict[str, Any] = {"times": np.arange(60), "window": 20}
BOXES = {"confidences": [0.1, 0.5, 0.9], "correct": [0, 1, 1], "num_draws": 9}
TWO, THREE = [[0.2, 0.8]] * 5, [[0.2, 0.7, 0.1]] * 5
MIXED: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = [
    # Settings of an evaluation.
    (evaluate, (CLASSES,), {"num_bins": 0}, "`num_bins` must be at least 1; got 0"),
    (evaluate, (CLASSES,), {"bootstrap": 1}, "`bootstrap` must be at least 2; got 1"),
    (evaluate, (CLASSES,), {"null_draws": 0}, "`null_draws` must be at least 1; got 0"),
    (evaluate, (CLASSES,), {"seed": -1}, "`seed` must be at least 0; got -1"),
    (evaluate, (CLASSES,), {"level": 1.0}, "`level` must be between 0 and 1"),
    (evaluate, (CLASSES,), {"calibrators": ["temprature"]}, "temperature"),
    (evaluate, (CLASSES,), {"intervals": "studentised"}, "`intervals` must be one of"),
    *(
        (evaluate, (EVENT,), {"tolerance": t}, "`tolerance` must be a fraction in 0..1; got")
        for t in (-0.1, 1, math.nan)
    ),
    (evaluate, (SURE,), {"calibrators": ["vector"]}, "got top_label ones; for confidences use platt"),
    (evaluate, (CLASSES,), {"metrics": ["smoth_ece"]}, "got 'smoth_ece'; there are smooth_ece, debia"),
    (evaluate, (CLASSES,), {"metrics": "smoth_ece"}, "did you mean 'smooth_ece'?"),
    (evaluate, (EVENT,), {"calibrators": ["vector"]}, "one event, so use platt"),
    (evaluate, (BARE,), {}, "^`labels` must be given to evaluate predictions; got n"),
    (evaluate, (EVENT,), {"cluster": ["a"] * 60}, "at least two clusters"),
    (evaluate, (EVENT,), {"cluster": ["a", "b"]}, "`clusters` must hold 60 names, one per sample; got 2"),
    (evaluate, (CLASSES,), {"cluster": "groups"}, '"groups" if the predictions have groups; got'),
    (evaluate, (IMAGES,), {"cluster": ["a"] * 4}, "mark the images for fitting with `split`"),
    # Foreign samples.
    (evaluate, (CLASSES,), FEW | {"ood": EVENT}, "must be multiclass as the predictions are; got bi"),
    (evaluate, (CLASSES,), FEW | {"ood": NARROW}, "the 4 classes of the predictions; got 3"),
    (evaluate, (CLASSES,), {"ood_score": "energy"}, "`ood_score` needs `ood`"),
    (evaluate, (PROBS,), FEW | {"ood": CLASSES, "ood_score": "energy"}, 'for `probs`; got "energy"'),
    (evaluate, (SURE,), FEW | {"ood": SURE, "ood_score": "entropy"}, "if only confidences are known"),
    # Samples to fit on.
    (
        choose_split,
        (NARROW, EVENT, 0),
        {},
        r"must be multiclass with 3 classes, .* got binary with 2 classes",
    ),
    (choose_split, (NARROW, CLASSES, 0), {}, "got multiclass with 4 classes"),
    (choose_split, (NARROW, OTHERS, 0), {}, "same class names in the same order"),
    (choose_split, (NARROW, BARE, 0), {}, "`calibration` must have labels"),
    (group_repairs, (Predictions(logits=[0.0, 1.0], labels=[0, 1]),), {}, "`groups` must be given"),
    (
        group_repairs,
        (Predictions(logits=[[0.0, 1]] * 2, labels=[[0, 1]] * 2, groups=["a", "b"]),),
        {},
        "one label per",
    ),
    (group_repairs, (SMALL,), {}, "need 20 samples or more; got 4"),
    # Gates.
    (check, (CLASSES,), {}, r'a limit \(`\{"ece": 0\.03\}`, or --max-ece 0\.03\)'),
    (check, (CLASSES, {"ece": 0.1}), {"confidence": 0.5}, "`confidence` must be between"),
    (check, (CLASSES, {"f1": 0.1}), {}, "no metric 'f1'"),
    (check, (CLASSES, {"ece": 3}), {}, r"of ece must be between 0 and 1; got 3; use 0\.03 for 3%"),
    (check, (CLASSES, {"ece": math.nan}), {}, "must be 0 or more"),
    (check, (CLASSES, {"smooth_ece": 0.1}), {}, "no limit for smooth_ece; compare it with a baseline"),
    (check, (CLASSES,), {"baseline": EVENT}, "must be multiclass, like the predictions; got binary"),
    (check, (EVENT, {"ece": 0.2}), {"groups": []}, "must name groups"),
    (check, (EVENT, {"accuracy": 0.2}), {"groups": ["a"]}, "need a limit of a calibration error"),
    (check, (EVENT, {"ece": 0.3}), {"groups": ["c"]}, "got 'c'; there are a, b"),
    (check, (CLASSES, {"ece": 0.3}), {"groups": ["a"]}, "the predictions have none"),
    # Comparisons.
    (compare, ([("a", EVENT)],), {}, "two models or more; got 1"),
    (compare, ([("a", EVENT), ("a", EVENT)],), {}, "different names; 'a' is given 2 times"),
    (compare, ([("a", EVENT), ("b", CLASSES)],), {}, "same kind; (a is binary and )?b is multicl"),
    (compare, ([("a", BARE), ("b", BARE)],), {}, "`labels` must be given"),
    (compare, ([(name, CLASSES) for name in "ab"],), {"metrics": ["smoth_ece"]}, "got 'smoth_ece'"),
    # Chance and paired tests of any metric.
    (null_distribution, (BRIER, [0.5, 0.2]), {"num_draws": 0}, "`num_draws` must be at least 1; got 0"),
    (null_distribution, (lambda *_: "much", [0.5, 0.2]), {}, "`metric` must return a number; got str"),
    (null_distribution, (lambda *_: math.nan, [0.5, 0.2]), {}, "`metric` must return a number; got NaN"),
    (null_distribution, (BRIER, [0.5, 0.2]), {"multilabel": True}, "`probs` must be multilabel; got binary"),
    (
        paired_test,
        (BRIER, [0.5], [0.5], [1]),
        {"num_resamples": 1},
        "`num_resamples` must be at least 2; got 1",
    ),
    (paired_test, (BRIER, [0.5], [0.5], [1]), {"level": 95}, "`level` must be between 0 and 1"),
    (paired_test, (BRIER, TWO, THREE, [0, 1, 0, 1, 1]), {}, "`second` must have the shape of `first`"),
    *(
        (smooth_consistency_band, (np.full(9, 0.5),), {"bandwidth": 0.1} | options, "must")
        for options in ({"level": 1.0}, {"num_draws": 1}, {"num_points": 1})
    ),
    # Detections.
    (detect, (), BOXES | {"covariates": [[0.1], [300.0], [0.2]]}, "take shares of the image"),
    (detect, (), BOXES | {"covariates": [[0.1]]}, r"must have shape \(3, k\)"),
    (detect, (), BOXES | {"correct": [1, 0]}, "one for each of 3 detections"),
    (detect, ([0.1], [0]), {}, "two detections or more; got 1"),
    (detect, (), BOXES | {"num_bins": [2, 2]}, "one for each of 1 axes"),
    (detect, (), BOXES | {"least": 9}, "none holds 9"),
    (detect, (), BOXES | {"num_bins": 0}, "`num_bins` must be at least 1"),
    (detect, (), BOXES | {"images": ["a", "b", "c", "d"]}, "each of 3 detections; got 4"),
    # Streams.
    (monitor, (EVENT,), TIMES | {"times": [1, 2]}, r"`times` must have shape \(60,\)"),
    (monitor, (EVENT,), TIMES | {"times": ["a"] * 60}, "`times` must be dates"),
    (monitor, (EVENT,), TIMES | {"labelled": [True]}, "`labelled` must be booleans of shape"),
    (monitor, (EVENT,), TIMES | {"labelled": np.zeros(60, dtype=bool)}, "no sample has a label yet"),
    (monitor, (EVENT,), TIMES | {"against": "baseline"}, '`against="baseline"` needs a `baseline`'),
    (monitor, (EVENT,), TIMES | {"against": "drift"}, '`against="drift"` needs a `baseline`'),
    (monitor, (EVENT,), TIMES | {"false_alarms": 0}, "`false_alarms` must be between 0 and 1"),
    (monitor, (EVENT,), TIMES | {"baseline": SURE}, "`baseline` must be binary"),
    (monitor, (EVENT,), TIMES | {"label_delay": 99}, "leaves no labelled sample"),
    (monitor, (EVENT,), TIMES | {"label_delay": "2d"}, "`label_delay` must be a number where times are"),
    # Texts that are no evaluation.
    (Evaluation.from_json, ("{}",), {}, "not a calibrant evaluation: at schema_version: Field required"),
    (Evaluation.from_json, ("nonsense",), {}, "not a calibrant evaluation: at the text: Invalid JSON"),
]
UNTYPED: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], str]] = [
    (evaluate, ("model.npz",), {}, f"`predictions` {READ}"),
    (evaluate, (EVENT,), {"calibration": "model.npz"}, f"`calibration` {READ}"),
    (evaluate, (CLASSES,), {"ood": "file.npz"}, "`ood` must be Predictions"),
    (compare, ([("a", "model.npz"), ("b", "model.npz")],), {}, f"`a` {READ}"),
    (compare, (["model.npz", "model.npz"],), {}, "pairs of a name and Predictions; got str"),
    (check, ("file.npz", {"ece": 0.1}), {}, "`predictions` must be Predictions"),
    (evaluate, (CLASSES.scores.numpy(), CLASSES.labels.numpy()), {}, WRAP),
    (evaluate, (CLASSES.scores.numpy(),), {}, WRAP),
    (evaluate, (CLASSES.scores, CLASSES.labels.numpy()), {}, WRAP),
    (evaluate, (CLASSES.scores.tolist(), CLASSES.labels.numpy()), {}, WRAP),
    (evaluate, (pd.DataFrame(CLASSES.scores), pd.Series(CLASSES.labels)), {}, f"got 2; .*{WRAP}"),
    (evaluate, (pd.DataFrame(CLASSES.scores),), {"labels": [0]}, "name the scores, as in .*; got DataFrame"),
    (evaluate, (LogisticRegression(), TWO, [0]), {}, r"got 3; .* `calibrant.Predictions.from_estimator\("),
    (
        compare,
        ({"a": LogisticRegression(), "b": EVENT},),
        {},
        r"for a classifier use `calibrant.Predictions.from_est",
    ),
    (Predictions.from_estimator, (), {"weights": [0]}, "did you mean 'sample_weight'?"),
    (evaluate, (CLASSES, CLASSES), {}, r"takes one set of predictions; got 2; samples to fit on go as `cal"),
    (evaluate, (), {"probs": TWO, "label": [0]}, "keyword argument 'label'; did you mean 'labels'?"),
    (evaluate, (), {"probs": TWO, "sample_weight": [0]}, "did you mean 'weights'?"),
    (Predictions, (), {"y_prob": TWO}, r"Predictions\(\) got an .* 'y_prob'; did you mean 'probs'?"),
    (Predictions, (TWO,), {}, r"takes no arrays without a name; write `Predictions\(probs=probs, labels="),
    (Predictions, (), {"probs": TWO, "labels": {0, 1}}, "`labels` must be an array or a list, .*got a set"),
    (fit, (TWO, [0]), {}, r"takes one set of predictions; got 2; wrap arrays as `calibrant\.Predictions"),
    (fit, (TWO,), {}, r"got list; wrap arrays as `calibrant\.Predictions\(probs=probs, labels=labels\)`"),
    (fit, (), {"probs": TWO, "labels": [0]}, "argument 'probs'; wrap arrays as"),
    (fit, (EVENT,), {"method": PlattScaling()}, "`method` must be a name, as in 'platt'; got PlattScaling"),
    (load_predictions, (TWO,), {}, r"`path` must name a file; got list; give arrays as `Predictions\("),
    (compare, (EVENT, EVENT), {}, r"in one argument, as in `compare\(\{.*\}\)`; got 2"),
    (compare, (EVENT,), {}, r"pairs of a name and Predictions; got Predictions; name them, as in `compare\("),
    (compare, ({"a": TWO, "b": TWO},), {}, "`a` must be Predictions; got list; name arrays"),
    (evaluate, (CLASSES,), {"num_bins": 10.0}, r"`num_bins` must be an integer; got 10\.0; write 10"),
    (evaluate, (CLASSES,), {"seed": "a"}, "`seed` must be an integer; got 'a'"),
    (evaluate, (CLASSES,), {"bootstrap": None}, "`bootstrap` must be an integer; got None"),
    (evaluate, (CLASSES,), {"level": "95%"}, "`level` must be a number; got '95%'"),
    (evaluate, (CLASSES,), {"tolerance": "1%"}, "`tolerance` must be a number; got '1%'"),
    *(
        (evaluate, (EVENT,), {"calibrators": given}, "names or calibrators, as in .*; got the class Platt")
        for given in (PlattScaling, [PlattScaling])
    ),
]


@pytest.mark.parametrize(("function", "given", "options", "said"), MIXED)
def test_what_is_wrong_is_said(function, given, options, said) -> None:
    with pytest.raises(InputError, match=said):
        function(*given, **options)


@pytest.mark.parametrize(("function", "given", "options", "said"), UNTYPED)
def test_what_is_another_thing_altogether_is_said(function, given, options, said) -> None:
    """A path, or arrays, in the place of predictions: how to make these of them."""
    with pytest.raises(TypeError, match=said):
        function(*given, **options)
