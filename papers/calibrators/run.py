"""Which calibrator repairs other people's networks?"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path, PurePath
from statistics import fmean, stdev
from typing import Any

import numpy as np
import pandas as pd
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

from calibrant import evaluate, metrics
from calibrant._math.binning import width_bin_index
from calibrant._math.drawing import out_of_fold
from calibrant._math.errors import InputError, without_warnings
from calibrant._math.machine import threads_for
from calibrant._math.means import rounded
from calibrant._math.scores import brier_scores, negative_log_likelihoods, top_label
from calibrant._math.shapes import Float, Int
from calibrant.calibrators import Calibrator, available, build
from calibrant.evaluation.arguments import as_judged, versions
from calibrant.evaluation.fitting.split import stratified_folds
from calibrant.evaluation.fitting.templates import FIT_FAILURES, Labelled, fit_quietly
from calibrant.evaluation.resampling.resamples import Means
from calibrant.predictions import Predictions
from calibrant.reports.figures.drawing import BLUE, GREY, VERMILLION
from papers.analysis import LEVEL, Frames, Tables, ordered, resampled
from papers.prediction_files import ENDINGS, data_folder, prediction_files
from papers.runs import Records

AS_THEY_CAME = "uncalibrated"
PLAIN, FOCAL = "temperature", "focal-temperature"
RIVALS = ("vector", "matrix", "structured-matrix")
CRITERIA = ("nll", "brier", "ece", "adaptive_ece")
"""Both temperature scalings are fitted by each."""
MEASURES = {
    "nll": metrics.negative_log_likelihood,
    "brier": metrics.brier_score,
    "ece": metrics.expected_calibration_error,
    "adaptive_ece": metrics.adaptive_calibration_error,
    "classwise": metrics.classwise_calibration_error,
    "smce": metrics.smooth_calibration_error,
    "accuracy": metrics.accuracy,
}
COMPARED = ("nll", "brier", "ece")
"""What has standard errors."""
JUDGED = ("accuracy", "nll", "ece", "adaptive_ece", "classwise_ece", "smce", "slope")
OF_THE_EVENT = {"ece", "adaptive_ece", "smce", "slope"}
"""What is judged of the positive class where there is one."""
DIVISIONS = 3
DRAWS = 1000
"""Resamples and draws under calibration of a file as it came."""
RESAMPLES = 400
REFITS = 100
NUM_BINS = 15
MOST_CLASSES = {"dirichlet": 50}
"""With more a fit takes minutes."""


def measure(folder: Path) -> dict[str, Any]:
    """The results of all files in the folder of ``CALIBRANT_DATA``; a record of each in ``folder``."""
    records, left_out = Records(folder / "calibrators.jsonl"), dict[str, str]()
    source = data_folder()
    judged: list[Any] = []
    tried: dict[str, Any] = {}
    with threads_for(0):
        for name, given in prediction_files(source, left_out):
            given = given.with_split(None)
            judged.append(records.get(f"{name}, as it came", partial(judged_as_it_came, name, given))["row"])
            if given.kind != "top_label":
                tried[name] = records.get(f"{name}, calibrators", partial(judged_when_repaired, given))
    if not judged:
        raise InputError(f"{source} holds no file of predictions ({', '.join(ENDINGS)}).")
    return {
        "judged": judged,
        "left_out": left_out,
        "divisions": DIVISIONS,
        "files": {name: of["calibrators"] for name, of in tried.items()},
        "exponent": {name: of["exponent"] for name, of in tried.items()},
        "versions": versions(),
    }


def judged_as_it_came(name: str, given: Predictions) -> dict[str, Any]:
    """What ``calibrant evaluate`` says of a file, and the kernel-smoothed error."""
    found = evaluate(given, calibrators=[], bootstrap=DRAWS, null_draws=DRAWS)
    (arm,) = found.arms
    one = as_judged(given)
    prefix = "event_" if one.kind == "binary" else ""
    estimates = {key: asdict(arm.metrics[prefix * (key in OF_THE_EVENT) + key]) for key in JUDGED}
    if one.kind == "top_label":  # theirs is that of being right, not to be read beside that of classes
        reason = "needs the probabilities of all classes"
        estimates["nll"] = {**dict.fromkeys(estimates["nll"]), "reason": reason}
        said = one.confidence, one.correct
    else:
        said = one.probs, Labelled.of(one).labels
    null = next(each for each in arm.null if each.metric == f"{prefix}ece")
    row = {
        "name": name,
        "kind": one.kind,
        "num_samples": one.num_samples,
        "num_classes": one.num_classes,
        "metrics": estimates,
        "smooth_ece": float(metrics.smooth_ece(*said)),
        "null_mean": null.mean,
        "null_upper": null.upper,
        "p_value": null.p_value,
        "direction": found.verdict.direction,
        "failing": [part.name for part in arm.parts if not part.holds],
    }
    return {"row": row}


def calibrators_for(kind: str, num_classes: int) -> list[str]:
    """Every calibrator for that kind of predictions, then the temperatures fitted by other criteria.

    For several labels a sample focal temperature scaling is fitted by NLL alone: by a binned error each
    label takes seconds.
    """
    names = [
        name
        for name in available()
        if kind in build(name).kinds and num_classes <= MOST_CLASSES.get(name, num_classes)
    ]
    by_others = (PLAIN,) if kind == "multilabel" else (PLAIN, FOCAL)
    return names + [f'{name}(objective="{by}")' for name in by_others for by in CRITERIA[1:]]


def draws(num_samples: int, number: int, *, seed: int = 0) -> NDArray[np.uint8]:
    """How often each of N samples occurs in each of B resamples of size N: ``(B, N)``."""
    return np.stack(list(resampled(num_samples, number, seed=seed))).astype(np.uint8)


def measures_of_draws(
    counts: NDArray[np.uint8], probs: Tensor, data: Labelled
) -> dict[str, NDArray[np.float64] | None]:
    """NLL, Brier score and ECE of each resample; None where one is infinite."""
    weights = np.ones(len(probs)) if data.weights is None else data.weights.numpy()
    losses = losses_of(probs, data)
    found = Means({name: (weights * each, weights) for name, each in losses.items()}, None)(counts)
    found["ece"] = np.zeros(len(counts))
    columns = event_columns(probs, data.labels)
    for confidences, outcomes in columns:
        bins = width_bin_index(confidences, NUM_BINS).numpy()
        residuals = weights * (confidences - outcomes).numpy()
        of_bins = {str(place): (residuals * (bins == place), weights) for place in range(NUM_BINS)}
        gaps = Means(of_bins, None)(counts)
        found["ece"] += sum(np.abs(gap) for gap in gaps.values()) / len(columns)
    return {name: values if np.isfinite(values).all() else None for name, values in found.items()}


def losses_of(probs: Tensor, data: Labelled) -> Mapping[str, NDArray[np.float64]]:
    scores = {"nll": negative_log_likelihoods, "brier": brier_scores}
    return {name: score(probs, data.labels).numpy() for name, score in scores.items()}


def event_columns(probs: Tensor, labels: Tensor) -> list[tuple[Float[Tensor, " N"], Float[Tensor, " N"]]]:
    """Confidences with outcomes: of the top label, of the event, or of each of several labels."""
    if probs.ndim == 2 and labels.ndim == 1:
        top = top_label(probs, labels)
        return [(top.confidence, top.correct.double())]
    table, outcomes = (each.double().reshape(len(each), -1) for each in (probs, labels))
    return list(zip(table.unbind(1), outcomes.unbind(1), strict=True))


@dataclass(frozen=True)
class Crossed:
    """What calibrators that did not see a sample say of it, and how long a fit took."""

    probs: Tensor
    seconds: float | None
    calibrators: list[Calibrator]


@dataclass(frozen=True)
class Division:
    """One file, divided into halves at random within each class."""

    predictions: Predictions
    seed: int

    @cached_property
    def data(self) -> Labelled:
        return Labelled.of(self.predictions)

    @cached_property
    def halves(self) -> Int[Tensor, " N"]:
        return torch.from_numpy(stratified_folds(self.predictions, 2, self.seed))

    def judged(self, text: str) -> Crossed:
        """Every sample, judged by a calibrator that was fitted on the half without it."""
        seconds, calibrators = list[float](), list[Calibrator]()

        def judge(inside: Tensor) -> Tensor:
            start = time.process_time()
            calibrators.append(fit_quietly(build(text), self.data.rows(~inside)))
            seconds.append(time.process_time() - start)
            return calibrators[-1].predict_proba(self.data.scores[inside]).double()

        return Crossed(out_of_fold(self.halves, judge), fmean(seconds), calibrators)

    def judged_again(self, fitted: Crossed, weights: Float[Tensor, " N"]) -> Tensor:
        """The same by calibrators that are fitted again to their halves with these weights."""
        calibrators = iter(fitted.calibrators)

        def judge(inside: Tensor) -> Tensor:
            drawn = ~inside & (weights > 0)
            data = self.data.rows(drawn)
            with without_warnings():
                again = next(calibrators).refit(data.scores, data.labels, weights=weights[drawn])
            return again.predict_proba(self.data.scores[inside]).double()

        return out_of_fold(self.halves, judge)


def measured(probs: Tensor, data: Labelled, names: Sequence[str] = COMPARED) -> dict[str, float]:
    return {name: float(MEASURES[name](probs, data.labels, weights=data.weights)) for name in names}


def trial(division: Division, name: str, counts: NDArray[np.uint8]) -> dict[str, Any] | None:
    """Measures of all samples and of resamples after a calibrator; None where the fit fails."""
    data, before = division.data, division.predictions.probs.double()
    try:
        found = Crossed(before, None, []) if name == AS_THEY_CAME else division.judged(name)
    except FIT_FAILURES:
        return None
    several = division.predictions.kind == "multiclass"
    names = [each for each in MEASURES if several or each != "classwise"]
    said = [each.argmax(1) if several else each > 0.5 for each in (before, found.probs)]
    measures = measured(found.probs, data, names)
    return {
        "measures": {by: value if math.isfinite(value) else None for by, value in measures.items()},
        "draws": measures_of_draws(counts, found.probs, data),
        "changed": float((said[0] != said[1]).double().mean()),
        "seconds": found.seconds,
    }


class Trials:
    """Calibrators on all divisions of a file, on the same resamples."""

    def __init__(self, given: Predictions, names: Sequence[str]) -> None:
        self.counts = draws(given.num_samples, RESAMPLES)
        divisions = [Division(given, seed) for seed in range(DIVISIONS)]
        self.of = {name: [trial(each, name, self.counts) for each in divisions] for name in names}

    def mean(self, name: str, by: str) -> float | None:
        """A measure, as a mean over the divisions; None where one is infinite, or a fit failed."""
        values = [each and each["measures"][by] for each in self.of[name]]
        return None if None in values else fmean(values)

    def error(self, one: str, other: str, by: str) -> float | None:
        """The standard error of the difference of two calibrators' means, paired by resample."""
        draws = [[each and each["draws"][by] for each in self.of[name]] for name in (one, other)]
        if any(each is None for each in (*draws[0], *draws[1])):
            return None
        return rounded(stdev(np.mean(draws[0], axis=0) - np.mean(draws[1], axis=0)))

    def summary(self, name: str) -> dict[str, Any]:
        """Values division by division; what failed has none."""
        fitted = [each for each in self.of[name] if each is not None]
        names = fitted[0]["measures"] if fitted else ()
        seconds = [each["seconds"] for each in fitted if each["seconds"] is not None]
        return {
            "measures": {by: [rounded(each["measures"][by]) for each in fitted] for by in names},
            "changed": rounded(fmean(each["changed"] for each in fitted)) if fitted else 0.0,
            "seconds": rounded(fmean(seconds)) if seconds else None,
            "failures": len(self.of[name]) - len(fitted),
        }


