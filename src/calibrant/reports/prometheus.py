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


def prometheus_text(found: Monitoring) -> str:
    """Metrics in Prometheus's text format; those of a window are of the last one that has labels.

    Example:
        >>> import numpy as np
        >>> from calibrant import Predictions
        >>> from calibrant.evaluation import monitor
        >>> stream = Predictions(confidence=[0.5, 0.6] * 20, correct=[1, 0, 1, 1] * 10)
        >>> print(prometheus_text(monitor(stream, np.arange(40), window=20, bootstrap=10)).splitlines()[2])
        calibrant_monitor_alarm 0
    """
    rows: dict[str, list[tuple[str, float]]] = {name: [] for name in _HELP}
    rows["alarm"] = [("", 0 if found.passed else 1)]
    rows["samples"] = [("", found.num_samples)]
    rows["labelled_samples"] = [("", found.num_labelled)]
    for test in found.tests:
        label = f'{{test="{test.key}"}}'
        rows["evidence_log10"].append((label, test.log10_evidence[-1]))
        rows["threshold_log10"].append((label, test.log10_threshold))
    last = next((each for each in reversed(found.windows) if each.metrics), None)
    for name, estimate in {} if last is None else last.metrics.items():
        for bound in ("value", "low", "high"):
            if (number := getattr(estimate, bound)) is not None:
                rows["window"].append((f'{{metric="{name}",bound="{bound}"}}', number))
    if last is not None and last.end_seconds is not None:
        rows["window_end_seconds"] = [("", last.end_seconds)]
    lines: list[str] = []
    for name, values in rows.items():
        if values:
            full = f"calibrant_monitor_{name}"
            lines += [f"# HELP {full} {_HELP[name]}", f"# TYPE {full} gauge"]
            lines += [f"{full}{label} {number:.17g}" for label, number in values]
    return "\n".join(lines) + "\n"
