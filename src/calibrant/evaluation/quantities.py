"""Every quantity that an evaluation measures, in the order of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING, Literal

from calibrant._math.errors import InputError
from calibrant._math.text_form import meant
from calibrant.evaluation.quantity import (
    ANYTHING,
    EVENT,
    HIGH_CONFIDENCE,
    ClassErrors,
    ClassRanks,
    Error,
    EventError,
    EventInfluence,
    Gate,
    Kind,
    OneEventInfluence,
    Quantity,
    Ratio,
    Shown,
)

if TYPE_CHECKING:
    from calibrant.evaluation.resampling.events import Events, Vector


def binned(binning: Literal["width", "mass"], norm: Literal["l1", "l2", "max"]) -> Error:
    """The calibration error over bins."""

    def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
        from calibrant.evaluation.resampling.events import binned_error

        return binned_error(confidences, outcomes, weights, num_bins=num_bins, binning=binning, norm=norm)

    return value


def of_metrics(name: str, *, bins: bool = True, **options: object) -> Error:
    """A function of :mod:`calibrant.metrics` that is an error of events."""

    def value(confidences: Vector, outcomes: Vector, weights: Vector | None, num_bins: int) -> float:
        from calibrant import metrics

        more = {"num_bins": num_bins, **options} if bins else options
        return float(getattr(metrics, name)(confidences, outcomes, weights=weights, **more))

    return value


def line(parameter: Literal["slope", "intercept"]) -> Callable[[Events], tuple[float, Vector] | str]:
    """A parameter of the calibration line."""

    def value(events: Events) -> tuple[float, Vector] | str:
        from calibrant.evaluation.resampling.events import calibration_line

        return calibration_line(events, parameter)

    return value


def _smooth_error(confidences: Vector, outcomes: Vector, weights: Vector | None, _num_bins: int) -> float:
    from calibrant._math.lipschitz import smooth_calibration_error  # compiled

    return smooth_calibration_error(confidences, outcomes, weights)


def largest_cumulative_difference(
    confidences: Vector, outcomes: Vector, weights: Vector | None, _num_bins: int
) -> float:
    """The statistic; draws give its p-value, as for the other errors."""
    from calibrant.metrics import kolmogorov_smirnov_test

    test = kolmogorov_smirnov_test(confidences, outcomes, weights=weights, p_value="asymptotic")
    return float(test.statistic)


def brier_skill(events: Events) -> tuple[float, Vector] | str:
    r"""One minus the Brier score over that of the base rate, :math:`1 - B / V`, and the influences.

    With the rate :math:`\pi` and :math:`V = \pi (1 - \pi)`, sample i moves B by :math:`(p_i - y_i)^2 - B` and
    V by :math:`(1 - 2 \pi)(y_i - \pi)`.
    """
    stated, outcomes = events.confidences, events.outcomes
    share = events.mass / events.mass.sum()
    rate = float(share @ outcomes)
    spread = rate * (1 - rate)
    if spread <= 0:
        return "undefined: all outcomes are alike"
    squares = (stated - outcomes) ** 2
    score = float(share @ squares)
    moved = (1 - 2 * rate) * (outcomes - rate)
    return 1 - score / spread, -((squares - score) / spread - score * moved / spread**2)


def net_benefit(threshold: float, events: Events, *, of_all: bool = False) -> tuple[float, Vector]:
    """Net benefit of treating from a threshold on, or everyone, and the influence of each sample."""
    treated = 1.0 if of_all else (events.confidences >= threshold).astype("float64")
    worth = treated * (events.outcomes - threshold / (1 - threshold) * (1 - events.outcomes))
    found = float(events.mass @ worth / events.mass.sum())
    return found, worth - found


_line = partial(Quantity, section="Calibration errors")
_error = partial(_line, better="lower")
_optional = partial(_error, default=False, event=Shown())
_score = partial(Quantity, section="Proper scores")
_share = partial(Quantity, section="Accuracy and confidence")
_certainty = partial(Quantity, section="Certainty")

ECE = _error(
    key="ece",
    title="ECE",
    meaning="Expected calibration error: mean absolute difference between predicted probability and actual "
    "rate, over bins of equal width. 0 is perfect.",
    computed=EventError(binned("width", "l1"), kernel="width l1", null=True),
    shown=Shown(terminal=True, comparison=2, drawn=True),
    event=Shown(terminal=True, comparison=1, drawn=True),
    gate=Gate("calibration error (ECE)", help="Largest ECE allowed, e.g. 0.03."),
)

ADAPTIVE_ECE = _error(
    key="adaptive_ece",
    title="Adaptive ECE",
    meaning="The ECE over bins with equal numbers of samples.",
    computed=EventError(binned("mass", "l1"), kernel="mass l1", null=True),
    shown=Shown(comparison=6),
    event=Shown(),
    gate=Gate("adaptive calibration error", help="Largest ECE allowed, with bins of equal mass."),
)

SMCE = _error(
    key="smce",
    title="smCE",
    meaning="Smooth calibration error: the largest error that any smooth weighting of the probabilities "
    "finds; no bins. 0 is perfect.",
    computed=EventError(_smooth_error, kernel="smooth", null=True),
    event=Shown(),
    gate=Gate("smooth calibration error (smCE)", help="Largest smooth calibration error allowed."),
)

L2_ECE = _error(
    key="l2_ece",
    title="L2 ECE",
    meaning="Root mean squared error over the bins: large errors weigh more than many small ones.",
    computed=EventError(binned("width", "l2"), kernel="width l2"),
)

MCE = _error(
    key="mce",
    title="Maximum CE",
    meaning="Largest error of any non-empty bin; noisy if that bin has few samples. "
    "The interval ignores empty bins.",
    computed=EventError(binned("width", "max"), kernel="width max"),
)

CLASSWISE_ECE = _error(
    key="classwise_ece",
    title="Classwise ECE",
    meaning="Calibration error of every class's probability, not only the top class's, averaged over "
    "classes.",
    computed=ClassErrors(),
    needs_all_classes=True,
    gate=Gate("classwise calibration error", help="Largest classwise ECE allowed, e.g. 0.005."),
    when_streamed="no interval: the scores are read in pieces, not once for every resample",
)

SMOOTH_ECE = _optional(
    key="smooth_ece",
    title="smECE",
    meaning="Kernel-smoothed calibration error: the difference between predictions and outcomes after "
    "smoothing both, at the bandwidth that equals the error; no bins. It differs from smCE.",
    computed=EventError(of_metrics("smooth_ece", bins=False), kernel="kernel", null=True),
    gate=Gate("kernel-smoothed calibration error (smECE)"),
)

DEBIASED_ECE = _optional(
    key="debiased_ece",
    title="Debiased ECE",
    meaning="The ECE minus the noise in the gap of each bin: closer to the true error if samples are few.",
    computed=EventError(of_metrics("expected_calibration_error", debias=True), estimates="width l1"),
    gate=Gate("debiased calibration error"),
)

DEBIASED_L2_ECE = _optional(
    key="debiased_l2_ece",
    title="Debiased L2 ECE",
    meaning="The L2 ECE from an unbiased estimate of its square; 0 if that is negative.",
    computed=EventError(
        of_metrics("expected_calibration_error", norm="l2", debias=True), estimates="width l2"
    ),
    gate=Gate("debiased L2 calibration error"),
)

KOLMOGOROV_SMIRNOV = _optional(
    key="kolmogorov_smirnov",
    title="Kolmogorov-Smirnov",
    meaning="Largest cumulative difference between predictions and outcomes, from the lowest "
    "probability up; no bins. 0 is perfect.",
    computed=EventError(largest_cumulative_difference, kernel="cumulative", null=True),
    gate=Gate("Kolmogorov-Smirnov calibration error"),
)

OVER_CONFIDENCE_ERROR = _optional(
    key="over_confidence_error",
    title="Over-confidence",
    meaning="The part of the ECE from bins whose predicted probability exceeds the actual rate.",
    computed=EventError(of_metrics("over_confidence_error"), kernel="width over", null=True),
    gate=Gate("over-confidence error"),
)

UNDER_CONFIDENCE_ERROR = _optional(
    key="under_confidence_error",
    title="Under-confidence",
    meaning="The part of the ECE from bins whose predicted probability is below the actual rate.",
    computed=EventError(of_metrics("under_confidence_error"), kernel="width under", null=True),
    gate=Gate("under-confidence error"),
)

GAP = _line(
    key="gap",
    title="Gap",
    meaning="Mean confidence minus accuracy: above 0 is overconfident, below 0 underconfident.",
    better="near zero",
    bounds=(-1.0, 1.0),
    computed=Ratio(lambda samples: (samples.confidence - samples.correct, samples.every), column=2),
)

SLOPE = _line(
    key="slope",
    title="Calibration slope",
    meaning="Slope of outcomes on predicted log-odds: below 1, probabilities are too extreme; "
    "above 1, they are too timid.",
    better="near one",
    bounds=ANYTHING,
    computed=EventInfluence(line("slope")),
    event=Shown(),
)

INTERCEPT = _line(
    key="intercept",
    title="Calibration intercept",
    meaning="Shift of the log-odds that would make the mean right: below 0, probabilities are too high "
    "overall; above 0, they are too low.",
    better="near zero",
    bounds=ANYTHING,
    computed=EventInfluence(line("intercept")),
    event=Shown(),
)

NLL = _score(
    key="nll",
    title="Log loss",
    meaning="Negative log-likelihood (NLL) in nats: scores accuracy and calibration together, and penalises "
    "confident mistakes most.",
    better="lower",
    bounds=(0.0, inf),
    computed=Ratio(lambda samples: (samples.nll, samples.each), column=8),
    shown=Shown(terminal=True, comparison=3),
    gate=Gate("log loss", help="Largest log loss allowed."),
)

BRIER = _score(
    key="brier",
    title="Brier score",
    meaning="Mean squared distance between probabilities and outcomes: scores accuracy and calibration "
    "together.",
    better="lower",
    bounds=(0.0, 2.0),
    computed=Ratio(lambda samples: (samples.brier, samples.each), column=9),
    shown=Shown(terminal=True, comparison=5),
    gate=Gate("Brier score", help="Largest Brier score allowed."),
)

BRIER_SKILL = _score(
    key="brier_skill",
    title="Brier skill",
    meaning="Improvement in Brier score over always predicting the base rate: 1 is perfect, "
    "0 no better, below 0 worse.",
    better="higher",
    bounds=(-inf, 1.0),
    computed=OneEventInfluence(brier_skill),
    kinds=("binary",),
    undefined="undefined: all outcomes are alike",
    prefix=EVENT,
)

ACCURACY = _share(
    key="accuracy",
    title="Accuracy",
    meaning="Share of samples whose most probable answer is right.",
    better="higher",
    share=True,
    computed=Ratio(lambda samples: (samples.correct, samples.every), column=0),
    shown=Shown(terminal=True, comparison=4),
    gate=Gate("accuracy", help="Smallest accuracy allowed."),
)

AUROC = _share(
    key="auroc",
    title="AUROC",
    meaning="How well the scores rank: the chance that a positive sample scores above a negative one.",
    better="higher",
    computed=ClassRanks(),
    needs_all_classes=True,
    undefined="undefined: no class has both positive and negative samples",
    when_streamed="not computed: the scores are read in pieces, and ranking needs those of each class "
    "together",
)

MEAN_CONFIDENCE = _share(
    key="mean_confidence",
    title="Average confidence",
    meaning="Mean probability of the most probable answer; equals the accuracy if calibrated.",
    computed=Ratio(lambda samples: (samples.confidence, samples.every), column=1),
)

MEAN_PROBABILITY = _share(
    key="mean_probability",
    title="Average probability",
    meaning="Average predicted probability of the positive class; equals the actual rate if calibrated.",
    kinds=("binary", "multilabel"),
    computed=Ratio(lambda samples: (samples.stated, samples.each), column=10),
)

PREVALENCE = _share(
    key="prevalence",
    title="Actual rate",
    meaning="How often the positive class occurs in the data.",
    kinds=("binary", "multilabel"),
    share=True,
    computed=Ratio(lambda samples: (samples.happened, samples.each), column=11),
)

ENTROPY = _certainty(
    key="entropy",
    title="Entropy",
    meaning="Mean entropy of the predicted probabilities in nats; 0 is certain.",
    bounds=(0.0, inf),
    computed=Ratio(lambda samples: (samples.entropy, samples.every), column=5),
    needs_all_classes=True,
)

ENTROPY_CORRECT = _certainty(
    key="entropy_correct",
    title="Entropy if correct",
    meaning="The mean entropy of the samples that the model got right.",
    bounds=(0.0, inf),
    computed=Ratio(lambda samples: (samples.entropy * samples.correct, samples.correct), column=6),
    needs_all_classes=True,
    undefined="undefined: no prediction is right",
)

ENTROPY_INCORRECT = _certainty(
    key="entropy_incorrect",
    title="Entropy if wrong",
    meaning="The mean entropy of the samples that the model got wrong; it should be high.",
    bounds=(0.0, inf),
    computed=Ratio(lambda samples: (samples.entropy * (1 - samples.correct), 1 - samples.correct), column=7),
    needs_all_classes=True,
    undefined="undefined: no prediction is wrong",
)

HIGH_CONFIDENCE_SHARE = _certainty(
    key="high_confidence_share",
    title=f"Share at confidence ≥ {HIGH_CONFIDENCE}",
    meaning=f"Share of samples with a confidence of {HIGH_CONFIDENCE} or more.",
    share=True,
    computed=Ratio(lambda samples: (samples.confident, samples.every), column=3),
)

HIGH_CONFIDENCE_ACCURACY = _certainty(
    key="high_confidence_accuracy",
    title=f"Accuracy at confidence ≥ {HIGH_CONFIDENCE}",
    meaning=f"How often those samples are right; {HIGH_CONFIDENCE} or more if calibrated.",
    share=True,
    computed=Ratio(lambda samples: (samples.confident * samples.correct, samples.confident), column=4),
    undefined=f"undefined: no confidence reaches {HIGH_CONFIDENCE}",
)

QUANTITIES = tuple(each for each in tuple(globals().values()) if isinstance(each, Quantity))


NET_BENEFIT = "net_benefit_"  # before the threshold


@cache
def at_threshold(key: str) -> tuple[Quantity, ...]:
    """Net benefit of the model and of treating everyone, for a key such as ``net_benefit_0.1``; else empty.

    Example:
        >>> [each.title for each in at_threshold("net_benefit_0.1")], at_threshold("ece")
        (['Net benefit at 10%', 'Net benefit at 10%, treat all'], ())
    """
    try:
        threshold = float(key.removeprefix(NET_BENEFIT).removesuffix("_all"))
    except ValueError:
        return ()
    if not (key.startswith(NET_BENEFIT) and 0 < threshold < 1):
        return ()
    odds = f"{threshold / (1 - threshold):.3g}"
    of_threshold = partial(
        _share, better="higher", bounds=(-inf, 1.0), kinds=("binary",), default=False, prefix=EVENT
    )
    name, title = f"{NET_BENEFIT}{threshold:.12g}", f"Net benefit at {100 * threshold:.6g}%"
    return (
        of_threshold(
            key=name,
            title=title,
            meaning="True positives per sample, minus false positives times the odds of the threshold "
            f"({odds}), if all who reach it are treated. Treating no one scores 0.",
            computed=OneEventInfluence(partial(net_benefit, threshold)),
        ),
        of_threshold(
            key=f"{name}_all",
            title=f"{title}, treat all",
            meaning="The same if everyone is treated: a model below this, or below 0, does harm there.",
            computed=OneEventInfluence(partial(net_benefit, threshold, of_all=True)),
        ),
    )


def thresholds_of(text: str) -> tuple[str, ...]:
    """Keys of net benefit at thresholds such as ``".05,.1,20%"``.

    Example:
        >>> thresholds_of(".05, 20%")
        ('net_benefit_0.05', 'net_benefit_0.2')
    """
    parts = [part.strip() for part in text.split(",")]
    try:
        shares = [float(part.removesuffix("%")) / (100 if part.endswith("%") else 1) for part in parts]
    except ValueError:
        shares = [0.0]
    if not all(0 < share < 1 for share in shares):
        raise InputError(f"--thresholds must be numbers between 0 and 1, such as .05,.1,.2; got {text!r}.")
    return tuple(dict.fromkeys(f"{NET_BENEFIT}{share:.12g}" for share in sorted(shares)))


def quantities(kind: Kind, metrics: Iterable[str] = ()) -> tuple[Quantity, ...]:
    """Quantities of such predictions: the default ones, and the requested ones."""
    asked = list(metrics)
    chosen = [each for each in QUANTITIES if each.default or each.key in asked]
    chosen += (benefit := [each for key in asked for each in at_threshold(key)])
    if benefit and kind != "binary":
        raise InputError(
            f"net benefit needs an event with probabilities of two classes; these are {kind} predictions."
        )
    return tuple(form for each in chosen for form in each.forms(kind))


def find(key: str, kind: Kind) -> Quantity | None:
    """The quantity of a key in the data; ``None`` if it is not known here."""
    known = (*QUANTITIES, *at_threshold(key))
    return next((form for each in known for form in each.forms(kind) if form.key == key), None)


def display_order(key: str) -> tuple[int, bool, str]:
    """Sorting key: the positive class before the top label, unknown keys last."""
    for number, each in enumerate(QUANTITIES):
        if key in {each.key, each.event_key}:
            return number, key == each.key, key
    return len(QUANTITIES), True, key


def optional_keys() -> tuple[str, ...]:
    """The keys of quantities measured only on request."""
    return tuple(each.key for each in QUANTITIES if not each.default)


def with_gate() -> dict[str, Quantity]:
    """Quantities that a gate compares with a baseline; those whose gate has a ``help`` also with a limit."""
    return {each.key: each for each in QUANTITIES if each.gate is not None}


def check_metrics(metrics: Iterable[str]) -> tuple[str, ...]:
    """Keys of quantities, each once and in the order of the tables."""
    known, asked = [each.key for each in QUANTITIES], [metrics] if isinstance(metrics, str) else list(metrics)
    _check_among(asked, known, "`metrics`", "")
    return tuple(key for key in known if key in asked) + tuple(key for key in asked if at_threshold(key))


def check_added(metrics: Iterable[str]) -> tuple[str, ...]:
    """Metrics named by ``--metric``, each of which must add something to the default."""
    asked = list(metrics)
    shown = [each.key for each in QUANTITIES if each.default and each.key in asked]
    _check_among(asked, optional_keys(), "--metric", f" {shown[0]} is always shown;" if shown else "")
    return tuple(asked)


def _check_among(asked: Iterable[str], known: Iterable[str], name: str, remark: str) -> None:
    for key in asked:
        if key not in known and not at_threshold(key):
            raise InputError(
                f"{name} must name quantities that can be added; got {key!r};{remark} "
                f"there are {', '.join(optional_keys())}, and {NET_BENEFIT}0.1 for net benefit at 0.1"
                f"{meant(key, optional_keys()) or '.'}"
            )