def judged_when_repaired(given: Predictions) -> dict[str, Any]:
    """Every calibrator on a file; and what the exponent of focal temperature scaling gains, closely."""
    classes = given.num_classes or 2
    names = (AS_THEY_CAME, *calibrators_for(given.kind, classes))
    trials = Trials(given, names)
    pairs = [(PLAIN, name) for name in names if name != PLAIN]
    pairs += [(FOCAL, name) for name in RIVALS if name in names]
    return {
        "calibrators": {
            "kind": given.kind,
            "num_samples": given.num_samples,
            "num_classes": classes,
            "seeds": list(range(DIVISIONS)),
            "calibrators": {name: trials.summary(name) for name in names},
            "errors": {pair_name(*pair): {by: trials.error(*pair, by) for by in COMPARED} for pair in pairs},
        },
        "exponent": {
            "refit_errors": refit_errors(given, trials.counts[:REFITS]),
            "zeros": int(impossible(given).sum()),
            "without_zeros": without_zeros(given),
        },
    }


def pair_name(one: str, other: str) -> str:
    return " | ".join(sorted((one, other)))


def refit_errors(given: Predictions, counts: NDArray[np.uint8]) -> dict[str, float | None]:
    """Standard errors of focal over plain temperature scaling, both fitted again to resampled halves."""
    division = Division(given, 0)
    fitted = [division.judged(name) for name in (PLAIN, FOCAL)]
    gains: dict[str, list[float]] = {name: [] for name in COMPARED}
    for drawn in counts:
        weights = torch.from_numpy(drawn.astype(np.float64))
        weights = weights if division.data.weights is None else weights * division.data.weights
        data = Labelled(division.data.scores, division.data.labels, weights)
        plain, focal = (measured(division.judged_again(each, weights), data) for each in fitted)
        for name in COMPARED:
            gains[name].append(plain[name] - focal[name])
    return {name: rounded(stdev(values)) for name, values in gains.items()}


