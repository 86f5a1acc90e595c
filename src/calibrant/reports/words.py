"""What metrics are called and mean, and how numbers are written; shared by the report and the terminal."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from calibrant.evaluation.result import Direction, Estimate, Kind

MISSING = "–"
MARK_OF: dict[Direction, str] = {
    "over-confident": "▼",  # as in the diagrams: the points lie below the band
    "under-confident": "▲",
    "miscalibrated": "◆",
    "calibrated": "●",
    "undecided": "?",
}


@dataclass(frozen=True)
class Metric:
    """A metric in words; ``better`` says which values are good, ``None`` where neither end is."""

    title: str
    group: str
    better: Literal["lower", "higher", "near zero", "near one"] | None
    meaning: str


_CALIBRATION = "Calibration errors"
_SCORES = "Proper scores"
_ACCURACY = "Accuracy and confidence"
_CERTAINTY = "Certainty"
GROUPS = (_CALIBRATION, _SCORES, _ACCURACY, _CERTAINTY)

_METRICS = {
    "ece": Metric(
        "ECE",
        _CALIBRATION,
        "lower",
        "Expected calibration error: how far the stated probability is from how often it comes true, "
        "on average over bins of equal width. 0 is perfect.",
    ),
    "adaptive_ece": Metric(
        "Adaptive ECE", _CALIBRATION, "lower", "The same distance, over bins that hold equally many samples."
    ),
    "smce": Metric(
        "smCE",
        _CALIBRATION,
        "lower",
        "Smooth calibration error: the largest error that any smooth weighting of the probabilities finds; "
        "no bins. 0 is perfect.",
    ),
    "l2_ece": Metric(
        "L2 ECE",
        _CALIBRATION,
        "lower",
        "Root of the mean squared distance over the bins: large errors weigh more than many small ones.",
    ),
    "mce": Metric(
        "Maximum CE",
        _CALIBRATION,
        "lower",
        "The largest distance of any bin; noisy where a bin holds few samples.",
    ),
    "classwise_ece": Metric(
        "Class-wise ECE",
        _CALIBRATION,
        "lower",
        "Calibration error of every class's probability, not only the winner's, averaged over the classes.",
    ),
    "gap": Metric(
        "Gap",
        _CALIBRATION,
        "near zero",
        "Mean confidence minus accuracy: above 0 the model claims too much, below 0 too little.",
    ),
    "slope": Metric(
        "Calibration slope",
        _CALIBRATION,
        "near one",
        "Slope of what happens on what is stated, in log-odds: below 1 the probabilities are too extreme, "
        "above 1 too timid.",
    ),
    "intercept": Metric(
        "Calibration intercept",
        _CALIBRATION,
        "near zero",
        "Shift of the log-odds that would make the mean right: below 0 the probabilities are too high on "
        "the whole, above 0 too low.",
    ),
    "nll": Metric(
        "NLL",
        _SCORES,
        "lower",
        "Negative log-likelihood in nats: judges accuracy and honesty at once, confident mistakes hardest.",
    ),
    "brier": Metric(
        "Brier score",
        _SCORES,
        "lower",
        "Mean squared distance from the probabilities to what happened: judges accuracy and honesty at once.",
    ),
    "accuracy": Metric(
        "Accuracy", _ACCURACY, "higher", "Share of samples whose most probable answer is right."
    ),
    "auroc": Metric(
        "AUROC",
        _ACCURACY,
        "higher",
        "How well the scores rank: the chance that a positive sample scores above a negative one.",
    ),
    "mean_confidence": Metric(
        "Mean confidence",
        _ACCURACY,
        None,
        "Mean probability of the most probable answer; equals the accuracy if honest.",
    ),
    "mean_probability": Metric(
        "Mean probability",
        _ACCURACY,
        None,
        "Mean stated probability of a positive; equals the prevalence if honest.",
    ),
    "prevalence": Metric("Prevalence", _ACCURACY, None, "Share of positives in the data."),
    "entropy": Metric(
        "Entropy", _CERTAINTY, None, "Mean entropy of the stated probabilities in nats; 0 is certain."
    ),
    "entropy_correct": Metric(
        "Entropy where right", _CERTAINTY, None, "The mean entropy of the samples that the model got right."
    ),
    "entropy_incorrect": Metric(
        "Entropy where wrong",
        _CERTAINTY,
        None,
        "The mean entropy of the samples that the model got wrong; it should be high: unsure where wrong.",
    ),
    "high_confidence_share": Metric(
        "Share ≥ 0.99 sure", _CERTAINTY, None, "Share of samples with a confidence of 0.99 or more."
    ),
    "high_confidence_accuracy": Metric(
        "Accuracy when ≥ 0.99 sure",
        _CERTAINTY,
        None,
        "How often those samples are right; 0.99 or more if honest.",
    ),
}

_AIMS = {"near zero": 0.0, "near one": 1.0}
_TOP_LABEL_TOO = {
    "ece",
    "adaptive_ece",
    "smce",
    "l2_ece",
    "mce",
    "slope",
    "intercept",
}  # of binary predictions


def rank(key: str) -> tuple[int, bool, str]:
    """Where a metric stands: the positive class before the top label, what is not known here last."""
    base = key.removeprefix("event_")
    return (list(_METRICS).index(base) if base in _METRICS else len(_METRICS), key == base, key)


def metric(key: str, kind: Kind) -> Metric:
    """The words for a metric's key; in the binary case both the top label and the positive class are named.

    Example:
        >>> metric("ece", "multiclass").title, metric("ece", "binary").title
        ('ECE', 'ECE, top label')
        >>> metric("event_ece", "binary").title
        'ECE, positive class'
    """
    base = _METRICS.get(key.removeprefix("event_"))
    if base is None:
        return Metric(key.replace("_", " "), _CERTAINTY, None, "")
    if key.startswith("event_"):
        return replace(base, title=f"{base.title}, positive class")
    if kind == "binary" and key in _TOP_LABEL_TOO:
        return replace(base, title=f"{base.title}, top label")
    return base


def judge(
    key: str, kind: Kind, estimate: Estimate, change: Estimate | None
) -> Literal["better", "worse"] | None:
    """Whether a paired change is clearly good or bad: its interval must leave out zero.

    Values that are alike as they are shown are neither, however sure the difference.
    """
    better = metric(key, kind).better
    if better is None or change is None or change.value is None or change.low is None or change.high is None:
        return None
    if change.low <= 0 <= change.high or estimate.value is None:
        return None
    before = estimate.value - change.value
    if number(estimate.value) == number(before):
        return None
    if better in _AIMS:
        nearer = abs(estimate.value - _AIMS[better]) < abs(before - _AIMS[better])
        return "better" if nearer else "worse"
    return "better" if (change.value < 0) == (better == "lower") else "worse"


def goodness(key: str, kind: Kind, value: float) -> float | None:
    """A number that is larger for better values, or ``None`` where no value is better than another."""
    better = metric(key, kind).better
    if better is None:
        return None
    return value if better == "higher" else -abs(value - _AIMS.get(better, 0.0))


def number(value: float | None, *, signed: bool = False) -> str:
    """Four decimals everywhere.

    Example:
        >>> number(0.05194), number(-0.02), number(0.02, signed=True), number(-0.00001), number(None)
        ('0.0519', '−0.0200', '+0.0200', '0.0000', '–')
    """
    if value is None:
        return MISSING
    text = f"{abs(value):.4f}"
    if float(text) == 0:
        return text
    return ("−" if value < 0 else "+" if signed else "") + text


def interval(estimate: Estimate, *, between: str = " to ", signed: bool = False) -> str:
    """``0.0412 to 0.0631``, or nothing where there is no interval."""
    if estimate.low is None or estimate.high is None:
        return ""
    return f"{number(estimate.low, signed=signed)}{between}{number(estimate.high, signed=signed)}"


def count(value: int) -> str:
    """Thousands set apart by a comma."""
    return f"{value:,}"


def plural(value: int, noun: str, nouns: str | None = None) -> str:
    """``1 sample``, ``2,341 samples``."""
    return f"{count(value)} {noun if value == 1 else nouns or noun + 's'}"


def unbroken(text: str) -> str:
    """The text with no line break between a number and its per cent sign."""
    return text.replace(" %", "\u00a0%")


def percent(level: float) -> str:
    """``95 %``."""
    return f"{100 * level:.6g} %"


def parameter(value: float | tuple[float, ...], *, most: int = 6) -> str:
    """A fitted parameter with four significant digits; long lists are cut, and their length said."""
    if not isinstance(value, tuple):
        return f"{value:.4g}".replace("-", "−")
    shown = ", ".join(parameter(entry) for entry in value[:most])
    return f"[{shown}]" if len(value) <= most else f"[{shown}, … {count(len(value))} values]"


def parameter_name(name: str) -> str:
    """A fitted parameter by a name that says what it is."""
    return {"original": "share of the probabilities as they came"}.get(name, name)


def shortened(name: str, *, most: int = 28) -> str:
    """A name that is too long, cut in the middle so that both ends stay."""
    if len(name) <= most:
        return name
    return f"{name[: most // 2]}…{name[len(name) - (most - most // 2 - 1) :]}"
