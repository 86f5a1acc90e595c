"""What a monitor found, as a text file that Prometheus's node exporter collects."""

from __future__ import annotations

from calibrant.evaluation.monitoring.result import Monitoring

_HELP = {
    "alarm": "Whether the monitor has raised an alarm.",
    "evidence_log10": "Evidence against each hypothesis after the last window, as a power of ten.",
    "threshold_log10": "Evidence that raises an alarm.",
    "samples": "Samples seen.",
    "labelled_samples": "Samples whose label is known.",
    "window": "What the last window with labels shows.",
    "window_end_seconds": "When that window ends.",
}


def prometheus_text(found: Monitoring, *, model: str | None = None) -> str:
    """Metrics in Prometheus's text format; those of a window are of the last one that has labels.

    Each has the labels ``file``, if the samples came from one, and ``model``, if it is named, so that the
    metrics of several models stay apart.

    Example:
        >>> import numpy as np
        >>> from calibrant import Predictions
        >>> from calibrant.evaluation import monitor
        >>> stream = Predictions(confidence=[0.5, 0.6] * 20, correct=[1, 0, 1, 1] * 10)
        >>> found = monitor(stream, np.arange(40), window=20, bootstrap=10)
        >>> print(prometheus_text(found, model="a").splitlines()[2])
        calibrant_monitor_alarm{model="a"} 0
    """
    rows: dict[str, list[tuple[dict[str, str], float]]] = {name: [] for name in _HELP}
    rows["alarm"] = [({}, 0 if found.passed else 1)]
    rows["samples"] = [({}, found.num_samples)]
    rows["labelled_samples"] = [({}, found.num_labelled)]
    for test in found.tests:
        label = {"test": test.key}
        rows["evidence_log10"].append((label, test.log10_evidence[-1]))
        rows["threshold_log10"].append((label, test.log10_threshold))
    last = next((each for each in reversed(found.windows) if each.metrics), None)
    for name, estimate in {} if last is None else last.metrics.items():
        for bound in ("value", "low", "high"):
            if (number := getattr(estimate, bound)) is not None:
                rows["window"].append(({"metric": name, "bound": bound}, number))
    if last is not None and last.end_seconds is not None:
        rows["window_end_seconds"] = [({}, last.end_seconds)]
    which = {} if found.source is None else {"file": found.source.name}
    which |= {} if model is None else {"model": model}
    lines: list[str] = []
    for name, values in rows.items():
        if values:
            full = f"calibrant_monitor_{name}"
            lines += [f"# HELP {full} {_HELP[name]}", f"# TYPE {full} gauge"]
            lines += [f"{full}{_labels(which | own)} {number:.17g}" for own, number in values]
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    r"""Labels with their values as Prometheus wants them.

    Example:
        >>> print(_labels({"file": 'a "b".csv', "model": "x"}))
        {file="a \"b\".csv",model="x"}
    """
    escapes = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    inside = ",".join(f'{name}="{value.translate(escapes)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""