def impossible(given: Predictions) -> Tensor:
    """Which samples had what is true of them given a probability of exactly zero."""
    return torch.from_numpy(np.isinf(losses_of(given.probs, Labelled.of(given))["nll"]))


def without_zeros(given: Predictions) -> dict[str, Any] | None:
    """Gains of focal temperature scaling without the impossible samples; None where there are none."""
    zero = impossible(given)
    if not bool(zero.any()):
        return None
    kept = given.rows(~zero)
    others = (PLAIN, *(RIVALS if kept.kind == "multiclass" else ()))
    trials = Trials(kept, (FOCAL, *others))

    def gain(other: str, by: str) -> dict[str, float | None]:
        before, after = trials.mean(other, by), trials.mean(FOCAL, by)
        fall = None if before is None or after is None else rounded(before - after)
        return {"before": rounded(before), "gain": fall, "error": trials.error(other, FOCAL, by)}

    over = {other: {by: gain(other, by) for by in COMPARED} for other in others}
    return {"over": over, "refit_errors": refit_errors(kept, draws(kept.num_samples, REFITS))}


Z = float(stats.norm.ppf((1 + LEVEL) / 2))
NAMES = {
    AS_THEY_CAME: "as they came",
    PLAIN: "temperature",
    FOCAL: "focal temperature",
    "bias-corrected-temperature": "bias-corrected temperature",
    "ensemble-temperature": "ensemble temperature",
    "vector": "vector",
    "matrix": "matrix",
    "structured-matrix": "structured matrix",
    "dirichlet": "Dirichlet",
    "isotonic": "isotonic",
    "histogram": "histogram",
    "bayesian-binning": "Bayesian binning",
}
"""Calibrators on the page."""


