"""What a gate found as JUnit XML, which every CI system shows."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from dataclasses import replace

from calibrant.evaluation.gate.result import Check, GateResult
from calibrant.evaluation.quantities import with_gate


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
