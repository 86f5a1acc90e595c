"""What single metrics refuse, beyond what all of them do, and the sentence that says so."""

import inspect
import math
from collections.abc import Callable

import pytest

import calibrant
from calibrant import InputError, evaluation, plots
from calibrant import metrics as m

PROBS = [[0.5, 0.5], [0.2, 0.8]]

REFUSED: list[tuple[Callable[[], object], str]] = [
    (
        lambda: m.classwise_calibration_error([[0.5, 0.2]], [[0, 0]], average="weighted"),
        "where no label ever occurs",
    ),
    (
        lambda: m.classwise_calibration_error([[0.5, 0.5]], [0], average="micro"),
        '`average` must be one of "macro", "weighted", "none"',
    ),
    (
        lambda: m.expected_calibration_error([0.5], [1], binning="mukhoti", debias=True),
        '`debias` must be False for binning="mukhoti"',
    ),
    (
        lambda: m.squared_calibration_error([0.5], [1], binning="mukhoti"),
        '`binning` must be one of "width", "mass"; got \'mukhoti\'',
    ),
    (
        lambda: m.sweep_calibration_error([[0.5, 0.5]], [1], binning="mukhoti"),
        '`binning` must be one of "mass", "width"; got \'mukhoti\'',
    ),
    (lambda: m.monotone_num_bins([[0.5, 0.2]], [[1, 0]]), r"`probs\[:, k\], labels\[:, k\]`"),
    (
        lambda: m.top_k_calibration_error([[0.5, 0.5]], [0], k=3),
        r"`k` must be in 1\.\.2, the number of classes; got 3",
    ),
    (
        lambda: m.top_k_calibration_error([[0.5, 0.5]], [0], k=1, judge="sum"),
        '`judge` must be one of "set", "rank"',
    ),
    (lambda: m.out_of_distribution_scores(logits=[[0.0, 1.0]], probs=[[0.5, 0.5]]), "got both"),
    (lambda: m.out_of_distribution_scores(), "got neither"),
    (lambda: m.out_of_distribution_scores(probs=[[0.5, 0.5]], score="energy"), 'for `probs`; got "energy"'),
    (lambda: m.out_of_distribution_scores(logits=[0.5], score="max_logit"), "a logit of each class"),
    (lambda: m.out_of_distribution_scores(logits=[[0.5, 1.0]], score="msp"), "`score` must be one of"),
    (
        lambda: m.out_of_distribution_detection([0.0], [0.0, math.nan]),
        "`out_scores` must not be NaN; row 1 is",
    ),
    (lambda: m.out_of_distribution_detection([], [0.0]), "`in_scores` must have shape"),
    (lambda: m.out_of_distribution_detection([0.0], [1.0], true_positive_rate=0.0), "must be in"),
    (lambda: m.roc_curve([0.1, 0.2], [0, 2]), "`outcomes` must be 0 or 1"),
    (lambda: m.roc_curve([0.1, 0.2], [0, 0]), "must hold positives"),
    (lambda: m.predictive_entropy([[0.9, 0.1]], [0], among="incorrect"), "no sample is incorrect"),
    (
        lambda: m.predictive_entropy([0.9, 0.2], [0, 0], among="correct", weights=[1.0, 0.0]),
        "no sample is correct",
    ),
    (lambda: m.predictive_entropy([[0.9, 0.1]], among="correct"), "`labels` must be given"),
    (lambda: m.high_confidence([0.5], [1], threshold=99), r"`threshold` must be between 0 and 1; got 99"),
    (lambda: m.auroc([0.1, 0.9], [0, 1], weights=[1.0, 0.0]), "AUROC is undefined"),
    (
        lambda: m.expected_calibration_error([0.5], [1], binning="equal"),
        '`binning` must be one of "width", "mass", "mukhoti"; got \'equal\'',
    ),
    (
        lambda: m.expected_calibration_error([0.5], [1], norm="max"),
        '`norm` must be one of "l1", "l2"; got \'max\'',
    ),
    (lambda: m.predictive_entropy([0.5], [1], among="wrong"), "`among` must be one of"),
    (lambda: m.maximum_calibration_error([0.5], [1], num_bins=0), "`num_bins` must be at least 1; got 0"),
    (lambda: m.reliability_table([0.5], [1], num_bins=1.5), r"`num_bins` must be an integer; got 1\.5"),
    (lambda: m.reliability_table([[0.5, 0.2]], [[1, 0]]), r"`probs\[:, k\], labels\[:, k\]`"),
    (lambda: m.accuracy([[0.5, 0.5], [0.7, 0.302]], [0, 1]), r"row 1 sums to 1\.002"),
    (
        lambda: m.score_decomposition([0.5], [1], score="log"),
        '`score` must be one of "brier", "nll"; got \'log\'',
    ),
    (lambda: m.score_decomposition([0.5], [1], average="none"), '`average` must be "macro"'),
    (
        lambda: m.score_decomposition([[0.5, 0.5]], [1], classwise=True, average="micro"),
        "`average` must be one of",
    ),
    (lambda: m.corp_reliability_curve([[0.5, 0.2]], [[1, 0]]), r"`probs\[:, k\], labels\[:, k\]`"),
    (
        lambda: m.refinement_decomposition([[0.5, 0.5]] * 2, [[0.5, 0.25, 0.25]] * 2, [0, 1]),
        r"`recalibrated` must have the shape of `probs`, \(2, 2\); got",
    ),
    (
        lambda: m.refinement_decomposition([0.0], [0.0], [1]),
        "`recalibrated` must not give what happened probability zero",
    ),
    (lambda: m.refinement_decomposition([0.5], [0.5], [1], score="log"), "`score` must be one of"),
    (lambda: m.calibration_slope([0.5], [1], interval="exact"), "`interval` must be one of"),
    (lambda: m.calibration_slope([0.5], [1], level=95), "`level` must be between 0 and 1"),
    (
        lambda: m.calibration_slope([0.5], [1], interval="profile", weights=[1.0]),
        '`interval` must be "wald" with weights',
    ),
    (lambda: m.calibration_slope([[0.5, 0.5]], [[1, 1]]), "pass one column"),
    (
        lambda: m.CalibrationError(binning="mass", keep="sketch", norm="l2"),
        '`norm` must be "l1" for keep="sketch"',
    ),
    (lambda: m.CalibrationError(keep="sketch"), '`keep` must be "all" for binning="width"'),
    (lambda: m.temperature_decomposition([0.5], [1], score="accuracy"), "`score` must be one of"),
    (
        lambda: m.canonical_calibration_error([0.2, 0.3], [0, 1], weights=[1.0, 0.0]),
        "no sample has a neighbour",
    ),
    (lambda: m.CalibrationError(task="multi"), "`task` must be one of"),
    (lambda: m.CalibrationError(binning="mukhoti"), "`binning` must be one of"),
    (lambda: m.CalibrationError(norm="max"), "`norm` must be one of"),
    (lambda: m.CalibrationError(num_bins=0), "`num_bins` must be at least 1; got 0"),
    (lambda: m.CalibrationError(task="multilabel"), "`num_classes` must be given to CalibrationError"),
    (lambda: m.ClasswiseCalibrationError(), "`num_classes` must be given to ClasswiseCalibrationError"),
    (lambda: m.AUROC(), "`num_classes` must be given to AUROC"),
    (lambda: m.BrierScore(num_classes=1), "`num_classes` must be at least 2; got 1"),
    (lambda: m.BrierScore(task="binary", num_classes=2), "`num_classes` must be None"),
    (lambda: m.HighConfidenceShare(threshold=1.5), "`threshold` must be between 0 and 1"),
    (lambda: m.PredictiveEntropy(among="some"), "`among` must be one of"),
    *(
        (
            lambda measure=measure, width=width: measure(PROBS, [0, 1], bandwidth=width),
            "`bandwidth` must be positive",
        )
        for measure in (m.smooth_ece, m.smooth_reliability_curve)
        for width in (0.0, -1.0, math.nan, math.inf)
    ),
    (
        lambda: m.smooth_reliability_curve(PROBS, [0, 1], num_points=1),
        "`num_points` must be at least 2; got 1",
    ),
    (lambda: m.smooth_reliability_curve(PROBS, [[0, 1], [1, 1]]), "pass one column"),
    (lambda: m.smooth_ece(PROBS, [0, 1], average="none"), "`average` must be"),
    *(
        (lambda test=test, more=more: test([0.5], [1], **more), sentence)
        for test in (m.kolmogorov_smirnov_test, m.kuiper_test)
        for more, sentence in (
            ({"p_value": "exact"}, "`p_value` must be one of"),
            ({"num_draws": 0}, "`num_draws` must be at least 1; got 0"),
        )
    ),
    (lambda: m.top_k_calibration_error([0.5], [1], k=1), "with one class"),
    (lambda: m.top_k_calibration_error([[0.5, 0.5]], [[1, 1]], k=1), "with one class"),
    (lambda: m.thresholded_calibration_error(PROBS, [0, 1], threshold=2), "between 0 and 1; got 2"),
    (
        lambda: m.thresholded_calibration_error(PROBS, [0, 1], threshold=math.nan),
        "`threshold` must be .*; got nan",
    ),
    (lambda: m.variational_calibration_error([0.5], [0.5], [1], p=0.5), r"`p` must be at least 1; got 0\.5"),
    (
        lambda: m.variational_calibration_error([[0.5, 0.5]], [[0.5, 0.25, 0.25]], [1]),
        "`recalibrated` must have the shape of `probs`",
    ),
    (lambda: m.selective_risk_curve([], []), "at least one sample"),
    (lambda: m.selective_risk_curve([[0.1]], [0.0]), r"`confidences` must have shape \(N,\)"),
    (lambda: m.selective_risk_curve([0.1, math.nan], [0, 0]), "row 1 holds nan"),
    (lambda: m.selective_risk_curve([0.1, 0.2], [0.0]), r"the shape of `confidences`, \(2,\); got \(1,\)"),
    (lambda: m.selective_risk_curve([0.1, 0.2], [0.0, 1.5]), "row 1 holds 1.5"),
    (lambda: m.risk_coverage_curve([[0.1, 0.2]], [[0, 1]]), "pass one column"),
    (lambda: m.CalibrationError(n_bins=9), "has no setting 'n_bins'; did you mean 'num_bins'"),  # pyright: ignore[reportCallIssue]
    (lambda: m.risk_at_coverage([0.9, 0.6], [1, 0], coverage=80), "`coverage` must"),
]