SIDES = ["lower", "higher", "undecided"]


def frames(results: Mapping[str, Any]) -> Frames:
    """``judged`` as they came, ``means`` and ``gains`` by calibrator, and ``criteria``."""
    means = pd.DataFrame(_means(results["files"]))
    by = means.set_index(["file", "calibrator"])
    rows = {
        "gains": _gains(results, by),
        "criteria": _criteria(by),
        "judged": map(_judged, results["judged"]),
    }
    return {"means": means, **{name: pd.DataFrame(of) for name, of in rows.items()}}


def _judged(row: Mapping[str, Any]) -> dict[str, Any]:
    """A file as it came; ``value`` is the slope of recalibration less 1, below 0 if over-confident."""
    ece, slope = row["metrics"]["ece"], row["metrics"]["slope"]
    return {
        "file": row["name"],
        "ece": ece["value"],
        "low": ece["low"],
        "high": ece["high"],
        "at most by chance": row["null_upper"],
        "value": slope["value"] - 1,
        "standard_error": (slope["high"] - slope["low"]) / (2 * Z),
    }


def _means(files: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Measures of each calibrator on each file, as means over the divisions; NaN where one is infinite."""
    for name, found in files.items():
        for calibrator, each in found["calibrators"].items():
            values = {
                by: math.nan if None in of or not of else math.fsum(of) / len(of)
                for by, of in each["measures"].items()
            }
            yield {"file": name, "calibrator": calibrator, **values, "changed": each["changed"]}


def _gains(results: Mapping[str, Any], means: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """How much lower measures are after a calibrator than after another, with the error over samples.

    For both temperature scalings it is the larger of two errors, with the fits as they are and fitted again.
    ``counts`` is what decides about focal temperature scaling: without samples whose true class had a
    probability of zero, if there are any.
    """
    for name, found in results["files"].items():
        exponent = results["exponent"][name]
        pairs = [(each, PLAIN) for each in found["calibrators"] if each != PLAIN]
        pairs += [(FOCAL, rival) for rival in RIVALS if rival in found["calibrators"]]
        for calibrator, against in pairs:
            errors = found["errors"][pair_name(calibrator, against)]
            last = exponent["without_zeros"] if calibrator == FOCAL else None
            for by in COMPARED:
                both = calibrator == FOCAL and against == PLAIN
                key = {"file": name, "measure": by, "calibrator": calibrator, "against": against}
                error = math.nan if errors[by] is None else errors[by]
                yield {
                    **key,
                    "before": means.loc[(name, against), by],
                    "value": means.loc[(name, against), by] - means.loc[(name, calibrator), by],
                    "standard_error": max(error, exponent["refit_errors"][by]) if both else error,
                    "counts": last is None,
                }
                if last is not None:
                    kept = last["over"][against][by]
                    error = max(kept["error"], last["refit_errors"][by]) if both else kept["error"]
                    alone = {"before": kept["before"], "value": kept["gain"], "standard_error": error}
                    yield {**key, **alone, "counts": True}


def _criteria(means: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """By how much a measure changes if a temperature is fitted by it instead of by NLL; files are samples."""
    pairs = [*((by, by) for by in CRITERIA[1:]), ("ece", "nll")]
    for file in means.index.unique("file"):
        for calibrator in (PLAIN, FOCAL):
            for by, judged in pairs:
                text = f'{calibrator}(objective="{by}")'
                if (file, text) not in means.index:
                    continue
                ratio = means.loc[(file, text), judged] / means.loc[(file, calibrator), judged]
                key = {"file": file, "seed": file, "calibrator": calibrator, "by": by, "measure": judged}
                if ratio > 0:
                    yield {**key, "value": math.log(ratio)}


def tables(found: Frames) -> Tables:
    against = found["gains"].query(f"against == '{PLAIN}' and counts").copy()
    sure = against.value.abs() > Z * against.standard_error
    against["side"] = (against.value > 0).map({True: "lower", False: "higher"}).where(sure, "undecided")
    against["change"] = -100 * against.value / against.before
    rows = dict[str, dict[str, str]]()
    for name, of in ordered(against, "calibrator", NAMES).groupby("calibrator", observed=True):
        nll, ece = (of[of.measure.eq(by) & of.value.notna()] for by in ("nll", "ece"))
        counts = nll.side.value_counts()
        inside = found["means"][found["means"].calibrator.map(NAMES).eq(name)]
        rows[str(name)] = {
            "files": str(len(ece)),
            "NLL lower/higher/undecided": "/".join(map(str, counts.reindex(SIDES, fill_value=0))),
            "NLL, %": f"{nll.change.median():+z.1f}",
            "ECE, %": f"{ece.change.median():+z.1f}",
            "decisions changed, %": f"{100 * inside.changed.median():.1f}",
        }
    return {"short": pd.DataFrame(rows).T.rename_axis("calibrator")}


def figure(found: Frames) -> Figure:
    judged = found["judged"].sort_values("ece").reset_index(drop=True)
    whole = Figure(figsize=(8.4, 6.4), layout="constrained")
    ax = whole.subplots()
    colours = judged.value.lt(0).map({True: VERMILLION, False: BLUE})
    looks = {VERMILLION: "over-confident (slope below 1)", BLUE: "under-confident (slope above 1)"}
    for colour, name in looks.items():
        part = judged[colours.eq(colour)]
        ax.hlines(part.index, 100 * part.low, 100 * part.high, color=colour, linewidth=1)
        ax.plot(100 * part.ece, part.index, "o", color=colour, markersize=4, label=name)
    ax.plot(100 * judged["at most by chance"], judged.index, "|", color=GREY, label="95 % quantile by chance")
    ax.set_yticks(judged.index, [PurePath(each).stem.rpartition("__")[2] for each in judged.file], fontsize=7)
    ax.set(xlabel="ECE in % as it came", xlim=(0, None))
    ax.legend(loc="lower right")
    return whole
