"""What CI systems and collectors read: a gate as JUnit XML, a monitor as Prometheus metrics."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from calibrant.evaluation.gate.result import Check, GateResult
from calibrant.evaluation.monitoring.result import Monitoring
from calibrant.evaluation.quantities import with_gate

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


def junit_text(found: GateResult) -> str:
    """One test case per check, with its sentence as the message of a failure or as output.

    Example:
        >>> from calibrant.evaluation import check
        >>> from calibrant.predictions import Predictions
        >>> predictions = Predictions(confidence=[0.9] * 50, correct=[1] * 45 + [0] * 5)
        >>> text = junit_text(check(predictions, {"ece": 0.03}))
        >>> text.splitlines()[1]
        '<testsuites name="calibrant check" tests="1" failures="0" errors="0">'
    """
    name = "predictions" if found.source is None else found.source.name
    failed = sum(not each.passed for each in found.checks)
    root, suite = _suite(name, tests=len(found.checks), failures=failed)
    for each in found.checks:
        case = ET.SubElement(suite, "testcase", {"classname": f"calibrant.check.{name}", "name": _name(each)})
        if not each.passed:
            failure = ET.SubElement(case, "failure", {"message": each.sentence, "type": each.kind})
            failure.text = each.sentence
        else:
            ET.SubElement(case, "system-out").text = each.sentence
    if found.warnings:
        ET.SubElement(suite, "system-err").text = "\n".join(found.warnings)
    return _text(root)


def junit_error(name: str, sentence: str) -> str:
    """One test case with an error: why a file of that name could not be checked.

    Example:
        >>> junit_error("p.npz", "there is no such file.").splitlines()[4].strip()
        '<error message="there is no such file." type="error">there is no such file.</error>'
    """
    root, suite = _suite(name, tests=1, errors=1)
    case = ET.SubElement(suite, "testcase", {"classname": f"calibrant.check.{name}", "name": "check"})
    ET.SubElement(case, "error", {"message": sentence, "type": "error"}).text = sentence
    return _text(root)


def _suite(name: str, *, tests: int, failures: int = 0, errors: int = 0) -> tuple[ET.Element, ET.Element]:
    counts = {"tests": str(tests), "failures": str(failures), "errors": str(errors)}
    root = ET.Element("testsuites", {"name": "calibrant check", **counts})
    return root, ET.SubElement(
        root, "testsuite", {"name": f"calibrant check {name}", **counts, "skipped": "0"}
    )


def _text(root: ET.Element) -> str:
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    allowed = "".join(letter for letter in text if letter >= " " or letter in "\t\n")  # XML 1.0 has no others
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{allowed}\n'


def _name(each: Check) -> str:
    if each.group is not None:
        return f"{_name(replace(each, group=None))} in group {each.group}"
    if each.kind == "baseline":
        return f"{each.metric} no worse than the baseline"
    return f"{each.metric} at {'least' if with_gate()[each.metric].sign < 0 else 'most'} {each.against:g}"