@pytest.mark.parametrize(("call", "sentence"), REFUSED)
def test_bad_arguments_are_refused(call: Callable[[], object], sentence: str) -> None:
    with pytest.raises((InputError, TypeError), match=sentence):
        call()


FUNCTIONS = [getattr(m, name) for name in m.__all__ if inspect.isfunction(getattr(m, name))]
DOORS = [
    *FUNCTIONS,
    *(getattr(plots, name) for name in ("class_errors", "confidence_histogram", "decision_curve", "groups")),
    *(calibrant.apply, calibrant.compare, calibrant.evaluate, calibrant.fit, calibrant.load_predictions),
    *(calibrant.Predictions.from_estimator, calibrant.write_report, evaluation.check, evaluation.monitor),
]


@pytest.mark.parametrize("function", DOORS, ids=lambda each: each.__qualname__)
def test_a_misspelt_argument_is_named(function) -> None:
    for name in (each for each in inspect.signature(function).parameters if len(each) > 2):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}s_'; did you mean '"):
            function(**{f"{name}s_": None})


@pytest.mark.parametrize(
    ("other", "ours"), [("n_bins", "num_bins"), ("y_true", "labels"), ("y_prob", "probs")]
)
def test_names_of_other_libraries_are_known(other: str, ours: str) -> None:
    with pytest.raises(TypeError, match=f"'{other}'; did you mean '{ours}'"):
        m.expected_calibration_error([0.2, 0.8], [0, 1], **{other: 1})  # pyright: ignore[reportCallIssue]
