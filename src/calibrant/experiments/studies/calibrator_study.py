"""Every calibrator on every file of logits: fitted on one half of the samples, judged on the other."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from calibrant import metrics
from calibrant._math.errors import CalibrantWarning, ConvergenceError, InputError
from calibrant.calibrators import Calibrator, available, build
from calibrant.evaluation.split import stratified_folds
from calibrant.experiments.studies.prediction_files import prediction_files
from calibrant.predictions import Predictions

AS_THEY_CAME = "uncalibrated"
CRITERIA = ("nll", "brier", "ece", "adaptive_ece")  # fitted by each, judged by each
FITTED_BY = ("temperature", "focal-temperature")
MEASURES = ("nll", "brier", "ece", "adaptive_ece", "classwise", "smce", "accuracy")


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One calibrator on one division of one file."""

    file: str
    kind: str
    num_samples: int
    num_classes: int
    seed: int
    calibrator: str
    measures: dict[str, float | None]
    """On the half that was not fitted on; None where infinite."""
    changed: float | None
    """Share of samples whose most probable class (of yes-or-no labels: decision) is another one."""
    seconds: float | None
    """Of processor time that the fit took, on one thread."""
    failure: str | None = None


MOST_CLASSES = {"dirichlet": 50}  # with more a fit takes minutes


def calibrators_for(kind: str, num_classes: int) -> list[str]:
    """Every calibrator for that kind of predictions, then the temperatures fitted by other criteria.

    Dirichlet calibration is left out above 50 classes, where a fit takes minutes. Of several labels per
    sample focal temperature scaling is fitted by NLL alone: by a binned error each label takes seconds.
    """
    names = [
        name
        for name in available()
        if kind in build(name).kinds and num_classes <= MOST_CLASSES.get(name, num_classes)
    ]
    by_others = FITTED_BY[:1] if kind == "multilabel" else FITTED_BY
    return names + [f'{name}(objective="{by}")' for name in by_others for by in CRITERIA[1:]]


def run_calibrator_study(
    folder: Path,
    out: Path,
    *,
    seeds: Sequence[int] = range(10),
    tell: Callable[[str], None] = lambda _: None,
) -> Path:
    """Carry out what is not in ``out/trials.jsonl`` yet, one line for each trial as it ends.

    Raises:
        InputError: If the folder holds no file of predictions with all scores.
    """
    out.mkdir(parents=True, exist_ok=True)
    lines = out / "trials.jsonl"
    done = {(trial.file, trial.seed, trial.calibrator) for trial in read_trials(lines)}
    files = {name: given for name, given in prediction_files(folder) if given.kind != "top_label"}
    if not files:
        raise InputError(f"{folder} holds no file of predictions with all scores.")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with lines.open("a", encoding="utf-8") as file:
            for seed in seeds:
                for name, predictions in files.items():
                    names = [AS_THEY_CAME, *calibrators_for(predictions.kind, predictions.num_classes or 2)]
                    missing = [each for each in names if (name, seed, each) not in done]
                    for trial in _trials(name, predictions, seed, missing) if missing else ():
                        file.write(json.dumps(asdict(trial)) + "\n")
                        file.flush()
                    tell(f"{name}, division {seed + 1}")
    finally:
        torch.set_num_threads(threads)
    return lines


def read_trials(lines: Path) -> list[Trial]:
    """The trials of a file; a last line that was cut off by a kill is passed over."""
    if not lines.exists():
        return []
    found: list[Trial] = []
    for line in lines.read_text(encoding="utf-8").splitlines():
        try:
            found.append(Trial(**json.loads(line)))
        except (json.JSONDecodeError, TypeError):
            continue
    return found


def _trials(name: str, predictions: Predictions, seed: int, calibrators: Sequence[str]) -> Iterator[Trial]:
    halves = stratified_folds(predictions, 2, seed)
    calibration, test = predictions.rows(halves == 0), predictions.rows(halves == 1)
    before = test.probs
    for text in calibrators:
        probs, seconds, failure = before, None, None
        if text != AS_THEY_CAME:
            start = time.process_time()
            try:
                calibrator = _fitted(text, calibration)
            except (InputError, ConvergenceError) as error:
                failure = str(error)
            else:
                seconds = time.process_time() - start
                probs = calibrator.predict_proba(test.scores)
        yield Trial(
            file=name,
            kind=predictions.kind,
            num_samples=predictions.num_samples,
            num_classes=predictions.num_classes or 2,
            seed=seed,
            calibrator=text,
            measures={} if failure else _measured(probs, test),
            changed=None if failure else _changed(before, probs, predictions.kind),
            seconds=seconds,
            failure=failure,
        )


def _fitted(text: str, calibration: Predictions) -> Calibrator:
    if calibration.labels is None:
        raise InputError("`labels` must be given to fit a calibrator; got none.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrantWarning)
        return build(text).fit(calibration.scores, calibration.labels, weights=calibration.weights)


def _measured(probs: torch.Tensor, test: Predictions) -> dict[str, float | None]:
    labels = test.labels
    if labels is None:
        raise InputError("`labels` must be given to judge a calibrator; got none.")
    found = {
        "nll": metrics.negative_log_likelihood(probs, labels, weights=test.weights),
        "brier": metrics.brier_score(probs, labels, weights=test.weights),
        "ece": metrics.expected_calibration_error(probs, labels, weights=test.weights),
        "adaptive_ece": metrics.adaptive_calibration_error(probs, labels, weights=test.weights),
        "smce": metrics.smooth_calibration_error(probs, labels, weights=test.weights),
        "accuracy": metrics.accuracy(probs, labels, weights=test.weights),
    }
    if test.kind == "multiclass":
        found["classwise"] = metrics.classwise_calibration_error(probs, labels, weights=test.weights)
    values = {name: float(value) for name, value in found.items()}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _changed(before: torch.Tensor, after: torch.Tensor, kind: str) -> float:
    if kind == "multiclass":
        return float((before.argmax(dim=1) != after.argmax(dim=1)).double().mean())
    return float(((before > 0.5) != (after > 0.5)).double().mean())
