"""The roster and the folder of methods name the same calibrators."""

import pkgutil
from importlib import import_module

import pytest

from calibrant.calibrators import Calibrator, available, build, methods
from calibrant.calibrators.selection import usual_candidates


def test_every_method_is_in_the_roster() -> None:
    """The roster holds every calibrator with a name that a file in ``methods/`` defines, and no other."""
    found: list[str] = []
    for file in pkgutil.iter_modules(methods.__path__):
        module = import_module(f"{methods.__name__}.{file.name}")
        found += [
            each.name
            for each in vars(module).values()
            if isinstance(each, type) and issubclass(each, Calibrator) and each.__module__ == module.__name__
            if "name" in vars(each)
        ]
    missing = sorted(set(found) - set(available()))
    assert not missing, f"import {', '.join(missing)} in calibrators/methods/__init__.py"
    assert sorted(found) == sorted(available())


@pytest.mark.parametrize("name", available())
def test_what_is_tried_by_default_can_be_fitted(name: str) -> None:
    """A calibrator asks to be tried only on kinds of predictions that it is for, and then it is."""
    calibrator = build(name)
    assert set(calibrator.tried_unasked) <= set(calibrator.kinds)
    for kind in calibrator.kinds:
        tried = name in usual_candidates(kind, 10**6, 1)
        assert tried == (kind in calibrator.tried_unasked)


def test_a_planted_calibrator_becomes_a_candidate(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that declares itself is tried by default, in its place by the numbers that it fits."""
    quadratic = type(build("quadratic"))
    monkeypatch.setattr(quadratic, "tried_unasked", ("binary",))
    assert usual_candidates("binary", 1000) == ("temperature", "platt", "beta", "quadratic", "isotonic")
