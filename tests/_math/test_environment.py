"""The model of the processor is told where the system tells it."""

from pathlib import Path

import pytest

from calibrant._math import machine as module

FACTS = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 85
model name\t: Intel(R) Xeon(R)
stepping\t: 7

processor\t: 1
vendor_id\t: GenuineIntel
stepping\t: 8
"""


def test_it_is_that_of_the_first_core(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = tmp_path / "cpuinfo"
    facts.write_text(FACTS, encoding="utf-8")
    monkeypatch.setattr(module, "_FACTS", facts)
    assert module.processor() == "GenuineIntel 6-85-7"


@pytest.mark.parametrize("facts", [None, "Processor\t: ARMv8\n"])
def test_without_these_facts_it_is_what_python_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: str | None
) -> None:
    file = tmp_path / "cpuinfo"
    if facts is not None:
        file.write_text(facts, encoding="utf-8")
    monkeypatch.setattr(module, "_FACTS", file)
    monkeypatch.setattr(module.platform, "processor", lambda: "")
    monkeypatch.setattr(module.platform, "machine", lambda: "riscv64")
    assert module.processor() == "riscv64"
